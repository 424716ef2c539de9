"""dpctl, on queues of its own."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

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
    number: ClassVar[Any] = ctypes.c_int
    collection: ClassVar[Any] = list

    def __init__(self, ground: Ground):
        super().__init__(ground)
        info = ground.device.info
        words = "level_zero" if info.backend == "level_zero" else f"opencl:{info.kind}"
        try:
            queue: Any = dpctl.SyclQueue(words, property="in_order")
        except dpctl.SyclQueueCreationError as error:
            raise AbsentError(f"sees no {words}") from error
        if info.backend == "level_zero":
            from forebay.queues.levelzero import programs

            code = programs.compile_source(kernels.opencl(), info)
            program = dpctl.program.create_program_from_spirv(queue, code)
        else:
            program = dpctl.program.create_program_from_source(queue, kernels.opencl())
        self.memories.extend([dpctl.memory.MemoryUSMDevice(4096, queue=queue) for _ in range(2)])
        self.use(queue.wait, lambda: queue, lambda: None, program.get_sycl_kernel)
        self.names.update({"submit": queue.submit, "finish": queue.wait})
