"""The forms in which launches and nodes of kernels take arguments, and what launches do with them."""

import copy
import ctypes
import random
from typing import NamedTuple

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from tests.helpers.device_data import device_data
from tests.helpers.limits import limits

from ..conftest import ok
from ..helpers import E, K, N, add, code, compiled, function_of, ints, launch, read, run


class Mixed(ctypes.Structure):
    _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int), ("c", ctypes.c_short), ("d", ctypes.c_int),
                ("e", ctypes.c_double), ("f", ctypes.c_byte), ("out", ctypes.c_void_p))  # fmt: skip


class Integers(ctypes.Structure):
    _fields_ = (("a", ctypes.c_ubyte), ("b", ctypes.c_ushort), ("c", ctypes.c_uint), ("d", ctypes.c_uint64),
                ("e", ctypes.c_int64), ("out", ctypes.c_void_p))  # fmt: skip


KERNELS = {  # the structure of the arguments, the values, and the type of the results
    "mixed": (Mixed, [1, -2, 3, -4, 5, 6], "i4"),
    "integers": (Integers, [255, 65535, 2**32 - 1, 2**62 + 1, -(2**62) - 1], "i8"),
}


def parts(made):
    """The members of a structure, as ctypes values in its memory."""
    return [kind.from_buffer(made, getattr(type(made), name).offset) for name, kind in made._fields_]


def addresses(made):
    return [ctypes.addressof(part) for part in parts(made)]


def five_words(made):
    size = ctypes.c_size_t(ctypes.sizeof(made))
    made.kept = size
    return [hip.HIP_LAUNCH_PARAM_BUFFER_POINTER, ctypes.addressof(made), hip.HIP_LAUNCH_PARAM_BUFFER_SIZE,
            ctypes.addressof(size), hip.HIP_LAUNCH_PARAM_END]  # fmt: skip


def with_pointer(made):
    return [*parts(made)[:-1], hip.Pointer(made.out)]


FORMS = {
    "values": lambda made: {"extra": with_pointer(made)},
    "a tuple of values": lambda made: {"extra": tuple(with_pointer(made))},
    "numbers": lambda made: {"extra": [getattr(made, name) for name, _ in made._fields_]},
    "a list of the five words": lambda made: {"extra": five_words(made)},
    "C's array of the five words": lambda made: {"extra": (ctypes.c_void_p * 5)(*five_words(made))},
    "addresses": lambda made: {"kernelParams": addresses(made)},
    "C's array of addresses": lambda made: {"kernelParams": (ctypes.c_void_p * len(made._fields_))(*addresses(made))},
    "c_void_p": lambda made: {"kernelParams": list(map(ctypes.c_void_p, addresses(made)))},
    "arrays": lambda made: {"kernelParams": [np.frombuffer(part, f"V{ctypes.sizeof(part)}") for part in parts(made)]},
    "pointers": lambda made: {"kernelParams": list(map(ctypes.pointer, parts(made)))},
    "byref": lambda made: {"kernelParams": list(map(ctypes.byref, parts(made)))},
    "values and an address": lambda made: {"kernelParams": [*parts(made)[:-1], np.uint64(made.out)]},
}
READ_AT_EACH_LAUNCH = ["a list of the five words", "C's array of the five words", "addresses", "C's array of addresses"]


@pytest.fixture(params=KERNELS)
def kernel(request, device, function):
    if request.param == "mixed" and not limits(device.info).doubles:
        pytest.skip("the device has no double precision")
    return function(request.param), *KERNELS[request.param]


def results(memory, dtype, count):
    out = np.zeros(count, dtype)
    ok(hip.hipMemcpy(out, memory, out.nbytes, K.hipMemcpyDeviceToHost))
    return out.tolist()


@pytest.mark.parametrize("form", FORMS)
def test_forms(kernel, graph, streams, form):
    """Of a launch, and of a node, which reads them when it is added."""
    function, structure, values, dtype = kernel
    memory = ok(hip.hipMalloc(64))
    made = structure(*values, int(memory))
    ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, **FORMS[form](made)))
    assert device_data(results(memory, dtype, len(values))) == values
    ok(hip.hipMemset(memory, 0, 64))
    params = hip.hipKernelNodeParams(func=function, gridDim=1, blockDim=1, **FORMS[form](made))
    ok(hip.hipGraphAddKernelNode(graph, None, 0, params))
    made.b = 0
    run(graph, streams(1)[0])
    assert device_data(results(memory, dtype, len(values))) == values


