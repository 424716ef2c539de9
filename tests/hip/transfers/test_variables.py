"""`hipModuleGetGlobal`."""

import ctypes

import numpy as np
import pytest

import forebay as fb
from forebay import hip, hiprtc
from forebay.core.driver import Language
from forebay.hiprtc.code import pack_code

from ..conftest import ok
from ..helpers import E, K, code, instantiate, ints, launch, read

SOURCE = b"""
__device__ int count = 5;
__constant__ int by[4] = {1, 2, 3, 4};
__constant__ int later;
__device__ int table[100];
const int fixed = 3;
extern "C" __global__ void step(int* out) {
    out[0] = count; out[1] = by[1]; out[2] = later; out[3] = table[99];
    count += by[0];
}
extern "C" __global__ void fill(int* to, int value) { to[blockIdx.x * blockDim.x + threadIdx.x] = value; }
"""


def compiled(source):
    prog = ok(hiprtc.hiprtcCreateProgram(source, b"variables.hip", 0, None, None))
    result = hiprtc.hiprtcCompileProgram(prog, 0, None)
    log = bytearray(ok(hiprtc.hiprtcGetProgramLogSize(prog)))
    ok(hiprtc.hiprtcGetProgramLog(prog, log))
    assert result == (hiprtc.hiprtcResult.HIPRTC_SUCCESS,), log.decode()
    image = bytearray(ok(hiprtc.hiprtcGetCodeSize(prog)))
    ok(hiprtc.hiprtcGetCode(prog, image))
    return image


@pytest.fixture
def load(device):
    """``load()``: a module with variables that the host may reach."""
    if device.driver.variable_options is None:
        pytest.skip("the device has no variables")
    if device.info.backend == "sycl":
        pytest.skip("the driver tells nobody where variables are")
    return lambda: ok(hip.hipModuleLoadData(compiled(SOURCE)))


def variable(module, name):
    return ok(hip.hipModuleGetGlobal(module, name))[0]


def step(module):
    out = ok(hip.hipMalloc(16))
    launch(ok(hip.hipModuleGetFunction(module, b"step")), None, out, groups=1, block=1)
    return read(out, 4)


def int4(*values):
    return np.array(values, "i4")


def test_a_pointer_and_the_bytes(load, device):
    module = load()
    for name, nbytes in ((b"count", 4), ("by", 16), (bytearray(b"later\0"), 4), (ctypes.c_char_p(b"table"), 400)):
        pointer, size = ok(hip.hipModuleGetGlobal(module, name))
        assert isinstance(pointer, hip.DeviceArray)
        assert pointer
        assert (size, pointer.size, pointer.shape) == (nbytes, nbytes, (nbytes,))
        assert ok(hip.hipModuleGetGlobal(int(module), name)) == (pointer, size)
        assert ok(hip.hipMemGetAddressRange(pointer + nbytes - 1)) == (pointer, nbytes)
        attributes = hip.hipPointerAttribute_t()
        ok(hip.hipPointerGetAttributes(attributes, pointer + 1))
        assert attributes.type == hip.hipMemoryType.hipMemoryTypeDevice
        assert attributes.device == hip.devices.number_of(device)
        assert (attributes.devicePointer, attributes.hostPointer) == (pointer + 1, None)
        assert (attributes.isManaged, attributes.allocationFlags) == (0, 0)


@pytest.mark.executes(reads="step")
def test_kernels_see_what_the_host_sets(load):
    module = load()
    assert step(module) == [5, 2, 0, 0]
    ok(hip.hipMemcpyHtoD(variable(module, b"by"), int4(10, 20, 30, 40), 16))
    ok(hip.hipMemcpyHtoD(variable(module, b"later"), int4(7), 4))
    assert step(module) == [6, 20, 7, 0]
    assert step(module) == [16, 20, 7, 0]
    assert read(variable(module, b"count"), 1) == [26]


@pytest.mark.executes
def test_it_is_an_argument(load, function):
    """Of kernels of its module and of others; as a pointer object, further on, an int, and in C's arrays."""
    module = load()
    table = variable(module, b"table")
    for kernel in (ok(hip.hipModuleGetFunction(module, b"fill")), function("fill")):
        launch(kernel, None, table, 1)
        launch(kernel, None, table + 200, 2, groups=5)
        launch(kernel, None, ctypes.c_void_p(int(table) + 360), 3, groups=1)
        assert read(table, 100) == [1] * 50 + [2] * 40 + [3] * 10
        assert step(module)[3] == 3


@pytest.mark.executes(reads="step")
def test_modules_have_their_own(load):
    one, other = load(), load()
    assert variable(one, b"count") != variable(other, b"count")
    ok(hip.hipMemcpyHtoD(variable(one, b"count"), int4(100), 4))
    assert step(other)[0] == 5
    assert step(one)[0] == 100
    ok(hip.hipModuleUnload(one))
    assert step(other)[0] == 6


