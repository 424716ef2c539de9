"""CUDA's calls through its driver library, on streams of their own."""

from __future__ import annotations

import ctypes
from typing import Any

from .. import kernels
from . import Call, address_of

LEGACY, PER_THREAD, NON_BLOCKING, DISABLE_TIMING, RELAXED = 1, 2, 1, 2, 2
KINDS = {"null": LEGACY, "per-thread": PER_THREAD}


def ptx(arguments: int) -> str:
    """The kernel with so many arguments, as `kernels.cuda` has it, in PTX: no compiler is needed."""
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


class Kernel:
    """A function and its arguments, where cuLaunchKernel finds them."""

    def __init__(self, function: int, address: int, values: list[int]):
        self.function = function
        self._values: list[Any] = [ctypes.c_uint64(address), *map(ctypes.c_int32, values)]
        self.parameters: ctypes.Array[ctypes.c_void_p] = (ctypes.c_void_p * len(self._values))(
            *map(address_of, self._values)
        )


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


class Driver:
    """Makes calls of CUDA's driver, in the primary context of the first device. Streams are handles."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        device, self._module = ctypes.c_int(), ctypes.c_void_p()
        self.context: ctypes.c_void_p = ctypes.c_void_p()
        self.do("cuInit", ctypes.c_uint(0))
        self.do("cuDeviceGet", ctypes.byref(device), 0)
        self.do("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.do("cuCtxSetCurrent", self.context)
        self.do("cuModuleLoadData", ctypes.byref(self._module), module().encode())

    def do(self, name: str, *arguments: Any) -> None:
        """Call a function that has to succeed.

        Raises
        ------
        RuntimeError
        """
        error = getattr(self._library, name)(*arguments)
        if error:
            raise RuntimeError(f"{name} failed: {error}")

    def make(self, name: str, *arguments: Any) -> int:
        """Call a function whose first parameter takes a handle or an address, and return that."""
        made = ctypes.c_void_p()
        self.do(name, ctypes.byref(made), *arguments)
        return made.value or 0

    def call(self, name: str, *arguments: int, loaded: tuple[int, ...] = ()) -> Call:
        """A call of a function."""
        return Call(ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value or 0, arguments, loaded)

    def stream(self, kind: str) -> int:
        """A stream of a kind; a new one where there can be several."""
        if kind in KINDS:
            return KINDS[kind]
        return self.make("cuStreamCreate", ctypes.c_uint(0 if kind == "blocking" else NON_BLOCKING))

    def settle(self) -> None:
        """Wait for all that the device was given."""
        self.do("cuCtxSynchronize")

    # -- launches

    def memory(self, nbytes: int) -> int:
        """Memory of the device. It lives as long as the process."""
        return self.make("cuMemAlloc_v2", ctypes.c_size_t(nbytes))

    def kernel(self, arguments: int, memory: int, values: list[int] | None = None) -> Kernel:
        """A function and its arguments."""
        function = self.make("cuModuleGetFunction", self._module, kernels.name_of(arguments).encode())
        return Kernel(function, memory, kernels.values(arguments) if values is None else values)

    def launch(self, stream: int, kernel: Kernel, waits: Any = None) -> list[Call]:
        """A launch of one thread, after waits for the events of an array."""
        waiting = [self.call("cuStreamWaitEvent", stream, event, 0) for event in waits or ()]
        arguments = kernel.function, 1, 1, 1, 1, 1, 1, 0, stream, address_of(kernel.parameters), 0
        return [*waiting, self.call("cuLaunchKernel", *arguments)]

    # -- events

    def events(self, count: int, for_host: bool = False) -> Any:
        """An array of so many events without timing, which live as long as the process."""
        return [self.make("cuEventCreate", ctypes.c_uint(DISABLE_TIMING)) for _ in range(count)]

    def marker(self, stream: int, events: Any, index: int = 0) -> list[Call]:
        """Record an event of an array."""
        return [self.call("cuEventRecord", events[index], stream)]

    def release(self, events: Any) -> list[Call]:
        """Nothing: events are used again."""
        return []

    def query(self, events: Any, answer: object) -> list[Call]:
        """Ask whether the first event of an array is done."""
        return [self.call("cuEventQuery", events[0])]

    def finish(self, stream: int) -> list[Call]:
        """Wait for all that a stream was given."""
        return [self.call("cuStreamSynchronize", stream)]

    def wait_for(self, events: Any) -> list[Call]:
        """Wait for the device."""
        return [self.call("cuCtxSynchronize")]

    # -- memory

    def pinned(self, nbytes: int) -> tuple[int, object]:
        """The address of pinned memory, which lives as long as the process."""
        return self.make("cuMemHostAlloc", ctypes.c_size_t(nbytes), ctypes.c_uint(0)), None

    def upload(self, stream: int, memory: int, source: int, nbytes: int) -> Call:
        """A copy from an address of pinned memory."""
        return self.call("cuMemcpyHtoDAsync_v2", memory, source, nbytes, stream)

    def copy(self, stream: int, direction: str, nbytes: int) -> tuple[list[Call], object]:
        """A copy "up", "down" or "across", the host's memory being pinned."""
        here, there = self.memory(nbytes), self.memory(nbytes)
        host, _ = self.pinned(nbytes)
        name, to, source = {
            "up": ("cuMemcpyHtoDAsync_v2", here, host),
            "down": ("cuMemcpyDtoHAsync_v2", host, here),
            "across": ("cuMemcpyDtoDAsync_v2", there, here),
        }[direction]
        return [self.call(name, to, source, nbytes, stream)], None

    def alloc(self, stream: int, nbytes: int) -> tuple[list[Call], object, str]:
        """Memory allocated and freed in the order of the stream."""
        address = ctypes.c_uint64()
        at = address_of(address)
        calls = [
            self.call("cuMemAllocAsync", at, nbytes, stream),
            self.call("cuMemFreeAsync", at, stream, loaded=(0,)),
        ]
        return calls, address, ""

    # -- graphs

    def graph(self, stream: int, length: int) -> tuple[int, list[int]]:
        """An executable graph of so many launches, and its nodes."""
        kernel, graph = self.kernel(2, self.memory(4096)), ctypes.c_void_p()
        self._kept = kernel
        self.do("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), RELAXED)
        one, none = ctypes.c_uint(1), ctypes.c_uint(0)
        for _ in range(length):
            self.do("cuLaunchKernel", ctypes.c_void_p(kernel.function), one, one, one, one, one, one, none,
                    ctypes.c_void_p(stream), kernel.parameters, None)  # fmt: skip
        self.do("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        count = ctypes.c_size_t(length)
        nodes = (ctypes.c_void_p * length)()
        self.do("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
        executable = self.make("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
        return executable, [node or 0 for node in nodes]

    def change(self, executable: int, node: int, kernel: Kernel) -> tuple[Call, object]:
        """Give a node of an executable graph other arguments; and what has to be kept."""
        ones = (ctypes.c_uint * 3)(1, 1, 1)
        changed = NodeParams(kernel.function, ones, ones, 0, address_of(kernel.parameters), None, None, None)
        call = self.call("cuGraphExecKernelNodeSetParams_v2", executable, node, address_of(changed))
        return call, (changed, kernel)
