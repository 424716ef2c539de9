"""Functions of one and two numbers over all that a type holds, compared with mpmath.

The bounds are those of the CUDA C++ Programming Guide, "Mathematical Functions", in units in the last place of the
rounded exact result.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from .rounding import MODES, nearest, rounded
from .test_math import extremes

mp = pytest.importorskip("mpmath").mp.clone()

pytestmark = [
    pytest.mark.executes,
    pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles"),
]

mp.prec = 140
COUNT = 512
NAN, INFINITY = mp.nan, mp.inf


def inverse_tail(x):
    """The y whose erfc is x, by Newton's method for the logarithm."""
    if not 0 < x < 2:
        return INFINITY if x == 0 else -INFINITY if x == 2 else NAN
    if x > 1:
        return -inverse_tail(2 - x)
    y = mp.sqrt(max(-mp.log(x), mp.mpf(0)))
    for _ in range(60):
        tail = mp.erfc(y)
        step = mp.log(tail / x) * tail / (mp.exp(-y * y) * 2 / mp.sqrt(mp.pi))
        y += step
        if abs(step) <= abs(y) * mp.mpf(2) ** -90:
            break
    return y


def inverse_erf(x):
    if abs(x) < 0.5:
        return mp.erfinv(x)
    return inverse_tail(1 - x) if x > 0 else -inverse_tail(1 + x)


def within(low, high, function):
    """A function that is NaN elsewhere."""
    return lambda x: function(x) if low <= x <= high else NAN


def lgamma(x):
    if mp.isinf(x):
        return INFINITY
    return INFINITY if x <= 0 and x == mp.floor(x) else mp.log(abs(mp.gamma(x))) if x < 1e4 else mp.loggamma(x)


def tgamma(x):
    if x == -INFINITY or (x < 0 and x == mp.floor(x)):
        return NAN
    return INFINITY if x == 0 or x > 200 else mp.mpf(0) if x < -400 else mp.gamma(x)


def of_pi(function):
    """A function of as many times pi; every float from 2**60 on is an even number."""
    return lambda x: NAN if mp.isinf(x) else function(x if abs(x) < 2.0**60 else mp.mpf(0))


def tail(x):
    """Of what erfc is; mpmath takes no numbers with too large a square."""
    return mp.erfc(x) if x < 1e4 else mp.mpf(0)


def scaled_tail(x):
    if x > 1e6:
        return (1 - 1 / (2 * x * x)) / (x * mp.sqrt(mp.pi))
    return INFINITY if x < -40 else mp.exp(x * x) * mp.erfc(x)


def whole(function):
    """A function that leaves infinities."""
    return lambda x: x if mp.isinf(x) else function(x)


