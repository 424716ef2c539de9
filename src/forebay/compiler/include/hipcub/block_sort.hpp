// hipCUB's sorts, histograms and comparisons of neighbours in a block.
#pragma once

#include <hip/hip_runtime.h>
#include <hipcub/block_movement.hpp>
#include <hipcub/block_parts.hpp>

namespace hipcub {

// Sorts by counting, for each value, those that go before it: equal keys keep their order.
template <class K, int X, int N, class V, int Y = 1, int Z = 1>
class BlockOrder {
    static constexpr int threads = X * Y * Z, count = threads * N;
    static constexpr bool has_values = !std::is_same_v<V, NullType>;

  public:
    struct TempStorage {
        Room<K, count> keys;
        Room<V, has_values ? count : 1> values;
    };

  protected:
    TempStorage& room;
    int rank;
    __device__ BlockOrder(TempStorage& room) : room(room), rank(thread_rank()) {}

    template <class Before>
    __device__ void order(K (&keys)[N], V* values, bool striped, Before goes_before) {
        int places[N];
        __syncthreads();
        for (int i = 0; i < N; i++)
            room.keys[rank * N + i] = keys[i];
        __syncthreads();
        for (int i = 0; i < N; i++) {
            places[i] = 0;
            for (int other = 0; other < count; other++)
                places[i] += other < rank * N + i ? !goes_before(keys[i], room.keys[other])
                                                  : goes_before(room.keys[other], keys[i]);
        }
        __syncthreads();
        for (int i = 0; i < N; i++) {
            room.keys[places[i]] = keys[i];
            if constexpr (has_values)
                room.values[places[i]] = values[i];
        }
        __syncthreads();
        for (int i = 0; i < N; i++) {
            int place = striped ? i * threads + rank : rank * N + i;
            keys[i] = room.keys[place];
            if constexpr (has_values)
                values[i] = room.values[place];
        }
    }
};

template <class K, int X, int N, class V = NullType, int = 4, bool = true, BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS,
          int = 0, int Y = 1, int Z = 1, int = 0>
class BlockRadixSort : BlockOrder<K, X, N, V, Y, Z> {
    using Base = BlockOrder<K, X, N, V, Y, Z>;

    // The bits of a key from `begin` to `end`, in an order of unsigned numbers: signs are turned round.
    static __DEVICE__ unsigned long long digits(K key, int begin, int end) {
        using U = std::conditional_t<sizeof(K) == 8, unsigned long long, std::conditional_t<sizeof(K) == 4, unsigned,
                  std::conditional_t<sizeof(K) == 2, unsigned short, unsigned char>>>;
        constexpr U top = (U)1 << (sizeof(K) * 8 - 1);
        U bits = __forebay::bits_as<U>(key);
        if constexpr (std::is_integral_v<K>)
            bits = std::is_signed_v<K> ? bits ^ top : bits;
        else
            bits = bits == top ? top : bits & top ? (U)~bits : bits ^ top;  // -0 is 0
        int length = end - begin;
        return (unsigned long long)bits >> begin & (length >= 64 ? ~0ull : (1ull << length) - 1);
    }
    __device__ void sort(K (&keys)[N], V* values, int begin, int end, bool striped, bool descending) {
        this->order(keys, values, striped, [=](K a, K b) {
            return descending ? digits(b, begin, end) < digits(a, begin, end) : digits(a, begin, end) < digits(b, begin, end);
        });
    }

