"""dpctl, on queues of its own."""

from __future__ import annotations

import ctypes
from typing import Any

import dpctl
import dpctl.memory
import dpctl.program

from .. import kernels
from . import AbsentError, Apart, Ground, Texts


class Dpctl(Apart):
    """`dpctl.SyclQueue.submit` on an in-order queue."""

    about = "dpctl's SyclQueue.submit, in order"
    operations = "launch launch_finish"
    note = "not held"
    texts: Texts = Texts(launch="submit(k, given, [1], [1])", finish="finish()")
    number: Any = ctypes.c_int
    collection: Any = list

    def __init__(self, ground: Ground):
        super().__init__(ground)
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
        self.memories.extend([dpctl.memory.MemoryUSMDevice(4096, queue=self._queue) for _ in range(2)])
        self.names.update({"submit": self._queue.submit, "finish": self._queue.wait})

    def settle(self) -> None:
        """`SyclQueue.wait`."""
        self._queue.wait()

    def make_stream(self, kind: str = "blocking") -> Any:
        """Its queue."""
        return self._queue

    def function(self, arguments: int) -> Any:
        """A kernel of its program."""
        return self._program.get_sycl_kernel(kernels.name_of(arguments))
