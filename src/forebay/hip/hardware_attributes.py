"""The attributes of a device: numbers, most of them also in `hipDeviceProp_t`."""

from __future__ import annotations

from typing import Any

from forebay.hip.devices import device_number
from forebay.hip.errors import HipError, api
from forebay.hip.facts import FACTS, hipDeviceAttribute_t, hipDeviceProp_t, hipError_t
from forebay.hip.hardware import fill_in

PREFIX = "hipDeviceAttribute"
# A number, or the member of hipDeviceProp_t that has another name than the attribute, and where in it; None for numbers
# that HIP keeps free, and the ends of ranges.
OTHERWISE: dict[str, Any] = FACTS["attributes of devices"]
_NUMBERS = frozenset(map(int, hipDeviceAttribute_t))
_MEMBERS = {name.lower(): name for name in hipDeviceProp_t.PROPERTIES()}


def _value(name: str, properties: hipDeviceProp_t) -> int:
    if name == "ImageSupport":
        return int(properties.maxTexture1D > 0)
    given = OTHERWISE.get(name, [_MEMBERS.get(name.lower())])
    if not isinstance(given, list):
        return int(given)
    value = properties[given[0]] if given[0] else 0
    return int(value[given[-1] if len(given) > 1 else 0] if isinstance(value, list) else value)


@api(outputs=1)
def hipDeviceGetAttribute(attr: int, deviceId: int) -> int:
    """Return ``(hipError_t, value)``: 0 for what no device here has, such as mipmaps, and for what no driver reports.

    `attr` is a hipDeviceAttribute_t, and `deviceId` a device's number. What each is, its name in `hipDeviceProp_t`
    says: sizes are in bytes, clocks in kHz.

    hipErrorInvalidDevice for an unknown device, hipErrorInvalidValue for an unknown attribute.
    """
    number = device_number(deviceId)
    name = hipDeviceAttribute_t(attr).name.removeprefix(PREFIX) if attr in _NUMBERS else "Unused1"
    if OTHERWISE.get(name, 0) is None:
        raise HipError(hipError_t.hipErrorInvalidValue, f"a device has no attribute {attr!r}")
    properties = hipDeviceProp_t()
    fill_in(properties, number)
    return _value(name, properties)
