"""Heat on a ring, for hip-python: captures a chain of launches once and replays
it, then builds it node by node.

``python -m examples.hip_graph``
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from forebay import hip, hiprtc

SOURCE = b"""
extern "C" __global__ void spread(float *next, const float *heat, int n,
                                  float rate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float left = heat[(i + n - 1) % n], right = heat[(i + 1) % n];
        next[i] = heat[i] + rate * (left - 2.0f * heat[i] + right);
    }
}
"""
POINTS, STEPS, REPLAYS = 1 << 12, 20, 50
Array = np.ndarray[Any, np.dtype[np.float32]]


def check(result: Any) -> Any:
    """Return the outputs; raise if the code is not success."""
    code, *outputs = result
    if code not in (
        hip.hipError_t.hipSuccess,
        hiprtc.hiprtcResult.HIPRTC_SUCCESS,
    ):
        raise RuntimeError(str(code))
    return outputs[0] if len(outputs) == 1 else outputs


def compiled(source: bytes, name: bytes) -> Any:
    """Return a function of a program."""
    program = check(hiprtc.hiprtcCreateProgram(source, b"heat", 0, [], []))
    properties = hip.hipDeviceProp_t()
    check(hip.hipGetDeviceProperties(properties, 0))
    options = [b"--offload-arch=" + properties.gcnArchName]
    check(hiprtc.hiprtcCompileProgram(program, len(options), options))
    code = bytearray(check(hiprtc.hiprtcGetCodeSize(program)))
    check(hiprtc.hiprtcGetCode(program, code))
    check(hiprtc.hiprtcDestroyProgram(program))
    return check(
        hip.hipModuleGetFunction(check(hip.hipModuleLoadData(code)), name)
    )


def expected(heat: Array, steps: int, rate: float) -> Array:
    """Return NumPy's result."""
    for _ in range(steps):
        heat = heat + np.float32(rate) * (
            np.roll(heat, 1) - np.float32(2) * heat + np.roll(heat, -1)
        )
    return heat


def main() -> None:
    """Run both, and compare them with NumPy."""
    spread = compiled(SOURCE, b"spread")
    start = np.zeros(POINTS, np.float32)
    start[POINTS // 4 : POINTS // 2] = 1
    result = np.empty_like(start)
    one, other = (check(hip.hipMalloc(start.nbytes)) for _ in range(2))
    stream = check(hip.hipStreamCreate())
    block = hip.dim3(x=64)
    grid = hip.dim3(x=math.ceil(POINTS / block.x))

    def arguments(to: Any, source: Any, rate: float) -> Any:
        return to, source, ctypes.c_int(POINTS), ctypes.c_float(rate)

    # what is submitted to the stream between these two calls becomes a graph
    check(
        hip.hipStreamBeginCapture(
            stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal
        )
    )
    for step in range(STEPS):
        to, source = (other, one) if step % 2 == 0 else (one, other)
        check(
            hip.hipModuleLaunchKernel(
                spread,
                *grid,
                *block,
                0,
                stream,
                None,
                arguments(to, source, 0.25),
            )
        )
    graph = check(hip.hipStreamEndCapture(stream))
    executable = check(hip.hipGraphInstantiate(graph, 0))[0]
    check(
        hip.hipMemcpyAsync(
            one,
            start,
            start.nbytes,
            hip.hipMemcpyKind.hipMemcpyHostToDevice,
            stream,
        )
    )
    for _ in range(REPLAYS):
        check(hip.hipGraphLaunch(executable, stream))
    check(
        hip.hipMemcpyAsync(
            result,
            one,
            start.nbytes,
            hip.hipMemcpyKind.hipMemcpyDeviceToHost,
            stream,
        )
    )
    check(hip.hipStreamSynchronize(stream))
    difference = np.abs(result - expected(start, STEPS * REPLAYS, 0.25)).max()
    assert difference < 1e-4, difference
    print(
        f"captured: {REPLAYS} replays of "
        f"{check(hip.hipGraphGetNodes(graph))[1]} launches, off by "
        f"{difference:.1e}"
    )
    check(hip.hipGraphExecDestroy(executable))
    check(hip.hipGraphDestroy(graph))

    # the same node by node: upload, two steps, download
    def node_params(to: Any, source: Any, rate: float) -> Any:
        return hip.hipKernelNodeParams(
            func=spread,
            gridDim=grid,
            blockDim=block,
            sharedMemBytes=0,
            extra=arguments(to, source, rate),
        )

    kind = hip.hipMemcpyKind
    graph = check(hip.hipGraphCreate(0))
    up = check(
        hip.hipGraphAddMemcpyNode1D(
            graph, None, 0, one, start, start.nbytes, kind.hipMemcpyHostToDevice
        )
    )
    first = check(
        hip.hipGraphAddKernelNode(graph, [up], 1, node_params(other, one, 0.25))
    )
    second = check(
        hip.hipGraphAddKernelNode(
            graph, [first], 1, node_params(one, other, 0.25)
        )
    )
    check(
        hip.hipGraphAddMemcpyNode1D(
            graph,
            [second],
            1,
            result,
            one,
            start.nbytes,
            kind.hipMemcpyDeviceToHost,
        )
    )
    executable = check(hip.hipGraphInstantiate(graph, 0))[0]
    for rate in (0.25, 0.1, 0.4):
        check(
            hip.hipGraphExecKernelNodeSetParams(
                executable, first, node_params(other, one, rate)
            )
        )
        check(
            hip.hipGraphExecKernelNodeSetParams(
                executable, second, node_params(one, other, rate)
            )
        )
        check(hip.hipGraphLaunch(executable, stream))
        check(hip.hipStreamSynchronize(stream))
        difference = np.abs(result - expected(start, 2, rate)).max()
        assert difference < 1e-5, difference
        print(f"node by node, rate {rate}: off by {difference:.1e}")
    check(hip.hipGraphExecDestroy(executable))
    check(hip.hipGraphDestroy(graph))
    check(hip.hipStreamDestroy(stream))
    for memory in (one, other):
        check(hip.hipFree(memory))


if __name__ == "__main__":
    main()
