"""Whole programs: as hip-python's users write them, and random ones, which leave what a model says."""

import ctypes
import uuid

import numpy as np
import pytest

from examples import hip_graph
from forebay import hip, hiprtc
from tests.helpers.device_data import device_data
from tests.helpers.processes import python

from .conftest import ok
from .random_program import HipBench


@pytest.mark.needs("a compiler of HIP C++")
def test_a_tuner_of_kernels(device):
    """What such a program asks of a device, and how it compiles: a prelude, #line, and a template's instance."""
    props = hip.hipDeviceProp_t()
    ok(hip.hipGetDeviceProperties(props, 0))
    assert uuid.UUID(bytes=props.uuid.bytes).int
    assert props.gcnArchName.split(":")[0] == device.info.backend
    source = """#define block_size_x 32
#line 1
template <typename T> __global__ void add(T *c, const T *__restrict__ a, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) { c[i] += a[i]; }
}"""
    prog = ok(hiprtc.hiprtcCreateProgram(source.encode(), b"add<int>", 0, [], []))
    assert hip.hiprtcAddNameExpression(prog, b"add<int>") == (hiprtc.hiprtcResult.HIPRTC_SUCCESS,)
    cflags = [b"--offload-arch=" + props.gcnArchName]
    assert hiprtc.hiprtcCompileProgram(prog, len(cflags), cflags) == (hiprtc.hiprtcResult.HIPRTC_SUCCESS,)
    _, lowered = hiprtc.hiprtcGetLoweredName(prog, b"add<int>")
    code = bytearray(hiprtc.hiprtcGetCodeSize(prog)[1])
    assert hiprtc.hiprtcGetCode(prog, code) == (hiprtc.hiprtcResult.HIPRTC_SUCCESS,)
    function = ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoadData(code)), lowered))
    stream = ok(hip.hipStreamCreate())
    start, end = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    a, c = np.arange(1000, dtype="i4"), np.ones(1000, "i4")
    a_d, c_d = (ok(hip.hipMalloc(array.nbytes)) for array in (a, c))
    for pointer, values in ((a_d, a), (c_d, c)):
        ok(hip.hipMemcpy(pointer, values, values.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    ok(hip.hipEventRecord(start, stream))
    grid, block, extra = hip.dim3(x=32), hip.dim3(x=32), (c_d, a_d, ctypes.c_int(1000))
    ok(hip.hipModuleLaunchKernel(
        function, *grid, *block, sharedMemBytes=128, stream=stream, kernelParams=None, extra=extra,
    ))  # fmt: skip
    ok(hip.hipEventRecord(end, stream))
    ok(hip.hipDeviceSynchronize())
    assert hip.hipEventQuery(end)[0] == hip.hipError_t.hipSuccess
    ok(hip.hipMemcpy(c, c_d, c.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert device_data(c.tolist()) == list(range(1, 1001))
    assert device_data(hip.hipEventElapsedTime(start, end)[0]) == hip.hipError_t.hipSuccess


@pytest.mark.executes
@pytest.mark.needs("a compiler of HIP C++")
def test_the_example_of_graphs(device, capsys):
    hip_graph.main()
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.executes  # on null hardware host functions stay, with the device that they are for
@pytest.mark.threads
@pytest.mark.parametrize("first", range(0, 80, 20))
def test_programs_leave_what_the_model_does(device, first):
    """Those of odd numbers have two threads, either of which frees memory while kernels of both follow pointers."""
    with HipBench() as bench:
        assert sum(bench.run(seed) for seed in range(first, first + 20)) > 20 * 1000


AT_EXIT = """
from forebay import hip

def ok(result):
    if int(result[0]):
        raise RuntimeError(f"{result[0].name}: {hip.last_exception()!r}")
    return result[1] if len(result) == 2 else result[1:]

class Owner:
    def __init__(self, make, *ends):
        self.what, self.ends, self.ok = ok(make()), ends, ok
    def __del__(self):
        for end in self.ends:
            self.ok(end(self.what))

stream, graph = ok(hip.hipStreamCreate()), ok(hip.hipGraphCreate(0))
kept = [
    Owner(lambda: hip.hipMalloc(64), hip.hipFree),
    Owner(lambda: hip.hipMallocAsync(64, stream), lambda memory: hip.hipFreeAsync(memory, stream)),
    Owner(lambda: hip.hipHostMalloc(64), hip.hipHostFree),
    Owner(hip.hipStreamCreate, hip.hipStreamSynchronize, hip.hipStreamDestroy),
    Owner(hip.hipEventCreate, hip.hipEventSynchronize, hip.hipEventDestroy),
    Owner(lambda: hip.hipModuleLoadData(b"kernel void f(global int* x) { }"), hip.hipModuleUnload),
    Owner(lambda: hip.hipGraphCreate(0), hip.hipGraphDestroy),
    Owner(lambda: hip.hipGraphInstantiateWithFlags(graph, 0), hip.hipGraphExecDestroy),
    Owner(hip.hipGetDevice, lambda device: hip.hipDeviceSynchronize()),
]
copies = Owner(lambda: hip.hipMalloc(64), lambda memory: hip.hipMemset(memory, 0, 64))
"""


@pytest.mark.needs("the default device")
def test_what_is_freed_at_exit_is_freed():
    """The devices are closed before destructors of globals run. What would change memory is an error there."""
    done = python("-c", AT_EXIT, fresh=True, timeout=60)
    errors = [line for line in done.stderr.splitlines() if line.startswith("RuntimeError")]
    assert done.returncode == 0
    assert [error.split(":")[1].strip() for error in errors] == ["hipErrorContextIsDestroyed"]
