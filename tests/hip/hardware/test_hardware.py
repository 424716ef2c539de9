"""Devices: what is known of them, limits, caches and peers."""

import ctypes
import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from tests.helpers.device_data import device_data
from tests.helpers.limits import limits
from tests.helpers.observer import LOST, observe
from tests.helpers.threads import in_thread

from ..conftest import SOURCE, ok
from ..helpers import E, K, code, function_of, ints, launch, read

A, L = hip.hipDeviceAttribute_t, hip.hipLimit_t


def test_the_devices_are_forebays(device, number):
    assert 0 <= number < ok(hip.hipGetDeviceCount())
    assert isinstance(hip.current_device(), fb.Device)
    assert hip.current_device() is device
    assert ok(hip.hipDeviceGet(number)) == number
    assert ok(hip.hipDeviceTotalMem(number)) == device.info.memory
    assert ok(hip.hipDeviceGetName(100, number)) == device.info.description.encode()[:99]
    assert ok(hip.hipDeviceGetName(4, number)) == device.info.description.encode()[:3]
    assert ok(hip.hipRuntimeGetVersion()) == ok(hip.hipDriverGetVersion()) == hip.HIP_VERSION
    assert ok(hip.hipDeviceCanAccessPeer(number, number)) == 0
    ok(hip.hipInit(0))
    ok(hip.hipSetDeviceFlags(hip.hipDeviceScheduleBlockingSync))
    assert ok(hip.hipGetDeviceFlags()) == 0
    assert in_thread(lambda: ok(hip.hipGetDevice())) == 0  # a thread begins with the first


def test_properties(device, number):
    properties, known = hip.hipDeviceProp_t(), limits(device.info)
    assert hip.hipGetDeviceProperties(properties, number) == (E.hipSuccess,)
    assert properties.name == device.info.description
    assert properties.name == device.info.description.encode()
    assert properties.gcnArchName == device.name.encode()
    assert properties.totalGlobalMem == device.info.memory
    assert properties.multiProcessorCount == device.info.compute_units
    assert properties.sharedMemPerBlock == known.local_memory
    assert properties.maxThreadsDim[0] == known.block_axis
    assert all(extent > 0 for extent in [*properties.maxGridSize, properties.maxThreadsPerBlock])
    other = ok(hip.hipGetDeviceProperties(number))
    assert {name: other[name] for name in other.PROPERTIES()} == vars(properties)
    uuids = [ok(hip.hipGetDeviceProperties(deviceId=each)).uuid for each in range(ok(hip.hipGetDeviceCount()))]
    assert [len(uuid.bytes) for uuid in uuids] == [16] * len(uuids)
    assert len(set(uuids)) == len(uuids)
    assert uuids[number] == properties.uuid == ok(hip.hipDeviceGetUuid(number))
    with pytest.raises(AttributeError, match="nothing"):
        _ = properties.nothing
    assert ok(hip.hipChooseDevice(hip.hipDeviceProp_t())) == 0
    chosen = ok(hip.hipGetDeviceProperties(ok(hip.hipChooseDevice(properties))))
    assert chosen.totalGlobalMem >= properties.totalGlobalMem


def test_every_attribute_has_a_value(number):
    properties = ok(hip.hipGetDeviceProperties(number))
    no_attributes = [attribute for attribute in A if "Unused" in attribute.name or attribute.name.endswith("End")]
    no_attributes.append(A.hipDeviceAttributeVendorSpecificBegin)
    values = {each: ok(hip.hipDeviceGetAttribute(each, number)) for each in A if each not in no_attributes}
    assert len(values) == 114
    assert all(isinstance(value, int) for value in values.values())
    for attribute in no_attributes:
        assert code(hip.hipDeviceGetAttribute(int(attribute), number)) == E.hipErrorInvalidValue
    shared, units = properties.sharedMemPerBlock, properties.multiProcessorCount
    for name, expected in {
        "MaxBlockDimX": properties.maxThreadsDim[0], "MaxBlockDimY": properties.maxThreadsDim[1],
        "MaxThreadsDim": properties.maxThreadsDim[0], "MaxGridDimZ": properties.maxGridSize[2],
        "MaxThreadsPerBlock": properties.maxThreadsPerBlock, "MaxPitch": properties.memPitch,
        "MaxSharedMemoryPerBlock": shared, "SharedMemPerBlockOptin": shared, "MultiprocessorCount": units,
        "PhysicalMultiProcessorCount": units, "TotalGlobalMem": properties.totalGlobalMem, "EccEnabled": 0,
        "MaxTexture1DMipmap": 0, "MaxTexture2DWidth": properties.maxTexture2D[0],
        "MaxTexture3DDepth": properties.maxTexture3D[2], "TextureAlignment": properties.textureAlignment,
        "ImageSupport": int(properties.maxTexture2D[0] > 0), "CooperativeLaunch": 1, "HostRegisterSupported": 1,
        "CanUseStreamWaitValue": 1, "MemoryPoolsSupported": 1, "WarpSize": properties.warpSize,
    }.items():  # fmt: skip
        assert values[A[f"hipDeviceAttribute{name}"]] == expected, name
    assert properties.warpSize == 32  # whichever compiler kernels go to


