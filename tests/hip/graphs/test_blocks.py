"""Warps in blocks of several dimensions, through HIP's functions."""

import ctypes

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import K, function_of, replay

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "a compiler of HIP C++")]

SOURCE = b"""extern "C" __global__ void rows(int* out, int by) {
    extern __shared__ int room[];
    int r = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int n = blockDim.x * blockDim.y * blockDim.z;
    room[r] = __lane_id(); __syncthreads();
    int* o = out + (blockIdx.x + gridDim.x * blockIdx.y) * n * 2 + r * 2;
    o[0] = room[n - 1 - r] * by; o[1] = __shfl_xor(r, 1) + 1000 * threadIdx.y + 100000 * threadIdx.z;
}"""


def expected(grid, block, by):
    count = int(np.prod(block))
    r = np.arange(count)
    one = np.stack(
        [r[::-1] % 32 * by, (r ^ 1) + 1000 * (r // block[0] % block[1]) + 100000 * (r // block[0] // block[1])]
    )
    return np.tile(one.T.ravel(), int(np.prod(grid)))


def read(out, count):
    host = np.empty(count, "i4")
    ok(hip.hipMemcpy(host, out, host.nbytes, K.hipMemcpyDeviceToHost))
    return host


def test_launches_and_graphs(device):
    rows = function_of(SOURCE, b"rows")
    out, stream = ok(hip.hipMalloc(1 << 16)), ok(hip.hipStreamCreate())
    for grid, block in (
        ((2, 3, 1), (8, 8, 1)),
        ((1, 2, 1), (3, 2, 7)),
        ((1, 1, 1), (42, 1, 1)),
        ((2, 3, 1), (4, 4, 4)),
    ):
        shared = int(np.prod(block)) * 4
        ok(hip.hipModuleLaunchKernel(rows, *grid, *block, shared, stream, None, (out, ctypes.c_int(3))))
        ok(hip.hipStreamSynchronize(stream))
        wanted = expected(grid, block, 3)
        assert np.array_equal(read(out, wanted.size), wanted)
        ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
        ok(hip.hipModuleLaunchKernel(rows, *grid, *block, shared, stream, None, (out, ctypes.c_int(5))))
        graph = ok(hip.hipStreamEndCapture(stream))
        replay(graph, stream)
        wanted = expected(grid, block, 5)
        assert np.array_equal(read(out, wanted.size), wanted)
