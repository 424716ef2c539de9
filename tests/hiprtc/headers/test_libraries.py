"""Headers of other libraries for kernels: matrices of a warp, CUDA's C++ library, Thrust, blocks' sorts; with NumPy."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "SPIR-V", "doubles")]

RANDOM = np.random.default_rng(3)

MATRICES = r"""
#include <mma.h>
using namespace nvcuda;
#define PRODUCT(name, M, N, K, T, U, LA, LB) \
extern "C" __global__ void name(const T* a, const T* b, const U* c, U* d) { \
    wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::LA> fa; \
    wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::LB> fb; \
    wmma::fragment<wmma::accumulator, M, N, K, U> fc, fd; wmma::fill_fragment(fd, (U)0.0f); \
    wmma::load_matrix_sync(fa, a, K); wmma::load_matrix_sync(fb, b, K); \
    wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major); \
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = (U)(2.0f * (float)fc.x[i]); \
    wmma::mma_sync(fd, fa, fb, fc); wmma::store_matrix_sync(d, fd, M, wmma::mem_col_major); }
PRODUCT(half16, 16, 16, 16, half, float, row_major, col_major)
PRODUCT(half32, 32, 8, 16, half, float, row_major, col_major)
PRODUCT(half8, 8, 32, 16, half, half, row_major, col_major)
PRODUCT(bytes, 16, 16, 16, signed char, int, row_major, col_major)
PRODUCT(doubles, 8, 8, 4, double, double, row_major, col_major)
"""


def test_products_of_matrices(compiled):
    """CUDA's shapes and types; the result is written by columns."""
    built = compiled(MATRICES)
    for name, (m, n, k), dtype, sums in (
        ("half16", (16, 16, 16), "f2", "f4"), ("half32", (32, 8, 16), "f2", "f4"), ("half8", (8, 32, 16), "f2", "f2"),
        ("bytes", (16, 16, 16), "i1", "i4"), ("doubles", (8, 8, 4), "f8", "f8"),
    ):  # fmt: skip
        a, b = (RANDOM.integers(-5, 6, shape).astype(dtype) for shape in ((m, k), (n, k)))
        c, out = RANDOM.integers(-5, 6, (m, n)).astype(sums), np.zeros((n, m), sums)
        built.run(name, 1, 32, a, b, c, out)
        assert np.array_equal(out.T, a.astype("f8") @ b.T.astype("f8") + 2 * c.astype("f8")), name


ATOMICS = r"""
#include <cuda/std/atomic>
#include <cuda/std/type_traits>
#include <cuda/std/complex>
#include <cuda/pipeline>
#include <cuda/atomic>
#include <cooperative_groups.h>
#pragma nv_diag_suppress static_var_with_dynamic_init
namespace cg = cooperative_groups;
extern "C" __global__ void counts(int* at, unsigned* out, float* f) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ref(at[0]);
    ref.fetch_add(threadIdx.x, cuda::memory_order_relaxed);
    cuda::atomic<unsigned, cuda::thread_scope_block>* a = (cuda::atomic<unsigned, cuda::thread_scope_block>*)out;
    (*a)++; a[1].fetch_max(threadIdx.x, cuda::std::memory_order_relaxed); a[2] = 7;
    cuda::std::atomic<float>* g = (cuda::std::atomic<float>*)f; *g += 1.0f;
    if (threadIdx.x == 0) { unsigned e = a[2].load(); a[3].store(e + 1); unsigned w = 8; a[3].compare_exchange_strong(w, 11u); static_assert(cuda::std::is_same_v<int, int>); }
}
extern "C" __global__ void copies(const float* x, float* y) {
    __shared__ float room[2][64];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&bar, block.size());
    block.sync();
    cuda::memcpy_async(block, room[0], x, cuda::aligned_size_t<16>(256), bar);
    bar.arrive_and_wait();
    y[threadIdx.x] = room[0][63 - threadIdx.x];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(block, &state);
    for (int i = 0; i < 4; i++) {
        pipe.producer_acquire(); cuda::memcpy_async(block, room[i % 2], x + 64 * i, sizeof(float) * 64, pipe); pipe.producer_commit();
        pipe.consumer_wait(); y[threadIdx.x] += room[i % 2][63 - threadIdx.x]; pipe.consumer_release();
    }
}
"""


