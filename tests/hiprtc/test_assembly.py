"""Assembly of GPUs that becomes C++, compared with NumPy."""

import numpy as np
import pytest

from forebay.hiprtc.assembly import without_assembly

SOURCE = r"""
#define LANE(to) asm("mov.u32 %0, %%laneid;" \
    : "=r"(to))
__device__ unsigned long long square(unsigned x) { unsigned long long y; asm ("mul.wide.u32 %0, %1, %1;" : "=l"(y) : "r"(x)); return y; }
extern "C" __global__ void all(const unsigned* x, unsigned* out, float* f) {
    unsigned i = threadIdx.x, n = 32, v = x[i], w = x[(i + 1) % 32], r = 0; unsigned* o = out + i;
    unsigned processor = 9; asm("mov.u32 %0, %smid;" : "=r"(processor));
    LANE(r); o[0] = r + processor;
    asm volatile("{\n\t.reg .u32 t<2>;\n\tadd.u32 t1, %1, %2;   // a sum\n\tmul.lo.u32 %0, t1, 3;\n\t}" : "=r"(r) : "r"(v), "r"(w)); o[n] = r;
    asm("bfe.u32 %0, %1, 5, 7;" : "=r"(r) : "r"(v)); o[2 * n] = r;
    asm("bfi.b32 %0, %1, %2, 8, 4;" : "=r"(r) : "r"(v), "r"(w)); o[3 * n] = r;
    asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(r) : "r"(v), "r"(w)); o[4 * n] = r;
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(v), "r"(w), "r"(i)); o[5 * n] = r;
    unsigned lo, hi;
    asm("add.cc.u32 %0, %2, %3;\n\taddc.u32 %1, %4, 0;" : "=r"(lo), "=r"(hi) : "r"(v), "r"(w), "r"(i)); o[6 * n] = lo; o[7 * n] = hi;
    asm("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(r) : "r"(v)); o[8 * n] = r;
    asm("{.reg .pred p; setp.lt.u32 p, %1, %2; @p mov.u32 %0, 7; @!p mov.u32 %0, 9;}" : "=r"(r) : "r"(v), "r"(w)); o[9 * n] = r;
    asm volatile("membar.gl;" ::: "memory"); asm volatile("" : "+r"(r) :: "memory"); asm volatile("s_waitcnt vmcnt(0)");
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(r) : "l"(x + i)); asm volatile("st.global.cg.u32 [%0], %1;" :: "l"(o + 10 * n), "r"(r + 1) : "memory");
    asm("bfind.u32 %0, %1;" : "=r"(r) : "r"(v)); o[11 * n] = r;
    unsigned long long s = square(v); asm("mov.b64 {%0, %1}, %2;" : "=r"(lo), "=r"(hi) : "l"(s)); o[12 * n] = hi; o[13 * n] = lo;
    float y; asm("fma.rn.f32 %0, %1, %2, 0f3F800000;" : "=f"(y) : "f"(f[i]), "f"(2.0f)); asm volatile("v_mov_b32_e32 %0, %1" : "=v"(f[i]) : "v"(y));
    asm("mad.lo.u32 %[d], %[a], %[a], %[b];" : [d] "=r"(r) : [a] "r"(v), [b] "r"(w)); o[14 * n] = r;
    asm("atom.global.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(out + 16 * n), "r"(1)); o[15 * n] = r;
    asm("red.global.max.u32 [%0], %1;" :: "l"(out + 16 * n + 1), "r"(i));
}
"""


