"""Integers of 128 bits, compared with Python's."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")]

OPERATIONS = {
    "a + b": lambda a, b: a + b, "a - b": lambda a, b: a - b, "a * b": lambda a, b: a * b, "a & b": lambda a, b: a & b,
    "a | b": lambda a, b: a | b, "a ^ b": lambda a, b: a ^ b, "~a": lambda a, b: ~a, "-a": lambda a, b: -a,
    "a / b": lambda a, b: divided(a, b)[0], "a % b": lambda a, b: divided(a, b)[1],
    "a << n": lambda a, b: a << (b & 127), "a >> n": lambda a, b: a >> (b & 127),
    "a < b": lambda a, b: a < b, "a > b": lambda a, b: a > b, "a <= b": lambda a, b: a <= b, "a >= b": lambda a, b: a >= b,
    "a == b": lambda a, b: a == b, "a != a": lambda a, b: False, "a == a": lambda a, b: True,
    "a + 7": lambda a, b: a + 7, "a - 1ull": lambda a, b: a - 1, "3 * a": lambda a, b: 3 * a, "a / 10": lambda a, b: divided(a, 10)[0],
    "a % 1000000007ull": lambda a, b: divided(a, 1000000007)[1], "(a ? 5 : 6)": lambda a, b: 5 if a else 6,
    "(!a || b)": lambda a, b: not a or bool(b), "__FOREBAY_STEPS(a)": lambda a, b: a * 3 + 1,
}  # fmt: skip


def divided(a, b):
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient, a - quotient * b


def halves(numbers):
    return np.array([[each & (2**64 - 1), each >> 64 & (2**64 - 1)] for each in numbers], "u8")


SOURCE = r"""
#define __FOREBAY_STEPS(x) ([](TYPE v) { TYPE w = v; v += w++; v -= 1; ++v; v <<= 1; v /= 1; v |= 0; return v - w + 2; }(x))
extern "C" __global__ void all(const TYPE* x, const TYPE* y, TYPE* out, double* d, unsigned long long* high, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    TYPE a = x[i], b = y[i]; unsigned n = (unsigned)b & 127;
    int k = 0;
LINES
    d[i] = (double)a;
    TYPE of_double = d[i]; d[count + i] = of_double * 0.5;
    high[i] = (unsigned __int128)(unsigned long long)a * (unsigned long long)b >> 64;
    static_assert(((__uint128_t)~0ull * ~0ull >> 64) == ~0ull - 1 && sizeof(TYPE) == 16 && alignof(TYPE) == 16, "");
}
"""


@pytest.mark.parametrize("type_", ["unsigned __int128", "__int128"])
def test_operations(compiled, type_):
    random = np.random.default_rng(12)
    is_signed = type_ == "__int128"
    edges = [
        0,
        1,
        2,
        10,
        2**63,
        2**64 - 1,
        2**64,
        2**64 + 1,
        2**127 - 1,
        *([-1, -10, -(2**64), -(2**127)] if is_signed else [2**127, 2**128 - 1]),
    ]
    numbers = [(a, b) for a in edges for b in edges]
    for bits in (8, 40, 64, 65, 100, 127):
        pairs = random.integers(0, 256, (40, 2, 16), dtype="u1")
        numbers += [tuple(int.from_bytes(each.tobytes(), "little") >> (128 - bits) for each in pair) for pair in pairs]
        numbers += [(a, -b if is_signed else b >> 30) for a, b in numbers[-40:]]
    numbers = [(a, b) for a, b in numbers if b and not (a == -(2**127) and b == -1)]
    x, y = (halves(column) for column in zip(*numbers, strict=True))
    count = len(numbers)
    lines = "\n".join(f"    out[count * k++ + i] = {text};" for text in OPERATIONS)
    out, d, high = np.zeros((len(OPERATIONS), count, 2), "u8"), np.zeros((2, count)), np.zeros(count, "u8")
    program = compiled(SOURCE.replace("LINES", lines).replace("TYPE", type_))
    program.run(
        "all",
        -(-count // 64),
        64,
        x.view("V16").ravel(),
        y.view("V16").ravel(),
        out.view("V16").ravel(),
        d,
        high,
        np.int32(count),
    )
    for (text, function), got in zip(OPERATIONS.items(), out, strict=True):
        assert np.array_equal(got, halves([function(a, b) for a, b in numbers])), text
    exact = np.array([float(a) for a, _ in numbers])
    assert np.allclose(d[0], exact, rtol=2**-52, atol=0)
    fits = np.abs(exact) < 2.0**127
    assert np.allclose(d[1][fits], exact[fits] / 2, rtol=2**-51, atol=0)
    low = 2**64 - 1
    assert high.tolist() == [(a & low) * (b & low) >> 64 for a, b in numbers]
