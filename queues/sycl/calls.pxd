"""The functions of dpctl's C interface to SYCL that forebay calls, found at run time in the library dpctl loads.

None of them reports why it failed. A function that makes something returns NULL; the others return as if nothing had
happened. With DPCTL_VERBOSITY=error in the environment dpctl prints the reason on stderr. `calls.hpp` lists the
parameters of each function, and the C++ compiler checks them.
"""

from libc.stdint cimport int64_t, uint64_t
from libcpp cimport bool as cbool

from forebay.core.driver cimport Status

cdef enum:
    FAILED = -1  # the only error code there is

ctypedef void* (*Maker)(...) noexcept nogil
ctypedef void (*Doer)(...) noexcept nogil


cdef extern from "queues/sycl/calls.hpp" namespace "forebay_sycl":
    cdef enum Call:
        CALL_Queue_SubmitNDRange, CALL_Queue_Memcpy, CALL_Queue_MemcpyWithEvents, CALL_Queue_Memset
        CALL_Queue_Fill16, CALL_Queue_Fill32, CALL_Queue_Fill64, CALL_Queue_Fill128
        CALL_Queue_SubmitBarrier, CALL_Queue_SubmitBarrierForEvents
        CALL_Event_Wait, CALL_Event_GetCommandExecutionStatus, CALL_Event_GetProfilingInfoEnd
        CALL_RawKernelArg_Create, CALL_WorkGroupMemory_Create
        N_CALLS

    cdef enum Reason:
        OUT_OF_MEMORY, HOLDS_ADOPTED, WAITS_FOR_HELD, GATE_FAILED

    cdef struct Calls:
        Maker Queue_SubmitNDRange, Queue_Memcpy, Queue_MemcpyWithEvents, Queue_Memset
        Maker Queue_Fill16, Queue_Fill32, Queue_Fill64, Queue_Fill128
        Maker Queue_SubmitBarrier, Queue_SubmitBarrierForEvents
        Maker Queue_Copy
        Doer Queue_Delete, Event_Wait
        int (*Event_GetCommandExecutionStatus)(...) noexcept nogil
        uint64_t (*Event_GetProfilingInfoEnd)(...) noexcept nogil
        Maker Event_Copy
        Doer Event_Delete
        Maker RawKernelArg_Create, WorkGroupMemory_Create
        Doer RawKernelArg_Delete, WorkGroupMemory_Delete
        cbool (*RawKernelArg_Available)() noexcept nogil
        cbool (*WorkGroupMemory_Available)() noexcept nogil
        Maker malloc_device, malloc_shared, malloc_host
        Doer free_with_context
        int (*USM_GetPointerType)(...) noexcept nogil
        Maker Context_Copy
        Doer Context_Delete
        Maker KernelBundle_CreateFromOCLSource, KernelBundle_CreateFromSpirv, KernelBundle_GetKernel
        Doer KernelBundle_Delete
        Maker Kernel_Copy
        Doer Kernel_Delete
        size_t (*Kernel_GetWorkGroupSize)(...) noexcept nogil

    const char* const* call_names


cdef enum ArgumentType:  # DPCTLKernelArgType
    INT8 = 0
    UINT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    UINT64 = 7
    FLOAT32 = 8
    FLOAT64 = 9
    USM_POINTER = 10
    WORK_GROUP_MEMORY = 12
    RAW_ARGUMENT = 13


cdef enum:
    COMPLETE = 3  # DPCTLSyclEventStatusType


cdef Calls sycl


cdef inline Status failure(int what) noexcept nogil:
    """The status of a failure: the dpctl call that failed, or one of forebay's own reasons."""
    return (<int64_t> what << 32) | <unsigned int> FAILED
