// What hiprtc includes in every program without being asked. It is precompiled once.
#ifndef FOREBAY_PRELUDE_H
#define FOREBAY_PRELUDE_H

// Before the pragma: these stay functions of the host, and hip/device has its own for kernels. The macros make
// libc++'s and libstdc++'s stdlib.h hand on the C library's, and nothing of C++.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#define _LIBCPP_STDLIB_H
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <stdlib.h>
#undef _LIBCPP_STDLIB_H
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#if __has_include(<__new/global_new_delete.h>)
#include <__new/global_new_delete.h>
#endif

// No std::complex before a program asks for it (see `complex` beside this file); libc++ would declare it everywhere.
#define _LIBCPP___FWD_COMPLEX_H
#pragma clang force_cuda_host_device begin
#include <algorithm>
#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>
// The library's own sort calls itself, and that of numbers is compiled for the host only.
namespace std {
template <class T, class Less = std::less<T>> inline void sort(T* first, T* last, Less is_less = {}) {
    std::partial_sort(first, last, last, [&](const T& a, const T& b) { return is_less(a, b); });
}
}  // namespace std
#pragma clang force_cuda_host_device end
#undef _LIBCPP___FWD_COMPLEX_H

// What stands for code of the host that did not compile, and for its types (host_code): an error where kernels
// reach it.
template <int> __attribute__((host, noreturn)) int __forebay_left_out();
struct __forebay_is_left_out;

#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
#include <hip/hip_cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#endif
