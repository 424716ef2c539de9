"""Functions near the ends of what a type holds, compared with exact numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")]

RANDOM = np.random.default_rng(17)
OPERATIONS = {"add": "x[i], y[i]", "mul": "x[i], y[i]", "div": "x[i], y[i]", "fma": "x[i], y[i], z[i]",
              "sqrt": "fabs(x[i])"}  # fmt: skip
NAMES = {"float": {"fma": "fmaf"}, "double": {"fma": "fma"}}
MODES = ("rz", "ru", "rd")


def extremes(dtype, count=160):
    """Numbers of all sizes, many near the least and the greatest."""
    info = np.finfo(dtype)
    low, high = math.log2(float(info.smallest_subnormal)), math.log2(float(info.max))
    powers = np.concatenate([RANDOM.uniform(low, low / 2, count), RANDOM.uniform(low / 2, high, count)])
    numbers = (np.exp2(powers) * RANDOM.choice([-1, 1], powers.size)).astype(dtype)
    numbers[:6] = info.max, -info.max, info.smallest_subnormal, -info.smallest_subnormal, info.tiny, 1
    return RANDOM.permutation(numbers)


def exact(operation, x, y, z):
    return {"add": lambda: x + y, "mul": lambda: x * y, "div": lambda: x / y, "fma": lambda: x * y + z}[operation]()


def is_rounded(got, true, mode, dtype):
    """Whether a result is the neighbour of the exact number on the side that the mode says."""
    greatest = Fraction(float(np.finfo(dtype).max))
    if mode == "rz":
        mode = "rd" if true > 0 else "ru"
    if mode == "ru":
        got, true, mode = -got, -true, "rd"
    if got == np.inf:  # rounded down: only from infinity
        return False
    above = np.nextafter(got, dtype(np.inf))
    if got == -np.inf:
        return true < -greatest
    return Fraction(float(got)) <= true and (above == np.inf or true < Fraction(float(above)))


def is_root(got, square, mode, dtype):
    """The same for a square root."""
    low, high = (np.nextafter(got, dtype(-np.inf)), got) if mode == "ru" else (got, np.nextafter(got, dtype(np.inf)))
    low, high = Fraction(float(low)) ** 2, Fraction(float(high)) ** 2
    return low < square <= high if mode == "ru" else low <= square < high


@pytest.mark.executes(run=False)  # what is left there may be no number
@pytest.mark.parametrize(("word", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_directed_rounding(compiled, word, dtype):
    calls = [(operation, mode) for operation in OPERATIONS for mode in MODES]
    rows = "".join(
        f"out[{row} * n + i] = __{NAMES[word].get(operation, word[0] + operation)}_{mode}({OPERATIONS[operation]});\n"
        for row, (operation, mode) in enumerate(calls)
    )
    program = compiled(f"""extern "C" __global__ void all(
        const {word}* x, const {word}* y, const {word}* z, {word}* out, int n) {{ int i = threadIdx.x; {rows} }}""")
    x, y, z = (extremes(dtype) for _ in range(3))
    out = np.zeros((len(calls), x.size), dtype)
    with np.errstate(over="ignore"):
        y[:80] = np.nan_to_num(x[:80] * dtype(1.5), posinf=2, neginf=2)  # sums and quotients of numbers of one size
        z[100:200] = np.nan_to_num(-(x * y)[100:200] * dtype(1.25), posinf=2, neginf=2)
        program.run("all", 1, x.size, x, y, z, out, np.int32(x.size))
        numbers = [[Fraction(float(each)) for each in values] for values in (x, y, z)]
        for (operation, mode), row in zip(calls, out, strict=True):
            for a, b, c, got in zip(*numbers, row, strict=True):
                if operation == "sqrt":
                    assert is_root(got, abs(a), mode, dtype), (mode, float(a), got)
                else:
                    told = (operation, mode, float(a), float(b), float(c), got)
                    assert is_rounded(got, exact(operation, a, b, c), mode, dtype), told


def test_lengths(compiled):
    """Lengths of vectors whose squares no float holds."""
    x, y, z = (extremes(np.float32) for _ in range(3))
    x[:3], y[:3], z[:3] = (np.inf, np.nan, 0), (np.nan, 1, 0), (1, 1, 0)
    program = compiled("""extern "C" __global__ void all(const float* x, const float* y, const float* z, float* out, int n) {
        int i = threadIdx.x; float v[] = {x[i], y[i], z[i], 1e-30f};
        out[i] = norm3df(x[i], y[i], z[i]); out[n + i] = rnorm3df(x[i], y[i], z[i]);
        out[2 * n + i] = normf(4, v); out[3 * n + i] = rnorm4df(x[i], y[i], z[i], v[3]);
        out[4 * n + i] = rhypotf(x[i], y[i]);
    }""")
    out = np.zeros((5, x.size), "f4")
    program.run("all", 1, x.size, x, y, z, out, np.int32(x.size))
    with np.errstate(all="ignore"):
        a, b, c = (each.astype("f8") for each in (x, y, z))
        three, four = np.sqrt(a * a + b * b + c * c), np.sqrt(a * a + b * b + c * c + 1e-60)
        three[0] = four[0] = np.inf
        for got, true in zip(out, (three, 1 / three, four, 1 / four, 1 / np.hypot(a, b)), strict=True):
            near = np.nextafter(true.astype("f4"), np.float32(0)), np.nextafter(true.astype("f4"), np.float32(np.inf))
            is_near = (np.abs(got - true) <= 8 * np.spacing(np.abs(true).astype("f4"))) | (got == true.astype("f4"))
            assert (is_near | (got == near[0]) | (got == near[1]) | (np.isnan(got) & np.isnan(true))).all()


def test_half_rounds_once(compiled):
    """x * y + z is rounded once: the halves are chosen so that a float between shows."""
    bits = RANDOM.integers(0, 0x7800, (3, 4096)).astype("u2")
    bits |= RANDOM.integers(0, 2, bits.shape).astype("u2") << 15
    x, y, z = bits.view("f2")
    # 2051 less a little, which a float does not hold: 2051 is the middle of two halves.
    x[:2], y[:2], z[:2] = 1 + 2**-10, (1 - 2**-10, -(1 - 2**-10)), (2050, -2050)
    out = np.zeros(x.size, "f2")
    program = compiled("""extern "C" __global__ void all(const __half* x, const __half* y, const __half* z, __half* out) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = __hfma(x[i], y[i], z[i]); }""")
    program.run("all", x.size // 64, 64, x, y, z, out)
    for a, b, c, got in zip(x.tolist(), y.tolist(), z.tolist(), out, strict=True):
        true = Fraction(a) * Fraction(b) + Fraction(c)
        if np.isinf(got):
            assert abs(true) >= 65520
            continue
        with np.errstate(over="ignore"):
            others = [np.nextafter(got, np.float16(side)) for side in (np.inf, -np.inf)]
        for other in others:
            if np.isfinite(other):
                assert abs(Fraction(float(got)) - true) <= abs(Fraction(float(other)) - true), (a, b, c, got)


def test_bfloat_rounds_once(compiled):
    """Numbers just beside the middle of two, of which a float would be the middle."""
    middle = [1 + 2.0**-8, 3 + 2.0**-7, 2.0**30 + 2.0**22]
    doubles = np.array([m + side * abs(m) * 2.0**-40 for m in middle for side in (-1, 1)] * 2)
    doubles[6:] *= -1
    integers = np.array(
        [2**30 + 2**22 + 1, 2**30 + 2**22 - 1, -(2**30) - 2**22 - 1, 2**31 - 1, -(2**31), 257] * 2, "i4"
    )
    out = np.zeros((2, 12), "f4")
    program = compiled("""extern "C" __global__ void all(const double* d, const int* n, float* out, int* to) {
        int i = threadIdx.x; out[i] = __double2bfloat16(d[i]); out[12 + i] = __int2bfloat16_rn(n[i]);
        to[0] = __bfloat162int_rn(1e20); to[1] = __bfloat162int_rz(-1e20); to[2] = __half2short_rn(60000);
        to[3] = __half2ushort_rz(-5); to[4] = __half2short_rd(-2.5); }""")
    to = np.zeros(5, "i4")
    program.run("all", 1, 12, doubles, integers, out, to)
    for number, got in zip([*doubles.tolist(), *integers.tolist()], out.ravel(), strict=True):
        spacing = 2.0 ** (math.frexp(number)[1] - 8)
        assert abs(Fraction(float(got)) - Fraction(number)) <= Fraction(spacing) / 2
    assert to.tolist() == [2**31 - 1, -(2**31), 32767, 0, -3]


def test_far_ends(compiled):
    """normcdff's small values, and arguments past where the parts of the others overflow."""
    scipy_special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-13, 6, 250), [np.inf, -np.inf, np.nan, -0.0, 40, -40]]).astype("f4")
    program = compiled("""extern "C" __global__ void all(const float* x, float* out, int n) {
        int i = threadIdx.x; out[i] = normcdff(x[i]); out[n + i] = erfcxf(x[i]); out[2 * n] = powif(-1, 16777217); }""")
    out = np.zeros((3, x.size), "f4")
    program.run("all", 1, x.size, x, out, np.int32(x.size))
    assert out[2, 0] == -1
    with np.errstate(all="ignore"):
        for got, true in zip(
            out, (scipy_special.ndtr(x.astype("f8")), scipy_special.erfcx(x.astype("f8"))), strict=False
        ):
            np.testing.assert_allclose(got, true.astype("f4"), rtol=1e-6, atol=1e-43)


