"""Functions of vectors by the names of CUDA's samples, compared with NumPy."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data

SOURCE = r"""
#include <HEADER>
extern "C" __global__ void all(const float3* a, const float3* b, float* out, int* whole, int n) {
    int i = threadIdx.x;
    float3 x = a[i], y = b[i];
    float3 vectors[] = {cross(x, y), normalize(x), lerp(x, y, 0.25f), reflect(x, y), clamp(x, 0.25f, 0.5f),
                        clamp(x, make_float3(0.1f), y), fminf(x, y), fmaxf(x, y), floorf(x * 5), fracf(x * 5),
                        fabs(x - y), make_float3(make_float4(x, 3)), make_float3(make_int3(x * 9)), smoothstep(x * 0, x * 0 + 1, y)};
    for (int k = 0; k < 14; k++) {
        out[(3 * k) * n + i] = vectors[k].x; out[(3 * k + 1) * n + i] = vectors[k].y; out[(3 * k + 2) * n + i] = vectors[k].z;
    }
    out[42 * n + i] = dot(x, y); out[43 * n + i] = length(x); out[44 * n + i] = lerp(x.x, y.x, 0.5f) + clamp(x.y, 0.25f, 0.5f);
    out[45 * n + i] = dot(make_float4(x, 2), make_float4(y, 3)) + length(make_float2(x)) + make_float4(x).w;
    int3 p = make_int3(i, 7, 9);
    whole[i] = dot(p, make_int3(2)) + clamp(i, 3, 9) + max(p, make_int3(8)).x + abs(make_int2(-i, i)).x + dot(make_uint2(3u), make_uint2(p.x, p.y));
}
"""


@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.parametrize("header", ["helper_math.h", "cutil_math.h"])
def test_vectors(compiled, header):
    random, n = np.random.default_rng(11), 32
    a, b = random.random((n, 3), "f4") + 0.01, random.random((n, 3), "f4") + 0.01
    out, whole, i = np.zeros((46, n), "f4"), np.zeros(n, "i4"), np.arange(n)
    compiled(SOURCE.replace("HEADER", header)).run("all", 1, n, a, b, out, whole, np.int32(n))
    x, y = a.astype("f8"), b.astype("f8")
    dot = (x * y).sum(1)
    length = np.sqrt((x * x).sum(1))
    expected = [
        np.cross(x, y), x / length[:, None], x + 0.25 * (y - x), x - 2 * y * dot[:, None], np.clip(x, 0.25, 0.5),
        np.where(x < np.float32(0.1), np.float32(0.1), np.where(y < x, y, x)), np.minimum(x, y), np.maximum(x, y),
        np.floor(a * 5), (a * 5) % 1, abs(x - y), x, np.trunc(a * 9), np.clip(y, 0, 1) ** 2 * (3 - 2 * np.clip(y, 0, 1)),
    ]  # fmt: skip
    for number, wanted in enumerate(expected):
        assert np.allclose(device_data(out[3 * number : 3 * number + 3].T), wanted, rtol=2e-6, atol=2e-6), number
    assert np.allclose(device_data(out[42]), dot, rtol=2e-6)
    assert np.allclose(device_data(out[43]), length, rtol=2e-6)
    assert np.allclose(device_data(out[44]), (x[:, 0] + y[:, 0]) / 2 + np.clip(x[:, 1], 0.25, 0.5), rtol=2e-6)
    assert np.allclose(device_data(out[45]), dot + 6 + np.hypot(x[:, 0], x[:, 1]), rtol=2e-6)
    wanted = 2 * i + 32 + np.clip(i, 3, 9) + np.maximum(i, 8) + i + 3 * i + 21
    assert np.array_equal(device_data(whole), wanted)
