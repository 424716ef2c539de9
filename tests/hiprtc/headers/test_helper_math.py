"""Functions of vectors by the names of CUDA's samples: rows of calls, and what NumPy says of them."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

N = 32
A, B = (np.random.default_rng(seed).random((N, 3), "f4") + np.float32(0.01) for seed in (11, 12))
X, Y, I = A.astype("f8"), B.astype("f8"), np.arange(N)  # noqa: E741
DOT, LENGTH, LEAST = (X * Y).sum(1), np.sqrt((X * X).sum(1)), np.float32(0.1)
BEGIN = "int3 p = make_int3(i % 32, 7, 9); float3 u = ((const float3*)a_)[p.x], v = ((const float3*)b_)[p.x];"
VECTORS = {
    "cross(u, v)": np.cross(X, Y), "normalize(u)": X / LENGTH[:, None], "lerp(u, v, 0.25f)": X + 0.25 * (Y - X),
    "reflect(u, v)": X - 2 * Y * DOT[:, None], "clamp(u, 0.25f, 0.5f)": np.clip(X, 0.25, 0.5),
    "clamp(u, make_float3(0.1f), v)": np.where(X < LEAST, LEAST, np.where(Y < X, Y, X)), "fminf(u, v)": np.minimum(X, Y),
    "fmaxf(u, v)": np.maximum(X, Y), "floorf(u * 5)": np.floor(A * 5), "fracf(u * 5)": (A * 5) % 1, "fabs(u - v)": abs(X - Y),
    "make_float3(make_float4(u, 3))": X, "make_float3(make_int3(u * 9))": np.trunc(A * 9),
    "smoothstep(u * 0, u * 0 + 1, v)": np.clip(Y, 0, 1) ** 2 * (3 - 2 * np.clip(Y, 0, 1)),
}  # fmt: skip
NUMBERS = {
    "dot(u, v)": DOT, "length(u)": LENGTH, "lerp(u.x, v.x, 0.5f) + clamp(u.y, 0.25f, 0.5f)": (X[:, 0] + Y[:, 0]) / 2 + np.clip(X[:, 1], 0.25, 0.5),
    "dot(make_float4(u, 2), make_float4(v, 3)) + length(make_float2(u)) + make_float4(u).w": DOT + 6 + np.hypot(X[:, 0], X[:, 1]),
    "dot(p, make_int3(2)) + clamp(p.x, 3, 9) + max(p, make_int3(8)).x": 2 * I + 32 + np.clip(I, 3, 9) + np.maximum(I, 8),
    "abs(make_int2(-p.x, p.x)).x + dot(make_uint2(3u), make_uint2(p.x, p.y))": 4 * I + 21,
    **{f"({call}).{axis}": values[:, at] for call, values in VECTORS.items() for at, axis in enumerate("xyz")},
}  # fmt: skip


@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.parametrize("header", ["helper_math.h", "cutil_math.h"])
def test_vectors(device, queue, header):
    rows = {call: lambda *_, values=values: np.resize(values, 3 * N) for call, values in NUMBERS.items()}
    given = {"a": A.ravel(), "b": B.ravel()}
    table = Calls(rows, "f4", given, f"#include <{header}>\n", BEGIN, N, rtol=2e-6, atol=2e-6)
    assert device_data(call_differences(device, queue, [table])) == []