@pytest.mark.parametrize("form", READ_AT_EACH_LAUNCH)
def test_what_addresses_point_to_is_read_at_each_launch(kernel, form, really):
    function, structure, values, dtype = kernel
    first, second = ok(hip.hipMalloc(64)), ints(1 << 18, 0)  # so large that its address is handed out again
    made = structure(*values, int(first))
    how = FORMS[form](made)
    changed = [values[0], 22, *values[2:]]

    def attempt():
        return hip.hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, **how)[0]

    assert attempt() == E.hipSuccess
    made.out, made.b = int(second), 22
    assert attempt() == E.hipSuccess
    assert results(first, dtype, len(values)) == values or not really
    assert results(second, dtype, len(values)) == changed or not really
    ok(hip.hipFree(second))
    assert attempt() == E.hipErrorInvalidValue  # the address is remembered, but its memory is gone
    others = []
    while len(others) < 100 and int(second) not in map(int, others):
        others.append(ints(1 << 18, 0))
    if int(second) in map(int, others):  # most often the first
        assert attempt() == E.hipSuccess
        assert results(second, dtype, len(values)) == changed or not really


def test_arguments_in_memory_of_hip_that_the_host_reads(function, device):
    memory, here = ints(), ok(hip.hipHostMalloc(16, 0))
    np.asarray(here).view("u8")[:] = int(memory), 7
    ok(hip.hipModuleLaunchKernel(function("fill"), N // 10, 1, 1, 10, 1, 1, 0, None, [here, int(here) + 8]))
    assert device_data(read(memory)) == [7] * N
    ok(hip.hipHostFree(here))


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float))


@pytest.mark.parametrize(
    "pair", [Pair(7, 8.0), np.array((7, 8.0), [("a", "i4"), ("b", "f4")])[()]], ids=["ctypes", "numpy"]
)
def test_structures(function, device, pair):
    out = ints(2)
    ok(hip.hipModuleLaunchKernel(function("structure"), 1, 1, 1, 1, 1, 1, 0, None, None, (pair, out)))
    assert device_data(read(out, 2)) == [7, 8]


@pytest.mark.needs("null pointers after others")
def test_none_is_a_null_pointer_and_so_are_0_and_one_of_ours(device):
    out, is_null = ints(1), device.program(
        "kernel void is_null(global int *out, global int *pointer) { out[0] = pointer == 0; }"
    )["is_null"]  # fmt: skip
    for pointer, expected in ((None, 1), (out, 0), (0, 1), (ctypes.c_void_p(), 1), (fb.NULL, 1), (hip.Pointer(0), 1)):
        ok(hip.hipModuleLaunchKernel(is_null, 1, 1, 1, 1, 1, 1, 0, None, None, (out, pointer)))
        assert device_data(read(out, 1)) == [expected], pointer


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
    assert device_data(buffer[0].view("i4").get().tolist()) == [13] * N


FOLLOWS = b"""extern "C" __global__ void gather(int** rows, int* out) { out[blockIdx.x] = rows[blockIdx.x][0]; }"""


@pytest.mark.needs("a compiler of HIP C++")
def test_pointers_in_memory(device):
    """What is found there is ready for the kernel, without being told."""
    gather, rows = function_of(FOLLOWS, b"gather"), [ints(10, value) for value in (3, 4, 5)]
    table, out = ok(hip.hipMalloc(24)), ints(3)
    ok(hip.hipMemcpy(table, np.array([int(row) for row in rows], "u8"), 24, K.hipMemcpyHostToDevice))
    launch(gather, None, table, out, groups=3, block=1)
    assert device_data(read(out, 3)) == [3, 4, 5]


def test_numpys_bool_is_an_integer(function):
    out, values = ok(hip.hipMalloc(40)), [np.True_, True, np.False_, np.array(True), np.True_]
    ok(hip.hipModuleLaunchKernel(function("integers"), 1, 1, 1, 1, 1, 1, 0, None, None, [*values, out]))
    assert device_data(read(out, 10)) == [1, 0, 1, 0, 0, 0, 1, 0, 1, 0]


# HIP's vector types, and structures as arguments for a kernel's vectors


SOURCE = b"""
kernel void vectors(float3 a, float4 b, uchar4 c, int2 d, global float *out) {
    out[0] = a.x; out[1] = a.y; out[2] = a.z; out[3] = b.w; out[4] = c.w; out[5] = d.y; out[6] = b.x; out[7] = d.x;
}
"""
GIVEN = [1, 2, 3, 7, 200, -2, 4, -1]


class Mine(ctypes.Structure):
    _fields_ = (("first", ctypes.c_float), ("rest", ctypes.c_float * 3))


@pytest.fixture
def vectors(device):
    return function_of(SOURCE, b"vectors")


def arguments(b=None):
    return [hip.float3(1, 2, 3), b or hip.float4(4, 5, 6, 7), hip.uchar4(w=200), hip.int2(-1, -2)]


def launched(vectors, params=None, extra=None):
    ok(hip.hipModuleLaunchKernel(vectors, 1, 1, 1, 1, 1, 1, 0, None, params, extra))