WARPS = b"""
extern "C" __global__ void lanes(int* out) { out[0] = warpSize; out[1 + threadIdx.x] = threadIdx.x % warpSize; }
"""


@pytest.mark.needs("a compiler of HIP C++")
@pytest.mark.long
def test_a_warp_is_on_the_host_what_it_is_in_kernels(device):
    memory = ok(hip.hipMalloc(65 * 4))
    launch(function_of(WARPS, b"lanes"), 0, memory, groups=1, block=64)
    assert device_data(read(memory, 65)) == [32, *(i % 32 for i in range(64))]


def test_limits_and_caches(fresh):
    for limit in (L.hipLimitStackSize, L.hipLimitPrintfFifoSize, L.hipLimitMallocHeapSize):
        assert ok(hip.hipDeviceGetLimit(limit)) > 0
    ok(hip.hipDeviceSetLimit(L.hipLimitStackSize, 8192))
    ok(hip.hipDeviceSetLimit(int(L.hipLimitPrintfFifoSize), 1 << 24))
    assert ok(hip.hipDeviceGetLimit(L.hipLimitStackSize)) == 8192
    assert ok(hip.hipDeviceGetLimit(L.hipLimitPrintfFifoSize)) == 1 << 24
    ok(hip.hipDeviceReset())
    assert ok(hip.hipDeviceGetLimit(L.hipLimitStackSize)) == 1024
    assert ok(hip.hipDeviceGetCacheConfig()) == hip.hipFuncCache_t.hipFuncCachePreferNone
    for config in hip.hipFuncCache_t:
        ok(hip.hipDeviceSetCacheConfig(config))
    for config in hip.hipSharedMemConfig:
        ok(hip.hipDeviceSetSharedMemConfig(config))
    assert ok(hip.hipDeviceGetSharedMemConfig()) == hip.hipSharedMemConfig.hipSharedMemBankSizeFourByte


@pytest.mark.needs("two devices")
def test_peers(device, function):
    ok(hip.hipSetDevice(0))
    linked = ok(hip.hipDeviceCanAccessPeer(0, 1))
    assert ok(hip.hipDeviceCanAccessPeer(0, 0)) == 0
    assert code(hip.hipDeviceEnablePeerAccess(1, 1)) == E.hipErrorInvalidValue
    assert code(hip.hipDeviceDisablePeerAccess(1)) == E.hipErrorPeerAccessNotEnabled
    if linked:
        ok(hip.hipDeviceEnablePeerAccess(1, 0))
        assert code(hip.hipDeviceEnablePeerAccess(1, 0)) == E.hipErrorPeerAccessAlreadyEnabled
        ok(hip.hipSetDevice(1))
        memory = ints(10, 6)
        ok(hip.hipSetDevice(0))
        launch(function("add"), None, memory, 3, groups=1)
        ok(hip.hipDeviceSynchronize())
        assert device_data(read(memory, 10)) == [9] * 10
        ok(hip.hipDeviceDisablePeerAccess(1))
    else:
        assert code(hip.hipDeviceEnablePeerAccess(1, 0)) == E.hipErrorPeerAccessUnsupported
        assert "hipMemcpyPeer" in str(hip.last_exception())
    assert ok(hip.hipDeviceGetP2PAttribute(hip.hipDeviceP2PAttr.hipDevP2PAttrAccessSupported, 0, 1)) == linked
    assert code(hip.hipDeviceGetP2PAttribute(99, 0, 1)) == E.hipErrorInvalidValue
    assert ok(hip.hipExtGetLinkTypeAndHopCount(0, 1)) == (2, 2 - linked)
    here = ints(10, 5)
    ok(hip.hipSetDevice(1))
    there = ints(10, 6)
    ok(hip.hipMemcpy(there, here, 40, K.hipMemcpyDefault))
    assert device_data(read(there, 10)) == [5] * 10


