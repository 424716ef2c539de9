"""What SYCL devices take over from dpctl: queues."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from forebay.core import errors
from forebay.core.driver import AdoptedQueue, DeviceInfo, DriverDevice
from forebay.queues.sycl import discovery

ADOPTS_QUEUES = "a dpctl.SyclQueue"
ADOPTS_DEVICES = ""


def adopt_queue(thing: Any, opened: Iterable[DriverDevice]) -> AdoptedQueue | None:
    """As `DriverFolder.adopt_queue`."""
    dpctl = sys.modules.get("dpctl")
    if dpctl is None or not isinstance(thing, dpctl.SyclQueue):
        return None
    if not thing.is_in_order:
        raise errors.InvalidArgumentError(
            "adopt_queue: this dpctl.SyclQueue runs out of order, and forebay's rules are about queues that do not; "
            "make it with dpctl.SyclQueue(…, property='in_order')"
        )
    from forebay.queues.sycl.objects import create_queue  # imported late: only users of this driver pay for it

    device = _device_of(thing, opened)
    return AdoptedQueue(device, create_queue(thing.addressof_ref(), True), thing.has_enable_profiling)


def adopt_device(thing: Any, opened: Iterable[DriverDevice]) -> None:
    """As `DriverFolder.adopt_device`: none, because a context of dpctl says nothing of queues."""


def _device_of(queue: Any, opened: Iterable[DriverDevice]) -> DriverDevice:
    from forebay.queues.sycl.device import SyclDevice

    context, native = queue.sycl_context, queue.sycl_device
    known = {
        device.serial: device
        for device in opened
        if isinstance(device, SyclDevice) and (device.context, device.native) == (context, native)
    }
    if known:
        return known[min(known)]
    info = _info_of(native)
    if not info.usable:
        raise errors.NotSupportedError(f"adopt_queue: {info.description}: {info.reason}; {info.advice}")
    return SyclDevice(info, queue)


def _info_of(native: Any) -> DeviceInfo:
    for info in discovery.discover():
        if info.native == native:
            return replace(info, native=native)
    return discovery.describe(native)  # a part of a device, which no list contains
