// Complex numbers of HIP: a float2 or a double2.
#pragma once

#include <hip/hip_runtime.h>

using hipFloatComplex = float2;
using hipDoubleComplex = double2;
using hipComplex = float2;

#define FOREBAY_COMPLEX(T, V, f)                                                                            \
    __host__ __device__ inline T hipCreal##f(V z) { return z.x; }                                           \
    __host__ __device__ inline T hipCimag##f(V z) { return z.y; }                                           \
    __host__ __device__ inline V hipConj##f(V z) { return {z.x, -z.y}; }                                    \
    __host__ __device__ inline T hipCsqabs##f(V z) { return z.x * z.x + z.y * z.y; }                        \
    __host__ __device__ inline V hipCadd##f(V a, V b) { return {a.x + b.x, a.y + b.y}; }                    \
    __host__ __device__ inline V hipCsub##f(V a, V b) { return {a.x - b.x, a.y - b.y}; }                    \
    __host__ __device__ inline V hipCmul##f(V a, V b) {                                                     \
        return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                                              \
    }                                                                                                       \
    __host__ __device__ inline V hipCdiv##f(V a, V b) {                                                     \
        T square = hipCsqabs##f(b);                                                                         \
        return {(a.x * b.x + a.y * b.y) / square, (a.y * b.x - a.x * b.y) / square};                        \
    }                                                                                                       \
    __host__ __device__ inline T hipCabs##f(V z) { return hypot(z.x, z.y); }                                \
    __host__ __device__ inline V hipCfma##f(V a, V b, V c) { return hipCadd##f(hipCmul##f(a, b), c); }
FOREBAY_COMPLEX(float, hipFloatComplex, f)
FOREBAY_COMPLEX(double, hipDoubleComplex, )
#undef FOREBAY_COMPLEX

__host__ __device__ inline hipFloatComplex make_hipFloatComplex(float x, float y) { return {x, y}; }
__host__ __device__ inline hipDoubleComplex make_hipDoubleComplex(double x, double y) { return {x, y}; }
__host__ __device__ inline hipComplex make_hipComplex(float x, float y) { return {x, y}; }
__host__ __device__ inline hipFloatComplex hipComplexDoubleToFloat(hipDoubleComplex z) { return {z.x, z.y}; }
__host__ __device__ inline hipDoubleComplex hipComplexFloatToDouble(hipFloatComplex z) { return {z.x, z.y}; }
