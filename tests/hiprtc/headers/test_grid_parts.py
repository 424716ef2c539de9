"""CUB's decoded runs and even shares of a grid, compared with NumPy."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data

pytestmark = [pytest.mark.needs("a compiler of its own", "SPIR-V")]

DECODE = r"""
#include <cub/block/block_run_length_decode.cuh>
extern "C" __global__ void decode(const int* values, const unsigned* lengths, int* out, unsigned short* places, unsigned* total) {
    using Decode = cub::BlockRunLengthDecode<int, 64, 3, 4>;
    __shared__ Decode::TempStorage room;
    int v[3]; unsigned l[3], all = 0;
    for (int i = 0; i < 3; i++) v[i] = values[threadIdx.x * 3 + i], l[i] = lengths[threadIdx.x * 3 + i];
    Decode runs(room, v, l, all);
    if (threadIdx.x == 0) *total = all;
    for (unsigned begin = 0; begin < all; begin += 64 * 4) {
        int decoded[4]; unsigned short at[4];
        runs.RunLengthDecode(decoded, at, begin);
        for (int i = 0; i < 4; i++) {
            unsigned place = begin + threadIdx.x * 4 + i;
            if (place < all) out[place] = decoded[i], places[place] = at[i];
        }
        runs.RunLengthDecode(decoded, begin);
        if (begin + threadIdx.x * 4 < all && decoded[0] != out[begin + threadIdx.x * 4]) *total = 0;
    }
}
"""


@pytest.mark.parametrize("longest", [2, 9])
def test_runs_are_decoded(compiled, longest):
    random = np.random.default_rng(longest)
    values, lengths = random.integers(0, 1000, 192, dtype="i4"), random.integers(0, longest, 192, dtype="u4")
    whole = np.repeat(values, lengths)
    out, places, total = np.zeros(len(whole), "i4"), np.zeros(len(whole), "u2"), np.zeros(1, "u4")
    compiled(DECODE).run("decode", 1, 64, values, lengths, out, places, total)
    assert device_data(total[0]) == len(whole)
    assert np.array_equal(device_data(out), whole)
    assert np.array_equal(device_data(places), np.concatenate([np.arange(each) for each in lengths]))


SHARE = r"""
#include <cub/grid/grid_even_share.cuh>
template <cub::GridMappingStrategy Way> __device__ void share(int* count, int n) {
    cub::GridEvenShare<int> share;
    share.DispatchInit(n, gridDim.x, 16);
    if ((int)blockIdx.x >= share.grid_size) return;
    share.template BlockInit<16, Way>();
    for (int at = share.block_offset; at < share.block_end; at += share.block_stride) {
        int i = at + threadIdx.x;
        if (i < share.block_end) atomicAdd(count + i, 1 + (blockIdx.x << 8));
    }
}
extern "C" __global__ void rake(int* count, int n) { share<cub::GRID_MAPPING_RAKE>(count, n); }
extern "C" __global__ void strip(int* count, int n) { share<cub::GRID_MAPPING_STRIP_MINE>(count, n); }
"""


@pytest.mark.parametrize("count", [5, 16, 100, 1000])
def test_blocks_share_what_there_is(compiled, count):
    program = compiled(SHARE)
    raked, stripped = np.zeros(count, "i4"), np.zeros(count, "i4")
    program.run("rake", 7, 16, raked, np.int32(count))
    program.run("strip", 7, 16, stripped, np.int32(count))
    tiles = -(-count // 16)
    blocks = min(tiles, 7)
    each = [tiles // blocks + (block < tiles % blocks) for block in range(blocks)]
    tile = np.arange(count) // 16
    assert np.array_equal(device_data(raked), 1 + (np.repeat(np.arange(blocks), each)[tile] << 8))
    assert np.array_equal(device_data(stripped), 1 + (tile % blocks << 8))
