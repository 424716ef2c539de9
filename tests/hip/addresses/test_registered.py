"""The program's own memory, registered."""

import ctypes

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, N, code, ints, launch, read


@pytest.fixture
def array(device):
    made = np.arange(N, dtype="i4")
    yield made
    hip.hipHostUnregister(made)
    hip.hipGetLastError()


@pytest.mark.executes
def test_copies(array):
    ok(hip.hipHostRegister(array, array.nbytes, hip.hipHostRegisterDefault))
    memory, stream = ints(), ok(hip.hipStreamCreate())
    ok(hip.hipMemcpyAsync(memory, array, array.nbytes, K.hipMemcpyHostToDevice, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == list(range(N))
    ok(hip.hipMemsetD32(memory, 3, N))
    ok(hip.hipMemcpy(array.ctypes.data + 4, memory, 40, K.hipMemcpyDeviceToHost))
    assert array[:12].tolist() == [0, *[3] * 10, 11]
    ok(hip.hipHostUnregister(array))
    ok(hip.hipMemcpy(memory, array, array.nbytes, K.hipMemcpyHostToDevice))
    assert read(memory, 12) == array[:12].tolist()


@pytest.mark.executes
def test_kernels(array, function, device):
    ok(hip.hipHostRegister(array, array.nbytes, hip.hipHostRegisterMapped))
    found = ok(hip.hipPointerGetAttributes(array))
    assert (found.type, found.hostPointer) == (hip.hipMemoryType.hipMemoryTypeHost, array.ctypes.data)
    if not (device.driver.takes_host or device.info.backend == "cuda"):
        assert found.devicePointer.is_ptr_null
        assert code(hip.hipHostGetDevicePointer(array, 0)) == E.hipErrorNotSupported
        assert "copies only" in str(hip.last_exception())
        return
    pointer = ok(hip.hipHostGetDevicePointer(array, 0))
    assert pointer == found.devicePointer == array.ctypes.data
    launch(function("add"), None, pointer, 5)
    launch(function("add"), None, ctypes.c_void_p(array.ctypes.data + 40), 100, groups=1)
    ok(hip.hipMemsetD32(pointer + 4 * (N - 1), 7, 1))
    ok(hip.hipDeviceSynchronize())
    expected = np.arange(N) + 5
    expected[10:20] += 100
    expected[-1] = 7
    assert array.tolist() == expected.tolist()
    ok(hip.hipHostUnregister(pointer))
    assert array.tolist() == expected.tolist()  # it was not given back


def test_what_is_known_of_it(array):
    flags = hip.hipHostRegisterPortable | hip.hipHostRegisterMapped
    ok(hip.hipHostRegister(array.ctypes.data, array.nbytes, flags))
    assert ok(hip.hipHostGetFlags(array)) == flags
    assert ok(hip.hipMemGetAddressRange(array.ctypes.data + 100)) == (array.ctypes.data, array.nbytes)
    ok(hip.hipHostUnregister(array))
    for _ in range(100):
        for half in (array[: N // 2], array[N // 2 :]):
            ok(hip.hipHostRegister(half, half.nbytes))
        ok(hip.hipHostUnregister(array))
        ok(hip.hipHostUnregister(array.ctypes.data + array.nbytes // 2))
