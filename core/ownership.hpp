// References, counted in what they refer to. A plain pointer is borrowed; a reference that is kept is a `Ref`, or one
// of several in `Refs`. A `Ref` reads as the plain pointer, and to assign a plain pointer shares what that points to.
//
// What is referred to has an atomic `references`, 1 when it is made, and a `destroy` that the last reference calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

namespace forebay {

// These two are for references that an atomic, a list of links or a Python object holds as plain pointers.
template <class T> T *retain(T *object) noexcept {
    object->references.fetch_add(1, std::memory_order_relaxed);
    return object;
}

template <class T> void release(T *object) noexcept {
    if (object->references.fetch_sub(1, std::memory_order_acq_rel) == 1) object->destroy(object);
}

template <class T> class Ref {
    T *object = nullptr;

  public:
    Ref() noexcept = default;
    Ref(T *borrowed) noexcept : object(borrowed ? retain(borrowed) : nullptr) {}
    Ref(const Ref &other) noexcept : object(other.object ? retain(other.object) : nullptr) {}
    Ref(Ref &&other) noexcept : object(other.take()) {}
    Ref &operator=(Ref other) noexcept {
        std::swap(object, other.object);
        return *this;
    }
    ~Ref() {
        if (object) release(object);
    }

    static Ref adopt(T *owned) noexcept {
        Ref made;
        made.object = owned;
        return made;
    }
    static Ref share(T *borrowed) noexcept { return Ref(borrowed); }

    T *get() const noexcept { return object; }
    operator T *() const noexcept { return object; }
    T *operator->() const noexcept { return object; }
    T *take() noexcept { return std::exchange(object, nullptr); }  // the caller owns it then
    void clear() noexcept { *this = Ref(); }
};

// A list of references. To go through it gives plain pointers, so that no count changes.
template <class T> class Refs {
    std::vector<Ref<T>> each;

  public:
    class iterator {
        const Ref<T> *at = nullptr;

      public:
        iterator() = default;
        explicit iterator(const Ref<T> *at) : at(at) {}
        T *operator*() const noexcept { return at->get(); }
        iterator &operator++() noexcept {
            ++at;
            return *this;
        }
        bool operator!=(const iterator &other) const noexcept { return at != other.at; }
    };

    iterator begin() const noexcept { return iterator(each.data()); }
    iterator end() const noexcept { return iterator(each.data() + each.size()); }
    T *operator[](size_t index) const noexcept { return each[index].get(); }
    T *back() const noexcept { return each.back().get(); }
    size_t size() const noexcept { return each.size(); }
    bool empty() const noexcept { return each.empty(); }

    void reserve(size_t count) { each.reserve(count); }
    void adopt(T *owned) { each.push_back(Ref<T>::adopt(owned)); }
    void share(T *borrowed) { each.push_back(Ref<T>::share(borrowed)); }
    void push_back(Ref<T> reference) { each.push_back(std::move(reference)); }
    void pop_back() noexcept { each.pop_back(); }
    void clear() noexcept { each.clear(); }
    void swap(Refs &other) noexcept { each.swap(other.each); }
};

}  // namespace forebay