def test_groups_of_groups(compiled):
    """Parts of a tile stay in it, and count within it."""
    program = compiled("""
        namespace cg = cooperative_groups;
        extern "C" __global__ void all(int* out) {
            int i = threadIdx.x;
            auto warp = cg::tiled_partition<32>(cg::this_thread_block());
            auto tile = cg::tiled_partition<8>(warp);
            auto part = cg::binary_partition(tile, i % 3 == 0);
            cg::thread_group any = part;
            out[i] = tile.meta_group_rank(); out[64 + i] = tile.meta_group_size();
            out[128 + i] = part.size(); out[192 + i] = part.shfl(i, 0); out[256 + i] = any.thread_rank();
            out[320 + i] = cg::labeled_partition(tile, i % 2).size();
        }""")
    out = np.zeros((6, 64), "i4")
    program.run("all", 1, 64, out)
    i = np.arange(64)
    parts = [[j for j in range(k // 8 * 8, k // 8 * 8 + 8) if (j % 3 == 0) == (k % 3 == 0)] for k in range(64)]
    assert out[0].tolist() == (i % 32 // 8).tolist()
    assert (out[1] == 4).all()
    assert out[2].tolist() == [len(part) for part in parts]
    assert out[3].tolist() == [part[0] for part in parts]
    assert out[4].tolist() == [part.index(k) for k, part in enumerate(parts)]
    assert (out[5] == 4).all()
