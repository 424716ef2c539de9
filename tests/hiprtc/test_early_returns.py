"""Threads that return before a barrier which others of their block reach: as on GPUs, the barrier waits for the others."""

import zlib

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import forebay as fb
from forebay.hiprtc.clang import find_clang
from forebay.hiprtc.compiler import compile_hip
from forebay.hiprtc.options import split_options
from forebay.spirv.intel_cpu.early_returns import find_early_returns, let_threads_return
from tests.drivers.levelzero import validation

from . import diverging

pytestmark = [pytest.mark.executes, pytest.mark.needs("SPIR-V")]

BEGIN = """
    int n = blockDim.x * blockDim.y, l = threadIdx.x + blockDim.x * threadIdx.y, i = blockIdx.x * n + l;
"""
SOURCE = """
namespace cg = cooperative_groups;
#define KERNEL(name) extern "C" __global__ void name(const int* x, int* o, int count, int by) { BEGIN

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
KERNEL(tiles)
    __shared__ int t[256]; int sum = 0; t[l] = 0; __syncthreads();
    if (i >= count) return;
    for (int k = 0; k < by; k++) {
        t[l] = x[i] * (k + 1); __syncthreads();
        for (int j = 0; j < n; j++) sum += t[j] * (j + 1);
        __syncthreads();
    }
    o[i] = sum;
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
KERNEL(in_a_function)
    __shared__ int t[256]; t[l] = 5; __syncthreads();
    o[i] = shifted(t, l, n, x[i], i < count);
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
KERNEL(two_barriers)
    __shared__ int t[256]; t[l] = 1; __syncthreads();
    if (i >= count) return;
    t[l] = x[i]; __syncthreads();
    int v = t[(l + 1) % n];
    if (v % 4 == 0) { o[i] = v; return; }
    __syncthreads();
    t[l] = v; __syncthreads();
    o[i] = t[(l + 2) % n] + 7;
}
KERNEL(only_some_wait)
    __shared__ int t[256]; t[l] = 4; __syncthreads();
    if (i < count) { t[l] = x[i]; __syncthreads(); o[i] = t[(l + 1) % n]; }
}
KERNEL(other_barriers)
    __shared__ int t[256]; int v = x[i];
    if (v & 1) { t[l] = v; __syncthreads(); v = t[(l + 1) % n] + 1; __syncthreads(); }
    else { t[l] = v * 2; __syncthreads(); v = t[(l + 2) % n]; __syncthreads(); }
    o[i] = v;
}
KERNEL(while_flag)
    __shared__ int t[256], left; int v = x[i], rounds = 0;
    if (i >= count) return;
    do {
        t[l] = v; if (l == 0) left = 0; __syncthreads();
        v = (v + t[0]) / 2; if (v > 10) atomicAdd(&left, 1);
        __syncthreads();
        int some = left; __syncthreads();
        if (!some) break;
    } while (++rounds < by);
    o[i] = v + 1000 * rounds;
}
KERNEL(uniform)
    __shared__ int t[256]; int v = x[i];
    if (blockIdx.x >= count) return;
    for (int k = 0; k < by; k++) { t[l] = v; __syncthreads(); if (l & 1) v += t[(l + 1) % n]; __syncthreads(); }
    o[i] = v;
}
""".replace("BEGIN", BEGIN.strip())


@pytest.fixture(scope=validation.scope("module"))
def program(device):
    if validation.active():
        pytest.skip("the same commands as those of other kernels")
    if find_clang()[0] is None:
        pytest.skip(find_clang()[1])
    with device.program(SOURCE) as program:
        yield program


