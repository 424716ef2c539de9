"""Atomic functions of every type and scope, under contention."""

import numpy as np
import pytest

pytestmark = [
    pytest.mark.executes,
    pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles", "atomics on 64 bits"),
]

THREADS, BLOCKS = 128, 16
TOTAL = THREADS * BLOCKS

TYPES = {"int": "i4", "unsigned": "u4", "long long": "i8", "unsigned long long": "u8", "unsigned long": "u8",
         "float": "f4", "double": "f8"}  # fmt: skip


@pytest.mark.parametrize("scope", ["", "_system", "_block"])
def test_arithmetic(compiled, scope):
    types = TYPES if not scope else {name: TYPES[name] for name in ("int", "double")}
    kernels = "".join(
        f"""extern "C" __global__ void all_{dtype}_{number}({ctype}* p, {ctype}* old) {{
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            {ctype} v = i;
            old[i] = atomicAdd{scope}(p, v);
            atomicSub{scope}(p + 1, v); atomicMin{scope}(p + 2, v); atomicMax{scope}(p + 3, v);
            atomicExch{scope}(p + 4, v);
            if (atomicCAS{scope}(p + 5, ({ctype})0, ({ctype})7) == 0) atomicAdd{scope}(p + 6, 1);
        }}\n"""
        for number, (ctype, dtype) in enumerate(types.items())
    )
    program = compiled(kernels)
    blocks = 1 if scope == "_block" else BLOCKS
    total = THREADS * blocks
    numbers = np.arange(total)
    for number, dtype in enumerate(types.values()):
        p = np.array([0, total**2, 10**6, 0, -1 if dtype[0] != "u" else 10**6, 0, 0], "i8").astype(dtype)
        old = np.full(total, -1 if dtype[0] != "u" else 0).astype(dtype)
        program.run(f"all_{dtype}_{number}", blocks, THREADS, p, old)
        assert p[0] == numbers.sum()
        assert p[1] == total**2 - numbers.sum()
        assert (p[2], p[3], p[5], p[6]) == (0, total - 1, 7, 1)
        assert 0 <= p[4] < total
        # Each addition saw what all before it had left.
        assert np.array_equal(old.astype("i8"), partial_sums(old, numbers))


def partial_sums(old, numbers):
    """The sums that the additions must have seen, in the order that what they saw tells."""
    order = np.lexsort((numbers, old.astype("i8")))
    sums = np.zeros(len(numbers), "i8")
    sums[order] = np.concatenate([[0], np.cumsum(numbers[order])[:-1]])
    return sums


def test_logic_and_wrapping(compiled):
    source = """extern "C" __global__ void all(unsigned* p, unsigned long long* q, int* n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        atomicOr(p, 1u << (i & 31)); atomicAnd(p + 1, ~(1u << (i & 15))); atomicXor(p + 2, i);
        atomicInc(p + 3, 9); atomicDec(p + 4, 9); atomicOr(q, 1ull << (i & 63)); atomicXor(q + 1, 1ull << 40);
        atomicAnd(n, ~i);
        atomicInc_block(p + 5, 0); atomicAdd(n + 1, 2.0);
    }"""
    p = np.array([0, 0xFFFFFFFF, 0, 3, 3, 5], "u4")
    q, n = np.zeros(2, "u8"), np.array([-1, 0], "i4")
    compiled(source).run("all", BLOCKS, THREADS, p, q, n)
    assert p.tolist() == [0xFFFFFFFF, 0xFFFF0000, np.bitwise_xor.reduce(np.arange(TOTAL)),
                          (3 + TOTAL) % 10, (3 - TOTAL) % 10, 0]  # fmt: skip
    assert q.tolist() == [2**64 - 1, 0]
    assert n.tolist() == [-TOTAL, 2 * TOTAL]


def test_shared_memory(compiled):
    source = """extern "C" __global__ void count(const int* x, int* out, double* sum) {
        __shared__ int bins[8]; __shared__ double total; __shared__ float f;
        if (threadIdx.x < 8) bins[threadIdx.x] = 0;
        if (threadIdx.x == 0) { total = 0; f = 0; }
        __syncthreads();
        atomicAdd(&bins[x[threadIdx.x]], 1); atomicAdd(&total, 0.5); atomicAdd_block(&f, 0.25f);
        __syncthreads();
        if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
        if (threadIdx.x == 0) { sum[0] = total; sum[1] = f; }
    }"""
    x = np.random.default_rng(0).integers(0, 8, THREADS, dtype="i4")
    expected = np.bincount(x, minlength=8)
    out, total = np.zeros(8, "i4"), np.zeros(2)
    compiled(source).run("count", 1, THREADS, x, out, total)
    assert np.array_equal(out, expected)
    assert total.tolist() == [THREADS / 2, THREADS / 4]


def test_halves_and_own_overloads(compiled):
    source = """
        __device__ double atomicAdd(double* address, double value) {  // as before GPUs had one
            auto place = (unsigned long long*)address;
            unsigned long long old = *place, assumed;
            do {
                assumed = old;
                old = atomicCAS(place, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
            } while (assumed != old);
            return __longlong_as_double(old) ;
        }
        extern "C" __global__ void all(__half* h, double* d, unsigned short* s) {
            atomicAdd(h + 1, __half(1)); atomicAdd(d, 1.0);
            atomicCAS(s + (threadIdx.x & 1), (unsigned short)0, (unsigned short)(threadIdx.x & 1 ? 9 : 8));
        }"""
    h, d, s = np.array([5, 0, 6, 7], "f2"), np.zeros(1), np.zeros(2, "u2")
    compiled(source).run("all", 4, THREADS, h, d, s)
    assert h.tolist() == [5, 4 * THREADS, 6, 7]
    assert d[0] == 4 * THREADS
    assert s.tolist() == [8, 9]
