"""Filling the table of calls, and naming them in errors."""

import ctypes
from pathlib import Path

from libc.stdint cimport uintptr_t

LIBRARIES = ("libDPCTLSyclInterface.so", "DPCTLSyclInterface.dll")


def load() -> None:
    """Fill the table from the library that dpctl is linked to; once is enough.

    Raises
    ------
    ImportError
        When dpctl is not there, cannot be loaded, or is too old to have one of the functions.
    """
    if sycl.SubmitNDRange != NULL:
        return
    import dpctl

    folder = Path(dpctl.__file__).parent
    path = next((folder / name for name in LIBRARIES if (folder / name).exists()), None)
    if path is None:
        raise ImportError(f"{folder} has no {LIBRARIES[0]}")
    library = ctypes.CDLL(str(path))

    def find(name):
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            raise ImportError(f"dpctl {dpctl.__version__} has no {name}: forebay needs dpctl 0.21 or newer") from None

    (<void**> &sycl.Memcpy)[0] = <void*> <uintptr_t> find("DPCTLQueue_Memcpy")
    (<void**> &sycl.MemcpyWithEvents)[0] = <void*> <uintptr_t> find("DPCTLQueue_MemcpyWithEvents")
    (<void**> &sycl.Memset)[0] = <void*> <uintptr_t> find("DPCTLQueue_Memset")
    (<void**> &sycl.Fill16)[0] = <void*> <uintptr_t> find("DPCTLQueue_Fill16")
    (<void**> &sycl.Fill32)[0] = <void*> <uintptr_t> find("DPCTLQueue_Fill32")
    (<void**> &sycl.Fill64)[0] = <void*> <uintptr_t> find("DPCTLQueue_Fill64")
    (<void**> &sycl.Fill128)[0] = <void*> <uintptr_t> find("DPCTLQueue_Fill128")
    (<void**> &sycl.SubmitBarrier)[0] = <void*> <uintptr_t> find("DPCTLQueue_SubmitBarrier")
    (<void**> &sycl.SubmitBarrierForEvents)[0] = <void*> <uintptr_t> find("DPCTLQueue_SubmitBarrierForEvents")
    (<void**> &sycl.Queue_Wait)[0] = <void*> <uintptr_t> find("DPCTLQueue_Wait")
    (<void**> &sycl.Queue_Copy)[0] = <void*> <uintptr_t> find("DPCTLQueue_Copy")
    (<void**> &sycl.Queue_Delete)[0] = <void*> <uintptr_t> find("DPCTLQueue_Delete")
    (<void**> &sycl.Event_Wait)[0] = <void*> <uintptr_t> find("DPCTLEvent_Wait")
    (<void**> &sycl.Event_GetCommandExecutionStatus)[0] = <void*> <uintptr_t> find(
        "DPCTLEvent_GetCommandExecutionStatus")
    (<void**> &sycl.Event_GetProfilingInfoEnd)[0] = <void*> <uintptr_t> find("DPCTLEvent_GetProfilingInfoEnd")
    (<void**> &sycl.Event_Delete)[0] = <void*> <uintptr_t> find("DPCTLEvent_Delete")
    (<void**> &sycl.RawKernelArg_Create)[0] = <void*> <uintptr_t> find("DPCTLRawKernelArg_Create")
    (<void**> &sycl.RawKernelArg_Delete)[0] = <void*> <uintptr_t> find("DPCTLRawKernelArg_Delete")
    (<void**> &sycl.RawKernelArg_Available)[0] = <void*> <uintptr_t> find("DPCTLRawKernelArg_Available")
    (<void**> &sycl.WorkGroupMemory_Create)[0] = <void*> <uintptr_t> find("DPCTLWorkGroupMemory_Create")
    (<void**> &sycl.WorkGroupMemory_Delete)[0] = <void*> <uintptr_t> find("DPCTLWorkGroupMemory_Delete")
    (<void**> &sycl.WorkGroupMemory_Available)[0] = <void*> <uintptr_t> find("DPCTLWorkGroupMemory_Available")
    (<void**> &sycl.malloc_device)[0] = <void*> <uintptr_t> find("DPCTLmalloc_device")
    (<void**> &sycl.malloc_shared)[0] = <void*> <uintptr_t> find("DPCTLmalloc_shared")
    (<void**> &sycl.malloc_host)[0] = <void*> <uintptr_t> find("DPCTLmalloc_host")
    (<void**> &sycl.free_with_context)[0] = <void*> <uintptr_t> find("DPCTLfree_with_context")
    (<void**> &sycl.USM_GetPointerType)[0] = <void*> <uintptr_t> find("DPCTLUSM_GetPointerType")
    (<void**> &sycl.Context_Copy)[0] = <void*> <uintptr_t> find("DPCTLContext_Copy")
    (<void**> &sycl.Context_Delete)[0] = <void*> <uintptr_t> find("DPCTLContext_Delete")
    (<void**> &sycl.KernelBundle_CreateFromOCLSource)[0] = <void*> <uintptr_t> find(
        "DPCTLKernelBundle_CreateFromOCLSource")
    (<void**> &sycl.KernelBundle_CreateFromSpirv)[0] = <void*> <uintptr_t> find("DPCTLKernelBundle_CreateFromSpirv")
    (<void**> &sycl.KernelBundle_HasKernel)[0] = <void*> <uintptr_t> find("DPCTLKernelBundle_HasKernel")
    (<void**> &sycl.KernelBundle_GetKernel)[0] = <void*> <uintptr_t> find("DPCTLKernelBundle_GetKernel")
    (<void**> &sycl.KernelBundle_Delete)[0] = <void*> <uintptr_t> find("DPCTLKernelBundle_Delete")
    (<void**> &sycl.Kernel_Copy)[0] = <void*> <uintptr_t> find("DPCTLKernel_Copy")
    (<void**> &sycl.Kernel_Delete)[0] = <void*> <uintptr_t> find("DPCTLKernel_Delete")
    (<void**> &sycl.Kernel_GetNumArgs)[0] = <void*> <uintptr_t> find("DPCTLKernel_GetNumArgs")
    (<void**> &sycl.Kernel_GetWorkGroupSize)[0] = <void*> <uintptr_t> find("DPCTLKernel_GetWorkGroupSize")
    # last: it says that the table is filled
    (<void**> &sycl.SubmitNDRange)[0] = <void*> <uintptr_t> find("DPCTLQueue_SubmitNDRange")