class Block:
    """What a kernel of SOURCE does to one block, with what is in the buffers of the block."""

    def __init__(self, x, o, index, count, by):
        self.n, self.x, self.o, self.index, self.by = len(x), x, o, index, by
        self.left = int(np.clip(count - index * self.n, 0, self.n))
        self.lanes = np.arange(self.n)
        self.stay = self.lanes < self.left

    def filled(self, value, values):
        return np.where(self.stay, values, value)

    def stencil(self, whole, count):
        padded = np.pad(whole[:count], 1)
        return (padded[:-2] + 2 * padded[1:-1] + padded[2:])[self.index * self.n :][: self.left]

    def tiles(self):
        t, weights = self.filled(0, self.x), self.lanes + 1
        return sum(int((t * (k + 1) * weights).sum()) for k in range(self.by))

    def leave_a_loop(self, count):
        t, total, here = np.zeros(self.n, "i8"), np.zeros(self.n, "i8"), np.ones(self.n, bool)
        for k in range(count):
            goes = here & (self.x % 7 + self.lanes % 5 < k)
            self.o[goes] = -total[goes]
            here &= ~goes
            t[here] = self.x[here] + k
            total[here] += t[::-1][here] + k
        self.o[here] = total[here]

    def ballots(self):
        stay, t = self.stay & (self.x % 3 != 0), np.zeros(self.n, "i8")
        for start in range(0, self.n, 32):
            warp = slice(start, start + 32)
            t[warp] = (stay & (self.x % 2 == 1))[warp].sum() + 100 * stay[warp].sum()
        t[~stay] = 0
        self.o[stay] = (t + np.roll(t, -1))[stay]

    def two_barriers(self):
        v = np.roll(self.filled(1, self.x), -1)
        ends = self.stay & (v % 4 == 0)
        goes = self.stay & ~ends
        self.o[ends] = v[ends]
        t = np.where(goes, v, self.filled(1, self.x))
        self.o[goes] = np.roll(t, -2)[goes] + 7

    def while_flag(self):
        v = self.x[: self.left].copy()
        for rounds in range(self.by):
            v = (v + v[0]) // 2
            if not (v > 10).any():
                return v + 1000 * rounds
        return v + 1000 * self.by

    def other_barriers(self):
        odd = self.x % 2 == 1
        t = np.where(odd, self.x, self.x * 2)
        return np.where(odd, np.roll(t, -1) + 1, np.roll(t, -2))

    def uniform(self, count):
        v = self.x.copy()
        for _ in range(self.by):
            v = np.where(self.lanes % 2, v + np.roll(v, -1), v)
        if self.index < count:
            self.o[:] = v


def expected(name, x, blocks, count, by):
    """What a kernel of SOURCE leaves in o, where -1 was."""
    o = np.full(x.shape, -1, "i8")
    for index in range(blocks):
        n = len(x) // blocks
        part = slice(index * n, (index + 1) * n)
        block = Block(x[part].astype("i8"), o[part], index, count, by)
        left, stay = block.left, block.stay
        mine, values = o[part][:left], x[part].astype("i8")
        if name == "reduction":
            if left:
                o[index] = values[:left].sum()
        elif name == "stencil":
            mine[:] = block.stencil(x.astype("i8"), count)
        elif name in ("tiles", "while_flag"):
            mine[:] = getattr(block, name)() if left else mine
        elif name == "in_a_function":
            t = block.filled(5, values)
            o[part] = np.where(stay, np.roll(t, -1) + 1, values)
        elif name == "function_after_return":
            t, u = block.filled(5, values), block.filled(5, values * 3)
            mine[:] = (np.roll(t, -1) + 1 + (np.roll(u, -1) + 1 if by > 0 else values * 3))[:left]
        elif name == "votes":
            present = values[:left]
            mine[:] = (present % 2).sum() * 100 + (present < 900).all() * 10 + (present > 990).any()
        elif name == "dynamic":
            mine[:] = block.filled(3, values)[::-1][:left]
        elif name == "only_some_wait":
            mine[:] = np.roll(block.filled(4, values), -1)[:left]
        elif name == "other_barriers":
            o[part] = block.other_barriers()
        elif name in ("leave_a_loop", "uniform"):
            getattr(block, name)(count)
        else:
            getattr(block, name)()
    return o.astype("i4")


KERNELS = [
    "reduction", "stencil", "tiles", "leave_a_loop", "in_a_function", "function_after_return", "ballots", "votes",
    "dynamic", "two_barriers", "only_some_wait", "other_barriers", "while_flag", "uniform",
]  # fmt: skip
SHAPES = [(64,), (100,), (1,), (37,), (16, 8), (8, 8), (256,)]


def counts(name, blocks, n, random):
    """How many threads, blocks or rounds there are."""
    if name in ("leave_a_loop", "uniform"):
        return int(random.integers(0, blocks + 4))
    return int(random.choice([0, 1, n, blocks * n, *random.integers(0, blocks * n + 1, 3)]))


