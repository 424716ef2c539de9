"""pyopencl, on the queues that forebay uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl

from .. import kernels
from . import AbsentError, Ground, Run, Subject, timed
from .forebay import OfQueues, run_threads


class OfPyOpenCL(OfQueues):
    """What its two ways to launch share."""

    def __init__(self, ground: Ground):
        super().__init__(ground)
        if ground.device.info.backend != "opencl":
            raise AbsentError("drives OpenCL only")
        if ground.native is None:
            raise AbsentError(ground.no_native)
        self.native: Any = ground.native
        self.context: Any = self.native.driver.context

    def kernel(self, arguments: int = 2) -> tuple[cl.Kernel, list[cl.Buffer]]:
        """A kernel object of its own with its arguments set."""
        buffers = [cl.Buffer(self.context, cl.mem_flags.READ_WRITE, 4096) for _ in range(2)]
        kernel = cl.Kernel(self.native.program, kernels.name_of(arguments))
        kernel.set_args(buffers[0], *map(np.int32, kernels.values(arguments)))
        return kernel, buffers


class PyOpenCL(OfPyOpenCL):
    """pyopencl's `enqueue_nd_range_kernel`, its arguments set with `set_arg`: its fastest way to launch."""

    about = "pyopencl, arguments set beforehand: enqueue_nd_range_kernel"

    def _names(self, queue: Any, arguments: int = 2) -> dict[str, Any]:
        kernel, (first, second) = self.kernel(arguments)
        return {
            "enqueue": cl.enqueue_nd_range_kernel,
            "q": queue.native,
            "k": kernel,
            "set": kernel.set_arg,
            "a": first,
            "b": second,
        }

    def _launches(self, queue: Any) -> Run:
        return timed("enqueue(q, k, (1,), (1,))", **self._names(queue))

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """`enqueue_nd_range_kernel`, after `set_arg` for what changed."""
        (queue,) = self.queues(1)
        names = self._names(queue, arguments) | {"one": np.int32(1), "other": np.int32(100)}
        statement = {
            "": "enqueue(q, k, (1,), (1,))",
            "scalar": "set(1, one); enqueue(q, k, (1,), (1,)); set(1, other); enqueue(q, k, (1,), (1,))",
            "pointer": "set(0, b); enqueue(q, k, (1,), (1,)); set(0, a); enqueue(q, k, (1,), (1,))",
        }[change]
        return self.subject(timed(statement, operations=2 if change else 1, **names), queue)

    def launch_on(self, kind: str) -> Subject:
        """The same on a queue of a kind."""
        queue = self.queue(kind)
        return self.subject(self._launches(queue), queue, note="it orders no queues" if kind == "null" else "")

    def launch_finish(self) -> Subject:
        """A launch and `CommandQueue.finish`."""
        (queue,) = self.queues(1)
        names = self._names(queue) | {"finish": queue.native.finish}
        return self.subject(timed("enqueue(q, k, (1,), (1,)); finish()", **names), queue, hold=False)

    def record(self, new: bool) -> Subject:
        """`enqueue_marker`."""
        (queue,) = self.queues(1)
        names = self._names(queue) | {"marker": cl.enqueue_marker}
        return self.subject(timed("enqueue(q, k, (1,), (1,)); marker(q)" if new else "marker(q)", **names), queue)

    def wait(self) -> Subject:
        """An event of a launch, and a launch that waits for it; a flush, or the other queue might wait for ever."""
        queue, other = self.queues(2)
        names = self._names(queue) | {"p": other.native, "flush": queue.native.flush}
        statement = "event = enqueue(q, k, (1,), (1,)); flush(); enqueue(p, k, (1,), (1,), wait_for=[event])"
        run = timed(statement, **names)
        return self.subject(run, queue, other, note="the event of the launch itself", hold=False)

    def query(self, what: str) -> Subject:
        """`Event.command_execution_status`."""
        if what != "event":
            raise AbsentError("has nothing like it")
        (queue,) = self.queues(1)
        event = cl.enqueue_marker(queue.native)
        event.wait()
        return self.subject(timed("event.command_execution_status", event=event), queue, hold=False)

    def copy(self, direction: str, nbytes: int) -> Subject:
        """`enqueue_copy` that does not block, and `finish`."""
        (queue,) = self.queues(1)
        host = np.empty(nbytes, "u1")
        here, there = (cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes) for _ in range(2))
        to, source = {"up": (here, host), "down": (host, here), "across": (there, here)}[direction]
        names = {"copy": cl.enqueue_copy, "q": queue.native, "to": to, "source": source}
        blocking = "" if direction == "across" else ", is_blocking=False"
        run = timed(f"copy(q, to, source{blocking}); finish()", finish=queue.native.finish, **names)
        return self.subject(run, queue, note="pageable memory of the host" if blocking else "", hold=False)

    def alloc(self, nbytes: int) -> Subject:
        """`pyopencl.tools.MemoryPool`."""
        import pyopencl.tools

        (queue,) = self.queues(1)
        pool = pyopencl.tools.MemoryPool(pyopencl.tools.ImmediateAllocator(queue.native))
        run = timed("pool.allocate(n).release()", pool=pool, n=nbytes)
        return self.subject(run, queue, note="its MemoryPool, which no stream orders", hold=False)

    def threads(self, count: int) -> Subject:
        """The same from threads, each with a kernel object of its own."""
        queues = self.queues(count)
        launches = [self._launches(queue) for queue in queues]
        return self.subject(lambda n: run_threads(launches, n), *queues)


class PyOpenCLCall(OfPyOpenCL):
    """pyopencl's `kernel(queue, …)`, which sets all arguments each time."""

    about = "pyopencl's kernel(queue, …), which sets all arguments"

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """`kernel(queue, global_size, local_size, …)`."""
        (queue,) = self.queues(1)
        kernel, (first, second) = self.kernel(arguments)
        given = [np.int32(value) for value in kernels.values(arguments)]
        same = (first, *given)
        other = (second, *given) if change == "pointer" else (first, *(np.int32(1) for _ in given[:1]), *given[1:])
        names = {"k": kernel, "q": queue.native, "same": same, "other": other}
        if not change:
            return self.subject(timed("k(q, (1,), (1,), *same)", **names), queue)
        return self.subject(timed("k(q, (1,), (1,), *same); k(q, (1,), (1,), *other)", operations=2, **names), queue)
