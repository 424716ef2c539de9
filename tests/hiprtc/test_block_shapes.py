"""Blocks of every shape: threadIdx and its like, and warps that count through x, then y, then z, compared with NumPy."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import forebay as fb
from forebay.compiler.clang import find_clang
from tests.helpers.device_data import device_data

from .results.tables import case, kernel_differences

pytestmark = pytest.mark.needs("a compiler of its own", "SPIR-V")

SOURCE = """
namespace cg = cooperative_groups;

__device__ __attribute__((noinline)) int rank_of() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ __attribute__((noinline)) int place_of() {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    return block * (blockDim.x * blockDim.y * blockDim.z) + rank_of();
}

extern "C" __global__ void indices(int* out) {
    int* o = out + place_of() * 13;
    o[0] = threadIdx.x; o[1] = threadIdx.y; o[2] = threadIdx.z;
    o[3] = blockIdx.x; o[4] = blockIdx.y; o[5] = blockIdx.z;
    o[6] = blockDim.x; o[7] = blockDim.y; o[8] = blockDim.z;
    o[9] = gridDim.x; o[10] = gridDim.y; o[11] = gridDim.z;
    o[12] = __lane_id();
}

extern "C" __global__ void warps(const int* x, int* out) {
    int i = place_of(), v = x[i], *o = out + i * 12;
    auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<8>(block); auto all = cg::coalesced_threads();
    o[0] = __lane_id() + 100 * block.thread_rank();
    o[1] = __shfl(v, 0); o[2] = __shfl_up(v, 1); o[3] = __shfl_up(v, 3, 8);
    o[4] = (int)__ballot(v & 1); o[5] = __any(v > 90) + 2 * __all(v > 10);
    o[6] = __reduce_add_sync(~0ull, v); o[7] = cg::inclusive_scan(tile, v); o[8] = tile.thread_rank();
    o[9] = cg::reduce(all, v, cg::greater<int>()); o[10] = (int)__match_any(v & 3); o[11] = tile.meta_group_rank();
}

// Branches, loops, a switch of 64 bits, shared memory of both kinds and barriers, beside a warp's vote.
extern "C" __global__ void winding(const int* x, int* out, unsigned char by) {
    extern __shared__ int room[]; __shared__ int last;
    int r = rank_of(), n = blockDim.x * blockDim.y * blockDim.z, i = place_of(), v = x[i];
    room[r] = v; if (r == n - 1) last = v;
    __syncthreads();
    int w = room[n - 1 - r], votes = 0;
    for (int k = 0; k < by; k++) { if (w % 3 == k) { w += threadIdx.y; continue; } votes += __popcll(__ballot(1)) > 0; w += k; }
    long long what = (long long)w << 33 | (w & 3);
    switch (what & 0x1ffffffffll) {
        case 0: w += 100; break;
        case 1: w += 200 + threadIdx.z; break;
        case 3: for (int k = 0; k < (int)threadIdx.x; k++) w ^= k; break;
    }
    __syncthreads();
    out[i] = w + last + (votes < 0);
}

// A switch of a parameter, and a warp's vote.
extern "C" __global__ void chosen(int* out, int what) {
    int i = place_of(), v = __any(1) + threadIdx.y;
    switch (what) {
        case 0: atomicAdd(out + i, v); break;
        case 3: out[i] = v * 10; break;
        case 7: atomicExch(out + i, 5); break;
        case 8: out[i] = (int)sinf((float)v); break;
        default: out[i] = -v;
    }
}

