// Functions of the host's runtime by name only. Programs that are compiled whole have host functions, which clang reads and
// then leaves out; nothing here is called.
#pragma once

#include <hip/hip_runtime_api.h>

// What a launch with <<<>>> becomes, in host functions.
extern "C" __host__ hipError_t hipConfigureCall(dim3, dim3, size_t = 0, hipStream_t = nullptr);

// Launches as HIP writes them; of a kernel's template they say which instance is wanted.
#define FOREBAY_LAUNCH(kernel, grid, block, shared, stream, ...) kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
#define hipLaunchKernelGGL(kernel, ...) FOREBAY_LAUNCH((kernel), __VA_ARGS__)

// They have bodies, since nothing else could define them for types of the program's own, such as lambdas.
#define FOREBAY_CUDA(name)         \
    template <class... Arguments>  \
    __host__ hipError_t cuda##name(Arguments&&...) { return hipError_t(); }
#define FOREBAY_HOST(name)         \
    FOREBAY_CUDA(name)             \
    template <class... Arguments>  \
    __host__ hipError_t hip##name(Arguments&&...) { return hipError_t(); }
FOREBAY_HOST(ArrayDestroy) FOREBAY_HOST(BindTexture) FOREBAY_HOST(BindTexture2D) FOREBAY_HOST(BindTextureToArray)
FOREBAY_HOST(BindTextureToMipmappedArray) FOREBAY_HOST(CreateSurfaceObject) FOREBAY_HOST(CreateTextureObject)
FOREBAY_HOST(DestroySurfaceObject) FOREBAY_HOST(DestroyTextureObject) FOREBAY_HOST(DeviceCanAccessPeer)
FOREBAY_HOST(DeviceDisablePeerAccess) FOREBAY_HOST(DeviceEnablePeerAccess) FOREBAY_HOST(DeviceGetAttribute)
FOREBAY_HOST(DeviceGetByPCIBusId) FOREBAY_HOST(DeviceGetCacheConfig) FOREBAY_HOST(DeviceGetLimit)
FOREBAY_HOST(DeviceGetName) FOREBAY_HOST(DeviceGetPCIBusId) FOREBAY_HOST(DeviceGetSharedMemConfig)
FOREBAY_HOST(DeviceGetStreamPriorityRange) FOREBAY_HOST(DeviceReset) FOREBAY_HOST(DeviceSetCacheConfig)
FOREBAY_HOST(DeviceSetLimit) FOREBAY_HOST(DeviceSetMemPool) FOREBAY_HOST(DeviceSetSharedMemConfig)
FOREBAY_HOST(DriverGetVersion) FOREBAY_HOST(EventCreateWithFlags) FOREBAY_HOST(EventQuery) FOREBAY_HOST(FreeArray)
FOREBAY_HOST(FreeAsync) FOREBAY_HOST(FreeHost) FOREBAY_HOST(FreeMipmappedArray) FOREBAY_HOST(FuncGetAttributes)
FOREBAY_HOST(FuncSetAttribute) FOREBAY_HOST(FuncSetCacheConfig) FOREBAY_HOST(FuncSetSharedMemConfig)
FOREBAY_HOST(GetChannelDesc) FOREBAY_HOST(GetSymbolAddress) FOREBAY_HOST(GetSymbolSize)
FOREBAY_HOST(GetTextureReference) FOREBAY_HOST(GraphAddKernelNode) FOREBAY_HOST(GraphAddMemcpyNode)
FOREBAY_HOST(GraphCreate) FOREBAY_HOST(GraphDestroy) FOREBAY_HOST(GraphExecDestroy) FOREBAY_HOST(GraphExecUpdate)
FOREBAY_HOST(GraphInstantiate) FOREBAY_HOST(GraphLaunch) FOREBAY_HOST(HostAlloc) FOREBAY_HOST(HostGetDevicePointer)
FOREBAY_HOST(HostGetFlags) FOREBAY_HOST(HostRegister) FOREBAY_HOST(HostUnregister) FOREBAY_HOST(Init)
FOREBAY_HOST(IpcCloseMemHandle) FOREBAY_HOST(IpcGetMemHandle) FOREBAY_HOST(IpcOpenMemHandle)
FOREBAY_HOST(LaunchCooperativeKernel) FOREBAY_HOST(LaunchCooperativeKernelMultiDevice) FOREBAY_HOST(LaunchHostFunc)
FOREBAY_HOST(LaunchKernel) FOREBAY_HOST(LaunchKernelEx) FOREBAY_HOST(Malloc3D) FOREBAY_HOST(Malloc3DArray)
FOREBAY_HOST(MallocArray) FOREBAY_HOST(MallocAsync) FOREBAY_HOST(MallocHost) FOREBAY_HOST(MallocMipmappedArray)
FOREBAY_HOST(MallocPitch) FOREBAY_HOST(MemAdvise) FOREBAY_HOST(MemGetInfo) FOREBAY_HOST(MemPrefetchAsync)
FOREBAY_HOST(Memcpy2D) FOREBAY_HOST(Memcpy2DAsync) FOREBAY_HOST(Memcpy2DFromArray) FOREBAY_HOST(Memcpy2DToArray)
FOREBAY_HOST(Memcpy2DToArrayAsync) FOREBAY_HOST(Memcpy3D) FOREBAY_HOST(Memcpy3DAsync) FOREBAY_HOST(MemcpyFromArray)
FOREBAY_HOST(MemcpyFromSymbol) FOREBAY_HOST(MemcpyFromSymbolAsync) FOREBAY_HOST(MemcpyPeer)
FOREBAY_HOST(MemcpyPeerAsync) FOREBAY_HOST(MemcpyToArray) FOREBAY_HOST(MemcpyToSymbol)
FOREBAY_HOST(MemcpyToSymbolAsync) FOREBAY_HOST(Memset2D) FOREBAY_HOST(Memset2DAsync) FOREBAY_HOST(Memset3D)
FOREBAY_HOST(MemsetAsync) FOREBAY_HOST(OccupancyMaxActiveBlocksPerMultiprocessor)
FOREBAY_HOST(OccupancyMaxPotentialBlockSize) FOREBAY_HOST(OccupancyMaxPotentialBlockSizeVariableSMem)
FOREBAY_HOST(PointerGetAttributes) FOREBAY_HOST(ProfilerStart) FOREBAY_HOST(ProfilerStop)
FOREBAY_HOST(RuntimeGetVersion) FOREBAY_HOST(SetDeviceFlags) FOREBAY_HOST(SetValidDevices)
FOREBAY_HOST(StreamAddCallback) FOREBAY_HOST(StreamAttachMemAsync) FOREBAY_HOST(StreamBeginCapture)
FOREBAY_HOST(StreamCreateWithFlags) FOREBAY_HOST(StreamCreateWithPriority) FOREBAY_HOST(StreamEndCapture)
FOREBAY_HOST(StreamIsCapturing) FOREBAY_HOST(StreamQuery) FOREBAY_HOST(StreamSetAttribute)
FOREBAY_HOST(StreamWaitEvent) FOREBAY_HOST(ThreadExit) FOREBAY_HOST(ThreadSynchronize) FOREBAY_HOST(UnbindTexture)
// HIP's of these are in hip_runtime_api.h.
FOREBAY_CUDA(EventCreate) FOREBAY_CUDA(EventDestroy) FOREBAY_CUDA(EventElapsedTime) FOREBAY_CUDA(EventRecord)
FOREBAY_CUDA(EventSynchronize) FOREBAY_CUDA(GetDevice) FOREBAY_CUDA(GetDeviceCount) FOREBAY_CUDA(GetDeviceProperties)
FOREBAY_CUDA(HostMalloc) FOREBAY_CUDA(HostFree) FOREBAY_CUDA(MallocManaged) FOREBAY_CUDA(MemcpyAsync)
FOREBAY_CUDA(Memset) FOREBAY_CUDA(PeekAtLastError) FOREBAY_CUDA(SetDevice) FOREBAY_CUDA(StreamCreate)
FOREBAY_CUDA(StreamDestroy) FOREBAY_CUDA(StreamSynchronize)
#undef FOREBAY_CUDA
#undef FOREBAY_HOST

// With attributes of a function a program asks for more shared memory.
#ifndef __CUDACC_RTC__  // which has CUDA's
inline constexpr hipFuncAttribute cudaFuncAttributeMaxDynamicSharedMemorySize = hipFuncAttributeMaxDynamicSharedMemorySize;
inline constexpr hipFuncAttribute cudaFuncAttributePreferredSharedMemoryCarveout =
    hipFuncAttributePreferredSharedMemoryCarveout;
inline constexpr hipFuncCache_t cudaFuncCachePreferNone = hipFuncCachePreferNone;
inline constexpr hipFuncCache_t cudaFuncCachePreferShared = hipFuncCachePreferShared;
inline constexpr hipFuncCache_t cudaFuncCachePreferL1 = hipFuncCachePreferL1;
inline constexpr hipFuncCache_t cudaFuncCachePreferEqual = hipFuncCachePreferEqual;
#endif
