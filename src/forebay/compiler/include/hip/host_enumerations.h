// The enumerations and constants of HIP's interface for the host, which host code beside kernels names. Their numbers are
// those of forebay.hip; a test compares them.
#pragma once

#define hipStreamDefault 0
#define hipStreamNonBlocking 1
#define hipEventDefault 0
#define hipEventBlockingSync 1
#define hipEventDisableTiming 2
#define hipEventInterprocess 4
#define hipEventReleaseToDevice 1073741824
#define hipEventReleaseToSystem 0x80000000
#define hipHostMallocDefault 0
#define hipHostMallocPortable 1
#define hipHostMallocMapped 2
#define hipHostMallocWriteCombined 4
#define hipHostMallocNumaUser 536870912
#define hipHostMallocCoherent 1073741824
#define hipHostMallocNonCoherent 0x80000000
#define hipMemAttachGlobal 1
#define hipMemAttachHost 2
#define hipMemAttachSingle 4
#define hipDeviceScheduleAuto 0
#define hipDeviceScheduleSpin 1
#define hipDeviceScheduleYield 2
#define hipDeviceScheduleBlockingSync 4
#define hipDeviceMapHost 8
#define hipDeviceScheduleMask 7
#define hipDeviceLmemResizeToMax 16
#define hipDeviceMallocDefault 0
#define hipDeviceMallocFinegrained 1
#define hipMallocSignalMemory 2
#define hipDeviceMallocUncached 3
#define hipHostRegisterDefault 0
#define hipHostRegisterPortable 1
#define hipHostRegisterMapped 2
#define hipHostRegisterIoMemory 4
#define hipHostRegisterReadOnly 8
#define hipExtHostRegisterCoarseGrained 8
#define hipIpcMemLazyEnablePeerAccess 1
#define HIP_IPC_HANDLE_SIZE 64
#define hipCooperativeLaunchMultiDeviceNoPreSync 1
#define hipCooperativeLaunchMultiDeviceNoPostSync 2
#define hipExtAnyOrderLaunch 1
#define hipArrayDefault 0
#define hipArrayLayered 1
#define hipArraySurfaceLoadStore 2
#define hipArrayCubemap 4
#define hipArrayTextureGather 8
#define hipStreamWaitValueGte 0
#define hipStreamWaitValueEq 1
#define hipStreamWaitValueAnd 2
#define hipStreamWaitValueNor 3
#define hipOccupancyDefault 0
#define hipCpuDeviceId -1
#define hipInvalidDeviceId -2
#define HIP_LAUNCH_PARAM_BUFFER_POINTER 1
#define HIP_LAUNCH_PARAM_BUFFER_SIZE 2
#define HIP_LAUNCH_PARAM_END 3
#define hipEventWaitDefault 0
#define hipEventWaitExternal 1
#define hipEventRecordDefault 0
#define hipEventRecordExternal 1
#define HIP_TRSF_READ_AS_INTEGER 1
#define HIP_TRSF_NORMALIZED_COORDINATES 2
#define HIP_TRSF_SRGB 16
#define HIP_TRSA_OVERRIDE_FORMAT 1
#define HIP_SUCCESS 0
#define HIP_ERROR_INVALID_VALUE 1
#define HIP_ERROR_NOT_INITIALIZED 2
#define HIP_ERROR_LAUNCH_OUT_OF_RESOURCES 3
#define HIP_IMAGE_OBJECT_SIZE_DWORD 12
#define HIP_SAMPLER_OBJECT_OFFSET_DWORD 12
#define HIP_SAMPLER_OBJECT_SIZE_DWORD 8
#define HIP_TEXTURE_OBJECT_SIZE_DWORD 20
#define hipTextureType1D 1
#define hipTextureType2D 2
#define hipTextureType3D 3
#define hipTextureTypeCubemap 12
#define hipTextureType1DLayered 241
#define hipTextureType2DLayered 242
#define hipTextureTypeCubemapLayered 252
enum hipError_t { hipSuccess = 0, hipErrorInvalidValue, hipErrorOutOfMemory, hipErrorMemoryAllocation = 2,
    hipErrorNotInitialized, hipErrorInitializationError = 3, hipErrorDeinitialized, hipErrorProfilerDisabled,
    hipErrorProfilerNotInitialized, hipErrorProfilerAlreadyStarted, hipErrorProfilerAlreadyStopped,
    hipErrorInvalidConfiguration, hipErrorInvalidPitchValue = 12, hipErrorInvalidSymbol, hipErrorInvalidDevicePointer
    = 17, hipErrorInvalidMemcpyDirection = 21, hipErrorInsufficientDriver = 35, hipErrorMissingConfiguration = 52,
    hipErrorPriorLaunchFailure, hipErrorInvalidDeviceFunction = 98, hipErrorNoDevice = 100, hipErrorInvalidDevice,
    hipErrorInvalidImage = 200, hipErrorInvalidContext, hipErrorContextAlreadyCurrent, hipErrorMapFailed = 205,
    hipErrorMapBufferObjectFailed = 205, hipErrorUnmapFailed, hipErrorArrayIsMapped, hipErrorAlreadyMapped,
    hipErrorNoBinaryForGpu, hipErrorAlreadyAcquired, hipErrorNotMapped, hipErrorNotMappedAsArray,
    hipErrorNotMappedAsPointer, hipErrorECCNotCorrectable, hipErrorUnsupportedLimit, hipErrorContextAlreadyInUse,
    hipErrorPeerAccessUnsupported, hipErrorInvalidKernelFile, hipErrorInvalidGraphicsContext, hipErrorInvalidSource =
    300, hipErrorFileNotFound, hipErrorSharedObjectSymbolNotFound, hipErrorSharedObjectInitFailed,
    hipErrorOperatingSystem, hipErrorInvalidHandle = 400, hipErrorInvalidResourceHandle = 400, hipErrorIllegalState,
    hipErrorNotFound = 500, hipErrorNotReady = 600, hipErrorIllegalAddress = 700, hipErrorLaunchOutOfResources,
    hipErrorLaunchTimeOut, hipErrorPeerAccessAlreadyEnabled = 704, hipErrorPeerAccessNotEnabled,
    hipErrorSetOnActiveProcess = 708, hipErrorContextIsDestroyed, hipErrorAssert, hipErrorHostMemoryAlreadyRegistered
    = 712, hipErrorHostMemoryNotRegistered, hipErrorLaunchFailure = 719, hipErrorCooperativeLaunchTooLarge,
    hipErrorNotSupported = 801, hipErrorStreamCaptureUnsupported = 900, hipErrorStreamCaptureInvalidated,
    hipErrorStreamCaptureMerge, hipErrorStreamCaptureUnmatched, hipErrorStreamCaptureUnjoined,
    hipErrorStreamCaptureIsolation, hipErrorStreamCaptureImplicit, hipErrorCapturedEvent,
    hipErrorStreamCaptureWrongThread, hipErrorGraphExecUpdateFailure = 910, hipErrorInvalidChannelDescriptor,
    hipErrorInvalidTexture, hipErrorInvalidResourceType = 914, hipErrorInvalidResourceConfiguration,
    hipErrorStreamDetached, hipErrorUnknown = 999, hipErrorRuntimeMemory = 1052, hipErrorRuntimeOther,
    hipErrorInvalidClusterSize, hipErrorTbd };