extern "C" __global__ void plain(int* out) { out[place_of()] = threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z; }
"""
ALONE = """
extern "C" __global__ void alone(int* out) {
    int* o = out + place_of() * 2;
    o[0] = __builtin_spirv_global_invocation_id(0) + 1000 * __builtin_spirv_global_invocation_id(1); o[1] = __any(1);
}
"""


@st.composite
def shapes(draw):
    """A block of up to 1024 threads, often no whole number of warps."""
    x = draw(st.integers(1, 70))
    y = draw(st.integers(1, 1024 // x))
    z = draw(st.integers(1, min(1024 // (x * y), 64)))
    return (x, y, z)[: draw(st.integers(1, 3))]


grids = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2)).map(lambda grid: grid[: 1 + grid[0]])


@pytest.fixture(scope="module")
def program(device):
    if find_clang()[0] is None:
        pytest.skip(find_clang()[1])
    with device.program(SOURCE + ALONE) as program:
        yield program


@pytest.fixture(scope="module")
def queues(device):
    return [device.queue() for _ in range(2)]


def whole(shape):
    return (*shape, 1, 1)[:3]


def count_of(shape):
    return int(np.prod(shape))


def indices(grid, block):
    """What the kernel of this name writes."""
    threads, blocks = np.arange(count_of(block)), np.arange(count_of(grid))
    (x, y, _), (gx, gy, _) = whole(block), whole(grid)
    out = np.empty((len(blocks), len(threads), 13), "i4")
    out[:, :, 0], out[:, :, 1], out[:, :, 2] = threads % x, threads // x % y, threads // (x * y)
    for axis, places in enumerate((blocks % gx, blocks // gx % gy, blocks // (gx * gy))):
        out[:, :, 3 + axis] = places[:, None]
    out[:, :, 6:9], out[:, :, 9:12] = whole(block), whole(grid)
    out[:, :, 12] = threads % 32
    return out


class Launches:
    """The ways to launch a kernel; each leaves it submitted to the queue."""

    def __init__(self, device, queue, kernel, *args):
        self.device, self.queue, self.kernel, self.args = device, queue, kernel, args
        self.step = queue.step()

    def launch(self, grid, block):
        self.queue.launch(self.kernel, grid, block, *self.args)

    def bound(self, grid, block):
        go = self.kernel.bind(self.queue, grid, block, *self.args)
        self.launch(1, (5, 5))  # it keeps its own shape
        go()

    def subscript(self, grid, block):
        self.kernel[grid, block, self.queue](*self.args)

    def captured(self, grid, block):
        with self.queue.capture() as graph:
            for shape in ((1, (64, 2)), (1, (5, 5)), (grid, block)):
                self.launch(*shape)
        executable = graph.instantiate()
        for _ in range(2):
            executable.launch(self.queue)

    def changed_node(self, grid, block):
        graph = self.device.graph()
        node = graph.add_kernel(self.kernel, 1, (4, 2), *self.args)
        with graph.instantiate() as executable:
            for shape in ((1, (5, 7)), (1, (32,)), (grid, block)):
                executable.set_kernel(node, self.kernel, *shape, *self.args)
                executable.launch(self.queue)

    def updated_graph(self, grid, block):
        graphs = []
        for shape in ((1, (5, 7)), (1, (64, 2)), (grid, block)):
            graphs.append(self.device.graph())
            graphs[-1].add_kernel(self.kernel, *shape, *self.args)
        with graphs[0].instantiate() as executable:
            for graph in graphs[1:]:
                executable.update(graph)
                executable.launch(self.queue)

    def in_step(self, grid, block):
        with self.step:
            self.launch(grid, block)


WAYS = [name for name in vars(Launches) if not name.startswith("_")]
launches = st.lists(st.tuples(st.sampled_from(WAYS), grids, shapes()), min_size=1, max_size=6)


@settings(max_examples=40)
@given(launches)
@example([("launch", (2, 3), (3, 7)), ("launch", (2,), (21,)), ("launch", (2, 3), (7, 3, 1)), ("bound", (1,), (8, 8))])
@example([("in_step", (2,), shape) for shape in ((8, 4), (4, 8), (4, 8), (2, 16), (32, 2), (8, 4))])
@example([(way, (1, 2), (5, 5, 5)) for way in WAYS])
def test_indices(device, program, queues, each_launch):
    """Two queues take turns; each launch of one may have another shape than the one before."""
    room = max(count_of(grid) * count_of(block) for _, grid, block in each_launch)
    memory = [device.empty(max(room, 128) * 13, "i4") for _ in queues]
    ways = [Launches(device, queue, program["indices"], out) for queue, out in zip(queues, memory, strict=True)]
    for number, (way, grid, block) in enumerate(each_launch):
        getattr(ways[number % 2], way)(grid, block)
        if number % 2 or number == len(each_launch) - 1:
            for back in range(number % 2 + 1):
                _, grid, block = each_launch[number - back]
                which = (number - back) % 2
                assert device_data(is_written(queues[which], memory[which], grid, block))


SHAPES = ((8, 8), (32, 3), (31, 33), (5, 3, 2), (1,), (7,), (33,), (64, 2), (1, 1, 64), (2, 16, 3), (70, 9), (3, 5, 67),
          (1, 32, 2))  # fmt: skip
LONG = [pytest.param(options, marks=pytest.mark.long) for options in (("-O0",), ("-O1", "-g"), ("-O3",))]


@pytest.mark.parametrize("options", [(), *LONG])
def test_warps_and_all_else_of_a_kernel(device, queue, options):
    """It is the kernel's second body that runs; one without warps is left as it is."""
    random, cases = np.random.default_rng(1), {}
    for number, block in enumerate(SHAPES):
        grid = (2,) if number % 2 else (1, 2)
        x = random.integers(0, 100, 2 * count_of(block), dtype="i4")
        # With -g all threads of `plain` get the place of the first, on Intel's runtime for CPUs.
        for name, width in (("indices", 13), *[("plain", 1)] * ("-g" not in options)):
            cases[f"{name} {block}"] = case(SOURCE, grid, block, np.zeros(width * x.size, "i4"), kernel=name)
        cases[f"warps {block}"] = case(SOURCE, grid, block, x, np.zeros(12 * x.size, "i4"), kernel="warps")
        winding = case(SOURCE, grid, block, x, np.zeros_like(x), number % 7, kernel="winding", shared=2 * x.nbytes)
        cases[f"winding {block}"] = winding
    for what in (0, 3, 7, 1):
        cases[f"chosen {what}"] = case(SOURCE, 1, (8, 5), np.zeros(40, "i4"), what, kernel="chosen")
    assert device_data(kernel_differences(device, queue, cases, options)) == []


