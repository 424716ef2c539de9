// HIP's names of CUDA's numbers of eight bits.
#pragma once
#include <cuda_fp8.h>
using __hip_fp8_e4m3 = __nv_fp8_e4m3;
using __hip_fp8_e5m2 = __nv_fp8_e5m2;
using __hip_fp8_storage_t = __nv_fp8_storage_t;
using __hip_fp8x2_storage_t = __nv_fp8x2_storage_t;
using __hip_fp8x4_storage_t = __nv_fp8x4_storage_t;
#define __HIP_SATFINITE __NV_SATFINITE
#define __HIP_NOSAT __NV_NOSAT
#define __HIP_E4M3 __NV_E4M3
#define __HIP_E5M2 __NV_E5M2
