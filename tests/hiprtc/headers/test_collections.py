"""What programs of public collections needed, compared with NumPy."""

import numpy as np
import pytest

pytestmark = [
    pytest.mark.executes(reads="row"),
    pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles"),
]

RANDOM = np.random.default_rng(11)


def parts_of(words, dtype):
    return words.view(dtype).astype("i8")


def packed(values, dtype):
    return values.astype(dtype).view("u4").ravel()


def saturated(values, dtype):
    return np.clip(values, np.iinfo(dtype).min, np.iinfo(dtype).max)


PACKED = {
    "__vaddss": ("i", lambda x, y, t: saturated(x + y, t)),
    "__vsubss": ("i", lambda x, y, t: saturated(x - y, t)),
    "__vaddus": ("u", lambda x, y, t: saturated(x + y, t)),
    "__vsubus": ("u", lambda x, y, t: saturated(x - y, t)),
    "__vcmpges": ("i", lambda x, y, t: -(x >= y).astype("i8")),
    "__vcmples": ("i", lambda x, y, t: -(x <= y).astype("i8")),
    "__vseteq": ("u", lambda x, y, t: x == y),
    "__vsetgtu": ("u", lambda x, y, t: x > y),
    "__vsetlts": ("i", lambda x, y, t: x < y),
    "__vhaddu": ("u", lambda x, y, t: (x + y) >> 1),
    "__vabs": ("i", lambda x, y, t: abs(x)),
    "__vabsss": ("i", lambda x, y, t: saturated(abs(x), t)),
    "__vneg": ("i", lambda x, y, t: -x),
    "__vnegss": ("i", lambda x, y, t: saturated(-x, t)),
}


def test_packed_integers(compiled):
    calls, expected = [], []
    x, y = RANDOM.integers(0, 2**32, (2, 256), dtype="u4")
    x[:4], y[:2] = [0x80808080, 0x80008000, 0x7FFF7F7F, 0], [0x80808080, 0x7FFF7F7F]
    y[10:20] = x[10:20]
    for name, (kind, function) in PACKED.items():
        for parts in (2, 4):
            dtype = f"{kind}{4 // parts}"
            arguments = "x[i]" if name in ("__vabs", "__vabsss", "__vneg", "__vnegss") else "x[i], y[i]"
            calls.append(f"out[{len(calls)} * n + i] = {name}{parts}({arguments});")
            expected.append(packed(np.asarray(function(parts_of(x, dtype), parts_of(y, dtype), dtype)), dtype))
    for name, dtype in (("__vsads4", "i1"), ("__vsadu2", "u2"), ("__vsads2", "i2")):
        calls.append(f"out[{len(calls)} * n + i] = {name}(x[i], y[i]);")
        difference = abs(parts_of(x, dtype) - parts_of(y, dtype))
        expected.append(difference.reshape(len(x), -1).sum(1).astype("u4"))
    halves, bytes_ = x.view("i2").astype("i4").reshape(-1, 2), y.view("i1").astype("i4").reshape(-1, 4)
    for name, first in (("__dp2a_lo", 0), ("__dp2a_hi", 2)):
        calls.append(f"out[{len(calls)} * n + i] = (unsigned){name}((int)x[i], (int)y[i], 7);")
        expected.append(((halves * bytes_[:, first : first + 2]).sum(1) + 7).astype("i4").view("u4"))
    out = np.zeros((len(calls), len(x)), "u4")
    compiled(
        'extern "C" __global__ void all(const unsigned* x, const unsigned* y, unsigned* out) '
        "{ int i = threadIdx.x, n = blockDim.x; " + "\n".join(calls) + "}"
    ).run("all", 1, len(x), x, y, out)
    for call, got, wanted in zip(calls, out, expected, strict=True):
        assert np.array_equal(got, wanted), call


