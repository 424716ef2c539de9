"""Measures the cost that `forebay.hip` adds to the runtime, and the cost of idle streams in a ported program."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import forebay as ps
from forebay import hip, hiprtc
from forebay.hip.streams import queue_of
from microbench.interleaved import Measured, Sample, measure
from microbench.launch import GRAPH, LAUNCH, SOURCE, timed

STREAMS = 20
ARRAYS, ELEMENTS = 100, 100
ALONE = "no other stream"
BESIDE = f"{STREAMS} idle streams"
MODULE_LAUNCH = "hipModuleLaunchKernel, extra=(…)"


def checked(result: tuple[Any, ...]) -> Any:
    """The outputs of a call, without its error code.

    Raises
    ------
    RuntimeError
        If the code is not hipSuccess.
    """
    error, *values = result
    if error != hip.hipError_t.hipSuccess:
        raise RuntimeError(hip.hipGetErrorString(error))
    return values[0] if len(values) == 1 else values


def fill() -> Any:
    """The kernel, compiled by hiprtc from its OpenCL C."""
    program = checked(hiprtc.hiprtcCreateProgram(SOURCE.encode(), b"fill", 0, None, None))
    checked(hiprtc.hiprtcCompileProgram(program, 0, []))
    code = bytearray(checked(hiprtc.hiprtcGetCodeSize(program)))
    checked(hiprtc.hiprtcGetCode(program, code))
    return checked(hip.hipModuleGetFunction(checked(hip.hipModuleLoadData(code)), b"fill"))


def against_the_runtime(length: int, calls: int, rounds: int) -> tuple[dict[str, Measured], dict[str, Measured]]:
    """`hipModuleLaunchKernel` in its forms next to `Queue.launch`, and `hipGraphLaunch` next to `Executable.launch`.

    The stream is held by a gate while it is filled.
    """
    function = fill()
    stream = checked(hip.hipStreamCreate())
    queue = queue_of(stream)
    device: ps.Device = queue.device
    memory = checked(hip.hipMalloc(4096))
    buffer, kernel = device.zeros(1024), device.program(SOURCE)["fill"]
    pointer, number = ctypes.c_void_p(int(memory)), ctypes.c_int(100)
    params = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(number))
    names = {
        "launch": hip.hipModuleLaunchKernel,
        "f": function,
        "stream": stream,
        "memory": memory,
        "params": params,
        "c_int": ctypes.c_int,
        "block": hip.dim3(x=1),
        "extra": (memory, number),
    }
    start = "launch(f, 1, 1, 1, 1, 1, 1, 0, stream, "
    launches: dict[str, Sample] = {
        LAUNCH: timed("launch(kernel, 1, 1, buffer, 100)", launch=queue.launch, kernel=kernel, buffer=buffer),
        LAUNCH + " again (A/A)": timed(
            "launch(kernel, 1, 1, buffer, 100)", launch=queue.launch, kernel=kernel, buffer=buffer
        ),
        MODULE_LAUNCH: timed(start + "None, extra)", **names),
        "hipModuleLaunchKernel, kernelParams": timed(start + "params, None)", **names),
        "hipModuleLaunchKernel, dim3 taken apart, ctypes made anew": timed(
            "launch(f, *block, *block, sharedMemBytes=0, stream=stream, kernelParams=None, extra=(memory, c_int(100)))",
            **names,
        ),
    }
    checked(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    for _ in range(length):
        checked(hip.hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, None, (memory, number)))
    graph = checked(hip.hipStreamEndCapture(stream))
    replayed = checked(hip.hipGraphInstantiateWithFlags(graph, 0))
    with queue.capture() as captured:
        for _ in range(length):
            queue.launch(kernel, 1, 1, buffer, 100)
    graphs: dict[str, Sample] = {
        GRAPH: timed("replay(queue)", replay=captured.instantiate().launch, queue=queue),
        "hipGraphLaunch": timed("replay(graph, stream)", replay=hip.hipGraphLaunch, graph=replayed, stream=stream),
    }

    @contextmanager
    def held() -> Iterator[None]:
        queue.finish()
        gate = queue._gate()
        yield
        gate.open()
        queue.finish()

    found = measure(launches, calls, rounds, held), measure(graphs, max(calls // length, 2), rounds, held)
    checked(hip.hipStreamDestroy(stream))
    return found


def beside_idle_streams(rounds: int) -> tuple[dict[str, Measured], dict[str, Measured]]:
    """A program that idle streams would slow down if each launch looked at all streams: a kernel for each of 100 arrays
    on the null stream, a copy to the host, and a device synchronize; alone and beside idle streams.

    The first table has whole turns, the second only their launches. The streams are made and destroyed for every
    sample, so that all samples see the process in the same state.
    """
    function = fill()
    arrays = [(checked(hip.hipMalloc(4 * ELEMENTS)), ctypes.c_int(ELEMENTS)) for _ in range(ARRAYS)]
    host = np.empty(ELEMENTS, np.float32)
    to_host = hip.hipMemcpyKind.hipMemcpyDeviceToHost
    only_launches: dict[str, list[float]] = {}

    def reproducer(name: str, count: int) -> Sample:
        only_launches[name] = []

        def sample(n: int) -> float:
            streams = [checked(hip.hipStreamCreate()) for _ in range(count)]
            launching = 0.0
            begun = time.perf_counter()
            for _ in range(n):
                before = time.perf_counter()
                for array in arrays:
                    hip.hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, array)
                launching += time.perf_counter() - before
                hip.hipMemcpy(host, arrays[0][0], host.nbytes, to_host)
                hip.hipDeviceSynchronize()
            taken = time.perf_counter() - begun
            for stream in streams:
                checked(hip.hipStreamDestroy(stream))
            only_launches[name].append(launching / n * 1e6)
            return taken

        return sample

    samples = {ALONE: reproducer(ALONE, 0), ALONE + " again (A/A)": reproducer(ALONE + " again (A/A)", 0)}
    samples[BESIDE] = reproducer(BESIDE, STREAMS)

    @contextmanager
    def finished() -> Iterator[None]:
        checked(hip.hipDeviceSynchronize())
        yield

    turns = measure(samples, 10, rounds, finished)
    return turns, {name: Measured(np.array(taken[-rounds:])) for name, taken in only_launches.items()}
