"""CuPy, on streams of its own."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from .. import kernels
from ..raw.cuda import need_nvidia
from . import AbsentError, Apart, Ground, Handle, Subject, Texts


class CuPy(Apart):
    """`cupy.RawKernel` and CuPy's streams, events and pool."""

    about = "CuPy: RawKernel, streams, events, graphs and its pool; streams not held"
    operations = "launch launch_on launch_finish record wait query replay copy alloc host"
    own_streams = True
    texts: Texts = Texts(
        alloc_note="its memory pool",
        elsewhere="with h{{0}}: {}",
        launch="k(g, g, given)",
        signal="h{1}.record(h{0})",
        wait="h{0}.wait_event(h{1})",
        event="h{1}.done",
        stream="h{0}.done",
        finish="h{0}.synchronize()",
        copy=tuple(f"copy(to, source, n, {end}, p{{0}})" for end in ("up", "down", "across")),
        alloc="alloc(n)",
        host="h{0}.launch_host_func(nothing, None)",
    )
    number = np.int32

    def __init__(self, ground: Ground):
        super().__init__(ground)
        need_nvidia(ground)
        self._module = cupy.RawModule(code=kernels.cuda())
        self._settle = cupy.cuda.runtime.deviceSynchronize
        self._current = lambda stream: stream
        self.memories.extend([cupy.zeros(1024, "f4") for _ in range(2)])
        self._kept: list[Any] = []
        self.names.update(
            g=(1,),
            copy=cupy.cuda.runtime.memcpyAsync,
            up=cupy.cuda.runtime.memcpyHostToDevice,
            down=cupy.cuda.runtime.memcpyDeviceToHost,
            across=cupy.cuda.runtime.memcpyDeviceToDevice,
            alloc=cupy.cuda.alloc,
            nothing=lambda _: None,
        )

    def make_stream(self, kind: str = "blocking") -> Any:
        """A `cupy.cuda.Stream`."""
        if kind in ("null", "per-thread"):
            return cupy.cuda.Stream.null if kind == "null" else cupy.cuda.Stream.ptds
        return cupy.cuda.Stream(non_blocking=kind == "non-blocking")

    def make_event(self, for_host: bool) -> Any:
        """An event without timing."""
        return cupy.cuda.Event(disable_timing=True)

    def function(self, arguments: int) -> Any:
        """A function of its module."""
        return self._module.get_function(kernels.name_of(arguments))

    def names_of(self, handle: Handle) -> dict[str, Any]:
        """A stream or an event, and its address."""
        return {f"h{handle.number}": handle.it, f"p{handle.number}": handle.it.ptr}

    def _address(self, memory: Any) -> int:
        self._kept.append(memory)
        address: int = memory.ptr
        return address

    def pinned(self, nbytes: int) -> int:
        """The address of pinned memory."""
        return self._address(cupy.cuda.alloc_pinned_memory(nbytes))

    def memory(self, nbytes: int) -> int:
        """The address of memory of its pool."""
        return self._address(cupy.cuda.alloc(nbytes))

    def replay(self, length: int, changed: int) -> Subject:
        """`Graph.launch`."""
        if changed:
            raise AbsentError("its graphs cannot be changed")
        launches, stream = self.run(self.enqueue(self.main, self.kernel())), self.main.it
        with stream:
            stream.begin_capture()
            launches(length)
            graph = stream.end_capture()
        return self.subject(self.say("graph.launch(h{0})", graph=graph))
