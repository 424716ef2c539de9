"""Integers of 128 bits, compared with the host's."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import case, kernel_differences

pytestmark = [
    pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles"),
]

OPERATIONS = (
    "a + b", "a - b", "a * b", "a & b", "a | b", "a ^ b", "~a", "-a", "a / b", "a % b", "a << n", "a >> n", "a < b", "a > b",
    "a <= b", "a >= b", "a == b", "a != a", "a == a", "a + 7", "a - 1ull", "3 * a", "a / 10", "a % 1000000007ull",
    "a ? 5 : 6", "!a || b", "steps(a)", "(unsigned __int128)(unsigned long long)a * (unsigned long long)b >> 64",
)  # fmt: skip
SOURCE = """
__device__ TYPE steps(TYPE v) { TYPE w = v; v += w++; v -= 1; ++v; v <<= 1; v /= 1; v |= 0; return v - w + 2; }
__global__ void k(const TYPE* x, const TYPE* y, TYPE* out, double* d, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    TYPE a = x[i], b = y[i]; unsigned n = (unsigned)b & 127;
    int k = 0;
    LINES
    d[i] = (double)a; d[count + i] = (TYPE)(d[i] * 0.25) * 0.5;
    static_assert(((__uint128_t)~0ull * ~0ull >> 64) == ~0ull - 1 && sizeof(TYPE) == 16 && alignof(TYPE) == 16, "");
}
"""


def operations(type_):
    """A launch with all pairs of numbers at the edges, and random ones of all sizes."""
    random, is_signed = np.random.default_rng(12), type_ == "__int128"
    edges = [0, 1, 2, 10, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**127 - 1]
    edges += [-1, -10, -(2**64), -(2**127)] if is_signed else [2**127, 2**128 - 1]
    numbers = [(a, b) for a in edges for b in edges]
    for bits in (8, 40, 64, 65, 100, 127):
        pairs = random.integers(0, 256, (40, 2, 16), dtype="u1")
        numbers += [tuple(int.from_bytes(each.tobytes(), "little") >> (128 - bits) for each in pair) for pair in pairs]
        numbers += [(a, -b if is_signed else b >> 30) for a, b in numbers[-40:]]
    numbers = [(a, b) for a, b in numbers if b and not (a == -(2**127) and b == -1)]
    x, y = (
        np.array([[each & (2**64 - 1), each >> 64 & (2**64 - 1)] for each in column], "u8")
        for column in zip(*numbers, strict=True)
    )
    count = len(numbers)
    lines = " ".join(f"out[count * k++ + i] = {text};" for text in OPERATIONS)
    out = np.zeros(len(OPERATIONS) * 2 * count, "u8")
    source = SOURCE.replace("LINES", lines).replace("TYPE", type_)
    return case(source, -(-count // 64), 64, x, y, out, np.zeros(2 * count), count, rtol=2**-51)


def test_operations(device, queue):
    cases = {type_: operations(type_) for type_ in ("unsigned __int128", "__int128")}
    assert device_data(kernel_differences(device, queue, cases)) == []