def test_a_reset_device_is_gone_at_once(device):
    """A process may have few contexts of a driver."""
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
        failure = (E.hipErrorLaunchFailure,)
        assert hip.hipEventRecord(event, None) == failure
        assert hip.hipDeviceSynchronize() == failure
        assert hip.hipMalloc(100)[:1] == failure
        assert "is lost" in str(hip.last_exception())
    ok(hip.hipDeviceReset())
    ok(hip.hipMemset(ints(), 0, 100))
    ok(hip.hipDeviceSynchronize())


# Contexts: devices under another name, and each thread's stack of them


@pytest.fixture
def stack(device):
    """Every context that a test pushes is popped."""
    yield
    while hip.hipCtxPopCurrent()[0] == E.hipSuccess:
        pass
    hip.hipGetLastError()


def test_a_context_is_a_device(device, number, stack):
    context = ok(hip.hipCtxCreate(0, number))
    assert isinstance(context, hip.ihipCtx_t)
    assert ok(hip.hipCtxGetCurrent()) == context == ok(hip.hipDevicePrimaryCtxRetain(number))
    assert ok(hip.hipCtxGetDevice()) == number == ok(hip.hipGetDevice())
    assert hip.current_device() is device
    memory = ints(10, 3)
    ok(hip.hipCtxSynchronize())
    assert ok(hip.hipCtxGetApiVersion(context)) > 0
    assert ok(hip.hipCtxGetCacheConfig()) == hip.hipFuncCache_t.hipFuncCachePreferNone
    ok(hip.hipCtxSetCacheConfig(hip.hipFuncCache_t.hipFuncCachePreferL1))
    assert ok(hip.hipCtxGetSharedMemConfig()) == hip.hipSharedMemConfig.hipSharedMemBankSizeFourByte
    ok(hip.hipCtxSetSharedMemConfig(hip.hipSharedMemConfig.hipSharedMemBankSizeEightByte))
    ok(hip.hipCtxDestroy(context))
    assert code(hip.hipCtxPopCurrent()) == E.hipErrorInvalidContext
    ok(hip.hipMemset(memory, 0, 40))  # the device is as it was


def test_the_stack(number, stack):
    """Each thread has its own."""
    context = ok(hip.hipCtxCreate(hip.hipDeviceScheduleSpin, number))
    assert ok(hip.hipCtxGetFlags()) == hip.hipDeviceScheduleSpin
    assert in_thread(hip.hipCtxPopCurrent)[0] == E.hipErrorInvalidContext
    assert in_thread(lambda: ok(hip.hipCtxGetDevice())) == 0
    ok(hip.hipCtxPushCurrent(int(context)))
    ok(hip.hipCtxPushCurrent(ctypes.c_void_p(int(context))))
    ok(hip.hipCtxSetCurrent(context))
    for _ in range(3):
        assert ok(hip.hipCtxPopCurrent()) == context
    for _ in range(100):
        ok(hip.hipCtxDestroy(ok(hip.hipCtxCreate(0, number))))
    for current in (context, None):
        ok(hip.hipCtxSetCurrent(current))
    assert code(hip.hipCtxPopCurrent()) == E.hipErrorInvalidContext


@pytest.mark.needs("two devices")
def test_the_top_is_the_current_device(device):
    ok(hip.hipSetDevice(0))
    first, second = ok(hip.hipCtxCreate(0, 0)), ok(hip.hipCtxCreate(0, 1))
    assert first != second
    assert ok(hip.hipGetDevice()) == 1
    assert ok(hip.hipCtxPopCurrent()) == second
    assert ok(hip.hipGetDevice()) == 0
    ok(hip.hipCtxSetCurrent(second))
    assert ok(hip.hipCtxGetDevice()) == 1
    assert ok(hip.hipCtxPopCurrent()) == second


def test_primary_contexts(fresh, number, really, stack):
    ok(hip.hipDeviceReset())
    assert ok(hip.hipDevicePrimaryCtxGetState(number)) == (0, 0)
    ok(hip.hipDevicePrimaryCtxSetFlags(number, hip.hipDeviceScheduleYield))
    ok(hip.hipDevicePrimaryCtxRetain(number))
    assert ok(hip.hipDevicePrimaryCtxGetState(number)) == (hip.hipDeviceScheduleYield, 1)
    assert code(hip.hipDevicePrimaryCtxSetFlags(number, 0)) == E.hipErrorContextAlreadyInUse
    memory = ints(4, 5)
    for _ in range(2):
        ok(hip.hipDevicePrimaryCtxRelease(number))
    assert read(memory, 4) == [5] * 4 or not really
    for _ in range(2):
        ok(hip.hipDevicePrimaryCtxReset(number))
        assert ok(hip.hipDevicePrimaryCtxGetState(number)) == (0, 0)
    assert code(hip.hipFree(memory)) == E.hipErrorInvalidValue