HALVES = [k / 2 for k in range(-9, 10)]
# name -> (exact, bound for float, bound for double, more arguments)
near = [1 + s * 2.0**-k for k in (3, 6, 9, 12, 20, 23, 30) for s in (1, -1)]
quarters = [k * math.pi / 4 for k in range(-40, 41)] + [1e5 * math.pi, 1e22, 2.0**100]
UNARY = {
    "sin": (mp.sin, 2, 2, quarters), "cos": (mp.cos, 2, 2, quarters), "tan": (mp.tan, 4, 2, quarters),
    "asin": (within(-1, 1, mp.asin), 4, 2, near), "acos": (within(-1, 1, mp.acos), 2, 2, near), "atan": (mp.atan, 2, 2, near),
    "sinh": (mp.sinh, 3, 2, ()), "cosh": (mp.cosh, 2, 1, ()), "tanh": (mp.tanh, 2, 1, ()),
    "asinh": (mp.asinh, 3, 3, ()), "acosh": (within(1, INFINITY, mp.acosh), 4, 3, near), "atanh": (within(-1, 1, mp.atanh), 3, 2, near),
    "sinpi": (of_pi(mp.sinpi), 1, 2, [k / 4 for k in range(-20, 21)]), "cospi": (of_pi(mp.cospi), 1, 2, [k / 4 for k in range(-20, 21)]),
    "exp": (mp.exp, 2, 1, (-87.5, -100, -103.9, -745, -708.5, 88.7, 709.7)), "exp2": (lambda x: mp.mpf(2) ** x, 2, 1, (-126.5, -149, -1074)),
    "exp10": (lambda x: mp.mpf(10) ** x, 2, 1, (-38, -44, -323, 38, 308)), "expm1": (mp.expm1, 1, 1, near),
    "log": (within(0, INFINITY, mp.log), 1, 1, near), "log2": (within(0, INFINITY, lambda x: mp.log(x) / mp.log(2)), 1, 1, near),
    "log10": (within(0, INFINITY, lambda x: mp.log(x) / mp.log(10)), 2, 1, near), "log1p": (within(-1, INFINITY, mp.log1p), 1, 1, [each - 1 for each in near]),
    "sqrt": (within(0, INFINITY, mp.sqrt), 0, 0, ()), "rsqrt": (within(0, INFINITY, lambda x: 1 / mp.sqrt(x)), 2, 1, ()),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), 1, 1, ()), "rcbrt": (lambda x: mp.sign(x) / mp.cbrt(abs(x)), 1, 1, ()),
    "erf": (mp.erf, 2, 2, ()), "erfc": (tail, 4, 5, (9, 10, 26, 27)), "erfcx": (scaled_tail, 4, 4, (9, 10, 26, 27, 1e4)),
    "erfinv": (inverse_erf, 2, 5, near), "erfcinv": (inverse_tail, 4, 6, near),
    "normcdf": (lambda x: tail(-x / mp.sqrt(2)) / 2, 5, 5, (-14, -37, -38.4)), "normcdfinv": (lambda x: -mp.sqrt(2) * inverse_tail(2 * x), 5, 8, near),
    "floor": (whole(mp.floor), 0, 0, near), "ceil": (whole(mp.ceil), 0, 0, near), "rint": (whole(mp.nint), 0, 0, HALVES),
    "nearbyint": (whole(mp.nint), 0, 0, HALVES), "fabs": (abs, 0, 0, ()),
    "trunc": (whole(lambda x: mp.sign(x) * mp.floor(abs(x))), 0, 0, near),
    "round": (whole(lambda x: mp.sign(x) * mp.floor(abs(x) + 0.5)), 0, 0, HALVES),
    "tgamma": (tgamma, 5, 10, (34, 35, 170, -1.5, -20.5)), "lgamma": (lgamma, 6, 4, near),
}  # fmt: skip
ODD = {"sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "sinpi", "expm1", "log1p", "sqrt", "cbrt", "erf",
       "erfinv"}  # fmt: skip
POLES = {"rsqrt", "rcbrt", "tgamma"}  # whose infinity has the sign of the zero
# Intel's runtime for CPUs keeps OpenCL's bounds, which are larger.
OF_RUNTIME = {("sinpi", 4): 2, ("cospi", 4): 2, ("erf", 4): 4, ("cos", 8): 4}
# Where the bound of CUDA's own lgamma does not hold: its zeros are there.
ZEROS = {4: (-10.001, -2.264), 8: (-23.0001, -2.2637)}
BINARY = {
    "pow": (np.power, 4, 2), "atan2": (np.arctan2, 3, 2), "hypot": (np.hypot, 3, 2),
    "rhypot": (lambda x, y: 1 / np.hypot(x, y), 2, 1), "fmod": (np.fmod, 0, 0),
    "fdim": (lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0)), 0, 0),
    "fmin": (np.fmin, 0, 0), "fmax": (np.fmax, 0, 0), "copysign": (np.copysign, 0, 0), "fdivide": (np.divide, 0, 0),
}  # fmt: skip