def test_places_of_bits(compiled):
    source = """extern "C" __global__ void bits(const unsigned* x, unsigned* out) {
        int i = threadIdx.x; unsigned* o = out + 6 * i;
        o[0] = __fns(x[i], 0, 3); o[1] = __fns(x[i], 20, -2); o[2] = __lastbit_u32_u32(x[i]);
        o[3] = __amd_bitalign(x[i], ~x[i], 9); o[4] = (unsigned)__lanemask_lt(); o[5] = (unsigned)__lanemask_ge();
    }"""
    x = RANDOM.integers(0, 2**32, 32, dtype="u4") & RANDOM.integers(0, 2**32, 32, dtype="u4")
    x[0] = 0
    out = np.zeros((32, 6), "u4")
    compiled(source).run("bits", 1, 32, x, out)
    none = 2**32 - 1
    for lane, (word, row) in enumerate(zip(x.tolist(), out.tolist(), strict=True)):
        places = [place for place in range(32) if word >> place & 1]
        below = [place for place in places if place <= 20][::-1]
        assert row[0] == (places[2] if len(places) > 2 else none)
        assert row[1] == (below[1] if len(below) > 1 else none)
        assert row[2] == (places[0] if places else none)
        assert row[3] == ((word << 32 | ~word & none) >> 9) & none
        assert row[4:] == [(1 << lane) - 1, none & ~((1 << lane) - 1)]


@pytest.mark.needs("SPIR-V")
def test_atomics_on_volatile_memory_and_vectors(compiled):
    source = """
        #include <cuda_bf16.h>
        extern "C" __global__ void all(volatile unsigned* u, volatile float* f, float4* v, float2* w, __half2* h,
                                       __hip_bfloat162* b, int* lock) {
            atomicAdd(u, 1u); atomicMax(u + 1, threadIdx.x); atomicAdd(f, 0.5f); atomicExch(u + 2, 9u);
            atomicAdd(v, make_float4(1, 2, 3, 4)); atomicAdd(w, make_float2(1, -1));
            atomicAdd(h, __floats2half2_rn(1, 2)); atomicAdd(b, __floats2bfloat162_rn(1, 2));
            if (atomicCAS((volatile int*)lock, 0, 5) == 0) lock[1] = 6;
            unsafeAtomicMax(lock + 2, (int)threadIdx.x);
        }"""
    u, f, v, w, lock = np.zeros(3, "u4"), np.zeros(1, "f4"), np.zeros(4, "f4"), np.zeros(2, "f4"), np.zeros(3, "i4")
    h, b = np.zeros(2, "f2"), np.zeros(2, "u2")
    compiled(source).run("all", 2, 64, u, f, v, w, h, b, lock)
    assert u.tolist() == [128, 63, 9]
    assert (f[0], v.tolist(), w.tolist()) == (64, [128, 256, 384, 512], [128, -128])
    assert (h.tolist(), (b.astype("u4") << 16).view("f4").tolist()) == ([128, 256], [128, 256])
    assert lock.tolist() == [5, 6, 63]


def test_halves_and_bfloats(compiled):
    source = """
        #include <cuda_bf16.h>
        extern "C" __global__ void all(const float* x, float* out) {
            int i = threadIdx.x; float* o = out + 12 * i; float nan = NAN;
            __half a = __float2half(x[i]), b = __float2half(x[i + 1]);
            __nv_bfloat16 c = __float2bfloat16(x[i]), d = __float2bfloat16(x[i + 1]);
            __half2 p = __halves2half2(a, b), q = __halves2half2(b, a);
            __nv_bfloat162 r = __halves2bfloat162(c, d), s = __halves2bfloat162(d, c);
            o[0] = __hmax_nan(a, __float2half(nan)); o[1] = __hequ(a, __float2half(nan)) + 2 * __hgtu(a, b);
            o[2] = __low2float(__hadd2_sat(p, q)); o[3] = __hfma_relu(a, b, a);
            o[4] = (float)(__hgt2_mask(p, q) >> 16); o[5] = __low2float(__hcmadd(p, q, p));
            o[6] = __bfloat162float((r * s + r).x); o[7] = __hmax2(r, s).y; o[8] = h2exp2(r).x;
            o[9] = __hbgt2(r, r) + 2 * __hbge2(r, r); o[10] = __float2bfloat16_rz(x[i]); o[11] = __hisnan(hsqrt(c));
        }"""
    x = (np.arange(33, dtype="f4") - 16) / 8
    x[5] = 1.00390625  # between two bfloats
    out = np.zeros((32, 12), "f4")
    compiled(source).run("all", 1, 32, x, out)
    a, b = x[:-1], x[1:]
    rounded = ((a.view("u4") >> 16) << 16).view("f4")
    near = np.where(a == x[5], 1.0, a)
    after = np.where(b == x[5], 1.0, b)
    half = np.float16
    assert np.isnan(out[:, 0]).all()
    assert np.array_equal(out[:, 1], 1 + 2 * (a > b))
    assert np.array_equal(out[:, 2], np.clip((half(a) + half(b)).astype("f4"), 0, 1))
    assert np.allclose(out[:, 3], np.maximum(half(a) * half(b) + half(a), 0), atol=2e-3)
    assert np.array_equal(out[:, 4], 65535.0 * (b > a))
    assert np.allclose(out[:, 5], 0 * a + a * b - b * a + a, atol=4e-3)
    assert np.allclose(out[:, 6], near * after + near, atol=3e-2)
    assert np.array_equal(out[:, 7], np.maximum(near, after))
    assert np.allclose(out[:, 8], 2.0**near, rtol=1e-2)
    assert (out[:, 9] == 2).all()
    assert np.array_equal(out[:, 10], rounded)
    assert np.array_equal(out[:, 11], near < 0)


