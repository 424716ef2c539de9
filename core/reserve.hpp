// A reserve of host memory, so that nothing runs out of memory in the middle of a command: undoing half a command would
// itself need memory, so allocations under a lock must not fail. The modules' `operator new` takes a piece when malloc
// fails, `operator delete` puts it back, and a command begins only when the reserve is whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <malloc.h>

#include "core/ownership.hpp"

namespace forebay {

class Reserve {
    static constexpr std::size_t SIZES[] = {256, 4 << 10, 64 << 10, 1 << 20};
    static constexpr int COUNTS[] = {256, 64, 16, 2};
    static constexpr int KINDS = 4, MOST = 256;

    std::atomic<bool> broken{true};  // a piece was taken, or none were set aside yet
    Lock lock;
    int counts[KINDS] GUARDED_BY(lock) = {};
    void* pieces[KINDS][MOST] GUARDED_BY(lock) = {};

    bool restock() noexcept {
        bool whole = true;
        Guard guard(lock);
        for (int kind = 0; kind < KINDS; kind++) {
            while (whole && counts[kind] < COUNTS[kind]) {
                void* piece = std::malloc(SIZES[kind]);
                whole = piece != nullptr;
                if (whole) pieces[kind][counts[kind]++] = piece;
            }
        }
        broken.store(!whole, std::memory_order_relaxed);
        return whole;
    }

  public:
    // Return a piece of at least `nbytes` bytes, which `free` releases; NULL when none is left.
    void* take(std::size_t nbytes) noexcept {
        void* piece = nullptr;
        Guard guard(lock);
        for (int kind = 0; kind < KINDS && piece == nullptr; kind++)
            if (nbytes <= SIZES[kind] && counts[kind] > 0) piece = pieces[kind][--counts[kind]];
        broken.store(true, std::memory_order_relaxed);
        return piece;
    }

    // Keep released memory, if a piece of its size is missing; otherwise the caller frees it.
    bool keep(void* memory) noexcept {
        return __builtin_expect(broken.load(std::memory_order_relaxed), 0) && put(memory);
    }

    __attribute__((noinline, cold)) bool put(void* memory) noexcept {
        bool kept = false;
        std::size_t nbytes = malloc_usable_size(memory);
        Guard guard(lock);
        for (int kind = KINDS - 1; kind >= 0 && !kept; kind--) {
            kept = nbytes >= SIZES[kind] && counts[kind] < COUNTS[kind];
            if (kept) pieces[kind][counts[kind]++] = memory;
        }
        return kept;
    }

    bool is_short() noexcept { return broken.load(std::memory_order_relaxed) && !restock(); }

    // Whether less is left than commands that have begun may still need.
    bool is_low() noexcept {
        if (!is_short()) return false;
        Guard guard(lock);
        return counts[0] < COUNTS[0] / 4;
    }
};

// One for all modules: an inline variable of default visibility is unique in the process (GCC, STB_GNU_UNIQUE). Other
// compilers may give each module its own, of which only those that begin commands are restocked.
__attribute__((visibility("default"))) inline Reserve reserve;

}  // namespace forebay

#ifdef FOREBAY_OPERATOR_NEW  // in the one object that setup.py links into each module

void* operator new(std::size_t nbytes) {
    if (void* memory = std::malloc(nbytes ? nbytes : 1)) return memory;
    if (void* memory = forebay::reserve.take(nbytes)) return memory;
    throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
    if (!forebay::reserve.keep(memory)) std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    if (!forebay::reserve.keep(memory)) std::free(memory);
}

#endif
