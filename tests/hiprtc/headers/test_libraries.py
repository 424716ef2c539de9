"""Headers of other libraries for kernels: matrices of a warp, CUDA's C++ library, Thrust, blocks' sorts; with NumPy."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

pytestmark = pytest.mark.needs("a compiler of its own", "SPIR-V", "doubles")

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


HEAD = r"""
#include <cuda/std/atomic>
#include <cuda/std/type_traits>
#include <cuda/std/complex>
#include <cuda/pipeline>
#include <cuda/atomic>
#include <cooperative_groups.h>
#pragma nv_diag_suppress static_var_with_dynamic_init
namespace cg = cooperative_groups;
static_assert(cuda::std::is_same_v<int, int>);
using of_block = cuda::atomic<unsigned, cuda::thread_scope_block>;
"""
BEGIN = """
    __shared__ int sum; __shared__ unsigned counts[4]; __shared__ float f, room[2][64];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block(); of_block* a = (of_block*)counts;
    if (rank == 0) { sum = 0; f = 0; counts[0] = counts[1] = counts[3] = 0; counts[2] = 7; init(&bar, block.size()); } __syncthreads();"""
ATOMICS = {
    "cuda::atomic_ref<int, cuda::thread_scope_device>(sum).fetch_add(rank, cuda::memory_order_relaxed); __syncthreads(); r = sum":
        lambda x: 64 * 63 // 2,
    "(*a)++; a[1].fetch_max(rank, cuda::std::memory_order_relaxed); __syncthreads(); r = 100 * counts[0] + counts[1]": lambda x: 6463,
    "*(cuda::std::atomic<float>*)&f += 1.0f; __syncthreads(); r = f": lambda x: 64,
    "if (rank == 0) { a[3].store(a[2].load() + 1); unsigned w = 8; a[3].compare_exchange_strong(w, 11u); } __syncthreads(); r = counts[3]":
        lambda x: 11,
    "cuda::memcpy_async(block, room[0], x_, cuda::aligned_size_t<16>(256), bar); bar.arrive_and_wait(); r = room[0][63 - rank]":
        lambda x: np.tile(x[63::-1], 4),
    "auto pipe = cuda::make_pipeline(block, &state); r = 0; for (int k = 0; k < 4; k++) { pipe.producer_acquire(); "
    "cuda::memcpy_async(block, room[k % 2], x_ + 64 * k, sizeof(float) * 64, pipe); pipe.producer_commit(); "
    "pipe.consumer_wait(); r += room[k % 2][63 - rank]; pipe.consumer_release(); }":
        lambda x: np.tile(x.reshape(4, 64).sum(0)[::-1], 4),
}  # fmt: skip
THRUST_HEAD = r"""
#include <thrust/device_vector.h>
#include <thrust/sort.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/complex.h>
struct step { template <class Tuple> __host__ __device__ void operator()(Tuple& t) { thrust::get<0>(t) += 1; } };
struct twice : thrust::unary_function<int, int> { __host__ __device__ int operator()(int x) const { return 2 * x; } };
"""
THRUST_BEGIN = "int s[] = {5, -3, 9, 2, 2}, out[3], v[3] = {0, 1, 2}, k[3] = {3, 1, 2};"
THRUST = {
    "thrust::reduce(thrust::device, s, s + 5)": 15, "thrust::max(3, 4) + thrust::min(1, 2)": 5,
    "thrust::reduce(thrust::seq, s, s + 5, -1000, thrust::maximum<int>())": 9,
    "*thrust::max_element(thrust::seq, s, s + 5)": 9,
    "auto t = thrust::make_tuple(3, 2.5f); step()(t); r = thrust::get<0>(t)": 4,
    "auto p = thrust::make_pair(1, 2); thrust::swap(p.first, p.second); r = p.first": 2,
    "thrust::make_transform_iterator(thrust::make_counting_iterator(5), twice())[2]": 14,
    "auto d = thrust::device_pointer_cast(s); r = d[0] + thrust::raw_pointer_cast(d)[1]": 2,
    "thrust::exclusive_scan(thrust::seq, s, s + 3, out); r = out[0] + 10 * out[1] + 100 * out[2]": 250,
    "thrust::fill(thrust::device, out, out + 2, 42); r = out[0] + out[1]": 84,
    "thrust::sort_by_key(thrust::seq, k, k + 3, v); r = v[0] + 10 * v[1] + 100 * v[2]": 21,
    "thrust::sort(thrust::seq, s, s + 5); r = s[0] + 10 * s[1] + 100 * s[4]": 917,
    "thrust::sort(thrust::seq, s, s + 5, thrust::greater<int>()); r = s[0] + 10 * s[4]": -21,
}  # fmt: skip


def test_atomic_objects_barriers_pipelines_and_thrust_in_a_thread(device, queue):
    x = np.arange(256, dtype="f4")
    thrust = {call: lambda x, result=result: result for call, result in THRUST.items()}
    tables = [Calls(ATOMICS, "f4", {"x": x}, HEAD, BEGIN, 64), Calls(thrust, "i4", {"x": x}, THRUST_HEAD, THRUST_BEGIN)]
    assert device_data(call_differences(device, queue, tables)) == []


# Cooperative groups that only clang's headers have: clusters of a block, copies by a group, what one thread does for all


RANK, BLOCK = np.arange(128) % 64, np.arange(128) // 64
FIRST = np.arange(128) // 8 * 8
GROUPS_HEAD = "#include <cuda/atomic>\nnamespace cg = cooperative_groups;"
GROUPS_BEGIN = """
    __shared__ int there[64]; __shared__ double doubles[64]; __shared__ int of_tiles[64]; __shared__ int sums[3];
    auto block = cg::this_thread_block(); auto grid = cg::this_grid(); auto cluster = cg::this_cluster();
    auto tile = cg::tiled_partition<8>(block); const int* mine = x_ + 64 * blockIdx.x;
    using ref = cuda::atomic_ref<int, cuda::thread_scope_device>;
    if (rank == 0) sums[0] = 0, sums[1] = 1000000, sums[2] = -1; __syncthreads();"""
OF_GROUPS = {
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


def test_groups(device, queue):
    random = np.random.default_rng(3)
    given = {"x": random.integers(0, 1000, 128, dtype="i4"), "d": random.random(128)}
    assert (
        device_data(call_differences(device, queue, [Calls(OF_GROUPS, "i4", given, GROUPS_HEAD, GROUPS_BEGIN, 64)]))
        == []
    )
