// CUB's runs that a block decodes, how a grid shares what there is to do, and searches in sorted sequences.
#pragma once

#include <hipcub/block_parts.hpp>

namespace hipcub {

// Of each thread some values and how often each comes, in a row over the block.
template <class T, int X, int Runs, int N, class Offset = unsigned, int Y = 1, int Z = 1>
class BlockRunLengthDecode {
    static constexpr int threads = X * Y * Z, all = threads * Runs;

  public:
    struct TempStorage {
        Room<T, all> values;
        Room<Offset, all> ends;
        Room<Offset, threads> sums;
    };

    template <class Length, class Total>
    __device__ BlockRunLengthDecode(TempStorage& room, T (&values)[Runs], Length (&lengths)[Runs], Total& total)
        : room_(room) {
        Offset sum = 0;
        for (int i = 0; i < Runs; i++)
            sum += (Offset)lengths[i];
        BlockParts<Offset, threads> parts(room.sums);
        parts.scan(sum, [](Offset a, Offset b) { return a + b; }, threads);
        total = (Total)room.sums[threads - 1];
        Offset end = room.sums[parts.rank] - sum;
        for (int i = 0; i < Runs; i++) {
            room.values[parts.rank * Runs + i] = values[i];
            room.ends[parts.rank * Runs + i] = end += (Offset)lengths[i];
        }
        __syncthreads();
    }

    // Those from `begin` on, `N` for each thread in order; past the end, the last value.
    __device__ void RunLengthDecode(T (&decoded)[N], Offset begin = 0) {
        Offset places[N];
        RunLengthDecode(decoded, places, begin);
    }
    // And where each is within its run.
    template <class Place>
    __device__ void RunLengthDecode(T (&decoded)[N], Place (&places)[N], Offset begin = 0) {
        for (int i = 0; i < N; i++) {
            Offset at = begin + (Offset)(thread_rank() * N + i);
            int first = 0;
            for (int left = all - 1; left > 0;) {  // the first run that ends behind it
                int half = left / 2;
                if (room_.ends[first + half] <= at)
                    first += half + 1, left -= half + 1;
                else
                    left = half;
            }
            decoded[i] = room_.values[first];
            places[i] = (Place)(at - (first ? room_.ends[first - 1] : 0));
        }
    }

  private:
    TempStorage& room_;
};

// Two arrays that take turns.
template <class T>
struct DoubleBuffer {
    T* d_buffers[2] = {};
    int selector = 0;

    DoubleBuffer() = default;
    __host__ __device__ DoubleBuffer(T* current, T* other) : d_buffers{current, other} {}
    __host__ __device__ T* Current() { return d_buffers[selector]; }
    __host__ __device__ T* Alternate() { return d_buffers[selector ^ 1]; }
};

enum GridMappingStrategy { GRID_MAPPING_RAKE, GRID_MAPPING_STRIP_MINE, GRID_MAPPING_DYNAMIC };

// Tiles of equal size for the blocks of a grid: each a row of them, or one at a fixed distance.
template <class Offset>
struct GridEvenShare {
    Offset num_items, block_offset, block_end, block_stride;
    int grid_size;

    __host__ __device__ GridEvenShare()
        : num_items(0), block_offset(0), block_end(0), block_stride(0), grid_size(0), tiles_(0), tile_(0) {}
    __host__ __device__ void DispatchInit(Offset items, int most_blocks, int tile) {
        num_items = block_offset = block_end = items;
        tile_ = (Offset)tile;
        tiles_ = items / tile_ + (items % tile_ != 0);
        grid_size = (int)(tiles_ < (Offset)most_blocks ? tiles_ : (Offset)most_blocks);
    }
    template <int Tile, GridMappingStrategy Way>
    __device__ void BlockInit() {
        BlockInit<Tile>((int)blockIdx.x, std::integral_constant<GridMappingStrategy, Way>());
    }
    template <int Tile>
    __device__ void BlockInit(int block, std::integral_constant<GridMappingStrategy, GRID_MAPPING_RAKE>) {
        Offset each = tiles_ / grid_size, more = tiles_ % grid_size;  // the first blocks have one tile more
        Offset begin = (block * each + ((Offset)block < more ? (Offset)block : more)) * tile_;
        Offset end = begin + (each + ((Offset)block < more)) * tile_;
        block_stride = Tile;
        block_offset = begin;
        block_end = end < num_items ? end : num_items;
    }
    template <int Tile>
    __device__ void BlockInit(int block, std::integral_constant<GridMappingStrategy, GRID_MAPPING_STRIP_MINE>) {
        block_stride = (Offset)grid_size * Tile;
        block_offset = (Offset)block * Tile;
        block_end = num_items;
    }

  private:
    Offset tiles_, tile_;
};

// How many of `a` come before a diagonal of the path that merges `a` and `b`.
template <class A, class B, class Offset, class Less>
__host__ __device__ Offset MergePath(A a, B b, Offset a_count, Offset b_count, Offset diagonal, Less is_less) {
    Offset low = diagonal < b_count ? 0 : diagonal - b_count, high = diagonal < a_count ? diagonal : a_count;
    while (low < high) {
        Offset middle = (low + high) / 2;
        if (is_less(b[diagonal - 1 - middle], a[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
template <class A, class B, class Offset, class Place>
__host__ __device__ void MergePathSearch(Offset diagonal, A a, B b, Offset a_count, Offset b_count, Place& place) {
    auto is_less = [](const auto& x, const auto& y) { return x < y; };
    place.x = MergePath(a, b, a_count, b_count, diagonal, is_less);
    place.y = diagonal - place.x;
}
// The first place where a value may be put into what is sorted; the last one.
template <class It, class Offset, class T>
__host__ __device__ Offset LowerBound(It sorted, Offset count, const T& value) {
    Offset first = 0;
    while (count > 0) {
        Offset half = count / 2;
        if (sorted[first + half] < value)
            first += half + 1, count -= half + 1;
        else
            count = half;
    }
    return first;
}
template <class It, class Offset, class T>
__host__ __device__ Offset UpperBound(It sorted, Offset count, const T& value) {
    Offset first = 0;
    while (count > 0) {
        Offset half = count / 2;
        if (value < sorted[first + half])
            count = half;
        else
            first += half + 1, count -= half + 1;
    }
    return first;
}

}  // namespace hipcub
