"""Threads that return before a barrier which others of their block reach: as on GPUs, the barrier waits for the others."""

import re
import zlib

import numpy as np
import pytest

from forebay.compiler.by_clang import compile_to_spirv
from forebay.compiler.clang import find_clang
from forebay.compiler.options import split_options
from forebay.compiler.program import Source
from forebay.compiler.spirv.intel_cpu.early_returns import find_early_returns, let_threads_return
from tests.helpers.device_data import device_data

from .results.tables import case, kernel_differences

pytestmark = [pytest.mark.needs("a compiler of its own", "SPIR-V")]

BEGIN = """
    int n = blockDim.x * blockDim.y, l = threadIdx.x + blockDim.x * threadIdx.y, i = blockIdx.x * n + l;
"""
SOURCE = """
namespace cg = cooperative_groups;
#define KERNEL(name) __global__ void name(const int* x, int* o, int count, int by) { BEGIN

KERNEL(reduction)
    __shared__ int t[256]; t[l] = 0; __syncthreads();
    if (i >= count) return;
    t[l] = x[i];
    for (int s = 128; s > 0; s >>= 1) { __syncthreads(); if (l < s && l + s < n) t[l] += t[l + s]; }
    if (l == 0) o[blockIdx.x] = t[0];
}
KERNEL(stencil)
    __shared__ int t[258];
    if (i >= count) return;
    t[l + 1] = x[i];
    if (l == 0) t[0] = i ? x[i - 1] : 0;
    if (l == n - 1 || i == count - 1) t[l + 2] = i + 1 < count ? x[i + 1] : 0;
    __syncthreads();
    o[i] = t[l] + 2 * t[l + 1] + t[l + 2];
}
KERNEL(leave_a_loop)
    __shared__ int t[256]; int sum = 0; t[l] = 0; __syncthreads();
    for (int k = 0; k < count; k++) {
        if (x[i] % 7 + l % 5 < k) { o[i] = -sum; return; }
        t[l] = x[i] + k; __syncthreads();
        sum += t[n - 1 - l] + k; __syncthreads();
    }
    o[i] = sum;
}
__device__ __attribute__((noinline)) int shifted(int* t, int l, int n, int v, bool stays) {
    if (!stays) return v;
    t[l] = v; __syncthreads();
    return t[(l + 1) % n] + 1;
}
KERNEL(function_after_return)
    __shared__ int t[256]; t[l] = 5; __syncthreads();
    if (i >= count) return;
    o[i] = shifted(t, l, n, x[i], true);
    __syncthreads();
    o[i] += shifted(t, l, n, x[i] * 3, by > 0);
}
KERNEL(ballots)
    __shared__ int t[256]; t[l] = 0; __syncthreads();
    if (x[i] % 3 == 0 || i >= count) return;
    t[l] = __popcll(__ballot(x[i] & 1)) + 100 * __popcll(__activemask());
    __syncthreads();
    o[i] = t[l] + t[(l + 1) % n];
}
KERNEL(votes)
    if (i >= count) return;
    int v = __syncthreads_count(x[i] & 1);
    v = v * 10 + __syncthreads_and(x[i] < 900);
    v = v * 10 + __syncthreads_or(x[i] > 990);
    o[i] = v;
}
KERNEL(dynamic)
    extern __shared__ int room[]; room[l] = 3; __syncthreads();
    if (i >= count) return;
    room[l] = x[i];
    cg::this_thread_block().sync();
    o[i] = room[n - 1 - l];
}
""".replace("BEGIN", BEGIN.strip())


SHAPES = [(64,), (100,), (1,), (37,), (16, 8), (8, 8), (256,)]
BLOCKS = 3


def launches(name, shape):
    """Launches of a kernel of SOURCE with few, many and all threads, blocks or rounds."""
    random, n = np.random.default_rng(zlib.crc32(f"{name}{shape}".encode())), int(np.prod(shape))
    for edge in range(2):
        x, o = random.integers(0, 1000, BLOCKS * n).astype("i4"), np.full(BLOCKS * n, -1, "i4")
        count = int(random.choice([0, 1, n, BLOCKS * n] if edge else random.integers(0, BLOCKS * n + 1, 3)))
        count = int(random.integers(0, BLOCKS + 4)) if name == "leave_a_loop" else count
        by = int(random.integers(0, 5))
        shared = 4 * n if name == "dynamic" else 0
        yield case(SOURCE, BLOCKS, shape, x, o, count, by, kernel=name, shared=shared)


