"""What the folder offers: CUDA's devices, and the streams of other packages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from forebay.core import errors
from forebay.core.driver import AdoptedQueue, DeviceInfo, DriverDevice, DriverFolder, Found

LEGACY, PER_THREAD = 1, 2  # CU_STREAM_LEGACY, CU_STREAM_PER_THREAD: no streams, but what a thread means by them


class Cuda(DriverFolder):
    """See `DriverFolder`. The rest of the folder is imported late: `import forebay` looks for no device."""

    adopts_queues = "a stream of CUDA (__cuda_stream__; of CuPy, PyTorch, numba)"

    def look(self) -> Found:
        """See `DriverFolder`."""
        from forebay.queues.cuda import discovery

        return discovery.look()

    def open_device(self, info: DeviceInfo) -> DriverDevice:
        """See `DriverFolder`."""
        from forebay.queues.cuda.device import CudaDevice

        return CudaDevice(info)

    def adopt_queue(self, thing: Any, opened: Iterable[DriverDevice]) -> AdoptedQueue | None:
        """See `DriverFolder`."""
        stream = _stream_of(thing)
        if stream is None:
            return None
        if stream in (0, LEGACY, PER_THREAD):
            raise errors.InvalidArgumentError(
                f"adopt_queue: this {type(thing).__name__} is CUDA's default stream, which is another one for each "
                "thread or waits for all: make a stream, and adopt that"
            )
        if not self.discover():
            raise errors.NotSupportedError(f"adopt_queue: {self.absence()}")
        from forebay.queues.cuda.device import CudaDevice
        from forebay.queues.cuda.operations import context_of

        CudaDevice.load()
        context = context_of(stream)
        there = [device for device in opened if isinstance(device, CudaDevice)]
        known = {device.info.name for device in there}
        others = (CudaDevice(info) for info in self.discover() if info.usable and info.name not in known)
        for device in itertools.chain(there, others):
            if device.handle.handle == context:
                return AdoptedQueue(device, device.handle.adopt_queue(stream, thing), True)
        raise errors.InvalidArgumentError(
            "adopt_queue: this stream is in a context of its own; forebay uses the primary context of a GPU, as CUDA's "
            "runtime, CuPy, PyTorch and numba do"
        )


def _stream_of(thing: Any) -> int | None:
    """Return the driver's handle of a stream of CUDA; None for what is none.

    Known are ``__cuda_stream__`` (cuda.core, CuPy 14 and newer), ``cuda_stream`` (PyTorch), and ``ptr`` and ``handle``
    of the streams of CuPy and numba.
    """
    protocol = getattr(type(thing), "__cuda_stream__", None)
    if protocol is not None:
        described = protocol(thing) if callable(protocol) else thing.__cuda_stream__
        return int(described[1])
    package = type(thing).__module__.partition(".")[0]
    name = {"torch": "cuda_stream", "cupy": "ptr", "numba": "handle"}.get(package)
    if name is None or "Stream" not in type(thing).__name__ or not hasattr(thing, name):
        return None
    handle = getattr(thing, name)
    return int(getattr(handle, "value", handle) or 0)
