import ctypes
import random

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from tests.helpers.refusals import refused

from ..conftest import ok
from ..helpers import E, K, can_map, code, read


class CudaArray:
    __cuda_array_interface__ = {"shape": (3, 4), "typestr": "<f4", "data": (0x4000, True), "version": 3, "stream": 7}  # noqa: RUF012


def test_what_becomes_a_pointer(device):
    host = np.arange(10)
    value = ctypes.c_int(5)
    for thing, address in (
        (None, 0), (0x1234, 0x1234), (np.int64(0x1234), 0x1234), (ctypes.c_void_p(0x1234), 0x1234),
        (ctypes.c_void_p(), 0), (host, host.ctypes.data), (host[3:], host.ctypes.data + 24),
        (value, ctypes.addressof(value)), (ctypes.byref(value), ctypes.addressof(value)),
        (ctypes.pointer(value), ctypes.addressof(value)), (CudaArray(), 0x4000), (hip.Pointer(0x1234), 0x1234),
    ):  # fmt: skip
        assert int(hip.Pointer(thing)) == address
        assert hip.Pointer.fromObj(thing) == address
    for wrong in ("text", object(), 1.5, host[::2], np.array([None])):
        with pytest.raises((TypeError, ValueError)):
            hip.Pointer(wrong)


def test_dlpack():
    class OnlyDLPack:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self):
            return self.array.__dlpack__()

    host = np.arange(10.0)
    assert hip.Pointer(OnlyDLPack(host)) == host.ctypes.data
    assert hip.Pointer(OnlyDLPack(host[2:])) == host.ctypes.data + 16


def test_the_memory_is_kept():
    pointer = hip.Pointer(np.arange(5, dtype="i4"))
    assert (ctypes.c_int * 5).from_address(int(pointer))[:] == list(range(5))
    moved = pointer + 4
    del pointer
    assert ctypes.c_int.from_address(int(moved)).value == 1


def test_arithmetic():
    pointer = hip.Pointer(0x1000)
    assert pointer + 16 == 16 + pointer == 0x1010
    assert pointer - 16 == 0xFF0
    assert (pointer + 16) - pointer == 16
    assert pointer < pointer + 1 <= pointer + 1
    assert pointer + 1 > pointer >= pointer
    assert pointer != 0x1001
    assert hash(pointer) == hash(hip.Pointer(0x1000))
    assert hex(pointer) == "0x1000"
    assert (bool(pointer), pointer.is_ptr_null) == (True, False)
    assert (bool(hip.Pointer()), hip.Pointer().is_ptr_null) == (False, True)
    assert hip.Pointer() == None  # noqa: E711
    assert pointer.as_c_void_p().value == 0x1000
    assert ctypes.c_uint64.from_address(int(pointer.createRef())).value == 0x1000
    for wrong in ("1", 1.5, None):
        with pytest.raises(TypeError):
            pointer + wrong
    with pytest.raises(TypeError):
        pointer < "1"  # noqa: B015


def test_arrays():
    array = hip.DeviceArray(CudaArray())
    assert (int(array), array.shape, array.rank, array.size) == (0x4000, (3, 4), 2, 12)
    assert (array.itemsize, array.typestr, array.is_read_only, array.stream_as_int) == (4, "<f4", True, 7)
    described = array.__cuda_array_interface__
    assert (described["shape"], described["typestr"], described["data"]) == ((3, 4), "<f4", (0x4000, True))
    row = array[1, :]
    assert (int(row), row.size) == (0x4010, 4)
    assert (int(array[1]), int(array[2, 3]), int(array[1:]), array[1:].shape) == (0x4010, 0x402C, 0x4010, (2, 4))
    assert int(array[-1]) == 0x4020
    for wrong in (np.s_[::2], np.s_[:, 1:3], np.s_[:, 0], np.s_[0, 0, 0]):
        with pytest.raises(ValueError, match=r"contiguous|subscripts"):
            array[wrong]
    with pytest.raises(IndexError):
        array[3]


