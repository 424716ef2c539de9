import ctypes

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from forebay.core.driver import Language
from forebay.hiprtc.code import pack_code
from tests.helpers.limits import limits

from .conftest import SOURCE, ok
from .helpers import E, K, N, add, code, function_of, ints, launch, read, run

EXPECTED = [1, -2, 3, -4, 5, 6]


def out_of(pointer, count=6):
    out = np.zeros(count, "i4")
    ok(hip.hipMemcpy(out, pointer, out.nbytes, K.hipMemcpyDeviceToHost))
    return out.tolist()


@pytest.fixture
def out(device):
    return ints(6, 0)


def mixed(out):
    return (ctypes.c_float(1), ctypes.c_int(-2), ctypes.c_short(3), ctypes.c_int(-4), ctypes.c_double(5),
            ctypes.c_byte(6), out)  # fmt: skip


@pytest.fixture
def needs_doubles(device):
    if not limits(device.info).doubles:
        pytest.skip("the device has no double precision")


def c_params(values, out):
    address = ctypes.c_void_p(int(out))
    kept = [*values[:-1], address]
    return (ctypes.c_void_p * 7)(*(ctypes.addressof(value) for value in kept)), kept


class Packed(ctypes.Structure):
    _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int), ("c", ctypes.c_short), ("d", ctypes.c_int),
                ("e", ctypes.c_double), ("f", ctypes.c_byte), ("out", ctypes.c_void_p))  # fmt: skip


def c_extra(out):
    packed = Packed(1, -2, 3, -4, 5, 6, int(out))
    size = ctypes.c_size_t(ctypes.sizeof(packed))
    return (ctypes.c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 3), (packed, size)


# What an entry of a list of `kernelParams` may be, for each ctypes value.
ENTRIES = {
    "addresses": ctypes.addressof,
    "c_void_p": lambda value: ctypes.c_void_p(ctypes.addressof(value)),
    "arrays": lambda value: np.frombuffer(value, f"V{ctypes.sizeof(value)}"),
    "pointers": ctypes.pointer,
    "byref": ctypes.byref,
    "values": lambda value: np.uint64(value.value) if isinstance(value, ctypes.c_void_p) else value,
}


@pytest.mark.executes
@pytest.mark.parametrize("form", ["tuple", "list", "numbers", *ENTRIES, "C params", "C extra"])
def test_forms_of_arguments(function, needs_doubles, out, form):
    values, params, extra, kept = mixed(out), None, None, None
    if form == "tuple":
        extra = values
    elif form == "list":
        extra = list(values)
    elif form == "numbers":
        extra = (1.0, -2, 3, -4, 5.0, 6, int(out))
    elif form == "C extra":
        extra, kept = c_extra(out)
    else:
        array, kept = c_params(values, out)
        params = array if form == "C params" else list(map(ENTRIES[form], kept))
    ok(hip.hipModuleLaunchKernel(function("mixed"), 1, 1, 1, 1, 1, 1, 0, None, params, extra))
    assert out_of(out) == EXPECTED
    del kept


@pytest.mark.executes
@pytest.mark.parametrize("packed", [False, True], ids=["C params", "C extra"])
def test_integers_in_arrays_of_addresses(function, packed):
    expected = [255, 65535, 2**32 - 1, 2**62 + 1, -(2**62) - 1]
    memory = ok(hip.hipMalloc(40))

    class Values(ctypes.Structure):
        _fields_ = list(zip("abcdef", (ctypes.c_ubyte, ctypes.c_ushort, ctypes.c_uint, ctypes.c_uint64,
                                       ctypes.c_int64, ctypes.c_void_p), strict=True))  # fmt: skip

    values, size = Values(*expected, int(memory)), ctypes.c_size_t(ctypes.sizeof(Values))
    start = ctypes.addressof(values)
    if packed:
        array = (ctypes.c_void_p * 5)(1, start, 2, ctypes.addressof(size), 3)
    else:
        array = (ctypes.c_void_p * 6)(*(start + getattr(Values, name).offset for name in "abcdef"))
    how = {"extra" if packed else "kernelParams": array}
    ok(hip.hipModuleLaunchKernel(function("integers"), 1, 1, 1, 1, 1, 1, **how))
    out = np.zeros(5, "i8")
    ok(hip.hipMemcpy(out, memory, 40, K.hipMemcpyDeviceToHost))
    assert out.tolist() == expected


