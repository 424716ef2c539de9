"""Bessel functions, compared with mpmath: near 0, on both sides of 8 where the formulas meet, and far out."""

import re

import numpy as np
import pytest

from tests.helpers.device_data import device_data

mpmath = pytest.importorskip("mpmath")
pytestmark = [pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")]

FUNCTIONS = {
    "j0#(v)": lambda x: mpmath.besselj(0, x),
    "j1#(v)": lambda x: mpmath.besselj(1, x),
    "y0#(v)": lambda x: mpmath.bessely(0, x),
    "y1#(v)": lambda x: mpmath.bessely(1, x),
    "jn#(2, v)": lambda x: mpmath.besselj(2, x),
    "jn#(-7, v)": lambda x: mpmath.besselj(-7, x),  # CUDA's has no negative orders
    "jn#(30, v)": lambda x: mpmath.besselj(30, x),
    "yn#(3, v)": lambda x: mpmath.bessely(3, x),
    "yn#(-2, v)": lambda x: mpmath.bessely(-2, x),
    "cyl_bessel_i0#(v)": lambda x: mpmath.besseli(0, x),
    "cyl_bessel_i1#(v)": lambda x: mpmath.besseli(1, x),
}
RANDOM = np.random.default_rng(5)
VALUES = np.concatenate([RANDOM.uniform(0, 8, 90), RANDOM.uniform(8, 80, 90), [7.9999999, 8.0, 8.0000001, 0.001],
                         10 ** RANDOM.uniform(-6, 1.9, 72)])  # fmt: skip
# What the CUDA C++ Programming Guide, "Mathematical Functions", allows of the functions with zeros: an absolute error.
OF_CUDA = {"f4": 2.2e-6, "f8": 5e-12}


def source(type_, suffix, calls):
    lines = "\n".join(f"o[{k} * n + i] = {call.replace('#', suffix)};" for k, call in enumerate(calls))
    return (
        f'extern "C" __global__ void k(const {type_}* x, {type_}* o) {{\n'
        f"int i = threadIdx.x, n = blockDim.x; {type_} v = x[i];\n{lines}\n}}"
    )


@pytest.mark.parametrize(("type_", "suffix", "dtype", "units"), [("float", "f", "f4", 16), ("double", "", "f8", 16)])
@pytest.mark.long
def test_values(compiled, device, type_, suffix, dtype, units):
    """Where a function goes through 0 the error is one of its amplitude; it grows with the x of sines and cosines."""
    x = VALUES.astype(dtype)
    out = np.zeros((len(FUNCTIONS), len(x)), dtype)
    compiled(source(type_, suffix, FUNCTIONS)).run(
        "k", 1, len(x), x.copy(), out
    )  # what comes back is anything where nothing runs
    unit = np.finfo(dtype).eps
    of_cuda = device.info.backend == "cuda"
    anyway = OF_CUDA[dtype] if of_cuda else 0
    for (call, exact), got in zip(FUNCTIONS.items(), out, strict=True):
        if of_cuda and "(-" in call:
            assert np.isnan(got).all()
            continue
        for at, value in zip(x, got, strict=True):
            wanted = exact(mpmath.mpf(float(at)))
            if abs(wanted) > np.finfo(dtype).max:
                assert np.isinf(value)
                assert (value < 0) == (wanted < 0), (call, at)
                continue
            order = int(re.search(r"-?\d+", call)[0])
            waves = "i" not in call and at >= abs(order)  # before that a function has no zeros
            amplitude = max(abs(wanted), min(1, mpmath.sqrt(2 / (mpmath.pi * float(at)))) if waves else 0)
            bound = units * (1 + abs(float(at)) / 8) * unit * amplitude + np.finfo(dtype).tiny
            bound = bound if "i" in call else max(bound, anyway)
            assert abs(device_data(mpmath.mpf(float(value))) - wanted) <= bound, (call, at, value, wanted)


def test_ends(compiled, device):
    calls = ["j0#(v)", "j1#(v)", "y0#(v)", "y1#(v)", "jn#(3, v)", "yn#(3, v)", "cyl_bessel_i0#(v)", "cyl_bessel_i1#(v)"]
    x = np.array([0, np.inf, -1.5, np.nan, -np.inf])
    out = np.zeros((len(calls), len(x)))
    compiled(source("double", "", calls)).run("k", 1, len(x), x, out)
    inf, nan = np.inf, np.nan
    j0, j1, j3, i0, i1 = (float(f) for f in (
        mpmath.besselj(0, 1.5), -mpmath.besselj(1, 1.5), -mpmath.besselj(3, 1.5), mpmath.besseli(0, 1.5),
        -mpmath.besseli(1, 1.5)))  # fmt: skip
    wanted = np.array([
        [1, 0, j0, nan, 0], [0, 0, j1, nan, 0], [-inf, 0, nan, nan, nan], [-inf, 0, nan, nan, nan], [0, 0, j3, nan, 0],
        [-inf, 0, nan, nan, nan], [1, inf, i0, nan, inf], [0, inf, i1, nan, -inf],
    ])  # fmt: skip
    atol = OF_CUDA["f8"] if device.info.backend == "cuda" else 0
    for call, got, exact in zip(calls, out, wanted, strict=True):
        if call.startswith("jn") and device.info.backend == "cuda":  # which does not say what it is at 0 and infinities
            got = np.where(np.isinf(x) | (x == 0), exact, got)
        assert np.allclose(device_data(got), exact, rtol=1e-14, atol=atol, equal_nan=True), (call, got, exact)
