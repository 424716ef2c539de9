"""CUB, hipCUB and rocPRIM within blocks, warps and threads: rows of calls, and what NumPy says of them."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

pytestmark = pytest.mark.needs("a compiler of its own", "SPIR-V", "doubles")

RANDOM = np.random.default_rng(5)
V, W = RANDOM.integers(-1000, 1000, (2, 128), dtype="i4")
BOTH = np.stack([V, W], 1).ravel().astype("i8")  # two of each thread, side by side
RANK = np.arange(128)


def first(number):
    return np.where(RANK == 0, number, 0)


def pair(values):
    """What a thread makes of its two results."""
    return values[::2] + 10000 * values[1::2]


def shifted(values, by, filled):
    """Values moved to later places, negative `by`: to earlier ones."""
    moved = np.roll(values, by)
    moved[slice(by) if by > 0 else slice(by, None)] = filled
    return moved


HEAD = r"""
#include <cub/cub.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/grid/grid_even_share.cuh>
#include <rocprim/rocprim.hpp>
#include <thrust/functional.h>
struct Running { int total; __device__ int operator()(int sum) { int before = total; total += sum; return before; } };
struct Twice { __device__ int operator()(int a) const { return 2 * a; } };
struct Less { __device__ bool operator()(int a, int b) const { return a < b; } };
"""
BLOCK = """
    using Reduce = cub::BlockReduce<int, 16, cub::BLOCK_REDUCE_RAKING, 8>; using Scan = hipcub::BlockScan<int, 16, cub::BLOCK_SCAN_RAKING, 8>;
    using Shuffle = cub::BlockShuffle<int, 128>; using Difference = cub::BlockAdjacentDifference<int, 128>;
    using Line = cub::BlockScan<int, 128>; using Exchange = cub::BlockExchange<int, 128, 2>; using Flags = cub::BlockDiscontinuity<int, 128>;
    using Sort = hipcub::BlockRadixSort<int, 128, 2, int>; using Histogram = cub::BlockHistogram<unsigned char, 128, 1, 8>;
    using Load = cub::BlockLoad<int, 128, 2, cub::BLOCK_LOAD_TRANSPOSE>; using Store = hipcub::BlockStore<int, 128, 2>;
    using Sum = rocprim::block_reduce<int, 128>; using Scanned = rocprim::block_scan<int, 128>;
    __shared__ union Room {
        typename Shuffle::TempStorage a; typename Difference::TempStorage b; typename Line::TempStorage c; typename Exchange::TempStorage d;
        typename Flags::TempStorage e; typename Sort::TempStorage f; Histogram::TempStorage g; Load::TempStorage h; Store::TempStorage i;
        Sum::storage_type j; Scanned::storage_type k; __device__ Room() {} } room;
    __shared__ union { typename Reduce::TempStorage a; Scan::TempStorage b; } flat; __shared__ unsigned counts[8]; __shared__ int stored[256];
    int two[2] = {v, w}, both[2] = {-7, -7}, result = -1, all; Running running{100};"""
LINE = {  # of 128 threads in a line
    "Shuffle(room.a).Offset(v, result, 3); r = result": lambda v, w: shifted(v, -3, -1),
    "Shuffle(room.a).Rotate(v, result, 5); r = result": lambda v, w: np.roll(v, -5),
    "both[0] = both[1] = -7; Shuffle(room.a).Up(two, both); r = both[0] + 10000 * both[1]": lambda v, w: pair(shifted(BOTH, 1, -7)),
    "both[1] = -9; Shuffle(room.a).Down(two, both); r = both[0] + 10000 * both[1]": lambda v, w: pair(shifted(BOTH, -1, -9)),
    "Difference(room.b).SubtractLeft(two, both, cub::Difference()); r = both[0] + 10000 * both[1]":
        lambda v, w: pair(BOTH - shifted(BOTH, 1, 0)),
    "Difference(room.b).SubtractRight(two, both, cub::Difference()); r = both[0] + 10000 * both[1]":
        lambda v, w: pair(BOTH - shifted(BOTH, -1, 0)),
    "Line(room.c).ExclusiveSum(v, result, running); r = result": lambda v, w: 100 + np.cumsum(v) - v,
    "Line(room.c).InclusiveSum(v, result, running); r = result": lambda v, w: 100 + v.sum() + np.cumsum(v),
    "Line(room.c).InclusiveSum(two, both, all); r = both[1] + 10000 * all": lambda v, w: np.cumsum(BOTH)[1::2] + 10000 * BOTH.sum(),
    "Exchange(room.d).BlockedToWarpStriped(two, both); r = both[0] + 10000 * both[1]":
        lambda v, w: (BOTH.reshape(4, 2, 32) * [[1], [10000]]).sum(1).ravel(),
    "Exchange(room.d).BlockedToWarpStriped(two, both); __syncthreads(); Exchange(room.d).WarpStripedToBlocked(both, both); "
    "r = both[0] + 10000 * both[1]": lambda v, w: pair(BOTH),
    "Exchange(room.d).BlockedToStriped(two, both); r = both[0] + 10000 * both[1]": lambda v, w: BOTH[:128] + 10000 * BOTH[128:],
    "int few[2] = {v & 1, w & 1}, tails[2]; Flags(room.e).FlagHeadsAndTails(both, tails, few, cub::Inequality()); "
    "r = both[0] + 2 * both[1] + 4 * tails[0] + 8 * tails[1]": lambda v, w: heads_and_tails(),
    "int keys[2] = {v % 10, w % 10}, at[2] = {2 * i, 2 * i + 1}; Sort(room.f).SortDescending(keys, at); r = at[0] + 10000 * at[1]":
        lambda v, w: pair(np.argsort(-np.fmod(BOTH, 10), kind="stable")),
    "unsigned char bins[1] = {(unsigned char)(v & 7)}; Histogram(room.g).Histogram(bins, counts); __syncthreads(); r = counts[i % 8]":
        lambda v, w: np.bincount(v & 7, minlength=8)[RANK % 8],
    "Store(room.i).Store(stored, two); __syncthreads(); Load(room.h).Load(stored, both); r = both[0] + 10000 * both[1]":
        lambda v, w: pair(BOTH),
    "Sum().reduce(two, result, room.j, rocprim::plus<int>()); r = rocprim::flat_block_thread_id() ? 0 : result":
        lambda v, w: first(BOTH.sum()),
    "Scanned().inclusive_scan(v, result, room.k); r = result": lambda v, w: np.cumsum(v),
}  # fmt: skip
FLAT = {  # of 16 by 8
    "int sum = Reduce(flat.a).Sum(v); r = rank ? 0 : sum": lambda v, w: first(v.sum()),
    "int sum = Reduce(flat.a).Sum(v, 77); r = rank ? 0 : sum": lambda v, w: first(v[:77].sum()),
    "int most = Reduce(flat.a).Reduce(v, cub::Max()); r = rank ? 0 : most": lambda v, w: first(v.max()),
    "int least = Reduce(flat.a).Reduce(v, [](int a, int b) { return b < a ? b : a; }); r = rank ? 0 : least": lambda v, w: first(v.min()),
    "int least = Reduce(flat.a).Reduce(two, cub::Min()); r = rank ? 0 : least": lambda v, w: first(BOTH.min()),
    "Scan(flat.b).InclusiveSum(v, result); r = result": lambda v, w: np.cumsum(v),
    "Scan(flat.b).ExclusiveSum(v, result, all); r = result + 1000 * all": lambda v, w: np.cumsum(v) - v + 1000 * v.sum(),
    "Scan(flat.b).ExclusiveScan(v, result, 5, hipcub::Max()); r = result":
        lambda v, w: np.maximum.accumulate(np.append(5, v[:-1])),
    "Scan(flat.b).ExclusiveSum(two, both); r = both[0] + 1000 * both[1]":
        lambda v, w: (np.cumsum(BOTH) - BOTH).reshape(128, 2) @ [1, 1000],
    "Scan(flat.b).InclusiveSum(two, both); r = both[0] + 1000 * both[1]": lambda v, w: np.cumsum(BOTH).reshape(128, 2) @ [1, 1000],
}  # fmt: skip


def heads_and_tails():
    differs = np.diff(BOTH & 1) != 0
    heads, tails = np.append(True, differs), np.append(differs, True)
    return heads[::2] + 2 * heads[1::2] + 4 * tails[::2] + 8 * tails[1::2]


WARP = """
    using Reduce = cub::WarpReduce<int>; using Scan = cub::WarpScan<int, 16>; using Eight = hipcub::WarpReduce<int, 8>;
    using Pair = hipcub::KeyValuePair<int, int>; using Best = hipcub::WarpReduce<Pair, 8>;
    using Sort = cub::WarpMergeSort<int, 2, 32, int>; using Exchange = cub::WarpExchange<int, 2, 16>;
    __shared__ typename Reduce::TempStorage reduce[4]; __shared__ typename Scan::TempStorage scan[8]; __shared__ Eight::TempStorage eight[16];
    __shared__ typename Best::TempStorage best[16]; __shared__ typename Sort::TempStorage sort[4]; __shared__ typename Exchange::TempStorage exchange[8];
    int a, b, two[2] = {2 * i, 2 * i + 1}, other[2], some[4] = {v, w, i, 7}; const int* line = v_;"""
EIGHTS, SIXTEENS = V.reshape(16, 8), V.reshape(8, 16)
SUMS = np.cumsum(SIXTEENS, 1)


def segments(starts, function):
    """A function of each segment, where it begins; 0 elsewhere."""
    out = np.zeros(128, "i8")
    ends = np.flatnonzero(np.append(starts[1:], True)) + 1
    for begin, end in zip(np.flatnonzero(starts), ends, strict=True):
        out[begin] = function(V[begin:end])
    return out


HEADS = (RANK % 32 == 0) | (RANK % 5 == 0)
AFTER_TAILS = (RANK % 32 == 0) | ((RANK - 1) % 7 == 3)


def sorted_pairs(which):
    pairs = np.stack([np.fmod(V, 10), np.fmod(-V, 10)], 1).reshape(4, 64)
    order = np.argsort(pairs, axis=1, kind="stable")
    return pair(
        (np.take_along_axis(pairs, order, 1) if which == "keys" else order + 64 * np.arange(4)[:, None]).ravel()
    )


WARPS = {
    "a = Eight(eight[i / 8]).Sum(v); r = i % 8 ? 0 : a": lambda v, w: np.where(RANK % 8, 0, EIGHTS.sum(1).repeat(8)),
    "a = Eight(eight[i / 8]).Reduce(v, hipcub::Max(), 5); r = i % 8 ? 0 : a":
        lambda v, w: np.where(RANK % 8, 0, EIGHTS[:, :5].max(1).repeat(8)),
    "Pair most = Best(best[i / 8]).Reduce(Pair{i, v}, hipcub::ArgMax()); r = i % 8 ? 0 : most.key":
        lambda v, w: np.where(RANK % 8, 0, EIGHTS.argmax(1).repeat(8) + RANK),
    "a = Reduce(reduce[i / 32]).Sum(v); r = i % 32 ? 0 : a": lambda v, w: np.where(RANK % 32, 0, v.reshape(4, 32).sum(1).repeat(32)),
    "a = Reduce(reduce[i / 32]).HeadSegmentedSum(v, i % 5 == 0); r = i % 32 && i % 5 ? 0 : a": lambda v, w: segments(HEADS, np.sum),
    "a = Reduce(reduce[i / 32]).TailSegmentedReduce(v, i % 7 == 3, cub::Max()); r = i % 32 && (i - 1) % 7 != 3 ? 0 : a":
        lambda v, w: segments(AFTER_TAILS, np.max),
    "Scan(scan[i / 16]).Scan(v, a, b, 1000, cub::Sum()); r = a + 10000 * b": lambda v, w: (1000 + SUMS + 10000 * (1000 + SUMS - SIXTEENS)).ravel(),
    "Scan(scan[i / 16]).ExclusiveSum(v, a, b); r = a + 10000 * b": lambda v, w: (SUMS - SIXTEENS + 10000 * SUMS[:, -1:]).ravel(),
    "Scan(scan[i / 16]).ExclusiveScan(v, a, 5, hipcub::Max(), b); r = a + 1000 * b":
        lambda v, w: (np.maximum.accumulate(np.insert(SIXTEENS, 0, 5, 1), 1)[:, :-1] + 1000 * SIXTEENS.max(1, keepdims=True)).ravel(),
    "Scan(scan[i / 16]).ExclusiveScan(v, a, cub::Sum(), b); r = (i % 16 ? a : 0) + 10000 * b":
        lambda v, w: (SUMS - SIXTEENS + 10000 * SUMS[:, -1:]).ravel(),
    "Scan(scan[i / 16]).ExclusiveScan(v, a, cub::Sum()); r = i % 16 ? a : 0": lambda v, w: (SUMS - SIXTEENS).ravel(),
    "Scan(scan[i / 16]).InclusiveSum(v, a); r = a": lambda v, w: SUMS.ravel(),
    "Scan(scan[i / 16]).ExclusiveSum(v, a); r = a": lambda v, w: (SUMS - SIXTEENS).ravel(),
    "Scan(scan[i / 16]).Broadcast(v, 9)": lambda v, w: SIXTEENS[:, 9].repeat(16),
    "int keys[2] = {v % 10, -v % 10}; Sort(sort[i / 32]).Sort(keys, two, Less()); r = keys[0] + 10000 * keys[1]":
        lambda v, w: sorted_pairs("keys"),
    "int keys[2] = {v % 10, -v % 10}, at[2] = {2 * i, 2 * i + 1}; Sort(sort[i / 32]).Sort(keys, at, Less()); r = at[0] + 10000 * at[1]":
        lambda v, w: sorted_pairs("values"),
    "int at[2] = {2 * i, 2 * i + 1}; Exchange(exchange[i / 16]).BlockedToStriped(at, other); r = other[0] + 10000 * other[1]":
        lambda v, w: (np.arange(256).reshape(8, 2, 16) * [[1], [10000]]).sum(1).ravel(),
    "int at[2] = {2 * i, 2 * i + 1}; Exchange(exchange[i / 16]).BlockedToStriped(at, other); "
    "Exchange(exchange[i / 16]).StripedToBlocked(other, other); r = other[0] + other[1]": lambda v, w: 4 * RANK + 1,
    "cub::ShuffleDown<32>(v, 3, 20)": lambda v, w: np.where(RANK % 32 + 3 <= 20, np.roll(v, -3), v),
    "cub::ShuffleUp<16>(v, 2, 1)": lambda v, w: np.where(RANK % 16 - 2 >= 1, np.roll(v, 2), v),
    "cub::ShuffleIndex<8>(v, 5)": lambda v, w: EIGHTS[:, 5].repeat(8),
    # What a thread has by itself.
    "cub::LoadDirectStriped<32>(i % 32, line, some); r = cub::ThreadReduce(some, cub::Max())":
        lambda v, w: np.tile(v.reshape(4, 32).max(0), 4),
    "cub::LoadDirectStriped<32>(i % 32, line, some); cub::ThreadScanExclusive(some, some, cub::Sum(), 3); r = some[3]":
        lambda v, w: np.tile(v.reshape(4, 32)[:3].sum(0) + 3, 4),
    "cub::ArgIndexInputIterator<const int*> at(line); auto found = at[i]; cub::ThreadStore<cub::STORE_CG>(&a, found.key); "
    "r = 1000 * a + (found.value == v)": lambda v, w: 1000 * RANK + 1,
    "cub::TransformInputIterator<int, Twice, const int*> twice(line, Twice()); r = twice[i] + cub::Log2<33>::VALUE + CUB_QUOTIENT_CEILING(7, 2)":
        lambda v, w: 2 * v + 10,
    "cub::DoubleBuffer<int> buffers(&a, &b); buffers.selector ^= 1; r = buffers.Current() == &b && buffers.Alternate() == &a": lambda v, w: 1,
    "10 * thrust::maximum<>()(1, 2.5) + 100 * rocprim::minimum<>()(1, 2.5) + rocprim::maximum<int>()(1, 2.5)": lambda v, w: 127,
    "10 * rocprim::plus<>()(1, 2.5) + thrust::minimum<int>()(3, 2)": lambda v, w: 37,
}  # fmt: skip
OF_A, OF_B = np.sort(RANDOM.integers(0, 60, (2, 64), dtype="i4"), 1)
TAKEN = np.append(0, np.cumsum(np.argsort(np.append(OF_A, OF_B), kind="stable") < 64))[:64]
SEARCHES = {
    "int2 place; cub::MergePathSearch(i, a_, b_, 64, 64, place); r = place.x": lambda a, b: TAKEN,
    "int2 place; cub::MergePathSearch(i, a_, b_, 64, 64, place); r = place.y": lambda a, b: np.arange(64) - TAKEN,
    "cub::LowerBound(a_, 64, i)": lambda a, b: np.searchsorted(a, np.arange(64), "left"),
    "cub::UpperBound(a_, 64, i)": lambda a, b: np.searchsorted(a, np.arange(64), "right"),
}  # fmt: skip
GIVEN = {"v": V, "w": W}


def test_blocks_and_warps(device, queue):
    tables = [Calls(LINE, "i4", GIVEN, HEAD, BLOCK, 128), Calls(FLAT, "i4", GIVEN, HEAD, BLOCK, (16, 8)),
              Calls(WARPS, "i4", GIVEN, HEAD, WARP, 128), Calls(SEARCHES, "i4", {"a": OF_A, "b": OF_B}, HEAD)]  # fmt: skip
    assert device_data(call_differences(device, queue, tables)) == []


# Decoded runs and even shares of a grid


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