enum hipMemcpyKind { hipMemcpyHostToHost = 0, hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice,
    hipMemcpyDefault, hipMemcpyDeviceToDeviceNoCU = 1024 };
enum hipMemPoolAttr { hipMemPoolReuseFollowEventDependencies = 1, hipMemPoolReuseAllowOpportunistic,
    hipMemPoolReuseAllowInternalDependencies, hipMemPoolAttrReleaseThreshold, hipMemPoolAttrReservedMemCurrent,
    hipMemPoolAttrReservedMemHigh, hipMemPoolAttrUsedMemCurrent, hipMemPoolAttrUsedMemHigh };
enum hipFunction_attribute { HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
    HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_NUM_REGS,
    HIP_FUNC_ATTRIBUTE_PTX_VERSION, HIP_FUNC_ATTRIBUTE_BINARY_VERSION, HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA,
    HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    HIP_FUNC_ATTRIBUTE_CLUSTER_DIM_MUST_BE_SET, HIP_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
    HIP_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, HIP_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
    HIP_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, HIP_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    HIP_FUNC_ATTRIBUTE_MAX };
enum hipMemoryType { hipMemoryTypeUnregistered = 0, hipMemoryTypeHost, hipMemoryTypeDevice, hipMemoryTypeManaged,
    hipMemoryTypeArray = 10, hipMemoryTypeUnified };
enum hipStreamCaptureMode { hipStreamCaptureModeGlobal = 0, hipStreamCaptureModeThreadLocal,
    hipStreamCaptureModeRelaxed };
enum hipStreamCaptureStatus { hipStreamCaptureStatusNone = 0, hipStreamCaptureStatusActive,
    hipStreamCaptureStatusInvalidated };
enum hipGraphNodeType { hipGraphNodeTypeKernel = 0, hipGraphNodeTypeMemcpy, hipGraphNodeTypeMemset,
    hipGraphNodeTypeHost, hipGraphNodeTypeGraph, hipGraphNodeTypeEmpty, hipGraphNodeTypeWaitEvent,
    hipGraphNodeTypeEventRecord, hipGraphNodeTypeExtSemaphoreSignal, hipGraphNodeTypeExtSemaphoreWait,
    hipGraphNodeTypeMemAlloc, hipGraphNodeTypeMemFree, hipGraphNodeTypeMemcpyFromSymbol,
    hipGraphNodeTypeMemcpyToSymbol, hipGraphNodeTypeBatchMemOp, hipGraphNodeTypeCount };
