"""What the folder offers: SYCL's devices, and what they take over from dpctl."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from forebay.core import errors
from forebay.core.driver import AdoptedQueue, DeviceInfo, DriverDevice, DriverFolder, Found


class Sycl(DriverFolder):
    """See `DriverFolder`. The rest of the folder is imported late: `import forebay` looks for no device.

    Parameters
    ----------
    drivers
        All drivers, by their filter words: SYCL drives devices of the others, whose compilers say more than SYCL does.
    """

    adopts_queues = "a dpctl.SyclQueue"

    def __init__(self, drivers: Mapping[str, DriverFolder]) -> None:
        super().__init__()
        self.drivers = drivers

    def look(self) -> Found:
        """See `DriverFolder`."""
        from forebay.queues.sycl import discovery

        return discovery.look()

    def open_device(self, info: DeviceInfo) -> DriverDevice:
        """See `DriverFolder`."""
        from forebay.queues.sycl.device import SyclDevice

        return SyclDevice(info, self.drivers)

    def adopt_queue(self, thing: Any, opened: Iterable[DriverDevice]) -> AdoptedQueue | None:
        """See `DriverFolder`."""
        dpctl = sys.modules.get("dpctl")
        if dpctl is None or not isinstance(thing, dpctl.SyclQueue):
            return None
        if not thing.is_in_order:
            raise errors.InvalidArgumentError(
                "adopt_queue: this dpctl.SyclQueue runs out of order, and forebay's rules are about queues that do "
                "not; make it with dpctl.SyclQueue(…, property='in_order')"
            )
        from forebay.queues.sycl.operations import create_queue

        device = self._device_of(thing, opened)
        return AdoptedQueue(device, create_queue(thing.addressof_ref(), True), thing.has_enable_profiling)

    def _device_of(self, queue: Any, opened: Iterable[DriverDevice]) -> DriverDevice:
        from forebay.queues.sycl.device import SyclDevice

        context, native = queue.sycl_context, queue.sycl_device
        known = {
            device.serial: device
            for device in opened
            if isinstance(device, SyclDevice) and (device.context, device.native) == (context, native)
        }
        if known:
            return known[min(known)]
        info = self._info_of(native)
        if not info.usable:
            raise errors.NotSupportedError(f"adopt_queue: {info.description}: {info.reason}; {info.advice}")
        return SyclDevice(info, self.drivers, queue)

    def _info_of(self, native: Any) -> DeviceInfo:
        from forebay.queues.sycl import discovery

        for info in self.discover():
            if info.native == native:
                return replace(info, native=native)
        return discovery.describe(native)  # a part of a device, which no list contains