@pytest.mark.needs("OpenCL")
@pytest.mark.parametrize("way", ["extra", "values", "addresses", "own structure"])
def test_a_kernel_gets_them(vectors, way):
    out, got = ok(hip.hipMalloc(32)), np.zeros(8, "f4")
    own = arguments(Mine(4, (5, 6, 7)) if way == "own structure" else None)
    pointer = ctypes.c_void_p(int(out))
    if way == "addresses":
        launched(vectors, [ctypes.addressof(each) for each in (*own, pointer)])
    elif way == "values":
        launched(vectors, [*own, ctypes.addressof(pointer)])
    else:
        launched(vectors, extra=(*own, out))
    ok(hip.hipMemcpy(got, out, 32, K.hipMemcpyDeviceToHost))
    assert got.tolist() == GIVEN


@pytest.mark.needs("OpenCL")
def test_structures_of_another_size(vectors, works):
    out = ok(hip.hipMalloc(32))
    for wrong in (hip.float2(), hip.double4(), Mine * 2):
        given = arguments()
        given[1] = wrong() if isinstance(wrong, type) else wrong
        launch = hip.hipModuleLaunchKernel(vectors, 1, 1, 1, 1, 1, 1, 0, None, None, (*given, out))
        assert code(launch) == E.hipErrorInvalidValue
        assert "argument 1" in str(hip.last_exception())
    works(None)


def test_sizes_are_hips():
    sizes = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8, "longlong": 8,
             "ulonglong": 8, "float": 4, "double": 8}  # fmt: skip
    for element, nbytes in sizes.items():
        for count in range(1, 5):
            vector = getattr(hip, f"{element}{count}")
            assert ctypes.sizeof(vector) == nbytes * count
            assert vector.PROPERTIES() == list("xyzw"[:count])
            assert vector().c_sizeof() == nbytes * count


def test_they_are_sequences():
    made = hip.float4(1, 2, w=4)
    assert tuple(made) == (1, 2, 0, 4)
    assert (made.x, made["y"], made[-1], len(made)) == (1, 2, 4, 4)
    assert made == copy.copy(made) == hip.float4(*made)
    assert hash(made) == hash(hip.float4(*made))
    assert made != hip.float4() != (0, 0, 0, 0)
    assert hip.int2(1, 2) != hip.uint2(1, 2)
    assert repr(hip.int2(1, -2)) == "int2(x=1, y=-2)"
    made.y = 9
    assert np.frombuffer(made, "f4").tolist() == [1, 9, 0, 4]
    assert made.as_c_void_p().value == ctypes.addressof(made)
    with pytest.raises(TypeError):
        hip.float2(1, 2, 3)
    with pytest.raises(TypeError):
        hip.float2("1")
    with pytest.raises(IndexError):
        hip.float2()[2]


# Of all types by value, in one packed buffer, by their addresses and one by one: generated kernels


SCALARS = {"char": ctypes.c_char, "short": ctypes.c_short, "int": ctypes.c_int, "long long": ctypes.c_longlong,
           "float": ctypes.c_float, "double": ctypes.c_double}  # fmt: skip
VECTORS = {"uchar4": (1, 4), "short2": (2, 2), "int3": (4, 3), "float2": (4, 2), "float4": (4, 4), "double2": (8, 2)}
CLANGS = {"four_shorts": (2, 4), "three_floats": (4, 3)}  # a vector of three has the place of four here
PACKED_HEAD = """
template <class T> __device__ void put(unsigned char*& to, T value) {
    const unsigned char* from = (const unsigned char*)&value;
    for (int i = 0; i < sizeof(T); i++) *to++ = from[i];
}
"""
CLANGS_HEAD = """
typedef short four_shorts __attribute__((ext_vector_type(4)));
typedef float three_floats __attribute__((ext_vector_type(3)));
"""


class Type(NamedTuple):
    """A type as C lays it out: how a member of it is declared, and where its elements are, each with its bytes."""

    name: str
    nbytes: int
    alignment: int
    leaves: list[tuple[str, int, int]]
    dimensions: str = ""