enum hipGraphMemAttributeType { hipGraphMemAttrUsedMemCurrent = 0, hipGraphMemAttrUsedMemHigh,
    hipGraphMemAttrReservedMemCurrent, hipGraphMemAttrReservedMemHigh };
enum hipGraphExecUpdateResult { hipGraphExecUpdateSuccess = 0, hipGraphExecUpdateError,
    hipGraphExecUpdateErrorTopologyChanged, hipGraphExecUpdateErrorNodeTypeChanged,
    hipGraphExecUpdateErrorFunctionChanged, hipGraphExecUpdateErrorParametersChanged,
    hipGraphExecUpdateErrorNotSupported, hipGraphExecUpdateErrorUnsupportedFunctionChange };
enum hipLimit_t { hipLimitStackSize = 0, hipLimitPrintfFifoSize, hipLimitMallocHeapSize, hipExtLimitScratchMin = 4096,
    hipExtLimitScratchMax, hipExtLimitScratchCurrent, hipLimitRange };
enum hipComputeMode { hipComputeModeDefault = 0, hipComputeModeExclusive, hipComputeModeProhibited,
    hipComputeModeExclusiveProcess };
enum hipMemAllocationType { hipMemAllocationTypeInvalid = 0, hipMemAllocationTypePinned, hipMemAllocationTypeManaged,
    hipMemAllocationTypeUncached = 1073741824, hipMemAllocationTypeMax = 2147483647 };
enum hipMemLocationType { hipMemLocationTypeInvalid = 0, hipMemLocationTypeNone = 0, hipMemLocationTypeDevice,
    hipMemLocationTypeHost, hipMemLocationTypeHostNuma, hipMemLocationTypeHostNumaCurrent };
