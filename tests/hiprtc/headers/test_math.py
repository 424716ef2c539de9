"""Mathematics of the headers: rows of calls, and what NumPy says of them in double precision."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

pytestmark = pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")

COUNT = 256
BEGIN = "float a = 0, b = 0; int e = 0;"
# On floats from 0.1 to 8.9.
FLOATS = {
    "sincosf(x, &a, &b); r = a + 2 * b": lambda x: np.sin(x) + 2 * np.cos(x),
    "sincospif(x, &a, &b); r = a + 2 * b": lambda x: np.sin(np.pi * x) + 2 * np.cos(np.pi * x),
    "r = frexpf(x, &e) + 10 * e": lambda x: np.frexp(x)[0] + 10 * np.frexp(x)[1],
    "r = modff(x, &a) + 10 * a": lambda x: np.modf(x)[0] + 10 * np.modf(x)[1],
    "r = remquof(x, 3.f, &e) + 10 * (e & 7)": lambda x: x - 3 * np.rint(x / 3) + 10 * (np.rint(x / 3) % 8),
    "ldexpf(x, 3) + scalbnf(x, -2)": lambda x: x * 8.25, "x * std::ldexp(3u, -1)": lambda x: x * 1.5,
    "norm3df(x, 2, 3) + norm4df(x, 1, 1, 1)": lambda x: np.sqrt(x * x + 13) + np.sqrt(x * x + 3),
    "rnorm3df(x, 2, 3)": lambda x: 1 / np.sqrt(x * x + 13),
    "float t[3] = {x, 1, 2}; r = normf(3, t) + rnormf(2, t)": lambda x: np.sqrt(x * x + 5) + 1 / np.sqrt(x * x + 1),
    "isnan(x) + 2 * isinf(1 / (x - x)) + 4 * isfinite(x) + 8 * signbit(-x)": lambda x: 14.0 + 0 * x,
    "lroundf(x) + llrintf(x) + lrint(x) + powif(x, 2)": lambda x: np.floor(x + 0.5) + 2 * np.rint(x) + x * x,
    "std::sqrt(x) + std::pow(x, 2) + std::abs(-x) + std::max(x, 3.f)":
        lambda x: np.sqrt(x) + x**2 + x + np.maximum(x, 3),
    "__sinf(x) + __expf(x) + __fdividef(x, 3) + __powf(x, 2) + __saturatef(x)":
        lambda x: np.sin(x) + np.exp(x) + x / 3 + x * x + np.clip(x, 0, 1),
    "sqrt(9) + pow(2, 3) + fmax(x, 2.0) + max(x, 1.0) + min(1, 2u) + max(3, 4l)":
        lambda x: 16 + np.maximum(x, 2) + np.maximum(x, 1),
    "max(x, 0.5f) + fmaf(x, 2, 1) + abs(x - 1) + x * M_PI":
        lambda x: np.maximum(x, 0.5) + 2 * x + 1 + abs(x - 1) + x * np.pi,
    "logb(x) + 100 * ilogb(x)": lambda x: 101 * (np.frexp(x)[1] - 1.0),
    "remainder(x, 1.25f) + remainderf(-x, 0.7f)":
        lambda x: x - 1.25 * np.rint(x / 1.25) - (x - np.float32(0.7) * np.rint(x / np.float32(0.7)).astype("f8")),
    "powif(-1, 16777217)": lambda x: -1 + 0 * x,
    # A fused operation would leave the error of a product whose rounding was promised.
    "__fadd_rn(__fmul_rn(x, x), -__fmul_rn(x, x))": lambda x: 0 * x,
}  # fmt: skip


def test_pointers_norms_kinds_and_overloads(device, queue):
    table = Calls(FLOATS, "f4", {"x": np.linspace(0.1, 8.9, COUNT).astype("f4")}, begin=BEGIN, rtol=3e-6, atol=4e-6)
    assert device_data(call_differences(device, queue, [table])) == []


def extremes(dtype, count=160):
    """Numbers of all sizes, many near the least and the greatest."""
    random, info = np.random.default_rng(17), np.finfo(dtype)
    low, high = np.log2(float(info.smallest_subnormal)), np.log2(float(info.max))
    powers = np.concatenate([random.uniform(low, low / 2, count), random.uniform(low / 2, high, count)])
    numbers = (np.exp2(powers) * random.choice([-1, 1], powers.size)).astype(dtype)
    numbers[:6] = info.max, -info.max, info.smallest_subnormal, -info.smallest_subnormal, info.tiny, 1
    return numbers


def length(*powers):
    """The length of a vector, infinite also where another of its numbers is none."""
    whole = np.sqrt(sum(each * each for each in powers))
    return np.where(np.any([np.isinf(each) for each in powers], 0), np.inf, whole)


LENGTHS = {
    "norm3df(x, y, z)": length, "rnorm3df(x, y, z)": lambda *v: 1 / length(*v),
    "float v[] = {x, y, z, 1e-30f}; r = normf(4, v)": lambda *v: length(*v, np.full(320, 1e-30)),
    "rnorm4df(x, y, z, 1e-30f)": lambda *v: 1 / length(*v, np.full(320, 1e-30)),
    "rhypotf(x, y)": lambda x, y, z: 1 / length(x, y),
}  # fmt: skip


def test_lengths_of_vectors_whose_squares_no_float_holds(device, queue):
    x, y, z = (np.roll(extremes(np.float32), by) for by in (0, 77, 191))
    x[6:9], y[6:9], z[6:9] = (np.inf, np.nan, 0), (np.nan, 1, 0), (1, 1, 0)
    table = Calls(LENGTHS, "f4", {"x": x, "y": y, "z": z}, rtol=1e-6, atol=4e-45)
    assert device_data(call_differences(device, queue, [table])) == []


def test_far_ends(device, queue):
    """normcdff's small values, and arguments past where the parts of the others overflow."""
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-13, 6, 250), [np.inf, -np.inf, np.nan, -0.0, 40, -40]]).astype("f4")
    calls = {"normcdff(x)": special.ndtr, "erfcxf(x)": special.erfcx}
    assert device_data(call_differences(device, queue, [Calls(calls, "f4", {"x": x}, rtol=1e-6, atol=1e-43)])) == []


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_powers_of_two_in_a_branch(device, queue, dtype):
    """Rounded once, also below the least normal number. Not all work-items of a sub-group take the branch."""
    x = extremes(dtype, 4000)
    x[6:10] = 0, -0.0, np.inf, np.nan
    k = np.random.default_rng(1).integers(-2300, 2300, x.size) >> np.arange(x.size) % 9
    exponents = np.select([x == 0, np.isinf(x), np.isnan(x)], [-(2**31), 2**31 - 1, -(2**31)], np.frexp(x)[1] - 1)
    calls = {
        "r = 0; if (k % 3) r = ldexp(x, k)": lambda x, k: np.where(k % 3, np.ldexp(x, k), 0),
        "r = 0; if (k % 3) r = ilogb(x)": lambda x, k: np.where(k % 3, exponents, 0),
    }
    table = Calls(calls, dtype, {"x": x, "k": k.astype("i4")}, rtol=0, atol=0)
    assert device_data(call_differences(device, queue, [table])) == []
