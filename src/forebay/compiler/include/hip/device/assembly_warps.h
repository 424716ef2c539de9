// What assembly becomes C++ with that a warp does together, and addresses within shared memory, see
// forebay/hiprtc/assembly/warps.py. Layouts of matrices are those of NVIDIA's "Parallel Thread Execution ISA", 9.7.14.
#pragma once

#include <hip/device/assembly.h>
#include <hip/device/warps.h>

namespace __forebay {

// -- an address within shared memory: how far it is from a variable that is there

__DEVICE__ char* shared_begin() {
    __shared__ __attribute__((aligned(128))) char begin[16];
    return begin;
}
__DEVICE__ unsigned asm_shared_address(const void* pointer) {
    return (unsigned)((unsigned long long)pointer - (unsigned long long)shared_begin());
}
__DEVICE__ char* asm_shared_pointer(unsigned address) { return shared_begin() + (int)address; }

// The rest of `size` bytes becomes 0.
__DEVICE__ void asm_copy(char* to, const char* from, unsigned size, unsigned count) {
    for (unsigned i = 0; i < size; i += 4)
        *(unsigned*)(to + i) = i + 4 <= count ? *(const unsigned*)(from + i) : 0;
}
__DEVICE__ void asm_copy(char* to, const char* from, unsigned size) { asm_copy(to, from, size, size); }

// -- warps

// 0 up, 1 down, 2 exclusive or, 3 by number; within the parts that `c` tells.
template <int Way>
__DEVICE__ unsigned asm_shuffle(unsigned value, unsigned b, unsigned c, bool& there) {
    int lane = (int)__lane_id(), by = b & 31, part = c >> 8 & 31, first = lane & part, last = first | (c & 31 & ~part);
    int source = Way == 0 ? lane - by : Way == 1 ? lane + by : Way == 2 ? lane ^ by : first | (by & ~part);
    there = Way == 0 ? source >= last : source <= last;
    return from_lane(value, (unsigned)(there ? source : lane));
}
__DEVICE__ int asm_all_same(bool predicate) { return __all(predicate) || __all(!predicate); }

// -- matrices

template <bool Transposed>
__DEVICE__ unsigned asm_matrix(const char* row, unsigned number) {
    unsigned lane = __lane_id(), part = lane / 4, pair = lane % 4;
    if constexpr (!Transposed) {
        const char* from = from_lane(row, 8 * number + part);
        return *(const unsigned*)(from + 4 * pair);
    } else {
        const char* low = from_lane(row, 8 * number + 2 * pair);
        const char* high = from_lane(row, 8 * number + 2 * pair + 1);
        return *(const unsigned short*)(low + 2 * part) | (unsigned)*(const unsigned short*)(high + 2 * part) << 16;
    }
}

struct asm_bf16 {
    unsigned short bits;
    __DEVICE__ operator float() const { return __builtin_bit_cast(float, (unsigned)bits << 16); }
};

// D = A · B + D of 16 by 8 numbers. A lane has of each row of A, and of each column of B, as many neighbours as a
// register holds.
template <class A, class B, class Sum, int As, int Bs, int Ds>
__DEVICE__ void asm_product(const unsigned (&a)[As], const unsigned (&b)[Bs], unsigned (&d)[Ds]) {
    using wide = std::conditional_t<std::is_same_v<Sum, _Float16>, float, Sum>;
    constexpr int each = 4 / sizeof(A);
    unsigned lane = __lane_id(), row = lane / 4, pair = lane % 4;
    Sum of_half[4];
    static_assert(Ds * 4 == (int)sizeof(of_half));
    __builtin_memcpy(of_half, d, sizeof(of_half));
    wide sums[4] = {(wide)of_half[0], (wide)of_half[1], (wide)of_half[2], (wide)of_half[3]};
    for (int k = 0; k < Bs; k++)
        for (unsigned part = 0; part < 4; part++) {
            unsigned upper = from_lane(a[2 * k], 4 * row + part), lower = from_lane(a[2 * k + 1], 4 * row + part);
            unsigned left = from_lane(b[k], 8 * pair + part), right = from_lane(b[k], 8 * pair + 4 + part);
            A rows[2][each];
            B columns[2][each];
            __builtin_memcpy(rows[0], &upper, 4), __builtin_memcpy(rows[1], &lower, 4);
            __builtin_memcpy(columns[0], &left, 4), __builtin_memcpy(columns[1], &right, 4);
            for (int i = 0; i < 4; i++)
                for (int e = 0; e < each; e++)
                    sums[i] += (wide)rows[i / 2][e] * (wide)columns[i % 2][e];
        }
    for (int i = 0; i < 4; i++)
        of_half[i] = (Sum)sums[i];
    __builtin_memcpy(d, of_half, sizeof(of_half));
}

}  // namespace __forebay

__DEVICE__ size_t __cvta_generic_to_shared(const void* pointer) { return __forebay::asm_shared_address(pointer); }
__DEVICE__ void* __cvta_shared_to_generic(size_t address) { return __forebay::asm_shared_pointer((unsigned)address); }
__DEVICE__ unsigned __nvvm_get_smem_pointer(void* pointer) { return __forebay::asm_shared_address(pointer); }
