"""Whole programs, written as hip-python's users write them: nothing but its calls, and a function that checks codes."""

import array
import ctypes
import uuid

import numpy as np
import pytest

from examples import hip_graph
from forebay import hip, hiprtc
from tests.helpers.device_data import device_data
from tests.helpers.processes import python


def hip_check(call_result):
    err, *result = call_result
    if isinstance(err, hip.hipError_t) and err != hip.hipError_t.hipSuccess:
        raise RuntimeError(str(err))
    return result[0] if len(result) == 1 else result


SCALE = b"""
extern "C" __global__ void scale_vector(float factor, int n, short unused1, int unused2, float unused3, float *x) {
  int tid = threadIdx.x + blockIdx.x * blockDim.x;
  if (tid < n) {
     x[tid] *= factor;
  }
}
"""


@pytest.mark.needs("a compiler of HIP C++")
def test_hiprtc_as_hip_python_10_has_it(device):
    """Names, sources and options are str, and a call that has only a code may return it alone."""

    def check(call_result):
        err, *result = call_result if isinstance(call_result, tuple) else (call_result,)
        if isinstance(err, (hip.hipError_t, hiprtc.hiprtcResult)) and int(err):
            raise RuntimeError(str(err))
        return result[0] if len(result) == 1 else result

    prog = check(hiprtc.hiprtcCreateProgram(SCALE.decode(), "scale_vector", 0, [], []))
    props = check(hip.hipGetDeviceProperties(0))
    assert props.gcnArchName.split(":")[0] == hip.devices.infos()[0].backend
    for cflags in (["--offload-arch=" + props.gcnArchName], ["--offload-arch=" + props.gcnArchName.decode("utf-8")]):
        assert hiprtc.hiprtcCompileProgram(prog, len(cflags), cflags) == (hiprtc.hiprtcResult.HIPRTC_SUCCESS,)
    code = bytearray(check(hiprtc.hiprtcGetCodeSize(prog)))
    check(hiprtc.hiprtcGetCode(prog, code))
    kernel = check(hip.hipModuleGetFunction(check(hip.hipModuleLoadData(code)), "scale_vector"))
    x_h = array.array("f", range(100))
    x_d = check(hip.hipMalloc(4 * len(x_h)))
    check(hip.hipMemcpy(x_d, x_h, 4 * len(x_h), hip.hipMemcpyKind.hipMemcpyHostToDevice))

    def launcher(grid, block, stream: hip.hipStream_t | None = None):
        return lambda *args: hip.hipModuleLaunchKernel(
            kernel, *grid, *block, sharedMemBytes=0, stream=stream, kernelParams=None, extra=args
        )

    launch = launcher(hip.dim3(len(x_h) / 25), hip.dim3(25))
    unused = ctypes.c_short(5), ctypes.c_int(2), ctypes.c_float(5.6)
    check(launch(ctypes.c_float(2), ctypes.c_int(len(x_h)), *unused, x_d))
    check(hip.hipMemcpy(x_h, x_d, 4 * len(x_h), hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert device_data(x_h.tolist()) == [2 * i for i in range(100)]
    check(hip.hipFree(x_d))
    check(hiprtc.hiprtcDestroyProgram(prog.createRef()))


@pytest.mark.needs("a compiler of HIP C++")
def test_a_tuner_of_kernels(device):
    """What such a program asks of a device, and how it compiles: a prelude, #line, and a template's instance."""
    props = hip.hipDeviceProp_t()
    hip_check(hip.hipGetDeviceProperties(props, 0))
    assert uuid.UUID(bytes=props.uuid.bytes).int
    source = """#define block_size_x 32
#line 1
template <typename T> __global__ void add(T *c, const T *__restrict__ a, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) { c[i] += a[i]; }
}"""
    prog = hip_check(hiprtc.hiprtcCreateProgram(source.encode(), b"add<int>", 0, [], []))
    assert hip.hiprtcAddNameExpression(prog, b"add<int>") == (hiprtc.hiprtcResult.HIPRTC_SUCCESS,)
    cflags = [b"--offload-arch=" + props.gcnArchName]
    assert hiprtc.hiprtcCompileProgram(prog, len(cflags), cflags) == (hiprtc.hiprtcResult.HIPRTC_SUCCESS,)
    _, lowered = hiprtc.hiprtcGetLoweredName(prog, b"add<int>")
    code = bytearray(hiprtc.hiprtcGetCodeSize(prog)[1])
    assert hiprtc.hiprtcGetCode(prog, code) == (hiprtc.hiprtcResult.HIPRTC_SUCCESS,)
    function = hip_check(hip.hipModuleGetFunction(hip_check(hip.hipModuleLoadData(code)), lowered))
    stream = hip_check(hip.hipStreamCreate())
    start, end = hip_check(hip.hipEventCreate()), hip_check(hip.hipEventCreate())
    a, c = np.arange(1000, dtype="i4"), np.ones(1000, "i4")
    a_d, c_d = (hip_check(hip.hipMalloc(array.nbytes)) for array in (a, c))
    for pointer, values in ((a_d, a), (c_d, c)):
        hip_check(hip.hipMemcpy(pointer, values, values.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    hip_check(hip.hipEventRecord(start, stream))
    grid, block, extra = hip.dim3(x=32), hip.dim3(x=32), (c_d, a_d, ctypes.c_int(1000))
    hip_check(
        hip.hipModuleLaunchKernel(
            function, *grid, *block, sharedMemBytes=128, stream=stream, kernelParams=None, extra=extra
        )
    )
    hip_check(hip.hipEventRecord(end, stream))
    hip_check(hip.hipDeviceSynchronize())
    assert hip.hipEventQuery(end)[0] == hip.hipError_t.hipSuccess
    hip_check(hip.hipMemcpy(c, c_d, c.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert device_data(c.tolist()) == list(range(1, 1001))
    assert device_data(hip.hipEventElapsedTime(start, end)[0]) == hip.hipError_t.hipSuccess


@pytest.mark.executes
@pytest.mark.needs("a compiler of HIP C++")
def test_the_example_of_graphs(device, capsys):
    hip_graph.main()
    assert len(capsys.readouterr().out.splitlines()) == 4


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
