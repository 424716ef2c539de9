// HIP's names of CUDA's bfloat16.
#pragma once
#include <cuda_bf16.h>
using __hip_bfloat16 = __nv_bfloat16;
using __hip_bfloat162 = __nv_bfloat162;
using hip_bfloat16 = __nv_bfloat16;
using __hip_bfloat16_raw = __nv_bfloat16_raw;
