"""Enumerations of devices, their peers and their caches. HIP's own names and values (HIP 7.2)."""

from __future__ import annotations

import enum


class hipDeviceP2PAttr(enum.IntEnum):
    """What can be asked of the link between two devices."""

    hipDevP2PAttrPerformanceRank = 0
    hipDevP2PAttrAccessSupported = 1
    hipDevP2PAttrNativeAtomicSupported = 2
    hipDevP2PAttrHipArrayAccessSupported = 3


class hipFuncCache_t(enum.IntEnum):
    """How a function would like the cache to be divided."""

    hipFuncCachePreferNone = 0
    hipFuncCachePreferShared = 1
    hipFuncCachePreferL1 = 2
    hipFuncCachePreferEqual = 3


class hipSharedMemConfig(enum.IntEnum):
    """How wide the banks of shared memory are."""

    hipSharedMemBankSizeDefault = 0
    hipSharedMemBankSizeFourByte = 1
    hipSharedMemBankSizeEightByte = 2


class hipFlushGPUDirectRDMAWritesOptions(enum.IntEnum):
    """How writes of other devices are flushed."""

    hipFlushGPUDirectRDMAWritesOptionHost = 1
    hipFlushGPUDirectRDMAWritesOptionMemOps = 2


class hipGPUDirectRDMAWritesOrdering(enum.IntEnum):
    """For whom writes of other devices are in order."""

    hipGPUDirectRDMAWritesOrderingNone = 0
    hipGPUDirectRDMAWritesOrderingOwner = 100
    hipGPUDirectRDMAWritesOrderingAllDevices = 200


class hipDevResourceType(enum.IntEnum):
    """What a resource of a device is."""

    hipDevResourceTypeInvalid = 0
    hipDevResourceTypeSm = 1
    hipDevResourceTypeWorkqueueConfig = 1000
    hipDevResourceTypeWorkqueue = 10000


class hipDevSmResourceGroup_flags(enum.IntEnum):
    """How a group of compute units is chosen."""

    hipDevSmResourceGroupDefault = 0
    hipDevSmResourceGroupBackfill = 1


class hipDevSmResourceSplitByCount_flags(enum.IntEnum):
    """How compute units are divided."""

    hipDevSmResourceSplitIgnoreSmCoscheduling = 1
    hipDevSmResourceSplitMaxPotentialClusterSize = 2


class hipDevWorkqueueConfigScope(enum.IntEnum):
    """For whom work queues are configured."""

    hipDevWorkqueueConfigScopeDeviceCtx = 0
    hipDevWorkqueueConfigScopeGreenCtxBalanced = 1
