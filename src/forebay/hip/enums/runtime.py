"""HIP's enumerations and constants, under their own names and with their own values (HIP 7.2)."""

from __future__ import annotations

import enum


class hipError_t(enum.IntEnum):
    """What a call returns first."""

    hipSuccess = 0
    hipErrorInvalidValue = 1
    hipErrorOutOfMemory = 2
    hipErrorMemoryAllocation = 2
    hipErrorNotInitialized = 3
    hipErrorInitializationError = 3
    hipErrorDeinitialized = 4
    hipErrorProfilerDisabled = 5
    hipErrorProfilerNotInitialized = 6
    hipErrorProfilerAlreadyStarted = 7
    hipErrorProfilerAlreadyStopped = 8
    hipErrorInvalidConfiguration = 9
    hipErrorInvalidPitchValue = 12
    hipErrorInvalidSymbol = 13
    hipErrorInvalidDevicePointer = 17
    hipErrorInvalidMemcpyDirection = 21
    hipErrorInsufficientDriver = 35
    hipErrorMissingConfiguration = 52
    hipErrorPriorLaunchFailure = 53
    hipErrorInvalidDeviceFunction = 98
    hipErrorNoDevice = 100
    hipErrorInvalidDevice = 101
    hipErrorInvalidImage = 200
    hipErrorInvalidContext = 201
    hipErrorContextAlreadyCurrent = 202
    hipErrorMapFailed = 205
    hipErrorMapBufferObjectFailed = 205
    hipErrorUnmapFailed = 206
    hipErrorArrayIsMapped = 207
    hipErrorAlreadyMapped = 208
    hipErrorNoBinaryForGpu = 209
    hipErrorAlreadyAcquired = 210
    hipErrorNotMapped = 211
    hipErrorNotMappedAsArray = 212
    hipErrorNotMappedAsPointer = 213
    hipErrorECCNotCorrectable = 214
    hipErrorUnsupportedLimit = 215
    hipErrorContextAlreadyInUse = 216
    hipErrorPeerAccessUnsupported = 217
    hipErrorInvalidKernelFile = 218
    hipErrorInvalidGraphicsContext = 219
    hipErrorInvalidSource = 300
    hipErrorFileNotFound = 301
    hipErrorSharedObjectSymbolNotFound = 302
    hipErrorSharedObjectInitFailed = 303
    hipErrorOperatingSystem = 304
    hipErrorInvalidHandle = 400
    hipErrorInvalidResourceHandle = 400
    hipErrorIllegalState = 401
    hipErrorNotFound = 500
    hipErrorNotReady = 600
    hipErrorIllegalAddress = 700
    hipErrorLaunchOutOfResources = 701
    hipErrorLaunchTimeOut = 702
    hipErrorPeerAccessAlreadyEnabled = 704
    hipErrorPeerAccessNotEnabled = 705
    hipErrorSetOnActiveProcess = 708
    hipErrorContextIsDestroyed = 709
    hipErrorAssert = 710
    hipErrorHostMemoryAlreadyRegistered = 712
    hipErrorHostMemoryNotRegistered = 713
    hipErrorLaunchFailure = 719
    hipErrorCooperativeLaunchTooLarge = 720
    hipErrorNotSupported = 801
    hipErrorStreamCaptureUnsupported = 900
    hipErrorStreamCaptureInvalidated = 901
    hipErrorStreamCaptureMerge = 902
    hipErrorStreamCaptureUnmatched = 903
    hipErrorStreamCaptureUnjoined = 904
    hipErrorStreamCaptureIsolation = 905
    hipErrorStreamCaptureImplicit = 906
    hipErrorCapturedEvent = 907
    hipErrorStreamCaptureWrongThread = 908
    hipErrorGraphExecUpdateFailure = 910
    hipErrorInvalidChannelDescriptor = 911
    hipErrorInvalidTexture = 912
    hipErrorInvalidResourceType = 914
    hipErrorInvalidResourceConfiguration = 915
    hipErrorStreamDetached = 916
    hipErrorUnknown = 999
    hipErrorRuntimeMemory = 1052
    hipErrorRuntimeOther = 1053
    hipErrorInvalidClusterSize = 1054
    hipErrorTbd = 1055

    def __str__(self) -> str:
        return f"hipError_t.{self.name}"  # since Python 3.11 it would be a number


