// CUDA's names of what a kernel's file has from its runtime.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/textures/cuda_names.h>

// What programs compare with the version that brought a function.
#define CUDART_VERSION 12000
#define CUDA_VERSION 12000

using cudaError_t = hipError_t;
using cudaError = hipError_t;
using cudaStream_t = hipStream_t;
using cudaEvent_t = hipEvent_t;
using cudaMemcpyKind = hipMemcpyKind;
using cudaDeviceProp = hipDeviceProp_t;
using cudaPitchedPtr = hipPitchedPtr;
using cudaExtent = hipExtent;
using cudaPos = hipPos;

inline constexpr cudaError_t cudaSuccess = hipSuccess;
inline constexpr cudaError_t cudaErrorInvalidValue = hipErrorInvalidValue;
inline constexpr cudaError_t cudaErrorMemoryAllocation = hipErrorMemoryAllocation;
inline constexpr hipMemcpyKind cudaMemcpyHostToDevice = hipMemcpyHostToDevice;
inline constexpr hipMemcpyKind cudaMemcpyDeviceToHost = hipMemcpyDeviceToHost;
inline constexpr hipMemcpyKind cudaMemcpyDeviceToDevice = hipMemcpyDeviceToDevice;

__host__ const char* cudaGetErrorString(cudaError_t);
__host__ const char* cudaGetErrorName(cudaError_t);
__host__ cudaError_t cudaGetLastError();
__host__ cudaError_t cudaDeviceSynchronize();
__host__ cudaError_t cudaFree(void*);
__host__ cudaError_t cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind);
template <class T>
__host__ cudaError_t cudaMalloc(T**, size_t);

// In a kernel they are those of its heap.
__DEVICE__ cudaError_t cudaFree(void* pointer) {
    free(pointer);
    return cudaSuccess;
}
template <class T>
__DEVICE__ cudaError_t cudaMalloc(T** pointer, size_t nbytes) {
    *pointer = (T*)malloc(nbytes);
    return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}
