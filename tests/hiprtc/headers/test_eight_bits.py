"""Numbers of 8 bits: all codes, and roundings of floats, halves and doubles, compared with NumPy."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

pytestmark = pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")

# name -> bits of the fraction, bias, the largest number's code, what is beyond, what is no number, one zero
FORMATS = {
    "hip_fp8_e4m3": (3, 7, 0x7E, 0x7F, 0x7F, False), "hip_fp8_e5m2": (2, 15, 0x7B, 0x7C, 0x7F, False),
    "hip_fp8_e4m3_fnuz": (3, 8, 0x7F, 0x80, 0x80, True), "hip_fp8_e5m2_fnuz": (2, 16, 0x7F, 0x80, 0x80, True),
    "nv_fp8_e4m3": (3, 7, 0x7E, 0x7F, 0x7F, False), "nv_fp8_e5m2": (2, 15, 0x7B, 0x7C, 0x7E, False),
}  # fmt: skip


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


def numbers_for(values):
    """Each code's number, the middles between neighbours, and what is beside those; random bits; none and infinite."""
    known = np.sort(values[np.isfinite(values)]).astype("f4")
    middle = ((known[1:].astype("f8") + known[:-1]) / 2).astype("f4")
    beside = [np.nextafter(middle, np.float32(way)) for way in (-np.inf, np.inf)]
    random = np.random.default_rng(4).integers(0, 2**32, 1 << 16, dtype="u4").view("f4")
    scaled = np.random.default_rng(5).standard_normal(1 << 15) * 2.0 ** np.arange(-16, 16).repeat(1 << 10)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 464, 463.99, 464.01, 61440, 61439.9, 248, 247.9, 1e-45, 3e38]
    x = np.concatenate([known, middle, *beside, random, scaled.astype("f4"), np.array(edges, "f4")])
    return np.resize(np.where(np.isnan(x), np.float32(np.nan), x), -(-x.size // 64) * 64)


@pytest.mark.parametrize(
    "name",  # CUDA's header is forebay's own for clang
    [pytest.param(name, marks=pytest.mark.needs("SPIR-V")) if name.startswith("nv") else name for name in FORMATS],
)
def test_all_codes_and_roundings(device, queue, name):
    lib, _, kind = name.split("_", 2)
    two, four = (f"__{name.replace('fp8', f'fp8x{count}')}" for count in (2, 4))
    convert, mode = f"__{lib}_cvt_float", f"__{lib.upper()}_{kind.upper()}"
    values = values_of(name)
    codes = {
        "(float)v": lambda i: values, "signbit((float)v)": lambda i: np.signbit(values) & ~np.isnan(values),
        "(half)v": lambda i: values.astype("f2"), "((float2)both).x": lambda i: values,
        "((float2)both).y": lambda i: values[::-1],
    }  # fmt: skip
    roundings = {
        f"__{name}(f).__x": lambda f, d: rounded(name, f, True),
        f"__{name}(d).__x": lambda f, d: rounded(name, d, True),
        f"__{name}((half)f).__x": lambda f, d: rounded(name, f.astype("f2").astype("f8"), True),
        f"{convert}_to_fp8(f, __{lib.upper()}_NOSAT, {mode})": lambda f, d: rounded(name, f, False),
        f"{convert}2_to_fp8x2(float2{{0, f}}, __{lib.upper()}_SATFINITE, {mode}) >> 8": lambda f, d: rounded(name, f, True),
        f"{four}(float4{{1, 1, f, 1}}).__x >> 16 & 255": lambda f, d: rounded(name, f, True),
    }  # fmt: skip
    x = numbers_for(values)
    head = f"#include <{'cuda_fp8.h' if lib == 'nv' else 'hip/hip_fp8.h'}>\n"
    begin = f"__{name} v; v.__x = code; {two} both; both.__x = (255 - code) << 8 | code;"
    tables = [
        Calls(codes, "f4", {"code": np.arange(256, dtype="u1")}, head, begin),
        Calls(roundings, "u1", {"f": x, "d": x.astype("f8") * (1 + 2.0**-40)}, head),
    ]
    assert device_data(call_differences(device, queue, tables)) == []