@pytest.mark.parametrize("pack", [c_params, c_extra], ids=["C params", "C extra"])
def test_an_array_of_addresses_is_read_at_each_launch(function, needs_doubles, pack, really):
    first, second = ints(6, 0), ints(1 << 18, 0)  # so large that its address is handed out again
    array, kept = c_params(mixed(first), first) if pack is c_params else c_extra(first)
    address = kept[-1] if pack is c_params else kept[0]
    how = {"kernelParams" if pack is c_params else "extra": array}

    def attempt():
        return hip.hipModuleLaunchKernel(function("mixed"), 1, 1, 1, 1, 1, 1, **how)[0]

    assert attempt() == E.hipSuccess
    if pack is c_params:
        address.value, kept[1].value = int(second), 22
    else:
        address.out, address.b = int(second), 22
    assert attempt() == E.hipSuccess
    assert out_of(first) == EXPECTED or not really
    assert out_of(second) == [1, 22, *EXPECTED[2:]] or not really
    ok(hip.hipFree(second))
    assert attempt() == E.hipErrorInvalidValue  # the address is remembered, but its memory is gone
    kept_too = []
    while len(kept_too) < 100 and int(second) not in map(int, kept_too):
        kept_too.append(ints(1 << 18, 0))
    if int(second) in map(int, kept_too):  # most often the first
        assert attempt() == E.hipSuccess
        assert out_of(second) == [1, 22, *EXPECTED[2:]] or not really
    array[1 if pack is c_extra else 6] = None
    assert attempt() == E.hipErrorInvalidValue


