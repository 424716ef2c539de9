"""Assembly of GPUs that becomes C++: rows of statements, and what NumPy says of their results."""

import numpy as np
import pytest

from forebay.compiler.assembly import without_assembly
from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

RANDOM = np.random.default_rng(5)
LANE = np.arange(32)
HEAD = r"""
#define LANE(to) asm("mov.u32 %0, %%laneid;" \
    : "=r"(to))
#define BOTH(to, a, b, c, d) asm("{ .reg .pred p, q; setp.lt.s32 q, %3, %4; setp.lt.and.s32 p, %1, %2, q;" \
    "selp.s32 %0, 1, 0, p; }" : "=r"(to) : "r"(a), "r"(b), "r"(c), "r"(d))
__device__ unsigned long long square(unsigned x) { unsigned long long y; asm ("mul.wide.u32 %0, %1, %1;" : "=l"(y) : "r"(x)); return y; }
__device__ unsigned memory[4], stored[32];
__device__ int collatz(unsigned n) {
    int steps;
    asm volatile("{\n\t.reg .pred one, odd;\n\t.reg .u32 v, bit;\n\tmov.u32 v, %1;\n\tmov.s32 %0, 0;\n"
        "$NEXT%=:\n\tsetp.eq.u32 one, v, 1;\n\t@one bra.uni DONE;\n\tand.b32 bit, v, 1;\n\tsetp.ne.u32 odd, bit, 0;\n"
        "\tadd.s32 %0, %0, 1;\n\t@odd mad.lo.u32 v, v, 3, 1;\n\t@!odd shr.u32 v, v, 1;\n\tbra $NEXT%=;\nDONE:\n\t}"
        : "=r"(steps) : "r"(n));
    return steps;
}
"""
BEGIN = """
    unsigned lo, hi; int s = (int)v, t = (int)w; const float f = rank, nan = NAN; unsigned long long square_of_v = square(v);
    if (rank < 4) memory[rank] = 0; __syncthreads();"""


def on_device(test):
    """Mark a test of what is compiled and run."""
    return pytest.mark.needs("a compiler of its own", "SPIR-V")(test)


def asm(text, *inputs, result="=r(r)"):
    """A statement with these operands: ``"r(v)"`` is a register with v."""
    operands = [
        ", ".join(f'"{each.partition("(")[0]}"({each.partition("(")[2]}' for each in part)
        for part in ([result], inputs)
    ]
    return f'asm volatile("{text}" : {operands[0]} : {operands[1]})'


def words(array):
    return array.astype("i8")


def packed(array, dtype):
    return array.astype("u4").view(dtype).reshape(len(array), -1).astype("i8")


def steps(n):
    return 0 if n == 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)


