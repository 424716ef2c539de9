import ctypes
import gc
import threading
import weakref

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from tests.helpers.limits import limits
from tests.helpers.observer import LOST, observe

from .conftest import SOURCE, ok
from .helpers import E, code, function_of, ints, launch

A = hip.hipDeviceAttribute_t


@pytest.fixture
def number(device):
    return ok(hip.hipGetDevice())


def test_the_devices_are_forebays(device, number):
    count = ok(hip.hipGetDeviceCount())
    assert 0 <= number < count
    assert isinstance(hip.current_device(), fb.Device)
    assert hip.current_device() is device
    assert ok(hip.hipDeviceGet(number)) == number
    assert ok(hip.hipDeviceTotalMem(number)) == device.info.memory
    assert ok(hip.hipDeviceGetName(100, number)) == device.info.description.encode()[:99]
    assert ok(hip.hipDeviceGetName(4, number)) == device.info.description.encode()[:3]
    assert code(hip.hipDeviceGetName(0, number)) == E.hipErrorInvalidValue
    assert ok(hip.hipDeviceCanAccessPeer(number, number)) == 0
    ok(hip.hipInit(0))
    assert code(hip.hipInit(1)) == E.hipErrorInvalidValue


def test_each_thread_begins_with_the_first_device(device):
    found = []
    thread = threading.Thread(target=lambda: found.append(ok(hip.hipGetDevice())))
    thread.start()
    thread.join()
    assert found == [0]


def test_properties(device, number):
    properties = hip.hipDeviceProp_t()
    assert hip.hipGetDeviceProperties(properties, number) == (E.hipSuccess,)
    known = limits(device.info)
    assert properties.name == device.info.description.encode()
    assert properties.gcnArchName == device.name.encode()
    assert properties.totalGlobalMem == device.info.memory
    assert properties.multiProcessorCount == device.info.compute_units
    assert properties.sharedMemPerBlock == known.local_memory
    assert properties.maxThreadsDim[0] == known.block_axis
    assert all(extent > 0 for extent in [*properties.maxGridSize, properties.maxThreadsPerBlock, properties.warpSize])
    other = ok(hip.hipGetDeviceProperties(number))
    assert ok(hip.hipGetDeviceProperties(deviceId=number)).name == other.name
    assert {name: other[name] for name in other.PROPERTIES()} == vars(properties)
    assert properties.name == device.info.description
    uuids = [ok(hip.hipGetDeviceProperties(each)).uuid for each in range(ok(hip.hipGetDeviceCount()))]
    assert [len(uuid.bytes) for uuid in uuids] == [16] * len(uuids)
    assert len(set(uuids)) == len(uuids)
    assert uuids[number] == properties.uuid == other.uuid
    with pytest.raises(AttributeError, match="nothing"):
        _ = properties.nothing
    with pytest.raises(TypeError, match="hipDeviceProp_t"):
        hip.hipGetDeviceProperties(None, number)


def test_attributes(device, number):
    properties = ok(hip.hipGetDeviceProperties(number))
    for attribute, expected in (
        (A.hipDeviceAttributeMaxBlockDimX, properties.maxThreadsDim[0]),
        (A.hipDeviceAttributeMaxGridDimZ, properties.maxGridSize[2]),
        (A.hipDeviceAttributeWarpSize, properties.warpSize),
        (A.hipDeviceAttributeMaxThreadsPerBlock, properties.maxThreadsPerBlock),
        (A.hipDeviceAttributeMemoryPoolsSupported, 1),
    ):
        assert ok(hip.hipDeviceGetAttribute(attribute, number)) == expected
        assert ok(hip.hipDeviceGetAttribute(int(attribute), number)) == expected
    for wrong in (A.hipDeviceAttributeUnused1, -1, 123456):
        assert code(hip.hipDeviceGetAttribute(wrong, number)) == E.hipErrorInvalidValue


WARPS = b"""
extern "C" __global__ void lanes(int* out) { out[0] = warpSize; out[1 + threadIdx.x] = threadIdx.x % warpSize; }
"""


def warp_of_the_host(number):
    (said,) = {
        ok(hip.hipGetDeviceProperties(number)).warpSize,
        ok(hip.hipDeviceGetAttribute(A.hipDeviceAttributeWarpSize, number)),
    }
    return said


def test_the_host_says_32_of_warps_whichever_compiler_kernels_go_to(device, number):
    assert warp_of_the_host(number) == 32


@pytest.mark.executes
@pytest.mark.needs("a compiler of HIP C++")
@pytest.mark.long
def test_a_warp_is_on_the_host_what_it_is_in_kernels(device, number):
    warp = warp_of_the_host(number)
    function = function_of(WARPS, b"lanes")
    memory, out = ok(hip.hipMalloc(65 * 4)), np.zeros(65, "i4")
    launch(function, 0, memory, groups=1, block=64)
    ok(hip.hipMemcpy(out, memory, out.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    assert out[0] == warp
    assert np.array_equal(out[1:], np.arange(64) % warp)


def test_a_reset_device_is_gone_at_once(device):
    """Drivers have only so many contexts for a process."""
    ok(hip.hipDeviceReset())  # the fixture keeps that one
    gone = weakref.ref(hip.current_device())
    fill = ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoadData(SOURCE.encode())), b"fill"))
    stream, event, memory = ok(hip.hipStreamCreate()), ok(hip.hipEventCreate()), ints()
    launch(fill, stream, memory, 5)
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    launch(fill, stream, memory, 6)
    graph = ok(hip.hipStreamEndCapture(stream))
    ok(hip.hipGraphAddEventRecordNode(graph, None, 0, event))
    ok(hip.hipGraphLaunch(ok(hip.hipGraphInstantiateWithFlags(graph, 0)), stream))
    array, number, value = np.zeros(4, "i4"), ctypes.c_void_p(int(memory)), ctypes.c_int(5)
    ok(hip.hipHostRegister(array, array.nbytes))
    ok(hip.hipCtxCreate(0, ok(hip.hipGetDevice())))
    given = [ctypes.addressof(number), ctypes.addressof(value)]
    ok(hip.hipLaunchCooperativeKernel(fill, 1, 1, given, 0, stream))
    ok(hip.hipCtxPopCurrent())
    ok(hip.hipDeviceSynchronize())
    gc.collect()
    gc.disable()
    try:
        ok(hip.hipDeviceReset())
        del fill, stream, event, memory, graph
        assert gone() is None
    finally:
        gc.enable()


def test_a_device_that_is_lost_is_lost_until_it_is_reset(fresh):
    """Every function says so, with an error of HIP that only a reset ends."""
    if fresh.info.backend not in LOST:
        pytest.skip("no code says that this device is lost")
    event = ok(hip.hipEventCreate())
    with observe(fresh) as calls:
        calls.fail(calls.driver.MARKER, LOST[fresh.info.backend][0])
        failure = (hip.hipError_t.hipErrorLaunchFailure,)
        assert hip.hipEventRecord(event, None) == failure
        assert hip.hipDeviceSynchronize() == failure
        assert hip.hipMalloc(100)[:1] == failure
        assert "is lost" in str(hip.last_exception())
    ok(hip.hipDeviceReset())
    memory = ok(hip.hipMalloc(100))
    ok(hip.hipMemset(memory, 0, 100))
    ok(hip.hipDeviceSynchronize())
    ok(hip.hipFree(memory))
