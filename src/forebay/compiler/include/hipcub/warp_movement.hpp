// hipCUB's loads, stores, exchanges and sorts of a warp, or of a part of one: each thread has `N` values, in order
// ("blocked") or as far apart as there are threads ("striped").
#pragma once

#include <hipcub/block_movement.hpp>
#include <hipcub/block_parts.hpp>

namespace hipcub {

enum WarpLoadAlgorithm { WARP_LOAD_DIRECT, WARP_LOAD_STRIPED, WARP_LOAD_VECTORIZE, WARP_LOAD_TRANSPOSE };
enum WarpStoreAlgorithm { WARP_STORE_DIRECT, WARP_STORE_STRIPED, WARP_STORE_VECTORIZE, WARP_STORE_TRANSPOSE };

template <int Threads>
struct WarpTeam {
    static constexpr int threads = Threads;
    static __DEVICE__ int rank() { return (int)(__lane_id() & (Threads - 1)); }
};

template <int Threads>
struct WarpPart {
    struct TempStorage {};
    int lane = WarpTeam<Threads>::rank();
};

template <class T, int N, WarpLoadAlgorithm Way = WARP_LOAD_DIRECT, int Threads = 32, int = 0>
class WarpLoad : public Loading<WarpTeam<Threads>, Way == WARP_LOAD_STRIPED, T, N> {
    using Loading<WarpTeam<Threads>, Way == WARP_LOAD_STRIPED, T, N>::Loading;
};

template <class T, int N, WarpStoreAlgorithm Way = WARP_STORE_DIRECT, int Threads = 32, int = 0>
class WarpStore : public Storing<WarpTeam<Threads>, Way == WARP_STORE_STRIPED, T, N> {
    using Storing<WarpTeam<Threads>, Way == WARP_STORE_STRIPED, T, N>::Storing;
};

template <class T, int N, int Threads = 32, int = 0>
class WarpExchange : WarpPart<Threads> {
  public:
    using TempStorage = typename WarpPart<Threads>::TempStorage;
    WarpExchange() = default;
    __device__ WarpExchange(TempStorage&) {}

    // The value at a place of the one order is in thread `place % Threads` or `place / N` of the other.
    template <class U>
    __device__ void BlockedToStriped(const T (&from)[N], U (&to)[N]) {
        gather(from, to, [&](int i) { return i * Threads + this->lane; }, [](int at) { return at / N; },
               [](int at) { return at % N; });
    }
    template <class U>
    __device__ void StripedToBlocked(const T (&from)[N], U (&to)[N]) {
        gather(from, to, [&](int i) { return this->lane * N + i; }, [](int at) { return at % Threads; },
               [](int at) { return at / Threads; });
    }

  private:
    template <class U, class Place, class Lane, class Slot>
    __device__ void gather(const T (&from)[N], U (&to)[N], Place place, Lane lane, Slot slot) {
        T found[N];
        for (int i = 0; i < N; i++)
            for (int each = 0; each < N; each++) {
                T value = __shfl(from[each], lane(place(i)), Threads);
                if (slot(place(i)) == each)
                    found[i] = value;
            }
        for (int i = 0; i < N; i++)
            to[i] = (U)found[i];
    }
};

// By ranks: a key goes where as many others are before it, so equal keys keep their order.
template <class K, int N, int Threads = 32, class V = NullType, int = 0>
class WarpMergeSort : WarpPart<Threads> {
  public:
    using TempStorage = typename WarpPart<Threads>::TempStorage;
    WarpMergeSort() = default;
    __device__ WarpMergeSort(TempStorage&) {}

    template <class Less>
    __device__ void Sort(K (&keys)[N], Less is_less) {
        int places[N];
        rank(keys, is_less, places);
        move(keys, places);
    }
    template <class Less>
    __device__ void Sort(K (&keys)[N], V (&values)[N], Less is_less) {
        int places[N];
        rank(keys, is_less, places);
        move(keys, places);
        move(values, places);
    }
    template <class... Arguments>
    __device__ void StableSort(Arguments&&... arguments) {
        Sort(static_cast<Arguments&&>(arguments)...);
    }

  private:
    template <class Less>
    __device__ void rank(const K (&keys)[N], Less is_less, int (&places)[N]) {
        for (int i = 0; i < N; i++)
            places[i] = 0;
        for (int other = 0; other < Threads; other++)
            for (int each = 0; each < N; each++) {
                K key = __shfl(keys[each], other, Threads);
                for (int i = 0; i < N; i++) {
                    bool is_earlier = other * N + each < this->lane * N + i;
                    places[i] += is_less(key, keys[i]) || (is_earlier && !is_less(keys[i], key));
                }
            }
    }
    template <class T>
    __device__ void move(T (&values)[N], const int (&places)[N]) {
        T found[N];
        for (int other = 0; other < Threads; other++)
            for (int each = 0; each < N; each++) {
                T value = __shfl(values[each], other, Threads);
                int at = __shfl(places[each], other, Threads) - this->lane * N;
                if (at >= 0 && at < N)
                    found[at] = value;
            }
        for (int i = 0; i < N; i++)
            values[i] = found[i];
    }
};

}  // namespace hipcub
