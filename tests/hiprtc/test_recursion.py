"""Functions that call themselves, in kernels with blocks of many threads."""

import subprocess
import sys

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "a compiler of HIP C++")]

MASK = 0xFFFFFFFF


def down(x, n):
    if x < 2 or n == 0:
        return x
    return down(x // 2, n - 1) + down(x // 5, n - 1) + 1 if x & 1 else down(x // 3, n - 1) * 2


def odd(x, n):
    return x if n == 0 else even(x * 3 & MASK, n - 1) + 1


def even(x, n):
    return x if n == 0 else odd(x * 5 & MASK, n - 1) * 2 if x & 1 else even(x + 7 & MASK, n - 1) + 3


FUNCTIONS = """
__device__ unsigned even(unsigned x, int n);
__device__ unsigned odd(unsigned x, int n) { return n == 0 ? x : even(x * 3, n - 1) + 1; }
__device__ unsigned even(unsigned x, int n) {
    return n == 0 ? x : x & 1 ? odd(x * 5, n - 1) * 2 : even(x + 7, n - 1) + 3; }
__device__ unsigned down(unsigned x, int n) {
    if (x < 2 || n == 0) return x;
    return x & 1 ? down(x / 2, n - 1) + down(x / 5, n - 1) + 1 : down(x / 3, n - 1) * 2; }
"""


@pytest.mark.parametrize("options", [(), ("-g", "-O0")])
@pytest.mark.long
def test_functions_that_call_themselves_and_each_other(compiled, options):
    source = (
        FUNCTIONS
        + """extern "C" __global__ void k(unsigned* p) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; p[i] = down(p[i], 14) + even(p[i], 10); }"""
    )
    p = np.arange(128, dtype="u4") * 7777
    expected = [(down(int(x), 14) + even(int(x), 10)) & MASK for x in p]
    compiled(source, options).run("k", 2, 64, p)
    assert p.tolist() == expected


# NVIDIA's compiler loses both after a recursion in which the work-items of a warp part: CUDA 13.0 on an H100, CuPy too.
@pytest.mark.needs("SPIR-V")
@pytest.mark.parametrize("threads", [64, 40])
@pytest.mark.long
def test_beside_barriers_and_warps(compiled, threads):
    source = (
        FUNCTIONS
        + """extern "C" __global__ void k(unsigned* p) {
        __shared__ unsigned s[64]; unsigned i = threadIdx.x, n = blockDim.x;
        s[i] = down(p[i], 9); __syncthreads(); unsigned other = s[n - 1 - i];
        p[i] = other + 1000 * __popcll(__ballot(other & 1)); }"""
    )
    p = np.arange(threads, dtype="u4") * 333
    values = np.array([down(int(x), 9) for x in p])[::-1]
    votes = np.array([sum(values[i // 32 * 32 : i // 32 * 32 + 32] & 1) for i in range(threads)])
    compiled(source).run("k", 1, threads, p)
    assert p.tolist() == (values + 1000 * votes).tolist()


def test_structures_memory_and_member_functions(compiled):
    source = """
    struct range { int low, high; };
    __device__ range split(int* x, range r) {
        int pivot = x[(r.low + r.high) / 2];
        while (r.low <= r.high) {
            while (x[r.low] < pivot) r.low++;
            while (x[r.high] > pivot) r.high--;
            if (r.low <= r.high) { int t = x[r.low]; x[r.low++] = x[r.high]; x[r.high--] = t; } }
        return r; }
    __device__ void sort(int* x, range r) {
        range left = split(x, r);
        if (r.low < left.high) sort(x, {r.low, left.high});
        if (left.low < r.high) sort(x, {left.low, r.high}); }
    struct tree { int left, right; __device__ range ends(const tree* all, int depth) const {
        if (left < 0) return {right, right};
        range a = all[left].ends(all, depth + 1), b = all[right].ends(all, depth + 1);
        return {a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high}; } };
    extern "C" __global__ void k(int* x, const int* nodes, int* ends) {
        int i = threadIdx.x; sort(x + 32 * i, {0, 31});
        range r = ((const tree*)nodes)[0].ends((const tree*)nodes, 0); ends[2 * i] = r.low; ends[2 * i + 1] = r.high; }"""
    x = np.random.default_rng(2).integers(-99, 99, (16, 32)).astype("i4")
    nodes = np.array([[1, 2], [3, 4], [-1, 17], [-1, 40], [-1, 5]], "i4")
    ends, expected = np.zeros((16, 2), "i4"), np.sort(x, axis=1)
    compiled(source).run("k", 1, 16, x, nodes, ends)
    assert (x == expected).all()
    assert (ends == [5, 40]).all()


def test_virtual_functions_that_call_each_other(compiled):
    source = """
    struct thing { __device__ virtual int hit(int ray, int depth) const = 0; };
    struct ball : thing { int size; __device__ ball(int size) : size(size) { }
        __device__ int hit(int ray, int depth) const override { return ray % size + depth; } };
    struct list : thing { const thing* of[2]; __device__ list(const thing* a, const thing* b) : of{a, b} { }
        __device__ int hit(int ray, int depth) const override {
            int a = of[0]->hit(ray, depth + 1), b = of[1]->hit(ray + 1, depth + 1); return a > b ? a : b; } };
    __device__ thing* world;
    extern "C" __global__ void make() { world = new list(new list(new ball(5), new ball(7)), new ball(3)); }
    extern "C" __global__ void k(int* p) { p[threadIdx.x] = world->hit(p[threadIdx.x], 0); }"""
    program = compiled(source)
    program.run("make", 1, 1)
    p = np.arange(64, dtype="i4")
    expected = [max(max(x % 5, (x + 1) % 7) + 2, (x + 1) % 3 + 1) for x in range(64)]
    program.run("k", 1, 64, p)
    assert p.tolist() == expected


def test_what_becomes_a_loop_may_be_deep(compiled):
    source = """
    __device__ unsigned sum(unsigned n, unsigned so_far) { return n == 0 ? so_far : sum(n - 1, so_far + n); }
    extern "C" __global__ void k(unsigned* p) { p[threadIdx.x] = sum(p[threadIdx.x], 0); }"""
    p = np.arange(64, dtype="u4") * 100
    expected = p * (p + 1) // 2
    compiled(source).run("k", 1, 64, p)
    assert (p == expected).all()


TOO_DEEP = """
import numpy as np, forebay as fb
with fb.Device() as device:
    queue = device.queue()
    program = device.program('''__device__ unsigned f(unsigned n, unsigned x) {
        return n == 0 ? 1 : x & 1 ? f(n - 1, x * 5) + f(n - 1, 0) % 3 : f(n - 1, x / 2) * 2; }
    __global__ void k(unsigned* p) { p[threadIdx.x] = f(p[threadIdx.x], 2); }''')
    p = device.array(np.array([10, 500], "u4"))
    queue.launch(program["k"], 1, 2, p)
    print(int(p.get(queue=queue)[0]))
"""


@pytest.mark.long
def test_too_deep_is_printed(device):
    if device.info.kind != "cpu":
        pytest.skip("GPUs have a stack")
    done = subprocess.run([sys.executable, "-c", TOO_DEEP], capture_output=True, text=True, timeout=100, check=True)
    assert "calls of itself are open" in done.stdout
    assert done.stdout.splitlines()[-1].strip().isdigit()
