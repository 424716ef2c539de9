// rocPRIM's names of what blocks and warps do together, see hipcub/hipcub.hpp.
#pragma once
#include <hip/device/own_names.h>

#include <hipcub/hipcub.hpp>
#include <thrust/functional.h>

namespace rocprim {

using thrust::maximum;
using thrust::minimum;
using thrust::plus;
template <class T>
using less = std::less<T>;
template <class T>
using greater = std::greater<T>;
using empty_type = hipcub::NullType;

__DEVICE__ unsigned flat_block_thread_id() { return (unsigned)hipcub::thread_rank(); }
__DEVICE__ unsigned flat_block_id() { return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z); }
__DEVICE__ unsigned lane_id() { return __lane_id(); }
__DEVICE__ void syncthreads() { __syncthreads(); }

enum class block_load_method { block_load_direct, block_load_striped, block_load_vectorize, block_load_transpose };
enum class block_store_method { block_store_direct, block_store_striped, block_store_vectorize, block_store_transpose };
enum class block_reduce_algorithm { using_warp_reduce, raking_reduce, default_algorithm };
enum class block_scan_algorithm { using_warp_scan, reduce_then_scan, default_algorithm };

template <class T, unsigned X, unsigned N, block_load_method Way = block_load_method::block_load_direct, unsigned Y = 1,
          unsigned Z = 1>
struct block_load {
    using Base = hipcub::BlockLoad<T, X, N, (hipcub::BlockLoadAlgorithm)Way, Y, Z>;
    using storage_type = typename Base::TempStorage;
    template <class It, class... Others>
    __device__ void load(It from, T (&values)[N], Others... others) {
        Base().Load(from, values, others...);
    }
    template <class It>
    __device__ void load(It from, T (&values)[N], storage_type&) {
        Base().Load(from, values);
    }
    template <class It>
    __device__ void load(It from, T (&values)[N], unsigned valid, storage_type&) {
        Base().Load(from, values, valid);
    }
    template <class It, class U>
    __device__ void load(It from, T (&values)[N], unsigned valid, U otherwise, storage_type&) {
        Base().Load(from, values, valid, otherwise);
    }
};
template <class T, unsigned X, unsigned N, block_store_method Way = block_store_method::block_store_direct,
          unsigned Y = 1, unsigned Z = 1>
struct block_store {
    using Base = hipcub::BlockStore<T, X, N, (hipcub::BlockStoreAlgorithm)Way, Y, Z>;
    using storage_type = typename Base::TempStorage;
    template <class It, class... Others>
    __device__ void store(It to, T (&values)[N], Others... others) {
        Base().Store(to, values, others...);
    }
    template <class It>
    __device__ void store(It to, T (&values)[N], storage_type&) {
        Base().Store(to, values);
    }
    template <class It>
    __device__ void store(It to, T (&values)[N], unsigned valid, storage_type&) {
        Base().Store(to, values, valid);
    }
};
template <class T, unsigned X, block_reduce_algorithm = block_reduce_algorithm::default_algorithm, unsigned Y = 1,
          unsigned Z = 1>
struct block_reduce {
    using Base = hipcub::BlockReduce<T, X, hipcub::BLOCK_REDUCE_RAKING, Y, Z>;
    using storage_type = typename Base::TempStorage;
    template <class Op = plus<T>>
    __device__ void reduce(T value, T& result, storage_type& room, Op op = {}) {
        result = Base(room).Reduce(value, op);
    }
    template <class Op = plus<T>>
    __device__ void reduce(T value, T& result, unsigned count, storage_type& room, Op op = {}) {
        result = Base(room).Reduce(value, op, (int)count);
    }
    template <unsigned N, class Op = plus<T>>
    __device__ void reduce(T (&values)[N], T& result, storage_type& room, Op op = {}) {
        T mine = values[0];
        for (unsigned i = 1; i < N; i++)
            mine = op(mine, values[i]);
        result = Base(room).Reduce(mine, op);
    }
};
template <class T, unsigned X, block_scan_algorithm = block_scan_algorithm::default_algorithm, unsigned Y = 1,
          unsigned Z = 1>
struct block_scan {
    using Base = hipcub::BlockScan<T, X, hipcub::BLOCK_SCAN_RAKING, Y, Z>;
    using storage_type = typename Base::TempStorage;
    template <class Op = plus<T>>
    __device__ void inclusive_scan(T value, T& result, storage_type& room, Op op = {}) {
        Base(room).InclusiveScan(value, result, op);
    }
    template <unsigned N, class Op = plus<T>>
    __device__ void inclusive_scan(T (&values)[N], T (&results)[N], storage_type& room, Op op = {}) {
        Base(room).InclusiveScan(values, results, op);
    }
    template <class Op = plus<T>>
    __device__ void inclusive_scan(T value, T& result, T& total, storage_type& room, Op op = {}) {
        Base(room).InclusiveScan(value, result, op, total);
    }
    template <class Op = plus<T>>
    __device__ void exclusive_scan(T value, T& result, T first, storage_type& room, Op op = {}) {
        Base(room).ExclusiveScan(value, result, first, op);
    }
    template <unsigned N, class Op = plus<T>>
    __device__ void exclusive_scan(T (&values)[N], T (&results)[N], T first, storage_type& room, Op op = {}) {
        T total;
        Base(room).ExclusiveScan(values, results, first, op, total);
    }
    template <class Op = plus<T>>
    __device__ void exclusive_scan(T value, T& result, T first, T& total, storage_type& room, Op op = {}) {
        Base(room).ExclusiveScan(value, result, first, op, total);
    }
};
template <class K, unsigned X, unsigned N, class V = empty_type>
struct block_radix_sort {
    using Base = hipcub::BlockRadixSort<K, X, N, V>;
    using storage_type = typename Base::TempStorage;
    template <class... Others>
    __device__ void sort(K (&keys)[N], storage_type& room, Others... others) {
        Base(room).Sort(keys, others...);
    }
    template <class W>
    __device__ void sort(K (&keys)[N], W (&values)[N], storage_type& room) {
        Base(room).Sort(keys, values);
    }
    template <class... Others>
    __device__ void sort_desc(K (&keys)[N], storage_type& room, Others... others) {
        Base(room).SortDescending(keys, others...);
    }
};

}  // namespace rocprim
#include <hip/device/program_names.h>
