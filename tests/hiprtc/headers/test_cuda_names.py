"""Device functions that CUDA documents and HIP has not, and AMD's built-in ones; with NumPy."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")]

RANDOM = np.random.default_rng(11)

SOURCE = r"""
extern "C" __global__ void directed(const long long* x, const unsigned long long* u, double* out) {
    int i = threadIdx.x, n = blockDim.x;
    out[i] = __ll2double_rz(x[i]); out[n + i] = __ll2double_ru(x[i]); out[2 * n + i] = __ll2double_rd(x[i]);
    out[3 * n + i] = __ull2double_rz(u[i]); out[4 * n + i] = __ull2double_ru(u[i]); out[5 * n + i] = __ull2double_rd(u[i]);
}
extern "C" __global__ void packed(const int* x, const int* y, int* out) {
    int i = threadIdx.x, n = blockDim.x, a = x[i], b = y[i], *o = out + i; bool p, q;
    o[0] = (int)__vavgs2(a, b); o[n] = (int)__vavgs4(a, b); o[2 * n] = __vimax3_s32_relu(a, b, -5);
    o[3 * n] = __vimin_s32_relu(a, b); o[4 * n] = (int)__viaddmax_s16x2(a, b, 77); o[5 * n] = (int)__vimin3_u16x2(a, b, a);
    o[6 * n] = (int)__vibmax_s16x2(a, b, &p, &q); o[7 * n] = p + 2 * q; o[8 * n] = __vibmin_s32(a, b, &p); o[9 * n] = p;
    o[10 * n] = __dp2a_lo(make_short2(a, a >> 16), make_char4(b, b >> 8, b >> 16, b >> 24), 3);
    o[11 * n] = __dp2a_hi(make_short2(a, a >> 16), make_char4(b, b >> 8, b >> 16, b >> 24), 3);
    o[12 * n] = __dp2a_lo(a, b, 3); o[13 * n] = __dp2a_hi(a, b, 3);
    o[14 * n] = __builtin_amdgcn_sbfe(a, 5, 9); o[15 * n] = (int)__builtin_amdgcn_ubfe(a, 5, 9);
    o[16 * n] = (int)__builtin_amdgcn_perm(a, b, 0x0c060100 | 0x07 << 16); o[17 * n] = (int)__builtin_amdgcn_alignbyte(a, b, 3);
    o[18 * n] = __builtin_amdgcn_ds_swizzle(a, 0x041f); o[19 * n] = __builtin_amdgcn_ds_swizzle(a, 0x80b1);
}
extern "C" __global__ void others(const float* x, float* out, int* counts) {
    int i = threadIdx.x, n = blockDim.x; float f = x[i];
    out[i] = __isnanf(f) + 2 * __isinff(f) + 4 * __finitef(f) + 8 * (__signbitf(f) != 0);
    out[n + i] = __builtin_amdgcn_fractf(f); out[2 * n + i] = __builtin_amdgcn_sinf(f);
    const int words[4] = {7, 3, i, 9};
    out[3 * n + i] = (float)(std::find(words, words + 4, i) - words);
    __nv_atomic_fetch_add(counts, 1, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_fetch_max(counts + 1, i, __NV_ATOMIC_RELAXED);
    auto block = cooperative_groups::this_thread_block();
    auto token = block.barrier_arrive(); block.barrier_wait(std::move(token));
    __barrier_sync(0);
    if (i == 0) __nv_atomic_store_n(counts + 2, __nv_atomic_load_n(counts, __NV_ATOMIC_ACQUIRE), __NV_ATOMIC_RELEASE);
}
extern "C" __global__ void brains(const float* x, float* out, unsigned* masks) {
    int i = threadIdx.x, n = blockDim.x; float f = x[i];
    __nv_bfloat16 a = f, b = x[(i + 1) % n]; __nv_bfloat162 c = {a, b}, d = {b, a};
    out[i] = __float2bfloat16_ru(f); out[n + i] = __float2bfloat16_rd(f); out[2 * n + i] = __hfma_relu(a, b, a);
    out[3 * n + i] = __hadd_sat(a, b); out[4 * n + i] = __bfloat162int_rd(a); out[5 * n + i] = __ll2bfloat16_rn((long long)f);
    out[6 * n + i] = __lowhigh2highlow(c).x; a++; out[7 * n + i] = a;
    masks[i] = __hltu2_mask(c, d); masks[n + i] = __hge2_mask(c, d);
    __shared__ __device__ float shared[64]; __device__ __shared__ int one;
    shared[i] = f; one = 1; __syncthreads(); out[8 * n + i] = shared[n - 1 - i] + one;
}
"""


@pytest.fixture(scope="module")
def values():
    return RANDOM.standard_normal(64).astype("f4") * 5


def halves(words, dtype):
    return words.view(dtype).astype("i8").reshape(len(words), -1)


def words_of(parts, dtype):
    return parts.astype(dtype).reshape(-1).view("i4")


def bfloat16(x):
    """To nearest even."""
    bits = np.asarray(x, "f4").view("u4").astype("u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype("u4").view("f4")


@pytest.mark.needs("SPIR-V")
def test_integers_of_64_bits_to_double_in_a_direction(compiled):
    edges = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**62 + 2**8 + 1, -(2**62) - 2**8 - 1]
    x = np.concatenate([np.array(edges, "i8"), RANDOM.integers(-(2**63), 2**63 - 1, 54)])
    u = x.view("u8")
    out = np.zeros((6, 64))
    compiled(SOURCE).run("directed", 1, 64, x, u, out)
    for row, given, towards in ((0, x, 0), (1, x, 1), (2, x, -1), (3, u, 0), (4, u, 1), (5, u, -1)):
        for exact, found in zip(map(int, given), out[row], strict=True):
            near = float(exact)
            lower = near if int(near) <= exact else np.nextafter(near, -np.inf)
            upper = near if int(near) >= exact else np.nextafter(near, np.inf)
            expected = {1: upper, -1: lower, 0: upper if exact < 0 else lower}[towards]
            assert found == expected, (row, exact)


@pytest.mark.needs("SPIR-V")
def test_packed_integers(compiled):
    x, y = RANDOM.integers(-(2**31), 2**31, (2, 64)).astype("i4")
    out = np.zeros((20, 64), "i4")
    compiled(SOURCE).run("packed", 1, 64, x, y, out)
    a2, b2, a4, b4 = halves(x, "i2"), halves(y, "i2"), halves(x, "i1"), halves(y, "i1")
    ua, ub = halves(x, "u2"), halves(y, "u2")

    def away(total):
        return (total + (total >= 0)) >> 1

    i, wide, unsigned = np.arange(64), x.astype("i8"), x.view("u4").astype("i8")
    bytes_of_both = np.concatenate([halves(y, "u1"), halves(x, "u1")], 1)
    chosen = np.stack([bytes_of_both[:, 0], bytes_of_both[:, 1], bytes_of_both[:, 7], np.zeros(64)], 1)
    pairs = np.concatenate([halves(y, "u1"), halves(x, "u1")], 1)
    expected = [
        words_of(away(a2 + b2), "i2"), words_of(away(a4 + b4), "i1"), np.maximum(np.maximum(x, y), 0),
        np.maximum(np.minimum(x, y), 0),
        words_of(np.maximum((a2 + b2 + 2**15) % 2**16 - 2**15, [77, 0]), "i2"), words_of(np.minimum(ua, ub), "u2"),
        words_of(np.maximum(a2, b2), "i2"), (a2[:, 1] >= b2[:, 1]) + 2 * (a2[:, 0] >= b2[:, 0]),
        np.minimum(x, y), x <= y, (a2 * b4[:, :2]).sum(1) + 3, (a2 * b4[:, 2:]).sum(1) + 3,
        (a2 * b4[:, :2]).sum(1) + 3, (a2 * b4[:, 2:]).sum(1) + 3,
        ((wide >> 5 & 511) ^ 256) - 256, unsigned >> 5 & 511, words_of(chosen, "u1"),
        words_of(pairs[:, 3:7], "u1"), x[i ^ 1], x[(i & ~3) | np.array([1, 0, 3, 2])[i & 3]],
    ]  # fmt: skip
    for row, wanted in enumerate(expected):
        assert np.array_equal(out[row], np.asarray(wanted).astype("i4")), row


@pytest.mark.needs("SPIR-V")
def test_classifications_atomics_and_searches(compiled, values):
    x = values.copy()
    x[:4] = np.nan, np.inf, -np.inf, -0.0
    out, counts = np.zeros((4, 64), "f4"), np.zeros(3, "i4")
    compiled(SOURCE).run("others", 1, 64, x, out, counts)
    kinds = np.isnan(x) + 2 * np.isinf(x) + 4 * np.isfinite(x) + 8 * np.signbit(x)
    assert np.array_equal(out[0, 1:], kinds[1:])
    assert out[0, 0] % 8 == 1
    assert np.allclose(out[1, 4:], x[4:] - np.floor(x[4:]))
    assert np.allclose(out[2, 4:], np.sin(2 * np.pi * x[4:].astype("f8")), atol=1e-5)
    assert np.array_equal(out[3], [{7: 0, 3: 1}.get(i, 2) for i in range(64)])
    assert counts.tolist() == [64, 63, 64]


@pytest.mark.needs("SPIR-V")
def test_bfloat16(compiled, values):
    x = values
    out, masks = np.zeros((9, 64), "f4"), np.zeros((2, 64), "u4")
    compiled(SOURCE).run("brains", 1, 64, x, out, masks)
    cut = (x.view("u4") >> 16 << 16).view("f4")
    next_one = ((x.view("u4") >> 16) + 1 << 16).astype("u4").view("f4")
    a, b = bfloat16(x), bfloat16(np.roll(x, -1))
    fused = bfloat16(a.astype("f8") * b + a)
    expected = [
        np.where(x > 0, next_one, cut), np.where(x > 0, cut, next_one), np.maximum(fused, 0), np.clip(bfloat16(a + b), 0, 1),
        np.floor(a), bfloat16(np.trunc(x)), b, bfloat16(a + np.float32(1)), x[::-1] + 1,
    ]  # fmt: skip
    for row, wanted in enumerate(expected):
        assert np.array_equal(out[row], wanted.astype("f4")), row
    below, above = (a < b).astype("u4") * 0xFFFF, (b < a).astype("u4") * 0xFFFF
    assert np.array_equal(masks[0], below | above << 16)
    same = (a == b) * np.uint32(0xFFFFFFFF)
    assert np.array_equal(masks[1], above | below << 16 | same)
