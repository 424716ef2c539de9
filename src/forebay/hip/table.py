"""Which functions of HIP there are, and on which driver: ``forebay hip`` prints it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from forebay.hip.functions.unavailable import SUBJECTS

DRIVERS = ("cuda", "level_zero", "opencl", "sycl")

# The functions of HIP 7.2 by chapter, without "hip". The chapters of those in `functions.unavailable` are its subjects.
_CHAPTERS = {
    "devices": """
        ChooseDevice DeviceCanAccessPeer DeviceComputeCapability DeviceDisablePeerAccess
        DeviceEnablePeerAccess DeviceGet DeviceGetAttribute DeviceGetCacheConfig DeviceGetLimit
        DeviceGetName DeviceGetP2PAttribute DeviceGetSharedMemConfig DeviceGetUuid DeviceReset
        DeviceSetCacheConfig DeviceSetLimit DeviceSetSharedMemConfig DeviceSynchronize DeviceTotalMem
        DriverGetVersion ExtGetLinkTypeAndHopCount GetDevice GetDeviceCount GetDeviceFlags
        GetDeviceProperties Init RuntimeGetVersion SetDevice SetDeviceFlags
    """,
    "contexts": """
        CtxCreate CtxDestroy CtxDisablePeerAccess CtxEnablePeerAccess CtxGetApiVersion CtxGetCacheConfig
        CtxGetCurrent CtxGetDevice CtxGetFlags CtxGetSharedMemConfig CtxPopCurrent CtxPushCurrent
        CtxSetCacheConfig CtxSetCurrent CtxSetSharedMemConfig CtxSynchronize DevicePrimaryCtxGetState
        DevicePrimaryCtxRelease DevicePrimaryCtxReset DevicePrimaryCtxRetain DevicePrimaryCtxSetFlags
    """,
    "streams": """
        DeviceGetStreamPriorityRange GetStreamDeviceId LaunchHostFunc LaunchHostFunc_spt StreamAddCallback
        StreamAddCallback_spt StreamAttachMemAsync StreamCreate StreamCreateWithFlags
        StreamCreateWithPriority StreamDestroy StreamGetDevice StreamGetFlags StreamGetFlags_spt StreamGetId
        StreamGetPriority StreamGetPriority_spt StreamQuery StreamQuery_spt StreamSynchronize
        StreamSynchronize_spt StreamWaitEvent StreamWaitEvent_spt StreamWaitValue32 StreamWaitValue64
        StreamWriteValue32 StreamWriteValue64
    """,
    "events": """
        EventCreate EventCreateWithFlags EventDestroy EventElapsedTime EventQuery EventRecord
        EventRecordWithFlags EventRecord_spt EventSynchronize IpcGetEventHandle IpcOpenEventHandle
    """,
    "memory": """
        DeviceGetDefaultMemPool DeviceGetMemPool DeviceSetMemPool DrvMemcpy2DUnaligned DrvMemcpy3D
        DrvMemcpy3DAsync ExtMallocWithFlags Free FreeAsync FreeHost HostAlloc HostFree HostGetDevicePointer
        HostGetFlags HostMalloc HostRegister HostUnregister Malloc Malloc3D MallocAsync MallocFromPoolAsync
        MallocHost MallocManaged MallocPitch MemAdvise MemAdvise_v2 MemAllocHost MemAllocPitch
        MemGetAddressRange MemGetInfo MemPoolGetAccess MemPoolGetAttribute MemPoolSetAttribute MemPoolTrimTo
        IpcCloseMemHandle IpcGetMemHandle IpcOpenMemHandle
        MemPrefetchAsync MemPrefetchAsync_v2 MemPtrGetInfo MemRangeGetAttribute Memcpy Memcpy2D
        Memcpy2DAsync Memcpy2DAsync_spt Memcpy2D_spt Memcpy3D Memcpy3DAsync Memcpy3DAsync_spt Memcpy3DPeer
        Memcpy3DPeerAsync Memcpy3D_spt MemcpyAsync MemcpyAsync_spt MemcpyDtoD MemcpyDtoDAsync MemcpyDtoH
        MemcpyDtoHAsync MemcpyHtoD MemcpyHtoDAsync MemcpyParam2D MemcpyParam2DAsync MemcpyPeer
        MemcpyPeerAsync MemcpyWithStream Memcpy_spt Memset Memset2D Memset2DAsync Memset2DAsync_spt
        Memset2D_spt Memset3D Memset3DAsync Memset3DAsync_spt Memset3D_spt MemsetAsync MemsetAsync_spt
        MemsetD16 MemsetD16Async MemsetD2D16 MemsetD2D16Async MemsetD2D32 MemsetD2D32Async MemsetD2D8
        MemsetD2D8Async MemsetD32 MemsetD32Async MemsetD8 MemsetD8Async Memset_spt PointerGetAttribute
        PointerGetAttributes PointerSetAttribute
    """,
    "variables": """
        GetSymbolAddress GetSymbolSize MemcpyFromSymbol MemcpyFromSymbolAsync MemcpyFromSymbolAsync_spt
        MemcpyFromSymbol_spt MemcpyToSymbol MemcpyToSymbolAsync MemcpyToSymbolAsync_spt MemcpyToSymbol_spt
    """,
    "arrays": """
        Array3DCreate Array3DGetDescriptor ArrayCreate ArrayDestroy ArrayGetDescriptor ArrayGetInfo CreateChannelDesc
        FreeArray GetChannelDesc Malloc3DArray MallocArray Memcpy2DArrayToArray Memcpy2DFromArray
        Memcpy2DFromArrayAsync Memcpy2DFromArrayAsync_spt Memcpy2DFromArray_spt Memcpy2DToArray Memcpy2DToArrayAsync
        Memcpy2DToArrayAsync_spt Memcpy2DToArray_spt MemcpyAtoA MemcpyAtoD MemcpyAtoH MemcpyAtoHAsync MemcpyDtoA
        MemcpyFromArray MemcpyFromArray_spt MemcpyHtoA MemcpyHtoAAsync MemcpyToArray
    """,
    "textures": """
        BindTexture BindTexture2D BindTextureToArray CreateSurfaceObject CreateTextureObject DestroySurfaceObject
        DestroyTextureObject DeviceGetTexture1DLinearMaxWidth GetTextureAlignmentOffset GetTextureObjectResourceDesc
        GetTextureObjectResourceViewDesc GetTextureObjectTextureDesc GetTextureReference ModuleGetTexRef TexObjectCreate
        TexObjectDestroy TexObjectGetResourceDesc TexObjectGetResourceViewDesc TexObjectGetTextureDesc
        TexRefGetAddress TexRefGetAddressMode TexRefGetArray TexRefGetBorderColor TexRefGetFilterMode TexRefGetFlags
        TexRefGetFormat TexRefGetMaxAnisotropy TexRefSetAddress TexRefSetAddress2D TexRefSetAddressMode TexRefSetArray
        TexRefSetBorderColor TexRefSetFilterMode TexRefSetFlags TexRefSetFormat TexRefSetMaxAnisotropy UnbindTexture
    """,
    "modules": """
        ExtLaunchKernel FuncGetAttribute FuncGetAttributes FuncSetAttribute FuncSetCacheConfig
        FuncSetSharedMemConfig LaunchCooperativeKernel LaunchCooperativeKernel_spt LaunchKernel
        LaunchKernel_spt ModuleGetFunction ModuleGetFunctionCount ModuleGetGlobal
        ModuleLaunchCooperativeKernel ModuleLaunchKernel ModuleLoad ModuleLoadData ModuleLoadDataEx
        ModuleLoadFatBinary ModuleOccupancyMaxActiveBlocksPerMultiprocessor
        ModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags ModuleOccupancyMaxPotentialBlockSize
        ModuleOccupancyMaxPotentialBlockSizeWithFlags ModuleUnload OccupancyAvailableDynamicSMemPerBlock
        OccupancyMaxActiveBlocksPerMultiprocessor OccupancyMaxActiveBlocksPerMultiprocessorWithFlags
        OccupancyMaxPotentialBlockSize
    """,
    "libraries": """
        KernelGetAttribute KernelGetFunction KernelGetLibrary KernelGetName KernelGetParamInfo KernelSetAttribute
        LibraryEnumerateKernels LibraryGetGlobal LibraryGetKernel LibraryGetKernelCount LibraryLoadData
        LibraryLoadFromFile LibraryUnload
    """,
    "graphs": """
        DeviceGetGraphMemAttribute DeviceGraphMemTrim DeviceSetGraphMemAttribute DrvGraphAddMemFreeNode
        GraphAddChildGraphNode GraphAddDependencies GraphAddEmptyNode GraphAddEventRecordNode
        GraphAddEventWaitNode GraphAddHostNode GraphAddKernelNode GraphAddMemAllocNode GraphAddMemFreeNode
        GraphAddMemcpyNode GraphAddMemcpyNode1D GraphAddMemcpyNodeFromSymbol GraphAddMemcpyNodeToSymbol
        GraphAddMemsetNode GraphChildGraphNodeGetGraph GraphClone GraphCreate GraphDebugDotPrint
        GraphDestroy GraphEventRecordNodeGetEvent GraphEventRecordNodeSetEvent GraphEventWaitNodeGetEvent
        GraphEventWaitNodeSetEvent GraphExecChildGraphNodeSetParams GraphExecDestroy
        GraphExecEventRecordNodeSetEvent GraphExecEventWaitNodeSetEvent GraphExecGetFlags
        GraphExecHostNodeSetParams GraphExecKernelNodeSetParams GraphExecMemcpyNodeSetParams
        GraphExecMemcpyNodeSetParams1D GraphExecMemcpyNodeSetParamsFromSymbol
        GraphExecMemcpyNodeSetParamsToSymbol GraphExecMemsetNodeSetParams GraphExecUpdate GraphGetEdges
        GraphGetNodes GraphGetRootNodes GraphHostNodeGetParams GraphHostNodeSetParams GraphInstantiate
        GraphInstantiateWithFlags GraphKernelNodeGetParams GraphKernelNodeSetParams GraphLaunch
        GraphLaunch_spt GraphMemAllocNodeGetParams GraphMemFreeNodeGetParams GraphMemcpyNodeGetParams
        GraphMemcpyNodeSetParams GraphMemcpyNodeSetParams1D GraphMemcpyNodeSetParamsFromSymbol
        GraphMemcpyNodeSetParamsToSymbol GraphMemsetNodeGetParams GraphMemsetNodeSetParams
        GraphNodeFindInClone GraphNodeGetDependencies GraphNodeGetDependentNodes GraphNodeGetType
        GraphRemoveDependencies GraphUpload StreamBeginCapture StreamBeginCapture_spt StreamEndCapture
        StreamEndCapture_spt StreamGetCaptureInfo StreamGetCaptureInfo_spt StreamGetCaptureInfo_v2
        StreamGetCaptureInfo_v2_spt StreamIsCapturing StreamIsCapturing_spt ThreadExchangeStreamCaptureMode
    """,
    "errors": """
        DrvGetErrorName DrvGetErrorString ExtGetLastError GetErrorName GetErrorString GetLastError
        PeekAtLastError
    """,
    "forebay's own": """
        StreamStepBegin StreamStepEnd
    """,
}
CHAPTERS = {chapter: tuple(f"hip{name}" for name in names.split()) for chapter, names in _CHAPTERS.items()} | {
    subject.name: tuple(subject.outputs) for subject in SUBJECTS
}

NO = ("no",) * 4
_SYMBOLS = (
    *CHAPTERS["variables"],
    "hipLibraryGetGlobal",
    *(name for name in CHAPTERS["graphs"] if name.endswith("Symbol")),
)
EVERYWHERE = ("yes",) * 4
FINE_GRAINED = "with fine-grained SVM"
# Texture references are variables.
_BOUND = (
    "hipBindTexture",
    "hipBindTexture2D",
    "hipBindTextureToArray",
    "hipGetTextureReference",
    "hipModuleGetTexRef",
    "hipUnbindTexture",
    *(name for name in CHAPTERS["textures"] if name.startswith("hipTexRef")),
)
# What a driver or a device may lack, in the order of DRIVERS.
CONDITIONS: dict[str, tuple[str, str, str, str]] = {
    "hipMallocManaged": ("yes", "yes", FINE_GRAINED, "with shared USM"),
    **dict.fromkeys(("hipHostMalloc", "hipHostAlloc", "hipMallocHost", "hipMemAllocHost"),
                    ("yes", "yes", f"{FINE_GRAINED}; else for copies only", "yes")),
    "hipStreamCreateWithPriority": ("yes", "yes", "with cl_khr_priority_hints, else one priority", "one priority"),
    **dict.fromkeys(("hipModuleLoad", "hipModuleLoadData", "hipModuleLoadDataEx", "hipModuleLoadFatBinary",
                     "hipLibraryLoadData", "hipLibraryLoadFromFile"),
                    ("OpenCL C, PTX and cubins", "OpenCL C with libocloc; SPIR-V",
                     "SPIR-V with cl_khr_il_program", "yes")),
    "hipModuleLaunchKernel": ("yes", "yes", "yes", "structures and local memory with a newer dpctl"),
    "hipModuleGetGlobal": ("yes", "yes", "with clGetDeviceGlobalVariablePointerINTEL", "no"),
    **dict.fromkeys(("hipStreamStepBegin", "hipStreamStepEnd"),
                    ("one driver call for a run of launches", "one driver call for a run of launches",
                     "each launch at once", "each launch at once")),
    **dict.fromkeys(("hipStreamWaitValue32", "hipStreamWaitValue64"), ("by the host",) * 4),
    **dict.fromkeys(("hipMemcpyPeer", "hipMemcpyPeerAsync"), ("through the host",) * 4),
    **dict.fromkeys(("hipMemcpy2D", "hipMemcpy2DAsync", "hipMemset2D", "hipMemset2DAsync", "hipMemcpy3D",
                     "hipMemcpy3DAsync", "hipMemset3D", "hipMemset3DAsync", "hipMemcpyParam2D"),
                    ("one command a row",) * 4),
    **dict.fromkeys(("hipGraphAddMemcpyNode", "hipGraphAddMemsetNode", "hipGraphMemcpyNodeSetParams",
                     "hipGraphMemsetNodeSetParams"), ("one command a row",) * 4),
    **dict.fromkeys(("hipGraphKernelNodeGetParams", "hipGraphMemcpyNodeGetParams", "hipGraphMemsetNodeGetParams",
                     "hipGraphHostNodeGetParams"), ("of nodes that were not captured",) * 4),
    "hipGraphChildGraphNodeGetGraph": ("a copy",) * 4,
    "hipDeviceGraphMemTrim": ("nothing to do",) * 4,
    **dict.fromkeys(CHAPTERS["arrays"], ("yes", "yes", "with SPIR-V", "yes")),
    **dict.fromkeys(CHAPTERS["textures"], ("in software", "in software", "in software, with SPIR-V", "in software")),
    **dict.fromkeys(_BOUND, ("in software", "in software",
                             "in software, with clGetDeviceGlobalVariablePointerINTEL", "no")),
    **dict.fromkeys(("hipCreateChannelDesc", "hipDeviceGetTexture1DLinearMaxWidth"), EVERYWHERE),
    **dict.fromkeys(("hipHostRegister", "hipHostGetDevicePointer"),
                    ("for copies only", "for copies only", "on CPUs; else for copies only", "for copies only")),
    **dict.fromkeys(("hipFuncGetAttributes", "hipFuncGetAttribute"),
                    ("yes", "yes", "yes", "no sizes of shared memory")),
    **dict.fromkeys(("hipLaunchCooperativeKernel", "hipModuleLaunchCooperativeKernel"),
                    ("as many groups as the driver says", "as many groups as the driver says",
                     "a group for each compute unit, on CPUs one less",
                     "a group for each compute unit, on CPUs one less")),
    **dict.fromkeys(_SYMBOLS, ("yes", "yes", "with clGetDeviceGlobalVariablePointerINTEL", "no")),
    **dict.fromkeys((name for name in CHAPTERS["modules"] if "Occupancy" in name),
                    ("by the driver's answer", *("one group for each compute unit",) * 3)),
    **dict.fromkeys(("hipMemPrefetchAsync", "hipMemPrefetchAsync_v2"), ("yes", *("remembered",) * 3)),
    **dict.fromkeys(("hipMemAdvise", "hipMemAdvise_v2", "hipStreamAttachMemAsync"), ("remembered",) * 4),
    **dict.fromkeys(("hipDeviceSetLimit", "hipDeviceSetCacheConfig", "hipDeviceSetSharedMemConfig",
                     "hipFuncSetAttribute", "hipFuncSetCacheConfig", "hipFuncSetSharedMemConfig"), ("ignored",) * 4),
    **dict.fromkeys(("hipDeviceCanAccessPeer", "hipDeviceEnablePeerAccess", "hipDeviceDisablePeerAccess"),
                    ("GPUs with a link", *("no device can",) * 3)),
    **dict.fromkeys(("hipIpcCloseMemHandle", "hipIpcGetMemHandle", "hipIpcOpenMemHandle", "hipIpcGetEventHandle",
                     "hipIpcOpenEventHandle"), ("yes", "no", "no", "no")),
    **dict.fromkeys((name for subject in SUBJECTS for name in subject.outputs), NO),
    **dict.fromkeys(("hipGraphAddEventRecordNode", "hipGraphAddEventWaitNode"), ("cuts the graph",) * 4),
    "hipGraphLaunch": (*("one driver call, up to a host function",) * 2, "a compiled loop", "a compiled loop"),
}  # fmt: skip
MISSING = ("–",) * 4


@dataclass(frozen=True)
class Row:
    """One function: its chapter, and what each driver has of it."""

    chapter: str
    name: str
    drivers: tuple[str, ...]

    @property
    def there(self) -> bool:
        """Whether any driver has it."""
        return any(state not in ("no", "–") for state in self.drivers)


def chapter_of(name: str) -> str | None:
    """Return the chapter of HIP's interface that a function belongs to; None for any other name."""
    return next((chapter for chapter, names in CHAPTERS.items() if name in names), None)


def table(functions: Collection[str]) -> list[Row]:
    """Return what there is, by chapter and name: `functions` are those of `forebay.hip`."""
    rows = []
    for chapter, names in CHAPTERS.items():
        for name in names:
            there = name in functions
            rows.append(Row(chapter, name, CONDITIONS.get(name, EVERYWHERE) if there else MISSING))
    return rows