def test_configure(device):
    array = ok(hip.hipMalloc(240)).configure(typestr="float32", shape=(3, 20))
    assert (array.shape, array.size, array.itemsize) == ((3, 20), 60, 4)
    assert array[1, :] - array == 80
    assert array.configure(typestr="float64").shape == (30,)
    assert array.configure(shape=(5, 6)).shape == (5, 6)
    for wrong in ({"shape": (7,)}, {"itemsize": 7}):
        with pytest.raises(ValueError, match="bytes"):
            array.configure(**wrong)
    assert array.configure(shape=(7,), _force=True).size == 7
    assert array.configure(stream=5, read_only=True).is_read_only
    with pytest.raises(TypeError, match="typestr"):
        array.configure(typestr="no such type")


def test_buffers_of_forebay_are_pointers(device):
    buffer = device.array(np.arange(100, dtype="i4"))
    out = np.zeros(100, "i4")
    ok(hip.hipMemcpy(out, buffer, 400, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    ok(hip.hipMemcpy(out, buffer, 400, hip.hipMemcpyKind.hipMemcpyDefault))
    assert isinstance(buffer, fb.Buffer)


def test_types_have_the_names_that_annotations_use(device):
    assert isinstance(ok(hip.hipStreamCreate()), hip.hipStream_t)
    assert isinstance(ok(hip.hipEventCreate()), hip.hipEvent_t)
    module = ok(hip.hipModuleLoadData(b"kernel void nothing(int unused) { }"))
    assert isinstance(module, hip.hipModule_t)
    assert isinstance(ok(hip.hipModuleGetFunction(module, b"nothing")), hip.hipFunction_t)
    assert isinstance(ok(hip.hipDeviceGetDefaultMemPool(0)), hip.hipMemPool_t)
    assert isinstance(ok(hip.hipGetDeviceProperties(0)).uuid, hip.hipUUID)


@pytest.mark.parametrize(("described", "problem"), [
    ({}, ""), ({"strides": None, "mask": None, "offset": 0}, ""), ({"strides": (16, 4)}, ""),
    ({"shape": (1, 4), "strides": (999, 4)}, ""), ({"strides": (32, 4)}, "strides (32, 4)"),
    ({"strides": (4, 12)}, "strides (4, 12)"), ({"strides": (-16, 4)}, "strides (-16, 4)"),
    ({"mask": object()}, "mask"), ({"offset": 8}, "offset"),
])  # fmt: skip
def test_foreign_arrays_are_contiguous(described, problem):
    foreign = CudaArray()
    foreign.__cuda_array_interface__ = CudaArray.__cuda_array_interface__ | described
    if problem:
        with refused(fb.InvalidArgumentError, ValueError, problem, "copy"):
            hip.NDBuffer(foreign)
    else:
        assert hip.NDBuffer(foreign).shape == described.get("shape", (3, 4))


@pytest.mark.parametrize("index", [True, np.True_, np.array([0]), 1.0, None], ids=repr)
def test_what_is_no_index(index):
    with refused(fb.ArgumentTypeError, TypeError, type(index).__name__):
        hip.NDBuffer(CudaArray())[1, index]
    with refused(fb.ArgumentTypeError, TypeError, type(index).__name__):
        hip.NDBuffer(CudaArray()).configure(shape=(12, index))


# What they point to, and pools by their handle


T, P = hip.hipMemoryType, hip.hipPointer_attribute
KINDS = {
    "hipMalloc": T.hipMemoryTypeDevice, "hipMallocAsync": T.hipMemoryTypeDevice,
    "hipHostMalloc": T.hipMemoryTypeHost, "hipMallocManaged": T.hipMemoryTypeManaged,
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_every_way_to_ask(device, name):
    """The structure that is given or returned, and one attribute after the other."""
    result, pointer = getattr(hip, name)(100)
    if result == E.hipErrorNotSupported:
        pytest.skip("the device has no such memory")
    kind, number, inside = KINDS[name], hip.devices.number_of(device), pointer + 50
    mapped = kind != T.hipMemoryTypeHost or can_map(device)
    there = inside if mapped else 0
    on_host = kind != T.hipMemoryTypeDevice
    expected = {
        P.HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: (ctypes.c_uint32, kind),
        P.HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: (ctypes.c_uint64, there),
        P.HIP_POINTER_ATTRIBUTE_HOST_POINTER: (ctypes.c_uint64, inside if on_host else 0),
        P.HIP_POINTER_ATTRIBUTE_IS_MANAGED: (ctypes.c_bool, kind == T.hipMemoryTypeManaged),
        P.HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: (ctypes.c_int, number),
        P.HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR: (ctypes.c_uint64, pointer),
        P.HIP_POINTER_ATTRIBUTE_RANGE_SIZE: (ctypes.c_uint64, 100),
        P.HIP_POINTER_ATTRIBUTE_MAPPED: (ctypes.c_bool, mapped),
    }
    for attribute, (of, wanted) in expected.items():
        value = of(77 if of is not ctypes.c_bool else not wanted)
        ok(hip.hipPointerGetAttribute(value, attribute, inside))
        assert value.value == wanted, attribute
    into = hip.hipPointerAttribute_t()
    assert hip.hipPointerGetAttributes(into, inside) == (E.hipSuccess,)
    found = ok(hip.hipPointerGetAttributes(ptr=inside))
    assert isinstance(found, hip.hipPointerAttribute_t)
    assert {name: found[name] for name in found.PROPERTIES()} == {name: into[name] for name in into.PROPERTIES()}
    assert (found.type, found.device, found.devicePointer) == (kind, number, there or None)
    assert (bool(found.hostPointer), found.isManaged) == (on_host, kind == T.hipMemoryTypeManaged)
    ok(hip.hipPointerSetAttribute(ctypes.c_int(0), P.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer))


def test_each_allocation_has_an_id(device):
    ids, first, other = [], ok(hip.hipMalloc(100)), ok(hip.hipMalloc(100))
    for pointer in (first, first + 10, other):
        value = ctypes.c_uint64(0)
        ok(hip.hipPointerGetAttribute(value, P.HIP_POINTER_ATTRIBUTE_BUFFER_ID, pointer))
        ids.append(value.value)
    assert ids[0] == ids[1] != ids[2]


def test_memory_of_a_pool(device, streams, really):
    number, (stream,) = ok(hip.hipGetDevice()), streams(1)
    pool = ok(hip.hipDeviceGetDefaultMemPool(number))
    ok(hip.hipDeviceSetMemPool(number, pool))
    assert ok(hip.hipDeviceGetMemPool(number)) == pool
    memory = ok(hip.hipMallocFromPoolAsync(400, pool, stream))
    ok(hip.hipMemsetD32Async(memory, 6, 100, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory, 100) == [6] * 100 or not really
    ok(hip.hipFreeAsync(memory, stream))
    assert code(hip.hipFreeAsync(memory, stream)) == E.hipErrorInvalidValue
    assert ok(hip.hipMallocFromPoolAsync(0, pool, stream)).is_ptr_null
    here = hip.hipMemLocation(hip.hipMemLocationType.hipMemLocationTypeDevice, number)
    assert ok(hip.hipMemPoolGetAccess(pool, here)) == hip.hipMemAccessFlags.hipMemAccessFlagsProtReadWrite


# Hints about managed memory: remembered, and checked


ADVICE, RANGE, PLACE = hip.hipMemoryAdvise, hip.hipMemRangeAttribute, hip.hipMemLocationType
CPU, NOWHERE = hip.hipCpuDeviceId, hip.hipInvalidDeviceId
NBYTES = 1 << 12


@pytest.fixture
def memory(device):
    made = hip.hipMallocManaged(NBYTES)
    if made[0] == E.hipErrorNotSupported:
        pytest.skip("the device has no managed memory")
    return ok(made)


def hint(memory, which, count=1):
    values = (ctypes.c_int32 * count)()
    ok(hip.hipMemRangeGetAttribute(values, 4 * count, which, memory, NBYTES))
    return values[0] if count == 1 else list(values)


def test_advice_is_remembered(memory):
    number = ok(hip.hipGetDevice())
    assert hint(memory, RANGE.hipMemRangeAttributeReadMostly) == 0
    assert hint(memory, RANGE.hipMemRangeAttributePreferredLocation) == NOWHERE
    assert hint(memory, RANGE.hipMemRangeAttributeAccessedBy, 2) == [NOWHERE, NOWHERE]
    ok(hip.hipMemAdvise(memory, NBYTES, ADVICE.hipMemAdviseSetReadMostly, number))
    ok(hip.hipMemAdvise(memory, NBYTES, ADVICE.hipMemAdviseSetPreferredLocation, CPU))
    for place in (number, CPU, number):
        ok(hip.hipMemAdvise(memory, NBYTES, ADVICE.hipMemAdviseSetAccessedBy, place))
    ok(hip.hipMemAdvise(memory, NBYTES, int(ADVICE.hipMemAdviseSetCoarseGrain), number))
    assert hint(memory, RANGE.hipMemRangeAttributeReadMostly) == 1
    assert hint(memory, RANGE.hipMemRangeAttributePreferredLocation) == CPU
    assert hint(memory, RANGE.hipMemRangeAttributeAccessedBy, 3) == [CPU, number, NOWHERE]
    assert hint(memory, RANGE.hipMemRangeAttributeCoherencyMode) == 1
    for advice in (ADVICE.hipMemAdviseUnsetReadMostly, ADVICE.hipMemAdviseUnsetPreferredLocation,
                   ADVICE.hipMemAdviseUnsetAccessedBy, ADVICE.hipMemAdviseUnsetCoarseGrain):  # fmt: skip
        ok(hip.hipMemAdvise(memory, NBYTES, advice, number))
    assert hint(memory, RANGE.hipMemRangeAttributeReadMostly) == 0
    assert hint(memory, RANGE.hipMemRangeAttributePreferredLocation) == NOWHERE
    assert hint(memory, RANGE.hipMemRangeAttributeAccessedBy, 2) == [CPU, NOWHERE]
    assert hint(memory, RANGE.hipMemRangeAttributeCoherencyMode) == 0
    other = ok(hip.hipMallocManaged(NBYTES))
    assert hint(other, RANGE.hipMemRangeAttributeAccessedBy, 2) == [NOWHERE, NOWHERE]


def test_prefetches(memory, streams):
    number, (stream,) = ok(hip.hipGetDevice()), streams(1)
    last = RANGE.hipMemRangeAttributeLastPrefetchLocation
    assert hint(memory, last) == NOWHERE
    ok(hip.hipMemPrefetchAsync(memory, NBYTES, number, stream))
    assert hint(memory, last) == number
    ok(hip.hipMemPrefetchAsync(memory + 16, 16, CPU))
    assert hint(memory, last) == CPU
    ok(
        hip.hipMemPrefetchAsync_v2(
            memory, NBYTES, hip.hipMemLocation(PLACE.hipMemLocationTypeDevice, number), 0, stream
        )
    )
    assert hint(memory, last) == number
    ok(hip.hipMemAdvise_v2(memory, NBYTES, ADVICE.hipMemAdviseSetPreferredLocation,
                           hip.hipMemLocation(PLACE.hipMemLocationTypeHost)))  # fmt: skip
    assert hint(memory, RANGE.hipMemRangeAttributePreferredLocation) == CPU
    ok(hip.hipStreamAttachMemAsync(stream, memory))
    ok(hip.hipStreamAttachMemAsync(stream, memory, NBYTES, hip.hipMemAttachGlobal))
    ok(hip.hipStreamSynchronize(stream))


# Which allocation an address is in, as copies, memsets and questions find it


def range_of(address):
    """Where the allocation of an address begins, and its bytes; None for memory that is not from here."""
    error, base, nbytes = hip.hipMemGetAddressRange(address)
    return (int(base), nbytes) if error == E.hipSuccess else None


def set_byte(address, value):
    return hip.hipMemsetAsync(address, value, 1, None)


@pytest.mark.parametrize("allocate", [hip.hipMalloc, hip.hipMallocAsync, hip.hipHostMalloc], ids=lambda f: f.__name__)
def test_the_edges_of_an_allocation(device, allocate, really):
    first, second = ok(allocate(100)), ok(allocate(100))
    for memory in (first, second, first):
        assert range_of(memory) == range_of(memory + 99) == (int(memory), 100)
        assert range_of(memory + 100) != (int(memory), 100)
        ok(hip.hipMemcpy(memory, second if memory is first else first, 100, K.hipMemcpyDefault))
        for offset, nbytes in ((0, 101), (1, 100), (99, 2), (100, 1)):
            source = memory + offset
            assert code(hip.hipMemcpy(bytearray(nbytes), source, nbytes, K.hipMemcpyDefault)) == E.hipErrorInvalidValue
            assert code(hip.hipMemcpyAsync(source, first, nbytes, K.hipMemcpyDefault)) == E.hipErrorInvalidValue
    if allocate is hip.hipHostMalloc:
        return
    ok(hip.hipMemset(first, 1, 100))
    ok(set_byte(first, 2))
    ok(set_byte(first + 99, 3))
    assert code(set_byte(first + 100, 4)) == E.hipErrorInvalidValue
    out = np.zeros(100, "u1")
    ok(hip.hipMemcpy(out, first, 100, K.hipMemcpyDeviceToHost))
    assert out.tolist() == [2, *[1] * 98, 3] or not really


def test_memory_that_is_handed_out_again(device, really):
    """The old pointer has the address of the new memory, and is good for as much as that has."""
    old = ok(hip.hipMallocAsync(4096))
    ok(hip.hipFreeAsync(old))
    assert range_of(old) is None
    assert code(hip.hipFreeAsync(old)) == E.hipErrorInvalidValue
    assert code(hip.hipMemcpy(bytearray(1), old, 1, K.hipMemcpyDeviceToHost)) == E.hipErrorInvalidValue
    assert code(set_byte(old, 1)) == E.hipErrorInvalidValue
    new = ok(hip.hipMallocAsync(4000))
    assert int(new) == int(old)
    assert range_of(old) == (int(new), 4000)
    ok(hip.hipMemset(old, 7, 4000))
    assert code(hip.hipMemset(old, 7, 4001)) == E.hipErrorInvalidValue
    out = bytearray(4000)
    ok(hip.hipMemcpy(out, new, 4000, K.hipMemcpyDeviceToHost))
    assert out == bytes([7] * 4000) or not really
    ok(hip.hipFreeAsync(old))
    assert range_of(new) is None


def test_many_allocations_wherever_they_are(device):
    """The program says where: each array of them is filled in the middle, too."""
    arena, rng = np.zeros(64 * 2000, "u1"), random.Random(6)
    bases = [arena.ctypes.data + 64 * i for i in range(2000)]
    known = set()
    for each in (rng.sample(bases, 2000), rng.sample(bases, 1000), rng.sample(bases, 2000)):
        for base in each:
            if base in known:
                ok(hip.hipHostUnregister(base))
                known.remove(base)
            else:
                ok(hip.hipHostRegister(base, 40, 0))
                known.add(base)
        for base in bases:
            there = (base, 40) if base in known else None
            assert range_of(base) == range_of(base + 39) == there
            assert range_of(base + 40) is None
    for base in known:
        ok(hip.hipHostUnregister(base))
