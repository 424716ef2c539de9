"""The functions of CUDA's driver that forebay calls, found at run time; structures behind this driver's handles; and
what memory.pyx needs of the functions that manage them.

`calls.hpp` lists the parameters of each of the driver's functions, and the C++ compiler checks them.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.core.vector_clock cimport Lock

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


cdef enum EventKind:
    PLAIN_EVENT
    TIMED_EVENT
    GATE_EVENT  # recorded behind a wait for a word that the host writes
    EVENT_KINDS
    IPC_EVENT  # which other processes know, and which is never recorded for anything else


cdef enum MemoryKind:
    DEVICE_POOL
    SHARED_POOL
    HOST_POOL
    POOLS


cdef enum EndedKind:
    """What is destroyed later: the driver would wait until nothing runs, or until all gates are open."""
    ENDED_MODULES
    ENDED_EXECUTABLES
    ENDED_REGISTRATIONS  # memory of the host that was registered
    ENDED_EXPORTS  # memory that other processes could open
    ENDED_IMPORTS  # memory of other processes
    ENDED_KINDS


cdef enum:
    SMALLEST_BLOCK = 256  # bytes, which all are multiples of: no type wants more
    BLOCK_CLASSES = 9
    LARGEST_BLOCK = 1 << 16
    KEPT = 64 << 20  # bytes of a pool: mapping memory takes a hundred microseconds, of the host some milliseconds
    PORTABLE_MAPPED = 3  # host memory of all contexts, with an address for the device
    OUT_OF_MEMORY_CODE = 2


cdef cppclass Printing:
    """Programs of a context that call printf."""
    atomic[uint32_t] programs
    atomic[uint32_t] ended  # of these
    atomic[uint32_t] written  # how many had ended before the driver last wrote what kernels had printed


cdef cppclass CuContext:
    """The primary context of one GPU. It lives as long as the process, as with CUDA's runtime: making one takes half a
    second, and other packages use it.
    """
    void* handle
    int32_t device
    void* pools[POOLS]  # NULL until needed
    void* memory_stream  # on which memory is taken from the pools and given back; it has no other work
    CuModule* kernels  # forebay's own; and the one that fills
    void* fill
    atomic[uint32_t] streams  # that there are
    atomic[uint32_t] stream_capacity  # for how many the driver has memory
    Printing printing
    Lock lock  # guards all below
    vector[int32_t] reached  # devices whose memory this one uses
    vector[CuEvent*] idle[EVENT_KINDS]
    vector[CuEvent*] passing  # gates that are open and given back, which their queue may not have passed yet
    size_t asked_for  # which of these is asked for next
    vector[uint64_t] ended[ENDED_KINDS]  # handles, or addresses of memory
    vector[CuQueue*] joins  # private streams for host waits on many events, each one wait's at a time; these are idle
    vector[uint64_t] blocks[BLOCK_CLASSES]  # small memory of the host that is idle, by size
    uint64_t chunk  # of which more is cut from the end
    size_t chunk_left  # bytes


cdef cppclass CuEvent:
    atomic[int32_t] references
    void* handle
    CuContext* context
    uint32_t* word  # gates only: what the host writes, in pinned memory
    EventKind kind


cdef cppclass CuQueue:
    void* stream
    CuContext* context
    cbool owned
    PyObject* owner  # of a stream of another package: the object that was adopted, retained; else NULL


cdef cppclass CuModule:
    atomic[int32_t] references  # the owner's, and one for each kernel
    void* handle
    CuContext* context
    cbool prints


cdef class ContextHandle:
    cdef CuContext* context


cdef Lock importing  # two threads that open and close the same memory get CUDA_ERROR_ALREADY_MAPPED

cdef int check(Status status, str what) except -1
cdef Status enter(CuContext* context) noexcept nogil
cdef void leave() noexcept nogil
cdef Status open_pool(CuContext* context, MemoryKind kind) noexcept nogil
cdef Status take_block(CuContext* context, size_t nbytes, uint64_t* address) noexcept nogil
cdef void give_back_block(CuContext* context, size_t nbytes, uint64_t address) noexcept nogil
cdef CuEvent* new_event(CuContext* context, EventKind kind, void* handle, uint64_t word) noexcept nogil
cdef int wait_without_gates() except -1 nogil
cdef void end_without_gates() noexcept nogil
cdef void destroy_later(CuContext* context, EndedKind kind, uint64_t handle) noexcept nogil
cdef void destroy_ended(CuContext* context, EndedKind kind) noexcept nogil
cdef bint try_destroy_ended(CuContext* context, EndedKind first, EndedKind last) noexcept nogil
