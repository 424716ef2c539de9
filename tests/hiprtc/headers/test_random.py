"""Random numbers in kernels: published numbers of each generator, skipping, and the distributions."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

pytestmark = [pytest.mark.needs("a compiler of its own", "SPIR-V", "doubles")]


@pytest.fixture
def stats():
    return pytest.importorskip("scipy.stats")  # which takes long to import


DRAW = """
#include <curand_kernel.h>
template <class S> __global__ void bits(unsigned* out, unsigned long long seed, unsigned long long sequence,
                                        unsigned long long offset, int count) {
    S state; curand_init(seed, sequence, offset, &state);
    for (int i = 0; i < count; i++) out[i] = curand(&state);
}
"""
GENERATORS = ["curandState", "curandStatePhilox4_32_10_t", "curandStateMRG32k3a_t"]


@pytest.fixture
def draw(compiled):
    program = compiled(DRAW, names=[f"bits<{name}>" for name in GENERATORS])

    def numbers(generator, seed, sequence, offset, count):
        out = np.zeros(count, "u4")
        program.run(f"bits<{generator}>", 1, 1, out, seed, sequence, offset, count)
        return out.tolist()

    return numbers


def test_philox_gives_the_published_numbers(compiled):
    """Of Random123's known answers: counter and key are 0, all ones, and digits of pi."""
    source = """
        #include <hiprand/hiprand_kernel.h>
        extern "C" __global__ void answers(const unsigned* in, unsigned* out) {
            for (int t = 0; t < 3; t++) {
                __forebay::philox p;
                for (int i = 0; i < 4; i++) p.counter[i] = in[6 * t + i];
                p.key[0] = in[6 * t + 4]; p.key[1] = in[6 * t + 5]; p.compute();
                for (int i = 0; i < 4; i++) out[4 * t + i] = p.output[i];
            }
        }"""
    given = "00000000 " * 6 + "ffffffff " * 6 + "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0"
    known = (
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8 408f276d 41c83b0e a20bc7c6 6d5451fd d16cfe09 94fdcceb 5001e420 24126ea1"
    )
    out = np.zeros(12, "u4")
    compiled(source).run("answers", 1, 1, np.array([int(word, 16) for word in given.split()], "u4"), out)
    assert device_data([f"{word:08x}" for word in out.tolist()]) == known.split()


def test_mrg32k3a_gives_the_published_numbers(draw):
    """Those of L'Ecuyer's RngStreams, which begin at 12345 six times."""
    first = np.array(draw("curandStateMRG32k3a_t", 0, 0, 0, 3)) * 2.328306549295727688e-10
    assert np.allclose(device_data(first), [0.127011122046577, 0.318527565396794, 0.309186015583270], rtol=0, atol=1e-9)


def test_mrg32k3a_sequences_are_2_to_the_76_apart(draw):
    def power(matrix, bits, m):
        for _ in range(bits):
            matrix = [[sum(matrix[i][k] * matrix[k][j] for k in range(3)) % m for j in range(3)] for i in range(3)]
        return matrix

    m1, m2 = 4294967087, 4294944443
    x, y = ([sum(row) * 12345 % m for row in power([[a, b, c], [1, 0, 0], [0, 1, 0]], 76, m)]
            for a, b, c, m in ((0, 1403580, m1 - 810728, m1), (527612, 0, m2 - 1370589, m2)))  # fmt: skip
    expected = []
    for _ in range(5):
        x = [(1403580 * x[1] - 810728 * x[2]) % m1, *x[:2]]
        y = [(527612 * y[0] - 1370589 * y[2]) % m2, *y[:2]]
        expected.append(x[0] - y[0] if x[0] > y[0] else x[0] + m1 - y[0])
    assert device_data(draw("curandStateMRG32k3a_t", 0, 1, 0, 5)) == expected


def test_xorwow_is_marsaglias(draw):
    """As in "Xorshift RNGs", page 5; the five numbers and the counter that it begins with are splitmix64's."""
    mask = 2**32 - 1

    def mixed(seed):
        seed = (seed + 0x9E3779B97F4A7C15) % 2**64
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return seed, z ^ z >> 31

    mix, words = mixed(7)[1] ^ 2 * 0xD1342543DE82EF95 % 2**64, []
    for _ in range(3):
        mix, bits = mixed(mix)
        words += [bits & mask, bits >> 32]
    x, y, z, w, v, d = *words[:4], words[4] | 1, words[5]
    expected = []
    for _ in range(400):
        t = x ^ x >> 2
        x, y, z, w = y, z, w, v
        v = (v ^ v << 4) & mask ^ t ^ (t << 1) & mask
        d = d + 362437 & mask
        expected.append(d + v & mask)
    assert device_data(draw("curandState", 7, 2, 0, 400)) == expected


@pytest.mark.parametrize("generator", GENERATORS)
def test_an_offset_skips_and_sequences_differ(draw, generator):
    drawn = draw(generator, 42, 5, 0, 300)
    for offset in (1, 3, 4, 117):
        assert draw(generator, 42, 5, offset, 50) == drawn[offset : offset + 50]
    assert device_data(set(drawn) & set(draw(generator, 42, 6, 0, 300))) == set()
    assert device_data(set(drawn) & set(draw(generator, 43, 5, 0, 300))) == set()


