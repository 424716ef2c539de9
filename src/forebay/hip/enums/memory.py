"""Enumerations of memory: who uses it, where it is, and how it is copied. HIP's own names and values (HIP 7.2)."""

from __future__ import annotations

import enum


class hipMemoryAdvise(enum.IntEnum):
    """What can be said about how managed memory is used."""

    hipMemAdviseSetReadMostly = 1
    hipMemAdviseUnsetReadMostly = 2
    hipMemAdviseSetPreferredLocation = 3
    hipMemAdviseUnsetPreferredLocation = 4
    hipMemAdviseSetAccessedBy = 5
    hipMemAdviseUnsetAccessedBy = 6
    hipMemAdviseSetCoarseGrain = 100
    hipMemAdviseUnsetCoarseGrain = 101


class hipMemRangeAttribute(enum.IntEnum):
    """What can be asked of a range of managed memory."""

    hipMemRangeAttributeReadMostly = 1
    hipMemRangeAttributePreferredLocation = 2
    hipMemRangeAttributeAccessedBy = 3
    hipMemRangeAttributeLastPrefetchLocation = 4
    hipMemRangeAttributeCoherencyMode = 100


class hipMemRangeCoherencyMode(enum.IntEnum):
    """How coherent a range of managed memory is."""

    hipMemRangeCoherencyModeFineGrain = 0
    hipMemRangeCoherencyModeCoarseGrain = 1
    hipMemRangeCoherencyModeIndeterminate = 2


class hipMemRangeFlags(enum.IntEnum):
    """How a range of memory is mapped for others."""

    hipMemRangeFlagDmaBufMappingTypePcie = 1
    hipMemRangeFlagsMax = 2147483647


class hipMemRangeHandleType(enum.IntEnum):
    """What stands for a range of memory elsewhere."""

    hipMemRangeHandleTypeDmaBufFd = 1
    hipMemRangeHandleTypeMax = 2147483647


class hipMemAccessFlags(enum.IntEnum):
    """Who may read and write memory."""

    hipMemAccessFlagsProtNone = 0
    hipMemAccessFlagsProtRead = 1
    hipMemAccessFlagsProtReadWrite = 3


class hipMemAllocationGranularity_flags(enum.IntEnum):
    """Which granularity is asked for."""

    hipMemAllocationGranularityMinimum = 0
    hipMemAllocationGranularityRecommended = 1


class hipMemAllocationHandleType(enum.IntEnum):
    """What stands for an allocation in another process."""

    hipMemHandleTypeNone = 0
    hipMemHandleTypePosixFileDescriptor = 1
    hipMemHandleTypeWin32 = 2
    hipMemHandleTypeWin32Kmt = 4
    hipMemHandleTypeFabric = 8


class hipMemHandleType(enum.IntEnum):
    """What a handle of memory is."""

    hipMemHandleTypeGeneric = 0


class hipMemOperationType(enum.IntEnum):
    """What is done with a mapping."""

    hipMemOperationTypeMap = 1
    hipMemOperationTypeUnmap = 2


class hipMemcpyFlags(enum.IntEnum):
    """How a copy of a batch is made."""

    hipMemcpyFlagDefault = 0
    hipMemcpyFlagPreferOverlapWithCompute = 1
    hipMemcpyFlagExtPreferCE = 256
    hipMemcpyFlagExtOpSwap = 512
    hipMemcpyFlagExtOpIndirectSrc = 1024
    hipMemcpyFlagExtOpIndirectDst = 2048


class hipMemcpySrcAccessOrder(enum.IntEnum):
    """When the source of a copy of a batch is read."""

    hipMemcpySrcAccessOrderInvalid = 0
    hipMemcpySrcAccessOrderStream = 1
    hipMemcpySrcAccessOrderDuringApiCall = 2
    hipMemcpySrcAccessOrderAny = 3
    hipMemcpySrcAccessOrderMax = 2147483647


class hipMemcpy3DOperandType(enum.IntEnum):
    """What a side of a 3D copy of a batch is."""

    hipMemcpyOperandTypePointer = 1
    hipMemcpyOperandTypeArray = 2
    hipMemcpyOperandTypeMax = 2147483647


class hipPointer_attribute(enum.IntEnum):
    """What can be asked of a pointer."""

    HIP_POINTER_ATTRIBUTE_CONTEXT = 1
    HIP_POINTER_ATTRIBUTE_MEMORY_TYPE = 2
    HIP_POINTER_ATTRIBUTE_DEVICE_POINTER = 3
    HIP_POINTER_ATTRIBUTE_HOST_POINTER = 4
    HIP_POINTER_ATTRIBUTE_P2P_TOKENS = 5
    HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6
    HIP_POINTER_ATTRIBUTE_BUFFER_ID = 7
    HIP_POINTER_ATTRIBUTE_IS_MANAGED = 8
    HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9
    HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE = 10
    HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11
    HIP_POINTER_ATTRIBUTE_RANGE_SIZE = 12
    HIP_POINTER_ATTRIBUTE_MAPPED = 13
    HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14
    HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15
    HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16
    HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17


class hipAccessProperty(enum.IntEnum):
    """How memory is kept in a cache."""

    hipAccessPropertyNormal = 0
    hipAccessPropertyStreaming = 1
    hipAccessPropertyPersisting = 2


class hipArraySparseSubresourceType(enum.IntEnum):
    """What a part of a sparse array is."""

    hipArraySparseSubresourceTypeSparseLevel = 0
    hipArraySparseSubresourceTypeMiptail = 1


class hipExternalMemoryHandleType(enum.IntEnum):
    """What stands for memory of another interface."""

    hipExternalMemoryHandleTypeOpaqueFd = 1
    hipExternalMemoryHandleTypeOpaqueWin32 = 2
    hipExternalMemoryHandleTypeOpaqueWin32Kmt = 3
    hipExternalMemoryHandleTypeD3D12Heap = 4
    hipExternalMemoryHandleTypeD3D12Resource = 5
    hipExternalMemoryHandleTypeD3D11Resource = 6
    hipExternalMemoryHandleTypeD3D11ResourceKmt = 7
    hipExternalMemoryHandleTypeNvSciBuf = 8


class hipExternalSemaphoreHandleType(enum.IntEnum):
    """What stands for a semaphore of another interface."""

    hipExternalSemaphoreHandleTypeOpaqueFd = 1
    hipExternalSemaphoreHandleTypeOpaqueWin32 = 2
    hipExternalSemaphoreHandleTypeOpaqueWin32Kmt = 3
    hipExternalSemaphoreHandleTypeD3D12Fence = 4
    hipExternalSemaphoreHandleTypeD3D11Fence = 5
    hipExternalSemaphoreHandleTypeNvSciSync = 6
    hipExternalSemaphoreHandleTypeKeyedMutex = 7
    hipExternalSemaphoreHandleTypeKeyedMutexKmt = 8
    hipExternalSemaphoreHandleTypeTimelineSemaphoreFd = 9
    hipExternalSemaphoreHandleTypeTimelineSemaphoreWin32 = 10


hipExternalMemoryHandleType_enum = hipExternalMemoryHandleType
hipExternalSemaphoreHandleType_enum = hipExternalSemaphoreHandleType
