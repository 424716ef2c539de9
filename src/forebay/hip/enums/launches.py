"""Enumerations of functions, launches, libraries and graphs. HIP's own names and values (HIP 7.2)."""

from __future__ import annotations

import enum


class hipFuncAttribute(enum.IntEnum):
    """What can be set of a function."""

    hipFuncAttributeMaxDynamicSharedMemorySize = 8
    hipFuncAttributePreferredSharedMemoryCarveout = 9
    hipFuncAttributeClusterDimMustBeSet = 10
    hipFuncAttributeRequiredClusterWidth = 11
    hipFuncAttributeRequiredClusterHeight = 12
    hipFuncAttributeRequiredClusterDepth = 13
    hipFuncAttributeNonPortableClusterSizeAllowed = 14
    hipFuncAttributeClusterSchedulingPolicyPreference = 15
    hipFuncAttributeMax = 16


class hipLaunchAttributeID(enum.IntEnum):
    """What can be said about a launch."""

    hipLaunchAttributeIgnore = 0
    hipLaunchAttributeAccessPolicyWindow = 1
    hipLaunchAttributeCooperative = 2
    hipLaunchAttributeSynchronizationPolicy = 3
    hipLaunchAttributeClusterDimension = 4
    hipLaunchAttributeClusterSchedulingPolicyPreference = 5
    hipLaunchAttributePriority = 8
    hipLaunchAttributeMemSyncDomainMap = 9
    hipLaunchAttributeMemSyncDomain = 10
    hipLaunchAttributeExtDynDataPrefetch = 1024
    hipLaunchAttributeMax = 1025


class hipLaunchMemSyncDomain(enum.IntEnum):
    """Which writes a launch waits for."""

    hipLaunchMemSyncDomainDefault = 0
    hipLaunchMemSyncDomainRemote = 1


class hipSynchronizationPolicy(enum.IntEnum):
    """How the host waits."""

    hipSyncPolicyAuto = 1
    hipSyncPolicySpin = 2
    hipSyncPolicyYield = 3
    hipSyncPolicyBlockingSync = 4


class hipClusterSchedulingPolicy(enum.IntEnum):
    """How clusters of groups are scheduled."""

    hipClusterSchedulingPolicyDefault = 0
    hipClusterSchedulingPolicySpread = 1
    hipClusterSchedulingPolicyLoadBalancing = 2


class hipExtDynDataPrefetchTemporal(enum.IntEnum):
    """How long prefetched data is kept."""

    hipExtDynDataPrefetchTemporalRegular = 0
    hipExtDynDataPrefetchTemporalHigh = 1


class hipStreamBatchMemOpType(enum.IntEnum):
    """What an operation of a batch on memory does."""

    hipStreamMemOpWaitValue32 = 1
    hipStreamMemOpWriteValue32 = 2
    hipStreamMemOpWaitValue64 = 4
    hipStreamMemOpWriteValue64 = 5
    hipStreamMemOpBarrier = 6
    hipStreamMemOpFlushRemoteWrites = 3


class hipGraphDebugDotFlags(enum.IntEnum):
    """What the picture of a graph shows."""

    hipGraphDebugDotFlagsVerbose = 1
    hipGraphDebugDotFlagsKernelNodeParams = 4
    hipGraphDebugDotFlagsMemcpyNodeParams = 8
    hipGraphDebugDotFlagsMemsetNodeParams = 16
    hipGraphDebugDotFlagsHostNodeParams = 32
    hipGraphDebugDotFlagsEventNodeParams = 64
    hipGraphDebugDotFlagsExtSemasSignalNodeParams = 128
    hipGraphDebugDotFlagsExtSemasWaitNodeParams = 256
    hipGraphDebugDotFlagsKernelNodeAttributes = 512
    hipGraphDebugDotFlagsHandles = 1024


class hipGraphDependencyType(enum.IntEnum):
    """What a dependency between nodes is."""

    hipGraphDependencyTypeDefault = 0
    hipGraphDependencyTypeProgrammatic = 1


class hipGraphInstantiateResult(enum.IntEnum):
    """How instantiating a graph went."""

    hipGraphInstantiateSuccess = 0
    hipGraphInstantiateError = 1
    hipGraphInstantiateInvalidStructure = 2
    hipGraphInstantiateNodeOperationNotSupported = 3
    hipGraphInstantiateMultipleDevicesNotSupported = 4


