"""What the folder offers: OpenCL's devices, and what they adopt from pyopencl."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from forebay.core import errors
from forebay.core.driver import AdoptedQueue, DeviceInfo, DriverDevice, DriverFolder, Found


class OpenCL(DriverFolder):
    """See `DriverFolder`. The rest of the folder is imported late, because `import forebay` looks for no device."""

    adopts_queues = "a pyopencl.CommandQueue"
    adopts_devices = "a pyopencl.Context or a pyopencl.Device"
    runs_anywhere = True

    def look(self) -> Found:
        from forebay.queues.opencl import discovery

        return discovery.look()

    def open_device(self, info: DeviceInfo) -> DriverDevice:
        from forebay.queues.opencl.device import OpenCLDevice

        return OpenCLDevice(info)

    def adopt_queue(self, thing: Any, opened: Iterable[DriverDevice]) -> AdoptedQueue | None:
        cl = sys.modules.get("pyopencl")
        if cl is None or not isinstance(thing, cl.CommandQueue):
            return None
        properties = cl.command_queue_properties
        if thing.properties & properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            raise errors.InvalidArgumentError(
                "adopt_queue: this pyopencl.CommandQueue runs out of order, and forebay's rules are about queues that "
                "do not; make it without OUT_OF_ORDER_EXEC_MODE_ENABLE"
            )
        from forebay.queues.opencl.operations import retained

        device = self._device_of(thing.context, opened)
        return AdoptedQueue(device, retained(thing), bool(thing.properties & properties.PROFILING_ENABLE))

    def adopt_device(self, thing: Any, opened: Iterable[DriverDevice]) -> DriverDevice | DeviceInfo | None:
        cl = sys.modules.get("pyopencl")
        if cl is None or not isinstance(thing, (cl.Context, cl.Device)):
            return None
        if isinstance(thing, cl.Context):
            return self._device_of(thing, opened)
        info = self._info_of(thing)
        return info if info.name else self.open_device(info)

    def _device_of(self, context: Any, opened: Iterable[DriverDevice]) -> DriverDevice:
        from forebay.queues.opencl.device import OpenCLDevice

        if len(context.devices) != 1:
            raise errors.InvalidArgumentError(
                f"adopt: this pyopencl.Context has {len(context.devices)} devices, and a Device is one: make a context "
                "of that one, pyopencl.Context([device])"
            )
        for device in opened:
            if isinstance(device, OpenCLDevice) and device.context == context:
                return device
        return OpenCLDevice(self._info_of(context.devices[0]), context)

    def _info_of(self, native: Any) -> DeviceInfo:
        """Describe a device. The name is empty if no list contains it, such as a part of another."""
        from forebay.queues.opencl import discovery

        info = next((info for info in self.discover() if info.native == native), None)
        info = info or discovery.describe(native)
        if not info.usable:
            raise errors.NotSupportedError(f"adopt: {info.description}: {info.reason}; {info.advice}")
        return info
