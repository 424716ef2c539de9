"""Devices as each other's peers: kernels that use each other's memory on CUDA, and copies everywhere."""

from __future__ import annotations

from typing import Any

from forebay.hip.devices import current_device, current_number, device_number, device_of
from forebay.hip.errors import HipError, api
from forebay.hip.facts import hipDeviceP2PAttr, hipError_t

PCI_EXPRESS = 2  # hsa_amd_link_info_type_t


def _can_access(number: int, peer: int) -> bool:
    return number != peer and device_of(number).can_access_peer(device_of(peer))


def _peer(peer: Any) -> int:
    number = device_number(peer)
    if number == current_number():
        raise HipError(hipError_t.hipErrorInvalidDevice, f"device {number} is the current one, and no peer of itself")
    return number


@api(outputs=1)
def hipDeviceCanAccessPeer(deviceId: int, peerDeviceId: int) -> int:
    """Return ``(hipError_t, 1)`` where kernels of one device can use memory of the other: CUDA, with a link; else 0.

    `deviceId` and `peerDeviceId` are numbers of devices; hipErrorInvalidDevice for an unknown one. Opens both.
    """
    return int(_can_access(device_number(deviceId), device_number(peerDeviceId)))


def enable_peer(peer: Any, flags: int) -> None:
    """Let the current device use memory of another, or raise why it cannot: as `hipDeviceEnablePeerAccess`."""
    number = _peer(peer)
    if flags:
        raise HipError(hipError_t.hipErrorInvalidValue, f"hipDeviceEnablePeerAccess: flags have to be 0, not {flags}")
    device, other = current_device(), device_of(number)
    if not device.can_access_peer(other):
        raise HipError(
            hipError_t.hipErrorPeerAccessUnsupported,
            f"kernels of device {current_number()} cannot use the memory of device {number}; hipMemcpyPeer copies it",
        )
    if other.driver in device._peers:
        raise HipError(hipError_t.hipErrorPeerAccessAlreadyEnabled, f"access to device {number} is enabled already")
    device.enable_peer_access(other)


def disable_peer(peer: Any) -> None:
    """End what `enable_peer` began; hipErrorInvalidDevice or hipErrorPeerAccessNotEnabled."""
    number = _peer(peer)
    device, other = current_device(), device_of(number)
    if other.driver not in device._peers:
        raise HipError(hipError_t.hipErrorPeerAccessNotEnabled, f"access to device {number} is not enabled")
    device.disable_peer_access(other)


@api()
def hipDeviceEnablePeerAccess(peerDeviceId: int, flags: int = 0) -> None:
    """Let kernels of the current device use memory of another one; ``(hipError_t,)``. The other way is another call.

    `peerDeviceId` is the other device's number. See `forebay.Device.enable_peer_access`, also for when it blocks.

    Copies between devices do not need it: `hipMemcpyPeer` and hipMemcpyDefault work. hipErrorPeerAccessUnsupported
    where it cannot be (`hipDeviceCanAccessPeer`), hipErrorPeerAccessAlreadyEnabled, hipErrorInvalidDevice for an
    unknown device and for the current one, hipErrorInvalidValue for flags other than 0.
    """
    enable_peer(peerDeviceId, flags)


@api()
def hipDeviceDisablePeerAccess(peerDeviceId: int) -> None:
    """Refuse memory of another device again; ``(hipError_t,)``: hipErrorPeerAccessNotEnabled if it was not enabled.

    `peerDeviceId` is the other device's number; hipErrorInvalidDevice as for `hipDeviceEnablePeerAccess`. Launches
    from before still run. Does not block.
    """
    disable_peer(peerDeviceId)


@api(outputs=1)
def hipDeviceGetP2PAttribute(attr: int, srcDevice: int, dstDevice: int) -> int:
    """Return ``(hipError_t, 1)`` for hipDevP2PAttrAccessSupported as `hipDeviceCanAccessPeer` does, and 0 for others.

    `attr` is a hipDeviceP2PAttr, `srcDevice` and `dstDevice` are the numbers of the devices.

    hipErrorInvalidDevice for an unknown device and for one and the same, hipErrorInvalidValue for an unknown attribute.
    """
    source, to = device_number(srcDevice), device_number(dstDevice)
    if source == to:
        raise HipError(hipError_t.hipErrorInvalidDevice, f"device {srcDevice} has no link to itself")
    try:
        known = hipDeviceP2PAttr(attr)
    except ValueError:
        raise HipError(hipError_t.hipErrorInvalidValue, f"a link has no attribute {attr!r}") from None
    return int(known == hipDeviceP2PAttr.hipDevP2PAttrAccessSupported and _can_access(source, to))


@api(outputs=2)
def hipExtGetLinkTypeAndHopCount(device1: int, device2: int) -> tuple[int, int]:
    """Return ``(hipError_t, 2, hops)``: PCI Express, and two hops where a copy goes through the host; else one.

    `device1` and `device2` are numbers of devices.

    hipErrorInvalidValue for an unknown device and for one and the same.
    """
    try:
        one, other = device_number(device1), device_number(device2)
    except HipError as error:
        raise HipError(hipError_t.hipErrorInvalidValue, str(error)) from error
    if one == other:
        raise HipError(hipError_t.hipErrorInvalidValue, f"device {device1} has no link to itself")
    return PCI_EXPRESS, 1 if _can_access(one, other) else 2
