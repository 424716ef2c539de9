// The functions of CUDA's driver forebay calls, and the structures they take. The list generates the table, the numbers
// in a `Status` and the names in errors. All functions return a CUresult.

#pragma once

#include <cstddef>
#include <cstdint>

#include "core/driver.hpp"

namespace forebay_cuda {

typedef uint32_t Result;

// Layouts of cuda.h, CUDA 13.0.
struct Location { uint32_t type = 0; int32_t id = 0; };
struct PoolProps {
    uint32_t allocation = 0, handles = 0; Location location; void *security = nullptr; size_t largest = 0;
    uint16_t usage = 0; unsigned char reserved[54] = {};
};
struct AccessDesc { Location location; uint32_t flags = 0; };
struct KernelNode {
    void *function = nullptr; uint32_t groups[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared = 0; void **values = nullptr;
    void **extra = nullptr; void *kernel = nullptr; void *context = nullptr;
};
struct CopyEnd {  // half of a CUDA_MEMCPY3D, of CU_MEMORYTYPE_UNIFIED: the driver knows where an address is
    size_t x = 0, y = 0, z = 0, level = 0; uint32_t type = 4; void *host = nullptr; uint64_t address = 0;
    void *array = nullptr; void *reserved = nullptr; size_t pitch = 0, height = 1;
};
struct CopyNode { CopyEnd source, to; size_t width = 0, height = 1, depth = 1; };
struct IpcHandle { char bytes[64] = {}; };  // of memory, and of events
struct FillNode { uint64_t to = 0; size_t pitch = 0; uint32_t value = 0, size = 0; size_t width = 0, height = 1; };

#define FOREBAY_CUDA(X) \
    X(Result, LaunchKernel, (void *function, uint32_t x, uint32_t y, uint32_t z, uint32_t block_x, uint32_t block_y, \
        uint32_t block_z, uint32_t shared, void *stream, void **values, void **extra)) \
    X(Result, LaunchHostFunc, (void *stream, void (*function)(void *), void *data)) \
    X(Result, MemcpyAsync, (uint64_t to, uint64_t source, size_t nbytes, void *stream)) \
    X(Result, MemsetD8Async, (uint64_t to, unsigned char value, size_t count, void *stream)) \
    X(Result, MemsetD16Async, (uint64_t to, uint16_t value, size_t count, void *stream)) \
    X(Result, MemsetD32Async, (uint64_t to, uint32_t value, size_t count, void *stream)) \
    X(Result, MemPrefetchAsync_v2, (uint64_t address, size_t nbytes, Location to, uint32_t flags, void *stream)) \
    X(Result, StreamWaitEvent, (void *stream, void *event, uint32_t flags)) \
    X(Result, StreamWaitValue32_v2, (void *stream, uint64_t address, uint32_t value, uint32_t flags)) \
    X(Result, StreamQuery, (void *stream)) \
    X(Result, StreamSynchronize, (void *stream)) \
    X(Result, StreamCreateWithPriority, (void **stream, uint32_t flags, int32_t priority)) \
    X(Result, StreamDestroy_v2, (void *stream)) \
    X(Result, StreamGetCtx, (void *stream, void **context)) \
    X(Result, EventRecord, (void *event, void *stream)) \
    X(Result, EventQuery, (void *event)) \
    X(Result, EventCreate, (void **event, uint32_t flags)) \
    X(Result, EventDestroy_v2, (void *event)) \
    X(Result, EventElapsedTime_v2, (float *milliseconds, void *first, void *second)) \
    X(Result, GraphCreate, (void **graph, uint32_t flags)) \
    X(Result, GraphAddKernelNode_v2, (void **node, void *graph, void *const *after, size_t count, \
        const KernelNode *params)) \
    X(Result, GraphAddMemcpyNode, (void **node, void *graph, void *const *after, size_t count, const CopyNode *params, \
        void *context)) \
    X(Result, GraphAddMemsetNode, (void **node, void *graph, void *const *after, size_t count, const FillNode *params, \
        void *context)) \
    X(Result, GraphInstantiateWithFlags, (void **executable, void *graph, unsigned long long flags)) \
    X(Result, GraphExecKernelNodeSetParams_v2, (void *executable, void *node, const KernelNode *params)) \
    X(Result, GraphLaunch, (void *executable, void *stream)) \
    X(Result, GraphExecDestroy, (void *executable)) \
    X(Result, GraphDestroy, (void *graph)) \
    X(Result, MemPoolCreate, (void **pool, const PoolProps *props)) \
    X(Result, MemPoolDestroy, (void *pool)) \
    X(Result, MemPoolSetAttribute, (void *pool, uint32_t attribute, void *value)) \
    X(Result, MemPoolSetAccess, (void *pool, const AccessDesc *access, size_t count)) \
    X(Result, MemPoolTrimTo, (void *pool, size_t kept)) \
    X(Result, MemAllocFromPoolAsync, (uint64_t *address, size_t nbytes, void *pool, void *stream)) \
    X(Result, MemFreeAsync, (uint64_t address, void *stream)) \
    X(Result, MemAlloc_v2, (uint64_t *address, size_t nbytes)) \
    X(Result, MemFree_v2, (uint64_t address)) \
    X(Result, MemGetAddressRange_v2, (uint64_t *base, size_t *nbytes, uint64_t address)) \
    X(Result, IpcGetMemHandle, (IpcHandle *handle, uint64_t address)) \
    X(Result, IpcOpenMemHandle_v2, (uint64_t *address, IpcHandle handle, uint32_t flags)) \
    X(Result, IpcCloseMemHandle, (uint64_t address)) \
    X(Result, IpcGetEventHandle, (IpcHandle *handle, void *event)) \
    X(Result, IpcOpenEventHandle, (void **event, IpcHandle handle)) \
    X(Result, MemHostAlloc, (void **address, size_t nbytes, uint32_t flags)) \
    X(Result, MemHostRegister_v2, (uint64_t address, size_t nbytes, uint32_t flags)) \
    X(Result, MemHostUnregister, (uint64_t address)) \
    X(Result, ModuleLoadDataEx, (void **module, const void *image, uint32_t count, uint32_t *options, void **values)) \
    X(Result, ModuleUnload, (void *module)) \
    X(Result, ModuleGetFunction, (void **function, void *module, const char *name)) \
    X(Result, ModuleGetGlobal_v2, (uint64_t *address, size_t *nbytes, void *module, const char *name)) \
    X(Result, FuncGetAttribute, (int32_t *value, uint32_t attribute, void *function)) \
    X(Result, FuncSetAttribute, (void *function, uint32_t attribute, int32_t value)) \
    X(Result, OccupancyMaxActiveBlocksPerMultiprocessor, (int32_t *blocks, void *function, int32_t block, \
        size_t shared)) \
    X(Result, DevicePrimaryCtxRetain, (void **context, int32_t device)) \
    X(Result, DeviceCanAccessPeer, (int32_t *can, int32_t device, int32_t peer)) \
    X(Result, CtxEnablePeerAccess, (void *peer, uint32_t flags)) \
    X(Result, CtxPushCurrent_v2, (void *context)) \
    X(Result, CtxPopCurrent_v2, (void **context)) \
    X(Result, CtxGetStreamPriorityRange, (int32_t *least, int32_t *greatest)) \
    X(Result, GetErrorName, (Result code, const char **name))

FOREBAY_TABLE(FOREBAY_CUDA)

// Calls a function while the context is current.
template <class F, class... A> int64_t within(const Calls& cuda, void *context, F function, A... arguments) {
    int64_t status = cuda.CtxPushCurrent_v2(context);
    if (status) return status;
    status = function(arguments...);
    cuda.CtxPopCurrent_v2(&context);
    return status;
}

}
