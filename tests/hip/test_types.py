"""hip-python's types for arguments of C (`hip._util.types`), and the texts that HIP returns."""

import copy
import ctypes
import pickle
import weakref

import numpy as np
import pytest

from forebay import hip, hiprtc
from forebay.c_string import CString
from forebay.core.errors import InvalidArgumentError
from forebay.hip import types
from tests.helpers.device_data import device_data

from .conftest import ok


def test_texts():
    text = types.CStr("h\u00e4b")
    assert (str(text), text[0], text[1:], len(text)) == ("h\u00e4b", "h", "\u00e4b", 4)
    assert bytes(text) == text.encode() == b"h\xc3\xa4b"
    assert text.decode("latin-1") == "h\u00c3\u00a4b"
    same = types.CStr(text.address)
    assert types.CStr.fromObj(same) is same
    assert str(same) == str(text)
    assert str(types.CStr(bytearray(b"abc\0def"))) == "abc"
    room = types.CStr()
    assert (not room, len(room), str(room)) == (True, 0, "")
    room.malloc(3)
    ctypes.memmove(room.address, b"xyz", 3)
    assert str(room) == "xyz"
    room.free()
    assert not room


@pytest.mark.parametrize("name", ["Int", "Unsigned", "Long", "UnsignedLong", "Int64", "UInt64"])
def test_numbers(name):
    several, one = getattr(types, f"ListOf{name}"), getattr(types, f"PointerTo{name}")
    numbers = several([3, 1, 2])
    assert (list(numbers), numbers.to_tuple(), numbers[1:], len(numbers)) == ([3, 1, 2], (3, 1, 2), [1, 2], 3)
    copied = (numbers._element * 3).from_address(int(numbers))
    assert list(copied) == [3, 1, 2]
    assert several.allocate(2).to_list() == [0, 0]
    pointer = one.allocate()
    pointer.value = 7
    assert isinstance(pointer, several)
    assert (pointer.value, pointer[0]) == (7, 7)
    assert one(numbers.address).value == 3
    with pytest.raises(InvalidArgumentError, match=f"PointerTo{name} points to one number"):
        one([1, 2])
    with pytest.raises(InvalidArgumentError, match=f"ListOf{name} that was made from a pointer has no known length"):
        len(several(numbers.address))
    with pytest.raises(InvalidArgumentError, match=f"PointerTo{name} is a null pointer"):
        _ = one().value


def test_addresses_and_lists_of_texts():
    array = np.zeros(3)
    pointers = types.ListOfPointer([array, None, 5])
    assert pointers.to_list() == [hip.Pointer(array), hip.Pointer(), hip.Pointer(5)]
    assert (ctypes.c_void_p * 3).from_address(int(pointers))[0] == array.ctypes.data
    assert types.ListOfPointer.allocate(2).to_list() == [None, None]
    texts = types.ListOfBytes(["a", b"bc", types.CStr("d")])
    assert [str(text) for text in texts] == ["a", "bc", "d"]


def test_buffers():
    """An NDBuffer in memory of the host is one, with its shape and type."""
    array = np.arange(6, dtype="f4")
    view = memoryview(types.NDBuffer(array).configure(shape=(2, 3), typestr="f4", _force=True))
    assert (view.shape, view.format, view.tolist()) == ((2, 3), "f", [[0, 1, 2], [3, 4, 5]])
    view[1, 2] = 9
    assert array[5] == 9
    there = weakref.ref(array)
    del array
    assert there() is not None
    del view
    assert there() is None
    assert memoryview(types.CStr("abc")) == b"abc"
    read_only = types.NDBuffer(np.zeros(2, "u1")).configure(shape=(2,), read_only=True, _force=True)
    assert memoryview(read_only).readonly
    with pytest.raises(TypeError, match="does not tell how much there is"):
        memoryview(hip.Pointer(np.zeros(2)))
    with pytest.raises(TypeError, match="null pointer"):
        memoryview(hip.NDBuffer())


def test_buffers_of_memory_from_here(device):
    memory = ok(hip.hipMalloc(16))
    with pytest.raises(TypeError, match="copy it with hipMemcpy"):
        memoryview(memory)
    assert hip.hipFree(memory) == (0,)
    pinned = ok(hip.hipHostMalloc(16, 0))
    memoryview(pinned)[3] = 7
    assert np.asarray(pinned)[3] == 7
    assert hip.hipHostFree(pinned) == (0,)


def test_functions_take_them(device):
    """A text, and addresses of the arguments of a launch."""
    module = ok(hip.hipModuleLoadData(types.CStr("kernel void set(global int *x, int n) { *x = n; }")))
    function, memory = ok(hip.hipModuleGetFunction(module, types.CStr("set"))), ok(hip.hipMalloc(4))
    at = types.ListOfPointer([ctypes.c_uint64(int(memory)), types.PointerToInt([9])])
    assert hip.hipModuleLaunchKernel(function, *[1] * 6, 0, None, at, None) == (0,)
    back = types.PointerToInt.allocate()
    assert hip.hipMemcpyDtoH(back, memory, 4) == (0,)
    assert hip.hipFree(memory) == (0,)
    assert hip.hipModuleUnload(module) == (0,)
    assert device_data(back.value) == 9


