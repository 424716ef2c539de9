"""CuPy, on streams of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import cupy
import numpy as np

from .. import kernels
from . import AbsentError, Ground, Layer, Run, Subject, timed
from .cuda import need_nvidia


class CuPy(Layer):
    """`cupy.RawKernel` and CuPy's streams, events and pool. Nothing holds its streams."""

    about = "CuPy: RawKernel, streams, events, graphs and its pool; streams not held"

    def __init__(self, ground: Ground):
        super().__init__(ground)
        need_nvidia(ground)
        self._module = cupy.RawModule(code=kernels.cuda())
        self._arrays = [cupy.zeros(1024, "f4") for _ in range(2)]
        self._stream = cupy.cuda.Stream()
        self._other = cupy.cuda.Stream()

    def subject(self, run: Run, stream: Any = None, note: str = "") -> Subject:
        """A sample, with its stream as the current one."""

        @contextmanager
        def around() -> Iterator[None]:
            cupy.cuda.runtime.deviceSynchronize()
            with stream or self._stream:
                yield
            cupy.cuda.runtime.deviceSynchronize()

        return Subject(run, around, note)

    def _names(self, arguments: int = 2) -> dict[str, Any]:
        given = [np.int32(value) for value in kernels.values(arguments)]
        first, second = self._arrays
        return {
            "k": self._module.get_function(kernels.name_of(arguments)),
            "g": (1,),
            "same": (first, *given),
            "pointer": (second, *given),
            "scalar": (first, *(np.int32(1) for _ in given[:1]), *given[1:]),
            "stream": self._stream,
            "other": self._other,
            "event": cupy.cuda.Event(disable_timing=True),
        }

    def idle(self, count: int) -> AbstractContextManager[object]:
        """Streams of CUDA."""
        stack = ExitStack()
        stack.callback(lambda kept: kept.clear(), [cupy.cuda.Stream() for _ in range(count)])
        return stack

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """`kernel(grid, block, arguments)`."""
        names = self._names(arguments)
        if not change:
            return self.subject(timed("k(g, g, same)", **names))
        return self.subject(timed(f"k(g, g, same); k(g, g, {change})", operations=2, **names))

    def launch_on(self, kind: str) -> Subject:
        """The same on a stream of a kind."""
        streams = {
            "null": lambda: cupy.cuda.Stream.null,
            "blocking": cupy.cuda.Stream,
            "non-blocking": lambda: cupy.cuda.Stream(non_blocking=True),
            "per-thread": lambda: cupy.cuda.Stream.ptds,
        }
        return self.subject(timed("k(g, g, same)", **self._names()), streams[kind]())

    def launch_finish(self) -> Subject:
        """A launch and `Stream.synchronize`."""
        return self.subject(timed("k(g, g, same); stream.synchronize()", **self._names()))

    def record(self, new: bool) -> Subject:
        """`Event.record`."""
        first = "k(g, g, same); " if new else ""
        return self.subject(timed(f"{first}event.record(stream)", **self._names()))

    def wait(self) -> Subject:
        """`Stream.wait_event`; the other stream is made the current one for its launch."""
        statement = "k(g, g, same); event.record(stream); other.wait_event(event)\nwith other: k(g, g, same)"
        return self.subject(timed(statement, **self._names()))

    def query(self, what: str) -> Subject:
        """`Event.done` and `Stream.done`."""
        names = self._names()
        names["event"].record(self._stream)
        self._stream.synchronize()
        return self.subject(timed(f"{what}.done", **names))

    def replay(self, length: int, changed: int) -> Subject:
        """`Graph.launch`."""
        if changed:
            raise AbsentError("its graphs cannot be changed")
        names = self._names()
        with self._stream:
            self._stream.begin_capture()
            for _ in range(length):
                names["k"]((1,), (1,), names["same"])
            graph = self._stream.end_capture()
        return self.subject(timed("graph.launch(stream)", graph=graph, stream=self._stream))

    def copy(self, direction: str, nbytes: int) -> Subject:
        """`memcpyAsync` and `Stream.synchronize`."""
        host = cupy.cuda.alloc_pinned_memory(nbytes)
        here, there = (cupy.cuda.alloc(nbytes) for _ in range(2))
        to, source, kind = {
            "up": (here, host, cupy.cuda.runtime.memcpyHostToDevice),
            "down": (host, here, cupy.cuda.runtime.memcpyDeviceToHost),
            "across": (there, here, cupy.cuda.runtime.memcpyDeviceToDevice),
        }[direction]
        names = {"copy": cupy.cuda.runtime.memcpyAsync, "to": to.ptr, "source": source.ptr, "n": nbytes, "kind": kind}
        names |= {"s": self._stream.ptr, "stream": self._stream, "kept": (host, here, there)}
        return self.subject(timed("copy(to, source, n, kind, s); stream.synchronize()", **names))

    def alloc(self, nbytes: int) -> Subject:
        """Its memory pool."""
        return self.subject(timed("alloc(n)", alloc=cupy.cuda.alloc, n=nbytes), note="its memory pool")

    def host(self) -> Subject:
        """`Stream.launch_host_func`."""
        names = {"stream": self._stream, "nothing": lambda _: None}
        return self.subject(timed("stream.launch_host_func(nothing, None); stream.synchronize()", **names))
