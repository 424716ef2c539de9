"""Arguments of all types by value, in one packed buffer, by their addresses and one by one: generated kernels."""

import ctypes
import random
from typing import NamedTuple

import pytest

from forebay import hip
from tests.helpers.device_data import device_data

from ..conftest import ok
from ..helpers import K, compiled

SCALARS = {"char": ctypes.c_char, "short": ctypes.c_short, "int": ctypes.c_int, "long long": ctypes.c_longlong,
           "float": ctypes.c_float, "double": ctypes.c_double}  # fmt: skip
VECTORS = {"uchar4": (1, 4), "short2": (2, 2), "int3": (4, 3), "float2": (4, 2), "float4": (4, 4), "double2": (8, 2)}
CLANGS = {"four_shorts": (2, 4), "three_floats": (4, 3)}  # a vector of three has the place of four here
HEAD = """
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
    return "\n".join([HEAD, *generator.declared, *lines])


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
