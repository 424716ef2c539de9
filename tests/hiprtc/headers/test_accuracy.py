"""Functions of one and two numbers over all that a type holds, compared with mpmath.

The bounds are those of the CUDA C++ Programming Guide, "Mathematical Functions", in units in the last place of the
rounded exact result.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

from .rounding import MODES, exactly, rounded
from .test_math import extremes

mp = pytest.importorskip("mpmath").mp.clone()

pytestmark = [
    pytest.mark.executes,
    pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles"),
]

mp.prec = 140
COUNT = 512
DTYPES = {"float": np.dtype("f4"), "double": np.dtype("f8")}
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
OF_RUNTIME = {("sinpi", 4): 2, ("cospi", 4): 2, ("erf", 4): 4, ("cos", 8): 4, ("tanh", 8): 2}  # tanh: without AVX-512
# Where a bound does not hold: near 0, and at the zeros of CUDA's own lgamma.
EXCEPT = {"erfcinv": (-1e-200, 1e-200), "normcdfinv": (-1e-200, 1e-200)}
ZEROS = {"float": (-10.001, -2.264), "double": (-23.0001, -2.2637)}
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


def suffixed(name, word):
    """The name of C's function of this type."""
    return name + "f" * (word == "float")


def compare(device, queue, word, functions, **given):
    """Compare calls with what `functions` has for each: a function of exact numbers, and units in the last place."""
    rows, units = ({call: each[part] for call, each in functions.items()} for part in (0, 1))
    head = "template <class T> __device__ int differ(T a, T b) { return a != b && (a == a || b == b); }"
    table = Calls(rows, DTYPES[word].str[1:], given, head, units=units)
    assert device_data(call_differences(device, queue, [table])) == []


@pytest.mark.parametrize("word", DTYPES)
@pytest.mark.long
def test_of_one(device, queue, word):
    dtype, more = DTYPES[word], {each for _, _, _, more in UNARY.values() for each in more}
    left_out = EXCEPT | ({"lgamma": ZEROS[word]} if device.info.backend == "cuda" else {})
    functions = {}
    for name, (_, *bounds, _) in UNARY.items():
        low, high = left_out.get(name, (0, 0))

        def exact(x, name=name, low=low, high=high):
            return np.array([exact_of(name, np.nan if low < each < high else each, dtype) for each in x])

        bound = OF_RUNTIME.get((name, dtype.itemsize), bounds[dtype.itemsize // 8])
        functions[f"{low} < x && x < {high} ? NAN : {suffixed(name, word)}(x)"] = exact, bound
    overloads = "".join(f" r += differ({name}(x), {suffixed(name, word)}(x));" for name in UNARY)
    functions[f"r = 0;{overloads}"] = np.zeros_like, 0
    compare(device, queue, word, functions, x=arguments(dtype, sorted(more)))


@pytest.mark.parametrize("word", DTYPES)
def test_of_two(device, queue, word):
    functions = {}
    for name, (function, *bounds) in BINARY.items():
        bound = bounds[word == "double"]
        wide = np.longdouble if word == "double" and bound else np.float64  # else rounded once
        exact = lambda x, y, function=function, wide=wide: function(x.astype(wide), y.astype(wide))  # noqa: E731
        functions[f"{suffixed(name, word)}(x, y)"] = exact, bound
    numbers, random = arguments(DTYPES[word]), np.random.default_rng(43)
    special = numbers[:20]
    pairs = np.repeat(special, special.size), np.tile(special, special.size)
    x, y = (np.concatenate([each, random.permutation(np.tile(numbers, 4))])[:2432] for each in pairs)
    compare(device, queue, word, functions, x=x, y=y)


OPERATIONS = {
    "add": ("x, y", lambda x, y, z: x + y), "sub": ("x, y", lambda x, y, z: x - y), "mul": ("x, y", lambda x, y, z: x * y),
    "div": ("x, y", lambda x, y, z: x / y), "rcp": ("y", lambda x, y, z: 1 / y), "fma": ("x, y, z", lambda x, y, z: x * y + z),
}  # fmt: skip


def root(mode, dtype):
    """The square root, rounded."""
    return lambda x, y, z: np.array(
        [
            rounded(math.sqrt(abs(each)), lambda at, each=each: max(at, 0) ** 2 - abs(Fraction(each)), mode, dtype)
            for each in x
        ]
    )


@pytest.mark.parametrize("word", DTYPES)
def test_rounding(device, queue, word):
    """Each result is the neighbour of the exact one in its direction, also near the ends of what a type holds."""
    dtype, functions = DTYPES[word].type, {}
    for mode in MODES:
        functions[f"__{word[0]}sqrt_{mode}(fabs(x))"] = root(mode, dtype), 0
        for operation, (given, function) in OPERATIONS.items():
            name = suffixed("fma", word) if operation == "fma" else word[0] + operation
            functions[f"__{name}_{mode}({given})"] = exactly(function, mode, dtype), 0
    x, y, z = (np.roll(extremes(dtype), by) for by in (0, 77, 191))
    x[20:24], y[20:24] = 1, np.array([2.0**-40, -(2.0**-40), 3, 0.1], dtype)
    with np.errstate(all="ignore"):
        y[24:80] = np.nan_to_num(x[24:80] * dtype(1.5), posinf=2, neginf=2)  # sums and quotients of numbers of one size
        z[100:200] = np.nan_to_num(-(x * y)[100:200] * dtype(1.25), posinf=2, neginf=2)
    compare(device, queue, word, functions, x=x, y=y, z=z)
