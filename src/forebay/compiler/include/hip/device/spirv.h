// The built-ins of SPIR-V and OpenCL that are used here. clang's back end knows them by their mangled names.
#pragma once

#include <type_traits>

// Scopes and memory semantics, SPIR-V specification 3.27 and 3.25.
namespace __forebay {

enum scope { across_devices = 0, across_device = 1, work_group = 2, sub_group = 3 };

enum semantics {
    relaxed = 0,
    sequentially_consistent = 0x10,
    work_group_memory = 0x100,
    global_memory = 0x200,
    all_memory = work_group_memory | global_memory,
};

using uint4_native = unsigned __attribute__((ext_vector_type(4)));

// The bits of a value as another type of that size.
template <class To, class From>
__DEVICE__ To bits_as(From value) {
    return __builtin_bit_cast(To, value);
}

template <class T>
inline constexpr bool is_number = std::is_arithmetic_v<T>;

}  // namespace __forebay

__device__ void __spirv_ControlBarrier(int, int, int) __attribute__((convergent));
__device__ void __spirv_MemoryBarrier(int, int);

#define FOREBAY_EXCHANGE(T) __device__ T __spirv_AtomicCompareExchange(T*, int, int, int, T, T);
FOREBAY_EXCHANGE(int)
FOREBAY_EXCHANGE(unsigned)
FOREBAY_EXCHANGE(long)
FOREBAY_EXCHANGE(unsigned long)
#undef FOREBAY_EXCHANGE

namespace __forebay {

// `asm` gives OpenCL's mangled names to functions that a program cannot mistake for its own.
#define FOREBAY_OPENCL(result, name, mangled, ...) __device__ result name(__VA_ARGS__) __asm(mangled)

FOREBAY_OPENCL(unsigned, shuffle, "_Z17sub_group_shufflejj", unsigned, unsigned) __attribute__((convergent));
FOREBAY_OPENCL(unsigned long, shuffle, "_Z17sub_group_shufflemj", unsigned long, unsigned) __attribute__((convergent));
FOREBAY_OPENCL(uint4_native, ballot, "_Z16sub_group_balloti", int) __attribute__((convergent));
FOREBAY_OPENCL(int, all_of_block, "_Z14work_group_alli", int) __attribute__((convergent));
FOREBAY_OPENCL(int, any_of_block, "_Z14work_group_anyi", int) __attribute__((convergent));
FOREBAY_OPENCL(int, sum_of_block, "_Z21work_group_reduce_addi", int) __attribute__((convergent));
FOREBAY_OPENCL(long, mul_hi, "_Z6mul_hill", long, long);
FOREBAY_OPENCL(unsigned long, mul_hi, "_Z6mul_himm", unsigned long, unsigned long);
FOREBAY_OPENCL(int, print, "_Z6printfPU3AS1Kcz", const __attribute__((address_space(1))) char*, ...);

}  // namespace __forebay
