// Memory that kernels allocate: malloc, free, new and delete. It is a variable of the program, 8 MiB, as much as CUDA's
// heap at first; programs that allocate nothing have none. What one kernel allocates another one of the same program
// may use and give back. When no room is left malloc returns a null pointer.
#pragma once

#include <hip/device/atomics.h>
#include <stddef.h>
#include <new>

namespace __forebay {

inline constexpr unsigned heap_unit = 16, heap_units = (8 << 20) / heap_unit, heap_sizes = 20;

struct heap_state {
    // Of each size, 2^i units, the blocks that were given back: the first one's place + 1, and above it how often it was
    // taken off, so that nobody mistakes one that came back for one that stayed.
    unsigned long long first[heap_sizes];
    unsigned used;
    alignas(16) unsigned room[heap_units * heap_unit / 4];
};
inline __device__ heap_state heap;

// A block begins with its size, or with the next one's place + 1 when nobody has it; its user gets what follows.
__DEVICE__ unsigned* heap_block(unsigned place) { return heap.room + place * (heap_unit / 4); }

__DEVICE__ void* heap_take(size_t nbytes) {
    if (nbytes >= sizeof heap.room)
        return nullptr;
    unsigned units = (unsigned)(nbytes + 2 * heap_unit - 1) / heap_unit;
    unsigned size = units > 1 ? 32 - (unsigned)__builtin_clz(units - 1) : 0;
    unsigned long long first = *(volatile unsigned long long*)&heap.first[size];
    while ((unsigned)first) {
        unsigned* block = heap_block((unsigned)first - 1);
        unsigned long long next = ((first >> 32) + 1) << 32 | *(volatile unsigned*)(block + 1);
        unsigned long long found = exchange_if_same<across_device>(&heap.first[size], first, next);
        if (found == first)
            return block + heap_unit / 4;
        first = found;
    }
    unsigned used = *(volatile unsigned*)&heap.used;
    while (used + (1u << size) <= heap_units) {
        unsigned found = exchange_if_same<across_device>(&heap.used, used, used + (1u << size));
        if (found == used) {
            unsigned* block = heap_block(used);
            *block = size;
            return block + heap_unit / 4;
        }
        used = found;
    }
    return nullptr;
}

__DEVICE__ void heap_give_back(void* pointer) {
    if (!pointer)
        return;
    unsigned* block = (unsigned*)pointer - heap_unit / 4;
    unsigned size = *block, place = (unsigned)((block - heap.room) / (heap_unit / 4)) + 1;
    unsigned long long first = *(volatile unsigned long long*)&heap.first[size];
    for (;;) {
        *(volatile unsigned*)(block + 1) = (unsigned)first;
        unsigned long long next = first >> 32 << 32 | place;
        unsigned long long found = exchange_if_same<across_device>(&heap.first[size], first, next);
        if (found == first)
            return;
        first = found;
    }
}

}  // namespace __forebay

extern "C" {
__DEVICE__ void* malloc(size_t nbytes) { return __forebay::heap_take(nbytes); }
__DEVICE__ void free(void* pointer) { __forebay::heap_give_back(pointer); }
}

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winline-new-delete"
__DEVICE__ void* operator new(size_t nbytes) { return malloc(nbytes); }
__DEVICE__ void* operator new[](size_t nbytes) { return malloc(nbytes); }
__DEVICE__ void* operator new(size_t nbytes, const std::nothrow_t&) noexcept { return malloc(nbytes); }
__DEVICE__ void* operator new[](size_t nbytes, const std::nothrow_t&) noexcept { return malloc(nbytes); }
__DEVICE__ void operator delete(void* pointer) noexcept { free(pointer); }
__DEVICE__ void operator delete[](void* pointer) noexcept { free(pointer); }
__DEVICE__ void operator delete(void* pointer, size_t) noexcept { free(pointer); }
__DEVICE__ void operator delete[](void* pointer, size_t) noexcept { free(pointer); }
#pragma clang diagnostic pop
