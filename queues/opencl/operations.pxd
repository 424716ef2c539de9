"""The OpenCL functions forebay calls itself, found at run time in the loader that pyopencl uses.

The objects are pyopencl's. Its own enqueue functions always ask for an event, so they cannot be the launch path.
`calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
"""

from libc.stdint cimport int32_t, uint32_t

from forebay.core.driver cimport Status

ctypedef int32_t cl_int
ctypedef uint32_t cl_uint
ctypedef Status (*Function)(...) noexcept nogil
ctypedef void* (*Maker)(...) noexcept nogil


cdef extern from "queues/opencl/calls.hpp" namespace "forebay_cl":
    cdef enum Call:
        CALL_CreateKernel, CALL_CreateUserEvent
        N_CALLS

    cdef struct Calls:
        Function EnqueueNDRangeKernel, EnqueueMarkerWithWaitList, EnqueueBarrierWithWaitList
        Function EnqueueReadBuffer, EnqueueWriteBuffer, EnqueueCopyBuffer, EnqueueFillBuffer
        Function EnqueueSVMMemcpy, EnqueueSVMMemFill, GetCommandQueueInfo
        Function SetKernelArg, SetKernelArgSVMPointer, SetKernelExecInfo, Flush, WaitForEvents
        Function GetEventInfo, GetEventProfilingInfo, SetEventCallback, SetUserEventStatus
        Function RetainEvent, ReleaseEvent, RetainCommandQueue, ReleaseCommandQueue, RetainKernel, ReleaseKernel
        Function RetainMemObject, ReleaseMemObject, SetMemObjectDestructorCallback, RetainContext, ReleaseContext
        Maker CreateKernel, CreateUserEvent, SVMAlloc, CreateBuffer, CreateSubBuffer
        void (*SVMFree)(...) noexcept nogil

    const char* const* call_names


cdef Calls cl
