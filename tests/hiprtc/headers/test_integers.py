"""Intrinsics on integers, packed integers and bits, and conversions: rows of calls, with Python's integers and NumPy."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences, case, kernel_differences

from .rounding import MODES, nearest

pytestmark = pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")

COUNT = 64
MASK = 0xFFFFFFFF
RANDOM = np.random.default_rng(2)
X, Y, Z = RANDOM.integers(0, 1 << 32, (3, COUNT), dtype="u4")
X[:8] = 0, MASK, 1 + (1 << 31), 0x80808080, 0x80008000, 0x7FFF7F7F, 0, 1 << 31
Y[:8] = MASK, 0, 1 << 31, 0x80808080, 0x7FFF7F7F, 3, 0, 5
Y[10:20] = X[10:20]
LANE = np.arange(COUNT)


def signed(x, bits=32):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def byte_perm(x, y, s):
    both = (y << 32 | x).to_bytes(8, "little")
    return int.from_bytes(bytes(both[s >> 4 * i & 7] for i in range(4)), "little")


def reverse(x, bits=32):
    return int(f"{x:0{bits}b}"[::-1], 2)


def places(x, first=0, last=31):
    return [place for place in range(first, last + 1) if x >> place & 1]


def each(function):
    """A function of Python's integers, modulo 2**64, for arrays."""
    return lambda *arrays: np.array([function(*map(int, one)) % (1 << 64) for one in zip(*arrays, strict=True)], "u8")


