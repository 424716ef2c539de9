"""PyTorch, on streams of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch

from . import AbsentError, Ground, Layer, Run, Subject, timed
from .cuda import need_nvidia

FILL = "an elementwise operation, not a kernel of one's own"


class PyTorch(Layer):
    """`Tensor.fill_`, for want of kernels of one's own, and PyTorch's streams, events, graphs and pool."""

    about = "PyTorch: Tensor.fill_, streams, events, graphs and its pool; streams not held"

    def __init__(self, ground: Ground):
        super().__init__(ground)
        need_nvidia(ground)
        if not torch.cuda.is_available():
            raise AbsentError("is built without CUDA")
        self._tensors = [torch.zeros(1, device="cuda") for _ in range(2)]
        self._stream, self._other = torch.cuda.Stream(), torch.cuda.Stream()

    def subject(self, run: Run, note: str = "", stream: Any = None) -> Subject:
        """A sample, with its stream as the current one."""

        @contextmanager
        def around() -> Iterator[None]:
            torch.cuda.synchronize()
            with torch.cuda.stream(stream or self._stream):
                yield
            torch.cuda.synchronize()

        return Subject(run, around, note)

    def _names(self) -> dict[str, Any]:
        first, second = self._tensors
        names = {"a": first.fill_, "b": second.fill_, "event": torch.cuda.Event(), "stream": self._stream}
        return names | {"other": self._other, "use": torch.cuda.stream}

    def idle(self, count: int) -> AbstractContextManager[object]:
        """Nothing: PyTorch hands out 32 streams in turn."""
        return ExitStack()

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """`fill_`."""
        if arguments != 2:
            raise AbsentError(FILL)
        other = {"": "a(1.0)", "scalar": "a(2.0)", "pointer": "b(1.0)"}[change]
        return self.subject(timed(f"a(1.0); {other}", operations=2, **self._names()), FILL)

    def launch_finish(self) -> Subject:
        """`fill_` and `Stream.synchronize`."""
        return self.subject(timed("a(1.0); stream.synchronize()", **self._names()), FILL)

    def record(self, new: bool) -> Subject:
        """`Event.record`."""
        first = "a(1.0); " if new else ""
        return self.subject(timed(f"{first}event.record(stream)", **self._names()), FILL if new else "")

    def wait(self) -> Subject:
        """`Stream.wait_event`; the other stream is made the current one for its launch."""
        statement = "a(1.0); event.record(stream); other.wait_event(event)\nwith use(other): b(1.0)"
        return self.subject(timed(statement, **self._names()), FILL)

    def query(self, what: str) -> Subject:
        """`Event.query` and `Stream.query`."""
        names = self._names()
        names["event"].record(self._stream)
        self._stream.synchronize()
        return self.subject(timed(f"{what}.query()", **names))

    def replay(self, length: int, changed: int) -> Subject:
        """`CUDAGraph.replay`."""
        if changed:
            raise AbsentError("its graphs cannot be changed")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            for _ in range(length):
                self._tensors[0].fill_(1.0)
        return self.subject(timed("graph.replay()", graph=graph), FILL)

    def copy(self, direction: str, nbytes: int) -> Subject:
        """`copy_` that does not block, and `Stream.synchronize`."""
        host = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        here, there = (torch.empty(nbytes, dtype=torch.uint8, device="cuda") for _ in range(2))
        to, source = {"up": (here, host), "down": (host, here), "across": (there, here)}[direction]
        names = {"copy": to.copy_, "source": source, "stream": self._stream}
        return self.subject(timed("copy(source, non_blocking=True); stream.synchronize()", **names))

    def alloc(self, nbytes: int) -> Subject:
        """`torch.empty`, from its pool."""
        names = {"empty": torch.empty, "n": nbytes, "u1": torch.uint8}
        return self.subject(timed("empty(n, dtype=u1, device='cuda')", **names), "its caching allocator")
