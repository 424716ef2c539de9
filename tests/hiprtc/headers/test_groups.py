"""Cooperative groups that only clang's headers have: clusters of a block, copies by a group, what one thread does for all."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

RANK, BLOCK = np.arange(128) % 64, np.arange(128) // 64
FIRST = np.arange(128) // 8 * 8
HEAD = "#include <cuda/atomic>\nnamespace cg = cooperative_groups;"
BEGIN = """
    __shared__ int there[64]; __shared__ double doubles[64]; __shared__ int of_tiles[64]; __shared__ int sums[3];
    auto block = cg::this_thread_block(); auto grid = cg::this_grid(); auto cluster = cg::this_cluster();
    auto tile = cg::tiled_partition<8>(block); const int* mine = x_ + 64 * blockIdx.x;
    using ref = cuda::atomic_ref<int, cuda::thread_scope_device>;
    if (rank == 0) sums[0] = 0, sums[1] = 1000000, sums[2] = -1; __syncthreads();"""
CALLS = {
    "cg::memcpy_async(block, there, 64, mine, 60); cg::wait(block); r = rank < 60 ? there[rank] : -1":
        lambda x, d: np.where(RANK < 60, x, -1),
    "cg::memcpy_async(block, doubles, d_ + 64 * blockIdx.x, sizeof(double) * 64); cg::wait(block); r = 1000 * doubles[63 - rank]":
        lambda x, d: (1000 * d).reshape(2, 64)[:, ::-1].ravel().astype(int),
    "cg::memcpy_async(tile, (void*)(of_tiles + rank / 8 * 8), (const void*)(mine + rank / 8 * 8), 8 * sizeof(int)); "
    "cg::wait(block); r = of_tiles[rank]": lambda x, d: x,
    "int* far = cluster.map_shared_rank(there, cluster.block_rank()); cluster.sync(); if (rank == 5) far[5] = 77; "
    "cluster.barrier_arrive(); cluster.barrier_wait(); r = there[5] + cluster.num_blocks() + 10 * cluster.num_threads() "
    "+ cluster.dim_blocks().x + cluster.query_shared_rank(there)": lambda x, d: 77 + 1 + 640 + 1,
    "grid.cluster_rank() + 10 * grid.num_clusters() + 100 * cg::is_valid(tile)": lambda x, d: BLOCK + 120,
    "int calls = 0; cg::invoke_one(tile, [&] { calls = 1; }); r = calls": lambda x, d: RANK % 8 == 0,
    "cg::invoke_one_broadcast(tile, [&] { return x * 2; })": lambda x, d: 2 * x[FIRST],
    **{f"cg::reduce_update_async(tile, ref(sums[{place}]), x, cg::{name}<int>()); __syncthreads(); r = sums[{place}]":
       lambda x, d, function=function: function(x.reshape(2, 64), 1)[BLOCK]
       for place, (name, function) in enumerate({"plus": np.sum, "less": np.min, "greater": np.max}.items())},
}  # fmt: skip


@pytest.mark.needs("a compiler of its own", "SPIR-V", "doubles")
def test_groups(device, queue):
    random = np.random.default_rng(3)
    given = {"x": random.integers(0, 1000, 128, dtype="i4"), "d": random.random(128)}
    assert device_data(call_differences(device, queue, [Calls(CALLS, "i4", given, HEAD, BEGIN, 64)])) == []