@pytest.mark.parametrize("generator", GENERATORS)
def test_distributions(compiled, generator, stats):
    """Kolmogorov and Smirnov's test, with a chance of 10^-6 to fail for true random numbers; seeds do not change."""
    source = """
        #include <hiprand/hiprand_kernel.h>
        #include <curand_kernel.h>
        template <class S> __global__ void all(float* x, double* d, unsigned* u) {
            int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
            S state; hiprand_init(1234, i, 0, &state);
            x[i] = hiprand_uniform(&state); x[n + i] = curand_normal(&state); x[2 * n + i] = hiprand_normal(&state);
            d[i] = hiprand_uniform_double(&state); d[n + i] = hiprand_normal_double(&state);
            float2 two = hiprand_normal2(&state); x[3 * n + i] = two.x; x[4 * n + i] = two.y;
            x[5 * n + i] = logf(hiprand_log_normal(&state, 1.f, 2.f));
            u[i] = hiprand_poisson(&state, 3.0); u[n + i] = hiprand_poisson(&state, 500.0);
        }"""
    count = 1 << 14
    x, d, u = np.zeros((6, count), "f4"), np.zeros((2, count)), np.zeros((2, count), "u4")
    compiled(source, names=[f"all<{generator}>"]).run(f"all<{generator}>", count // 64, 64, x, d, u)
    assert device_data(x[0].min()) > 0
    assert x[0].max() <= 1
    for drawn, distribution in [
        (x[0], stats.uniform()), (d[0], stats.uniform()), (x[1], stats.norm()), (x[2], stats.norm()),
        (x[3], stats.norm()), (x[4], stats.norm()), (d[1], stats.norm()), (x[5], stats.norm(1, 2)),
    ]:  # fmt: skip
        assert device_data(stats.kstest(drawn, distribution.cdf).pvalue) > 1e-6
    assert abs(np.corrcoef(device_data(x[1]), x[2])[0, 1]) < 0.05
    for drawn, mean in zip(u, (3, 500), strict=True):
        assert abs(device_data(drawn.mean()) - mean) < 6 * np.sqrt(mean / count)
        assert abs(device_data(drawn.var()) / mean - 1) < 0.1


LANE = np.arange(64)


def sobol(vectors, index):
    """The numbers at these places, in the order of Gray's code."""
    result, gray = np.zeros(index.shape, vectors.dtype), index ^ index >> 1
    for bit in range(14):
        result ^= np.where(gray >> bit & 1, vectors[bit], 0).astype(vectors.dtype)
    return result


PLAIN = "curandStateSobol32 s; curand_init(plain_, 4 * i, &s);"
SCRAMBLED = "curandStateScrambledSobol32_t s; curand_init(v_, 0x12345678u, i, &s);"
PHILOX = "curandStatePhilox4_32_10_t s, t; curand_init(7, 100 + i, 5, &s); curand_init(7, 100, 5, &t); skipahead_sequence((unsigned long long)i, &t);"
SAME = "r = (a.x == curand(&t)); r += (a.y == curand(&t)); r += (a.z == curand(&t)); r += (a.w == curand(&t))"
PLACES = {
    # The first dimension is van der Corput's sequence.
    f"{PLAIN} r = curand(&s)": lambda v, plain: sobol(plain, 4 * LANE),
    f"{PLAIN} curand(&s); curand(&s); r = curand(&s)": lambda v, plain: sobol(plain, 4 * LANE + 2),
    f"{PLAIN} curand(&s); skipahead(4093, &s); r = curand(&s)": lambda v, plain: sobol(plain, 4 * LANE + 4094),
    f"{SCRAMBLED} r = curand(&s)": lambda v, plain: sobol(v, LANE) ^ 0x12345678,
    f"{SCRAMBLED} curand(&s); r = curand(&s)": lambda v, plain: sobol(v, LANE + 1) ^ 0x12345678,
    f"{PHILOX} uint4 a = curand4(&s); {SAME}": lambda v, plain: 4,
    f"{PHILOX} skipahead(5ull, &s); for (int k = 0; k < 5; k++) curand(&t); uint4 a = curand4(&s); {SAME}": lambda v, plain: 4,
    f"{PHILOX} double4 a = curand_normal4_double(&s); double2 b = curand_normal2_double(&t), c = curand_normal2_double(&t); "
    "r = (a.x == b.x && a.y == b.y && a.z == c.x && a.w == c.y)": lambda v, plain: 1,
    f"{PHILOX} float4 a = curand_uniform4(&s), b = curand_normal4(&s); r = (a.x != a.y && a.z != a.w && a.x > 0 && a.w <= 1 && b.x != b.w)":
        lambda v, plain: 1,
    "curandStateMRG32k3a s, t; curand_init(7, 3 + i, 5, &s); curand_init(7, 3, 5, &t); skipahead_subsequence((unsigned long long)i, &t); "
    "r = curand(&s) - curand(&t)": lambda v, plain: 0,
}  # fmt: skip
WIDE = {
    "curandStateScrambledSobol64 s; curand_init(v_, 0x123456789abcdefull, i, &s); r = curand(&s)":
        lambda v: sobol(v, LANE) ^ 0x123456789ABCDEF,
}  # fmt: skip


def test_places_in_sequences_of_random_numbers(device, queue, stats):
    random, head = np.random.default_rng(4), "#include <curand_kernel.h>"
    plain = np.resize((1 << np.arange(31, -1, -1)).astype("u4"), 64)
    normal = {f"{PLAIN} r = curand_normal(&s)": lambda plain: stats.norm.ppf((sobol(plain, 4 * LANE) + 0.5) / 2**32)}
    tables = [
        Calls(PLACES, "u4", {"v": random.integers(0, 2**32, 64, dtype="u4"), "plain": plain}, head),
        Calls(WIDE, "u8", {"v": random.integers(0, 2**64, 64, dtype="u8")}, head),
        Calls(normal, "f4", {"plain": plain}, head, atol=1e-4),
    ]
    assert device_data(call_differences(device, queue, tables)) == []