class hipMemcpyKind(enum.IntEnum):
    """Between which kinds of memory a copy goes."""

    hipMemcpyHostToHost = 0
    hipMemcpyHostToDevice = 1
    hipMemcpyDeviceToHost = 2
    hipMemcpyDeviceToDevice = 3
    hipMemcpyDefault = 4
    hipMemcpyDeviceToDeviceNoCU = 1024


class hipMemPoolAttr(enum.IntEnum):
    """What can be asked of and told to a memory pool."""

    hipMemPoolReuseFollowEventDependencies = 1
    hipMemPoolReuseAllowOpportunistic = 2
    hipMemPoolReuseAllowInternalDependencies = 3
    hipMemPoolAttrReleaseThreshold = 4
    hipMemPoolAttrReservedMemCurrent = 5
    hipMemPoolAttrReservedMemHigh = 6
    hipMemPoolAttrUsedMemCurrent = 7
    hipMemPoolAttrUsedMemHigh = 8


class hipFunction_attribute(enum.IntEnum):
    """What can be asked of a function."""

    HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
    HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
    HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2
    HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3
    HIP_FUNC_ATTRIBUTE_NUM_REGS = 4
    HIP_FUNC_ATTRIBUTE_PTX_VERSION = 5
    HIP_FUNC_ATTRIBUTE_BINARY_VERSION = 6
    HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7
    HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9
    HIP_FUNC_ATTRIBUTE_CLUSTER_DIM_MUST_BE_SET = 10
    HIP_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11
    HIP_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12
    HIP_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13
    HIP_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
    HIP_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15
    HIP_FUNC_ATTRIBUTE_MAX = 16


class hipMemoryType(enum.IntEnum):
    """Where memory is."""

    hipMemoryTypeUnregistered = 0
    hipMemoryTypeHost = 1
    hipMemoryTypeDevice = 2
    hipMemoryTypeManaged = 3
    hipMemoryTypeArray = 10
    hipMemoryTypeUnified = 11


class hipStreamCaptureMode(enum.IntEnum):
    """What else may be called while a stream captures."""

    hipStreamCaptureModeGlobal = 0
    hipStreamCaptureModeThreadLocal = 1
    hipStreamCaptureModeRelaxed = 2


class hipStreamCaptureStatus(enum.IntEnum):
    """Whether a stream captures."""

    hipStreamCaptureStatusNone = 0
    hipStreamCaptureStatusActive = 1
    hipStreamCaptureStatusInvalidated = 2


class hipGraphNodeType(enum.IntEnum):
    """What a node of a graph does."""

    hipGraphNodeTypeKernel = 0
    hipGraphNodeTypeMemcpy = 1
    hipGraphNodeTypeMemset = 2
    hipGraphNodeTypeHost = 3
    hipGraphNodeTypeGraph = 4
    hipGraphNodeTypeEmpty = 5
    hipGraphNodeTypeWaitEvent = 6
    hipGraphNodeTypeEventRecord = 7
    hipGraphNodeTypeExtSemaphoreSignal = 8
    hipGraphNodeTypeExtSemaphoreWait = 9
    hipGraphNodeTypeMemAlloc = 10
    hipGraphNodeTypeMemFree = 11
    hipGraphNodeTypeMemcpyFromSymbol = 12
    hipGraphNodeTypeMemcpyToSymbol = 13
    hipGraphNodeTypeBatchMemOp = 14
    hipGraphNodeTypeCount = 15


class hipGraphInstantiateFlags(enum.IntFlag):
    """How a graph is made ready to be launched."""

    hipGraphInstantiateFlagAutoFreeOnLaunch = 1
    hipGraphInstantiateFlagUpload = 2
    hipGraphInstantiateFlagDeviceLaunch = 4
    hipGraphInstantiateFlagUseNodePriority = 8


class hipGraphMemAttributeType(enum.IntEnum):
    """What can be asked about the memory of graphs."""

    hipGraphMemAttrUsedMemCurrent = 0
    hipGraphMemAttrUsedMemHigh = 1
    hipGraphMemAttrReservedMemCurrent = 2
    hipGraphMemAttrReservedMemHigh = 3