CALL_NAMES: dict[int, str] = {
    CALL_SubmitNDRange: "DPCTLQueue_SubmitNDRange",
    CALL_Memcpy: "DPCTLQueue_Memcpy",
    CALL_MemcpyWithEvents: "DPCTLQueue_MemcpyWithEvents",
    CALL_Memset: "DPCTLQueue_Memset",
    CALL_Fill16: "DPCTLQueue_Fill16",
    CALL_Fill32: "DPCTLQueue_Fill32",
    CALL_Fill64: "DPCTLQueue_Fill64",
    CALL_Fill128: "DPCTLQueue_Fill128",
    CALL_SubmitBarrier: "DPCTLQueue_SubmitBarrier",
    CALL_SubmitBarrierForEvents: "DPCTLQueue_SubmitBarrierForEvents",
    CALL_Queue_Wait: "DPCTLQueue_Wait",
    CALL_Event_Wait: "DPCTLEvent_Wait",
    CALL_Event_GetCommandExecutionStatus: "DPCTLEvent_GetCommandExecutionStatus",
    CALL_Event_GetProfilingInfoEnd: "DPCTLEvent_GetProfilingInfoEnd",
    CALL_RawKernelArg_Create: "DPCTLRawKernelArg_Create",
    CALL_WorkGroupMemory_Create: "DPCTLWorkGroupMemory_Create",
    CALL_malloc_device: "DPCTLmalloc_device",
    CALL_malloc_host: "DPCTLmalloc_host",
    CALL_Queue_Copy: "DPCTLQueue_Copy",
}

REASONS: dict[int, str] = {
    OUT_OF_MEMORY: "OUT_OF_MEMORY",
    HOLDS_ADOPTED: "HOLDS_ADOPTED",
    WAITS_FOR_HELD: "WAITS_FOR_HELD",
    GATE_FAILED: "GATE_FAILED",
}
