"""`forebay.hip`: the same under HIP's names, on queues of the device that it opens, which take timed records."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

import forebay as fb
from forebay import hip, hiprtc
from forebay.hip.devices import number_of
from forebay.hip.streams import queue_of

from .. import kernels
from . import ARRAYS, ELEMENTS, AbsentError, Ground, Handle, Layer, Subject, Texts

LAUNCH = "hipModuleLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, h{0}, None, given)"


def checked(result: tuple[Any, ...]) -> Any:
    """The outputs of a call, without its error code; raises RuntimeError when that is not hipSuccess."""
    error, *values = result
    if error != hip.hipError_t.hipSuccess:
        raise RuntimeError(hip.hipGetErrorString(error))
    return values[0] if len(values) == 1 else values


class Hip(Layer):
    """`hipModuleLaunchKernel` and others."""

    about = "HIP's functions as forebay.hip has them"
    operations = "launch launch_on launch_finish record wait query alternate replay copy alloc host threads reproducer"
    own_streams = True
    texts: Texts = Texts(
        launch=LAUNCH,
        signal="hipEventRecord(h{1}, h{0})",
        wait="hipStreamWaitEvent(h{0}, h{1}, 0)",
        event="hipEventQuery(h{1})",
        stream="hipStreamQuery(h{0})",
        finish="hipStreamSynchronize(h{0})",
        copy=tuple(f"hipMemcpyAsync(to, source, n, {end}, h{{0}})" for end in ("up", "down", "across")),
        alloc="hipFreeAsync(hipMallocAsync(n, h{0})[1], h{0})",
        host="hipLaunchHostFunc(h{0}, nothing, None)",
    )
    number = ctypes.c_int
    end_stream = staticmethod(hip.hipStreamDestroy)

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
        self.memories.extend([self.memory(4096) for _ in range(2)])
        functions = (
            "hipModuleLaunchKernel hipEventRecord hipStreamWaitEvent hipEventQuery hipStreamQuery hipStreamSynchronize "
            "hipMemcpy hipMemcpyAsync hipMemsetAsync hipMallocAsync hipFreeAsync hipLaunchHostFunc hipDeviceSynchronize"
        )
        self.names |= {name: getattr(hip, name) for name in functions.split()} | {"nothing": lambda _: None}
        for end, kind in {"up": "HostToDevice", "down": "DeviceToHost", "across": "DeviceToDevice"}.items():
            self.names[end] = hip.hipMemcpyKind[f"hipMemcpy{kind}"]
        timed_queues = queue_of(self.streams(1)[0].it).timing and not ground.device.timing
        self.note = "its queues take timed records" if timed_queues else ""

    def make_stream(self, kind: str = "blocking") -> Any:
        """A stream of its own device."""
        if kind in ("null", "per-thread"):
            return None if kind == "null" else hip.hipStreamPerThread
        return checked(hip.hipStreamCreateWithFlags(0 if kind == "blocking" else hip.hipStreamNonBlocking))

    def around(self, streams: Sequence[Handle], hold: bool) -> AbstractContextManager[object]:
        """The queues of its streams."""
        return self.ground.around([queue_of(stream.it) for stream in streams], hold, fb.Queue.finish)

    def make_event(self, for_host: bool) -> Any:
        """An event without timing."""
        return checked(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))

    def function(self, arguments: int) -> Any:
        """A function of its module."""
        return checked(hip.hipModuleGetFunction(self._module, kernels.name_of(arguments).encode()))

    def pinned(self, nbytes: int) -> Any:
        """`hipHostMalloc`."""
        return checked(hip.hipHostMalloc(nbytes, 0))

    def memory(self, nbytes: int) -> Any:
        """`hipMalloc`."""
        return checked(hip.hipMalloc(nbytes))

    def turn(self, null: Handle) -> tuple[list[Any], list[Any]]:
        """The program in HIP's terms."""
        arrays = [(self.memory(4 * ELEMENTS), ctypes.c_int(ELEMENTS)) for _ in range(ARRAYS)]
        names = {"given_arrays": arrays, "k": self.function(2)}
        launches = self.say(f"for given in given_arrays: {LAUNCH}", null, **names)
        host = np.empty(ELEMENTS, np.float32)
        names = {"host": host, "first": arrays[0][0], "n": host.nbytes}
        return launches, self.say("hipMemcpy(host, first, n, down); hipDeviceSynchronize()", null, **names)

    def replay(self, length: int, changed: int) -> Subject:
        """`hipGraphLaunch`."""
        if changed:
            raise AbsentError("not measured: it does what forebay's set_kernel does")
        launches, stream = self.run(self.enqueue(self.main, self.kernel())), self.main.it
        checked(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
        launches(length)
        executable = checked(hip.hipGraphInstantiateWithFlags(checked(hip.hipStreamEndCapture(stream)), 0))
        steps = self.say("replay(graph, h{0})", replay=hip.hipGraphLaunch, graph=executable)
        return self.subject(steps, hold=length <= 100)

    # -- of the counts alone

    def launch_by_name(self) -> Subject:
        """`hipModuleLaunchKernel` as hip-python's examples call it."""
        names: dict[str, Any] = {"grid": hip.dim3(1), "block": hip.dim3(1), "c_int": ctypes.c_int}
        names |= {"k": self.function(2), "pointer": self.memories[0]}
        rest = "sharedMemBytes=0, stream=h{0}, kernelParams=None, extra=(pointer, c_int(100))"
        return self.subject(self.say(f"hipModuleLaunchKernel(k, *grid, *block, {rest})", **names))

    def copy_part(self, nbytes: int) -> Subject:
        """`hipMemcpyAsync` between halves of two allocations, and `hipStreamSynchronize`."""
        names = {"to": self.memory(2 * nbytes) + nbytes, "source": self.pinned(2 * nbytes) + nbytes, "n": nbytes}
        return self.subject([*self.say(self.texts.copy[0], **names), *self.say(self.texts.finish)], hold=False)

    def copy_at_once(self, nbytes: int) -> Subject:
        """`hipMemcpy` from pinned memory of the host."""
        names = {"to": self.memory(nbytes), "source": self.pinned(nbytes), "n": nbytes}
        return self.subject(self.say("hipMemcpy(to, source, n, up)", **names), self.stream("null"), hold=False)

    def memset(self, nbytes: int) -> Subject:
        """`hipMemsetAsync` and `hipStreamSynchronize`."""
        steps = self.say("hipMemsetAsync(to, 0, n, h{0})", to=self.memory(nbytes), n=nbytes)
        return self.subject([*steps, *self.say(self.texts.finish)], hold=False)