class hipStreamUpdateCaptureDependenciesFlags(enum.IntEnum):
    """Whether dependencies are added or replaced."""

    hipStreamAddCaptureDependencies = 0
    hipStreamSetCaptureDependencies = 1


class hipUserObjectFlags(enum.IntEnum):
    """How the destructor of a user object is called."""

    hipUserObjectNoDestructorSync = 1


class hipUserObjectRetainFlags(enum.IntEnum):
    """Whether a graph takes over the references to a user object."""

    hipGraphUserObjectMove = 1


class hipJitOption(enum.IntEnum):
    """Options of a linker."""

    hipJitOptionMaxRegisters = 0
    hipJitOptionThreadsPerBlock = 1
    hipJitOptionWallTime = 2
    hipJitOptionInfoLogBuffer = 3
    hipJitOptionInfoLogBufferSizeBytes = 4
    hipJitOptionErrorLogBuffer = 5
    hipJitOptionErrorLogBufferSizeBytes = 6
    hipJitOptionOptimizationLevel = 7
    hipJitOptionTargetFromContext = 8
    hipJitOptionTarget = 9
    hipJitOptionFallbackStrategy = 10
    hipJitOptionGenerateDebugInfo = 11
    hipJitOptionLogVerbose = 12
    hipJitOptionGenerateLineInfo = 13
    hipJitOptionCacheMode = 14
    hipJitOptionSm3xOpt = 15
    hipJitOptionFastCompile = 16
    hipJitOptionGlobalSymbolNames = 17
    hipJitOptionGlobalSymbolAddresses = 18
    hipJitOptionGlobalSymbolCount = 19
    hipJitOptionLto = 20
    hipJitOptionFtz = 21
    hipJitOptionPrecDiv = 22
    hipJitOptionPrecSqrt = 23
    hipJitOptionFma = 24
    hipJitOptionPositionIndependentCode = 25
    hipJitOptionMinCTAPerSM = 26
    hipJitOptionMaxThreadsPerBlock = 27
    hipJitOptionOverrideDirectiveValues = 28
    hipJitOptionNumOptions = 29
    hipJitOptionIRtoISAOptExt = 10000
    hipJitOptionIRtoISAOptCountExt = 10001


class hipJitInputType(enum.IntEnum):
    """What is given to a linker."""

    hipJitInputCubin = 0
    hipJitInputPtx = 1
    hipJitInputFatBinary = 2
    hipJitInputObject = 3
    hipJitInputLibrary = 4
    hipJitInputNvvm = 5
    hipJitNumLegacyInputTypes = 6
    hipJitInputLLVMBitcode = 100
    hipJitInputLLVMBundledBitcode = 101
    hipJitInputLLVMArchivesOfBundledBitcode = 102
    hipJitInputSpirv = 103
    hipJitNumInputTypes = 10


class hipJitCacheMode(enum.IntEnum):
    """How loads are cached."""

    hipJitCacheOptionNone = 0
    hipJitCacheOptionCG = 1
    hipJitCacheOptionCA = 2


class hipJitFallback(enum.IntEnum):
    """What a linker does when there is no exact match."""

    hipJitPreferPTX = 0
    hipJitPreferBinary = 1


class hipLibraryOption(enum.IntEnum):
    """Options of a library."""

    hipLibraryHostUniversalFunctionAndDataTable = 0
    hipLibraryBinaryIsPreserved = 1


class hipLibraryPropertyType(enum.IntEnum):
    """What can be asked of the version of a library."""

    HIP_LIBRARY_MAJOR_VERSION = 0
    HIP_LIBRARY_MINOR_VERSION = 1
    HIP_LIBRARY_PATCH_LEVEL = 2


class hipDriverEntryPointQueryResult(enum.IntEnum):
    """How looking for a function went."""

    hipDriverEntryPointSuccess = 0
    hipDriverEntryPointSymbolNotFound = 1
    hipDriverEntryPointVersionNotSufficent = 2


class hipDriverProcAddressQueryResult(enum.IntEnum):
    """How looking for the address of a function went."""

    HIP_GET_PROC_ADDRESS_SUCCESS = 0
    HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1
    HIP_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2


hipLibraryOption_e = hipLibraryOption
