// HIP's language on the host, for the reference of tests.hiprtc.results: written for it alone, from HIP's documents.
//
// The threads of a block are fibers (`threads_on_host.hpp`) that switch at barriers and where a warp exchanges values;
// blocks run one after another.
// A group of a warp's threads that wait at one place of the program exchange with each other, as on a GPU that diverged.
#pragma once

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define __host__
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __shared__ static __attribute__((section("hip_shared")))
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __inline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define __HIP__ 1
#define __HIPCC__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define __HIP_PLATFORM_AMD__ 1

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long ulong;
typedef unsigned char uchar;

#define EACH(X) X(char, char) X(unsigned char, uchar) X(short, short) X(unsigned short, ushort) X(int, int) \
    X(unsigned, uint) X(long, long) X(unsigned long, ulong) X(long long, longlong)                       \
    X(unsigned long long, ulonglong) X(float, float) X(double, double)
#define VECTORS(T, n)                                                                           \
    struct n##1 { using of_vector = T; T x; };                                                    \
    struct alignas(2 * sizeof(T)) n##2 { using of_vector = T; T x, y; };                          \
    struct n##3 { using of_vector = T; T x, y, z; };                                              \
    struct alignas(4 * sizeof(T)) n##4 { using of_vector = T; T x, y, z, w; };                    \
    constexpr n##1 make_##n##1(T x) { return {x}; }                                             \
    constexpr n##2 make_##n##2(T x, T y) { return {x, y}; }                                     \
    constexpr n##3 make_##n##3(T x, T y, T z) { return {x, y, z}; }                             \
    constexpr n##4 make_##n##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EACH(VECTORS)
