"""PTX that the threads of a warp do together, shared memory, halves and rounding, compared with NumPy."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "SPIR-V")]

SHUFFLES = r"""
extern "C" __global__ void all(const int* x, const float* f, int* out, float* sums, unsigned c) {
    int lane = threadIdx.x, v = x[lane];
    // An inclusive scan, as CUB has it.
    for (int offset = 1; offset < 32; offset *= 2)
        asm volatile("{ .reg .s32 r0; .reg .pred p; shfl.sync.up.b32 r0|p, %1, %2, %3, %5; @p add.s32 r0, r0, %4; mov.s32 %0, r0; }"
                     : "=r"(v) : "r"(v), "r"(offset), "r"(0), "r"(v), "r"(0xffffffff));
    out[lane] = v;
    float s = f[lane];
    asm("{ .reg .f32 r0; .reg .pred p; shfl.sync.down.b32 r0|p, %1, 3, 31, -1; @p add.f32 r0, r0, %1; @!p mov.f32 r0, 0f00000000; mov.f32 %0, r0; }"
        : "=f"(sums[lane]) : "f"(s));
    int r;
    asm("{ .reg .pred q; shfl.sync.down.b32 %0|q, %1, 3, %2, -1; @!q mov.s32 %0, -5; }" : "=r"(r) : "r"(x[lane]), "r"(c)); out[32 + lane] = r;
    asm("shfl.sync.idx.b32 %0, %1, 2, %2, -1;" : "=r"(r) : "r"(x[lane]), "r"(c)); out[64 + lane] = r;
    asm("shfl.sync.bfly.b32 %0, %1, 9, 31, -1;" : "=r"(r) : "r"(x[lane])); out[96 + lane] = r;
    asm("match.any.sync.b32 %0, %1, -1;" : "=r"(r) : "r"(x[lane] & 3)); out[128 + lane] = r;
    asm("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(x[lane])); out[160 + lane] = r;
    asm("{ .reg .pred p, q; setp.gt.s32 p, %1, 0; vote.sync.ballot.b32 %0, !p, -1; }" : "=r"(r) : "r"(x[lane])); out[192 + lane] = r;
}
"""


def test_shuffles_with_predicates(compiled):
    random = np.random.default_rng(5)
    x, f = random.integers(-99, 99, 32, dtype="i4"), random.random(32, "f4")
    out, sums, lane = np.zeros((7, 32), "i4"), np.zeros(32, "f4"), np.arange(32)
    compiled(SHUFFLES).run("all", 1, 32, x, f, out, sums, np.uint32(0x181F))  # parts of eight
    assert np.array_equal(out[0], np.cumsum(x))
    assert np.array_equal(sums, np.where(lane < 29, f + np.roll(f, -3), 0).astype("f4"))
    assert np.array_equal(out[1], np.where(lane % 8 < 5, np.roll(x, -3), -5))
    assert np.array_equal(out[2], x[lane // 8 * 8 + 2])
    assert np.array_equal(out[3], x[lane ^ 9])
    same = (x[:, None] & 3) == (x & 3)
    assert np.array_equal(out[4].view("u4"), (same * (1 << np.arange(32, dtype="u8"))).sum(1))
    assert np.array_equal(out[5], np.full(32, x.max()))
    assert np.array_equal(out[6].view("u4"), np.full(32, ((x <= 0) << np.arange(32, dtype="u8")).sum()))


SHARED = r"""
__device__ unsigned address_of(const void* p) {
    unsigned address;
    asm("{ .reg .u64 u64addr; cvta.to.shared.u64 u64addr, %1; cvt.u32.u64 %0, u64addr; }" : "=r"(address) : "l"(p));
    return address;
}
extern "C" __global__ void all(const float4* x, float* out, unsigned* counts) {
    __shared__ float4 tile[64];
    __shared__ unsigned count;
    extern __shared__ float dynamic[];
    int i = threadIdx.x;
    unsigned to = __cvta_generic_to_shared(&tile[i]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" :: "r"(to), "l"(x + i), "n"(16));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"(address_of(&tile[32 + i])), "l"(x + i), "r"(i % 2 ? 8 : 0) : "memory");
    asm volatile("cp.async.commit_group;\n" ::); asm volatile("cp.async.wait_group %0;\n" :: "n"(0));
    if (i == 0) count = 0;
    dynamic[i] = i;
    __syncthreads();
    float a, b; unsigned old;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2+8];" : "=f"(a), "=f"(b) : "r"(address_of(&tile[i ^ 1])));
    asm volatile("st.shared.f32 [%0], %1;" :: "r"(address_of(dynamic + i)), "f"(a + b) : "memory");
    asm volatile("atom.shared.add.u32 %0, [%1], 3;" : "=r"(old) : "r"(address_of(&count)));
    __syncthreads();
    out[i] = dynamic[i];
    for (int k = 0; k < 4; k++) out[32 + 4 * i + k] = (&tile[32 + i].x)[k];
    counts[i] = (__cvta_shared_to_generic(__cvta_generic_to_shared(&tile[i])) == &tile[i]) + (address_of(tile + i) - address_of(tile) == 16 * i) + to % 16;
    counts[32] = count;
}
"""


def test_addresses_within_shared_memory(compiled):
    x = np.random.default_rng(6).random((32, 4), "f4")
    out, counts = np.zeros(160, "f4"), np.zeros(33, "u4")
    compiled(SHARED).run("all", 1, 32, x, out, counts, shared=128)
    assert np.array_equal(out[:32], x[np.arange(32) ^ 1, 2] + x[np.arange(32) ^ 1, 3])
    kept = x * ((np.arange(32) % 2 == 1)[:, None] & (np.arange(4) < 2))
    assert np.array_equal(out[32:].reshape(32, 4), kept)
    assert counts.tolist() == [2] * 32 + [96]


PRODUCT = r"""
#include <mma.h>
// Row-major a[16][16], b[16][8]: d = a · b + c, of float or half.
extern "C" __global__ void product(const half* a, const half* b, const float* c, float* d, half* of_half) {
    __shared__ __align__(16) half sa[16 * 16], sb[16 * 8];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) sa[i] = a[i];
    for (int i = lane; i < 128; i += 32) sb[i] = b[i];
    __syncthreads();
    unsigned fa[4], fb[2], fh[2] = {0, 0};
    unsigned pa = __cvta_generic_to_shared(sa + lane % 16 * 16 + lane / 16 * 8), pb = __cvta_generic_to_shared(sb + lane % 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(pa));
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(pb));
    float fc[4], fd[4];
    for (int i = 0; i < 4; i++) fc[i] = c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};\n"
        : "=f"(fd[0]), "=f"(fd[1]), "=f"(fd[2]), "=f"(fd[3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]), "f"(fc[0]), "f"(fc[1]), "f"(fc[2]), "f"(fc[3]));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};\n"
        : "+r"(fh[0]), "+r"(fh[1]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    for (int i = 0; i < 4; i++) {
        int place = (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2;
        d[place] = fd[i];
        of_half[place] = ((half*)fh)[i];
    }
}
// a[16][32], b[32][8] of bytes.
extern "C" __global__ void bytes(const signed char* a, const signed char* b, int* d) {
    int lane = threadIdx.x, row = lane / 4, at = lane % 4 * 4;
    unsigned fa[4], fb[2]; int fd[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++) fa[i] = *(unsigned*)(a + (row + i % 2 * 8) * 32 + at + i / 2 * 16);
    for (int i = 0; i < 2; i++) { fb[i] = 0; for (int k = 0; k < 4; k++) fb[i] |= (unsigned)(unsigned char)b[(at + i * 16 + k) * 8 + row] << 8 * k; }
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(fd[0]), "+r"(fd[1]), "+r"(fd[2]), "+r"(fd[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    for (int i = 0; i < 4; i++) d[(row + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = fd[i];
}
"""


def test_products_of_matrices(compiled):
    random = np.random.default_rng(7)
    a, b = (random.integers(-8, 9, shape).astype("f2") / 4 for shape in ((16, 16), (16, 8)))
    c, d, of_half = random.random((16, 8), "f4"), np.zeros((16, 8), "f4"), np.zeros((16, 8), "f2")
    program = compiled(PRODUCT)
    program.run("product", 1, 32, a, b, c, d, of_half)
    exact = a.astype("f8") @ b.astype("f8")
    assert np.allclose(d, exact + c, rtol=1e-6, atol=1e-5)
    assert np.array_equal(of_half, exact.astype("f2"))
    x, y = (random.integers(-128, 128, shape, dtype="i1") for shape in ((16, 32), (32, 8)))
    sums = np.zeros((16, 8), "i4")
    program.run("bytes", 1, 32, x, y, sums)
    first = 1 + np.arange(8) % 2 + 2 * (np.arange(16) >= 8)[:, None]
    assert np.array_equal(sums, x.astype("i4") @ y.astype("i4") + first)


ARITHMETIC = r"""
extern "C" __global__ void all(const int* x, const float* f, int* out, float* g, half2* h) {
    int i = threadIdx.x, a = x[i], b = x[i + 1], r = 0; float u = f[i], v = f[i + 1]; unsigned w = 0;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(7)); out[i] = r;
    asm("dp2a.hi.s32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(7)); out[32 + i] = r;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); out[64 + i] = r;
    asm("sad.s32 %0, %1, %2, 5;" : "=r"(r) : "r"(a >> 2), "r"(b >> 2)); out[96 + i] = r;
    asm("slct.s32.s32 %0, 1, 2, %1;" : "=r"(r) : "r"(a)); out[128 + i] = r;
    asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(r) : "f"(u * 300 - 20)); out[160 + i] = r;
    asm("{ .reg .pred p; setp.ltu.f32 p, %1, %2; selp.s32 %0, 1, 0, p; }" : "=r"(r) : "f"(u), "f"(i % 2 ? v : __int_as_float(0x7fc00000))); out[192 + i] = r;
    asm("add.rz.f32 %0, %1, %2;" : "=f"(g[i]) : "f"(u), "f"(v * 1e-5f));
    asm("fma.rp.f32 %0, %1, %2, %3;" : "=f"(g[32 + i]) : "f"(u), "f"(v), "f"(-u));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(u)); g[64 + i] = __int_as_float(r);
    asm("copysign.f32 %0, %1, %2;" : "=f"(g[96 + i]) : "f"((float)a), "f"(u));
    unsigned short one; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(one) : "f"(u)); asm("cvt.f32.f16 %0, %1;" : "=f"(g[128 + i]) : "h"(one));
    unsigned two, three; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(u), "f"(v));
    asm("fma.rn.f16x2 %0, %1, %1, %1;" : "=r"(three) : "r"(two)); h[i] = *(half2*)&three;
    asm("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(g + 160), "f"(1.0f), "f"(2.0f));
    asm("red.global.add.noftz.f16x2 [%0], %1;" :: "l"(h + 32), "r"(0x3c003c00));
    asm("atom.global.inc.u32 %0, [%1], 4;" : "=r"(w) : "l"(out + 224)); out[225 + i] = w;
}
"""


def test_arithmetic_with_signs_rounding_and_halves(compiled):
    random = np.random.default_rng(8)
    x, f = random.integers(-(2**31), 2**31, 33, dtype="i4"), random.random(33, "f4")
    out, g, h = np.zeros(257, "i4"), np.zeros(162, "f4"), np.zeros((33, 2), "f2")
    compiled(ARITHMETIC).run("all", 1, 32, x, f, out, g, h)
    a, b, u, v = x[:-1], x[1:], f[:-1], f[1:]
    bytes_of_a, signed_of_b = a.view("u1").reshape(-1, 4).astype("i4"), b.copy().view("i1").reshape(-1, 4).astype("i4")
    assert np.array_equal(out[:32], (bytes_of_a * signed_of_b).sum(1) + 7)
    halves, high = a.view("i2").reshape(-1, 2).astype("i4"), b.copy().view("u1").reshape(-1, 4)[:, 2:].astype("i4")
    assert np.array_equal(out[32:64], (halves * high).sum(1) + 7)
    assert np.array_equal(out[64:96], np.clip(a.astype("i8") + b, -(2**31), 2**31 - 1))
    assert np.array_equal(out[96:128].view("u4"), np.abs((a >> 2).astype("i8") - (b >> 2)) + 5)
    assert np.array_equal(out[128:160], np.where(a >= 0, 1, 2))
    assert np.abs(out[160:192] - np.clip(np.rint(u.astype("f8") * 300 - 20), 0, 255)).max() <= 1
    assert set(out[160:192]) - {0, 255}
    assert np.array_equal(out[192:224], np.where(np.arange(32) % 2, u < v, 1))
    exact = u.astype("f8") + (v * np.float32(1e-5))
    assert np.all(g[:32] <= exact)
    assert np.all(np.nextafter(g[:32], np.float32(9)) > exact)
    exact = u.astype("f8") * v - u
    assert np.all(g[32:64] >= exact)
    assert np.all(np.nextafter(g[32:64], np.float32(-9)) < exact)
    assert np.array_equal(g[64:96].view("u4"), (u.view("u4") + 0x1000) & 0xFFFFE000)
    assert np.array_equal(g[96:128], np.copysign(u, a.astype("f4")))
    assert np.array_equal(g[128:160], u.astype("f2").astype("f4"))
    both = np.stack([v, u], 1).astype("f2").astype("f8")
    assert np.array_equal(h[:32], (both * both + both).astype("f2"))
    assert g[160:].tolist() == [32, 64]
    assert h[32].tolist() == [32, 32]
    assert sorted(out[225:]) == sorted(np.arange(32) % 5)


LOOPS = r"""
__device__ int collatz(unsigned n) {
    int steps;
    asm volatile("{\n\t.reg .pred one, odd;\n\t.reg .u32 v, bit;\n\tmov.u32 v, %1;\n\tmov.s32 %0, 0;\n"
        "$NEXT%=:\n\tsetp.eq.u32 one, v, 1;\n\t@one bra.uni DONE;\n\tand.b32 bit, v, 1;\n\tsetp.ne.u32 odd, bit, 0;\n"
        "\tadd.s32 %0, %0, 1;\n\t@odd mad.lo.u32 v, v, 3, 1;\n\t@!odd shr.u32 v, v, 1;\n\tbra $NEXT%=;\nDONE:\n\t}"
        : "=r"(steps) : "r"(n));
    return steps;
}
extern "C" __global__ void all(int* out) { out[threadIdx.x] = collatz(threadIdx.x + 1) + 1000 * collatz(27); }
"""


def test_jumps(compiled):
    def steps(n):
        return 0 if n == 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)

    out = np.zeros(32, "i4")
    compiled(LOOPS).run("all", 1, 32, out)
    assert out.tolist() == [steps(n) + 1000 * steps(27) for n in range(1, 33)]
