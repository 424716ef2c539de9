import ctypes

import numpy as np
import pytest

from forebay import hip
from tests.helpers.device_data import device_data

from .conftest import ok
from .helpers import CANNOT_MAP, E, K, N, can_map, code, ints, kernel, launch, memset, read, waits_for

PINNED = ("hipHostMalloc", "hipMallocManaged")


def allocate(name, nbytes):
    made = getattr(hip, name)(nbytes)
    if made[0] == E.hipErrorNotSupported:
        pytest.skip(f"the device has nothing for {name}")
    return ok(made)


# Allocating and freeing


def test_pointers_of_allocations(device):
    pointer = ok(hip.hipMalloc(100))
    assert pointer
    assert (pointer.size, pointer.itemsize, pointer.shape) == (100, 1, (100,))
    assert ok(hip.hipMemGetAddressRange(pointer + 10)) == (pointer, 100)
    assert ok(hip.hipMemPtrGetInfo(pointer + 99)) == 100
    ok(hip.hipFree(pointer))
    for call in (hip.hipMalloc, hip.hipHostMalloc, hip.hipMallocAsync):
        assert ok(call(0)).is_ptr_null
    for free in (hip.hipFree, hip.hipHostFree):
        for null in (None, 0):
            ok(free(null))
    for flags in (hip.hipDeviceMallocDefault, hip.hipDeviceMallocFinegrained, hip.hipDeviceMallocUncached):
        ok(hip.hipFree(ok(hip.hipExtMallocWithFlags(100, flags))))
    ok(hip.hipFree(ok(hip.hipExtMallocWithFlags(8, hip.hipMallocSignalMemory))))
    made = ok(hip.hipHostMalloc(100, hip.hipHostMallocPortable | hip.hipHostMallocMapped))
    assert ok(hip.hipHostGetFlags(made + 5)) == 3
    assert not can_map(device) or ok(hip.hipHostGetDevicePointer(made, 0)) == made


@pytest.mark.executes
def test_free_waits_for_the_device(function, hold):
    stream, memory = ok(hip.hipStreamCreateWithFlags(1)), ints()
    other = ok(hip.hipMalloc(100))
    gate = hold(stream)
    launch(function("fill"), stream, memory, 1)
    assert waits_for(gate, lambda: hip.hipFree(other))
    ok(hip.hipStreamQuery(stream))


def test_what_is_free_and_what_there_is(fresh):
    free, total = ok(hip.hipMemGetInfo())
    assert 0 < free <= total == fresh.info.memory
    pointer = ok(hip.hipMalloc(1 << 20))
    assert ok(hip.hipMemGetInfo())[0] == free - (1 << 20)
    ok(hip.hipFree(pointer))
    assert ok(hip.hipMemGetInfo())[0] == free


@pytest.mark.parametrize("name", PINNED)
def test_host_and_kernels_use_the_same_memory(device, function, name):
    if name == "hipHostMalloc" and not can_map(device):
        pytest.skip(CANNOT_MAP)
    pointer = allocate(name, 4 * N).configure(typestr="<i4", shape=(N,))
    host = np.asarray(pointer)
    assert (host.dtype, host.shape) == ("i4", (N,))
    host[:] = np.arange(N)
    launch(function("add"), None, pointer, 5)
    ok(hip.hipDeviceSynchronize())
    assert device_data(host.tolist()) == list(range(5, N + 5))
    copied = np.zeros(N, "i4")
    ok(hip.hipMemcpy(copied, pointer, 4 * N, K.hipMemcpyDefault))
    assert device_data(copied.tolist()) == host.tolist()


def test_host_memory_of_a_device_that_shares_none_is_for_copies(device, shares_none, really):
    pointer, stream = ok(hip.hipHostMalloc(4 * N)).configure(typestr="<i4"), ok(hip.hipStreamCreate())
    host, memory, before = np.asarray(pointer), ints(), device.stats.markers_made
    host[:] = range(N)
    ok(hip.hipMemcpyAsync(memory, pointer, 4 * N, K.hipMemcpyHostToDevice, stream))
    assert device.stats.markers_made == before
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == list(range(N)) or not really
    ok(hip.hipMemcpy(pointer + 400, memory, 400, K.hipMemcpyDeviceToHost))
    assert host[100:200].tolist() == list(range(100)) or not really
    ok(hip.hipHostFree(pointer))


