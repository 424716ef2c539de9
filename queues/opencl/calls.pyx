"""Filling the table of calls, and naming them in errors."""

import ctypes

import pyopencl
from libc.stdint cimport uintptr_t

_SVM = {"EnqueueSVMMemcpy", "EnqueueSVMMemFill", "SetKernelArgSVMPointer", "SetKernelExecInfo", "SVMAlloc", "SVMFree"}


def load() -> None:
    """Fill the table from the loader that pyopencl's extension module is linked to; once is enough.

    Looking a symbol up in a library also looks in the libraries it depends on, so this finds the very loader whose
    objects pyopencl hands out, wherever it came from.

    Raises
    ------
    ImportError
        When that loader is too old to have one of the functions (SVM ones may be missing).
    """
    if cl.EnqueueNDRangeKernel != NULL:
        return
    library = ctypes.CDLL(pyopencl._cl.__file__)

    def find(name):
        try:
            return ctypes.cast(getattr(library, "cl" + name), ctypes.c_void_p).value
        except AttributeError:
            if name in _SVM:
                return 0
            raise ImportError(f"the OpenCL loader has no cl{name}: forebay needs OpenCL 1.2 or newer") from None

    (<void**> &cl.EnqueueNDRangeKernel)[0] = <void*> <uintptr_t> find("EnqueueNDRangeKernel")
    (<void**> &cl.EnqueueMarkerWithWaitList)[0] = <void*> <uintptr_t> find("EnqueueMarkerWithWaitList")
    (<void**> &cl.EnqueueBarrierWithWaitList)[0] = <void*> <uintptr_t> find("EnqueueBarrierWithWaitList")
    (<void**> &cl.EnqueueReadBuffer)[0] = <void*> <uintptr_t> find("EnqueueReadBuffer")
    (<void**> &cl.EnqueueWriteBuffer)[0] = <void*> <uintptr_t> find("EnqueueWriteBuffer")
    (<void**> &cl.EnqueueCopyBuffer)[0] = <void*> <uintptr_t> find("EnqueueCopyBuffer")
    (<void**> &cl.EnqueueFillBuffer)[0] = <void*> <uintptr_t> find("EnqueueFillBuffer")
    (<void**> &cl.EnqueueSVMMemcpy)[0] = <void*> <uintptr_t> find("EnqueueSVMMemcpy")
    (<void**> &cl.EnqueueSVMMemFill)[0] = <void*> <uintptr_t> find("EnqueueSVMMemFill")
    (<void**> &cl.SetKernelArg)[0] = <void*> <uintptr_t> find("SetKernelArg")
    (<void**> &cl.SetKernelArgSVMPointer)[0] = <void*> <uintptr_t> find("SetKernelArgSVMPointer")
    (<void**> &cl.SetKernelExecInfo)[0] = <void*> <uintptr_t> find("SetKernelExecInfo")
    (<void**> &cl.Flush)[0] = <void*> <uintptr_t> find("Flush")
    (<void**> &cl.Finish)[0] = <void*> <uintptr_t> find("Finish")
    (<void**> &cl.WaitForEvents)[0] = <void*> <uintptr_t> find("WaitForEvents")
    (<void**> &cl.GetEventInfo)[0] = <void*> <uintptr_t> find("GetEventInfo")
    (<void**> &cl.GetEventProfilingInfo)[0] = <void*> <uintptr_t> find("GetEventProfilingInfo")
    (<void**> &cl.SetEventCallback)[0] = <void*> <uintptr_t> find("SetEventCallback")
    (<void**> &cl.SetUserEventStatus)[0] = <void*> <uintptr_t> find("SetUserEventStatus")
    (<void**> &cl.RetainEvent)[0] = <void*> <uintptr_t> find("RetainEvent")
    (<void**> &cl.ReleaseEvent)[0] = <void*> <uintptr_t> find("ReleaseEvent")
    (<void**> &cl.RetainCommandQueue)[0] = <void*> <uintptr_t> find("RetainCommandQueue")
    (<void**> &cl.ReleaseCommandQueue)[0] = <void*> <uintptr_t> find("ReleaseCommandQueue")
    (<void**> &cl.RetainKernel)[0] = <void*> <uintptr_t> find("RetainKernel")
    (<void**> &cl.ReleaseKernel)[0] = <void*> <uintptr_t> find("ReleaseKernel")
    (<void**> &cl.ReleaseMemObject)[0] = <void*> <uintptr_t> find("ReleaseMemObject")
    (<void**> &cl.CreateUserEvent)[0] = <void*> <uintptr_t> find("CreateUserEvent")
    (<void**> &cl.SVMAlloc)[0] = <void*> <uintptr_t> find("SVMAlloc")
    (<void**> &cl.SVMFree)[0] = <void*> <uintptr_t> find("SVMFree")
    (<void**> &cl.CreateBuffer)[0] = <void*> <uintptr_t> find("CreateBuffer")


CALL_NAMES: dict[int, str] = {
    CALL_EnqueueNDRangeKernel: "clEnqueueNDRangeKernel",
    CALL_EnqueueMarkerWithWaitList: "clEnqueueMarkerWithWaitList",
    CALL_EnqueueBarrierWithWaitList: "clEnqueueBarrierWithWaitList",
    CALL_EnqueueReadBuffer: "clEnqueueReadBuffer",
    CALL_EnqueueWriteBuffer: "clEnqueueWriteBuffer",
    CALL_EnqueueCopyBuffer: "clEnqueueCopyBuffer",
    CALL_EnqueueFillBuffer: "clEnqueueFillBuffer",
    CALL_EnqueueSVMMemcpy: "clEnqueueSVMMemcpy",
    CALL_EnqueueSVMMemFill: "clEnqueueSVMMemFill",
    CALL_SetKernelArg: "clSetKernelArg",
    CALL_SetKernelArgSVMPointer: "clSetKernelArgSVMPointer",
    CALL_SetKernelExecInfo: "clSetKernelExecInfo",
    CALL_Flush: "clFlush",
    CALL_Finish: "clFinish",
    CALL_WaitForEvents: "clWaitForEvents",
    CALL_GetEventInfo: "clGetEventInfo",
    CALL_GetEventProfilingInfo: "clGetEventProfilingInfo",
    CALL_SetEventCallback: "clSetEventCallback",
    CALL_SetUserEventStatus: "clSetUserEventStatus",
    CALL_RetainEvent: "clRetainEvent",
    CALL_ReleaseEvent: "clReleaseEvent",
    CALL_RetainCommandQueue: "clRetainCommandQueue",
    CALL_ReleaseCommandQueue: "clReleaseCommandQueue",
    CALL_RetainKernel: "clRetainKernel",
    CALL_ReleaseKernel: "clReleaseKernel",
    CALL_ReleaseMemObject: "clReleaseMemObject",
    CALL_CreateUserEvent: "clCreateUserEvent",
    CALL_SVMAlloc: "clSVMAlloc",
    CALL_CreateBuffer: "clCreateBuffer",
}