def launched(device, queue, program, name, shape, blocks, count, by, x):
    o = device.array(np.full(x.shape, -1, "i4"))
    more = [fb.local(4 * int(np.prod(shape)))] if name == "dynamic" else []
    queue.launch(program[name], blocks, shape, device.array(x), o, count, by, *more)
    return o


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_results(device, queue, program, name, shape):
    random = np.random.default_rng(zlib.crc32(f"{name}{shape}".encode()))
    n, blocks = int(np.prod(shape)), 3
    if name == "ballots" and device.info.backend == "sycl" and len(shape) > 1:
        pytest.skip("warps of blocks of several dimensions run along x")
    for _ in range(6):
        x = random.integers(0, 1000, blocks * n).astype("i4")
        count, by = counts(name, blocks, n, random), int(random.integers(0, 5))
        by += name == "while_flag"
        o = launched(device, queue, program, name, shape, blocks, count, by, x)
        assert o.get(queue=queue).tolist() == expected(name, x, blocks, count, by).tolist(), (count, by)


def test_launched_often(device, queue, program):
    """With graphs, too: nothing is left behind by one launch for the next."""
    n, blocks, count, by = 100, 2, 137, 3
    x = np.arange(n * blocks, dtype="i4") * 7 % 1000
    buffer, o = device.array(x), device.array(np.full(x.shape, -1, "i4"))
    with queue.capture() as graph:
        queue.launch(program["tiles"], blocks, n, buffer, o, count, by)
    for _ in range(100):
        graph.launch(queue)
    assert o.get(queue=queue).tolist() == expected("tiles", x, blocks, count, by).tolist()
    o = device.array(np.full(x.shape, -1, "i4"))
    go = program["two_barriers"].bind(queue, blocks, n, buffer, o, count, by)
    for _ in range(10_000):
        go()
    assert o.get(queue=queue).tolist() == expected("two_barriers", x, blocks, count, by).tolist()


@pytest.mark.long
# Not made smaller when it fails: that compiles for longer than a test may take, and then nobody sees the program.
@settings(max_examples=10, phases=set(Phase) - {Phase.shrink})
@given(diverging.programs(), st.sampled_from(SHAPES), st.integers(0, 2**32 - 1))
def test_any_program(device, program, made, shape, seed):
    """As simulated thread by thread."""
    queue = device.null_queue
    random, n, blocks = np.random.default_rng(seed), int(np.prod(shape)), 2
    x, u = random.integers(0, 1000, blocks * n, "u4"), random.integers(0, 100, 8, "u4")
    p, limit = int(random.integers(0, 12)), blocks * n - int(random.choice([0, 0, random.integers(0, n + 5)]))
    o = device.array(np.full(blocks * n, 7, "u4"))
    with device.program(diverging.source_of(made)) as built:
        queue.launch(built["k"], blocks, shape, device.array(x), device.array(u), o, p, max(limit, 0))
        found = o.get(queue=queue).tolist()
    assert found == diverging.simulated(made, x.tolist(), u.tolist(), p, blocks, max(limit, 0))


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
    return compile_hip(clang, source, "program.hip", {}, split_options(options), **how)


@pytest.mark.needs("a compiler of its own")
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
    x, lanes = np.arange(256, dtype="i4") * 37 % 1000, np.arange(128)
    odd = (x.reshape(8, 32) % 2).sum(1).repeat(32).reshape(2, 128)
    sums = sum(x.reshape(2, 128)[:, lanes ^ 32] + (lanes // 32 ^ 1) + 4 * k + odd for k in range(2))
    with device.program(made.code) as program:
        o = device.array(np.full(256, -1, "i4"))
        queue.launch(program["warps"], 2, 128, device.array(x), o, 8)
        assert o.get(queue=queue).tolist() == np.roll(sums, -1, 1).ravel().tolist()


@pytest.mark.needs("a compiler of its own")
@pytest.mark.parametrize("options", [("-O0",), ("-cl-opt-disable",), ("-O3", "-g")], ids=str)
def test_options(device, queue, options):
    """Code that is not optimized, by clang or by the device's compiler, and code with lines."""
    if find_clang()[0] is None:
        pytest.skip(find_clang()[1])
    x, blocks, n = np.arange(300, dtype="i4") * 13 % 1000, 3, 100
    with device.program(SOURCE, options) as made:
        for name in ("tiles", "leave_a_loop", "votes", "function_after_return", "other_barriers"):
            count = 3 if name == "leave_a_loop" else 270
            o = launched(device, queue, made, name, n, blocks, count, 2, x)
            assert o.get(queue=queue).tolist() == expected(name, x, blocks, count, 2).tolist(), name
