"""Devices and queues over those of pyopencl, and arrays of pyopencl over memory of forebay."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from forebay.core import errors
from forebay.queues.device import Device, open_devices
from forebay.queues.queue import Queue

if TYPE_CHECKING:
    from forebay.core.driver import DeviceInfo
    from forebay.queues.memory.buffer import Buffer

_lock = threading.Lock()  # makes sure that two queues of one context get one Device, also from two threads


def adopt(queue: Any, blocking: bool) -> Queue:
    """Adopt a pyopencl queue: the implementation of `Queue.from_pyopencl`."""
    import pyopencl as cl

    from forebay.queues.opencl import operations

    if not isinstance(queue, cl.CommandQueue):
        raise errors.ArgumentTypeError(f"from_pyopencl needs a pyopencl.CommandQueue, not {type(queue).__name__}")
    if not isinstance(blocking, (bool, np.bool_)):
        raise errors.ArgumentTypeError(f"from_pyopencl: blocking is a bool, not {type(blocking).__name__}")
    properties = cl.command_queue_properties
    if queue.properties & properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        raise errors.InvalidArgumentError(
            "from_pyopencl: this pyopencl.CommandQueue runs out of order, and forebay's rules are about queues that do "
            "not; make it without OUT_OF_ORDER_EXEC_MODE_ENABLE"
        )
    device = _device_of_context(queue.context)
    handle = operations.retain_queue(queue)
    return device._adopt(queue, handle, bool(blocking), bool(queue.properties & properties.PROFILING_ENABLE))


def device_of(thing: Any) -> Device:
    """Implement `Device.from_pyopencl`."""
    import pyopencl as cl

    from forebay.queues.opencl.device import OpenCLDevice

    if isinstance(thing, cl.Context):
        return _device_of_context(thing)
    if not isinstance(thing, cl.Device):
        raise errors.ArgumentTypeError(
            f"from_pyopencl needs a pyopencl.Context or a pyopencl.Device, not {type(thing).__name__}"
        )
    info = _info_of(thing)
    return Device(info.name) if info.name else Device._of(OpenCLDevice(info))


def array_over(buffer: Buffer, queue: Any) -> Any:
    """Implement `Buffer.to_pyopencl`."""
    import pyopencl as cl
    from pyopencl.array import Array

    from forebay.queues.opencl.device import OpenCLDevice

    driver = buffer.device.driver
    if not isinstance(driver, OpenCLDevice):
        raise errors.NotSupportedError(f"to_pyopencl: {buffer.device.name} is no device of OpenCL")
    if isinstance(queue, Queue):
        if not queue.adopted:
            raise errors.InvalidArgumentError(
                f"to_pyopencl: forebay would not see what pyopencl submits to {queue!r}; make a queue with "
                "pyopencl.CommandQueue(queue.native.context), and adopt it with Queue.from_pyopencl"
            )
        queue = queue.native
    if not isinstance(queue, cl.CommandQueue):
        raise errors.ArgumentTypeError(
            f"to_pyopencl needs a pyopencl.CommandQueue, or the Queue that adopted it, not {type(queue).__name__}"
        )
    if queue.context != driver.context:
        raise errors.InvalidArgumentError(
            f"to_pyopencl: this queue is of another pyopencl.Context than {buffer.device.name}; "
            "Device.from_pyopencl(context) makes a Device of a given context"
        )
    if buffer.nbytes == 0:
        return Array(queue, buffer.shape, buffer.dtype)
    native, start = buffer._lend()
    data = cl.Buffer.from_int_ptr(driver.lend(native), retain=True)
    return Array(queue, buffer.shape, buffer.dtype, data=data, offset=start)


def _device_of_context(context: Any) -> Device:
    from forebay.queues.opencl.device import OpenCLDevice  # imported here so that only its users pay for it

    if len(context.devices) != 1:
        raise errors.InvalidArgumentError(
            f"from_pyopencl: this pyopencl.Context has {len(context.devices)} devices, and a Device is one: make a "
            "context of that one, pyopencl.Context([device])"
        )
    with _lock:
        for device in open_devices():
            driver = device.driver
            if not device.private and isinstance(driver, OpenCLDevice) and driver.context == context:
                return device
        return Device._of(OpenCLDevice(_info_of(context.devices[0]), context))


def _info_of(native: Any) -> DeviceInfo:
    """Return what is known of a device; its name is empty when no list contains it, as a part of another."""
    from forebay.queues.opencl import discovery

    info = next((info for info in discovery.discover() if info.native == native), None)
    info = info or discovery.describe(native)
    if not info.usable:
        raise errors.NotSupportedError(f"from_pyopencl: {info.description}: {info.reason}; {info.advice}")
    return info
