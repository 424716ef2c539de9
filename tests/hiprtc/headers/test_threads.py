"""Atomic functions, warps, cooperative groups and votes: what threads do together, the same as on the host."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import case, kernel_differences

pytestmark = pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles", "atomics on 64 bits")

RNG = np.random.default_rng(1)
TYPES = {"int": "i4", "unsigned": "u4", "long long": "i8", "unsigned long long": "u8", "unsigned long": "u8",
         "float": "f4", "double": "f8"}  # fmt: skip
# The sums that additions found before must be all different: `seen` counts them.
ARITHMETIC = """
    template <class T> __global__ void k(T* p, int* seen) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        T v = i;
        atomicAdd(p, v); atomicSub(p + 1, v); atomicMin(p + 2, v); atomicMax(p + 3, v);
        atomicExch(p + 4, v); atomicExch(p + 4, (T)5);
        if (atomicCAS(p + 5, (T)0, (T)7) == 0) atomicAdd(p + 6, 1);
        atomicAdd(seen + (int)atomicAdd(p + 7, (T)1), 1);
    }"""
SHUFFLES = """
    struct Pair { double a; int b; };
    template <class T> __global__ void k(const T* x, T* out, int width) {
        int i = threadIdx.x; T v = x[i];
        out[i] = __shfl(v, 3, width); out[32 + i] = __shfl_up(v, 2, width);
        out[64 + i] = __shfl_down(v, 2, width); out[96 + i] = __shfl_xor(v, 5, width);
        out[128 + i] = __shfl_sync(0xffffffff, v, i + 1); out[160 + i] = __shfl_xor_sync(~0ull, v, 16);
        Pair p{(double)i, i * 2}; p = __shfl(p, 7); if (p.a != 7 || p.b != 14) out[i] = 99;
    }"""
SHUFFLED = {"int": "i4", "float": "f4", "double": "f8", "unsigned long long": "u8", "short": "i2",
            "unsigned char": "u1"}  # fmt: skip
LANES = """
    __global__ void k(int* out, int* sums) {
        int rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        out[rank] = __lane_id(); int v = rank;
        for (int d = 1; d < 16; d *= 2) v += __shfl_xor(v, d);
        sums[rank] = v;
    }"""


def zeros(count, dtype="i4"):
    return np.zeros(count, dtype)


def atomics(dtype, count):
    start = [0, count**2, 10**6, 0, 10**6, 0, 0, 0]
    return np.array(start, "i8").astype(dtype), zeros(count)


CASES = {
    **{f"atomic functions of {name}{scope}": case(
        ARITHMETIC.replace("(p", f"{scope}(p"), blocks, 128, *atomics(dtype, 128 * blocks), kernel=f"k<{name}>")
       for scope, blocks, names in (("", 16, TYPES), ("_system", 16, ("int", "double")), ("_block", 1, ("int", "double")))
       for name in names for dtype in (TYPES[name],)},
    "logic and wrapping": case("""
        __global__ void k(unsigned* p, unsigned long long* q, int* n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            atomicOr(p, 1u << (i & 31)); atomicAnd(p + 1, ~(1u << (i & 15))); atomicXor(p + 2, i);
            atomicInc(p + 3, 9); atomicDec(p + 4, 9); atomicOr(q, 1ull << (i & 63)); atomicXor(q + 1, 1ull << 40);
            atomicAnd(n, ~i);
            atomicInc_block(p + 5, 0); atomicAdd(n + 1, 2.0);
        }""", 16, 128, np.array([0, 0xFFFFFFFF, 0, 3, 3, 5], "u4"), zeros(2, "u8"), np.array([-1, 0], "i4")),
    "shared memory": case("""
        __global__ void k(const int* x, int* out, double* sum) {
            __shared__ int bins[8]; __shared__ double total; __shared__ float f;
            if (threadIdx.x < 8) bins[threadIdx.x] = 0;
            if (threadIdx.x == 0) { total = 0; f = 0; }
            __syncthreads();
            atomicAdd(&bins[x[threadIdx.x]], 1); atomicAdd(&total, 0.5); atomicAdd_block(&f, 0.25f);
            __syncthreads();
            if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
            if (threadIdx.x == 0) { sum[0] = total; sum[1] = f; }
        }""", 1, 128, RNG.integers(0, 8, 128, dtype="i4"), zeros(8), zeros(2, "f8")),
    "halves, short integers and an own overload": case("""
        namespace old { __device__ double atomicAdd(double* address, double value) {  // as before GPUs had one
            auto place = (unsigned long long*)address;
            unsigned long long old = *place, assumed;
            do {
                assumed = old;
                old = atomicCAS(place, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
            } while (assumed != old);
            return __longlong_as_double(old) ;
        } }
        __global__ void k(__half* h, double* d, unsigned short* s) {
            atomicAdd(h + 1, __half(1)); old::atomicAdd(d, 1.0);
            atomicCAS(s + (threadIdx.x & 1), (unsigned short)0, (unsigned short)(threadIdx.x & 1 ? 9 : 8));
        }""", 4, 128, np.array([5, 0, 6, 7], "f2"), zeros(1, "f8"), zeros(2, "u2")),
    "volatile memory and vectors": case("""
        __global__ void k(volatile unsigned* u, volatile float* f, float4* v, float2* w, int* lock) {
            atomicAdd(u, 1u); atomicMax(u + 1, threadIdx.x); atomicAdd(f, 0.5f); atomicExch(u + 2, 9u);
            atomicAdd(v, make_float4(1, 2, 3, 4)); atomicAdd(w, make_float2(1, -1));
            if (atomicCAS((volatile int*)lock, 0, 5) == 0) lock[1] = 6;
            unsafeAtomicAdd(lock + 2, (int)threadIdx.x);
        }""", 2, 64, zeros(3, "u4"), zeros(1, "f4"), zeros(4, "f4"), zeros(2, "f4"), zeros(3)),
    **{f"shuffles of {name} by {width}": case(
        SHUFFLES, 1, 32, (np.arange(32) + 40).astype(dtype), zeros(6 * 32, dtype), width, kernel=f"k<{name}>")
       for name, dtype in SHUFFLED.items() for width in (32, 16, 8)},
    "votes": case("""
        __global__ void k(const int* x, unsigned long long* out, int* all) {
            int i = threadIdx.x, lane = i % warpSize; unsigned long long* o = out + i * 8;
            o[0] = __ballot(x[i] > 2); o[1] = __any(x[i] > 2) + 2 * __all(x[i] > 2) + 4 * __all(x[i] >= 0);
            o[2] = __match_any(x[i]); o[4] = __lane_id() == lane;
            o[5] = __activemask(); __syncwarp(); o[6] = __match_all_sync(~0ull, x[i], all + i);
            o[7] = __reduce_add_sync(0xffffffffu, (unsigned)x[i]);
            if (lane < 8) o[3] = __ballot_sync(0xffull, x[i] > 2);
        }""", 1, 64, np.concatenate([RNG.integers(0, 5, 32, dtype="i4"), np.full(32, 3, "i4")]), zeros(512, "u8"), zeros(64)),
    "votes among some threads": case("""
        __global__ void k(unsigned long long* out, int n) {
            int i = threadIdx.x;
            if (i % 3 == 0) out[i] = __activemask();
            else if (i < n) { auto g = cooperative_groups::coalesced_threads(); out[i] = g.size() * 100 + g.thread_rank(); }
        }""", 1, 32, zeros(32, "u8"), 20),
    "votes of a block": case("""
        __global__ void k(const int* x, int* out) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            out[i] = __syncthreads_count(x[i]) + 1000 * (__syncthreads_or(x[i]) != 0) + 2000 * (__syncthreads_and(x[i]) != 0);
        }""", 3, 64, np.array([[0] * 64, [2] * 64, [0, 1] * 32], "i4"), zeros(192)),
    **{f"lanes of a block {block}": case(LANES, 1, block, zeros(np.prod(block)), zeros(np.prod(block)))
       for block in ((64, 1, 1), (48, 1, 1), (32, 3, 1), (64, 2, 2), (8, 8, 1))},
    "groups": case("""
        namespace cg = cooperative_groups;
        template <class G> __device__ int sum(const G& g, int v) {
            for (int d = g.size() / 2; d > 0; d /= 2) v += g.shfl_down(v, d);
            return g.shfl(v, 0);
        }
        __device__ int whole(cg::thread_group g) { return g.size() * 1000 + g.thread_rank(); }
        __global__ void k(const int* x, int* out) {
            cg::thread_block block = cg::this_thread_block();
            auto tile = cg::tiled_partition<8>(block);
            cg::thread_block_tile<4> four = cg::tiled_partition<4>(tile);
            int i = block.thread_rank(); int* o = out + (i + 64 * blockIdx.x) * 12;
            o[0] = sum(tile, x[i]); o[1] = tile.thread_rank() + 100 * tile.meta_group_rank() + 10000 * tile.meta_group_size();
            o[2] = cg::reduce(four, x[i], cg::plus<int>()); o[3] = cg::reduce(tile, x[i], cg::greater<int>());
            o[4] = cg::inclusive_scan(tile, x[i]); o[5] = cg::exclusive_scan(tile, x[i], cg::plus<int>());
            o[6] = tile.ballot(x[i] & 1); o[7] = tile.any(x[i] == 3) + 2 * tile.all(x[i] >= 0);
            o[8] = whole(block); o[9] = whole(tile); o[10] = block.size() + block.group_index().x + block.group_dim().x;
            o[11] = cg::this_grid().thread_rank() + whole(cg::this_grid());
            cg::sync(block); tile.sync();
        }""", 2, 64, RNG.integers(0, 50, 64, dtype="i4"), zeros(128 * 12)),
    "groups of groups": case("""
        namespace cg = cooperative_groups;
        __global__ void k(int* out) {
            int i = threadIdx.x;
            auto warp = cg::tiled_partition<32>(cg::this_thread_block());
            auto tile = cg::tiled_partition<8>(warp);
            auto part = cg::binary_partition(tile, i % 3 == 0);
            cg::thread_group any = part;
            out[i] = tile.meta_group_rank(); out[64 + i] = tile.meta_group_size();
            out[128 + i] = part.size(); out[192 + i] = part.shfl(i, 0); out[256 + i] = any.thread_rank();
            out[320 + i] = cg::labeled_partition(tile, i % 2).size();
        }""", 1, 64, zeros(384)),
}  # fmt: skip


def test_the_same_as_on_the_host(device, queue):
    assert device_data(kernel_differences(device, queue, CASES)) == []


LOOP = """
    extern "C" __global__ void loop(const unsigned* in, unsigned* out, unsigned n) {
        unsigned tid = threadIdx.x, c = in[blockIdx.x], d = 1;
        for (unsigned i = 0; i < gridDim.x; i++)
            if ((blockIdx.x ^ n) & 1) {
                if ((i & 3) == 0) { c = 8; d += i; } else if ((i & 3) == 1) d += i;
            }
        out[tid + 32 * blockIdx.x] = c + d + __shfl_xor(tid, 3); }
    extern "C" __global__ void other(unsigned* out) { out[threadIdx.x] = __shfl_xor(threadIdx.x, 3); }"""


def test_a_kernel_that_gets_no_warps_is_refused(device, queue):
    """Intel's compiler for CPUs (2026.2) makes no vectors of this loop, and each thread would be a warp of its own."""
    for _ in range(2):  # built, and from the cache
        with device.program(LOOP) as program:
            if "cpu" in device.info.kind:
                with pytest.raises(fb.NotSupportedError, match=r"kernel 'loop': it has warps.*-O3"):
                    program["loop"]
            out = device.zeros(32, "u4")
            queue.launch(program["other"], 1, 32, out)
            assert device_data(out.get(queue=queue).tolist()) == (np.arange(32) ^ 3).tolist()


@pytest.mark.parametrize("option", ["-O0", "-O3"])
@pytest.mark.long
def test_warps_with_options(device, queue, option):
    given = np.array([5, 6], "u4"), zeros(64, "u4"), 2
    assert (
        device_data(kernel_differences(device, queue, {"loop": case(LOOP, 2, 32, *given, kernel="loop")}, (option,)))
        == []
    )


def test_whether_lanes_agree(device, queue):
    source = """extern "C" __global__ void agree(unsigned long long* out, int* same) {
        int i = threadIdx.x;
        if (i % 3) out[i] = cooperative_groups::coalesced_threads().match_all(i < same[32] ? 7 : 8, same[i]);
    }"""
    for different, expected in ((32, (1 << 21) - 1), (9, 0)):
        out, same = device.zeros(32, "u8"), device.array(np.append(np.full(32, -1), different).astype("i4"))
        with device.program(source) as program:
            queue.launch(program["agree"], 1, 32, out, same)
            assert device_data(out.get(queue=queue)[1::3].tolist()) == [expected] * 11
            assert device_data(same.get(queue=queue)[2:32:3].tolist()) == [int(expected != 0)] * 10
