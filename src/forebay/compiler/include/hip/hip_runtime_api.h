// The host's names that stand beside kernels, so that a file cut down to its kernels compiles. Nothing here is called.
#pragma once

#include <hip/hip_vector_types.h>
#include <hip/hip_version.h>
#include <hip/host_enumerations.h>
#include <stddef.h>

typedef struct ihipStream_t* hipStream_t;
typedef struct ihipEvent_t* hipEvent_t;
#define hipStreamLegacy ((hipStream_t)1)
#define hipStreamPerThread ((hipStream_t)2)
typedef struct ihipCtx_t* hipCtx_t;
typedef struct ihipModule_t* hipModule_t;
typedef struct ihipModuleSymbol_t* hipFunction_t;
typedef struct ihipGraph* hipGraph_t;
typedef struct hipGraphExec* hipGraphExec_t;
typedef struct hipGraphNode* hipGraphNode_t;
typedef struct ihipMemPoolHandle_t* hipMemPool_t;
typedef void* hipDeviceptr_t;
typedef int hipDevice_t;
typedef void (*hipHostFn_t)(void*);
typedef void (*hipStreamCallback_t)(hipStream_t, int, void*);


struct hipDeviceProp_t {
    char name[256], gcnArchName[256];
    size_t totalGlobalMem, totalConstMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
    size_t maxSharedMemoryPerMultiProcessor, memPitch, textureAlignment, texturePitchAlignment, surfaceAlignment;
    int major, minor, multiProcessorCount, warpSize, clockRate, clockInstructionRate, memoryClockRate, memoryBusWidth;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor;
    int regsPerBlock, regsPerMultiprocessor, l2CacheSize, persistingL2CacheMaxSize, computeMode, concurrentKernels;
    int asyncEngineCount, deviceOverlap, integrated, canMapHostMemory, unifiedAddressing, managedMemory;
    int concurrentManagedAccess, pageableMemoryAccess, cooperativeLaunch, cooperativeMultiDeviceLaunch, isMultiGpuBoard;
    int pciDomainID, pciBusID, pciDeviceID, kernelExecTimeoutEnabled, ECCEnabled, tccDriver, streamPrioritiesSupported;
    int maxTexture1D, maxTexture1DLinear, maxTexture2D[2], maxTexture3D[3], globalL1CacheSupported, localL1CacheSupported;
};

struct hipFuncAttributes {
    size_t constSizeBytes, localSizeBytes, sharedSizeBytes;
    int binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes, maxThreadsPerBlock, numRegs, preferredShmemCarveout;
    int ptxVersion;
};

struct hipPitchedPtr {
    void* ptr;
    size_t pitch, xsize, ysize;
};
struct hipExtent {
    size_t width, height, depth;
};
struct hipPos {
    size_t x, y, z;
};

__host__ hipError_t hipFree(void*);
template <class T>
__host__ hipError_t hipMalloc(T**, size_t);
template <class T>
__host__ hipError_t hipHostMalloc(T**, size_t, unsigned = 0);
template <class T>
__host__ hipError_t hipMallocManaged(T**, size_t, unsigned = 1);
__host__ hipError_t hipHostFree(void*);
__host__ hipError_t hipMemset(void*, int, size_t);
__host__ hipError_t hipMemcpy(void*, const void*, size_t, hipMemcpyKind);
__host__ hipError_t hipMemcpyAsync(void*, const void*, size_t, hipMemcpyKind, hipStream_t = nullptr);
__host__ hipError_t hipDeviceSynchronize();
__host__ hipError_t hipStreamSynchronize(hipStream_t);
__host__ hipError_t hipStreamCreate(hipStream_t*);
__host__ hipError_t hipStreamDestroy(hipStream_t);
__host__ hipError_t hipEventCreate(hipEvent_t*);
__host__ hipError_t hipEventRecord(hipEvent_t, hipStream_t = nullptr);
__host__ hipError_t hipEventSynchronize(hipEvent_t);
__host__ hipError_t hipEventElapsedTime(float*, hipEvent_t, hipEvent_t);
__host__ hipError_t hipEventDestroy(hipEvent_t);
__host__ hipError_t hipGetDevice(int*);
__host__ hipError_t hipSetDevice(int);
__host__ hipError_t hipGetDeviceCount(int*);
__host__ hipError_t hipGetDeviceProperties(hipDeviceProp_t*, int);
__host__ hipError_t hipGetLastError();
__host__ hipError_t hipPeekAtLastError();
__host__ const char* hipGetErrorString(hipError_t);
__host__ const char* hipGetErrorName(hipError_t);