# Calls on unsigned x, y, z.
SCALARS = {
    "__popc(x)": lambda x, y, z: x.bit_count(),
    "__popcll((unsigned long long)x << 32 | y)": lambda x, y, z: x.bit_count() + y.bit_count(),
    "__clz(x)": lambda x, y, z: 32 - x.bit_length(),
    "__clz(0) + __clzll(0) + __ffs(0) + __ffsll(0)": lambda x, y, z: 96,
    "__clzll(x)": lambda x, y, z: 64 - x.bit_length(),
    "__ffs(x)": lambda x, y, z: (x & -x).bit_length(),
    "__ffsll((unsigned long long)x << 32)": lambda x, y, z: (x << 32 & -(x << 32)).bit_length(),
    "__brev(x)": lambda x, y, z: reverse(x),
    "__brevll(x)": lambda x, y, z: reverse(x, 64),
    "__mul24(x, y)": lambda x, y, z: signed(signed(x << 8) // 256 * (signed(y << 8) // 256)),
    "__umul24(x, y)": lambda x, y, z: (x & 0xFFFFFF) * (y & 0xFFFFFF) & MASK,
    "__mulhi((int)x, (int)y)": lambda x, y, z: signed(x) * signed(y) >> 32,
    "__umulhi(x, y)": lambda x, y, z: x * y >> 32,
    "__umul64hi((unsigned long long)x << 32, (unsigned long long)y << 16)": lambda x, y, z: (x << 32) * (y << 16) >> 64,
    "__mul64hi((long long)(int)x << 32, (int)y)": lambda x, y, z: (signed(x) << 32) * signed(y) >> 64,
    "__sad((int)x, (int)y, z)": lambda x, y, z: (abs(signed(x) - signed(y)) + z) & MASK,
    "__usad(x, y, z)": lambda x, y, z: (abs(x - y) + z) & MASK,
    "__hadd((int)x, (int)y)": lambda x, y, z: (signed(x) + signed(y)) >> 1,
    "__uhadd(x, y)": lambda x, y, z: (x + y) >> 1,
    "__rhadd((int)x, (int)y)": lambda x, y, z: (signed(x) + signed(y) + 1) >> 1,
    "__urhadd(x, y)": lambda x, y, z: (x + y + 1) >> 1,
    "__funnelshift_l(x, y, z)": lambda x, y, z: ((y << 32 | x) << (z & 31)) >> 32 & MASK,
    "__funnelshift_r(x, y, z)": lambda x, y, z: (y << 32 | x) >> (z & 31) & MASK,
    "__funnelshift_lc(x, y, z & 63)": lambda x, y, z: ((y << 32 | x) << min(z & 63, 32)) >> 32 & MASK,
    "__funnelshift_rc(x, y, z & 63)": lambda x, y, z: (y << 32 | x) >> min(z & 63, 32) & MASK,
    "__byte_perm(x, y, z)": byte_perm,
    "__bitextract_u32(x, 5, 7)": lambda x, y, z: x >> 5 & 127,
    "__bitinsert_u32(x, y, 5, 7)": lambda x, y, z: x & ~(127 << 5) | (y & 127) << 5,
    "min((int)x, (int)y)": lambda x, y, z: min(signed(x), signed(y)),
    "max(x, y)": lambda x, y, z: max(x, y),
    "abs((int)(x | 1))": lambda x, y, z: abs(signed(x | 1)),
    "__fns(x, 0, 3)": lambda x, y, z: (places(x) + 3 * [MASK])[2],
    "__fns(x, 20, -2)": lambda x, y, z: (places(x, 0, 20)[::-1] + 2 * [MASK])[1],
    "__lastbit_u32_u32(x)": lambda x, y, z: [*places(x), MASK][0],
    "__amd_bitalign(x, y, 9)": lambda x, y, z: (x << 32 | y) >> 9 & MASK,
    "(unsigned)__double2hiint(__hiloint2double(x, y))": lambda x, y, z: x,
    "(unsigned)__double2loint(__hiloint2double(x & 0x3fffffff, y))": lambda x, y, z: y,
    "__double_as_longlong(__longlong_as_double((long long)(x & 0x3fffffff) << 32 | y))": lambda x, y, z: (x & 0x3FFFFFFF) << 32 | y,
    "(unsigned)__float_as_int(__int_as_float(x & 0x3fffffff)) + __float_as_uint(__uint_as_float(0x7f800000u))":
        lambda x, y, z: (x & 0x3FFFFFFF) + 0x7F800000,
}  # fmt: skip


def parts(words, dtype):
    return words.view(dtype).astype("i8").reshape(len(words), -1)


def packed(values, dtype):
    return np.ascontiguousarray(values, dtype).reshape(COUNT, -1).view("u4").ravel()


def saturated(values, dtype):
    return np.clip(values, np.iinfo(dtype).min, np.iinfo(dtype).max)


# Functions of two or four parts of a word: their sign, and the same of arrays of parts.
PACKED = {
    "__vadd": ("u", lambda x, y, t: x + y), "__vmaxs": ("i", lambda x, y, t: np.maximum(x, y)),
    "__vcmpgtu": ("u", lambda x, y, t: -(x > y).astype("i8")),
    "__vaddss": ("i", lambda x, y, t: saturated(x + y, t)), "__vsubss": ("i", lambda x, y, t: saturated(x - y, t)),
    "__vaddus": ("u", lambda x, y, t: saturated(x + y, t)), "__vsubus": ("u", lambda x, y, t: saturated(x - y, t)),
    "__vcmpges": ("i", lambda x, y, t: -(x >= y).astype("i8")), "__vcmples": ("i", lambda x, y, t: -(x <= y).astype("i8")),
    "__vseteq": ("u", lambda x, y, t: x == y), "__vsetgtu": ("u", lambda x, y, t: x > y),
    "__vsetlts": ("i", lambda x, y, t: x < y), "__vhaddu": ("u", lambda x, y, t: (x + y) >> 1),
    "__vabs": ("i", lambda x, y, t: abs(x)), "__vabsss": ("i", lambda x, y, t: saturated(abs(x), t)),
    "__vneg": ("i", lambda x, y, t: -x), "__vnegss": ("i", lambda x, y, t: saturated(-x, t)),
}  # fmt: skip
OF_ONE = ("__vabs", "__vabsss", "__vneg", "__vnegss")


def packed_row(name, count):
    kind, function = PACKED[name]
    dtype = f"{kind}{4 // count}"
    call = f"{name}{count}({'x' if name in OF_ONE else 'x, y'})"
    return call, lambda x, y, z: packed(function(parts(x, dtype), parts(y, dtype), dtype), dtype)


def absolute_differences(dtype):
    return lambda x, y, z: abs(parts(x, dtype) - parts(y, dtype)).sum(1)


def dot(one, other, of_one=slice(None), of_other=slice(None)):
    return lambda x, y, z: (parts(x, one)[:, of_one] * parts(y, other)[:, of_other]).sum(1) + z.astype("i8")


LOW, HIGH = slice(2), slice(2, 4)
WORDS = {
    **dict(packed_row(name, count) for name in PACKED for count in (2, 4)),
    "__vsadu4(x, y)": absolute_differences("u1"), "__vsads4(x, y)": absolute_differences("i1"),
    "__vsadu2(x, y)": absolute_differences("u2"), "__vsads2(x, y)": absolute_differences("i2"),
    "__dp4a((int)x, (int)y, (int)z)": dot("i1", "i1"), "__dp4a(x, y, z)": dot("u1", "u1"),
    "__dp2a_lo((int)x, (int)y, (int)z)": dot("i2", "i1", of_other=LOW),
    "__dp2a_hi((int)x, (int)y, (int)z)": dot("i2", "i1", of_other=HIGH),
    "(unsigned)__lanemask_lt()": lambda x, y, z: (1 << LANE % 32) - 1,
    "(unsigned)__lanemask_ge()": lambda x, y, z: MASK & ~((1 << LANE % 32) - 1),
}  # fmt: skip


def away(total):
    return (total + (total >= 0)) >> 1


def bytes_of_both(x, y):
    return np.concatenate([parts(y, "u1"), parts(x, "u1")], 1)


VECTORS = "make_short2(x, x >> 16), make_char4(y, y >> 8, y >> 16, y >> 24), z"
# Names that only clang's headers have; results are words.
CUDA_NAMES = {
    "__vavgs2(x, y)": lambda x, y, z: packed(away(parts(x, "i2") + parts(y, "i2")), "i2"),
    "__vavgs4(x, y)": lambda x, y, z: packed(away(parts(x, "i1") + parts(y, "i1")), "i1"),
    "__vimax3_s32_relu(x, y, -5)": lambda x, y, z: np.maximum(np.maximum(x.view("i4"), y.view("i4")), 0),
    "__vimin_s32_relu(x, y)": lambda x, y, z: np.maximum(np.minimum(x.view("i4"), y.view("i4")), 0),
    "__viaddmax_s16x2(x, y, 77)": lambda x, y, z: packed(
        np.maximum((parts(x, "i2") + parts(y, "i2") + 2**15) % 2**16 - 2**15, [77, 0]), "i2"),
    "__vimin3_u16x2(x, y, x)": lambda x, y, z: packed(np.minimum(parts(x, "u2"), parts(y, "u2")), "u2"),
    "bool p, q; r = __vibmax_s16x2(x, y, &p, &q)": lambda x, y, z: packed(np.maximum(parts(x, "i2"), parts(y, "i2")), "i2"),
    "bool p, q; __vibmax_s16x2(x, y, &p, &q); r = p + 2 * q":
        lambda x, y, z: (parts(x, "i2") >= parts(y, "i2")) @ [2, 1],
    "bool p; r = __vibmin_s32(x, y, &p); r ^= p": lambda x, y, z:
        np.minimum(x.view("i4"), y.view("i4")) ^ (x.view("i4") <= y.view("i4")),
    f"__dp2a_lo({VECTORS})": dot("i2", "i1", of_other=LOW), f"__dp2a_hi({VECTORS})": dot("i2", "i1", of_other=HIGH),
    "__builtin_amdgcn_sbfe(x, 5, 9)": lambda x, y, z: ((x >> 5 & 511).astype("i8") ^ 256) - 256,
    "__builtin_amdgcn_ubfe(x, 5, 9)": lambda x, y, z: x >> 5 & 511,
    "__builtin_amdgcn_perm(x, y, 0x0c060100 | 0x07 << 16)":
        lambda x, y, z: packed(bytes_of_both(x, y)[:, [0, 1, 7, 0]] * [1, 1, 1, 0], "u1"),
    "__builtin_amdgcn_alignbyte(x, y, 3)": lambda x, y, z: packed(bytes_of_both(x, y)[:, 3:7], "u1"),
    "__builtin_amdgcn_ds_swizzle(x, 0x041f)": lambda x, y, z: x[LANE ^ 1],
    "__builtin_amdgcn_ds_swizzle(x, 0x80b1)": lambda x, y, z: x[LANE & ~3 | np.array([1, 0, 3, 2])[LANE & 3]],
}  # fmt: skip
GIVEN = {"x": X, "y": Y, "z": Z}


def test_integers(device, queue):
    scalars = Calls({call: each(function) for call, function in SCALARS.items()}, "u8", GIVEN)
    assert device_data(call_differences(device, queue, [scalars, Calls(WORDS, "u4", GIVEN)])) == []


@pytest.mark.needs("SPIR-V")
def test_names_of_cuda_and_of_clang_for_amds_gpus(device, queue):
    assert device_data(call_differences(device, queue, [Calls(CUDA_NAMES, "u4", GIVEN)])) == []


INTEGERS = {"int": ("int", -(2**31), 2**31 - 1), "uint": ("unsigned", 0, 2**32 - 1),
            "ll": ("long long", -(2**63), 2**63 - 1), "ull": ("unsigned long long", 0, 2**64 - 1)}  # fmt: skip
WHOLE = dict(zip(MODES, (round, math.trunc, math.ceil, math.floor), strict=True))
FLOATS = RANDOM.uniform(-99, 99, COUNT).astype("f4")
FLOATS[:11] = 0.5, 1.5, -2.5, 1e30, -1e30, 2.0**31, 2.0**32, 2.0**63, 2.0**64, -(2.0**31), -0.25
LONG = RANDOM.integers(0, 1 << 64, COUNT, dtype="u8")
LONG[:10] = [number % 2**64 for number in (
    0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**62 + 2**8 + 1, -(2**62) - 2**8 - 1)]  # fmt: skip


def to_integer(low, high, mode):
    return lambda x: np.array([min(max(WHOLE[mode](value), low), high) % 2**64 for value in x.tolist()], "u8")


def from_integer(low, high, mode, dtype):
    bits = (high - low).bit_length()

    def converted(x):
        numbers = (signed(number, bits) if low else number % (1 << bits) for number in x.tolist())
        return np.array([nearest(Fraction(number), mode, dtype) for number in numbers])

    return converted


def test_conversions_in_every_direction(device, queue):
    tables = []
    for name, dtype in (("float", "f4"), ("double", "f8")):
        to = {f"(unsigned long long)__{name}2{kind}_{mode}(x)": to_integer(low, high, mode)
              for kind, (_, low, high) in INTEGERS.items() for mode in MODES}  # fmt: skip
        tables.append(Calls(to, "u8", {"x": FLOATS.astype(dtype)}))
        of = {f"__{kind}2{name}_{mode}(({word})x)": from_integer(low, high, mode, np.dtype(dtype).type)
              for kind, (word, low, high) in INTEGERS.items() for mode in MODES
              if name == "float" or "ll" in kind}  # fmt: skip
        tables.append(Calls(of, dtype, {"x": LONG}))
    assert device_data(call_differences(device, queue, tables)) == []


def test_no_number_becomes_0(device, queue):
    if device.info.backend == "cuda":
        pytest.skip("there it becomes the least number as often as 0")
    calls = {f"(unsigned long long)__{name}2{kind}_rn(({name})x)": lambda x: 0 * LANE
             for name in ("float", "double") for kind in INTEGERS}  # fmt: skip
    assert device_data(call_differences(device, queue, [Calls(calls, "u8", {"x": np.full(COUNT, np.nan)})])) == []


# Integers of 128 bits


OPERATIONS = (
    "a + b", "a - b", "a * b", "a & b", "a | b", "a ^ b", "~a", "-a", "a / b", "a % b", "a << n", "a >> n", "a < b", "a > b",
    "a <= b", "a >= b", "a == b", "a != a", "a == a", "a + 7", "a - 1ull", "3 * a", "a / 10", "a % 1000000007ull",
    "a ? 5 : 6", "!a || b", "steps(a)", "(unsigned __int128)(unsigned long long)a * (unsigned long long)b >> 64",
)  # fmt: skip
SOURCE = """
__device__ TYPE steps(TYPE v) { TYPE w = v; v += w++; v -= 1; ++v; v <<= 1; v /= 1; v |= 0; return v - w + 2; }
__global__ void k(const TYPE* x, const TYPE* y, TYPE* out, double* d, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    TYPE a = x[i], b = y[i]; unsigned n = (unsigned)b & 127;
    int k = 0;
    LINES
    d[i] = (double)a; d[count + i] = (TYPE)(d[i] * 0.25) * 0.5;
    static_assert(((__uint128_t)~0ull * ~0ull >> 64) == ~0ull - 1 && sizeof(TYPE) == 16 && alignof(TYPE) == 16, "");
}
"""


def operations(type_):
    """A launch with all pairs of numbers at the edges, and random ones of all sizes."""
    random, is_signed = np.random.default_rng(12), type_ == "__int128"
    edges = [0, 1, 2, 10, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**127 - 1]
    edges += [-1, -10, -(2**64), -(2**127)] if is_signed else [2**127, 2**128 - 1]
    numbers = [(a, b) for a in edges for b in edges]
    for bits in (8, 40, 64, 65, 100, 127):
        pairs = random.integers(0, 256, (40, 2, 16), dtype="u1")
        numbers += [tuple(int.from_bytes(each.tobytes(), "little") >> (128 - bits) for each in pair) for pair in pairs]
        numbers += [(a, -b if is_signed else b >> 30) for a, b in numbers[-40:]]
    numbers = [(a, b) for a, b in numbers if b and not (a == -(2**127) and b == -1)]
    x, y = (
        np.array([[each & (2**64 - 1), each >> 64 & (2**64 - 1)] for each in column], "u8")
        for column in zip(*numbers, strict=True)
    )
    count = len(numbers)
    lines = " ".join(f"out[count * k++ + i] = {text};" for text in OPERATIONS)
    out = np.zeros(len(OPERATIONS) * 2 * count, "u8")
    source = SOURCE.replace("LINES", lines).replace("TYPE", type_)
    return case(source, -(-count // 64), 64, x, y, out, np.zeros(2 * count), count, rtol=2**-51)


def test_operations(device, queue):
    cases = {type_: operations(type_) for type_ in ("unsigned __int128", "__int128")}
    assert device_data(kernel_differences(device, queue, cases)) == []
