"""cuda.core, on streams of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

try:
    from cuda import core
except ImportError:
    from cuda.core import experimental as core  # where it was before its first release

from .. import kernels
from . import AbsentError, Ground, Layer, Run, Subject, timed
from .cuda import need_nvidia


class CudaCore(Layer):
    """`cuda.core.launch` and its streams and events. Nothing holds its streams."""

    about = "cuda.core: launch, streams, events and buffers; streams not held"

    def __init__(self, ground: Ground):
        super().__init__(ground)
        need_nvidia(ground)
        self._device: Any = core.Device()
        self._device.set_current()
        options = core.ProgramOptions(std="c++17", arch=f"sm_{self._device.arch}")
        self._code = core.Program(kernels.cuda(), code_type="c++", options=options).compile("cubin")
        self._stream, self._other = self._device.create_stream(), self._device.create_stream()
        self._buffers = [self._device.allocate(4096, stream=self._stream) for _ in range(2)]

    def subject(self, run: Run, note: str = "") -> Subject:
        """A sample."""

        @contextmanager
        def around() -> Iterator[None]:
            self._device.sync()
            yield
            self._device.sync()

        return Subject(run, around, note)

    def _names(self, arguments: int = 2) -> dict[str, Any]:
        given = [ctypes.c_int(value) for value in kernels.values(arguments)]
        first, second = self._buffers
        return {
            "launch": core.launch,
            "k": self._code.get_kernel(kernels.name_of(arguments)),
            "config": core.LaunchConfig(grid=1, block=1),
            "same": (first, *given),
            "pointer": (second, *given),
            "scalar": (first, *(ctypes.c_int(1) for _ in given[:1]), *given[1:]),
            "stream": self._stream,
            "other": self._other,
        }

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """`launch(stream, config, kernel, …)`, the config made beforehand."""
        names = self._names(arguments)
        if not change:
            return self.subject(timed("launch(stream, config, k, *same)", **names))
        both = f"launch(stream, config, k, *same); launch(stream, config, k, *{change})"
        return self.subject(timed(both, operations=2, **names))

    def launch_finish(self) -> Subject:
        """A launch and `Stream.sync`."""
        return self.subject(timed("launch(stream, config, k, *same); stream.sync()", **self._names()))

    def record(self, new: bool) -> Subject:
        """`Stream.record` of one event, again."""
        first = "launch(stream, config, k, *same); " if new else ""
        names = self._names() | {"event": self._stream.record()}
        return self.subject(timed(f"{first}stream.record(event)", **names))

    def wait(self) -> Subject:
        """`Stream.wait`."""
        names = self._names() | {"event": self._stream.record()}
        statement = (
            "launch(stream, config, k, *same); stream.record(event); other.wait(event); launch(other, config, k, *same)"
        )
        return self.subject(timed(statement, **names))

    def query(self, what: str) -> Subject:
        """`Event.is_done`."""
        if what != "event":
            raise AbsentError("has nothing like it")
        event = self._stream.record()
        event.sync()
        return self.subject(timed("event.is_done", event=event))

    def alloc(self, nbytes: int) -> Subject:
        """`Device.allocate` and `Buffer.close`."""
        names = {"allocate": self._device.allocate, "n": nbytes, "stream": self._stream}
        return self.subject(timed("allocate(n, stream=stream).close(stream)", **names))
