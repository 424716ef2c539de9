"""What OpenCL devices take over from pyopencl: queues, contexts and devices."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from forebay.core import errors
from forebay.core.driver import AdoptedQueue, DeviceInfo, DriverDevice
from forebay.queues.opencl import discovery

ADOPTS_QUEUES = "a pyopencl.CommandQueue"
ADOPTS_DEVICES = "a pyopencl.Context or a pyopencl.Device"


def adopt_queue(thing: Any, opened: Iterable[DriverDevice]) -> AdoptedQueue | None:
    """As `DriverFolder.adopt_queue`."""
    cl = sys.modules.get("pyopencl")
    if cl is None or not isinstance(thing, cl.CommandQueue):
        return None
    properties = cl.command_queue_properties
    if thing.properties & properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        raise errors.InvalidArgumentError(
            "adopt_queue: this pyopencl.CommandQueue runs out of order, and forebay's rules are about queues that do "
            "not; make it without OUT_OF_ORDER_EXEC_MODE_ENABLE"
        )
    from forebay.queues.opencl import operations  # imported late: only users of this driver pay for it

    device = _device_of(thing.context, opened)
    return AdoptedQueue(device, operations.retain_queue(thing), bool(thing.properties & properties.PROFILING_ENABLE))


def adopt_device(thing: Any, opened: Iterable[DriverDevice]) -> DriverDevice | DeviceInfo | None:
    """As `DriverFolder.adopt_device`."""
    cl = sys.modules.get("pyopencl")
    if cl is None or not isinstance(thing, (cl.Context, cl.Device)):
        return None
    if isinstance(thing, cl.Context):
        return _device_of(thing, opened)
    from forebay.queues.opencl.device import OpenCLDevice

    info = _info_of(thing)
    return info if info.name else OpenCLDevice(info)


def _device_of(context: Any, opened: Iterable[DriverDevice]) -> DriverDevice:
    from forebay.queues.opencl.device import OpenCLDevice

    if len(context.devices) != 1:
        raise errors.InvalidArgumentError(
            f"adopt: this pyopencl.Context has {len(context.devices)} devices, and a Device is one: make a context of "
            "that one, pyopencl.Context([device])"
        )
    for device in opened:
        if isinstance(device, OpenCLDevice) and device.context == context:
            return device
    return OpenCLDevice(_info_of(context.devices[0]), context)


def _info_of(native: Any) -> DeviceInfo:
    """Return what is known of a device; its name is empty when no list contains it, as a part of another."""
    info = next((info for info in discovery.discover() if info.native == native), None)
    info = info or discovery.describe(native)
    if not info.usable:
        raise errors.NotSupportedError(f"adopt: {info.description}: {info.reason}; {info.advice}")
    return info