@pytest.mark.executes(run=False)  # its copy of pageable memory is a host function on some drivers
def test_nodes_of_graphs(load):
    module, stream, value = load(), ok(hip.hipStreamCreate()), int4(50)
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    count = variable(module, b"count")  # asking for it is no command
    ok(hip.hipMemcpyHtoDAsync(count, value, 4, stream))
    executable = instantiate(ok(hip.hipStreamEndCapture(stream)))
    for number in (50, 60):
        value[0] = number
        ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipStreamSynchronize(stream))
        assert step(module)[0] == number


@pytest.mark.executes
def test_variables_of_opencl_c(load, device):
    source = "global int count = 3; kernel void get(global int *out) { out[0] = count; }"
    image = pack_code("name", Language.OPENCL_C, source, device.driver.variable_options)
    module, out = ok(hip.hipModuleLoadData(image)), ints(1)
    pointer, nbytes = ok(hip.hipModuleGetGlobal(module, b"count"))
    assert nbytes == 4
    assert code(hip.hipModuleGetGlobal(module, b"get")) == E.hipErrorNotFound
    ok(hip.hipMemcpyHtoD(pointer, int4(9), 4))
    launch(ok(hip.hipModuleGetFunction(module, b"get")), None, out, groups=1, block=1)
    assert read(out, 1) == [9]


# What cannot be


def test_variables_that_are_not_there(load):
    module = load()
    for name in (b"none", b"fixed", b"step", b"cou", b"count\0", b"\xff", "täble"):
        assert code(hip.hipModuleGetGlobal(module, name)) == E.hipErrorNotFound
        assert "no variable" in str(hip.last_exception())
    for wrong in (None, b"", ""):
        assert code(hip.hipModuleGetGlobal(module, wrong)) == E.hipErrorInvalidValue
    assert code(hip.hipModuleGetGlobal(None, b"count")) == E.hipErrorInvalidResourceHandle
    assert code(hip.hipModuleGetGlobal(12345, b"count")) == E.hipErrorNotFound


def test_it_cannot_be_freed(load):
    module = load()
    count = variable(module, b"count")
    for free in (hip.hipFree, hip.hipFreeAsync, hip.hipHostFree):
        assert code(free(count)) == E.hipErrorInvalidValue
    assert variable(module, b"count") == count
    ok(hip.hipMemset(count, 0, 4))


def test_it_is_no_allocated_memory(fresh, load):
    module = load()
    before = ok(hip.hipMemGetInfo())
    variable(module, b"table")
    assert ok(hip.hipMemGetInfo()) == before


def test_it_goes_with_its_module(load, function):
    module = load()
    pointer, data, fill = variable(module, b"by"), np.zeros(16, "u1"), function("fill")
    inside, number = pointer + 4, int(pointer)
    used = hip.Pointer(pointer)
    launch(fill, None, used, 1, groups=1, block=1)
    ok(hip.hipModuleUnload(module))
    assert code(hip.hipModuleGetGlobal(module, b"by")) == E.hipErrorNotFound
    for gone in (pointer, inside, used, number):
        for result in (
            hip.hipMemcpyHtoD(gone, data, 4),
            hip.hipMemcpyDtoH(data, gone, 4),
            hip.hipMemcpyDtoD(gone, ints(1), 4),
            hip.hipMemcpyHtoDAsync(gone, data, 4, None),
            hip.hipMemset(gone, 0, 4),
            hip.hipMemGetAddressRange(gone),
            hip.hipFree(gone),
            hip.hipModuleLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, None, None, (gone, ctypes.c_int(1))),
        ):
            assert code(result) == E.hipErrorInvalidValue
    for gone in (pointer, inside, used):  # of an int nobody can tell that it was the device's
        assert code(hip.hipMemcpy(gone, data, 4, K.hipMemcpyDefault)) == E.hipErrorInvalidValue
        assert code(hip.hipMemcpy(data, gone, 4, K.hipMemcpyDefault)) == E.hipErrorInvalidValue


def test_reset_forgets_it(load):
    module = load()
    count = variable(module, b"count")
    ok(hip.hipDeviceReset())
    assert code(hip.hipMemset(count, 0, 4)) == E.hipErrorInvalidValue
    assert code(hip.hipModuleGetGlobal(module, b"count")) == E.hipErrorNotFound


# Where there are none


@pytest.mark.needs("a compiler of HIP C++")
def test_a_driver_that_does_not_tell_says_so(device, monkeypatch):
    constant = b'__constant__ int by = 2; extern "C" __global__ void step(int* out) { out[0] = by; }'
    tells = device.info.backend == "cuda" or device.driver.variable_options is not None
    if tells and device.info.backend != "sycl":

        def refuse(program, name):
            raise fb.NotSupportedError(f"variable {name!r}")

        monkeypatch.setattr(fb.Program, "get_global", refuse)
    module = ok(hip.hipModuleLoadData(compiled(constant)))
    assert code(hip.hipModuleGetGlobal(module, b"by")) == E.hipErrorNotSupported
    assert "variable 'by" in str(hip.last_exception())
    assert code(hip.hipModuleGetGlobal(module, b"none")) == E.hipErrorNotFound