def arguments(dtype, more=()):
    """Numbers of all kinds: any bits, sizes that matter, and the special ones."""
    random = np.random.default_rng(41)
    info = np.finfo(dtype)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, -info.tiny, info.smallest_subnormal,
                        -info.smallest_subnormal, 1, -1, 0.5, -0.5, 1 + info.eps, 1 - info.epsneg, 2, 3, -3], dtype)  # fmt: skip
    more = np.array(more, dtype)
    count = COUNT - special.size - more.size
    bits = random.integers(0, 256, (count // 3, dtype.itemsize), "u1").view(dtype).ravel()
    sizes = np.exp2(random.uniform(-12, 9, count - count // 3)) * random.choice([-1, 1], count - count // 3)
    return np.concatenate([special, more, bits, sizes.astype(dtype)])


def as_number(exact, dtype):
    """An exact number as a type has it."""
    if mp.isnan(exact):
        return dtype.type(np.nan)
    if dtype.itemsize == 8:
        return np.float64(float(exact))
    sign, exponent = mp.sign(exact), 0
    if mp.isinf(exact) or exact == 0:
        return np.float32(float(exact))
    exponent = max(int(mp.floor(mp.log(abs(exact), 2))), -126) - 23 if abs(exact) < mp.mpf(2) ** 130 else 110
    return np.float32(float(sign * mp.nint(abs(exact) / mp.mpf(2) ** exponent) * mp.mpf(2) ** exponent))


def distances(got, expected):
    """How many numbers of the type lie between."""
    word = np.dtype(f"i{got.dtype.itemsize}")
    a, b = (
        np.where(each.view(word) < 0, np.iinfo(word).min - each.view(word), each.view(word)) for each in (got, expected)
    )
    both = np.isnan(got) & np.isnan(expected)
    one = np.isnan(got) != np.isnan(expected)
    return np.where(both, 0.0, np.where(one, np.inf, np.abs(a.astype("O") - b.astype("O")).astype("f8")))


def exact_of(name, x, dtype):
    """What a function is at a number, rounded."""
    if np.isnan(x):
        return x
    if x == 0 and (name in ODD or name in POLES):
        return x if name in ODD else np.copysign(dtype.type(np.inf), x)
    try:
        return as_number(mp.re(UNARY[name][0](mp.mpf(float(x)))), dtype)
    except (ValueError, ZeroDivisionError):
        return dtype.type(np.nan)


def check(name, got, expected, bound, *given):
    away = distances(got, expected)
    i = int(away.argmax())
    assert away[i] <= bound, f"{name}({', '.join(str(each[i]) for each in given)}): {got[i]}, not {expected[i]}"


@pytest.mark.parametrize(("word", "suffix", "code"), [("float", "f", "f4"), ("double", "", "f8")])
@pytest.mark.long
def test_of_one(compiled, device, word, suffix, code):
    dtype = np.dtype(code)
    rows = "".join(
        f"v = x[{row} * n + i]; out[{row} * n + i] = {name}{suffix}(v); again[{row} * n + i] = {name}(v);\n"
        for row, name in enumerate(UNARY)
    )
    program = compiled(f"""extern "C" __global__ void all(const {word}* x, {word}* out, {word}* again, int n) {{
        {word} v; int i = blockIdx.x * blockDim.x + threadIdx.x; {rows} }}""")
    x = np.array([arguments(dtype, more) for _, _, _, more in UNARY.values()])
    for name in ("erfcinv", "normcdfinv"):  # 2e-14 off from here on
        row = x[list(UNARY).index(name)]
        row[np.abs(row) < 1e-200] = 0.1
    out, again = np.zeros_like(x), np.zeros_like(x)
    program.run("all", COUNT // 64, 64, x, out, again, np.int32(COUNT))
    assert np.array_equal(out, again, equal_nan=True)  # of overloads
    for (name, (_, *bounds, _)), given, got in zip(UNARY.items(), x, out, strict=True):
        expected = np.array([exact_of(name, each, dtype) for each in given], dtype)
        bound = OF_RUNTIME.get((name, dtype.itemsize), bounds[dtype.itemsize // 8])
        if name == "lgamma" and device.info.backend == "cuda":
            low, high = ZEROS[dtype.itemsize]
            got = np.where((given > low) & (given < high), expected, got)
        check(name, got, expected, bound, given)


@pytest.mark.parametrize(("word", "suffix", "code"), [("float", "f", "f4"), ("double", "", "f8")])
def test_of_two(compiled, word, suffix, code):
    dtype, wide = np.dtype(code), np.float64 if code == "f4" else np.longdouble
    rows = "".join(f"out[{row} * n + i] = {name}{suffix}(x[i], y[i]);\n" for row, name in enumerate(BINARY))
    program = compiled(f"""extern "C" __global__ void all(const {word}* x, const {word}* y, {word}* out, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x; {rows} }}""")
    numbers = arguments(dtype)
    special = numbers[:20]
    random = np.random.default_rng(43)
    pairs = np.repeat(special, special.size), np.tile(special, special.size)
    x, y = (np.concatenate([each, random.permutation(np.tile(numbers, 4))])[:2432] for each in pairs)
    out = np.zeros((len(BINARY), x.size), dtype)
    program.run("all", x.size // 64, 64, x, y, out, np.int32(x.size))
    with np.errstate(all="ignore"):
        for (name, (function, *bounds)), got in zip(BINARY.items(), out, strict=True):
            exact = wide if any(bounds) else dtype  # rounded once
            expected = function(x.astype(exact), y.astype(exact)).astype(dtype)
            if name in ("fmin", "fmax"):  # of zeros either may come
                same = (x == 0) & (y == 0)
                expected[same] = got[same]
            check(name, got, expected, bounds[dtype.itemsize // 8], x, y)


OPERATIONS = {
    "add": ("x[i], y[i]", lambda x, y, z: x + y), "sub": ("x[i], y[i]", lambda x, y, z: x - y),
    "mul": ("x[i], y[i]", lambda x, y, z: x * y), "div": ("x[i], y[i]", lambda x, y, z: x / y),
    "rcp": ("y[i]", lambda x, y, z: 1 / y), "fma": ("x[i], y[i], z[i]", lambda x, y, z: x * y + z),
    "sqrt": ("fabs(x[i])", None),
}  # fmt: skip


def root(square, mode, dtype):
    """The square root of a fraction, rounded."""
    return rounded(math.sqrt(square), lambda each: max(each, 0) ** 2 - square, mode, dtype)


@pytest.mark.parametrize(("word", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_rounding(compiled, word, dtype):
    """Each result is the neighbour of the exact one in its direction, also near the ends of what a type holds."""
    calls = [(operation, mode) for operation in OPERATIONS for mode in MODES]
    fma = {"float": "fmaf", "double": "fma"}[word]
    rows = "".join(
        f"out[{row} * n + i] = __{fma if operation == 'fma' else word[0] + operation}_{mode}({OPERATIONS[operation][0]});\n"
        for row, (operation, mode) in enumerate(calls)
    )
    program = compiled(f"""extern "C" __global__ void all(
        const {word}* x, const {word}* y, const {word}* z, {word}* out, int n) {{ int i = threadIdx.x; {rows} }}""")
    x, y, z = (np.roll(extremes(dtype), by) for by in (0, 77, 191))
    x[20:24], y[20:24] = 1, np.array([2.0**-40, -(2.0**-40), 3, 0.1], dtype)
    with np.errstate(all="ignore"):
        y[24:80] = np.nan_to_num(x[24:80] * dtype(1.5), posinf=2, neginf=2)  # sums and quotients of numbers of one size
        z[100:200] = np.nan_to_num(-(x * y)[100:200] * dtype(1.25), posinf=2, neginf=2)
    out = np.zeros((len(calls), x.size), dtype)
    program.run("all", 1, x.size, x, y, z, out, np.int32(x.size))
    numbers = [[Fraction(float(each)) for each in values] for values in (x, y, z)]
    for (operation, mode), row in zip(calls, out, strict=True):
        for a, b, c, got in zip(*numbers, row, strict=True):
            if operation == "sqrt":
                expected = root(abs(a), mode, dtype)
            else:
                expected = nearest(OPERATIONS[operation][1](a, b, c), mode, dtype)
            assert got == expected, (operation, mode, float(a), float(b), float(c))
