"""Cooperative groups: clusters of a block, copies by a group, what one thread does for all; cuRAND's places in sequences."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")]

GROUPS = r"""
#include <cuda/atomic>
namespace cg = cooperative_groups;
extern "C" __global__ void all(const int* x, const double* d, int* out, double* copied, int* sums) {
    __shared__ int there[64];
    __shared__ double doubles[64];
    __shared__ int bytes[64];
    auto block = cg::this_thread_block();
    auto grid = cg::this_grid();
    auto cluster = cg::this_cluster();
    auto tile = cg::tiled_partition<8>(block);
    int i = threadIdx.x, n = 64, all = blockIdx.x * n + i;
    cg::memcpy_async(block, there, 64, x, 60);
    cg::memcpy_async(block, doubles, d, sizeof(double) * 64);
    cg::memcpy_async(tile, (void*)(bytes + i / 8 * 8), (const void*)(x + i / 8 * 8), 8 * sizeof(int));
    cg::wait(block);
    copied[all] = doubles[63 - i] + bytes[i];
    out[all] = i < 60 ? there[i] : -1;
    int* far = cluster.map_shared_rank(there, cluster.block_rank());
    cluster.sync();
    if (i == 5) far[5] = 77;
    cluster.barrier_arrive(); cluster.barrier_wait();
    out[128 + all] = there[5] + cluster.num_blocks() + 10 * cluster.num_threads() + cluster.dim_blocks().x + cluster.query_shared_rank(there);
    out[256 + all] = grid.cluster_rank() + 10 * grid.num_clusters() + 100 * cg::is_valid(tile);
    int calls = 0;
    cg::invoke_one(tile, [&] { calls = 1; });
    out[384 + all] = calls;
    out[512 + all] = cg::invoke_one_broadcast(tile, [&] { return x[i] * 2; });
    cg::reduce_update_async(tile, cuda::atomic_ref<int, cuda::thread_scope_device>(sums[0]), x[i], cg::plus<int>());
    cg::reduce_update_async(tile, cuda::atomic_ref<int, cuda::thread_scope_device>(sums[1]), x[i], cg::less<int>());
    cg::reduce_update_async(tile, cuda::atomic_ref<int, cuda::thread_scope_device>(sums[2]), x[i], cg::greater<int>());
    auto label = cg::labeled_partition(tile, x[i] % 3);
    auto half = cg::binary_partition(tile, x[i] & 1);
    out[640 + all] = label.size() * 100 + half.size() * 10 + half.thread_rank();
}
"""


@pytest.mark.needs("SPIR-V")
def test_groups(compiled):
    random = np.random.default_rng(3)
    x, d = random.integers(0, 1000, 64, dtype="i4"), random.random(64)
    out, copied, sums = np.zeros((6, 2, 64), "i4"), np.zeros((2, 64)), np.array([0, 10**6, -1], "i4")
    compiled(GROUPS).run("all", 2, 64, x, d, out, copied, sums)
    i = np.arange(64)
    first = i // 8 * 8
    for block in range(2):
        got = out[:, block]
        assert np.array_equal(copied[block], d[::-1] + x)
        assert np.array_equal(got[0], np.where(i < 60, x, -1))
        assert np.array_equal(got[1], np.full(64, 77 + 1 + 640 + 1))
        assert np.array_equal(got[2], np.full(64, block + 20 + 100))
        assert np.array_equal(got[3], i % 8 == 0)
        assert np.array_equal(got[4], 2 * x[first])
        tiles = x.reshape(8, 8)
        labels = (tiles[:, :, None] % 3 == tiles[:, None, :] % 3).sum(2).ravel()
        same = (tiles[:, :, None] & 1) == (tiles[:, None, :] & 1)
        before = np.tril(np.ones((8, 8), bool), -1)
        assert np.array_equal(got[5], labels * 100 + same.sum(2).ravel() * 10 + (same & before).sum(2).ravel())
    assert sums.tolist() == [2 * x.sum(), x.min(), x.max()]


RANDOM = r"""
#include <curand_kernel.h>
extern "C" __global__ void all(const unsigned* v, const unsigned long long* w, unsigned* out, unsigned long long* wide, double* d) {
    int i = threadIdx.x;
    curandStateScrambledSobol32_t s; curandStateScrambledSobol64 t; curandStateSobol32_t plain;
    curand_init(v, 0x12345678u, i, &s); out[i] = curand(&s); out[32 + i] = curand(&s);
    curand_init(w, 0x123456789abcdefull, i, &t); wide[i] = curand(&t);
    curand_init(v, i, &plain); out[64 + i] = curand(&plain);
    curandStatePhilox4_32_10_t p, q; curandStateMRG32k3a m, k;
    curand_init(7, 100 + i, 5, &p); curand_init(7, 100, 5, &q); skipahead_sequence((unsigned long long)i, &q); out[96 + i] = curand(&p) - curand(&q);
    curand_init(7, 3 + i, 5, &m); curand_init(7, 3, 5, &k); skipahead_subsequence((unsigned long long)i, &k); out[128 + i] = curand(&m) - curand(&k);
    curand_init(7, i, 0, &p); q = p;
    double4 four = curand_normal4_double(&p); double2 one = curand_normal2_double(&q), two = curand_normal2_double(&q);
    d[i] = fabs(four.x - one.x) + fabs(four.y - one.y) + fabs(four.z - two.x) + fabs(four.w - two.y); d[32 + i] = four.z;
    p.boxmuller_flag = 0;
}
"""


@pytest.mark.needs("SPIR-V")
def test_places_in_sequences_of_random_numbers(compiled):
    random = np.random.default_rng(4)
    v, w = random.integers(0, 2**32, 32, dtype="u4"), random.integers(0, 2**64, 64, dtype="u8")
    out, wide, d = np.zeros((5, 32), "u4"), np.zeros(32, "u8"), np.zeros((2, 32))
    compiled(RANDOM).run("all", 1, 32, v, w, out, wide, d)

    def sobol(vectors, i):
        chosen = [vectors[bit] for bit in range(8) if (i ^ i >> 1) >> bit & 1]
        return np.bitwise_xor.reduce(np.array(chosen, vectors.dtype)) if chosen else vectors.dtype.type(0)

    assert np.array_equal(out[2], [sobol(v, i) for i in range(32)])
    assert np.array_equal(out[0], [sobol(v, i) ^ np.uint32(0x12345678) for i in range(32)])
    assert np.array_equal(out[1], [sobol(v, i + 1) ^ np.uint32(0x12345678) for i in range(32)])
    assert np.array_equal(wide, [sobol(w, i) ^ np.uint64(0x123456789ABCDEF) for i in range(32)])
    assert not out[3:].any()
    assert not d[0].any()
    assert len(set(d[1])) == 32