@pytest.mark.parametrize("block", [(8, 5), (40,), (4, 2, 3)])
def test_an_index_that_a_row_would_change(device, program, queues, block):
    count = count_of(block)
    expected = indices((3, 2), block).reshape(-1, 13)
    out = device.empty((6 * count, 2), "i4")
    queues[0].launch(program["alone"], (3, 2), block, out)
    first, second = (expected[:, 3 + axis] * expected[:, 6 + axis] + expected[:, axis] for axis in range(2))
    assert np.array_equal(
        device_data(out.get(queue=queues[0])), np.stack([first + 1000 * second, np.ones(6 * count)], 1)
    )


def test_graphs_tell_the_shape_that_was_given(device, program):
    out = device.empty(64 * 13, "i4")
    graph = device.graph()
    node = graph.add_kernel(program["indices"], (2, 1), (8, 4), out)
    assert "[(2, 1), (8, 4)]" in repr(node)


@pytest.mark.parametrize("block", [(2000, 2), (1, 1, 100000)])
def test_blocks_that_are_too_large(device, program, queues, block):
    out = device.array(np.full(13, 7, "i4"))
    if count_of(block) <= program["indices"].max_block_size:
        block = (program["indices"].max_block_size, 2)
    with pytest.raises(fb.InvalidArgumentError, match=r"block"):
        queues[0].launch(program["indices"], 1, block, out)
    queues[0].launch(program["indices"], 1, 1, out)
    assert device_data(out.get(queue=queues[0]).tolist()) == [0] * 6 + [1] * 6 + [0]


def is_written(queue, out, grid, block):
    """Whether `indices` wrote what it should."""
    expected = indices(grid, block)
    return np.array_equal(out.get(queue=queue)[: expected.size].reshape(expected.shape), expected)


def many_shapes():
    """Shapes that are submitted flat, all different."""
    sizes = itertools.product(range(1, 65), repeat=3)
    return ((x, y, z) for z, y, x in sizes if x % 32 and y * z > 1 and x * y * z <= 1024)


def test_many_shapes_leave_nothing_behind(device, program, queues):
    kernel, out = program["indices"], device.empty(1024 * 13, "i4")
    queue, shapes = queues[0], list(itertools.islice(many_shapes(), 10_000))
    assert len(set(shapes)) == 10_000
    for shape in shapes[:1000]:
        queue.launch(kernel, 1, shape, out)
    queue.finish()
    tracemalloc.start()
    try:
        for number, shape in enumerate(shapes[1000:]):
            queue.launch(kernel, 1, shape, out)
            if number == 1000:
                before = tracemalloc.get_traced_memory()[0]
        queue.finish()
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()
    assert device_data(is_written(queue, out, (1,), shapes[-1]))
