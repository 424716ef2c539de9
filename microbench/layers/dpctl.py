"""dpctl, on queues of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import kernels
from . import AbsentError, Ground, Layer, Subject, timed


class Dpctl(Layer):
    """`dpctl.SyclQueue.submit` on an in-order queue."""

    about = "dpctl's SyclQueue.submit, in order"

    def __init__(self, ground: Ground):
        super().__init__(ground)
        try:
            import dpctl
            import dpctl.memory
            import dpctl.program
        except ImportError as error:
            raise AbsentError("not installed") from error
        info = ground.device.info
        words = "level_zero" if info.backend == "level_zero" else f"opencl:{info.kind}"
        try:
            self._queue: Any = dpctl.SyclQueue(words, property="in_order")
        except dpctl.SyclQueueCreationError as error:
            raise AbsentError(f"sees no {words}") from error
        if info.backend == "level_zero":
            from forebay.queues.levelzero import programs

            code = programs.compile_source(kernels.opencl(), info)
            self._program = dpctl.program.create_program_from_spirv(self._queue, code)
        else:
            self._program = dpctl.program.create_program_from_source(self._queue, kernels.opencl())
        self._memories = [dpctl.memory.MemoryUSMDevice(4096, queue=self._queue) for _ in range(2)]

    @contextmanager
    def _settled(self) -> Iterator[None]:
        self._queue.wait()
        yield
        self._queue.wait()

    def _names(self, arguments: int = 2) -> dict[str, Any]:
        given = [ctypes.c_int(value) for value in kernels.values(arguments)]
        first, second = self._memories
        return {
            "submit": self._queue.submit,
            "k": self._program.get_sycl_kernel(kernels.name_of(arguments)),
            "same": [first, *given],
            "pointer": [second, *given],
            "scalar": [first, *(ctypes.c_int(1) for _ in given[:1]), *given[1:]],
        }

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """`submit` with all arguments."""
        names = self._names(arguments)
        if not change:
            return Subject(timed("submit(k, same, [1], [1])", **names), self._settled, "not held")
        both = f"submit(k, same, [1], [1]); submit(k, {change}, [1], [1])"
        return Subject(timed(both, operations=2, **names), self._settled, "not held")

    def launch_finish(self) -> Subject:
        """`submit` and `wait`."""
        names = self._names() | {"wait": self._queue.wait}
        return Subject(timed("submit(k, same, [1], [1]); wait()", **names), self._settled)
