"""CUDA's driver in a compiled C loop, on an NVIDIA GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from .. import kernels
from ..raw import Call
from . import AbsentError, Ground, Subject
from .c import CLoop


def need_nvidia(ground: Ground) -> None:
    """Check that CUDA would drive the device that forebay drives.

    Raises
    ------
    AbsentError
    """
    if "NVIDIA" not in ground.device.info.platform:
        raise AbsentError("the device is none of NVIDIA's")


class CudaLoop(CLoop):
    """CUDA's calls, as the C loop makes OpenCL's. Nothing holds its streams."""

    about = "CUDA's driver calls in a compiled C loop, streams not held"

    def __init__(self, ground: Ground):
        need_nvidia(ground)
        from ..raw import NoCompilerError, loops
        from ..raw.cuda import Driver

        try:
            loops()
            self.native: Any = Driver()
        except (NoCompilerError, OSError) as error:
            raise AbsentError(str(error)) from error
        self.ground = ground
        self._streams: list[Any] = []

    def stream(self, kind: str = "blocking") -> Any:
        """A stream of a kind."""
        return self.native.stream(kind)

    @contextmanager
    def free(self, *streams: Any) -> Iterator[None]:
        """Let streams run while they are filled."""
        self.native.settle()
        yield
        self.native.settle()

    def held(self, *streams: Any) -> AbstractContextManager[object]:
        """As `free`: CUDA has no gate."""
        return self.free(*streams)

    def idle(self, count: int) -> AbstractContextManager[object]:
        """Streams of CUDA."""
        stack = ExitStack()
        for _ in range(count):
            stack.callback(self.native.do, "cuStreamDestroy_v2", ctypes.c_void_p(self.stream()))
        return stack

    others = idle

    def _launches_on_null(self, memories: list[Any]) -> tuple[list[Call], object]:
        native, null = self.native, self.stream("null")
        kept = [native.kernel(2, memory) for memory in memories]
        return [call for kernel in kept for call in native.launch(null, kernel)], kept

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """cuLaunchKernel, which reads all arguments each time."""
        if not change:
            return super().launch(change, arguments)
        native, stream = self.native, self.streams(1)[0]
        memories = [native.memory(4096) for _ in range(2)]
        values = kernels.values(arguments)
        first = native.kernel(arguments, memories[0])
        second = (
            native.kernel(arguments, memories[1])
            if change == "pointer"
            else native.kernel(arguments, memories[0], [1, *values[1:]])
        )
        calls = [*native.launch(stream, first), *native.launch(stream, second)]
        return self.subject([stream], calls, (first, second), operations=2)

    def launch_on(self, kind: str) -> Subject:
        """cuLaunchKernel on a stream of a kind; the driver orders the null stream."""
        stream, (kernel, memory) = self.stream(kind), self._kernel()
        return self.subject([stream], self.native.launch(stream, kernel), (kernel, memory))

    def alternate(self) -> Subject:
        """The driver's own null rule."""
        native, null, other = self.native, self.stream("null"), self.streams(1)[0]
        (kernel, memory), (another, more) = self._kernel(), self._kernel()
        calls = [*native.launch(other, kernel), *native.launch(null, another)]
        return self.subject([null, other], calls, (kernel, memory, another, more))

    def threads(self, count: int) -> Subject:
        """Not there: each thread would need the context."""
        raise AbsentError("the threads of C have no CUDA context")

    def replay(self, length: int, changed: int) -> Subject:
        """cuGraphLaunch, after cuGraphExecKernelNodeSetParams for what changed."""
        native, stream = self.native, self.streams(1)[0]
        executable, nodes = native.graph(stream, length)
        variants = []
        for value in (1, 2):
            kernel = native.kernel(2, native.memory(4096), [value])
            settings = [native.change(executable, node, kernel) for node in nodes[:changed]]
            launch = native.call("cuGraphLaunch", executable, stream)
            variants.append(([*(call for call, _ in settings), launch], settings))
        calls = [call for made, _ in variants for call in made]
        return self.subject([stream], calls, variants, operations=2)


class CudaLoopAgain(CudaLoop):
    """The A/A comparison: how far apart two runs of the same thing are."""

    about = "the same once more: what the machine's noise is"
