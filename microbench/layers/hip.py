"""`forebay.hip`: the same under HIP's names, on queues of the device that it opens, which take timed records."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np

from forebay import hip, hiprtc
from forebay.hip.devices import number_of
from forebay.hip.streams import queue_of

from .. import kernels
from . import AbsentError, Ground, Layer, Run, Subject, timed
from .forebay import ARRAYS, ELEMENTS, run_threads, turns

LAUNCH = "launch(f, 1, 1, 1, 1, 1, 1, 0, stream, None, {})"
TO_HOST = hip.hipMemcpyKind.hipMemcpyDeviceToHost
DIRECTIONS = {
    "up": hip.hipMemcpyKind.hipMemcpyHostToDevice,
    "down": TO_HOST,
    "across": hip.hipMemcpyKind.hipMemcpyDeviceToDevice,
}


def checked(result: tuple[Any, ...]) -> Any:
    """The outputs of a call, without its error code.

    Raises
    ------
    RuntimeError
        When the code is not hipSuccess.
    """
    error, *values = result
    if error != hip.hipError_t.hipSuccess:
        raise RuntimeError(hip.hipGetErrorString(error))
    return values[0] if len(values) == 1 else values


class Hip(Layer):
    """`hipModuleLaunchKernel` and others."""

    about = "HIP's functions as forebay.hip has them"

    def __init__(self, ground: Ground):
        super().__init__(ground)
        number = number_of(ground.device)
        if number < 0:
            raise AbsentError(f"forebay.hip has other devices than {ground.device.name}: set FOREBAY_DEVICE")
        checked(hip.hipSetDevice(number))
        program = checked(hiprtc.hiprtcCreateProgram(kernels.opencl().encode(), b"take", 0, None, None))
        checked(hiprtc.hiprtcCompileProgram(program, 0, []))
        code = bytearray(checked(hiprtc.hiprtcGetCodeSize(program)))
        checked(hiprtc.hiprtcGetCode(program, code))
        self._module = checked(hip.hipModuleLoadData(code))
        self._memories = [checked(hip.hipMalloc(4096)) for _ in range(2)]
        self._made: list[Any] = []
        timed_queues = queue_of(self.streams(1)[0]).timing and not ground.device.timing
        self._note = "its queues take timed records" if timed_queues else ""

    def streams(self, count: int) -> list[Any]:
        """So many blocking streams."""
        self._made += [checked(hip.hipStreamCreate()) for _ in range(count - len(self._made))]
        return self._made[:count]

    def stream(self, kind: str) -> Any:
        """A stream of a kind; a new one where there can be several."""
        if kind in ("null", "per-thread"):
            return None if kind == "null" else hip.hipStreamPerThread
        return checked(hip.hipStreamCreateWithFlags(0 if kind == "blocking" else hip.hipStreamNonBlocking))

    def idle(self, count: int) -> AbstractContextManager[object]:
        """Streams of its own device."""
        made = ExitStack()
        for _ in range(count):
            made.callback(hip.hipStreamDestroy, checked(hip.hipStreamCreate()))
        return made

    def _names(self, stream: Any, arguments: int = 2) -> dict[str, Any]:
        function = checked(hip.hipModuleGetFunction(self._module, kernels.name_of(arguments).encode()))
        given = tuple(ctypes.c_int(value) for value in kernels.values(arguments))
        first, second = self._memories
        return {
            "launch": hip.hipModuleLaunchKernel,
            "f": function,
            "stream": stream,
            "same": (first, *given),
            "pointer": (second, *given),
            "scalar": (first, *(ctypes.c_int(1) for _ in given[:1]), *given[1:]),
        }

    def subject(self, run: Run, *streams: Any, hold: bool = True) -> Subject:
        """A sample, and the streams to hold while it runs."""
        queues = [queue_of(stream) for stream in streams]

        @contextmanager
        def around() -> Iterator[None]:
            for queue in queues:
                queue.finish()
            with ExitStack() as gates:
                for queue in queues if hold and self.ground.holds else ():
                    gates.enter_context(queue.gate())
                yield
            for queue in queues:
                queue.finish()

        return Subject(run, around, self._note)

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """`hipModuleLaunchKernel`, its arguments in a tuple."""
        (stream,) = self.streams(1)
        names = self._names(stream, arguments)
        if not change:
            return self.subject(timed(LAUNCH.format("same"), **names), stream)
        both = f"{LAUNCH.format('same')}; {LAUNCH.format(change)}"
        return self.subject(timed(both, operations=2, **names), stream)

    def launch_on(self, kind: str) -> Subject:
        """`hipModuleLaunchKernel` on a stream of a kind."""
        stream = self.stream(kind)
        return self.subject(timed(LAUNCH.format("same"), **self._names(stream)), stream)

    def launch_by_name(self) -> Subject:
        """`hipModuleLaunchKernel` as hip-python's examples call it."""
        (stream,) = self.streams(1)
        names = self._names(stream) | {"grid": hip.dim3(1), "block": hip.dim3(1), "c_int": ctypes.c_int}
        names["pointer"] = self._memories[0]
        rest = "sharedMemBytes=0, stream=stream, kernelParams=None, extra=(pointer, c_int(100))"
        return self.subject(timed(f"launch(f, *grid, *block, {rest})", **names), stream)

    def launch_finish(self) -> Subject:
        """A launch and `hipStreamSynchronize`."""
        (stream,) = self.streams(1)
        names = self._names(stream) | {"finish": hip.hipStreamSynchronize}
        return self.subject(timed(f"{LAUNCH.format('same')}; finish(stream)", **names), stream, hold=False)

    def record(self, new: bool) -> Subject:
        """`hipEventRecord` of an event without timing."""
        (stream,) = self.streams(1)
        event = checked(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
        names = self._names(stream) | {"record": hip.hipEventRecord, "event": event}
        statement = f"{LAUNCH.format('same')}; record(event, stream)" if new else "record(event, stream)"
        return self.subject(timed(statement, **names), stream)

    def wait(self) -> Subject:
        """`hipEventRecord` and `hipStreamWaitEvent`."""
        stream, other = self.streams(2)
        event = checked(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
        names = self._names(stream) | {"record": hip.hipEventRecord, "event": event, "other": other}
        names["wait"] = hip.hipStreamWaitEvent
        second = LAUNCH.format("same").replace("stream", "other")
        statement = f"{LAUNCH.format('same')}; record(event, stream); wait(other, event, 0); {second}"
        return self.subject(timed(statement, **names), stream, other, hold=False)

    def alternate(self) -> Subject:
        """The rule of the null stream, both ways."""
        (stream,) = self.streams(1)
        first = LAUNCH.format("same")
        run = timed(f"{first}; {first.replace('stream', 'None')}", **self._names(stream))
        return self.subject(run, None, stream)

    def query(self, what: str) -> Subject:
        """`hipEventQuery` and `hipStreamQuery`."""
        (stream,) = self.streams(1)
        event = checked(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
        checked(hip.hipEventRecord(event, stream))
        checked(hip.hipStreamSynchronize(stream))
        query, asked = (hip.hipEventQuery, event) if what == "event" else (hip.hipStreamQuery, stream)
        return self.subject(timed("query(asked)", query=query, asked=asked), stream, hold=False)

    def replay(self, length: int, changed: int) -> Subject:
        """`hipGraphLaunch`, after `hipGraphExecKernelNodeSetParams` for what changed."""
        if changed:
            raise AbsentError("not measured: it does what forebay's set_kernel does")
        (stream,) = self.streams(1)
        names = self._names(stream)
        checked(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
        for _ in range(length):
            checked(hip.hipModuleLaunchKernel(names["f"], 1, 1, 1, 1, 1, 1, 0, stream, None, names["same"]))
        executable = checked(hip.hipGraphInstantiateWithFlags(checked(hip.hipStreamEndCapture(stream)), 0))
        run = timed("replay(graph, stream)", replay=hip.hipGraphLaunch, graph=executable, stream=stream)
        return self.subject(run, stream, hold=length <= 100)

    def copy(self, direction: str, nbytes: int) -> Subject:
        """`hipMemcpyAsync` and `hipStreamSynchronize`, with pinned memory of the host."""
        (stream,) = self.streams(1)
        host = checked(hip.hipHostMalloc(nbytes, 0))
        here, there = (checked(hip.hipMalloc(nbytes)) for _ in range(2))
        to, source = {"up": (here, host), "down": (host, here), "across": (there, here)}[direction]
        names = {"copy": hip.hipMemcpyAsync, "to": to, "source": source, "n": nbytes, "kind": DIRECTIONS[direction]}
        names |= {"stream": stream, "finish": hip.hipStreamSynchronize}
        return self.subject(timed("copy(to, source, n, kind, stream); finish(stream)", **names), stream, hold=False)

    def copy_part(self, nbytes: int) -> Subject:
        """`hipMemcpyAsync` between halves of two allocations, and `hipStreamSynchronize`."""
        (stream,) = self.streams(1)
        host, memory = checked(hip.hipHostMalloc(2 * nbytes, 0)), checked(hip.hipMalloc(2 * nbytes))
        names = {"copy": hip.hipMemcpyAsync, "to": memory + nbytes, "source": host + nbytes, "n": nbytes}
        names |= {"kind": DIRECTIONS["up"], "stream": stream, "finish": hip.hipStreamSynchronize}
        return self.subject(timed("copy(to, source, n, kind, stream); finish(stream)", **names), stream, hold=False)

    def copy_at_once(self, nbytes: int) -> Subject:
        """`hipMemcpy` from pinned memory of the host."""
        host, memory = checked(hip.hipHostMalloc(nbytes, 0)), checked(hip.hipMalloc(nbytes))
        names = {"copy": hip.hipMemcpy, "to": memory, "source": host, "n": nbytes, "kind": DIRECTIONS["up"]}
        return self.subject(timed("copy(to, source, n, kind)", **names), None, hold=False)

    def memset(self, nbytes: int) -> Subject:
        """`hipMemsetAsync` and `hipStreamSynchronize`."""
        (stream,) = self.streams(1)
        names = {"fill": hip.hipMemsetAsync, "to": checked(hip.hipMalloc(nbytes)), "n": nbytes, "stream": stream}
        names["finish"] = hip.hipStreamSynchronize
        return self.subject(timed("fill(to, 0, n, stream); finish(stream)", **names), stream, hold=False)

    def alloc(self, nbytes: int) -> Subject:
        """`hipMallocAsync` and `hipFreeAsync`."""
        (stream,) = self.streams(1)
        names = {"alloc": hip.hipMallocAsync, "free": hip.hipFreeAsync, "n": nbytes, "stream": stream}
        return self.subject(timed("free(alloc(n, stream)[1], stream)", **names), stream, hold=False)

    def host(self) -> Subject:
        """`hipLaunchHostFunc` and `hipStreamSynchronize`."""
        if not self.ground.executes:
            raise AbsentError("null hardware calls no host functions")
        (stream,) = self.streams(1)
        names = {"host": hip.hipLaunchHostFunc, "nothing": lambda _: None, "stream": stream}
        names["finish"] = hip.hipStreamSynchronize
        return self.subject(timed("host(stream, nothing, None); finish(stream)", **names), stream, hold=False)

    def threads(self, count: int) -> Subject:
        """`hipModuleLaunchKernel` from threads."""
        streams = self.streams(count)
        launches = [timed(LAUNCH.format("same"), **self._names(stream)) for stream in streams]
        return self.subject(lambda n: run_threads(launches, n), *streams)

    def reproducer(self, streams: int, whole: bool) -> Subject:
        """The program in HIP's terms."""
        names = self._names(None)
        arrays = [(checked(hip.hipMalloc(4 * ELEMENTS)), ctypes.c_int(ELEMENTS)) for _ in range(ARRAYS)]
        host = np.empty(ELEMENTS, np.float32)
        names |= {"arrays": arrays, "copy": hip.hipMemcpy, "host": host, "first": arrays[0][0], "n": host.nbytes}
        names |= {"to_host": TO_HOST, "finish": hip.hipDeviceSynchronize}
        launches = timed(f"for array in arrays: {LAUNCH.format('array')}", **names)
        rest = timed("copy(host, first, n, to_host); finish()", **names)

        @contextmanager
        def around() -> Iterator[None]:
            with self.idle(streams):
                checked(hip.hipDeviceSynchronize())
                yield

        return Subject(turns(launches, rest, whole), around, self._note)