@pytest.mark.executes
def test_a_list_of_addresses_is_read_at_each_launch(function):
    memory, value = ints(), ctypes.c_int(1)
    pointer = ctypes.c_void_p(int(memory))
    params = (ctypes.addressof(pointer), ctypes.addressof(value))
    for expected in (1, 2):
        value.value = expected
        ok(hip.hipModuleLaunchKernel(function("fill"), N // 10, 1, 1, 10, 1, 1, 0, None, params))
        assert read(memory) == [expected] * N


@pytest.mark.executes
def test_arguments_in_memory_of_hip_that_the_host_reads(function, device):
    memory, here = ints(), ok(hip.hipHostMalloc(16, 0))
    np.asarray(here).view("u8")[:] = int(memory), 7
    ok(hip.hipModuleLaunchKernel(function("fill"), N // 10, 1, 1, 10, 1, 1, 0, None, [here, int(here) + 8]))
    assert read(memory) == [7] * N
    ok(hip.hipHostFree(here))


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float))


@pytest.mark.executes
@pytest.mark.parametrize(
    "pair", [Pair(7, 8.0), np.array((7, 8.0), [("a", "i4"), ("b", "f4")])[()]], ids=["ctypes", "numpy"]
)
def test_structures(function, out, pair):
    ok(hip.hipModuleLaunchKernel(function("structure"), 1, 1, 1, 1, 1, 1, 0, None, None, (pair, out)))
    assert out_of(out, 2) == [7, 8]


@pytest.mark.executes
@pytest.mark.needs("null pointers after others")
def test_none_is_a_null_pointer_and_so_are_0_and_one_of_ours(device, out):
    source = "kernel void is_null(global int *out, global int *pointer) { out[0] = pointer == 0; }"
    is_null = device.program(source)["is_null"]
    for pointer, expected in ((None, 1), (out, 0), (0, 1), (ctypes.c_void_p(), 1), (fb.NULL, 1), (hip.Pointer(0), 1)):
        ok(hip.hipModuleLaunchKernel(is_null, 1, 1, 1, 1, 1, 1, 0, None, None, (out, pointer)))
        assert out_of(out, 1) == [expected], pointer


@pytest.mark.executes
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_pointers_have_no_type(device, function, dtype):
    """Nor has a Buffer of forebay that stands for one."""
    buffer = device.zeros((5, N * 4 // np.dtype(dtype).itemsize), dtype)
    stream = ok(hip.hipStreamCreate())
    launch(function("fill"), stream, buffer, 7)
    ok(hip.hipModuleLaunchKernel(function("add"), N // 10, 1, 1, 10, 1, 1, 0, stream, None, [buffer, ctypes.c_int(2)]))
    graph = ok(hip.hipGraphCreate(0))
    add(graph, function("add"), buffer, 4)
    run(graph, stream)
    assert buffer[0].view("i4").get().tolist() == [13] * N


@pytest.mark.executes
def test_dynamic_local_memory(function):
    memory = ok(hip.hipMalloc(40))
    ok(hip.hipMemcpy(memory, np.arange(10, dtype="i4"), 40, K.hipMemcpyHostToDevice))
    for _ in range(2):
        launch(function("reverse"), None, memory, groups=2, block=5, shared=20)
    launch(function("reverse"), None, memory, groups=1, block=10, shared=40)
    assert read(memory, 10) == list(range(9, -1, -1))


def test_dim3():
    assert list(hip.dim3()) == [1, 1, 1]
    assert list(hip.dim3(2, 3)) == [2, 3, 1]
    assert hip.dim3(8.0).x == hip.dim3(8)[0] == hip.dim3(8)["x"] == 8
    assert hip.dim3(1, 2) == hip.dim3(1, 2, 1)
    for wrong in (8.5, "8", None, -1, 1 << 32):
        with pytest.raises((TypeError, ValueError)):
            hip.dim3(wrong)


# Launches that cannot be


# Modules


@pytest.mark.parametrize(
    "image",
    [SOURCE, SOURCE.encode(), bytearray(SOURCE.encode() + b"\0"), np.frombuffer(SOURCE.encode(), "u1")],
    ids=["str", "bytes", "bytearray", "numpy"],
)
def test_images(device, image):
    module = ok(hip.hipModuleLoadData(image))
    assert ok(hip.hipModuleGetFunctionCount(module)) == 8
    assert ok(hip.hipModuleGetFunction(module, "fill")) == ok(hip.hipModuleGetFunction(int(module), b"fill"))
    ok(hip.hipModuleUnload(module))


def test_files(device, tmp_path):
    path = tmp_path / "module.cl"
    path.write_text(SOURCE)
    ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoad(str(path).encode())), b"add"))
    ok(hip.hipModuleLoad(str(path)))
    assert code(hip.hipModuleLoad(str(tmp_path / "none"))) == E.hipErrorFileNotFound
    for wrong in (None, b"", ""):
        assert code(hip.hipModuleLoad(wrong)) == E.hipErrorInvalidValue


def test_a_code_object_that_is_damaged(device):
    whole = pack_code("damaged", Language.OPENCL_C, SOURCE)
    ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoadData(bytearray(whole))), b"fill"))
    assert code(hip.hipModuleLoadData(whole[:-3])) == E.hipErrorInvalidImage
    assert "damaged" in str(hip.last_exception())


# What functions are like


FOLLOWS = b"""extern "C" __global__ void gather(int** rows, int* out) { out[blockIdx.x] = rows[blockIdx.x][0]; }"""


@pytest.mark.executes
@pytest.mark.needs("a compiler of HIP C++")
def test_pointers_in_memory(device):
    """What is found there is ready for the kernel, without being told."""
    gather, rows = function_of(FOLLOWS, b"gather"), [ints(10, value) for value in (3, 4, 5)]
    table, out = ok(hip.hipMalloc(24)), ints(3)
    ok(hip.hipMemcpy(table, np.array([int(row) for row in rows], "u8"), 24, K.hipMemcpyHostToDevice))
    launch(gather, None, table, out, groups=3, block=1)
    assert read(out, 3) == [3, 4, 5]


@pytest.mark.executes
def test_numpys_bool_is_an_integer(function):
    out, values = ok(hip.hipMalloc(40)), [np.True_, True, np.False_, np.array(True), np.True_]
    ok(hip.hipModuleLaunchKernel(function("integers"), 1, 1, 1, 1, 1, 1, 0, None, None, [*values, out]))
    assert read(out, 10) == [1, 0, 1, 0, 0, 0, 1, 0, 1, 0]
