// Thrust's pointers to memory of the device.
#pragma once
#include <hip/hip_runtime.h>
#include <iterator>

namespace thrust {

template <class T>
class device_ptr {
    T* pointer_ = nullptr;

  public:
    using value_type = T;
    using reference = T&;
    using pointer = T*;
    using difference_type = ptrdiff_t;
    using iterator_category = std::random_access_iterator_tag;

    device_ptr() = default;
    __host__ __device__ explicit device_ptr(T* pointer) : pointer_(pointer) {}
    __host__ __device__ T* get() const { return pointer_; }
    __host__ __device__ T& operator*() const { return *pointer_; }
    __host__ __device__ T* operator->() const { return pointer_; }
    __host__ __device__ T& operator[](ptrdiff_t i) const { return pointer_[i]; }
    __host__ __device__ device_ptr operator+(ptrdiff_t n) const { return device_ptr(pointer_ + n); }
    __host__ __device__ device_ptr operator-(ptrdiff_t n) const { return device_ptr(pointer_ - n); }
    __host__ __device__ ptrdiff_t operator-(device_ptr other) const { return pointer_ - other.pointer_; }
    __host__ __device__ device_ptr& operator++() {
        ++pointer_;
        return *this;
    }
    __host__ __device__ bool operator==(device_ptr other) const { return pointer_ == other.pointer_; }
    __host__ __device__ bool operator!=(device_ptr other) const { return pointer_ != other.pointer_; }
    __host__ __device__ bool operator<(device_ptr other) const { return pointer_ < other.pointer_; }
};

template <class T>
__host__ __device__ device_ptr<T> device_pointer_cast(T* pointer) {
    return device_ptr<T>(pointer);
}
template <class T>
__host__ __device__ T* raw_pointer_cast(device_ptr<T> pointer) {
    return pointer.get();
}
template <class T>
__host__ __device__ T* raw_pointer_cast(T* pointer) {
    return pointer;
}
template <class T>
__host__ __device__ T& raw_reference_cast(T& reference) {
    return reference;
}

}  // namespace thrust
