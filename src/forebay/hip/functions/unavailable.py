"""The functions that no device here can do. Each returns hipErrorNotSupported, and `last_exception` says why.

They are there so that a program may ask, as programs of HIP do, and go on otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from forebay.hip.enums import hipError_t
from forebay.hip.errors import HipError, Result, api

__all__: list[str] = []


@dataclass(frozen=True)
class Subject:
    """Functions with one reason.

    Attributes
    ----------
    name : str
    reason : str
        Why they cannot be.
    instead : str
        The other way; empty where there is none.
    functions : str
        Their names without "hip", each with the number of its outputs when it has some.
    """

    name: str
    reason: str
    instead: str
    functions: str

    def outputs(self) -> Iterator[tuple[str, int]]:
        """Yield the name of each function, and how many values follow the code."""
        for word in self.functions.split():
            name, _, count = word.partition(":")
            yield f"hip{name}", int(count or 0)


SUBJECTS = (
    Subject(
        "graphics",
        "no driver of forebay shares memory with OpenGL or Direct3D",
        "hipMemcpy through the host",
        """
        GraphicsMapResources GraphicsResourceGetMappedPointer:2 GraphicsSubResourceGetMappedArray:1
        GraphicsUnmapResources GraphicsUnregisterResource
        """,
    ),
    Subject(
        "external memory",
        "memory and semaphores of other interfaces cannot be imported",
        "hipMemcpy through the host, or hipStreamWaitValue32 for a semaphore in memory",
        """
        DestroyExternalMemory DestroyExternalSemaphore ExternalMemoryGetMappedBuffer:1
        ExternalMemoryGetMappedMipmappedArray:1 GraphAddExternalSemaphoresSignalNode:1
        GraphAddExternalSemaphoresWaitNode:1 GraphExecExternalSemaphoresSignalNodeSetParams
        GraphExecExternalSemaphoresWaitNodeSetParams GraphExternalSemaphoresSignalNodeGetParams:1
        GraphExternalSemaphoresSignalNodeSetParams GraphExternalSemaphoresWaitNodeGetParams:1
        GraphExternalSemaphoresWaitNodeSetParams ImportExternalMemory:1 ImportExternalSemaphore:1
        SignalExternalSemaphoresAsync WaitExternalSemaphoresAsync
        """,
    ),
    Subject(
        "places of devices",
        "no driver is asked where on a bus a device is",
        "hipDeviceGetUuid, and FOREBAY_DEVICE to choose devices",
        """
        DeviceGetByPCIBusId:1 DeviceGetPCIBusId:1 SetValidDevices:1
        """,
    ),
    Subject(
        "lists of attributes",
        "hip-python has no way to give the lists of these functions",
        "one call for each: hipPointerGetAttribute and hipMemRangeGetAttribute",
        """
        DrvPointerGetAttributes:2 MemRangeGetAttributes:3
        """,
    ),
    Subject(
        "managed variables",
        "the compilers of the drivers have none",
        "hipLibraryGetGlobal, or memory of hipMallocManaged as an argument",
        """
        LibraryGetManaged:2
        """,
    ),
    Subject(
        "user objects",
        "a graph keeps what its nodes use, and nothing else",
        "a reference to the object in Python",
        """
        GraphReleaseUserObject GraphRetainUserObject UserObjectCreate:1 UserObjectRelease UserObjectRetain
        """,
    ),
    Subject(
        "compute units",
        "they cannot be divided among streams",
        "streams with priorities: hipStreamCreateWithPriority",
        """
        DevResourceGenerateDesc:1 DevSmResourceSplit:1 DevSmResourceSplitByCount:2 DeviceGetDevResource:1
        DeviceGetExecutionCtx:1 ExecutionCtxDestroy ExecutionCtxGetDevResource:1 ExecutionCtxGetDevice:1
        ExecutionCtxGetId:1 ExecutionCtxRecordEvent:1 ExecutionCtxStreamCreate:1 ExecutionCtxSynchronize
        ExecutionCtxWaitEvent ExtStreamCreateWithCUMask:1 ExtStreamGetCUMask GreenCtxCreate:1
        StreamGetDevResource:1
        """,
    ),
    Subject(
        "mipmaps",
        "textures have one level here",
        "an array for each level: hipMallocArray",
        """
        BindTextureToMipmappedArray FreeMipmappedArray GetMipmappedArrayLevel:1 MallocMipmappedArray:1
        MipmappedArrayCreate:1 MipmappedArrayDestroy:1 MipmappedArrayGetLevel:1
        MipmappedArrayGetMemoryRequirements:1 TexRefGetMipMappedArray:1 TexRefGetMipmapFilterMode:1
        TexRefGetMipmapLevelBias:1 TexRefGetMipmapLevelClamp:2 TexRefSetMipmapFilterMode
        TexRefSetMipmapLevelBias TexRefSetMipmapLevelClamp TexRefSetMipmappedArray
        """,
    ),
    Subject(
        "sparse arrays",
        "an array has all of its memory from the beginning",
        "hipMalloc3DArray",
        """
        MemMapArrayAsync
        """,
    ),
    Subject(
        "virtual memory",
        "addresses and memory are not handed out separately",
        "hipMalloc, or hipMallocAsync, whose pool grows",
        """
        MemAddressFree MemAddressReserve:1 MemCreate:1 MemGetAccess:1 MemGetAllocationGranularity:1
        MemGetAllocationPropertiesFromHandle:1 MemMap MemRelease MemRetainAllocationHandle:1 MemSetAccess
        MemUnmap
        """,
    ),
    Subject(
        "other processes",
        "memory of pools and of other interfaces is not handed to other processes",
        "hipMalloc and hipIpcGetMemHandle on CUDA, else multiprocessing.shared_memory and hipMemcpy",
        """
        MemExportToShareableHandle MemGetHandleForAddressRange MemImportFromShareableHandle:1
        MemPoolExportPointer:1 MemPoolExportToShareableHandle MemPoolImportFromShareableHandle:1
        MemPoolImportPointer:1
        """,
    ),
    Subject(
        "linking",
        "hipLink… takes code objects of AMD and NVIDIA",
        "forebay.hiprtc, which compiles and links",
        """
        LinkAddData:1 LinkAddFile:1 LinkComplete:2 LinkCreate:2 LinkDestroy
        """,
    ),
    Subject(
        "C functions",
        "no C function is behind a name of HIP here",
        "getattr(hip, name)",
        """
        GetDriverEntryPoint:2 GetDriverEntryPoint_spt:2 GetProcAddress:2 GetProcAddress_spt:2
        """,
    ),
    Subject(
        "clusters",
        "groups do not form clusters",
        "",
        """
        OccupancyMaxActiveClusters:1 OccupancyMaxPotentialClusterSize:1
        """,
    ),
    Subject(
        "host stubs",
        "a kernel has no function on the host that stands for it",
        "hipModuleGetFunction and hipModuleLaunchKernel",
        """
        ApiName:1 ConfigureCall GetFuncBySymbol:1 KernelNameRef:1 KernelNameRefByPtr:1 LaunchByPtr
        SetupArgument
        """,
    ),
    Subject(
        "several devices",
        "a launch is for one device",
        "hipModuleLaunchKernel on a stream of each device",
        """
        ExtLaunchMultiKernelMultiDevice LaunchCooperativeKernelMultiDevice
        ModuleLaunchCooperativeKernelMultiDevice
        """,
    ),
    Subject(
        "profiling",
        "AMD's runtime returns this error, too",
        "a profiler of the driver, such as unitrace for Level Zero and OpenCL",
        """
        ProfilerStart ProfilerStop
        """,
    ),
    Subject(
        "logs",
        "forebay writes no log",
        "last_exception()",
        """
        ExtDisableLogging ExtEnableLogging ExtSetLoggingParams
        """,
    ),
    Subject(
        "batches",
        "commands are not submitted in batches",
        "one call for each command; launches go together between hipStreamStepBegin and hipStreamStepEnd",
        """
        DrvMemDiscardAndPrefetchBatchAsync:2 DrvMemDiscardBatchAsync:1 GraphAddBatchMemOpNode:1
        GraphBatchMemOpNodeGetParams GraphBatchMemOpNodeSetParams GraphExecBatchMemOpNodeSetParams
        MemDiscardAndPrefetchBatchAsync:2 MemDiscardBatchAsync:1 MemPrefetchBatchAsync:2
        Memcpy3DBatchAsync:1 MemcpyBatchAsync:4 StreamBatchMemOp
        """,
    ),
    Subject(
        "captures",
        "the dependencies of a capture follow from its streams",
        "hipStreamWaitEvent",
        """
        StreamBeginCaptureToGraph StreamUpdateCaptureDependencies
        """,
    ),
    Subject(
        "launch attributes",
        "launches, streams and nodes have no attributes",
        "hipModuleLaunchKernel, and hipLaunchCooperativeKernel",
        """
        DrvLaunchKernelEx GraphKernelNodeCopyAttributes:1 GraphKernelNodeGetAttribute
        GraphKernelNodeSetAttribute LaunchKernelExC StreamCopyAttributes StreamGetAttribute
        StreamSetAttribute
        """,
    ),
    Subject(
        "nodes of any kind",
        "a node is made and changed by the functions of its kind",
        "hipGraphAddKernelNode and its like",
        """
        DrvGraphAddMemcpyNode:1 DrvGraphAddMemsetNode:1 DrvGraphExecMemcpyNodeSetParams
        DrvGraphExecMemsetNodeSetParams DrvGraphMemcpyNodeGetParams:1 DrvGraphMemcpyNodeSetParams:1
        GraphAddNode:1 GraphInstantiateWithParams:1 GraphExecNodeSetParams GraphNodeSetParams
        """,
    ),
    Subject(
        "changes of graphs",
        "nodes stay in their graph, and stay enabled",
        "another graph, and hipGraphExecUpdate",
        """
        GraphDestroyNode GraphNodeGetEnabled:1 GraphNodeSetEnabled
        """,
    ),
    Subject(
        "memory pools",
        "each device has one pool",
        "hipDeviceGetDefaultMemPool",
        """
        MemGetDefaultMemPool:1 MemGetMemPool:1 MemPoolCreate:1 MemPoolDestroy MemPoolSetAccess MemSetMemPool
        """,
    ),
)


def _make(name: str, outputs: int, subject: Subject) -> Callable[..., Result]:
    instead = f"; instead: {subject.instead}" if subject.instead else ""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise HipError(hipError_t.hipErrorNotSupported, f"{name}: {subject.reason}{instead}")

    refuse.__name__ = refuse.__qualname__ = name
    nones = ", None" * outputs
    refuse.__doc__ = (
        f"Return ``(hipErrorNotSupported{nones or ','})``: {subject.reason}{instead}.\n\n"
        "Takes any arguments, and does not block."
    )
    return api(outputs)(refuse)


for _subject in SUBJECTS:
    for _name, _outputs in _subject.outputs():
        globals()[_name] = _make(_name, _outputs, _subject)
        __all__.append(_name)