def test_atomic_objects_barriers_and_pipelines(compiled):
    built = compiled(ATOMICS)
    at, out, f = np.zeros(1, "i4"), np.zeros(4, "u4"), np.zeros(1, "f4")
    built.run("counts", 1, 64, at, out, f)
    assert (at[0], out.tolist(), f[0]) == (64 * 63 // 2, [64, 63, 7, 11], 64)
    x, y = np.arange(256, dtype="f4"), np.zeros(64, "f4")
    built.run("copies", 1, 64, x, y)
    assert np.array_equal(y, (x.reshape(4, 64).sum(0) + x[:64])[::-1])


THRUST = r"""
#include <thrust/device_vector.h>
#include <thrust/sort.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/complex.h>
struct step { template <class Tuple> __host__ __device__ void operator()(Tuple t) { thrust::get<0>(t) += 1; } };
struct twice : thrust::unary_function<int, int> { __host__ __device__ int operator()(int x) const { return 2 * x; } };
extern "C" __global__ void all(int* x, int n, int* out) {
    thrust::sort(thrust::seq, x, x + n);
    out[0] = thrust::reduce(thrust::device, x, x + n); out[1] = thrust::reduce(thrust::seq, x, x + n, -1000, thrust::maximum<int>());
    thrust::tuple<int, float> t = thrust::make_tuple(3, 2.5f); step()(t); out[2] = thrust::get<0>(t);
    thrust::pair<int, int> p = thrust::make_pair(1, 2); thrust::swap(p.first, p.second); out[3] = p.first;
    out[4] = thrust::max(3, 4) + thrust::min(1, 2); out[5] = *thrust::max_element(thrust::seq, x, x + n);
    auto it = thrust::make_transform_iterator(thrust::make_counting_iterator(5), twice()); out[6] = it[2];
    thrust::device_ptr<int> d = thrust::device_pointer_cast(x); out[7] = d[0] + thrust::raw_pointer_cast(d)[1];
    thrust::sort(thrust::seq, x, x + n, thrust::greater<int>()); out[8] = x[0]; thrust::exclusive_scan(thrust::seq, x, x + 3, out + 9);
    thrust::fill(thrust::device, out + 12, out + 14, 42); int v[3] = {0, 1, 2}, k[3] = {3, 1, 2}; thrust::sort_by_key(thrust::seq, k, k + 3, v); out[14] = v[0];
}
"""


def test_thrust_in_a_thread(compiled):
    x, out = np.array([5, -3, 9, 2, 2], "i4"), np.zeros(16, "i4")
    compiled(THRUST).run("all", 1, 1, x, 5, out)
    assert out.tolist() == [15, 9, 3, 2, 5, 9, 14, -1, 9, 0, 9, 14, 42, 42, 1, 0]
    assert x.tolist() == [9, 5, 2, 2, -3]


LARGER = r"""
#include <rocprim/rocprim.hpp>
#include <thrust/functional.h>
extern "C" __global__ void all(double* out) {
    out[0] = thrust::maximum<>()(1, 2.5); out[1] = rocprim::minimum<>()(1, 2.5); out[2] = rocprim::maximum<int>()(1, 2.5);
    out[3] = rocprim::plus<>()(1, 2.5); out[4] = thrust::minimum<int>()(3, 2);
}
"""


def test_the_larger_of_two_types(compiled):
    out = np.zeros(5)
    compiled(LARGER).run("all", 1, 1, out)
    assert out.tolist() == [2.5, 1, 2, 3.5, 2]


BLOCKS = r"""
#include <cub/block/block_radix_sort.cuh>
#include <rocprim/rocprim.hpp>
template <class T> struct Sorting { using S = cub::BlockRadixSort<T, 64, 2, int>; };
extern "C" __global__ void all(const float* x, float* sorted, int* ranks, int* out) {
    using Load = cub::BlockLoad<float, 64, 2, cub::BLOCK_LOAD_TRANSPOSE>; using Store = hipcub::BlockStore<float, 64, 2>;
    using Sort = hipcub::BlockRadixSort<float, 64, 2, int>; using Exchange = cub::BlockExchange<float, 64, 2>;
    using Histogram = cub::BlockHistogram<unsigned char, 64, 2, 8>; using Heads = cub::BlockDiscontinuity<int, 64>;
    __shared__ union Rooms { Load::TempStorage a; Store::TempStorage b; Sort::TempStorage c; Exchange::TempStorage d; Histogram::TempStorage e; Heads::TempStorage f; __device__ Rooms() {} } room;
    __shared__ unsigned counts[8]; int i = threadIdx.x;
    float v[2]; int r[2] = {2 * i, 2 * i + 1}; Load(room.a).Load(x, v);
    unsigned char bins[2] = {(unsigned char)((int)fabsf(v[0]) % 8), (unsigned char)((int)fabsf(v[1]) % 8)};
    Histogram(room.e).Histogram(bins, counts); if (i < 8) out[i] = counts[i];
    Sort(room.c).SortDescending(v, r); Store(room.b).Store(sorted, v); ranks[2 * i] = r[0]; ranks[2 * i + 1] = r[1];
    int w[2] = {(int)v[0], (int)v[1]}, flags[2]; Heads(room.f).FlagHeads(flags, w, cub::Inequality()); out[8 + 2 * i] = flags[0]; out[9 + 2 * i] = flags[1];
    Exchange(room.d).BlockedToStriped(v); out[136 + i] = (int)v[0]; out[200 + i] = (int)v[1];
}
extern "C" __global__ void rocm(const int* x, int* out) {
    using load = rocprim::block_load<int, 64, 2>; using reduce = rocprim::block_reduce<int, 64>; using store = rocprim::block_store<int, 64, 2>; using scan = rocprim::block_scan<int, 64>;
    __shared__ union { load::storage_type a; reduce::storage_type b; store::storage_type c; scan::storage_type d; } room;
    int v[2], sum; load().load(x, v, room.a); reduce().reduce(v, sum, room.b, rocprim::plus<int>()); if (rocprim::flat_block_thread_id() == 0) out[128] = sum;
    scan().inclusive_scan(v[0], v[0], room.d); store().store(out, v, room.c);
}
"""


def test_blocks_load_sort_and_count(compiled):
    built = compiled(BLOCKS)
    x = RANDOM.integers(-20, 20, 128).astype("f4")
    ordered, ranks, out = np.zeros(128, "f4"), np.zeros(128, "i4"), np.zeros(264, "i4")
    built.run("all", 1, 64, x, ordered, ranks, out)
    order = np.argsort(-x, kind="stable")
    assert np.array_equal(ranks, order)
    assert np.array_equal(ordered, x[order])
    assert np.array_equal(out[:8], np.bincount(abs(x).astype(int) % 8, minlength=8))
    assert np.array_equal(out[8:136], np.append(1, np.diff(ordered) != 0))
    assert np.array_equal(out[136:], ordered.astype("i4"))
    whole, out = x.astype("i4"), np.zeros(129, "i4")
    built.run("rocm", 1, 64, whole, out)
    assert out[128] == whole.sum()
    assert np.array_equal(out[:128:2], np.cumsum(whole[::2]))
    assert np.array_equal(out[1:128:2], whole[1::2])
