// CUDA's names of hip/hip_fp8.h; what is no number differs in e5m2.
#pragma once
#include <hip/hip_fp8.h>

typedef __hip_fp8_storage_t __nv_fp8_storage_t;
typedef __hip_fp8x2_storage_t __nv_fp8x2_storage_t;
typedef __hip_fp8x4_storage_t __nv_fp8x4_storage_t;
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };

namespace __forebay {
__host__ __device__ constexpr fp8_format nv_fp8_format_of(int kind) {
    return kind == __NV_E4M3 ? fp8_format_of(__HIP_E4M3) : fp8_format{2, 15, 0x7b, 0x7c, 0x7e, false};
}
struct fp8_nv_e5m2 { static constexpr fp8_format format = nv_fp8_format_of(__NV_E5M2); };
}  // namespace __forebay

FOREBAY_FP8(__nv_, e4m3)
using __nv_fp8_e5m2 = __forebay::fp8<__forebay::fp8_nv_e5m2>;
using __nv_fp8x2_e5m2 = __forebay::fp8x2<__forebay::fp8_nv_e5m2>;
using __nv_fp8x4_e5m2 = __forebay::fp8x4<__forebay::fp8_nv_e5m2>;
FOREBAY_FP8_FUNCTIONS(nv, __forebay::nv_fp8_format_of)
