"""hipCUB's reductions and scans of blocks and warps, compared with NumPy."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "SPIR-V", "doubles")]

X = np.random.default_rng(5).integers(-1000, 1000, (3, 128), dtype="i4")


def test_blocks(compiled):
    source = """
        #include <cub/cub.cuh>
        extern "C" __global__ void all(const int* x, int* out) {
            typedef cub::BlockReduce<int, 16, cub::BLOCK_REDUCE_RAKING, 8> Reduce;
            typedef hipcub::BlockScan<int, 128> Scan;
            __shared__ union { typename Reduce::TempStorage a; Scan::TempStorage b; } room;
            int rank = threadIdx.x + 16 * threadIdx.y, n = 128, v = x[blockIdx.x * n + rank];
            int* o = out + blockIdx.x * 11 * n + rank;
            int sum = Reduce(room.a).Sum(v), some = Reduce(room.a).Sum(v, 77), most = Reduce(room.a).Reduce(v, cub::Max());
            int least = Reduce(room.a).Reduce(v, [](int a, int b) { return b < a ? b : a; });
            o[0] = rank ? 0 : sum; o[n] = rank ? 0 : some; o[2 * n] = rank ? 0 : most; o[3 * n] = rank ? 0 : least;
            Scan(room.b).InclusiveSum(v, o[4 * n]); Scan(room.b).ExclusiveSum(v, o[5 * n], o[6 * n]);
            Scan(room.b).ExclusiveScan(v, o[7 * n], 5, hipcub::Max());
            int two[2] = {v, 1}, both[2]; Scan(room.b).ExclusiveSum(two, both); o[8 * n] = both[0] + 10000 * both[1];
            Scan(room.b).InclusiveSum(two, both); o[9 * n] = both[1] - both[0];
            int pair[2] = {v, -v}; o[10 * n] = rank ? 0 : 1; int least_of_two = Reduce(room.a).Reduce(pair, cub::Min());
            if (rank == 0) o[10 * n] = least_of_two;
        }"""
    out = np.zeros((3, 11, 128), "i4")
    compiled(source).run("all", 3, (16, 8), X, out)
    sums = np.cumsum(X, 1)
    first = np.zeros_like(X)
    for row, at in ((0, X.sum(1)), (1, X[:, :77].sum(1)), (2, X.max(1)), (3, X.min(1)), (10, -abs(X).max(1))):
        first[:] = 0
        first[:, 0] = at
        assert np.array_equal(out[:, row], first), row
    assert np.array_equal(out[:, 4], sums)
    assert np.array_equal(out[:, 5], sums - X)
    assert np.array_equal(out[:, 6], sums[:, -1:].repeat(128, 1))
    before = np.maximum.accumulate(np.hstack([np.full((3, 1), 5), X[:, :-1]]), 1)
    assert np.array_equal(out[:, 7], before)
    ranks = np.arange(128)
    assert np.array_equal(out[:, 8], sums - X + ranks + 10000 * (sums + ranks))
    assert np.array_equal(out[:, 9], np.ones_like(X))


@pytest.mark.parametrize("threads", [32, 8])
def test_warps(compiled, threads):
    source = """
        #include <hipcub/hipcub.hpp>
        extern "C" __global__ void all(const int* x, int* out) {
            using Reduce = hipcub::WarpReduce<int, THREADS>; using Scan = hipcub::WarpScan<int, THREADS>;
            __shared__ Reduce::TempStorage a[128 / THREADS]; __shared__ typename Scan::TempStorage b[128 / THREADS];
            int i = threadIdx.x, warp = i / THREADS, v = x[i]; int* o = out + i;
            int sum = Reduce(a[warp]).Sum(v), most = Reduce(a[warp]).Reduce(v, hipcub::Max(), 5);
            o[0] = i % THREADS ? 0 : sum; o[128] = i % THREADS ? 0 : most;
            Scan(b[warp]).InclusiveSum(v, o[256]); Scan(b[warp]).ExclusiveSum(v, o[384]);
            using Best = hipcub::KeyValuePair<int, int>;
            Best best = hipcub::WarpReduce<Best, THREADS>(*(hipcub::WarpReduce<Best, THREADS>::TempStorage*)a)
                            .Reduce(Best{i, v}, hipcub::ArgMax());
            o[512] = i % THREADS ? 0 : best.key;
        }"""
    out = np.zeros((5, 128), "i4")
    compiled(source, [f"-DTHREADS={threads}"]).run("all", 1, 128, X[0], out)
    warps = X[0].reshape(-1, threads)
    first = out.reshape(5, -1, threads)[:, :, 0]
    assert np.array_equal(first[0], warps.sum(1))
    assert np.array_equal(first[1], warps[:, :5].max(1))
    assert np.array_equal(out[2], np.cumsum(warps, 1).ravel())
    assert np.array_equal(out[3], (np.cumsum(warps, 1) - warps).ravel())
    assert np.array_equal(first[4], warps.argmax(1) + np.arange(0, 128, threads))


SMALL = r"""
#include <cub/block/block_shuffle.cuh>
#include <cub/warp/warp_merge_sort.cuh>
struct Running { int total; __device__ int operator()(int sum) { int before = total; total += sum; return before; } };
struct Less { __device__ bool operator()(int a, int b) const { return a < b; } };
extern "C" __global__ void blocks(const int* x, int* out) {
    using Shuffle = cub::BlockShuffle<int, 128>; using Difference = cub::BlockAdjacentDifference<int, 128>;
    using Scan = cub::BlockScan<int, 128>; using Exchange = cub::BlockExchange<int, 128, 2>;
    using Flags = cub::BlockDiscontinuity<int, 128>;
    __shared__ typename Shuffle::TempStorage a; __shared__ typename Difference::TempStorage b;
    __shared__ typename Scan::TempStorage c; __shared__ typename Exchange::TempStorage d;
    __shared__ typename Flags::TempStorage e;
    int rank = threadIdx.x, n = 128, v = x[rank], w = x[n + rank], *o = out + rank, result = -1, total;
    Shuffle(a).Offset(v, result, 3); o[0] = result; Shuffle(a).Rotate(v, result, 5); o[n] = result;
    int pair[2] = {v, w}, other[2] = {-7, -7}; Shuffle(a).Up(pair, other); o[2 * n] = other[0]; o[3 * n] = other[1];
    other[1] = -9; Shuffle(a).Down(pair, other); o[4 * n] = other[0]; o[5 * n] = other[1];
    Difference(b).SubtractLeft(pair, other, cub::Difference()); o[6 * n] = other[0]; o[7 * n] = other[1];
    Difference(b).SubtractRight(pair, other, cub::Difference()); o[8 * n] = other[0]; o[9 * n] = other[1];
    Running running{100}; Scan(c).ExclusiveSum(v, result, running); o[10 * n] = result;
    Scan(c).InclusiveSum(v, result, running); o[11 * n] = result;
    Scan(c).InclusiveSum(pair, other, total); o[12 * n] = other[1]; o[13 * n] = total;
    Exchange(d).BlockedToWarpStriped(pair, other); o[14 * n] = other[0]; o[15 * n] = other[1];
    Exchange(d).WarpStripedToBlocked(other, other); o[16 * n] = other[0] == v && other[1] == w;
    int heads[2], tails[2], few[2] = {v & 1, w & 1}; Flags(e).FlagHeadsAndTails(heads, tails, few, cub::Inequality());
    o[17 * n] = heads[0] + 2 * heads[1] + 4 * tails[0] + 8 * tails[1];
}
extern "C" __global__ void warps(const int* x, int* out) {
    int i = threadIdx.x, n = 64, v = x[i], *o = out + i, a, b;
    using Reduce = cub::WarpReduce<int>; using Scan = cub::WarpScan<int, 16>;
    __shared__ typename Reduce::TempStorage r[2]; __shared__ typename Scan::TempStorage s[4];
    o[0] = Reduce(r[i / 32]).HeadSegmentedSum(v, i % 5 == 0); o[n] = Reduce(r[i / 32]).TailSegmentedReduce(v, i % 7 == 3, cub::Max());
    Scan(s[i / 16]).Scan(v, a, b, 1000, cub::Sum()); o[2 * n] = a; o[3 * n] = b; Scan(s[i / 16]).ExclusiveSum(v, a, b);
    o[4 * n] = a; o[5 * n] = b; o[6 * n] = Scan(s[i / 16]).Broadcast(v, 9);
    using Sort = cub::WarpMergeSort<int, 2, 32, int>; using Exchange = cub::WarpExchange<int, 2, 16>;
    __shared__ typename Sort::TempStorage t[2]; __shared__ typename Exchange::TempStorage e[4];
    int keys[2] = {v % 10, -v % 10}, values[2] = {2 * i, 2 * i + 1}; Sort(t[i / 32]).Sort(keys, values, Less());
    o[7 * n] = keys[0]; o[8 * n] = keys[1]; o[9 * n] = values[0]; o[10 * n] = values[1];
    int pair[2] = {2 * i, 2 * i + 1}, other[2]; Exchange(e[i / 16]).BlockedToStriped(pair, other);
    o[11 * n] = other[0]; o[12 * n] = other[1]; Exchange(e[i / 16]).StripedToBlocked(other, other); o[13 * n] = other[0] + other[1];
    o[14 * n] = cub::ShuffleDown<32>(v, 3, 20); o[15 * n] = cub::ShuffleUp<16>(v, 2, 1); o[16 * n] = cub::ShuffleIndex<8>(v, 5);
}
extern "C" __global__ void threads(const int* x, int* out) {
    int some[4]; cub::LoadDirectStriped<32>((int)threadIdx.x, x, some);
    out[threadIdx.x] = cub::ThreadReduce(some, cub::Max()); cub::ThreadScanExclusive(some, some, cub::Sum(), 3);
    cub::ArgIndexInputIterator<const int*> at(x); auto found = at[threadIdx.x];
    cub::TransformInputIterator<int, Less2, const int*> twice(x, Less2());
    cub::ThreadStore<cub::STORE_CG>(out + 32 + threadIdx.x, some[3] + 1000 * found.key + (found.value == x[threadIdx.x]));
    out[64 + threadIdx.x] = twice[threadIdx.x] + cub::Log2<33>::VALUE + CUB_QUOTIENT_CEILING(7, 2);
}
""".replace(
    "struct Less ", "struct Less2 { __device__ int operator()(int a) const { return 2 * a; } };\nstruct Less ", 1
)


def test_neighbours_and_exchanges_of_blocks(compiled):
    out = np.zeros((18, 128), "i4")
    compiled(SMALL).run("blocks", 1, 128, X[:2], out)
    v, w = X[0].astype("i8"), X[1].astype("i8")
    both = np.stack([v, w], 1).ravel()
    sums = np.cumsum(v)
    before, after = np.concatenate([[-7], both[:-1]]), np.concatenate([both[1:], [-9]])
    left, right = both - np.concatenate([[0], both[:-1]]), both - np.concatenate([both[1:], [0]])
    striped = both.reshape(4, 2, 32)
    odd = both & 1
    differs = odd[1:] != odd[:-1]
    heads, tails = np.concatenate([[True], differs]), np.concatenate([differs, [True]])
    expected = [
        np.concatenate([v[3:], [-1] * 3]), np.roll(v, -5), before[::2], before[1::2], after[::2], after[1::2],
        left[::2], left[1::2], right[::2], right[1::2], 100 + sums - v, 100 + sums[-1] + sums,
        np.cumsum(both)[1::2], np.full(128, both.sum()), striped[:, 0].ravel(), striped[:, 1].ravel(), np.ones(128),
        heads[::2] + 2 * heads[1::2] + 4 * tails[::2] + 8 * tails[1::2],
    ]  # fmt: skip
    for row, wanted in enumerate(expected):
        assert np.array_equal(out[row], wanted), row


def test_segments_sorts_and_exchanges_of_warps(compiled):
    out = np.zeros((17, 64), "i4")
    x = X[0, :64]
    compiled(SMALL).run("warps", 1, 64, x, out)
    warps = x.reshape(2, 32)
    for warp in range(2):
        here = np.arange(32)
        starts = [i for i in here if i == 0 or (i + 32 * warp) % 5 == 0]
        for start, end in zip(starts, [*starts[1:], 32], strict=True):
            assert out[0, 32 * warp + start] == warps[warp, start:end].sum()
        ends = [i + 1 for i in here if i == 31 or (i + 32 * warp) % 7 == 3]
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            assert out[1, 32 * warp + start] == warps[warp, start:end].max()
    sums = np.cumsum(x.reshape(4, 16), 1)
    pairs = np.stack([np.fmod(x, 10), np.fmod(-x, 10)], 1).reshape(2, 64)
    order = np.argsort(pairs, axis=1, kind="stable")
    keys, values = np.take_along_axis(pairs, order, 1), order + 64 * np.arange(2)[:, None]
    striped = np.arange(128).reshape(4, 2, 16)
    lane = np.arange(64) % 32
    expected = [
        1000 + sums, 1000 + sums - x.reshape(4, 16), sums - x.reshape(4, 16), sums[:, -1:].repeat(16, 1),
        x.reshape(4, 16)[:, 9:10].repeat(16, 1), keys[:, ::2], keys[:, 1::2], values[:, ::2], values[:, 1::2],
        striped[:, 0], striped[:, 1], 4 * np.arange(64) + 1,
        np.where(lane + 3 <= 20, np.roll(x, -3), x), np.where(np.arange(64) % 16 - 2 >= 1, np.roll(x, 2), x),
        x.reshape(8, 8)[:, 5:6].repeat(8, 1),
    ]  # fmt: skip
    for row, wanted in enumerate(expected, 2):
        assert np.array_equal(out[row], np.asarray(wanted).ravel()), row


def test_what_a_thread_has_by_itself(compiled):
    out = np.zeros((3, 32), "i4")
    compiled(SMALL).run("threads", 1, 32, X[0], out)
    some = X[0].reshape(4, 32)
    assert np.array_equal(out[0], some.max(0))
    assert np.array_equal(out[1], some[:3].sum(0) + 3 + 1000 * np.arange(32) + 1)
    assert np.array_equal(out[2], 2 * X[0, :32] + 6 + 4)
