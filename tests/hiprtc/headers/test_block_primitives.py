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