def test_whether_a_function_is_there():
    names = ["hipMalloc", b"hipMemcpyAsync", "hipMemCreate", "hipError_t", "hipNothing"]
    assert [hip.has_symbol(name) for name in names] == [True, True, False, False, False]
    names = ["hiprtcCompileProgram", "hiprtcResult", "hipMalloc"]
    assert [hiprtc.has_symbol(name) for name in names] == [True, False, False]


def test_structures_know_their_size_in_c():
    extent = hip.hipExtent(1, 2, 3)
    assert hip.hipExtent.fromObj(extent) is extent
    assert hip.hipIpcMemHandle_t().c_sizeof() == len(bytes(hip.hipIpcMemHandle_t()))
    assert (extent.c_sizeof(), hip.hipDeviceProp_t().c_sizeof(), hip.float3().c_sizeof()) == (24, 1472, 12)
    assert hip.dim3(1, 2).c_sizeof() == 12
    assert tuple(hip.dim3.fromObj((1, 2))) == (1, 2, 1)
    assert hip.float2.fromObj([1, 2]) == hip.float2(1, 2)
    with pytest.raises(TypeError, match="fromObj takes a hipExtent, not int"):
        hip.hipExtent.fromObj(5)


def test_members_are_also_reached_by_functions():
    extent = hip.hipExtent(1, 2, 3)
    extent.set_width(0, 9)
    assert (extent.get_width(0), extent.width) == (9, 9)
    assert hip.hipUUID_t().get_bytes(0) == bytes(16)
    with pytest.raises(IndexError):
        extent.get_width(1)
    with pytest.raises(AttributeError, match="hipExtent has no member 'get_size'"):
        _ = extent.get_size
    assert copy.deepcopy(extent).width == 9


def test_other_names():
    assert hip.hipArray_t is hip.hipArray
    assert hip.HIP_TEXTURE_DESC_st is hip.HIP_TEXTURE_DESC
    assert (hip.HIP_SUCCESS, hip.HIP_ERROR_LAUNCH_OUT_OF_RESOURCES, hip.hipTextureTypeCubemap) == (0, 3, 12)
    assert {"hipArray_t", "HIP_SUCCESS", "has_symbol"} <= set(hip.__all__)
    _code, state = hiprtc.hiprtcLinkCreate()
    assert isinstance(state, hiprtc.hiprtcLinkState)
    assert hiprtc.hiprtcLinkDestroy(hip_link_state=state)[0] == 0


ARCH = CString(b"gfx90a:xnack-")
BOTH = (  # what is made of it, and what bytes or str would make
    (b"--arch=" + ARCH, b"--arch=gfx90a:xnack-"), ("--arch=" + ARCH, "--arch=gfx90a:xnack-"),
    (ARCH + b",", b"gfx90a:xnack-,"), (ARCH + ",", "gfx90a:xnack-,"), (b",".join([ARCH, b""]), b"gfx90a:xnack-,"),
    (ARCH.decode("utf-8"), "gfx90a:xnack-"), (ARCH.encode(), b"gfx90a:xnack-"), (str(ARCH), "gfx90a:xnack-"),
    (ARCH.split(b":")[0], b"gfx90a"), (ARCH.split(":")[0], "gfx90a"),
    (ARCH.split(sep=":", maxsplit=1), ["gfx90a", "xnack-"]), (ARCH.removesuffix(":xnack-"), "gfx90a"),
    (ARCH.startswith((b"gfx8", b"gfx9")), True), (ARCH.startswith(("gfx8", "gfx9")), True),
    (b"gfx" in ARCH, True), ("gfx" in ARCH, True), (ARCH[0], ord("g")), (repr(ARCH), "b'gfx90a:xnack-'"),
    (f"{ARCH}|{ARCH:>15}", "gfx90a:xnack-|  gfx90a:xnack-"), ("%s" % ARCH, "gfx90a:xnack-"),  # noqa: UP031
    (CString(b"\xff") + ".", "\N{REPLACEMENT CHARACTER}."),
)  # fmt: skip


def test_a_text_of_hip_does_what_bytes_and_str_do():
    """Such texts are bytes to programs for hip-python up to 7, and str to those for its version 10."""
    assert isinstance(ARCH, bytes)
    for made, expected in BOTH:
        assert (made, type(made)) == (expected, type(expected))
    assert memoryview(ARCH).nbytes == 13
    assert pickle.loads(pickle.dumps(ARCH)) == ARCH


def test_it_equals_either():
    for text in ("gfx90a:xnack-", b"gfx90a:xnack-"):
        assert text == ARCH
        assert (text != ARCH) is False
        assert {ARCH: 1}[text] == {text: 1}[ARCH] == 1
        assert text[:6] != ARCH
        assert ARCH[:6] == text[:6]


def test_what_neither_can_do_is_an_error():
    for wrong in (lambda: ARCH + 1, lambda: 1 + ARCH, lambda: ARCH.replace("a", b"b")):
        with pytest.raises(TypeError):
            wrong()