@pytest.mark.executes
@pytest.mark.needs("a compiler of its own", "SPIR-V")
def test_known_instructions(compiled):
    x = np.random.default_rng(3).integers(0, 2**32, 32, dtype="u4")
    out, f = np.zeros((17, 32), "u4"), np.arange(32, dtype="f4")
    compiled(SOURCE).run("all", 1, 32, x, out, f)
    i, w, square = np.arange(32, dtype="u4"), np.roll(x, -1), x.astype("u8") * x
    carry = (x.astype("u8") + w) >> 32
    expected = [
        i, (x + w) * 3, x >> 5 & 127, (w & ~np.uint32(0xF00)) | (x & 15) << 8, (x & 0xFFFF) | (w << 16), x ^ w ^ i,
        x + w, i + carry, x[i ^ 1], np.where(x < w, 7, 9), x + 1, np.floor(np.log2(x)), square >> 32,
        square & 0xFFFFFFFF, x * x + w,
    ]  # fmt: skip
    for row, wanted in enumerate(expected):
        assert np.array_equal(out[row], wanted.astype("u4")), row
    assert sorted(out[15]) == list(range(32))
    assert out[16, :2].tolist() == [32, 31]
    assert np.array_equal(f, np.arange(32) * 2 + 1)


@pytest.mark.parametrize(
    "statement",
    [
        'asm("wgmma.fence.sync.aligned;");',
        'asm("ld.const.u32 %0, [%1];" : "=r"(x) : "r"(y));',
        'asm("bar.sync 1, 64;");',
        'asm("mov.u32 %0, %nothing;" : "=r"(x));',
        'asm("mov.u32 %0, %2;" : "=r"(x) : "r"(y));',
        "asm(TEXT);",
        'int f() asm("name");',
        '// asm("mov.u32 %0, %laneid;" : "=r"(x));',
        'printf("asm(1)");',
    ],
)
def test_others_stay(statement):
    assert without_assembly(statement) == statement


@pytest.mark.parametrize(
    "instruction",
    [
        "sub.sat.s32 %0, %0, 1", "add.rz.f16 %0, %0, %0", "min.NaN.f32 %0, %0, 1.0",
        "mul24.hi.u32 %0, %0, %0", "cvt.rz.f32.f64 %0, %0", "{ .reg .pred p; setp.nan.f32 p, %0, %0; }",
        "{ .reg .pred p; setp.lt.and.f32 p, %0, %0; }",
    ],
)  # fmt: skip
def test_what_rounds_or_compares_in_another_way_stays(instruction):
    statement = f'asm("{instruction};" : "+r"(x));'
    assert without_assembly(statement) == statement


JOINED = r"""
#define BOTH(to, a, b, c, d) asm("{ .reg .pred p, q; setp.lt.s32 q, %3, %4; setp.lt.and.s32 p, %1, %2, q;" \
    "selp.s32 %0, 1, 0, p; }" : "=r"(to) : "r"(a), "r"(b), "r"(c), "r"(d))
extern "C" __global__ void all(int* out, float nan) {
    for (int k = 0; k < 4; k++) BOTH(out[k], 1, k & 1 ? 2 : 0, 3, k & 2 ? 4 : 0);
    asm("{ .reg .pred p, q; setp.ne.f32 q, %1, %1; setp.eq.or.s32 p, 1, 2, !q; selp.s32 %0, 5, 6, p; }" : "=r"(out[4]) : "f"(nan));
    asm("mul24.lo.u32 %0, %1, %2;" : "=r"(out[5]) : "r"(0x1000003), "r"(2));
    asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(out[6]) : "f"(-3.0f));
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(out[7]) : "f"(3e9f));
    asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(out[8]) : "f"(nan));
    asm("atom.acq_rel.gpu.global.add.s32 %0, [%1], 4;" : "=r"(out[9]) : "l"(out + 10));
}
"""


@pytest.mark.executes
@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_predicates_that_are_joined_and_conversions_that_saturate(compiled, newline):
    out = np.zeros(11, "i4")
    compiled(JOINED.replace("\n", newline)).run("all", 1, 1, out, np.float32(np.nan))
    assert out.tolist() == [0, 0, 0, 1, 5, 6, 0, 2**31 - 1, 0, 0, 4]


def test_lines_stay_where_they_are():
    made = without_assembly(SOURCE)
    assert made.count("\n") == SOURCE.count("\n")
    assert "asm(" not in made.replace("asm_", "")