#undef VECTORS
#define OPERATOR(op)                                                                            \
    template <class V, class T = typename V::of_vector>                                           \
    constexpr V& operator op##=(V& a, const V& b) {                                             \
        for (size_t i = 0; i < sizeof(V) / sizeof(T); i++) (&a.x)[i] op##= (&b.x)[i];           \
        return a;                                                                               \
    }                                                                                           \
    template <class V, class T = typename V::of_vector>                                           \
    constexpr V& operator op##=(V& a, std::type_identity_t<T> b) {                              \
        for (size_t i = 0; i < sizeof(V) / sizeof(T); i++) (&a.x)[i] op##= b;                   \
        return a;                                                                               \
    }                                                                                           \
    template <class V, class T = typename V::of_vector>                                           \
    constexpr V operator op(V a, const V& b) { return a op##= b; }                              \
    template <class V, class T = typename V::of_vector>                                           \
    constexpr V operator op(V a, std::type_identity_t<T> b) { return a op##= b; }               \
    template <class V, class T = typename V::of_vector>                                           \
    constexpr V operator op(std::type_identity_t<T> b, const V& a) {                            \
        V both = a;                                                                             \
        for (size_t i = 0; i < sizeof(V) / sizeof(T); i++) (&both.x)[i] = b;                    \
        return both op##= a;                                                                    \
    }
OPERATOR(+) OPERATOR(-) OPERATOR(*) OPERATOR(/) OPERATOR(%) OPERATOR(|) OPERATOR(^) OPERATOR(&) OPERATOR(<<)
#undef OPERATOR
template <class V, class T = typename V::of_vector> constexpr V operator-(V a) { return a *= T(-1); }
template <class V, class T = typename V::of_vector> constexpr V operator~(V a) { return a ^= T(-1); }
template <class V, class T = typename V::of_vector> constexpr V operator++(V& a, int) { V old = a; a += T(1); return old; }
template <class V, class = typename V::of_vector> bool operator==(const V& a, const V& b) { return !memcmp(&a, &b, sizeof a); }

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
constexpr int warpSize = 32;

#include "threads_on_host.hpp"

// A place of the program, for the threads that are there together. No compiler may make two of it, or one of two.
namespace host {
__attribute__((noinline, nomerge, convergent)) inline const void* here() {
    asm volatile("" ::: "memory");
    return __builtin_return_address(0);
}
}  // namespace host
#define HERE host::here()
#define INLINED inline __attribute__((always_inline, nomerge))

// -- barriers and warps

INLINED void __syncthreads() { host::barrier_at(HERE); }
INLINED void __threadfence() {}
INLINED void __threadfence_block() {}
INLINED void __threadfence_system() {}
namespace host {
inline std::vector<std::pair<unsigned, int>> predicates;  // by thread: which barrier it was told at, and what
inline int count(int predicate) {
    barrier_at(HERE);
    unsigned now_told = barriers;
    predicates.resize(fibers.size());
    predicates[now - fibers.data()] = {now_told, predicate};
    barrier_at(HERE);
    int n = 0;
    for (auto [told, each] : predicates) n += told == now_told && each;
    return n;
}
}  // namespace host
INLINED int __syncthreads_count(int p) { return host::count(p != 0); }
INLINED int __syncthreads_or(int p) { return host::count(p != 0) != 0; }
INLINED int __syncthreads_and(int p) { return host::count(p == 0) == 0; }

inline unsigned __lane_id() { return host::lane(); }
#define SHUFFLE(name, A, SOURCE)                                                              \
    template <class T>                                                                        \
    INLINED T name(T value, A by, int width = 32) {                                           \
        const host::Exchange& got = host::exchange(HERE, &value, sizeof(T));                  \
        int lane = (int)host::lane(), base = lane / width * width, source = (SOURCE);         \
        return host::of_lane<T>(got, source);                                                 \
    }                                                                                         \
    template <class T>                                                                        \
    INLINED T name##_sync(unsigned long long, T value, A by, int width = 32) {                \
        return name(value, by, width);                                                        \
    }
SHUFFLE(__shfl, int, base + ((by % width) + width) % width)
SHUFFLE(__shfl_xor, int, (lane ^ by) / width <= lane / width ? lane ^ by : lane)
SHUFFLE(__shfl_down, unsigned, (long)lane + by < base + width ? lane + (int)by : lane)
SHUFFLE(__shfl_up, unsigned, (long)lane - by >= base ? lane - (int)by : lane)
INLINED unsigned long long __ballot(int p) { p = p != 0; return host::votes(host::exchange(HERE, &p, 4)); }
INLINED unsigned long long __activemask() { int p = 1; return host::exchange(HERE, &p, 4).active; }
INLINED int __any(int p) { return __ballot(p) != 0; }
INLINED int __all(int p) { return __ballot(!p) == 0; }
template <class T> INLINED unsigned long long __match_any(T value) {
    const host::Exchange& got = host::exchange(HERE, &value, sizeof(T));
    unsigned result = 0;
    for (int i = 0; i < 32; i++) result |= unsigned(got.active >> i & 1 && host::of_lane<T>(got, i) == value) << i;
    return result;
}
template <class T> INLINED unsigned long long __match_all(T value, int* same) {
    const host::Exchange& got = host::exchange(HERE, &value, sizeof(T));
    *same = 1;
    for (int i = 0; i < 32; i++) *same &= !(got.active >> i & 1) || host::of_lane<T>(got, i) == value;
    return *same ? got.active : 0;
}
INLINED unsigned long long __ballot_sync(unsigned long long, int p) { return __ballot(p); }
INLINED int __any_sync(unsigned long long, int p) { return __any(p); }
INLINED int __all_sync(unsigned long long, int p) { return __all(p); }
template <class T> INLINED unsigned long long __match_any_sync(unsigned long long, T value) { return __match_any(value); }
template <class T> INLINED unsigned long long __match_all_sync(unsigned long long, T value, int* same) { return __match_all(value, same); }
INLINED void __syncwarp(unsigned long long = ~0ull) { __activemask(); }
inline unsigned long long __lanemask_lt() { return (1ull << host::lane()) - 1; }
inline unsigned long long __lanemask_ge() { return 0xffffffffull & ~__lanemask_lt(); }

// -- cooperative groups

namespace cooperative_groups {
template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
struct thread_block {
    static unsigned thread_rank() { return host::now - host::fibers.data(); }
    static unsigned size() { return host::fibers.size(); }
    static unsigned num_threads() { return size(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static INLINED void sync() { __syncthreads(); }
};
struct grid_group {
    static unsigned long long size() { return 1ull * gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z; }
    static unsigned thread_rank() { return (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)) * thread_block::size() + thread_block::thread_rank(); }
};
// The lanes of a warp whose bits are set, by rank.
struct lanes {
    unsigned mask, meta_rank = 0, meta_size = 0;
    static unsigned bits(unsigned x) { return __builtin_popcount(x); }
    unsigned size() const { return bits(mask); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const { return bits(mask & ((1u << host::lane()) - 1)); }
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
    unsigned lane_of(unsigned rank) const {
        for (unsigned i = 0; i < 32; i++) if (mask >> i & 1 && rank-- == 0) return i;
        return host::lane();
    }
    INLINED void sync() const { __syncwarp(); }
    template <class T> INLINED T of(T value, unsigned rank) const {
        const host::Exchange& got = host::exchange(HERE, &value, sizeof(T));
        return host::of_lane<T>(got, lane_of(rank));
    }
    template <class T> INLINED T shfl(T value, unsigned rank) const { return of(value, rank % size()); }
    template <class T> INLINED T shfl_down(T value, unsigned by) const { return of(value, thread_rank() + by); }
    template <class T> INLINED T shfl_up(T value, unsigned by) const { return of(value, thread_rank() - by); }
    template <class T> INLINED T shfl_xor(T value, unsigned by) const { return of(value, thread_rank() ^ by); }
    INLINED unsigned long long ballot(int p) const {
        unsigned all = __ballot(p), result = 0;
        for (unsigned rank = 0; rank < size(); rank++) result |= (all >> lane_of(rank) & 1) << rank;
        return result;
    }
    INLINED int any(int p) const { return ballot(p) != 0; }
    INLINED int all(int p) const { return ballot(!p) == 0; }
    template <class T, class F> INLINED T folded(T value, F function, unsigned first, unsigned count) const {
        const host::Exchange& got = host::exchange(HERE, &value, sizeof(T));
        T result = count ? host::of_lane<T>(got, lane_of(first)) : T();
        for (unsigned i = 1; i < count; i++) result = function(result, host::of_lane<T>(got, lane_of(first + i)));
        return result;
    }
};
using coalesced_group = lanes;
template <unsigned N, class Parent = void>
struct thread_block_tile : lanes {
    thread_block_tile(lanes of) : lanes(of) {}
    static constexpr unsigned size() { return N; }
    static constexpr unsigned num_threads() { return N; }
};
struct thread_group {
    unsigned count, rank;
    template <class G> thread_group(const G& group) : count(group.size()), rank(group.thread_rank()) {}
    unsigned size() const { return count; }
    unsigned thread_rank() const { return rank; }
};
inline thread_block this_thread_block() { return {}; }
inline grid_group this_grid() { return {}; }
INLINED coalesced_group coalesced_threads() { return {(unsigned)__activemask()}; }
template <unsigned N, class Parent>
thread_block_tile<N, Parent> tiled_partition(const Parent& parent) {
    return lanes{~0u >> (32 - N) << host::lane() / N * N, parent.thread_rank() / N, (parent.size() + N - 1) / N};
}
template <class G, class T> INLINED coalesced_group labeled_partition(const G& group, T label) {
    return {group.mask & (unsigned)__match_any(label)};
}
template <class G> INLINED coalesced_group binary_partition(const G& group, bool side) { return labeled_partition(group, side); }
template <class Group> INLINED void sync(const Group& group) { group.sync(); }
template <class G, class T, class F> INLINED T reduce(const G& group, T value, F function) {
    return group.folded(value, function, 0, group.size());
}
template <class G, class T, class F = plus<T>> INLINED T inclusive_scan(const G& group, T value, F function = {}) {
    return group.folded(value, function, 0, group.thread_rank() + 1);
}
template <class G, class T, class F = plus<T>> INLINED T exclusive_scan(const G& group, T value, F function = {}) {
    return group.folded(value, function, 0, group.thread_rank());
}
}  // namespace cooperative_groups
template <class T> INLINED T __reduce_add_sync(unsigned long long, T value) {
    return cooperative_groups::reduce(cooperative_groups::lanes{(unsigned)__activemask()}, value, cooperative_groups::plus<T>());
}

// -- atomic functions: fibers switch nowhere in them

#define ATOMIC1(name, suffix, EXPRESSION)                                 \
    template <class V, class U, class T = std::remove_volatile_t<V>>      \
    inline T name##suffix(V* place, U operand) {                          \
        host::poll();                                                     \
        T before = *place, value = (T)operand;                            \
        *place = (T)(EXPRESSION);                                         \
        return before;                                                    \
    }
#define ATOMIC(name, EXPRESSION) \
    ATOMIC1(name, , EXPRESSION) ATOMIC1(name, _block, EXPRESSION) ATOMIC1(name, _system, EXPRESSION)
ATOMIC(atomicAdd, before + value)
ATOMIC(atomicSub, before - value)
ATOMIC(atomicMin, std::min(before, value))
ATOMIC(atomicMax, std::max(before, value))
ATOMIC(atomicAnd, before & value)
ATOMIC(atomicOr, before | value)
ATOMIC(atomicXor, before ^ value)
ATOMIC(atomicExch, value)
ATOMIC(atomicInc, before >= value ? 0 : before + 1)
ATOMIC(atomicDec, before == 0 || before > value ? value : before - 1)
ATOMIC(unsafeAtomicAdd, before + value)
#define CAS(name)                                                                     \
    template <class V, class U, class W, class T = std::remove_volatile_t<V>>         \
    inline T name(V* place, U compare, W value) {                                     \
        host::poll();                                                                 \
        T before = *place, wanted = (T)compare;                                       \
        if (memcmp(&before, &wanted, sizeof(T)) == 0)                                 \
            *place = (T)value;                                                        \
        return before;                                                                \
    }
CAS(atomicCAS) CAS(atomicCAS_block) CAS(atomicCAS_system)

// -- mathematics that C does not have, and intrinsics

#define FAST(name) \
    inline float __##name##f(float x) { return name##f(x); }
FAST(sin) FAST(cos) FAST(tan) FAST(exp) FAST(exp10) FAST(log) FAST(log2) FAST(log10) FAST(tanh)
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float fdividef(float x, float y) { return x / y; }
inline void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }
inline float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
inline double rsqrt(double x) { return (double)(1 / sqrtl((long double)x)); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float rcbrtf(float x) { return (float)(1 / cbrt((double)x)); }
inline float sinpif(float x) { return (float)sin(M_PI * fmod((double)x, 2.0)); }
inline float cospif(float x) { return (float)cos(M_PI * fmod((double)x, 2.0)); }
inline double sinpi(double x) { return sin(M_PI * fmod(x, 2.0)); }
inline double cospi(double x) { return cos(M_PI * fmod(x, 2.0)); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
inline float normcdff(float x) { return (float)(0.5 * erfc(-(double)x * M_SQRT1_2)); }
inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
#define ROUNDED(name, T, A, EXPRESSION) inline T name A { _Pragma("clang fp contract(off)") return EXPRESSION; }
ROUNDED(__fadd_rn, float, (float x, float y), x + y)
ROUNDED(__fsub_rn, float, (float x, float y), x - y)
ROUNDED(__fmul_rn, float, (float x, float y), x * y)
ROUNDED(__fdiv_rn, float, (float x, float y), x / y)
ROUNDED(__dadd_rn, double, (double x, double y), x + y)
ROUNDED(__dmul_rn, double, (double x, double y), x * y)
ROUNDED(__ddiv_rn, double, (double x, double y), x / y)
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

template <class T, class U, class C = std::common_type_t<T, U>,
          std::enable_if_t<std::is_arithmetic_v<T> && std::is_arithmetic_v<U>, int> = 0>
constexpr C min(T x, U y) {
    if constexpr (std::is_floating_point_v<C>) return std::fmin((C)x, (C)y); else return (C)y < (C)x ? (C)y : (C)x;
}
template <class T, class U, class C = std::common_type_t<T, U>,
          std::enable_if_t<std::is_arithmetic_v<T> && std::is_arithmetic_v<U>, int> = 0>
constexpr C max(T x, U y) {
    if constexpr (std::is_floating_point_v<C>) return std::fmax((C)x, (C)y); else return (C)x < (C)y ? (C)y : (C)x;
}
inline unsigned umin(unsigned x, unsigned y) { return x < y ? x : y; }
inline unsigned umax(unsigned x, unsigned y) { return x < y ? y : x; }
using std::isfinite, std::isinf, std::isnan, std::signbit;
using std::abs;

template <class To, class From>
inline To host_bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
inline int __float_as_int(float x) { return host_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return host_bits<unsigned>(x); }
inline float __int_as_float(int x) { return host_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return host_bits<float>(x); }
inline long long __double_as_longlong(double x) { return host_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return host_bits<double>(x); }
inline int __double2hiint(double x) { return (int)(host_bits<long long>(x) >> 32); }
inline int __double2loint(double x) { return (int)host_bits<long long>(x); }
inline double __hiloint2double(int h, int l) { return host_bits<double>((unsigned long long)(unsigned)h << 32 | (unsigned)l); }
inline int __float2int_rn(float x) { return (int)lrintf(x); }
inline int __float2int_rz(float x) { return (int)x; }
inline int __float2int_rd(float x) { return (int)floorf(x); }
inline int __float2int_ru(float x) { return (int)ceilf(x); }
inline unsigned __float2uint_rn(float x) { return (unsigned)lrintf(x); }
inline unsigned __float2uint_rz(float x) { return (unsigned)x; }
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }
inline int __double2int_rn(double x) { return (int)lrint(x); }
inline int __double2int_rz(double x) { return (int)x; }
inline float __double2float_rn(double x) { return (float)x; }

inline int __popc(unsigned x) { int n = 0; for (; x; x >>= 1) n += x & 1; return n; }
inline int __popcll(unsigned long long x) { return __popc((unsigned)x) + __popc((unsigned)(x >> 32)); }
inline int __clz(int v) { unsigned x = (unsigned)v; int n = 32; for (; x; x >>= 1) n--; return n; }
inline int __clzll(long long v) { auto x = (unsigned long long)v; int n = 64; for (; x; x >>= 1) n--; return n; }
inline int __ffs(int v) { for (int i = 0; i < 32; i++) if ((unsigned)v >> i & 1) return i + 1; return 0; }
inline int __ffsll(long long v) { for (int i = 0; i < 64; i++) if ((unsigned long long)v >> i & 1) return i + 1; return 0; }
inline unsigned __brev(unsigned x) { unsigned r = 0; for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i); return r; }
inline int __mul24(int x, int y) { return (int)((unsigned)((int)((unsigned)x << 8) >> 8) * (unsigned)((int)((unsigned)y << 8) >> 8)); }
inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
inline unsigned __sad(int x, int y, unsigned z) { return z + (unsigned)llabs((long long)x - y); }
inline unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (unsigned)llabs((long long)x - y); }

// -- complex numbers

using hipFloatComplex = float2;
inline float2 make_hipFloatComplex(float x, float y) { return {x, y}; }
inline float2 hipCaddf(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
inline float2 hipCsubf(float2 a, float2 b) { return {a.x - b.x, a.y - b.y}; }
inline float2 hipCmulf(float2 a, float2 b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }

// -- halves

using __half = _Float16;
using half = _Float16;
inline float __half2float(half x) { return (float)x; }
inline half __float2half(float x) { return (half)x; }

template <class T> inline T __ldg(const T* p) { return *p; }
template <class T> inline T __ldcs(const T* p) { return *p; }
template <class T> inline T __ldcg(const T* p) { return *p; }
template <class T> inline T __ldca(const T* p) { return *p; }
template <class T, class U> inline void __stcs(T* p, U value) { *p = value; }
template <class T, class U> inline void __stcg(T* p, U value) { *p = value; }
