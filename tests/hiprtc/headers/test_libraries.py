"""Headers of other libraries for kernels: matrices of a warp, CUDA's C++ library, Thrust, blocks' sorts; with NumPy."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data

pytestmark = [pytest.mark.needs("a compiler of its own", "SPIR-V", "doubles")]

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
        assert np.array_equal(device_data(out.T), a.astype("f8") @ b.T.astype("f8") + 2 * c.astype("f8")), name


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
    assert (device_data(at[0]), device_data(out.tolist()), device_data(f[0])) == (64 * 63 // 2, [64, 63, 7, 11], 64)
    x, y = np.arange(256, dtype="f4"), np.zeros(64, "f4")
    built.run("copies", 1, 64, x, y)
    assert np.array_equal(device_data(y), (x.reshape(4, 64).sum(0) + x[:64])[::-1])


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
    assert device_data(out.tolist()) == [15, 9, 3, 2, 5, 9, 14, -1, 9, 0, 9, 14, 42, 42, 1, 0]
    assert device_data(x.tolist()) == [9, 5, 2, 2, -3]
