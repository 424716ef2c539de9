// CUDA's names of hip/hip_complex.h.
#pragma once
#include <hip/hip_complex.h>

using cuFloatComplex = hipFloatComplex;
using cuDoubleComplex = hipDoubleComplex;
using cuComplex = hipComplex;

#define FOREBAY_COMPLEX(T, V, f)                                                          \
    __host__ __device__ inline T cuCreal##f(V z) { return hipCreal##f(z); }               \
    __host__ __device__ inline T cuCimag##f(V z) { return hipCimag##f(z); }               \
    __host__ __device__ inline T cuCabs##f(V z) { return hipCabs##f(z); }                 \
    __host__ __device__ inline V cuConj##f(V z) { return hipConj##f(z); }                 \
    __host__ __device__ inline V cuCadd##f(V a, V b) { return hipCadd##f(a, b); }         \
    __host__ __device__ inline V cuCsub##f(V a, V b) { return hipCsub##f(a, b); }         \
    __host__ __device__ inline V cuCmul##f(V a, V b) { return hipCmul##f(a, b); }         \
    __host__ __device__ inline V cuCdiv##f(V a, V b) { return hipCdiv##f(a, b); }         \
    __host__ __device__ inline V cuCfma##f(V a, V b, V c) { return hipCfma##f(a, b, c); }
FOREBAY_COMPLEX(float, cuFloatComplex, f)
FOREBAY_COMPLEX(double, cuDoubleComplex, )
#undef FOREBAY_COMPLEX

// CuPy's programs use the names without f for both.
__host__ __device__ inline cuFloatComplex cuCadd(cuFloatComplex a, cuFloatComplex b) { return hipCaddf(a, b); }
__host__ __device__ inline cuFloatComplex cuCsub(cuFloatComplex a, cuFloatComplex b) { return hipCsubf(a, b); }
__host__ __device__ inline cuFloatComplex cuCmul(cuFloatComplex a, cuFloatComplex b) { return hipCmulf(a, b); }
__host__ __device__ inline cuFloatComplex cuCdiv(cuFloatComplex a, cuFloatComplex b) { return hipCdivf(a, b); }
__host__ __device__ inline float cuCabs(cuFloatComplex z) { return hipCabsf(z); }

__host__ __device__ inline cuFloatComplex make_cuFloatComplex(float x, float y) { return {x, y}; }
__host__ __device__ inline cuDoubleComplex make_cuDoubleComplex(double x, double y) { return {x, y}; }
__host__ __device__ inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
__host__ __device__ inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) { return {z.x, z.y}; }
__host__ __device__ inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return {z.x, z.y}; }
