"""The functions of dpctl's C interface to SYCL that forebay calls, found at run time in the library dpctl loads.

None of them says why it failed: one that makes something returns NULL, the others return as if nothing had happened.
With DPCTL_VERBOSITY=error in the environment dpctl prints the reason on stderr.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libcpp cimport bool as cbool

from forebay.core.driver cimport Status

cdef enum:
    FAILED = -1  # the only error code there is


cdef enum Call:
    NO_CALL
    CALL_SubmitNDRange
    CALL_Memcpy
    CALL_MemcpyWithEvents
    CALL_Memset
    CALL_Fill16
    CALL_Fill32
    CALL_Fill64
    CALL_Fill128
    CALL_SubmitBarrier
    CALL_SubmitBarrierForEvents
    CALL_Queue_Wait
    CALL_Event_Wait
    CALL_Event_GetCommandExecutionStatus
    CALL_Event_GetProfilingInfoEnd
    CALL_RawKernelArg_Create
    CALL_WorkGroupMemory_Create
    CALL_malloc_device
    CALL_malloc_host
    CALL_Queue_Copy
    N_CALLS
    # Forebay's own reasons, beyond the calls.
    OUT_OF_MEMORY
    HOLDS_ADOPTED
    WAITS_FOR_HELD
    GATE_FAILED


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


cdef struct Calls:
    void* (*SubmitNDRange)(
        void* kernel, void* queue, void** arguments, const int* types, size_t n_arguments, const size_t* global_size,
        const size_t* local_size, size_t dimensions, void* const* waits, size_t n_waits
    ) noexcept nogil
    void* (*Memcpy)(void* queue, void* to, const void* source, size_t nbytes) noexcept nogil
    void* (*MemcpyWithEvents)(
        void* queue, void* to, const void* source, size_t nbytes, void* const* waits, size_t n_waits
    ) noexcept nogil
    void* (*Memset)(void* queue, void* to, uint8_t value, size_t count) noexcept nogil
    void* (*Fill16)(void* queue, void* to, uint16_t value, size_t count) noexcept nogil
    void* (*Fill32)(void* queue, void* to, uint32_t value, size_t count) noexcept nogil
    void* (*Fill64)(void* queue, void* to, uint64_t value, size_t count) noexcept nogil
    void* (*Fill128)(void* queue, void* to, uint64_t* value, size_t count) noexcept nogil
    void* (*SubmitBarrier)(void* queue) noexcept nogil
    void* (*SubmitBarrierForEvents)(void* queue, void* const* waits, size_t n_waits) noexcept nogil
    void (*Queue_Wait)(void* queue) noexcept nogil
    void* (*Queue_Copy)(void* queue) noexcept nogil
    void (*Queue_Delete)(void* queue) noexcept nogil
    void (*Event_Wait)(void* event) noexcept nogil
    int (*Event_GetCommandExecutionStatus)(void* event) noexcept nogil
    uint64_t (*Event_GetProfilingInfoEnd)(void* event) noexcept nogil
    void (*Event_Delete)(void* event) noexcept nogil
    void* (*RawKernelArg_Create)(void* value, size_t nbytes) noexcept nogil
    void (*RawKernelArg_Delete)(void* argument) noexcept nogil
    cbool (*RawKernelArg_Available)() noexcept nogil
    void* (*WorkGroupMemory_Create)(size_t nbytes) noexcept nogil
    void (*WorkGroupMemory_Delete)(void* memory) noexcept nogil
    cbool (*WorkGroupMemory_Available)() noexcept nogil
    void* (*malloc_device)(size_t nbytes, void* queue) noexcept nogil
    void* (*malloc_shared)(size_t nbytes, void* queue) noexcept nogil
    void* (*malloc_host)(size_t nbytes, void* queue) noexcept nogil
    void (*free_with_context)(void* memory, void* context) noexcept nogil
    int (*USM_GetPointerType)(void* memory, void* context) noexcept nogil
    void* (*Context_Copy)(void* context) noexcept nogil
    void (*Context_Delete)(void* context) noexcept nogil
    void* (*KernelBundle_CreateFromOCLSource)(
        void* context, void* device, const char* source, const char* options
    ) noexcept nogil
    void* (*KernelBundle_CreateFromSpirv)(
        void* context, void* device, const void* module, size_t nbytes, const char* options
    ) noexcept nogil
    cbool (*KernelBundle_HasKernel)(void* bundle, const char* name) noexcept nogil
    void* (*KernelBundle_GetKernel)(void* bundle, const char* name) noexcept nogil
    void (*KernelBundle_Delete)(void* bundle) noexcept nogil
    void* (*Kernel_Copy)(void* kernel) noexcept nogil
    void (*Kernel_Delete)(void* kernel) noexcept nogil
    size_t (*Kernel_GetNumArgs)(void* kernel) noexcept nogil
    size_t (*Kernel_GetWorkGroupSize)(void* kernel) noexcept nogil


cdef Calls sycl


cdef inline Status failure(int what) noexcept nogil:
    """What went wrong: a call of dpctl, which never says why, or one of forebay's own reasons."""
    return (<int64_t> what << 32) | <unsigned int> FAILED