  public:
    using TempStorage = typename Base::TempStorage;
    __device__ BlockRadixSort(TempStorage& room) : Base(room) {}

#define FOREBAY_SORT(name, striped, descending)                                                          \
    __device__ void name(K (&keys)[N], int begin = 0, int end = sizeof(K) * 8) {                         \
        sort(keys, nullptr, begin, end, striped, descending);                                            \
    }                                                                                                    \
    template <class W, std::enable_if_t<std::is_same_v<W, V>, int> = 0>                                  \
    __device__ void name(K (&keys)[N], W (&values)[N], int begin = 0, int end = sizeof(K) * 8) {         \
        sort(keys, values, begin, end, striped, descending);                                             \
    }
    FOREBAY_SORT(Sort, false, false)
    FOREBAY_SORT(SortDescending, false, true)
    FOREBAY_SORT(SortBlockedToStriped, true, false)
    FOREBAY_SORT(SortDescendingBlockedToStriped, true, true)
#undef FOREBAY_SORT
};

template <class K, int X, int N, class V = NullType, int Y = 1, int Z = 1>
class BlockMergeSort : BlockOrder<K, X, N, V, Y, Z> {
    using Base = BlockOrder<K, X, N, V, Y, Z>;

  public:
    using TempStorage = typename Base::TempStorage;
    __device__ BlockMergeSort(TempStorage& room) : Base(room) {}

    template <class Before>
    __device__ void Sort(K (&keys)[N], Before before) {
        this->order(keys, nullptr, false, before);
    }
    template <class Before>
    __device__ void StableSort(K (&keys)[N], Before before) {
        this->order(keys, nullptr, false, before);
    }
    template <class W, class Before, std::enable_if_t<std::is_same_v<W, V>, int> = 0>
    __device__ void Sort(K (&keys)[N], W (&values)[N], Before before) {
        this->order(keys, values, false, before);
    }
};

enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

template <class T, int X, int N, int Bins, BlockHistogramAlgorithm = BLOCK_HISTO_SORT, int Y = 1, int Z = 1, int = 0>
class BlockHistogram {
  public:
    struct TempStorage {};
    __device__ BlockHistogram(TempStorage&) {}

    template <class Count>
    __device__ void InitHistogram(Count (&counts)[Bins]) {
        for (int bin = thread_rank(); bin < Bins; bin += X * Y * Z)
            counts[bin] = 0;
    }
    template <class Count>
    __device__ void Composite(T (&values)[N], Count (&counts)[Bins]) {
        __syncthreads();
        for (int i = 0; i < N; i++)
            atomicAdd(&counts[(int)values[i]], (Count)1);
        __syncthreads();
    }
    template <class Count>
    __device__ void Histogram(T (&values)[N], Count (&counts)[Bins]) {
        InitHistogram(counts);
        Composite(values, counts);
    }
};

template <class T, int X, int Y = 1, int Z = 1, int = 0>
class BlockDiscontinuity {
    static constexpr int threads = X * Y * Z;

  public:
    using TempStorage = Room<T, threads>;
    __device__ BlockDiscontinuity(TempStorage& room) : room_(room) {}

    // The first value of the block has no one before it and counts as different.
    template <int N, class Flag, class Op>
    __device__ void FlagHeads(Flag (&flags)[N], T (&values)[N], Op differ) {
        share(values[N - 1]);
        int rank = thread_rank();
        flags[0] = rank ? (Flag)differ(room_[rank - 1], values[0]) : (Flag)1;
        for (int i = 1; i < N; i++)
            flags[i] = (Flag)differ(values[i - 1], values[i]);
    }
    template <int N, class Flag, class Op>
    __device__ void FlagTails(Flag (&flags)[N], T (&values)[N], Op differ) {
        share(values[0]);
        int rank = thread_rank();
        for (int i = 0; i < N - 1; i++)
            flags[i] = (Flag)differ(values[i], values[i + 1]);
        flags[N - 1] = rank < threads - 1 ? (Flag)differ(values[N - 1], room_[rank + 1]) : (Flag)1;
    }

    template <int N, class Flag, class Op>
    __device__ void FlagHeadsAndTails(Flag (&heads)[N], Flag (&tails)[N], T (&values)[N], Op differ) {
        FlagHeads(heads, values, differ);
        FlagTails(tails, values, differ);
    }

  private:
    TempStorage& room_;

    __device__ void share(T value) {
        __syncthreads();
        room_[thread_rank()] = value;
        __syncthreads();
    }
};

}  // namespace hipcub
