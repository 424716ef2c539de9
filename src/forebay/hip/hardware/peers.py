"""Devices as each other's peers. Kernels use the memory of their own device only, so copies are all there is."""

from __future__ import annotations

from typing import Any

from forebay.hip.devices import current_number, device_number
from forebay.hip.enums import hipDeviceP2PAttr, hipError_t
from forebay.hip.errors import HipError, api

__all__ = [
    "hipDeviceCanAccessPeer",
    "hipDeviceDisablePeerAccess",
    "hipDeviceEnablePeerAccess",
    "hipDeviceGetP2PAttribute",
    "hipExtGetLinkTypeAndHopCount",
]

PCI_EXPRESS = 2  # hsa_amd_link_info_type_t


def _peer(peer: Any) -> int:
    number = device_number(peer)
    if number == current_number():
        raise HipError(hipError_t.hipErrorInvalidDevice, f"device {number} is the current one, and no peer of itself")
    return number


@api(outputs=1)
def hipDeviceCanAccessPeer(deviceId: int, peerDeviceId: int) -> int:
    """Return ``(hipError_t, 0)``: kernels use the memory of their own device only; hipMemcpyPeer goes by the host.

    `deviceId` and `peerDeviceId` are numbers of devices; hipErrorInvalidDevice for an unknown one.
    """
    device_number(deviceId)
    device_number(peerDeviceId)
    return 0


def enable_peer(peer: Any, flags: int) -> None:
    """Raise why it cannot be; hipErrorInvalidDevice, hipErrorInvalidValue or hipErrorPeerAccessUnsupported."""
    number = _peer(peer)
    if flags:
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipDeviceEnablePeerAccess: flags have to be 0, not {flags}")
    raise HipError(
        hipError_t.hipErrorPeerAccessUnsupported,
        f"kernels of device {current_number()} cannot use the memory of device {number}; hipMemcpyPeer copies it",
    )


def disable_peer(peer: Any) -> None:
    """Raise why it cannot be; hipErrorInvalidDevice or hipErrorPeerAccessNotEnabled."""
    raise HipError(hipError_t.hipErrorPeerAccessNotEnabled, f"access to device {_peer(peer)} is not enabled")


@api()
def hipDeviceEnablePeerAccess(peerDeviceId: int, flags: int = 0) -> None:
    """Return ``(hipErrorPeerAccessUnsupported,)``: no device can, as `hipDeviceCanAccessPeer` says.

    `peerDeviceId` is the other device's number.

    Copies between devices do not need it: `hipMemcpyPeer` and hipMemcpyDefault work. hipErrorInvalidDevice for an
    unknown device and for the current one, hipErrorInvalidValue for flags other than 0.
    """
    enable_peer(peerDeviceId, flags)


@api()
def hipDeviceDisablePeerAccess(peerDeviceId: int) -> None:
    """Return ``(hipErrorPeerAccessNotEnabled,)``, because it cannot be enabled; hipErrorInvalidDevice as there.

    `peerDeviceId` is the other device's number; hipErrorInvalidDevice as for `hipDeviceEnablePeerAccess`.
    """
    disable_peer(peerDeviceId)


@api(outputs=1)
def hipDeviceGetP2PAttribute(attr: Any, srcDevice: int, dstDevice: int) -> int:
    """Return ``(hipError_t, 0)``: no attribute of a link holds, because there are no links.

    `attr` is a hipDeviceP2PAttr, `srcDevice` and `dstDevice` are the numbers of the devices.

    hipErrorInvalidDevice for an unknown device and for one and the same, hipErrorInvalidValue for an unknown attribute.
    """
    if device_number(srcDevice) == device_number(dstDevice):
        raise HipError(hipError_t.hipErrorInvalidDevice, f"device {srcDevice} has no link to itself")
    try:
        hipDeviceP2PAttr(attr)
    except ValueError:
        raise HipError(hipError_t.hipErrorInvalidValue, f"a link has no attribute {attr!r}") from None
    return 0


@api(outputs=2)
def hipExtGetLinkTypeAndHopCount(device1: int, device2: int) -> tuple[int, int]:
    """Return ``(hipError_t, 2, 2)``: PCI Express, and two hops, because a copy goes through the host.

    `device1` and `device2` are numbers of devices.

    hipErrorInvalidValue for an unknown device and for one and the same.
    """
    try:
        same = device_number(device1) == device_number(device2)
    except HipError as error:
        raise HipError(hipError_t.hipErrorInvalidValue, str(error)) from error
    if same:
        raise HipError(hipError_t.hipErrorInvalidValue, f"device {device1} has no link to itself")
    return PCI_EXPRESS, 2
