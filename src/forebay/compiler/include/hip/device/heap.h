// Memory that kernels allocate: malloc, free, new and delete. It is a variable of the program, 8 MiB, as much as CUDA's
// heap at first; programs that allocate nothing have none. What one kernel allocates another one of the same program
// may use and give back. When no room is left malloc returns a null pointer.
#pragma once

#include <hip/device/atomics.h>
#include <hip/device/barriers.h>
#include <stddef.h>
#include <new>

namespace __forebay {

inline constexpr unsigned heap_unit = 16, heap_units = (8 << 20) / heap_unit, heap_sizes = 20;

struct heap_state {
    // Of each size, 2^i units, the blocks that were given back: the first one's place + 1, and above it how often it was
    // taken off, so that no thread mistakes one that came back for one that stayed.
    unsigned long long first[heap_sizes];
    unsigned long long splits;  // see heap_split
    unsigned used;
    alignas(16) unsigned room[heap_units * heap_unit / 4];
};
inline __device__ heap_state heap;

// A block begins with its size, or, while it is free, with the next one's place + 1; its user gets what follows.
__DEVICE__ unsigned* heap_block(unsigned place) { return heap.room + place * (heap_unit / 4); }

// Takes a block of this size off those that were given back; null if there is none.
__DEVICE__ unsigned* heap_pop(unsigned size) {
    unsigned long long first = *(volatile unsigned long long*)&heap.first[size];
    while ((unsigned)first) {
        __threadfence();  // where the next one is was written before
        unsigned* block = heap_block((unsigned)first - 1);
        unsigned long long next = ((first >> 32) + 1) << 32 | *(volatile unsigned*)(block + 1);
        unsigned long long found = exchange_if_same<across_device>(&heap.first[size], first, next);
        if (found == first)
            return block;
        first = found;
    }
    return nullptr;
}

__DEVICE__ void heap_push(unsigned* block, unsigned size) {
    unsigned place = (unsigned)((block - heap.room) / (heap_unit / 4)) + 1;
    unsigned long long first = *(volatile unsigned long long*)&heap.first[size];
    for (;;) {
        *(volatile unsigned*)(block + 1) = (unsigned)first;
        __threadfence();
        unsigned long long next = first >> 32 << 32 | place;
        unsigned long long found = exchange_if_same<across_device>(&heap.first[size], first, next);
        if (found == first)
            return;
        first = found;
    }
}

// A block that was never handed out.
__DEVICE__ unsigned* heap_fresh(unsigned size) {
    unsigned used = *(volatile unsigned*)&heap.used;
    while (used + (1u << size) <= heap_units) {
        unsigned found = exchange_if_same<across_device>(&heap.used, used, used + (1u << size));
        if (found == used)
            return heap_block(used);
        used = found;
    }
    return nullptr;
}

// Makes blocks of this size of a larger one that was given back; false if there is none. Parts are never joined.
//
// While one thread does it another one finds neither the large block nor its parts, so `splits` says how many threads
// are at it, and above that how often it was done. Whoever waits does so in a loop in which the others go on: lanes of
// one vector leave a loop together.
__DEVICE__ bool heap_split(unsigned size, unsigned long long before) {
    for (unsigned larger = size + 1; larger < heap_sizes; larger++)
        if (*(volatile unsigned*)&heap.first[larger]) {
            atomicAdd(&heap.splits, 1ull);
            unsigned* block = heap_pop(larger);
            if (block) {
                while (larger-- > size)
                    heap_push(block + ((heap_unit / 4) << larger), larger);
                heap_push(block, size);
            }
            atomicAdd(&heap.splits, block ? (1ull << 32) - 1 : ~0ull);
            return true;
        }
    __threadfence();
    unsigned long long now = *(volatile unsigned long long*)&heap.splits;
    return (unsigned)now != 0 || now != before;
}

__DEVICE__ void* heap_take(size_t nbytes) {
    if (nbytes > sizeof heap.room - heap_unit)
        return nullptr;
    unsigned units = (unsigned)(nbytes + 2 * heap_unit - 1) / heap_unit;
    unsigned size = units > 1 ? 32 - (unsigned)__builtin_clz(units - 1) : 0;
    unsigned* block;
    unsigned long long before;
    do {
        before = *(volatile unsigned long long*)&heap.splits;
        __threadfence();
        block = heap_pop(size);
        if (!block)
            block = heap_fresh(size);
    } while (!block && heap_split(size, before));
    if (!block)
        return nullptr;
    *block = size;
    return block + heap_unit / 4;
}

__DEVICE__ void heap_give_back(void* pointer) {
    if (unsigned* block = pointer ? (unsigned*)pointer - heap_unit / 4 : nullptr)
        heap_push(block, *block);
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
