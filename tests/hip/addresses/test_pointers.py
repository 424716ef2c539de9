import ctypes

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from tests.helpers.refusals import refused

from ..conftest import ok


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