@pytest.mark.needs("SPIR-V")
def test_functions_of_clang_for_amds_gpus(compiled):
    source = """extern "C" __global__ void all(int* out) {
        int i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x()
              + __builtin_amdgcn_workitem_id_x();
        int* o = out + 5 * i;
        o[0] = __builtin_amdgcn_readfirstlane(i); o[1] = __builtin_amdgcn_ds_bpermute(4 * (i ^ 1), i);
        o[2] = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); __builtin_amdgcn_s_barrier();
        o[3] = (int)__builtin_amdgcn_fmed3f(5.f, (float)i, 9.f); o[4] = __builtin_amdgcn_wavefrontsize();
    }"""
    out = np.zeros((64, 5), "i4")
    compiled(source).run("all", 2, 32, out)
    i = np.arange(64)
    assert np.array_equal(out, np.stack([i // 32 * 32, i ^ 1, i % 32, np.clip(i, 5, 9), 0 * i + 32], 1))


def test_strings_and_pipelines(compiled):
    source = """
        #include <cuda_pipeline.h>
        extern "C" __global__ void all(const char* text, int* out, const int* in) {
            __shared__ int4 room[2]; char copy[32];
            out[0] = strlen(text); out[1] = strcmp(text, "hello") + 10 * (strcmp(text, "hellp") < 0);
            out[2] = memcmp(text, "help", 3) == 0 && memcmp(text, "help", 4) < 0; out[3] = strncmp(text, "hex", 2);
            out[4] = strlen(strcpy(copy, text)) + copy[4];
            __pipeline_memcpy_async(room, in, 16); __pipeline_memcpy_async(room + 1, in, 16, 8);
            __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads();
            out[5] = room[0].w + room[1].y + room[1].z + room[1].w;
        }"""
    out = np.full(6, -1, "i4")
    compiled(source).run("all", 1, 1, np.frombuffer(b"hello\0xx", "i1").copy(), out, np.array([1, 20, 300, 4000], "i4"))
    assert out.tolist() == [5, 10, 1, 0, 5 + ord("o"), 4020]


@pytest.mark.needs("SPIR-V")
def test_what_nvcc_takes(compiled):
    """Own `complex` and `cuComplex` beside `using namespace std`, `register`, narrowing, `unary_function`."""
    source = """
        using namespace std;
        struct complex { float r, i; __device__ complex operator*(complex o) { return {r * o.r - i * o.i, r * o.i + i * o.r}; } };
        struct cuComplex { float r; __device__ cuComplex(float a) : r(a) {} };
        struct twice : std::unary_function<int, int> { __device__ int operator()(int x) const { return 2 * x; } };
        extern "C" __global__ void all(float* out) {
            register int n = 3; int zeros[3] = {0.0, 1.0, 2.0}; complex z = complex{1, 2} * complex{3, 4};
            out[0] = z.r + 100 * z.i; out[1] = twice()(n) + zeros[2] + cuComplex(0.5f).r;
        }"""
    out = np.zeros(2, "f4")
    compiled(source).run("all", 1, 1, out)
    assert out.tolist() == [995, 8.5]


def test_complex_numbers_of_the_standard_library(compiled):
    source = """
        #include <complex>
        extern "C" __global__ void all(std::complex<double>* z) {
            std::complex<double> x = z[threadIdx.x]; z[threadIdx.x] = std::exp(x) * std::conj(x) / (x + 2.0) + std::abs(x);
        }"""
    z = RANDOM.normal(size=16) + 1j * RANDOM.normal(size=16)
    out = z.copy()
    compiled(source).run("all", 1, 16, out.view("f8"))
    assert np.allclose(out, np.exp(z) * z.conj() / (z + 2) + abs(z))
