// CUDA's names of what a kernel's file has from its runtime.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/host_functions.h>
#include <hip/hip_texture_types.h>

// What programs compare with the version that brought a function.
#define CUDART_VERSION 12000
#define CUDA_VERSION 12000

using cudaError_t = hipError_t;
using cudaError = hipError_t;
// Programs declare these again, by the names of CUDA's structures.
#define CUstream_st ihipStream_t
#define CUevent_st ihipEvent_t
using cudaStream_t = hipStream_t;
using cudaEvent_t = hipEvent_t;
using cudaStreamCaptureStatus = hipStreamCaptureStatus;
using cudaStreamCaptureMode = hipStreamCaptureMode;
using cudaMemcpyKind = hipMemcpyKind;
using cudaDeviceProp = hipDeviceProp_t;
using cudaFuncAttributes = hipFuncAttributes;
using cudaGraph_t = hipGraph_t;
using cudaGraphExec_t = hipGraphExec_t;
using cudaGraphNode_t = hipGraphNode_t;
using cudaMemPool_t = hipMemPool_t;
using cudaPitchedPtr = hipPitchedPtr;
using cudaExtent = hipExtent;
using cudaPos = hipPos;

inline constexpr cudaError_t cudaSuccess = hipSuccess;
inline constexpr cudaError_t cudaErrorInvalidValue = hipErrorInvalidValue;
inline constexpr cudaError_t cudaErrorMemoryAllocation = hipErrorMemoryAllocation;
inline constexpr hipMemcpyKind cudaMemcpyHostToHost = hipMemcpyHostToHost;
inline constexpr hipMemcpyKind cudaMemcpyDefault = hipMemcpyDefault;
inline constexpr hipMemcpyKind cudaMemcpyHostToDevice = hipMemcpyHostToDevice;
inline constexpr hipMemcpyKind cudaMemcpyDeviceToHost = hipMemcpyDeviceToHost;
inline constexpr hipMemcpyKind cudaMemcpyDeviceToDevice = hipMemcpyDeviceToDevice;

inline constexpr cudaStreamCaptureStatus cudaStreamCaptureStatusNone = hipStreamCaptureStatusNone;
inline constexpr cudaStreamCaptureStatus cudaStreamCaptureStatusActive = hipStreamCaptureStatusActive;
inline constexpr cudaStreamCaptureStatus cudaStreamCaptureStatusInvalidated = hipStreamCaptureStatusInvalidated;
inline constexpr cudaStreamCaptureMode cudaStreamCaptureModeGlobal = hipStreamCaptureModeGlobal;
inline constexpr cudaStreamCaptureMode cudaStreamCaptureModeThreadLocal = hipStreamCaptureModeThreadLocal;
inline constexpr cudaStreamCaptureMode cudaStreamCaptureModeRelaxed = hipStreamCaptureModeRelaxed;

inline constexpr cudaError_t cudaErrorNotReady = hipErrorNotReady;
inline constexpr cudaError_t cudaErrorNotSupported = hipErrorNotSupported;
inline constexpr cudaError_t cudaErrorUnknown = hipErrorUnknown;
inline constexpr cudaError_t cudaErrorLaunchFailure = hipErrorLaunchFailure;
#define cudaStreamDefault 0
#define cudaStreamNonBlocking 1
#define cudaEventDefault 0
#define cudaEventBlockingSync 1
#define cudaEventDisableTiming 2
#define cudaHostAllocDefault 0
#define cudaHostAllocPortable 1
#define cudaHostAllocMapped 2
#define cudaHostAllocWriteCombined 4
#define cudaMemAttachGlobal 1
#define cudaMemAttachHost 2

__host__ const char* cudaGetErrorString(cudaError_t);
__host__ const char* cudaGetErrorName(cudaError_t);
__host__ cudaError_t cudaGetLastError();
__host__ cudaError_t cudaDeviceSynchronize();
__host__ cudaError_t cudaFree(void*);
__host__ cudaError_t cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind);
template <class T>
__host__ cudaError_t cudaMalloc(T**, size_t);

// Textures and surfaces, whose functions have the same names in both. Objects are numbers, as in CUDA: programs take
// them apart and put them together.
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef cudaTextureObject_t CUtexObject;
typedef cudaSurfaceObject_t CUsurfObject;
using cudaArray_t = hipArray_t;
using cudaArray = hipArray;
using cudaMipmappedArray_t = hipMipmappedArray_t;
using cudaTextureReadMode = hipTextureReadMode;
using cudaTextureAddressMode = hipTextureAddressMode;
using cudaTextureFilterMode = hipTextureFilterMode;
using cudaSurfaceBoundaryMode = hipSurfaceBoundaryMode;
using cudaChannelFormatKind = hipChannelFormatKind;
using cudaChannelFormatDesc = hipChannelFormatDesc;
using cudaResourceType = hipResourceType;
using cudaResourceDesc = hipResourceDesc;
using cudaTextureDesc = hipTextureDesc;

inline constexpr hipTextureReadMode cudaReadModeElementType = hipReadModeElementType;
inline constexpr hipTextureReadMode cudaReadModeNormalizedFloat = hipReadModeNormalizedFloat;
inline constexpr hipTextureAddressMode cudaAddressModeWrap = hipAddressModeWrap;
inline constexpr hipTextureAddressMode cudaAddressModeClamp = hipAddressModeClamp;
inline constexpr hipTextureAddressMode cudaAddressModeMirror = hipAddressModeMirror;
inline constexpr hipTextureAddressMode cudaAddressModeBorder = hipAddressModeBorder;
inline constexpr hipTextureFilterMode cudaFilterModePoint = hipFilterModePoint;
inline constexpr hipTextureFilterMode cudaFilterModeLinear = hipFilterModeLinear;
inline constexpr hipSurfaceBoundaryMode cudaBoundaryModeZero = hipBoundaryModeZero;
inline constexpr hipSurfaceBoundaryMode cudaBoundaryModeTrap = hipBoundaryModeTrap;
inline constexpr hipSurfaceBoundaryMode cudaBoundaryModeClamp = hipBoundaryModeClamp;
inline constexpr hipChannelFormatKind cudaChannelFormatKindSigned = hipChannelFormatKindSigned;
inline constexpr hipChannelFormatKind cudaChannelFormatKindUnsigned = hipChannelFormatKindUnsigned;
inline constexpr hipChannelFormatKind cudaChannelFormatKindFloat = hipChannelFormatKindFloat;
inline constexpr int cudaTextureType1D = hipTextureType1D;
inline constexpr int cudaTextureType2D = hipTextureType2D;
inline constexpr int cudaTextureType3D = hipTextureType3D;
inline constexpr int cudaTextureTypeCubemap = hipTextureTypeCubemap;
inline constexpr int cudaTextureType1DLayered = hipTextureType1DLayered;
inline constexpr int cudaTextureType2DLayered = hipTextureType2DLayered;
inline constexpr int cudaTextureTypeCubemapLayered = hipTextureTypeCubemapLayered;

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
