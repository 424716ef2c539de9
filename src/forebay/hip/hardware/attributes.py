"""The attributes of a device: numbers, most of them also in `hipDeviceProp_t`."""

from __future__ import annotations

from collections.abc import Callable

from forebay.hip.devices import device_number
from forebay.hip.enums import hipDeviceAttribute_t, hipError_t
from forebay.hip.errors import HipError, api
from forebay.hip.hardware.properties import NUMBERS, PAIRS, TRIPLES, fill_in, hipDeviceProp_t

__all__ = ["hipDeviceGetAttribute"]

Attribute = hipDeviceAttribute_t
PREFIX = "hipDeviceAttribute"
# Those whose member of hipDeviceProp_t has another name, or that have none and are not 0.
OTHERWISE: dict[hipDeviceAttribute_t, Callable[[hipDeviceProp_t], int]] = {
    Attribute.hipDeviceAttributeMaxBlockDimX: lambda p: p.maxThreadsDim[0],
    Attribute.hipDeviceAttributeMaxBlockDimY: lambda p: p.maxThreadsDim[1],
    Attribute.hipDeviceAttributeMaxBlockDimZ: lambda p: p.maxThreadsDim[2],
    Attribute.hipDeviceAttributeMaxGridDimX: lambda p: p.maxGridSize[0],
    Attribute.hipDeviceAttributeMaxGridDimY: lambda p: p.maxGridSize[1],
    Attribute.hipDeviceAttributeMaxGridDimZ: lambda p: p.maxGridSize[2],
    Attribute.hipDeviceAttributeMaxSharedMemoryPerBlock: lambda p: p.sharedMemPerBlock,
    Attribute.hipDeviceAttributeTotalConstantMemory: lambda p: p.totalConstMem,
    Attribute.hipDeviceAttributePhysicalMultiProcessorCount: lambda p: p.multiProcessorCount,
    Attribute.hipDeviceAttributeMaxPitch: lambda p: p.memPitch,
    Attribute.hipDeviceAttributeComputeCapabilityMajor: lambda p: p.major,
    Attribute.hipDeviceAttributeComputeCapabilityMinor: lambda p: p.minor,
    Attribute.hipDeviceAttributeFineGrainSupport: lambda p: p.canMapHostMemory,
    Attribute.hipDeviceAttributeCanUseStreamWaitValue: lambda p: 1,
    Attribute.hipDeviceAttributeImageSupport: lambda p: int(p.maxTexture1D > 0),
    Attribute.hipDeviceAttributeMaxTexture1DWidth: lambda p: p.maxTexture1D,
    Attribute.hipDeviceAttributeMaxTexture2DWidth: lambda p: p.maxTexture2D[0],
    Attribute.hipDeviceAttributeMaxTexture2DHeight: lambda p: p.maxTexture2D[1],
    Attribute.hipDeviceAttributeMaxTexture3DWidth: lambda p: p.maxTexture3D[0],
    Attribute.hipDeviceAttributeMaxTexture3DHeight: lambda p: p.maxTexture3D[1],
    Attribute.hipDeviceAttributeMaxTexture3DDepth: lambda p: p.maxTexture3D[2],
}
# Numbers that HIP keeps free, and the ends of ranges.
NO_ATTRIBUTES = {
    Attribute.hipDeviceAttributeUnused1,
    Attribute.hipDeviceAttributeUnused2,
    Attribute.hipDeviceAttributeUnused3,
    Attribute.hipDeviceAttributeUnused4,
    Attribute.hipDeviceAttributeUnused5,
    Attribute.hipDeviceAttributeCudaCompatibleEnd,
    Attribute.hipDeviceAttributeAmdSpecificEnd,
    Attribute.hipDeviceAttributeVendorSpecificBegin,
}
_MEMBERS = {name.lower(): name for name in (*NUMBERS, *PAIRS, *TRIPLES)}


def _value(attribute: hipDeviceAttribute_t, properties: hipDeviceProp_t) -> int:
    if attribute in OTHERWISE:
        return OTHERWISE[attribute](properties)
    value = getattr(properties, _MEMBERS.get(attribute.name.removeprefix(PREFIX).lower(), ""), 0)
    return int(value[0] if isinstance(value, list) else value)


@api(outputs=1)
def hipDeviceGetAttribute(attr: int, deviceId: int) -> int:
    """Return ``(hipError_t, value)``: 0 for what no device here has, such as mipmaps, and for what no driver reports.

    `attr` is a hipDeviceAttribute_t, and `deviceId` a device's number. What each is, its name in `hipDeviceProp_t`
    says: sizes are in bytes, clocks in kHz.

    hipErrorInvalidDevice for an unknown device, hipErrorInvalidValue for an unknown attribute.
    """
    number = device_number(deviceId)
    try:
        attribute = Attribute(attr)
    except ValueError:
        attribute = Attribute.hipDeviceAttributeUnused1
    if attribute in NO_ATTRIBUTES:
        raise HipError(hipError_t.hipErrorInvalidValue, f"a device has no attribute {attr!r}")
    properties = hipDeviceProp_t()
    fill_in(properties, number)
    return _value(attribute, properties)
