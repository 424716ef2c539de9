"""Mathematics of the headers, compared with NumPy and SciPy in double precision."""

import math
from fractions import Fraction

import numpy as np
import pytest

special = pytest.importorskip("scipy.special")

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")]

COUNT = 256

# name -> (reference, least argument, greatest)
UNARY = {
    "sin": (np.sin, -9, 9), "cos": (np.cos, -9, 9), "tan": (np.tan, -1.4, 1.4),
    "asin": (np.arcsin, -1, 1), "acos": (np.arccos, -1, 0.9), "atan": (np.arctan, -9, 9),
    "sinh": (np.sinh, -9, 9), "cosh": (np.cosh, -9, 9), "tanh": (np.tanh, -3, 3),
    "asinh": (np.arcsinh, -9, 9), "acosh": (np.arccosh, 1.5, 9), "atanh": (np.arctanh, -0.9, 0.9),
    "sinpi": (lambda x: np.sin(np.pi * x), 0.1, 0.9), "cospi": (lambda x: np.cos(np.pi * x), 0.6, 1.4),
    "exp": (np.exp, -9, 9), "exp2": (np.exp2, -9, 9), "exp10": (lambda x: 10**x, -9, 9), "expm1": (np.expm1, -2, 2),
    "log": (np.log, 1.5, 99), "log2": (np.log2, 1.5, 99), "log10": (np.log10, 1.5, 99), "log1p": (np.log1p, 0, 9),
    "sqrt": (np.sqrt, 0, 99), "rsqrt": (lambda x: x**-0.5, 0.1, 99), "cbrt": (np.cbrt, -99, 99),
    "rcbrt": (lambda x: 1 / np.cbrt(x), 0.1, 99), "erf": (special.erf, -3, 3), "erfc": (special.erfc, -3, 3),
    "erfcx": (special.erfcx, -2, 8), "erfinv": (special.erfinv, -0.999, 0.999),
    "erfcinv": (special.erfcinv, 0.001, 1.999), "normcdf": (special.ndtr, -1, 4),
    "normcdfinv": (special.ndtri, 0.001, 0.999), "tgamma": (special.gamma, 0.5, 9), "lgamma": (special.gammaln, 3, 99),
    "fabs": (np.abs, -9, 9), "floor": (np.floor, -9, 9), "ceil": (np.ceil, -9, 9), "trunc": (np.trunc, -9, 9),
    "rint": (np.rint, -9, 9), "nearbyint": (np.rint, -9, 9),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), -9, 9),
    "logb": (lambda x: np.frexp(x)[1] - 1.0, 0.1, 99), "ilogb": (lambda x: np.frexp(x)[1] - 1.0, 0.1, 99),
}  # fmt: skip
BINARY = {
    "fmin": np.minimum, "fmax": np.maximum, "fmod": np.fmod, "fdim": lambda x, y: np.maximum(x - y, 0),
    "atan2": np.arctan2, "hypot": np.hypot, "rhypot": lambda x, y: 1 / np.hypot(x, y), "copysign": np.copysign,
    "pow": lambda x, y: np.abs(x) ** y, "remainder": np.vectorize(math.remainder),
    "fdivide": lambda x, y: x / y,
}  # fmt: skip


def kernel(statements, dtype):
    """A kernel with one statement for each row of its arrays."""
    rows = "".join(f"{{ T v = x[{row} * n + i], w = y[{row} * n + i]; out[{row} * n + i] = {text}; }}\n"
                   for row, text in enumerate(statements))  # fmt: skip
    return f"""
        using T = {dtype};
        extern "C" __global__ void rows(const T* x, const T* y, T* out, int n) {{
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            {rows}
        }}"""


def assert_close(names, got, expected, ulps, rtol=0.0):
    """The results of each function are so many units in the last place from the reference, at most."""
    for name, ours, theirs in zip(names, got, expected, strict=True):
        theirs = theirs.astype(got.dtype)
        error = np.abs(ours.astype("f8") - theirs) / np.spacing(np.maximum(np.abs(theirs), np.finfo(got.dtype).tiny))
        assert error.max() <= ulps, f"{name}: {error.max()} ulp at row {error.argmax()}: {ours} {theirs}"