# Statements on unsigned v and w, and the same as signed s and t.
WORDS = {
    "unsigned processor = 9; asm(\"mov.u32 %0, %smid;\" : \"=r\"(processor)); LANE(r); r += processor": lambda v, w: LANE,
    asm(r"{\n\t.reg .u32 t<2>;\n\tadd.u32 t1, %1, %2;   // a sum\n\tmul.lo.u32 %0, t1, 3;\n\t}", "r(v)", "r(w)"): lambda v, w: (v + w) * 3,
    asm("bfe.u32 %0, %1, 5, 7;", "r(v)"): lambda v, w: v >> 5 & 127,
    asm("bfi.b32 %0, %1, %2, 8, 4;", "r(v)", "r(w)"): lambda v, w: w & 0xFFFFF0FF | (v & 15) << 8,
    asm("prmt.b32 %0, %1, %2, 0x5410;", "r(v)", "r(w)"): lambda v, w: (v & 0xFFFF) | (w << 16),
    asm("lop3.b32 %0, %1, %2, %3, 0x96;", "r(v)", "r(w)", "r(i)"): lambda v, w: v ^ w ^ LANE,
    asm(r"add.cc.u32 %0, %2, %3;\n\taddc.u32 %1, %4, 0;", "r(v)", "r(w)", "r(i)", result='=r(lo), \"=r\"(hi)') + "; r = lo": lambda v, w: v + w,
    asm(r"add.cc.u32 %0, %2, %3;\n\taddc.u32 %1, %4, 0;", "r(v)", "r(w)", "r(i)", result='=r(lo), \"=r\"(hi)') + "; r = hi":
        lambda v, w: LANE + (words(v) + w >> 32),
    asm("{.reg .pred p; setp.lt.u32 p, %1, %2; @p mov.u32 %0, 7; @!p mov.u32 %0, 9;}", "r(v)", "r(w)"): lambda v, w: np.where(v < w, 7, 9),
    'r = v; asm volatile("membar.gl;" ::: "memory"); asm volatile("" : "+r"(r) :: "memory"); asm volatile("s_waitcnt vmcnt(0)")':
        lambda v, w: v,
    asm("ld.global.nc.u32 %0, [%1];", "l(v_ + i)"): lambda v, w: v,
    'asm volatile("st.global.cg.u32 [%0], %1;" :: "l"(stored + i), "r"(v) : "memory"); r = stored[i]': lambda v, w: v,
    asm("bfind.u32 %0, %1;", "r(v)"): lambda v, w: np.floor(np.log2(v)),
    asm("mov.b64 {%0, %1}, %2;", "l(square_of_v)", result='=r(lo), \"=r\"(hi)') + "; r = hi ^ lo":
        lambda v, w: (v.astype("u8") * v >> 32 ^ v.astype("u8") * v),
    'asm("mad.lo.u32 %[d], %[a], %[a], %[b];" : [d] "=r"(r) : [a] "r"(v), [b] "r"(w))': lambda v, w: v * v + w,
    asm("atom.global.add.u32 %0, [%1], %2;", "l(memory)", "r(1)") + "; __syncthreads(); r = memory[0]": lambda v, w: 32,
    'asm volatile("red.global.max.u32 [%0], %1;" :: "l"(memory + 1), "r"(i)); __syncthreads(); r = memory[1]': lambda v, w: 31,
    asm("atom.global.inc.u32 %0, [%1], 4;", "l(memory + 2)") + "; __syncthreads(); r = memory[2]": lambda v, w: 32 % 5,
    asm("atom.acq_rel.gpu.global.add.s32 %0, [%1], 4;", "l(memory + 3)") + "; __syncthreads(); r = memory[3]": lambda v, w: 128,
    asm("dp4a.u32.s32 %0, %1, %2, %3;", "r(v)", "r(w)", "r(7)"): lambda v, w: (packed(v, "u1") * packed(w, "i1")).sum(1) + 7,
    asm("dp2a.hi.s32.u32 %0, %1, %2, %3;", "r(v)", "r(w)", "r(7)"): lambda v, w: (packed(v, "i2") * packed(w, "u1")[:, 2:]).sum(1) + 7,
    asm("add.sat.s32 %0, %1, %2;", "r(v)", "r(w)"): lambda v, w:
        np.clip(words(v.view("i4")) + w.view("i4"), -(2**31), 2**31 - 1),
    asm("sad.s32 %0, %1, %2, 5;", "r(s >> 2)", "r(t >> 2)"): lambda v, w: abs(words(v.view("i4") >> 2) - (w.view("i4") >> 2)) + 5,
    asm("slct.s32.s32 %0, 1, 2, %1;", "r(v)"): lambda v, w: np.where(v.view("i4") >= 0, 1, 2),
    asm("mul24.lo.u32 %0, %1, %2;", "r(0x1000003)", "r(2)"): lambda v, w: 6,
    "BOTH(r, 1, i & 1 ? 2 : 0, 3, i & 2 ? 4 : 0)": lambda v, w: LANE % 4 == 3,
    asm("{ .reg .pred p, q; setp.ne.f32 q, %1, %1; setp.eq.or.s32 p, 1, 2, !q; selp.s32 %0, 5, 6, p; }", "f(nan)"): lambda v, w: 5,
    asm("cvt.rzi.u32.f32 %0, %1;", "f(-3.0f)"): lambda v, w: 0, asm("cvt.rni.s32.f32 %0, %1;", "f(3e9f)"): lambda v, w: 2**31 - 1,
    asm("cvt.rzi.s32.f32 %0, %1;", "f(nan)"): lambda v, w: 0,
    asm("cvt.rni.sat.u8.f32 %0, %1;", "f(f * 20.3f - 30.0f)"): lambda v, w: np.clip(np.rint(LANE * 20.3 - 30), 0, 255),
    asm("{ .reg .pred p; setp.ltu.f32 p, %1, %2; selp.s32 %0, 1, 0, p; }", "f(f)", "f(i % 2 ? 9.0f : nan)"):
        lambda v, w: np.where(LANE % 2, LANE < 9, 1),
    "r = collatz(i + 1) + 1000 * collatz(27)": lambda v, w: [steps(n) + 1000 * steps(27) for n in range(1, 33)],
    # Shuffles with predicates, an inclusive scan as CUB has it, and votes.
    "int sum = i; for (int offset = 1; offset < 32; offset *= 2) "
    + asm("{ .reg .s32 r0; .reg .pred p; shfl.sync.up.b32 r0|p, %1, %2, %3, %5; @p add.s32 r0, r0, %4; mov.s32 %0, r0; }",
          "r(sum)", "r(offset)", "r(0)", "r(sum)", "r(0xffffffff)", result="=r(sum)") + "; r = sum": lambda v, w: np.cumsum(LANE),
    asm("{ .reg .pred q; shfl.sync.down.b32 %0|q, %1, 3, %2, -1; @!q mov.s32 %0, -5; }", "r(v)", "r(0x181f)"):
        lambda v, w: np.where(LANE % 8 < 5, np.roll(v, -3), 2**32 - 5),  # parts of eight
    asm("shfl.sync.idx.b32 %0, %1, 2, %2, -1;", "r(v)", "r(0x181f)"): lambda v, w: v[LANE // 8 * 8 + 2],
    asm("shfl.sync.bfly.b32 %0, %1, 9, 31, -1;", "r(v)"): lambda v, w: v[LANE ^ 9],
    asm("match.any.sync.b32 %0, %1, -1;", "r(v & 3)"): lambda v, w: ((v[:, None] & 3 == v & 3) * (1 << LANE)).sum(1),
    asm("redux.sync.max.s32 %0, %1, 0xffffffff;", "r(v)"): lambda v, w: v.view("i4").max(),
    asm("{ .reg .pred p, q; setp.gt.s32 p, %1, 0; vote.sync.ballot.b32 %0, !p, -1; }", "r(v)"): lambda v, w: ((v.view("i4") <= 0) << LANE).sum(),
}  # fmt: skip


def float_asm(text, *inputs):
    return asm(text, *inputs, result="=f(r)")


def of_float(function):
    """A function of floats, for arrays that were made wide."""
    return lambda u, v: function(u.astype("f4"), v.astype("f4"))


def towards(exact, up):
    """The float on that side."""
    near = exact.astype("f4")
    away = near < exact if up else near > exact
    return np.where(away, np.nextafter(near, np.float32(np.inf if up else -np.inf)), near)


FLOATS = {
    float_asm("fma.rn.f32 %0, %1, %2, 0f3F800000;", "f(u)", "f(2.0f)"): lambda u, v: 2 * u + 1,
    'asm volatile("v_mov_b32_e32 %0, %1" : "=v"(r) : "v"(u))': lambda u, v: u,
    float_asm("add.rz.f32 %0, %1, %2;", "f(u)", "f(v * 1e-5f)"): of_float(lambda u, v: towards(u.astype("f8") + v * np.float32(1e-5), False)),
    float_asm("fma.rp.f32 %0, %1, %2, %3;", "f(u)", "f(v)", "f(-u)"): lambda u, v: towards(u * v - u, True),
    'unsigned x; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x) : "f"(u)); r = __int_as_float(x)':
        of_float(lambda u, v: ((u.view("u4") + 0x1000) & 0xFFFFE000).view("f4")),
    float_asm("copysign.f32 %0, %1, %2;", "f(i % 2 ? -1.0f : 1.0f)", "f(u)"): lambda u, v: np.where(LANE % 2, -u, u),
    'unsigned short one; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(one) : "f"(u)); ' + float_asm("cvt.f32.f16 %0, %1;", "h(one)"):
        lambda u, v: u.astype("f2"),
    float_asm("{ .reg .f32 r0; .reg .pred p; shfl.sync.down.b32 r0|p, %1, 3, 31, -1; @p add.f32 r0, r0, %1; "
              "@!p mov.f32 r0, 0f00000000; mov.f32 %0, r0; }", "f(u)"):
        of_float(lambda u, v: np.where(LANE < 29, u + np.roll(u, -3), 0)),
    'unsigned two, x; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(u), "f"(v)); '
    'asm("fma.rn.f16x2 %0, %1, %1, %1;" : "=r"(x) : "r"(two)); half2 h = *(half2*)&x; r = (float)h.x + 8 * (float)h.y':
        lambda u, v: sum(k * (h * h + h).astype("f2").astype("f8") for k, h in ((1, v.astype("f2").astype("f8")), (8, u.astype("f2").astype("f8")))),
    'if (i < 2) sums[i] = 0; __syncthreads(); '
    'asm("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(sums), "f"(1.0f), "f"(2.0f)); __syncthreads(); r = sums[0] + 100 * sums[1]':
        lambda u, v: 6432,
    'if (i == 0) halves = 0; __syncthreads(); asm("red.global.add.noftz.f16x2 [%0], %1;" :: "l"(&halves), "r"(0x3c003c00)); '
    "__syncthreads(); r = __low2float(*(half2*)&halves) + 100 * __high2float(*(half2*)&halves)": lambda u, v: 3232,
}  # fmt: skip


@on_device
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_known_instructions(device, queue, newline):
    v = RANDOM.integers(0, 2**32, 32, dtype="u4")
    table = Calls(WORDS, "u4", {"v": v, "w": np.roll(v, -1)}, HEAD.replace("\n", newline), BEGIN, block=32)
    u = RANDOM.random(32, "f4")
    head = "__device__ float sums[2]; __device__ unsigned halves;"
    floats = Calls(FLOATS, "f4", {"u": u, "v": np.roll(u, -1)}, head, block=32)
    assert device_data(call_differences(device, queue, [table, floats])) == []


@pytest.mark.parametrize("statement", [
    'asm("wgmma.fence.sync.aligned;");', 'asm("ld.const.u32 %0, [%1];" : "=r"(x) : "r"(y));',
    'asm("bar.sync 1, 64;");', 'asm("mov.u32 %0, %nothing;" : "=r"(x));',
    'asm("mov.u32 %0, %2;" : "=r"(x) : "r"(y));', "asm(TEXT);", 'int f() asm("name");',
    '// asm("mov.u32 %0, %laneid;" : "=r"(x));', 'printf("asm(1)");',
])  # fmt: skip
def test_others_stay(statement):
    assert without_assembly(statement) == statement


@pytest.mark.parametrize("instruction", [
    "sub.sat.s32 %0, %0, 1", "add.rz.f16 %0, %0, %0", "min.NaN.f32 %0, %0, 1.0",
    "mul24.hi.u32 %0, %0, %0", "cvt.rz.f32.f64 %0, %0", "{ .reg .pred p; setp.nan.f32 p, %0, %0; }",
    "{ .reg .pred p; setp.lt.and.f32 p, %0, %0; }",
])  # fmt: skip
def test_what_rounds_or_compares_in_another_way_stays(instruction):
    statement = f'asm("{instruction};" : "+r"(x));'
    assert without_assembly(statement) == statement


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


@on_device
def test_addresses_within_shared_memory(compiled):
    x = np.random.default_rng(6).random((32, 4), "f4")
    out, counts = np.zeros(160, "f4"), np.zeros(33, "u4")
    compiled(SHARED).run("all", 1, 32, x, out, counts, shared=128)
    assert np.array_equal(device_data(out[:32]), x[np.arange(32) ^ 1, 2] + x[np.arange(32) ^ 1, 3])
    kept = x * ((np.arange(32) % 2 == 1)[:, None] & (np.arange(4) < 2))
    assert np.array_equal(device_data(out[32:].reshape(32, 4)), kept)
    assert device_data(counts.tolist()) == [2] * 32 + [96]


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


@on_device
def test_products_of_matrices(compiled):
    random = np.random.default_rng(7)
    a, b = (random.integers(-8, 9, shape).astype("f2") / 4 for shape in ((16, 16), (16, 8)))
    c, d, of_half = random.random((16, 8), "f4"), np.zeros((16, 8), "f4"), np.zeros((16, 8), "f2")
    program = compiled(PRODUCT)
    program.run("product", 1, 32, a, b, c, d, of_half)
    exact = a.astype("f8") @ b.astype("f8")
    assert np.allclose(device_data(d), exact + c, rtol=1e-6, atol=1e-5)
    assert np.array_equal(device_data(of_half), exact.astype("f2"))
    x, y = (random.integers(-128, 128, shape, dtype="i1") for shape in ((16, 32), (32, 8)))
    sums = np.zeros((16, 8), "i4")
    program.run("bytes", 1, 32, x, y, sums)
    first = 1 + np.arange(8) % 2 + 2 * (np.arange(16) >= 8)[:, None]
    assert np.array_equal(device_data(sums), x.astype("i4") @ y.astype("i4") + first)


def test_lines_stay_where_they_are():
    source = HEAD + "\n".join(f"{row};" for row in WORDS)
    made = without_assembly(source)
    assert made.count("\n") == source.count("\n")
    assert "asm(" not in made.replace("asm_", "")
