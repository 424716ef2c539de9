"""Functions of halves and bfloat16, for each of the 65,536 numbers, for as many random pairs, and rows of calls; NumPy."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

from .rounding import MODES, exactly

pytestmark = [
    pytest.mark.executes,
    pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles", "halves"),
]

COUNT = 1 << 16
ONE = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "log": np.log, "log2": np.log2,
    "log10": np.log10, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: 1 / x, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
}  # fmt: skip
TWO = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.fmax, "min": np.fmin}
COMPARED = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
            "ge": np.greater_equal}  # fmt: skip


def as_bfloat(x):
    """The bits of the nearest bfloat16, even ones first."""
    near, wide = np.asarray(x).astype("f4"), np.asarray(x).astype("f8")
    bits = near.view("u4").astype("i8")
    error = np.where(np.isfinite(near), wide - near, 0)  # an odd float where a number is no float
    bits += np.where((error != 0) & (bits & 1 == 0), np.where((error > 0) == (wide > 0), 1, -1), 0)
    rounded = bits + 0x7FFF + (bits >> 16 & 1) >> 16
    return np.where(np.isnan(wide), 0x7FC0, rounded).astype("u2")


def of_bfloat(bits):
    return (bits.astype("u4") << 16).view("f4").astype("f8")


def bfloat(x):
    return of_bfloat(as_bfloat(x))


# Numbers as the host has them, what rounds to the nearest, and their units in the last place of those.
KINDS = {
    "__half": (np.arange(COUNT).astype("u2").view("f2"), lambda x: np.asarray(x).astype("f2"), 1),
    "__hip_bfloat16": ((np.arange(COUNT, dtype="u4") << 16).view("f4"), bfloat, 1 << 16),
}
PAIR = {"__half": "__half2", "__hip_bfloat16": "__hip_bfloat162"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_number(device, queue, kind):
    """And as many random pairs, half of them of a size."""
    numbers, near, unit = KINDS[kind]
    rows, units = {}, {}
    for name, function in ONE.items():
        for call in (f"h{name}(a)", f"h2{name}(p).x", f"h2{name}(p).y"):
            rows[call] = lambda x, y, function=function, of=call[-1]: near(function(y if of == "y" else x))
            units[call] = 0 if name in ("sqrt", "rcp", "floor", "ceil", "trunc", "rint") else unit
    for name, function in {**TWO, **COMPARED}.items():
        rows[f"__h{name}(a, b)"] = lambda x, y, function=function: near(function(x, y))
        units[f"__h{name}(a, b)"] = 0
    if device.info.backend == "cuda":  # CUDA's __hne is false for a NaN, AMD's true
        rows["__hne(a, b)"] = lambda x, y: (x < y) | (x > y)
    random = np.random.default_rng(3)
    order = random.permutation(COUNT)
    other = random.permutation(COUNT)
    other[: COUNT // 2] = (order[: COUNT // 2] + random.integers(-3000, 3000, COUNT // 2)) & 0x7FFF
    other[:1000] = order[:1000]
    begin = f"{kind} a = x, b = y; {PAIR[kind]} p; p.x = a; p.y = b;"
    given = {"x": numbers[order], "y": numbers[other]}
    table = Calls(rows, given["x"].dtype.str[1:], given, begin=begin, units=units)
    assert device_data(call_differences(device, queue, [table])) == []


RANDOM = np.random.default_rng(17)


def cut(x, by=0):
    """The bfloat16 towards 0, or as many after it."""
    return ((x.astype("f4").view("u4") >> 16) + by << 16).astype("u4").view("f4")


HALVES = {"__hfma(x, y, z)": exactly(lambda x, y, z: x * y + z, "rn", np.float16)}
OF_FLOATS = {f"__float2half_{mode}(x)": exactly(lambda x: x, mode, np.float16) for mode in MODES}
PAIRS = "half2 p = __halves2half2(x, y), q = __halves2half2(y, x), v; const __half nan = __float2half(NAN);"
OF_HALVES = {
    "__float2half(__half2float(x) / 3)": lambda x, y: x / 3, "__hneg(x) + __half(1.0f)": lambda x, y: 1 - x,
    "__ushort_as_half(__half_as_ushort(x))": lambda x, y: x, "__half2float(x) + (float)y": lambda x, y: x + y,
    "__half2int_rn(x) + 100 * __hlt(x, y) + 1000 * __hisnan(x)": lambda x, y: np.rint(x) + 100 * (x < y),
    "v = __floats2half2_rn(1.5f, __low2float(p)); v = __hfma2(v, __half2half2(y), __hadd2(v, v)) * __float2half2_rn(2); "
    "r = __high2float(v)": lambda x, y: 2 * (x * y + 2 * x),
    "__hmax_nan(x, nan)": lambda x, y: np.nan * x, "__hequ(x, nan) + 2 * __hgtu(x, y)": lambda x, y: 1 + 2 * (x > y),
    "__low2float(__hadd2_sat(p, q))": lambda x, y: np.clip(x + y, 0, 1),
    "__hfma_relu(x, y, x)": lambda x, y: np.maximum(x * y + x, 0), "__low2float(__hcmadd(p, q, p))": lambda x, y: x,
    "__hgt2_mask(p, q) >> 16": lambda x, y: 65535.0 * (y > x),
    "__half2short_rn(60000) == 32767 && __half2ushort_rz(-5) == 0 && __half2short_rd(-2.5) == -3": lambda x, y: 1,
}  # fmt: skip
BFLOATS = "__nv_bfloat16 a = x, b = y; __nv_bfloat162 c = {a, b}, d = {b, a};"
OF_BFLOATS = {
    "hip_bfloat16(x)": lambda x, y, z, w: x, "__hfma(a, b, a)": lambda x, y, z, w: bfloat(x * y + x),
    "hip_bfloat16 v(x); v *= b; r = __bfloat162float(v) + (v < b)": lambda x, y, z, w: bfloat(x * y) + (bfloat(x * y) < y),
    "__hfma_relu(a, b, a)": lambda x, y, z, w: np.maximum(bfloat(x * y + x), 0),
    "__hadd_sat(a, b)": lambda x, y, z, w: np.clip(bfloat(x + y), 0, 1), "__bfloat162int_rd(a)": lambda x, y, z, w: np.floor(x),
    "__ll2bfloat16_rn((long long)x)": lambda x, y, z, w: bfloat(np.trunc(x)), "__lowhigh2highlow(c).x": lambda x, y, z, w: y,
    "auto v = a; v++; r = v": lambda x, y, z, w: bfloat(x + 1), "(c * d).x": lambda x, y, z, w: bfloat(x * y),
    "__hmax2(c, d).y": lambda x, y, z, w: np.maximum(x, y), "__hbgt2(c, c) + 2 * __hbge2(c, c)": lambda x, y, z, w: 2,
    "__hisnan(hsqrt(a))": lambda x, y, z, w: x < 0, "__hltu2_mask(c, d) & 0xffff": lambda x, y, z, w: 65535 * (x < y),
    "__hge2_mask(c, d) >> 16": lambda x, y, z, w: 65535 * (y >= x), "__double2bfloat16(z)": lambda x, y, z, w: bfloat(z),
    "__int2bfloat16_rn(w)": lambda x, y, z, w: bfloat(w.astype("f8")),
    "__float2bfloat16_rz((float)z)": lambda x, y, z, w: cut(z),
    "__float2bfloat16_ru((float)z)": lambda x, y, z, w: np.where(z.astype("f4") == cut(z), z, np.where(z > 0, cut(z, 1), cut(z))),
    "__float2bfloat16_rd((float)z)": lambda x, y, z, w: np.where(z.astype("f4") == cut(z), z, np.where(z > 0, cut(z), cut(z, 1))),
    "__bfloat162int_rn(1e20) == 2147483647 && __bfloat162int_rz(-1e20) == -2147483647 - 1": lambda x, y, z, w: 1,
}  # fmt: skip


def test_halves(device, queue):
    bits = RANDOM.integers(0, 0x7800, (3, 512)).astype("u2") | RANDOM.integers(0, 2, (3, 512)).astype("u2") << 15
    x, y, z = bits.view("f2")
    # 2051 less a little, which a float does not hold: 2051 is the middle of two halves.
    x[:2], y[:2], z[:2] = 1 + 2**-10, (1 - 2**-10, -(1 - 2**-10)), (2050, -2050)
    floats = RANDOM.uniform(-70, 70, 64).astype("f4")
    floats[:4] = 0.1, -0.1, 1e-9, 1
    small = {name: RANDOM.uniform(-3, 3, 64).astype("f2") for name in "xy"}
    tables = [
        Calls(HALVES, "f2", {"x": x, "y": y, "z": z}), Calls(OF_FLOATS, "f2", {"x": floats}),
        Calls(OF_HALVES, "f4", small, begin=PAIRS, rtol=1e-3, atol=4e-3),
    ]  # fmt: skip
    assert device_data(call_differences(device, queue, tables)) == []


def test_bfloats(device, queue):
    """Also doubles and integers just beside the middle of two, of which a float would be the middle."""
    middle = [1 + 2.0**-8, 3 + 2.0**-7, 2.0**30 + 2.0**22]
    given = {name: bfloat(RANDOM.standard_normal(64) * 5).astype("f4") for name in "xy"}
    given["z"] = np.resize([s * (m + side * m * 2.0**-40) for m in middle for side in (-1, 1) for s in (1, -1)], 64)
    whole = [2**30 + 2**22 + 1, 2**30 + 2**22 - 1, -(2**30) - 2**22 - 1, 2**31 - 1, -(2**31), 257]
    given["w"] = np.resize(np.array(whole, "i4"), 64)
    head = "#include <hip/hip_bfloat16.h>\n#include <cuda_bf16.h>\n"
    assert device_data(call_differences(device, queue, [Calls(OF_BFLOATS, "f4", given, head, BFLOATS)])) == []


@pytest.mark.needs("SPIR-V")
def test_atomic_functions_of_pairs(compiled):
    source = """
        #include <cuda_bf16.h>
        extern "C" __global__ void all(__half2* h, __hip_bfloat162* b) {
            atomicAdd(h, __floats2half2_rn(0, 1)); atomicAdd(b, __floats2bfloat162_rn(1, 2)); atomicAdd(h, {1, 1}); }"""
    h, b = np.zeros(2, "f2"), np.zeros(2, "u2")
    compiled(source).run("all", 2, 64, h, b)
    assert (h.tolist(), of_bfloat(b).tolist()) == ([128, 256], [128, 256])