enum hipDeviceAttribute_t { hipDeviceAttributeCudaCompatibleBegin = 0, hipDeviceAttributeEccEnabled = 0,
    hipDeviceAttributeAccessPolicyMaxWindowSize, hipDeviceAttributeAsyncEngineCount,
    hipDeviceAttributeCanMapHostMemory, hipDeviceAttributeCanUseHostPointerForRegisteredMem,
    hipDeviceAttributeClockRate, hipDeviceAttributeComputeMode, hipDeviceAttributeComputePreemptionSupported,
    hipDeviceAttributeConcurrentKernels, hipDeviceAttributeConcurrentManagedAccess,
    hipDeviceAttributeCooperativeLaunch, hipDeviceAttributeCooperativeMultiDeviceLaunch,
    hipDeviceAttributeDeviceOverlap, hipDeviceAttributeDirectManagedMemAccessFromHost,
    hipDeviceAttributeGlobalL1CacheSupported, hipDeviceAttributeHostNativeAtomicSupported,
    hipDeviceAttributeIntegrated, hipDeviceAttributeIsMultiGpuBoard, hipDeviceAttributeKernelExecTimeout,
    hipDeviceAttributeL2CacheSize, hipDeviceAttributeLocalL1CacheSupported, hipDeviceAttributeLuid,
    hipDeviceAttributeLuidDeviceNodeMask, hipDeviceAttributeComputeCapabilityMajor, hipDeviceAttributeManagedMemory,
    hipDeviceAttributeMaxBlocksPerMultiProcessor, hipDeviceAttributeMaxBlockDimX, hipDeviceAttributeMaxBlockDimY,
    hipDeviceAttributeMaxBlockDimZ, hipDeviceAttributeMaxGridDimX, hipDeviceAttributeMaxGridDimY,
    hipDeviceAttributeMaxGridDimZ, hipDeviceAttributeMaxSurface1D, hipDeviceAttributeMaxSurface1DLayered,
    hipDeviceAttributeMaxSurface2D, hipDeviceAttributeMaxSurface2DLayered, hipDeviceAttributeMaxSurface3D,
    hipDeviceAttributeMaxSurfaceCubemap, hipDeviceAttributeMaxSurfaceCubemapLayered,
    hipDeviceAttributeMaxTexture1DWidth, hipDeviceAttributeMaxTexture1DLayered, hipDeviceAttributeMaxTexture1DLinear,
    hipDeviceAttributeMaxTexture1DMipmap, hipDeviceAttributeMaxTexture2DWidth, hipDeviceAttributeMaxTexture2DHeight,
    hipDeviceAttributeMaxTexture2DGather, hipDeviceAttributeMaxTexture2DLayered, hipDeviceAttributeMaxTexture2DLinear,
    hipDeviceAttributeMaxTexture2DMipmap, hipDeviceAttributeMaxTexture3DWidth, hipDeviceAttributeMaxTexture3DHeight,
    hipDeviceAttributeMaxTexture3DDepth, hipDeviceAttributeMaxTexture3DAlt, hipDeviceAttributeMaxTextureCubemap,
    hipDeviceAttributeMaxTextureCubemapLayered, hipDeviceAttributeMaxThreadsDim, hipDeviceAttributeMaxThreadsPerBlock,
    hipDeviceAttributeMaxThreadsPerMultiProcessor, hipDeviceAttributeMaxPitch, hipDeviceAttributeMemoryBusWidth,
    hipDeviceAttributeMemoryClockRate, hipDeviceAttributeComputeCapabilityMinor,
    hipDeviceAttributeMultiGpuBoardGroupID, hipDeviceAttributeMultiprocessorCount, hipDeviceAttributeUnused1,
    hipDeviceAttributePageableMemoryAccess, hipDeviceAttributePageableMemoryAccessUsesHostPageTables,
    hipDeviceAttributePciBusId, hipDeviceAttributePciDeviceId, hipDeviceAttributePciDomainId,
    hipDeviceAttributePciDomainID = 69, hipDeviceAttributePersistingL2CacheMaxSize,
    hipDeviceAttributeMaxRegistersPerBlock, hipDeviceAttributeMaxRegistersPerMultiprocessor,
    hipDeviceAttributeReservedSharedMemPerBlock, hipDeviceAttributeMaxSharedMemoryPerBlock,
    hipDeviceAttributeSharedMemPerBlockOptin, hipDeviceAttributeSharedMemPerMultiprocessor,
    hipDeviceAttributeSingleToDoublePrecisionPerfRatio, hipDeviceAttributeStreamPrioritiesSupported,
    hipDeviceAttributeSurfaceAlignment, hipDeviceAttributeTccDriver, hipDeviceAttributeTextureAlignment,
    hipDeviceAttributeTexturePitchAlignment, hipDeviceAttributeTotalConstantMemory, hipDeviceAttributeTotalGlobalMem,
    hipDeviceAttributeUnifiedAddressing, hipDeviceAttributeUnused2, hipDeviceAttributeWarpSize,
    hipDeviceAttributeMemoryPoolsSupported, hipDeviceAttributeVirtualMemoryManagementSupported,
    hipDeviceAttributeHostRegisterSupported, hipDeviceAttributeMemoryPoolSupportedHandleTypes,
    hipDeviceAttributeHostNumaId, hipDeviceAttributeDmaBufSupported,
    hipDeviceAttributeGPUDirectRDMAWithHipVMMSupported, hipDeviceAttributeHandleTypeFabricSupported,
    hipDeviceAttributeCudaCompatibleEnd = 9999, hipDeviceAttributeAmdSpecificBegin,
    hipDeviceAttributeClockInstructionRate = 10000, hipDeviceAttributeUnused3,
    hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, hipDeviceAttributeUnused4, hipDeviceAttributeUnused5,
    hipDeviceAttributeHdpMemFlushCntl, hipDeviceAttributeHdpRegFlushCntl,
    hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc, hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim,
    hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim,
    hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem, hipDeviceAttributeIsLargeBar,
    hipDeviceAttributeAsicRevision, hipDeviceAttributeCanUseStreamWaitValue, hipDeviceAttributeImageSupport,
    hipDeviceAttributePhysicalMultiProcessorCount, hipDeviceAttributeFineGrainSupport,
    hipDeviceAttributeWallClockRate, hipDeviceAttributeNumberOfXccs, hipDeviceAttributeMaxAvailableVgprsPerThread,
    hipDeviceAttributePciChipId, hipDeviceAttributeExpertSchedMode, hipDeviceAttributeMaxDynDataPrefetchRegions,
    hipDeviceAttributeAmdSpecificEnd = 19999, hipDeviceAttributeVendorSpecificBegin };
enum hipDeviceP2PAttr { hipDevP2PAttrPerformanceRank = 0, hipDevP2PAttrAccessSupported,
    hipDevP2PAttrNativeAtomicSupported, hipDevP2PAttrHipArrayAccessSupported };
enum hipSharedMemConfig { hipSharedMemBankSizeDefault = 0, hipSharedMemBankSizeFourByte, hipSharedMemBankSizeEightByte
    };
enum hipFlushGPUDirectRDMAWritesOptions { hipFlushGPUDirectRDMAWritesOptionHost = 1,
    hipFlushGPUDirectRDMAWritesOptionMemOps };
enum hipGPUDirectRDMAWritesOrdering { hipGPUDirectRDMAWritesOrderingNone = 0, hipGPUDirectRDMAWritesOrderingOwner =
    100, hipGPUDirectRDMAWritesOrderingAllDevices = 200 };
enum hipDevResourceType { hipDevResourceTypeInvalid = 0, hipDevResourceTypeSm, hipDevResourceTypeWorkqueueConfig =
    1000, hipDevResourceTypeWorkqueue = 10000 };
