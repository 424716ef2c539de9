"""`hipModuleGetGlobal`."""

import ctypes

import numpy as np
import pytest

from forebay import hip
from forebay.core.driver import Language
from forebay.hiprtc.code import pack_code
from tests.helpers.device_data import device_data
from tests.helpers.needs import variable_options

from ..conftest import ok
from ..helpers import E, K, code, instantiate, ints, launch, launched, read, variable


def step(module):
    out = ok(hip.hipMalloc(16))
    launch(ok(hip.hipModuleGetFunction(module, b"step")), None, out, groups=1, block=1)
    return read(out, 4)


def int4(*values):
    return np.array(values, "i4")


def test_a_pointer_and_the_bytes(variables, device):
    module = variables()
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


def test_kernels_see_what_the_host_sets(variables):
    module = variables()
    assert device_data(step(module)) == [5, 2, 0, 0]
    ok(hip.hipMemcpyHtoD(variable(module, b"by"), int4(10, 20, 30, 40), 16))
    ok(hip.hipMemcpyHtoD(variable(module, b"later"), int4(7), 4))
    assert device_data(step(module)) == [6, 20, 7, 0]
    assert device_data(step(module)) == [16, 20, 7, 0]
    assert device_data(read(variable(module, b"count"), 1)) == [26]


def test_it_is_an_argument(variables, function):
    """Of kernels of its module and of others; as a pointer object, further on, an int, and in C's arrays."""
    module = variables()
    table = variable(module, b"table")
    for kernel in (ok(hip.hipModuleGetFunction(module, b"fill")), function("fill")):
        launch(kernel, None, table, 1)
        launch(kernel, None, table + 200, 2, groups=5)
        launch(kernel, None, ctypes.c_void_p(int(table) + 360), 3, groups=1)
        assert device_data(read(table, 100)) == [1] * 50 + [2] * 40 + [3] * 10
        assert device_data(step(module)[3]) == 3


def test_modules_have_their_own(variables):
    one, other = variables(), variables()
    assert variable(one, b"count") != variable(other, b"count")
    ok(hip.hipMemcpyHtoD(variable(one, b"count"), int4(100), 4))
    assert device_data(step(other)[0]) == 5
    assert step(one)[0] == 100
    ok(hip.hipModuleUnload(one))
    assert device_data(step(other)[0]) == 6


def test_variables_of_opencl_c(variables, device):
    source = "global int count = 3; kernel void get(global int *out) { out[0] = count; }"
    image = pack_code("name", Language.OPENCL_C, source, variable_options(device))
    module, out = ok(hip.hipModuleLoadData(image)), ints(1)
    pointer, nbytes = ok(hip.hipModuleGetGlobal(module, b"count"))
    assert nbytes == 4
    assert code(hip.hipModuleGetGlobal(module, b"get")) == E.hipErrorNotFound
    ok(hip.hipMemcpyHtoD(pointer, int4(9), 4))
    launch(ok(hip.hipModuleGetFunction(module, b"get")), None, out, groups=1, block=1)
    assert read(out, 1) == [9]


@pytest.mark.executes
def test_symbols_in_nodes_of_graphs(variables, graph, streams):
    module, (stream,) = variables(), streams(1)
    by, given, got = variable(module, b"by"), int4(10, 20, 30, 40), np.zeros(4, "i4")
    to = ok(hip.hipGraphAddMemcpyNodeToSymbol(graph, None, 0, by, given, 16, 0, K.hipMemcpyHostToDevice))
    back = ok(hip.hipGraphAddMemcpyNodeFromSymbol(graph, [to], 1, got, by, 8, 8, K.hipMemcpyDeviceToHost))
    assert ok(hip.hipGraphNodeGetType(to)) == hip.hipGraphNodeType.hipGraphNodeTypeMemcpy
    executable = instantiate(graph)
    launched(executable, stream)
    assert got.tolist() == [30, 40, 0, 0]
    other = int4(1, 2, 3, 4)
    ok(hip.hipGraphExecMemcpyNodeSetParamsToSymbol(executable, to, by, other, 8, 8, K.hipMemcpyHostToDevice))
    ok(hip.hipGraphExecMemcpyNodeSetParamsFromSymbol(executable, back, got, by, 16, 0, K.hipMemcpyDeviceToHost))
    launched(executable, stream)
    assert got.tolist() == [10, 20, 1, 2]
    ok(hip.hipGraphMemcpyNodeSetParamsToSymbol(to, by, other, 16, 0, K.hipMemcpyHostToDevice))
    ok(hip.hipGraphMemcpyNodeSetParamsFromSymbol(back, got, by, 12, 4, K.hipMemcpyDeviceToHost))
    launched(instantiate(graph), stream)
    assert got.tolist() == [2, 3, 4, 2]


def test_it_is_no_allocated_memory(fresh, variables):
    module = variables()
    before = ok(hip.hipMemGetInfo())
    variable(module, b"table")
    assert ok(hip.hipMemGetInfo()) == before
