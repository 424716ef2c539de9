"""What a device is like: `hipDeviceProp_t` and the attributes."""

from __future__ import annotations

import uuid
from typing import Any

from forebay.c_string import CString
from forebay.core.driver import Language
from forebay.core.errors import ArgumentTypeError
from forebay.hip.devices import device_number, device_of, infos
from forebay.hip.errors import HipError, Result, api
from forebay.hip.facts import HIP_VERSION_MAJOR, HIP_VERSION_MINOR, hipDeviceProp_t, hipError_t, hipUUID_t
from forebay.hiprtc.clang import WARP

NUMBERS = [name for name in hipDeviceProp_t.PROPERTIES() if hipDeviceProp_t()[name] == 0]
# Of arrays and textures, in elements. Nothing in the kernels' headers needs a limit but that indices are ints.
MOST_1D = 131072
MOST_2D = (131072, 65536)
MOST_3D = (16384, 16384, 16384)
MOST_LAYERS = 2048
MOST_LINEAR = 1 << 28
ALIGNMENT = 16  # bytes of the largest element


def fill_in(properties: Any, number: int) -> None:
    """Find out what the device of this number is like."""
    info, driver = infos()[number], device_of(number).driver
    limits = driver.limits
    properties.name = CString(info.description.encode())
    properties.gcnArchName = CString(info.name.encode())
    # No driver is asked for one: the same whenever this machine is looked at, and another for each device.
    properties.uuid.bytes = uuid.uuid5(uuid.NAMESPACE_OID, f"{info.platform} {info.name}").bytes
    properties.totalGlobalMem = info.memory
    properties.multiProcessorCount = info.compute_units
    properties.major, properties.minor = HIP_VERSION_MAJOR, HIP_VERSION_MINOR
    properties.maxThreadsPerBlock = limits.group_items
    properties.maxThreadsPerMultiProcessor = max(limits.unit_items, limits.group_items)
    properties.maxThreadsDim, properties.maxGridSize = list(limits.group_size), list(limits.group_count)
    for name in ("sharedMemPerBlock", "sharedMemPerMultiprocessor", "maxSharedMemoryPerMultiProcessor"):
        setattr(properties, name, limits.local_bytes)
    properties.totalConstMem = limits.constant_bytes
    properties.memPitch = min(limits.allocation, 0x7FFFFFFF)
    properties.clockRate, properties.l2CacheSize = limits.clock_khz, limits.cache_bytes
    properties.warpSize = WARP
    properties.integrated = int(limits.shares_memory)
    properties.managedMemory = properties.canMapHostMemory = int(limits.has_shared)
    properties.unifiedAddressing = int(driver.has_addresses)
    properties.hostRegisterSupported = properties.cooperativeLaunch = 1
    properties.maxBlocksPerMultiProcessor = max(limits.unit_groups, 1)
    properties.sharedMemPerBlockOptin = limits.local_bytes
    properties.concurrentKernels = properties.asyncEngineCount = properties.memoryPoolsSupported = 1
    properties.streamPrioritiesSupported = int(len(driver.priorities) > 1)
    if has_textures(device_of(number)):
        _fill_in_textures(properties)


def has_textures(device: Any) -> bool:
    """Whether kernels can read textures, which takes HIP C++ and addresses: they are read in software."""
    driver = device.driver
    return bool(driver.has_addresses and {Language.SPIRV, Language.CUBIN} & set(driver.languages))


def _fill_in_textures(properties: Any) -> None:
    for name in ("textureAlignment", "texturePitchAlignment", "surfaceAlignment"):
        setattr(properties, name, ALIGNMENT)
    properties.maxTexture1D = properties.maxSurface1D = MOST_1D
    properties.maxTexture1DLinear = MOST_LINEAR
    properties.maxTextureCubemap = properties.maxSurfaceCubemap = MOST_2D[1]
    for kind in ("Texture", "Surface"):
        for name, value in (
            ("2D", MOST_2D), ("3D", MOST_3D),
            ("1DLayered", (MOST_1D, MOST_LAYERS)), ("2DLayered", (*MOST_2D, MOST_LAYERS)),
            ("CubemapLayered", (MOST_2D[1], MOST_LAYERS)),
        ):  # fmt: skip
            setattr(properties, f"max{kind}{name}", list(value))
    properties.maxTexture2DGather, properties.maxTexture3DAlt = list(MOST_2D), list(MOST_3D)
    properties.maxTexture2DLinear = [*MOST_2D, MOST_2D[0] * 16]


@api()
def _properties_into(prop: Any, deviceId: int) -> None:
    if not isinstance(prop, hipDeviceProp_t):
        raise ArgumentTypeError(f"prop is a hipDeviceProp_t, not {type(prop).__name__}")
    fill_in(prop, device_number(deviceId))


@api(outputs=1)
def _properties(deviceId: int) -> hipDeviceProp_t:
    made = hipDeviceProp_t()
    fill_in(made, device_number(deviceId))
    return made


_NOT_GIVEN = object()


def hipGetDeviceProperties(prop: object = _NOT_GIVEN, deviceId: object = _NOT_GIVEN) -> Result:
    """Find out what a device is like: ``hipGetDeviceProperties(prop, device)`` or ``hipGetDeviceProperties(device)``.

    `deviceId` is a device's number.

    The first fills in a `hipDeviceProp_t` and returns ``(hipError_t,)``, the second returns ``(hipError_t, prop)``.
    ``gcnArchName`` is the device's name in forebay, as a `CString`. hipErrorInvalidDevice for an unknown device.
    """
    if prop is _NOT_GIVEN or deviceId is _NOT_GIVEN:
        return _properties(deviceId if prop is _NOT_GIVEN else prop)
    return _properties_into(prop, deviceId)


@api(outputs=2)
def hipDeviceComputeCapability(device: int) -> tuple[int, int]:
    """Return ``(hipError_t, major, minor)``: the version of HIP, because no device here has one of its own."""
    device_number(device)
    return HIP_VERSION_MAJOR, HIP_VERSION_MINOR


@api(outputs=1)
def hipDeviceGetUuid(device: int) -> hipUUID_t:
    """Return ``(hipError_t, hipUUID_t)``: no two devices have the same, and it stays while the machine is the same.

    `device` is a device's number; hipErrorInvalidDevice for an unknown one.
    """
    found = hipDeviceProp_t()
    fill_in(found, device_number(device))
    return found.uuid


@api(outputs=1)
def hipChooseDevice(prop: Any) -> int:
    """Return ``(hipError_t, number)`` of the device that has the most of what a `hipDeviceProp_t` asks for.

    `prop` is that structure.

    What is 0 or empty there is not asked for, otherwise each member that the device has at least is a point; the first
    of those with the most points is chosen. hipErrorInvalidValue for anything but a structure.
    """
    if not isinstance(prop, hipDeviceProp_t):
        raise HipError(hipError_t.hipErrorInvalidValue, f"prop is a hipDeviceProp_t, not {type(prop).__name__}")
    wanted = [name for name in NUMBERS if getattr(prop, name)]

    def points(number: int) -> int:
        there = hipDeviceProp_t()
        fill_in(there, number)
        return sum(getattr(there, name) >= getattr(prop, name) for name in wanted)

    return max(range(len(infos())), key=points)