enum hipDevSmResourceGroup_flags { hipDevSmResourceGroupDefault = 0, hipDevSmResourceGroupBackfill };
enum hipDevSmResourceSplitByCount_flags { hipDevSmResourceSplitIgnoreSmCoscheduling = 1,
    hipDevSmResourceSplitMaxPotentialClusterSize };
enum hipDevWorkqueueConfigScope { hipDevWorkqueueConfigScopeDeviceCtx = 0, hipDevWorkqueueConfigScopeGreenCtxBalanced
    };
enum hipMemoryAdvise { hipMemAdviseSetReadMostly = 1, hipMemAdviseUnsetReadMostly, hipMemAdviseSetPreferredLocation,
    hipMemAdviseUnsetPreferredLocation, hipMemAdviseSetAccessedBy, hipMemAdviseUnsetAccessedBy,
    hipMemAdviseSetCoarseGrain = 100, hipMemAdviseUnsetCoarseGrain };
enum hipMemRangeAttribute { hipMemRangeAttributeReadMostly = 1, hipMemRangeAttributePreferredLocation,
    hipMemRangeAttributeAccessedBy, hipMemRangeAttributeLastPrefetchLocation, hipMemRangeAttributeCoherencyMode = 100
    };
enum hipMemRangeCoherencyMode { hipMemRangeCoherencyModeFineGrain = 0, hipMemRangeCoherencyModeCoarseGrain,
    hipMemRangeCoherencyModeIndeterminate };
enum hipMemRangeFlags { hipMemRangeFlagDmaBufMappingTypePcie = 1, hipMemRangeFlagsMax = 2147483647 };
enum hipMemRangeHandleType { hipMemRangeHandleTypeDmaBufFd = 1, hipMemRangeHandleTypeMax = 2147483647 };
enum hipMemAccessFlags { hipMemAccessFlagsProtNone = 0, hipMemAccessFlagsProtRead, hipMemAccessFlagsProtReadWrite = 3
    };
enum hipMemAllocationGranularity_flags { hipMemAllocationGranularityMinimum = 0,
    hipMemAllocationGranularityRecommended };
enum hipMemAllocationHandleType { hipMemHandleTypeNone = 0, hipMemHandleTypePosixFileDescriptor,
    hipMemHandleTypeWin32, hipMemHandleTypeWin32Kmt = 4, hipMemHandleTypeFabric = 8 };
enum hipMemHandleType { hipMemHandleTypeGeneric = 0 };
enum hipMemOperationType { hipMemOperationTypeMap = 1, hipMemOperationTypeUnmap };
enum hipMemcpyFlags { hipMemcpyFlagDefault = 0, hipMemcpyFlagPreferOverlapWithCompute, hipMemcpyFlagExtPreferCE = 256,
    hipMemcpyFlagExtOpSwap = 512, hipMemcpyFlagExtOpIndirectSrc = 1024, hipMemcpyFlagExtOpIndirectDst = 2048 };
enum hipMemcpySrcAccessOrder { hipMemcpySrcAccessOrderInvalid = 0, hipMemcpySrcAccessOrderStream,
    hipMemcpySrcAccessOrderDuringApiCall, hipMemcpySrcAccessOrderAny, hipMemcpySrcAccessOrderMax = 2147483647 };
enum hipMemcpy3DOperandType { hipMemcpyOperandTypePointer = 1, hipMemcpyOperandTypeArray, hipMemcpyOperandTypeMax =
    2147483647 };
enum hipPointer_attribute { HIP_POINTER_ATTRIBUTE_CONTEXT = 1, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE,
    HIP_POINTER_ATTRIBUTE_DEVICE_POINTER, HIP_POINTER_ATTRIBUTE_HOST_POINTER, HIP_POINTER_ATTRIBUTE_P2P_TOKENS,
    HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, HIP_POINTER_ATTRIBUTE_BUFFER_ID, HIP_POINTER_ATTRIBUTE_IS_MANAGED,
    HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE,
    HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, HIP_POINTER_ATTRIBUTE_MAPPED,
    HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
    HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS, HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE };
enum hipAccessProperty { hipAccessPropertyNormal = 0, hipAccessPropertyStreaming, hipAccessPropertyPersisting };
enum hipArraySparseSubresourceType { hipArraySparseSubresourceTypeSparseLevel = 0,
    hipArraySparseSubresourceTypeMiptail };
enum hipExternalMemoryHandleType { hipExternalMemoryHandleTypeOpaqueFd = 1, hipExternalMemoryHandleTypeOpaqueWin32,
    hipExternalMemoryHandleTypeOpaqueWin32Kmt, hipExternalMemoryHandleTypeD3D12Heap,
    hipExternalMemoryHandleTypeD3D12Resource, hipExternalMemoryHandleTypeD3D11Resource,
    hipExternalMemoryHandleTypeD3D11ResourceKmt, hipExternalMemoryHandleTypeNvSciBuf };
