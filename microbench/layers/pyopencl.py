"""pyopencl, on the queues that forebay uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.tools

from .. import kernels
from . import AbsentError, Ground, Handle, Layer, Statement, Subject, Texts


class PyOpenCL(Layer):
    """pyopencl's `enqueue_nd_range_kernel`, its arguments set with `set_arg`: its fastest way to launch."""

    about = "pyopencl, arguments set beforehand: enqueue_nd_range_kernel"
    operations = "launch launch_on launch_finish record wait query copy alloc threads"
    null_note = "it orders no queues"
    texts: Texts = Texts(
        alloc_note="its MemoryPool, which no stream orders",
        copy_note="pageable memory of the host",
        launch="enqueue(q{0}, k, (1,), (1,))",
        signal="marker(q{0})",
        finish="finish{0}()",
        copy=(*("copy(q{0}, to, source, is_blocking=False)",) * 2, "copy(q{0}, to, source)"),
        alloc="pool.allocate(n).release()",
    )
    number = np.int32

    def __init__(self, ground: Ground):
        super().__init__(ground)
        if ground.device.info.backend != "opencl":
            raise AbsentError("drives OpenCL only")
        if ground.native is None:
            raise AbsentError(ground.no_native)
        self._program, self._context = ground.native.program, ground.driver.context
        self.memories.extend([self.memory(4096) for _ in range(2)])
        self.names.update({"enqueue": cl.enqueue_nd_range_kernel, "marker": cl.enqueue_marker, "copy": cl.enqueue_copy})

    def names_of(self, handle: Handle) -> dict[str, Any]:
        """pyopencl's queue."""
        return {f"q{handle.number}": handle.it.native, f"finish{handle.number}": handle.it.native.finish}

    def pinned(self, nbytes: int) -> Any:
        """Pageable memory."""
        return np.empty(nbytes, "u1")

    def memory(self, nbytes: int) -> Any:
        """A `pyopencl.Buffer`."""
        return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, nbytes)

    def function(self, arguments: int) -> Any:
        """A kernel object of its own with its arguments set."""
        kernel = cl.Kernel(self._program, kernels.name_of(arguments))
        kernel.set_args(self.memories[0], *map(np.int32, kernels.values(arguments)))
        return kernel

    def kernels(self, change: str = "", arguments: int = 2) -> list[Any]:
        """`enqueue_nd_range_kernel`, after `set_arg` for what changed."""
        kernel, values = self.function(arguments), {"": [None], "scalar": map(np.int32, (1, 100))}
        values["pointer"] = reversed(self.memories)
        made = []
        for turn, value in enumerate(values[change]):
            setting = f"set({int(change == 'scalar')}, value{turn}); " if change else ""
            names = {"k": kernel, "set": kernel.set_arg, f"value{turn}": value}
            made.append(Statement(setting + self.texts.launch, names))
        return made

    def events(self, size: int, for_host: bool = False) -> Any:
        """Nothing: a marker returns one."""

    def signal(self, stream: Handle, events: Any, index: int = 0) -> list[Any]:
        """`enqueue_marker`."""
        return self.say(self.texts.signal, stream)

    def wait(self) -> Subject:
        """An event of a launch, and a launch that waits for it; a flush, or the other queue might wait for ever."""
        queue, other = self.streams(2)
        text = "event = enqueue(q{0}, k, (1,), (1,)); flush(); enqueue(q{1}, k, (1,), (1,), wait_for=[event])"
        steps = self.say(text, queue, other, flush=queue.it.native.flush, k=self.function(2))
        return self.subject(steps, queue, other, note="the event of the launch itself", hold=False)

    def ask(self, what: str, stream: Handle, events: Any) -> list[Any]:
        """`Event.command_execution_status`."""
        if what != "event":
            raise AbsentError("has nothing like it")
        event = cl.enqueue_marker(stream.it.native)
        event.wait()
        return self.say("event.command_execution_status", event=event)

    def alloc(self, nbytes: int) -> Subject:
        """`pyopencl.tools.MemoryPool`."""
        allocator = pyopencl.tools.ImmediateAllocator(self.streams(1)[0].it.native)
        self.names["pool"] = pyopencl.tools.MemoryPool(allocator)
        return super().alloc(nbytes)


class PyOpenCLCall(PyOpenCL):
    """pyopencl's `kernel(queue, …)`, which sets all arguments each time."""

    about = "pyopencl's kernel(queue, …), which sets all arguments"
    operations = "launch"
    texts: Texts = Texts(launch="k(q{0}, (1,), (1,), *given)")

    def kernels(self, change: str = "", arguments: int = 2) -> list[Any]:
        """`kernel(queue, global_size, local_size, …)`."""
        return Layer.kernels(self, change, arguments)