NOT_MAPPED = {
    "a kernel": lambda f, p: hip.hipModuleLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, None, (p, ctypes.c_int(1))),
    "a kernel, an address": lambda f, p: hip.hipModuleLaunchKernel(
        f, 1, 1, 1, 1, 1, 1, 0, None, None, (ctypes.c_void_p(int(p) + 4), ctypes.c_int(1))
    ),
    "a node of a kernel": lambda f, p: hip.hipGraphAddKernelNode(ok(hip.hipGraphCreate(0)), [], 0, kernel(f, p, 1)),
    "a memset": lambda f, p: hip.hipMemset(p, 0, 4),
    "a memset of rows": lambda f, p: hip.hipMemset2DAsync(p, 4, 0, 2, 2, None),
    "a node of a memset": lambda f, p: hip.hipGraphAddMemsetNode(ok(hip.hipGraphCreate(0)), [], 0, memset(p, 0, 4)),
    "its address there": lambda f, p: hip.hipHostGetDevicePointer(p, 0),
}


def test_what_cannot_be_done_to_memory_of_the_host_that_is_not_shared(shares_none, function, works):
    pointer = ok(hip.hipHostMalloc(4 * N))
    for what, call in NOT_MAPPED.items():
        assert code(call(function("fill"), pointer)) == E.hipErrorNotSupported, what
        assert "hipDeviceAttributeCanMapHostMemory" in str(hip.last_exception())
    found = hip.hipPointerAttribute_t()
    ok(hip.hipPointerGetAttributes(found, pointer))
    assert found.hostPointer == pointer
    assert found.devicePointer.is_ptr_null
    works(None)
    ok(hip.hipHostFree(pointer))


# The pool


@pytest.fixture
def pool(fresh):
    return ok(hip.hipDeviceGetDefaultMemPool(hip.devices.number_of(fresh)))


A = hip.hipMemPoolAttr


def test_attributes_of_the_pool(fresh, pool):
    assert ok(hip.hipDeviceGetMemPool(hip.devices.number_of(fresh))) == pool
    for attribute in hip.hipMemPoolAttr:
        setting = attribute < A.hipMemPoolAttrReleaseThreshold
        value = ctypes.c_int(-1) if setting else ctypes.c_uint64(99)
        ok(hip.hipMemPoolGetAttribute(pool, attribute, ctypes.byref(value)))
        assert value.value == int(setting)
        assert ok(hip.hipMemPoolGetAttribute(pool, attribute)) == int(setting)
    threshold = ctypes.c_uint64(1 << 20)
    ok(hip.hipMemPoolSetAttribute(pool, A.hipMemPoolAttrReleaseThreshold, threshold))
    read_back = np.zeros(1, "u8")
    ok(hip.hipMemPoolGetAttribute(pool, A.hipMemPoolAttrReleaseThreshold, read_back))
    assert read_back[0] == fresh.pool.release_threshold == 1 << 20
    ok(hip.hipMemPoolSetAttribute(pool, A.hipMemPoolReuseAllowOpportunistic, ctypes.addressof(ctypes.c_int(0))))


def test_the_pool_keeps_what_it_is_told(pool):
    stream = ok(hip.hipStreamCreate())
    pointer = ok(hip.hipMallocAsync(1000, stream))
    used = ok(hip.hipMemPoolGetAttribute(pool, A.hipMemPoolAttrUsedMemCurrent))
    assert used >= 1000
    ok(hip.hipFreeAsync(pointer, stream))
    again = ok(hip.hipMallocAsync(1000, stream))
    assert again == pointer
    ok(hip.hipFreeAsync(again, stream))
    assert ok(hip.hipMemPoolGetAttribute(pool, A.hipMemPoolAttrUsedMemCurrent)) == 0
    assert ok(hip.hipMemPoolGetAttribute(pool, A.hipMemPoolAttrUsedMemHigh)) == used
    ok(hip.hipMemPoolTrimTo(pool, 0))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipMemPoolTrimTo(pool, 0))
    assert ok(hip.hipMemPoolGetAttribute(pool, A.hipMemPoolAttrReservedMemCurrent)) == 0


# The program's own memory, registered


@pytest.fixture
def array(device):
    made = np.arange(N, dtype="i4")
    yield made
    hip.hipHostUnregister(made)
    hip.hipGetLastError()


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
    assert device_data(array.tolist()) == expected.tolist()
    ok(hip.hipHostUnregister(pointer))
    assert device_data(array.tolist()) == expected.tolist()  # it was not given back


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
