"""Bessel functions, compared with mpmath: near 0, on both sides of 8 where the formulas meet, and far out."""

import re

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

mpmath = pytest.importorskip("mpmath")
pytestmark = pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")

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
UNITS = 16


def expected_of(call, exact, dtype, least):
    """A function's values, and how far they may be; `least` is allowed where it has zeros.

    Where a function goes through 0 the error is one of its amplitude; it grows with the x of sines and cosines.
    """
    info, order, is_modified = np.finfo(dtype), int(re.search(r"-?\d+", call)[0]), "i" in call

    def expected(x):
        wanted = np.array([float(exact(mpmath.mpf(float(at)))) for at in x])
        waves = (x >= abs(order)) & (not is_modified)  # before that a function has no zeros
        amplitude = np.maximum(abs(wanted), np.where(waves, np.minimum(1, np.sqrt(2 / (np.pi * x))), 0))
        bound = UNITS * (1 + x / 8) * info.eps * np.where(np.isinf(amplitude), 0, amplitude) + info.tiny
        return wanted, bound if is_modified else np.maximum(bound, least)

    return expected


@pytest.mark.parametrize("dtype", OF_CUDA)
@pytest.mark.long
def test_values(device, queue, dtype):
    on_cuda, rows = device.info.backend == "cuda", {}
    for call, exact in FUNCTIONS.items():
        expected = expected_of(call, exact, dtype, OF_CUDA[dtype] * on_cuda)
        rows[call.replace("#", "f" * (dtype == "f4"))] = (lambda v: np.nan) if on_cuda and "(-" in call else expected
    assert device_data(call_differences(device, queue, [Calls(rows, dtype, {"v": VALUES.astype(dtype)})])) == []


def test_ends(device, queue):
    inf, nan = np.inf, np.nan
    j0, j1, j3, i0, i1 = (float(f) for f in (
        mpmath.besselj(0, 1.5), -mpmath.besselj(1, 1.5), -mpmath.besselj(3, 1.5), mpmath.besseli(0, 1.5),
        -mpmath.besseli(1, 1.5)))  # fmt: skip
    ends = {
        "j0(v)": [1, 0, j0, nan, 0], "j1(v)": [0, 0, j1, nan, 0], "y0(v)": [-inf, 0, nan, nan, nan],
        "y1(v)": [-inf, 0, nan, nan, nan], "jn(3, v)": [0, 0, j3, nan, 0], "yn(3, v)": [-inf, 0, nan, nan, nan],
        "cyl_bessel_i0(v)": [1, inf, i0, nan, inf], "cyl_bessel_i1(v)": [0, inf, i1, nan, -inf],
    }  # fmt: skip
    on_cuda, x = device.info.backend == "cuda", np.array([0, inf, -1.5, nan, -inf])
    if on_cuda:  # which does not say what it is at 0 and infinities
        ends["isinf(v) || v == 0 ? 0 : jn(3, v)"] = ends.pop("jn(3, v)")
    rows = {call: lambda v, values=values: values for call, values in ends.items()}
    table = Calls(rows, "f8", {"v": x}, rtol=1e-14, atol=OF_CUDA["f8"] * on_cuda)
    assert device_data(call_differences(device, queue, [table])) == []