class hipGraphExecUpdateResult(enum.IntEnum):
    """How the update of an executable graph went."""

    hipGraphExecUpdateSuccess = 0
    hipGraphExecUpdateError = 1
    hipGraphExecUpdateErrorTopologyChanged = 2
    hipGraphExecUpdateErrorNodeTypeChanged = 3
    hipGraphExecUpdateErrorFunctionChanged = 4
    hipGraphExecUpdateErrorParametersChanged = 5
    hipGraphExecUpdateErrorNotSupported = 6
    hipGraphExecUpdateErrorUnsupportedFunctionChange = 7


class hipLimit_t(enum.IntEnum):
    """Limits of a device."""

    hipLimitStackSize = 0
    hipLimitPrintfFifoSize = 1
    hipLimitMallocHeapSize = 2
    hipExtLimitScratchMin = 4096
    hipExtLimitScratchMax = 4097
    hipExtLimitScratchCurrent = 4098
    hipLimitRange = 4099


class hipComputeMode(enum.IntEnum):
    """Who may use a device."""

    hipComputeModeDefault = 0
    hipComputeModeExclusive = 1
    hipComputeModeProhibited = 2
    hipComputeModeExclusiveProcess = 3


class hipMemAllocationType(enum.IntEnum):
    """How memory is allocated."""

    hipMemAllocationTypeInvalid = 0
    hipMemAllocationTypePinned = 1
    hipMemAllocationTypeManaged = 2
    hipMemAllocationTypeUncached = 1073741824
    hipMemAllocationTypeMax = 2147483647


class hipMemLocationType(enum.IntEnum):
    """What a location is."""

    hipMemLocationTypeInvalid = 0
    hipMemLocationTypeNone = 0
    hipMemLocationTypeDevice = 1
    hipMemLocationTypeHost = 2
    hipMemLocationTypeHostNuma = 3
    hipMemLocationTypeHostNumaCurrent = 4


hipStreamDefault = 0
hipStreamNonBlocking = 1
hipEventDefault = 0
hipEventBlockingSync = 1
hipEventDisableTiming = 2
hipEventInterprocess = 4
hipEventReleaseToDevice = 0x40000000
hipEventReleaseToSystem = 0x80000000
hipHostMallocDefault = 0
hipHostMallocPortable = 1
hipHostMallocMapped = 2
hipHostMallocWriteCombined = 4
hipHostMallocNumaUser = 0x20000000
hipHostMallocCoherent = 0x40000000
hipHostMallocNonCoherent = 0x80000000
hipMemAttachGlobal = 1
hipMemAttachHost = 2
hipMemAttachSingle = 4
hipDeviceScheduleAuto = 0
hipDeviceScheduleSpin = 1
hipDeviceScheduleYield = 2
hipDeviceScheduleBlockingSync = 4
hipDeviceMapHost = 8
hipDeviceScheduleMask = 7
hipDeviceLmemResizeToMax = 16
hipDeviceMallocDefault = 0
hipDeviceMallocFinegrained = 1
hipMallocSignalMemory = 2
hipDeviceMallocUncached = 3
hipHostRegisterDefault = 0
hipHostRegisterPortable = 1
hipHostRegisterMapped = 2
hipHostRegisterIoMemory = 4
hipHostRegisterReadOnly = 8
hipExtHostRegisterCoarseGrained = 8
hipIpcMemLazyEnablePeerAccess = 1
HIP_IPC_HANDLE_SIZE = 64
hipCooperativeLaunchMultiDeviceNoPreSync = 1
hipCooperativeLaunchMultiDeviceNoPostSync = 2
hipExtAnyOrderLaunch = 1
hipArrayDefault = 0
hipArrayLayered = 1
hipArraySurfaceLoadStore = 2
hipArrayCubemap = 4
hipArrayTextureGather = 8
hipStreamWaitValueGte = 0
hipStreamWaitValueEq = 1
hipStreamWaitValueAnd = 2
hipStreamWaitValueNor = 3
hipOccupancyDefault = 0
hipCpuDeviceId = -1
hipInvalidDeviceId = -2
HIP_LAUNCH_PARAM_BUFFER_POINTER = 1
HIP_LAUNCH_PARAM_BUFFER_SIZE = 2
HIP_LAUNCH_PARAM_END = 3
hipEventWaitDefault = 0
hipEventWaitExternal = 1
hipEventRecordDefault = 0
hipEventRecordExternal = 1
HIP_VERSION_MAJOR = 7
HIP_VERSION_MINOR = 2
HIP_VERSION_PATCH = 0
HIP_VERSION = 70200000