enum hipExternalSemaphoreHandleType { hipExternalSemaphoreHandleTypeOpaqueFd = 1,
    hipExternalSemaphoreHandleTypeOpaqueWin32, hipExternalSemaphoreHandleTypeOpaqueWin32Kmt,
    hipExternalSemaphoreHandleTypeD3D12Fence, hipExternalSemaphoreHandleTypeD3D11Fence,
    hipExternalSemaphoreHandleTypeNvSciSync, hipExternalSemaphoreHandleTypeKeyedMutex,
    hipExternalSemaphoreHandleTypeKeyedMutexKmt, hipExternalSemaphoreHandleTypeTimelineSemaphoreFd,
    hipExternalSemaphoreHandleTypeTimelineSemaphoreWin32 };
enum hipLaunchAttributeID { hipLaunchAttributeIgnore = 0, hipLaunchAttributeAccessPolicyWindow,
    hipLaunchAttributeCooperative, hipLaunchAttributeSynchronizationPolicy, hipLaunchAttributeClusterDimension,
    hipLaunchAttributeClusterSchedulingPolicyPreference, hipLaunchAttributePriority = 8,
    hipLaunchAttributeMemSyncDomainMap, hipLaunchAttributeMemSyncDomain, hipLaunchAttributeExtDynDataPrefetch = 1024,
    hipLaunchAttributeMax };
enum hipLaunchMemSyncDomain { hipLaunchMemSyncDomainDefault = 0, hipLaunchMemSyncDomainRemote };
enum hipSynchronizationPolicy { hipSyncPolicyAuto = 1, hipSyncPolicySpin, hipSyncPolicyYield,
    hipSyncPolicyBlockingSync };
enum hipClusterSchedulingPolicy { hipClusterSchedulingPolicyDefault = 0, hipClusterSchedulingPolicySpread,
    hipClusterSchedulingPolicyLoadBalancing };
enum hipExtDynDataPrefetchTemporal { hipExtDynDataPrefetchTemporalRegular = 0, hipExtDynDataPrefetchTemporalHigh };
enum hipStreamBatchMemOpType { hipStreamMemOpWaitValue32 = 1, hipStreamMemOpWriteValue32, hipStreamMemOpWaitValue64 =
    4, hipStreamMemOpWriteValue64, hipStreamMemOpBarrier, hipStreamMemOpFlushRemoteWrites = 3 };
enum hipGraphDebugDotFlags { hipGraphDebugDotFlagsVerbose = 1, hipGraphDebugDotFlagsKernelNodeParams = 4,
    hipGraphDebugDotFlagsMemcpyNodeParams = 8, hipGraphDebugDotFlagsMemsetNodeParams = 16,
    hipGraphDebugDotFlagsHostNodeParams = 32, hipGraphDebugDotFlagsEventNodeParams = 64,
    hipGraphDebugDotFlagsExtSemasSignalNodeParams = 128, hipGraphDebugDotFlagsExtSemasWaitNodeParams = 256,
    hipGraphDebugDotFlagsKernelNodeAttributes = 512, hipGraphDebugDotFlagsHandles = 1024 };
enum hipGraphDependencyType { hipGraphDependencyTypeDefault = 0, hipGraphDependencyTypeProgrammatic };
enum hipGraphInstantiateResult { hipGraphInstantiateSuccess = 0, hipGraphInstantiateError,
    hipGraphInstantiateInvalidStructure, hipGraphInstantiateNodeOperationNotSupported,
    hipGraphInstantiateMultipleDevicesNotSupported };
enum hipStreamUpdateCaptureDependenciesFlags { hipStreamAddCaptureDependencies = 0, hipStreamSetCaptureDependencies };
enum hipUserObjectFlags { hipUserObjectNoDestructorSync = 1 };
enum hipUserObjectRetainFlags { hipGraphUserObjectMove = 1 };
enum hipJitOption { hipJitOptionMaxRegisters = 0, hipJitOptionThreadsPerBlock, hipJitOptionWallTime,
    hipJitOptionInfoLogBuffer, hipJitOptionInfoLogBufferSizeBytes, hipJitOptionErrorLogBuffer,
    hipJitOptionErrorLogBufferSizeBytes, hipJitOptionOptimizationLevel, hipJitOptionTargetFromContext,
    hipJitOptionTarget, hipJitOptionFallbackStrategy, hipJitOptionGenerateDebugInfo, hipJitOptionLogVerbose,
    hipJitOptionGenerateLineInfo, hipJitOptionCacheMode, hipJitOptionSm3xOpt, hipJitOptionFastCompile,
    hipJitOptionGlobalSymbolNames, hipJitOptionGlobalSymbolAddresses, hipJitOptionGlobalSymbolCount, hipJitOptionLto,
    hipJitOptionFtz, hipJitOptionPrecDiv, hipJitOptionPrecSqrt, hipJitOptionFma, hipJitOptionPositionIndependentCode,
    hipJitOptionMinCTAPerSM, hipJitOptionMaxThreadsPerBlock, hipJitOptionOverrideDirectiveValues,
    hipJitOptionNumOptions, hipJitOptionIRtoISAOptExt = 10000, hipJitOptionIRtoISAOptCountExt };