KERNELS = re.findall(r"^KERNEL\((\w+)\)", SOURCE, re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "shapes"),
    [((), SHAPES), *(pytest.param(each, [(100,)], marks=pytest.mark.long) for each in
                     [("-O0",), ("-cl-opt-disable",), ("-O3", "-g")])],
)  # fmt: skip
def test_results(device, queue, options, shapes):
    """Also of code that is not optimized, by clang or by the device's compiler, and of code with lines."""
    cases = {
        f"{name} {shape} {number}": each
        for name in KERNELS
        for shape in shapes
        for number, each in enumerate(launches(name, shape))
    }
    assert device_data(kernel_differences(device, queue, cases, options)) == []


def test_launched_often(device, queue):
    """With graphs, too: nothing is left behind by one launch for the next."""
    n, blocks, count, by = 100, 2, 137, 3
    x = device.array(np.arange(n * blocks, dtype="i4") * 7 % 1000)
    with device.program(SOURCE) as program:
        for name, times in (("reduction", 100), ("votes", 10_000)):
            once, often = (device.array(np.full(x.shape, -1, "i4")) for _ in range(2))
            queue.launch(program[name], blocks, n, x, once, count, by)
            with queue.capture() as graph:
                queue.launch(program[name], blocks, n, x, often, count, by)
            go = program[name].bind(queue, blocks, n, x, often, count, by)
            for _ in range(times):
                go() if times > 100 else graph.launch(queue)
            assert device_data(often.get(queue=queue).tolist()) == device_data(once.get(queue=queue).tolist())


UNCHANGED = """
extern "C" __global__ void reduce(const int* x, int* o, int n) {
    __shared__ int t[256]; int l = threadIdx.x, v = 0;
    for (int i = blockIdx.x * blockDim.x + l; i < n; i += blockDim.x * gridDim.x) v += x[i];
    t[l] = v;
    for (int s = blockDim.x / 2; s > 0; s >>= 1) { __syncthreads(); if (l < s) t[l] += t[l + s]; }
    if (l == 0) o[blockIdx.x] = t[0];
}
extern "C" __global__ void until(const int* x, int* o, int n) {
    __shared__ int t[256]; int l = threadIdx.x, tries = 0; t[l] = x[l];
    if (n == 3) { o[0] = 5; return; }
    do { __syncthreads(); int first = t[0]; __syncthreads(); if (l == 0) t[0] = first / 2; } while (++tries < n && t[1] < 9);
    if (__syncthreads_or(x[l] == n)) return;
    __syncthreads();
    o[l] = tries;
}
extern "C" __global__ void plain(const int* x, int* o, int n) { if (threadIdx.x < n) o[threadIdx.x] = x[threadIdx.x]; }
"""
CHANGED = """
extern "C" __global__ void early(int* o, int n) {
    __shared__ int t[256]; if (threadIdx.x >= n) return;
    t[threadIdx.x] = n; __syncthreads(); o[threadIdx.x] = t[0];
}
"""
RECURSIVE = """
__device__ __attribute__((noinline)) int deep(int* t, int n) {
    __syncthreads();
    return n > 0 ? t[n] + deep(t, n - 1) * deep(t, n - 2) : 1;
}
extern "C" __global__ void recursive(int* o, int n) {
    __shared__ int t[256]; t[threadIdx.x] = n; if (threadIdx.x >= n) return; o[threadIdx.x] = deep(t, n);
}
"""


WARPS = """
extern "C" __global__ void warps(const int* x, int* o, int n) {
    __shared__ int t[256]; int l = threadIdx.x, i = blockIdx.x * blockDim.x + l, sum = 0;
    for (int j = l / 32; j < n; j += blockDim.x / 32) {
        t[l] = x[i] + j; __syncthreads(); sum += t[l ^ 32] + __popcll(__ballot(x[i] & 1)); __syncthreads();
    }
    t[l] = sum; __syncthreads();
    o[i] = t[(l + 1) % blockDim.x];
}
"""


