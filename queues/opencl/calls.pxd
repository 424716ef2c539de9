"""The OpenCL functions forebay calls itself, found at run time in the loader that pyopencl uses.

pyopencl's own enqueue functions always ask for an event, so they cannot be the launch path; the objects are its
objects.
"""

from libc.stdint cimport int32_t, uint32_t, uint64_t

ctypedef int32_t cl_int
ctypedef uint32_t cl_uint
ctypedef void (*EventCallback)(void* event, cl_int status, void* data) noexcept nogil


cdef enum Call:
    NO_CALL
    CALL_EnqueueNDRangeKernel
    CALL_EnqueueMarkerWithWaitList
    CALL_EnqueueBarrierWithWaitList
    CALL_EnqueueReadBuffer
    CALL_EnqueueWriteBuffer
    CALL_EnqueueCopyBuffer
    CALL_EnqueueFillBuffer
    CALL_EnqueueSVMMemcpy
    CALL_EnqueueSVMMemFill
    CALL_SetKernelArg
    CALL_SetKernelArgSVMPointer
    CALL_SetKernelExecInfo
    CALL_Flush
    CALL_Finish
    CALL_WaitForEvents
    CALL_GetEventInfo
    CALL_GetEventProfilingInfo
    CALL_SetEventCallback
    CALL_SetUserEventStatus
    CALL_RetainEvent
    CALL_ReleaseEvent
    CALL_RetainCommandQueue
    CALL_ReleaseCommandQueue
    CALL_RetainKernel
    CALL_ReleaseKernel
    CALL_ReleaseMemObject
    CALL_CreateUserEvent
    CALL_SVMAlloc
    CALL_CreateBuffer
    N_CALLS


cdef struct Calls:
    cl_int (*EnqueueNDRangeKernel)(
        void* queue, void* kernel, cl_uint work_dim, const size_t* offset, const size_t* global_size,
        const size_t* local_size, cl_uint n_waits, void* const* waits, void** event
    ) noexcept nogil
    cl_int (*EnqueueMarkerWithWaitList)(
        void* queue, cl_uint n_waits, void* const* waits, void** event
    ) noexcept nogil
    cl_int (*EnqueueBarrierWithWaitList)(
        void* queue, cl_uint n_waits, void* const* waits, void** event
    ) noexcept nogil
    cl_int (*EnqueueReadBuffer)(
        void* queue, void* memory, cl_uint blocking, size_t offset, size_t size, void* host, cl_uint n_waits,
        void* const* waits, void** event
    ) noexcept nogil
    cl_int (*EnqueueWriteBuffer)(
        void* queue, void* memory, cl_uint blocking, size_t offset, size_t size, const void* host,
        cl_uint n_waits, void* const* waits, void** event
    ) noexcept nogil
    cl_int (*EnqueueCopyBuffer)(
        void* queue, void* source, void* to, size_t source_offset, size_t to_offset, size_t size,
        cl_uint n_waits, void* const* waits, void** event
    ) noexcept nogil
    cl_int (*EnqueueFillBuffer)(
        void* queue, void* memory, const void* pattern, size_t pattern_size, size_t offset, size_t size,
        cl_uint n_waits, void* const* waits, void** event
    ) noexcept nogil
    cl_int (*EnqueueSVMMemcpy)(
        void* queue, cl_uint blocking, void* to, const void* source, size_t size, cl_uint n_waits,
        void* const* waits, void** event
    ) noexcept nogil
    cl_int (*EnqueueSVMMemFill)(
        void* queue, void* to, const void* pattern, size_t pattern_size, size_t size, cl_uint n_waits,
        void* const* waits, void** event
    ) noexcept nogil
    cl_int (*SetKernelArg)(void* kernel, cl_uint index, size_t size, const void* value) noexcept nogil
    cl_int (*SetKernelExecInfo)(void* kernel, cl_uint name, size_t size, const void* value) noexcept nogil
    cl_int (*SetKernelArgSVMPointer)(void* kernel, cl_uint index, const void* value) noexcept nogil
    cl_int (*Flush)(void* queue) noexcept nogil
    cl_int (*Finish)(void* queue) noexcept nogil
    cl_int (*WaitForEvents)(cl_uint n_events, void* const* events) noexcept nogil
    cl_int (*GetEventInfo)(
        void* event, cl_uint name, size_t size, void* value, size_t* size_returned
    ) noexcept nogil
    cl_int (*GetEventProfilingInfo)(
        void* event, cl_uint name, size_t size, void* value, size_t* size_returned
    ) noexcept nogil
    cl_int (*SetEventCallback)(void* event, cl_int kind, EventCallback callback, void* data) noexcept nogil
    cl_int (*SetUserEventStatus)(void* event, cl_int status) noexcept nogil
    cl_int (*RetainEvent)(void* event) noexcept nogil
    cl_int (*ReleaseEvent)(void* event) noexcept nogil
    cl_int (*RetainCommandQueue)(void* queue) noexcept nogil
    cl_int (*ReleaseCommandQueue)(void* queue) noexcept nogil
    cl_int (*RetainKernel)(void* kernel) noexcept nogil
    cl_int (*ReleaseKernel)(void* kernel) noexcept nogil
    cl_int (*ReleaseMemObject)(void* memory) noexcept nogil
    void* (*CreateUserEvent)(void* context, cl_int* error) noexcept nogil
    void* (*SVMAlloc)(void* context, uint64_t flags, size_t size, cl_uint alignment) noexcept nogil
    void (*SVMFree)(void* context, void* pointer) noexcept nogil
    void* (*CreateBuffer)(void* context, uint64_t flags, size_t size, void* host, cl_int* error) noexcept nogil


cdef Calls cl