enum hipJitInputType { hipJitInputCubin = 0, hipJitInputPtx, hipJitInputFatBinary, hipJitInputObject,
    hipJitInputLibrary, hipJitInputNvvm, hipJitNumLegacyInputTypes, hipJitInputLLVMBitcode = 100,
    hipJitInputLLVMBundledBitcode, hipJitInputLLVMArchivesOfBundledBitcode, hipJitInputSpirv, hipJitNumInputTypes = 10
    };
enum hipJitCacheMode { hipJitCacheOptionNone = 0, hipJitCacheOptionCG, hipJitCacheOptionCA };
enum hipJitFallback { hipJitPreferPTX = 0, hipJitPreferBinary };
enum hipLibraryOption { hipLibraryHostUniversalFunctionAndDataTable = 0, hipLibraryBinaryIsPreserved };
enum hipLibraryPropertyType { HIP_LIBRARY_MAJOR_VERSION = 0, HIP_LIBRARY_MINOR_VERSION, HIP_LIBRARY_PATCH_LEVEL };
enum hipDriverEntryPointQueryResult { hipDriverEntryPointSuccess = 0, hipDriverEntryPointSymbolNotFound,
    hipDriverEntryPointVersionNotSufficent };
enum hipDriverProcAddressQueryResult { HIP_GET_PROC_ADDRESS_SUCCESS = 0, HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
    HIP_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT };
enum hipArray_Format { HIP_AD_FORMAT_UNSIGNED_INT8 = 1, HIP_AD_FORMAT_UNSIGNED_INT16, HIP_AD_FORMAT_UNSIGNED_INT32,
    HIP_AD_FORMAT_SIGNED_INT8 = 8, HIP_AD_FORMAT_SIGNED_INT16, HIP_AD_FORMAT_SIGNED_INT32, HIP_AD_FORMAT_HALF = 16,
    HIP_AD_FORMAT_FLOAT = 32 };
enum hipResourceViewFormat { hipResViewFormatNone = 0, hipResViewFormatUnsignedChar1, hipResViewFormatUnsignedChar2,
    hipResViewFormatUnsignedChar4, hipResViewFormatSignedChar1, hipResViewFormatSignedChar2,
    hipResViewFormatSignedChar4, hipResViewFormatUnsignedShort1, hipResViewFormatUnsignedShort2,
    hipResViewFormatUnsignedShort4, hipResViewFormatSignedShort1, hipResViewFormatSignedShort2,
    hipResViewFormatSignedShort4, hipResViewFormatUnsignedInt1, hipResViewFormatUnsignedInt2,
    hipResViewFormatUnsignedInt4, hipResViewFormatSignedInt1, hipResViewFormatSignedInt2, hipResViewFormatSignedInt4,
    hipResViewFormatHalf1, hipResViewFormatHalf2, hipResViewFormatHalf4, hipResViewFormatFloat1,
    hipResViewFormatFloat2, hipResViewFormatFloat4, hipResViewFormatUnsignedBlockCompressed1,
    hipResViewFormatUnsignedBlockCompressed2, hipResViewFormatUnsignedBlockCompressed3,
    hipResViewFormatUnsignedBlockCompressed4, hipResViewFormatSignedBlockCompressed4,
    hipResViewFormatUnsignedBlockCompressed5, hipResViewFormatSignedBlockCompressed5,
    hipResViewFormatUnsignedBlockCompressed6H, hipResViewFormatSignedBlockCompressed6H,
    hipResViewFormatUnsignedBlockCompressed7 };
enum hipGraphicsRegisterFlags { hipGraphicsRegisterFlagsNone = 0, hipGraphicsRegisterFlagsReadOnly,
    hipGraphicsRegisterFlagsWriteDiscard, hipGraphicsRegisterFlagsSurfaceLoadStore = 4,
    hipGraphicsRegisterFlagsTextureGather = 8 };
enum HIPaddress_mode { HIP_TR_ADDRESS_MODE_WRAP = 0, HIP_TR_ADDRESS_MODE_CLAMP, HIP_TR_ADDRESS_MODE_MIRROR,
    HIP_TR_ADDRESS_MODE_BORDER };