def compiled_by_clang(source, options=(), **how):
    clang, why = find_clang()
    if clang is None:
        pytest.skip(why)
    return compile_to_spirv(clang, Source(source, options=split_options(options)), **how)


@pytest.mark.parametrize("options", [(), ("-O0",), ("-O3",)], ids=str)
@pytest.mark.long
def test_found(options):
    """Only kernels in which threads may part are changed, also if nothing is optimized."""
    assert let_threads_return(compiled_by_clang(UNCHANGED, options).code) == compiled_by_clang(UNCHANGED, options).code
    assert find_early_returns(compiled_by_clang(UNCHANGED, options).code).kernels == set()
    made = compiled_by_clang(UNCHANGED + CHANGED, options)
    assert find_early_returns(made.code).kernels == {"early"}
    changed = let_threads_return(made.code)
    assert changed != made.code
    assert let_threads_return(changed) == changed


def test_log_of_what_is_not_changed():
    made = compiled_by_clang(RECURSIVE, copies=False)
    assert find_early_returns(made.code).refused.keys() == {"recursive"}
    assert "warning: threads of the kernel recursive may return" in made.log


def test_warps_at_different_barriers(device, queue):
    """Intel's CPU runtime would end the process over the code that lets them; it gets the old one, and the log says so."""
    made = compiled_by_clang(WARPS)
    assert find_early_returns(made.code).refused.keys() == {"warps"}
    assert "warning: threads of the kernel warps may return or part" in made.log
    x = np.arange(256, dtype="i4") * 37 % 1000
    launch = case(WARPS, 2, 128, x, np.full(256, -1, "i4"), 8, kernel="warps")
    assert device_data(kernel_differences(device, queue, {"warps": launch})) == []


# Warnings of kernels that rely on threads of a warp going on together


REDUCE = r"""
template <class T> __device__ void of_a_warp(volatile T* s, int i) {
    s[i] += s[i + 16]; SYNC
    s[i] += s[i + 8]; SYNC
    s[i] += s[i + 4];
}
extern "C" __global__ void reduce(int* x) {
    SHARED;
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) of_a_warp(s, threadIdx.x);
    __syncthreads();
    x[threadIdx.x] = s[0];
}
extern "C" __global__ void other(int* x) { x[0] = 1; }
"""
LOOP = r"""
extern "C" __global__ void reduce(int* x, int n) {
    __shared__ volatile int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int k = n; k > 0; k /= 2) { int both = s[threadIdx.x] + s[threadIdx.x + k]; s[threadIdx.x] = both; SYNC }
    __syncthreads();
    x[threadIdx.x] = s[0];
}
"""
SHARED = ["__shared__ int s[64]", "extern __shared__ int s[]"]
WARNING = "warning: the kernel reduce reads volatile shared memory that other threads of a warp have written"


@pytest.mark.parametrize("source", [*(REDUCE.replace("SHARED", each) for each in SHARED), LOOP])
def test_steps_of_a_warp_without_a_barrier_are_warned_of(compiled, source):
    log = compiled(source.replace("SYNC", "")).made.log
    assert WARNING in log
    assert log.count("volatile") == 1
    for sync in ("__syncwarp();", "__syncthreads();"):
        assert "volatile" not in compiled(source.replace("SYNC", sync)).made.log


@pytest.mark.parametrize("body", [
    "volatile int* flag = x; flag[0] = 1; while (flag[1] == 0) { }",
    "__shared__ int s[64]; s[threadIdx.x] = x[0]; x[1] = s[threadIdx.x + 1];",
    "__shared__ volatile int s[64]; s[threadIdx.x] = x[0]; x[1] = s[threadIdx.x];",
    "__shared__ volatile int s[64]; s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[threadIdx.x + 1];",
    "volatile int s[8]; for (int i = 0; i < 8; i++) s[i] = x[i]; x[0] = s[x[1]];",
])  # fmt: skip
def test_nothing_else_is_warned_of(compiled, body):
    assert "volatile" not in compiled(f'extern "C" __global__ void k(int* x) {{ {body} }}').made.log
