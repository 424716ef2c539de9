"""Numbers of 8 bits: all codes, and roundings of floats, halves and doubles, compared with NumPy."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data

pytestmark = [pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")]

# name -> bits of the fraction, bias, the largest number's code, what is beyond, what is no number, one zero
FORMATS = {
    "hip_fp8_e4m3": (3, 7, 0x7E, 0x7F, 0x7F, False),
    "hip_fp8_e5m2": (2, 15, 0x7B, 0x7C, 0x7F, False),
    "hip_fp8_e4m3_fnuz": (3, 8, 0x7F, 0x80, 0x80, True),
    "hip_fp8_e5m2_fnuz": (2, 16, 0x7F, 0x80, 0x80, True),
    "nv_fp8_e4m3": (3, 7, 0x7E, 0x7F, 0x7F, False),
    "nv_fp8_e5m2": (2, 15, 0x7B, 0x7C, 0x7E, False),
}


def values_of(name):
    """What each of the 256 codes is worth, in doubles."""
    fraction, bias, largest, beyond, _, one_zero = FORMATS[name]
    code = np.arange(256)
    size, sign = code & 0x7F, np.where(code & 0x80, -1.0, 1.0)
    power, part = size >> fraction, size & ((1 << fraction) - 1)
    is_normal, part = power > 0, part / 2**fraction
    value = (is_normal + part) * 2.0 ** (np.where(is_normal, power, 1) - bias)
    value = np.where(size > largest, np.nan, value) * sign
    if one_zero:
        value[0x80] = np.nan
    elif beyond == 0x7C:
        value[[0x7C, 0xFC]] = np.inf, -np.inf
    return value


def rounded(name, x, saturates):
    """The codes of the nearest numbers, even codes first."""
    _, _, largest, beyond, nan, one_zero = FORMATS[name]
    known = values_of(name)[: largest + 1]
    size = np.abs(x)
    # What the next number would be if there were one: halfway to it, rounding leaves the format.
    grid = np.append(known, 2 * known[-1] - known[-2])
    middle = (grid[1:] + grid[:-1]) / 2
    at = np.searchsorted(middle, size)  # on the left of an equal one
    ties = (at < len(middle)) & (middle[np.minimum(at, len(middle) - 1)] == size)
    code = np.where(ties & (at % 2 == 1), at + 1, at)
    code = np.where(code > largest, largest if saturates else beyond, code)
    code = np.where(np.isnan(x), nan, code)
    sign = np.where(np.signbit(x), 0x80, 0)
    if one_zero:
        sign = np.where((code == 0) | (code == 0x80), 0, sign)
    return (code | sign).astype("u1")


SOURCE = r"""
#include <HEADER>
using kind = __NAME;
extern "C" __global__ void decode(float* f, half* h, float* both) {
    int i = threadIdx.x; kind x; x.__x = i;
    f[i] = x; h[i] = (half)x;
    PAIR pair; pair.__x = (255 - i) << 8 | i; float2 v = (float2)pair; both[2 * i] = v.x; both[2 * i + 1] = v.y;
}
extern "C" __global__ void encode(const float* f, const double* d, unsigned char* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = kind(f[i]).__x; out[n + i] = kind(d[i]).__x; out[2 * n + i] = kind((half)f[i]).__x;
    out[3 * n + i] = __LIB_cvt_float_to_fp8(f[i], __SAT_NOSAT, __SAT_FORMAT);
    out[4 * n + i] = __LIB_cvt_float2_to_fp8x2(float2{0, f[i]}, __SAT_SATFINITE, __SAT_FORMAT) >> 8;
    out[5 * n + i] = QUAD(float4{1, 1, f[i], 1}).__x >> 16 & 255;
}
"""


@pytest.mark.parametrize(
    "name",  # CUDA's header is forebay's own for clang
    [pytest.param(name, marks=pytest.mark.needs("SPIR-V")) if name.startswith("nv") else name for name in FORMATS],
)
def test_all_codes_and_roundings(compiled, name):
    lib = name[: name.index("_")]
    source = SOURCE.replace("HEADER", "cuda_fp8.h" if lib == "nv" else "hip/hip_fp8.h").replace("__NAME", f"__{name}")
    source = source.replace("PAIR", f"__{name.replace('fp8', 'fp8x2')}").replace("__LIB", f"__{lib}")
    source = source.replace("QUAD", f"__{name.replace('fp8', 'fp8x4')}")
    program = compiled(source.replace("__SAT", f"__{lib.upper()}").replace("FORMAT", name.split("_", 2)[2].upper()))
    f, h, both = np.zeros(256, "f4"), np.zeros(256, "f2"), np.zeros((256, 2), "f4")
    program.run("decode", 1, 256, f, h, both)
    values = values_of(name)
    with np.errstate(over="ignore"):
        halves = values.astype("f2")
    assert np.array_equal(device_data(f), values.astype("f4"), equal_nan=True)
    assert np.array_equal(np.signbit(device_data(f)), np.signbit(values) & ~np.isnan(values))
    assert np.array_equal(device_data(h), halves, equal_nan=True)
    assert np.array_equal(device_data(both), np.stack([values, values[::-1]], 1).astype("f4"), equal_nan=True)

    # Every code's number, the middles between neighbours, and what is beside those; random bits; none and infinite.
    known = np.sort(values[np.isfinite(values)]).astype("f4")
    middle = ((known[1:].astype("f8") + known[:-1]) / 2).astype("f4")
    beside = [np.nextafter(middle, np.float32(way)) for way in (-np.inf, np.inf)]
    random = np.random.default_rng(4).integers(0, 2**32, 1 << 16, dtype="u4").view("f4")
    scaled = np.random.default_rng(5).standard_normal(1 << 15) * 2.0 ** np.arange(-16, 16).repeat(1 << 10)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 464, 463.99, 464.01, 61440, 61439.9, 248, 247.9, 1e-45, 3e38]
    x = np.concatenate([known, middle, *beside, random, scaled.astype("f4"), np.array(edges, "f4")])
    x = np.where(np.isnan(x), np.float32(np.nan), x)
    wide = x.astype("f8") * (1 + 2.0**-40)
    out = np.zeros((6, len(x)), "u1")
    program.run("encode", -(-len(x) // 256), 256, x, wide, out, np.int32(len(x)))
    saturated = rounded(name, x.astype("f8"), True)
    assert np.array_equal(device_data(out[0]), saturated)
    assert np.array_equal(device_data(out[1]), rounded(name, wide, True))
    with np.errstate(over="ignore"):
        assert np.array_equal(device_data(out[2]), rounded(name, x.astype("f2").astype("f8"), True))
    assert np.array_equal(device_data(out[3]), rounded(name, x.astype("f8"), False))
    assert np.array_equal(device_data(out[4]), saturated)
    assert np.array_equal(device_data(out[5]), saturated)