enum HIPfilter_mode { HIP_TR_FILTER_MODE_POINT = 0, HIP_TR_FILTER_MODE_LINEAR };
enum HIPresourcetype { HIP_RESOURCE_TYPE_ARRAY = 0, HIP_RESOURCE_TYPE_MIPMAPPED_ARRAY, HIP_RESOURCE_TYPE_LINEAR,
    HIP_RESOURCE_TYPE_PITCH2D };
enum HIPresourceViewFormat { HIP_RES_VIEW_FORMAT_NONE = 0, HIP_RES_VIEW_FORMAT_UINT_1X8, HIP_RES_VIEW_FORMAT_UINT_2X8,
    HIP_RES_VIEW_FORMAT_UINT_4X8, HIP_RES_VIEW_FORMAT_SINT_1X8, HIP_RES_VIEW_FORMAT_SINT_2X8,
    HIP_RES_VIEW_FORMAT_SINT_4X8, HIP_RES_VIEW_FORMAT_UINT_1X16, HIP_RES_VIEW_FORMAT_UINT_2X16,
    HIP_RES_VIEW_FORMAT_UINT_4X16, HIP_RES_VIEW_FORMAT_SINT_1X16, HIP_RES_VIEW_FORMAT_SINT_2X16,
    HIP_RES_VIEW_FORMAT_SINT_4X16, HIP_RES_VIEW_FORMAT_UINT_1X32, HIP_RES_VIEW_FORMAT_UINT_2X32,
    HIP_RES_VIEW_FORMAT_UINT_4X32, HIP_RES_VIEW_FORMAT_SINT_1X32, HIP_RES_VIEW_FORMAT_SINT_2X32,
    HIP_RES_VIEW_FORMAT_SINT_4X32, HIP_RES_VIEW_FORMAT_FLOAT_1X16, HIP_RES_VIEW_FORMAT_FLOAT_2X16,
    HIP_RES_VIEW_FORMAT_FLOAT_4X16, HIP_RES_VIEW_FORMAT_FLOAT_1X32, HIP_RES_VIEW_FORMAT_FLOAT_2X32,
    HIP_RES_VIEW_FORMAT_FLOAT_4X32, HIP_RES_VIEW_FORMAT_UNSIGNED_BC1, HIP_RES_VIEW_FORMAT_UNSIGNED_BC2,
    HIP_RES_VIEW_FORMAT_UNSIGNED_BC3, HIP_RES_VIEW_FORMAT_UNSIGNED_BC4, HIP_RES_VIEW_FORMAT_SIGNED_BC4,
    HIP_RES_VIEW_FORMAT_UNSIGNED_BC5, HIP_RES_VIEW_FORMAT_SIGNED_BC5, HIP_RES_VIEW_FORMAT_UNSIGNED_BC6H,
    HIP_RES_VIEW_FORMAT_SIGNED_BC6H, HIP_RES_VIEW_FORMAT_UNSIGNED_BC7 };
enum hipDataType { HIP_R_32F = 0, HIP_R_64F, HIP_R_16F, HIP_R_8I, HIP_C_32F, HIP_C_64F, HIP_C_16F, HIP_C_8I, HIP_R_8U,
    HIP_C_8U, HIP_R_32I, HIP_C_32I, HIP_R_32U, HIP_C_32U, HIP_R_16BF, HIP_C_16BF, HIP_R_4I, HIP_C_4I, HIP_R_4U,
    HIP_C_4U, HIP_R_16I, HIP_C_16I, HIP_R_16U, HIP_C_16U, HIP_R_64I, HIP_C_64I, HIP_R_64U, HIP_C_64U, HIP_R_8F_E4M3,
    HIP_R_8F_E5M2, HIP_R_8F_UE8M0, HIP_R_6F_E2M3, HIP_R_6F_E3M2, HIP_R_4F_E2M1, HIP_R_8F_E4M3_FNUZ = 1000,
    HIP_R_8F_E5M2_FNUZ };
enum hipGraphInstantiateFlags { hipGraphInstantiateFlagAutoFreeOnLaunch = 1, hipGraphInstantiateFlagUpload,
    hipGraphInstantiateFlagDeviceLaunch = 4, hipGraphInstantiateFlagUseNodePriority = 8 };
enum hipFuncAttribute { hipFuncAttributeMaxDynamicSharedMemorySize = 8, hipFuncAttributePreferredSharedMemoryCarveout
    = 9, hipFuncAttributeClusterDimMustBeSet = 10, hipFuncAttributeRequiredClusterWidth = 11,
    hipFuncAttributeRequiredClusterHeight = 12, hipFuncAttributeRequiredClusterDepth = 13,
    hipFuncAttributeNonPortableClusterSizeAllowed = 14, hipFuncAttributeClusterSchedulingPolicyPreference = 15,
    hipFuncAttributeMax = 16 };
enum hipFuncCache_t { hipFuncCachePreferNone = 0, hipFuncCachePreferShared = 1, hipFuncCachePreferL1 = 2,
    hipFuncCachePreferEqual = 3 };
