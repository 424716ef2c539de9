// What hiprtc includes in every program for NVRTC without being asked.
#pragma once

// NVRTC refuses functions of the host, and can take those that do not say where they run for the device's
// (-default-device). Then the host's part of a program is read like its kernels' part, and as no kernel reaches it, no
// code comes of it.
#undef __host__
#define __host__
// As nvcc takes it, which C++17 has not.
#define register
// A function of these headers.
#define __DEVICE__ __device__ __forceinline__

// What stands for code of the host that did not compile, and for its types (host_code): it is defined nowhere.
template <int>
__device__ int __forebay_left_out();
struct __forebay_is_left_out;

#include <hip/hip_runtime.h>