def up(at, alignment):
    return -(-at // alignment) * alignment


class Generator:
    """Makes types, and the source that declares them."""

    def __init__(self, seed, vectors):
        self.draw, self.declared, self.vectors = random.Random(seed), [], vectors

    def scalar(self):
        name = self.draw.choice(list(SCALARS))
        nbytes = ctypes.sizeof(SCALARS[name])
        return Type(name, nbytes, nbytes, [("", 0, nbytes)])

    def vector(self):
        name = self.draw.choice(list(self.vectors))
        element, count = self.vectors[name]
        nbytes = element * (4 if name in CLANGS and count == 3 else count)
        alignment = element if name in VECTORS and count == 3 else nbytes
        return Type(name, nbytes, alignment, [(f".{'xyzw'[i]}", i * element, element) for i in range(count)])

    def array(self, of):
        count = self.draw.randint(1, 3)
        leaves = [(f"[{i}]{path}", i * of.nbytes + at, size) for i in range(count) for path, at, size in of.leaves]
        return of._replace(nbytes=count * of.nbytes, leaves=leaves, dimensions=f"[{count}]{of.dimensions}")

    def compound(self, depth):
        """Clang does not pack what has a constructor, as HIP's vectors have, so there are only numbers in some."""
        word, packed = self.draw.choice(["struct"] * 4 + ["union"]), self.draw.random() < 0.3
        stated = self.draw.choice([0, 0, 4 if packed else 16])
        attributes = "__attribute__((packed)) " * packed + f"__attribute__((aligned({stated}))) " * bool(stated)
        lines, leaves, end, alignment = [], [], 0, stated or 1
        for i in range(self.draw.randint(1, 4)):
            member = self.scalar() if packed or word == "union" else self.any(depth)
            member = self.array(member) if self.draw.random() < 0.2 else member
            own = 1 if packed else member.alignment
            own, prefix = (16, "alignas(16) ") if not packed and self.draw.random() < 0.1 else (own, "")
            at = up(end, own) if word == "struct" else 0
            end, alignment = max(end, at + member.nbytes), max(alignment, own)
            lines.append(f"{prefix}{member.name} m{i}{member.dimensions};")
            leaves += [(f".m{i}{path}", at + inner, size) for path, inner, size in member.leaves]
        name = f"T{len(self.declared)}"
        self.declared.append(f"{word} {attributes}{name} {{ {' '.join(lines)} }};")
        return Type(name, up(end, alignment), alignment, leaves)

    def any(self, depth):
        (kind,) = self.draw.choices("svc", [4, 2, 3 if depth else 0])
        return self.scalar() if kind == "s" else self.vector() if kind == "v" else self.compound(depth - 1)

    def argument(self):
        return self.compound(2) if self.draw.random() < 0.6 else self.any(0)

    def value(self, of):
        if of.name in ("float", "double"):
            return bytes(SCALARS[of.name](self.draw.uniform(-1e6, 1e6)))
        return self.draw.randbytes(of.nbytes)


def source_of(generator, kernels):
    lines = []
    for number, types in enumerate(kernels):
        declared = ", ".join(f"{each.name} a{i}" for i, each in enumerate(types))
        puts = " ".join(f"put(to, a{i}{path});" for i, each in enumerate(types) for path, _, _ in each.leaves)
        lines.append(f'extern "C" __global__ void k{number}(unsigned char* to, {declared}) {{ {puts} }}')
    return "\n".join([PACKED_HEAD, *generator.declared, *lines])


@pytest.mark.needs("a compiler of HIP C++")
@pytest.mark.parametrize("seed", range(4))
def test_generated_types(device, seed):
    clang = device.info.backend != "cuda"
    generator = Generator(seed, VECTORS | (CLANGS if clang else {}))
    kernels = [[generator.argument() for _ in range(generator.draw.randint(1, 5))] for _ in range(16)]
    source = CLANGS_HEAD * clang + source_of(generator, kernels)
    module, memory = ok(hip.hipModuleLoadData(compiled(source.encode()))), ok(hip.hipMalloc(1 << 14))
    for number, types in enumerate(kernels):
        function = ok(hip.hipModuleGetFunction(module, f"k{number}".encode()))
        values = [generator.value(each) for each in types]
        expected = b"".join(
            value[at : at + size] for value, each in zip(values, types, strict=True) for _, at, size in each.leaves
        )
        packed = bytearray(int(memory).to_bytes(8, "little"))
        for i, (value, each) in enumerate(zip(values, types, strict=True)):
            packed += bytes(up(len(packed), each.alignment) - len(packed))
            assert ok(hip.hipKernelGetParamInfo(function, i + 1)) == (len(packed), each.nbytes)
            packed += value
        buffer, size = (ctypes.c_char * len(packed)).from_buffer(packed), ctypes.c_size_t(len(packed))
        words = [1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 3]
        held = [ctypes.create_string_buffer(each, len(each)) for each in (bytes(packed[:8]), *values)]
        one_by_one = [
            SCALARS[each.name].from_buffer_copy(value) if each.name in SCALARS else value
            for value, each in zip(values, types, strict=True)
        ]
        for params, extra in (
            (None, (ctypes.c_void_p * 5)(*words)), ([ctypes.addressof(each) for each in held], None),
            (None, (memory, *one_by_one)),
        ):  # fmt: skip
            ok(hip.hipMemset(memory, 0, len(expected)))
            ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, params, extra))
            got = bytearray(len(expected))
            ok(hip.hipMemcpy(got, memory, len(got), K.hipMemcpyDeviceToHost))
            assert device_data(got) == expected, (number, types, generator.declared)
