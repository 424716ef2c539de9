"""Turns queues of dpctl into Queues."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np

from forebay.core import errors
from forebay.core.driver import DeviceInfo
from forebay.queues.device import Device, open_devices
from forebay.queues.queue import Queue
from forebay.queues.sycl import discovery as platforms

_lock = threading.Lock()  # makes sure that two queues of one context get one Device, also from two threads


def adopt(queue: Any, blocking: bool) -> Queue:
    """Adopt a dpctl queue: the implementation of `Queue.from_dpctl`."""
    try:
        import dpctl
    except ImportError as error:
        raise errors.NotSupportedError(f"Queue.from_dpctl needs dpctl ({error}): {platforms.INSTALL}") from None
    if not isinstance(queue, dpctl.SyclQueue):
        raise errors.ArgumentTypeError(f"from_dpctl needs a dpctl.SyclQueue, not {type(queue).__name__}")
    if not isinstance(blocking, (bool, np.bool_)):
        raise errors.ArgumentTypeError(f"from_dpctl: blocking is a bool, not {type(blocking).__name__}")
    if not queue.is_in_order:
        raise errors.InvalidArgumentError(
            "from_dpctl: this dpctl.SyclQueue runs out of order, and forebay's rules are about queues that do not; "
            "make it with dpctl.SyclQueue(…, property='in_order')"
        )
    from forebay.queues.sycl.objects import create_queue

    device = _device_of(queue)
    handle = create_queue(queue.addressof_ref(), True)
    return device._adopt(queue, handle, bool(blocking), queue.has_enable_profiling)


def _device_of(queue: Any) -> Device:
    from forebay.queues.sycl.device import SyclDevice  # imported here so that only users of dpctl pay for it

    context, native = queue.sycl_context, queue.sycl_device
    with _lock:
        known = {
            driver.serial: device
            for device in open_devices()
            if not device.private
            and isinstance(driver := device.driver, SyclDevice)
            and (driver.context, driver.native) == (context, native)
        }
        if known:
            return known[min(known)]
        info = _info_of(native)
        if not info.usable:
            raise errors.NotSupportedError(f"from_dpctl: {info.description}: {info.reason}; {info.advice}")
        return Device._of(SyclDevice(info, queue))


def _info_of(native: Any) -> DeviceInfo:
    for info in platforms.discover():
        if info.native == native:
            return replace(info, native=native)
    return platforms.describe(native)  # a part of a device, which no list contains
