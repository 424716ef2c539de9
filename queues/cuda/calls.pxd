"""The functions of CUDA's driver forebay calls, found at run time.

`calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
"""

from libc.stdint cimport int32_t, uint32_t, uint64_t

from forebay.core.driver cimport Status

ctypedef Status (*Function)(...) noexcept nogil


cdef extern from "queues/cuda/calls.hpp" namespace "forebay_cuda":
    cdef struct Location:
        uint32_t type
        int32_t id
    cdef struct PoolProps:
        uint32_t allocation
        Location location
    cdef struct AccessDesc:
        Location location
        uint32_t flags
    cdef struct KernelNode:
        void* function
        uint32_t* groups
        uint32_t* block
        uint32_t shared
        void** values
        void* context
    cdef struct CopyEnd:
        uint32_t type
        uint64_t address
        size_t pitch
        size_t height
    cdef struct CopyNode:
        CopyEnd source, to
        size_t width
    cdef struct IpcHandle:
        char* bytes
    cdef struct FillNode:
        uint64_t to
        size_t pitch
        uint32_t value, size
        size_t width

    cdef enum:
        N_CALLS

    cdef struct Calls:
        Function LaunchKernel, LaunchHostFunc, MemcpyAsync, MemsetD8Async, MemsetD16Async, MemsetD32Async
        Function MemPrefetchAsync_v2
        Function StreamWaitEvent, StreamWaitValue32_v2, StreamQuery, StreamSynchronize, StreamCreateWithPriority
        Function StreamDestroy_v2, StreamGetCtx
        Function EventRecord, EventQuery, EventCreate, EventDestroy_v2, EventElapsedTime_v2
        Function GraphCreate, GraphAddKernelNode_v2, GraphAddMemcpyNode, GraphAddMemsetNode
        Function GraphInstantiateWithFlags, GraphExecKernelNodeSetParams_v2, GraphLaunch, GraphExecDestroy, GraphDestroy
        Function MemPoolCreate, MemPoolDestroy, MemPoolSetAttribute, MemPoolSetAccess, MemPoolTrimTo
        Function MemAllocFromPoolAsync, MemFreeAsync, MemHostAlloc, MemHostRegister_v2, MemHostUnregister
        Function MemAlloc_v2, MemFree_v2, MemGetAddressRange_v2
        Function IpcGetMemHandle, IpcOpenMemHandle_v2, IpcCloseMemHandle, IpcGetEventHandle, IpcOpenEventHandle
        Function ModuleLoadDataEx, ModuleUnload, ModuleGetFunction, ModuleGetGlobal_v2
        Function FuncGetAttribute, FuncSetAttribute, OccupancyMaxActiveBlocksPerMultiprocessor
        Function DeviceCanAccessPeer, CtxEnablePeerAccess
        Function DevicePrimaryCtxRetain, CtxPushCurrent_v2, CtxPopCurrent_v2, CtxGetStreamPriorityRange
        Function GetErrorName

    const char* const* call_names


cdef Calls cuda