@pytest.mark.parametrize(("dtype", "suffix", "ctype"), [("f4", "f", "float"), ("f8", "", "double")])
def test_unary(compiled, dtype, suffix, ctype):
    x = np.array([np.linspace(low, high, COUNT) for _, low, high in UNARY.values()]).astype(dtype)
    expected = [reference(row.astype("f8")) for row, (reference, _, _) in zip(x, UNARY.values(), strict=True)]
    for calls in [f"{name}{suffix}(v)" for name in UNARY], [f"{name}(v)" for name in UNARY]:
        out = np.zeros_like(x)
        compiled(kernel(calls, ctype)).run("rows", COUNT // 64, 64, x, x, out, COUNT)
        assert_close(UNARY, out, expected, 20)


@pytest.mark.parametrize(("dtype", "suffix", "ctype"), [("f4", "f", "float"), ("f8", "", "double")])
def test_binary(compiled, dtype, suffix, ctype):
    rng = np.random.default_rng(3)
    x = rng.uniform(-9, 9, (len(BINARY), COUNT)).astype(dtype)
    y = rng.uniform(0.5, 5, (len(BINARY), COUNT)).astype(dtype)
    names = list(BINARY)
    x[names.index("pow")] = np.abs(x[names.index("pow")])
    expected = [f(a.astype("f8"), b.astype("f8")) for f, a, b in zip(BINARY.values(), x, y, strict=True)]
    calls = [f"{name}{suffix}(v, w)" for name in names]
    out = np.zeros_like(x)
    compiled(kernel(calls, ctype)).run("rows", COUNT // 64, 64, x, y, out, COUNT)
    assert_close(names, out, expected, 16)


def test_results_through_pointers_norms_and_kinds(compiled):
    calls = {
        "sincosf(v, &a, &b); c = a + 2 * b": lambda x: np.sin(x) + 2 * np.cos(x),
        "sincospif(v, &a, &b); c = a + 2 * b": lambda x: np.sin(np.pi * x) + 2 * np.cos(np.pi * x),
        "c = frexpf(v, &e) + 10 * e": lambda x: np.frexp(x)[0] + 10 * np.frexp(x)[1],
        "c = modff(v, &a) + 10 * a": lambda x: np.modf(x)[0] + 10 * np.modf(x)[1],
        "c = remquof(v, 3.f, &e) + 10 * (e & 7)": lambda x: x - 3 * np.rint(x / 3) + 10 * (np.rint(x / 3) % 8),
        "c = ldexpf(v, 3) + scalbnf(v, -2)": lambda x: x * 8.25,
        "c = norm3df(v, 2, 3) + norm4df(v, 1, 1, 1)": lambda x: np.sqrt(x * x + 13) + np.sqrt(x * x + 3),
        "c = rnorm3df(v, 2, 3)": lambda x: 1 / np.sqrt(x * x + 13),
        "float t[3] = {v, 1, 2}; c = normf(3, t) + rnormf(2, t)":
            lambda x: np.sqrt(x * x + 5) + 1 / np.sqrt(x * x + 1),
        "c = isnan(v) + 2 * isinf(1 / (v - v)) + 4 * isfinite(v) + 8 * signbit(-v)": lambda x: 2.0 + 4 + 8 + 0 * x,
        "c = lroundf(v) + llrintf(v) + lrint(v) + powif(v, 2)":
            lambda x: np.floor(x + 0.5) + 2 * np.rint(x) + x * x,
        "c = std::sqrt(v) + std::pow(v, 2) + std::abs(-v) + std::max(v, 3.f)":
            lambda x: np.sqrt(x) + x**2 + x + np.maximum(x, 3),
        "c = __sinf(v) + __expf(v) + __fdividef(v, 3) + __powf(v, 2) + __saturatef(v)":
            lambda x: np.sin(x) + np.exp(x) + x / 3 + x * x + np.clip(x, 0, 1),
        "c = sqrt(9) + pow(2, 3) + fmax(v, 2.0) + max(v, 1.0) + min(1, 2u) + max(3, 4l)":
            lambda x: 3 + 8 + 2 * np.maximum(x, 0) + 1 + 4 + np.where(x < 2, 2 - x, 0) + np.where(x < 1, 1 - x, 0),
    }  # fmt: skip
    statements = [f"[&] {{ float a = 0, b = 0, c = 0; int e = 0; {call}; return c + 0 * (a + b + e); }}()"
                  for call in calls]  # fmt: skip
    x = np.tile(np.linspace(0.1, 8.9, COUNT), (len(calls), 1)).astype("f4")
    out = np.zeros_like(x)
    compiled(kernel(statements, "float")).run("rows", COUNT // 64, 64, x, x, out, COUNT)
    for call, ours, theirs in zip(calls, out, [f(x[0].astype("f8")) for f in calls.values()], strict=True):
        assert np.allclose(ours, theirs, rtol=3e-6, atol=3e-6), call


@pytest.mark.executes(run=False)  # what is in the memory otherwise may be no number
@pytest.mark.parametrize(("dtype", "letters"), [("f4", ("f", "f", "maf")), ("f8", ("d", "d", "ma"))])
def test_rounding(compiled, dtype, letters):
    """Each result is the neighbour of the exact one in its direction."""
    rng = np.random.default_rng(5)
    x, y = (rng.uniform(-9, 9, COUNT).astype(dtype) for _ in range(2))
    x[:4], y[:4] = 1, np.array([2.0**-40, -(2.0**-40), 3, 0.1], dtype)
    one, _, fused = letters
    exact = {
        f"__{one}add": (("v", "w"), lambda a, b: a + b),
        f"__{one}sub": (("v", "w"), lambda a, b: a - b),
        f"__{one}mul": (("v", "w"), lambda a, b: a * b),
        f"__{one}div": (("v", "w"), lambda a, b: a / b),
        f"__{one}rcp": (("w",), lambda a, b: 1 / b),
        f"__f{fused}": (("v", "w", "(T)0.3f"), lambda a, b: a * b + Fraction(float(np.float32(0.3)))),
    }
    calls = [(f"{name}_{mode}({', '.join(args)})", function, mode)
             for name, (args, function) in exact.items() for mode in ("rn", "rz", "ru", "rd")]  # fmt: skip
    xs, ys = np.tile(x, (len(calls), 1)), np.tile(y, (len(calls), 1))
    out = np.zeros_like(xs)
    source = kernel([text for text, _, _ in calls], "float" if dtype == "f4" else "double")
    compiled(source).run("rows", COUNT // 64, 64, xs, ys, out, COUNT)
    for (text, function, mode), row in zip(calls, out, strict=True):
        for a, b, got in zip(x, y, row, strict=True):
            true = function(Fraction(float(a)), Fraction(float(b)))
            below = Fraction(float(got)) <= true
            other = np.nextafter(got, np.array(np.inf if below else -np.inf, dtype))
            low, high = (got, other) if below else (other, got)
            if Fraction(float(got)) == true:
                continue
            wanted = {"ru": high, "rd": low, "rz": low if true > 0 else high}.get(mode)
            if wanted is None:
                assert abs(Fraction(float(got)) - true) <= abs(Fraction(float(other)) - true), (text, a, b)
            else:
                assert got == wanted, (text, a, b, got)


def test_no_contraction_of_what_promises_a_rounding(compiled):
    source = """extern "C" __global__ void error_of_product(const float* x, const float* y, float* out) {
        int i = threadIdx.x;
        float product = __fmul_rn(x[i], y[i]);
        out[i] = __fadd_rn(__fmul_rn(x[i], y[i]), -product);
    }"""
    x, y = (np.random.default_rng(1).uniform(1, 2, 64).astype("f4") for _ in range(2))
    out = np.ones(64, "f4")
    compiled(source).run("error_of_product", 1, 64, x, y, out)
    assert not out.any()  # a fused operation would leave the error
