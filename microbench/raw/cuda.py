"""CUDA's calls through its driver library, on streams of their own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import kernels
from ..layers import AbsentError, Ground, Handle, Layer, Run, Subject, Texts
from . import CLoop, Kernel

LEGACY, PER_THREAD, NON_BLOCKING, DISABLE_TIMING, RELAXED = 1, 2, 1, 2, 2
KINDS = {"null": LEGACY, "per-thread": PER_THREAD}


def ptx(arguments: int) -> str:
    """The kernel with the given number of arguments, as `kernels.cuda` has it, in PTX: no compiler is needed."""
    numbers = [f"take{arguments}_n{index}" for index in range(1, arguments)]
    parameters = [".param .u64 a", *(f".param .u32 {name}" for name in numbers)]
    sums = "".join(f"ld.param.u32 %n, [{name}]; add.u32 %sum, %sum, %n;\n" for name in numbers)
    return f"""
.visible .entry {kernels.name_of(arguments)}({", ".join(parameters)}) {{
.reg .u64 %p; .reg .u32 %n; .reg .u32 %sum; .reg .f32 %f;
ld.param.u64 %p, [a]; cvta.to.global.u64 %p, %p;
mov.u32 %sum, 0;
{sums}cvt.rn.f32.s32 %f, %sum; st.global.f32 [%p], %f; ret;
}}"""


def module() -> str:
    """All kernels in PTX."""
    head = ".version 6.4\n.target sm_75\n.address_size 64\n"
    return head + "".join(map(ptx, kernels.ARGUMENTS))


class Parameters:
    """A function and its arguments, where cuLaunchKernel finds them."""

    def __init__(self, function: int, address: int, values: list[int]):
        self.function = function
        self._values: list[Any] = [ctypes.c_uint64(address), *map(ctypes.c_int32, values)]
        self.parameters: Any = (ctypes.c_void_p * len(self._values))(*map(ctypes.addressof, self._values))


class NodeParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("func", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kern", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


def need_nvidia(ground: Ground) -> None:
    """Raise `AbsentError` unless CUDA would drive the device that forebay drives."""
    if "NVIDIA" not in ground.device.info.platform:
        raise AbsentError("the device is none of NVIDIA's")


class CudaLoop(CLoop):
    """The loop over CUDA's calls, in the primary context of the first device. Nothing holds its streams.

    What it makes lives as long as the process, but for streams beside which something is measured.
    """

    about = "CUDA's driver calls in a compiled C loop, streams not held"
    own_streams = True
    null_note = ""
    texts: Texts = Texts(
        launch="cuLaunchKernel function 1 1 1 1 1 1 0 queue parameters 0",
        signal="cuEventRecord event queue",
        event="cuEventQuery event",
        finish="cuStreamSynchronize queue",
        all="cuCtxSynchronize",
        copy=tuple(f"cuMemcpy{ends}Async_v2 to source n queue" for ends in ("HtoD", "DtoH", "DtoD")),
        alloc="cuMemAllocAsync address n queue; cuMemFreeAsync *address queue",
    )

    def __init__(self, ground: Ground):
        super().__init__(ground)
        need_nvidia(ground)
        try:
            self.library: Any = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise AbsentError(str(error)) from error
        self.do("cuInit 0")
        device = self.made("cuDeviceGet made 0")
        self.names["context"] = self.made("cuDevicePrimaryCtxRetain made device", device=device)
        self.do("cuCtxSetCurrent context")
        image = ctypes.create_string_buffer(module().encode())
        self.names["module"] = self.made("cuModuleLoadData made image", image=image)
        self.end_stream: Callable[[int], None] = lambda stream: self.do("cuStreamDestroy_v2 queue", queue=stream)

    # -- streams, events and memory

    def make_stream(self, kind: str = "blocking") -> int:
        """The handle of a stream of a kind."""
        if kind in KINDS:
            return KINDS[kind]
        return self.made("cuStreamCreate made flags", flags=0 if kind == "blocking" else NON_BLOCKING)

    def queue_of(self, stream: Any) -> int:
        """The handle of a stream: itself, or that of a Queue."""
        return int(getattr(stream, "native", stream))

    @contextmanager
    def around(self, streams: Sequence[Handle], hold: bool) -> Iterator[None]:
        """A context without work before and after: CUDA has no gate."""
        self.do(self.texts.all)
        yield
        self.do(self.texts.all)

    def make_event(self, for_host: bool) -> int:
        """An event without timing."""
        return self.made("cuEventCreate made flags", flags=DISABLE_TIMING)

    def memory(self, nbytes: int) -> int:
        """The address of memory of the device."""
        return self.made("cuMemAlloc_v2 made n", n=nbytes)

    def pinned(self, nbytes: int) -> int:
        """The address of pinned memory."""
        return self.made("cuMemHostAlloc made n 0", n=nbytes)

    # -- launches

    def make_kernel(self, arguments: int, memory: int, values: Sequence[int] = ()) -> Parameters:
        """A function and its arguments."""
        name = ctypes.create_string_buffer(kernels.name_of(arguments).encode())
        function = self.made("cuModuleGetFunction made module name", name=name)
        return Parameters(function, memory, [*(values or kernels.values(arguments))])

    def over(self, memories: list[int], arguments: int = 2) -> list[Kernel]:
        """A kernel for each of these memories: a launch reads all arguments."""
        return [Kernel(self.make_kernel(arguments, memory)) for memory in memories]

    def kernels(self, change: str = "", arguments: int = 2) -> list[Any]:
        """A kernel, or one for each of two sets of arguments."""
        memories = [self.memory(4096) for _ in range(2 if change == "pointer" else 1)]
        changed = [1, *kernels.values(arguments)[1:]]
        others = [Kernel(self.make_kernel(arguments, memories[0], changed))] if change == "scalar" else []
        return self.over(memories, arguments) + others

    def enqueue(self, stream: Handle, kernel: Kernel, events: Any = ()) -> list[Any]:
        """A launch of one thread, after waits for events."""
        waits = [step for event in events for step in self.say("cuStreamWaitEvent queue event 0", stream, event)]
        names = {"function": kernel.made.function, "parameters": kernel.made.parameters, "kept": kernel}
        return [*waits, *self.say(self.texts.launch, stream, **names)]

    def alternate(self) -> Subject:
        """The driver's own null rule."""
        return Layer.alternate(self)

    def in_thread(self, launch: Run) -> Run:
        """With the context, which each thread has to make its own."""
        enter = self.run(self.steps("cuCtxSetCurrent context", (), self.names, ""))
        return lambda n: (enter(1), launch(n))[1]

    def replay(self, length: int, changed: int) -> Subject:
        """``cuGraphLaunch``, after ``cuGraphExecKernelNodeSetParams`` for what changed."""
        steps, ones, kernel = [], (ctypes.c_uint * 3)(1, 1, 1), self.kernel()
        names: dict[str, Any] = {name: ctypes.c_uint64() for name in ("graph", "executable")}
        names |= {"nodes": (ctypes.c_uint64 * length)(), "size": ctypes.c_size_t(length), "relaxed": RELAXED}
        captured = "cuStreamEndCapture queue graph; cuGraphGetNodes *graph nodes size"
        made = [*self.say("cuStreamBeginCapture_v2 queue relaxed", **names), *self.enqueue(self.main, kernel) * length]
        made += self.say(f"{captured}; cuGraphInstantiateWithFlags executable *graph 0", **names)
        self.run(made)(1)
        names["executable"] = names["executable"].value
        for value in (1, 2):
            parameters = self.make_kernel(2, self.memory(4096), [value])
            at = ctypes.addressof(parameters.parameters)
            for node in names["nodes"][:changed]:
                given = NodeParams(parameters.function, ones, ones, 0, at, None, None, None)
                text = "cuGraphExecKernelNodeSetParams_v2 executable node given"
                steps += self.say(text, **names, node=node, given=given, kept=parameters)
            steps += self.say("cuGraphLaunch executable queue", **names)
        return self.subject(steps, operations=2)
