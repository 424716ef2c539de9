// Cooperative groups: the block, tiles of a warp, the threads that are together at a place.
//
// A grid's barrier is for cooperative launches, whose blocks all run at once.
#pragma once

#include <hip/hip_runtime.h>

namespace __forebay {

// How often all blocks of a launch have met, and how many have come since; only in programs that use it.
struct grid_meetings {
    unsigned met, came;
};
inline __device__ grid_meetings meetings;

// Polls: some seconds, if the device runs the blocks of the launch one after another.
inline constexpr unsigned long long grid_patience = 1ull << 34;

__DEVICE__ void wait_for_blocks(unsigned blocks) {
    __threadfence();
    __syncthreads();
    if (blocks > 1 && threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        unsigned met = *(volatile unsigned*)&meetings.met;
        if (atomicAdd(&meetings.came, 1u) == blocks - 1) {
            *(volatile unsigned*)&meetings.came = 0;
            __threadfence();
            atomicAdd(&meetings.met, 1u);
        } else {
            unsigned long long polls = 0;
            while (*(volatile unsigned*)&meetings.met == met && polls < grid_patience &&
                   !*(volatile unsigned*)&__forebay_assertion_failed)
                polls++;
            if (polls == grid_patience)
                __FOREBAY_ASSERT(false, "the blocks of the grid run at the same time: use a cooperative launch");
        }
        __threadfence();
    }
    __syncthreads();
}

}  // namespace __forebay

namespace cooperative_groups {

class grid_group {
  public:
    __DEVICE__ unsigned long long size() const {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z;
    }
    __DEVICE__ unsigned long long num_threads() const { return size(); }
    __DEVICE__ unsigned long long block_rank() const {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    __DEVICE__ unsigned long long num_blocks() const {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
    }
    __DEVICE__ unsigned long long thread_rank() const {
        return block_rank() * (blockDim.x * blockDim.y * blockDim.z) + threadIdx.x +
               blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    __DEVICE__ dim3 group_dim() const { return gridDim; }
    __DEVICE__ dim3 dim_blocks() const { return gridDim; }
    __DEVICE__ unsigned grid_rank() const { return 0; }
    __DEVICE__ unsigned num_grids() const { return 1; }
    __DEVICE__ dim3 block_index() const { return blockIdx; }
    // A cluster is a block.
    __DEVICE__ unsigned long long cluster_rank() const { return block_rank(); }
    __DEVICE__ unsigned long long num_clusters() const { return num_blocks(); }
    __DEVICE__ dim3 dim_clusters() const { return gridDim; }
    __DEVICE__ dim3 cluster_index() const { return blockIdx; }
    __DEVICE__ bool is_valid() const { return true; }
    __DEVICE__ void sync() const { __forebay::wait_for_blocks((unsigned)num_blocks()); }
    struct arrival_token {};
    __DEVICE__ arrival_token barrier_arrive() const {
        sync();
        return {};
    }
    __DEVICE__ void barrier_wait(arrival_token&&) const {}
};
using multi_grid_group = grid_group;

class thread_block {
  public:
    static __DEVICE__ void sync() { __syncthreads(); }
    // In two steps: what the second waits for, the first has waited for already.
    struct arrival_token {};
    static __DEVICE__ arrival_token barrier_arrive() {
        __syncthreads();
        return {};
    }
    static __DEVICE__ void barrier_wait(arrival_token&&) {}
    static __DEVICE__ unsigned thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static __DEVICE__ unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static __DEVICE__ unsigned num_threads() { return size(); }
    static __DEVICE__ dim3 group_index() { return blockIdx; }
    static __DEVICE__ dim3 thread_index() { return threadIdx; }
    static __DEVICE__ dim3 group_dim() { return blockDim; }
    static __DEVICE__ dim3 dim_threads() { return blockDim; }
    static __DEVICE__ bool is_valid() { return true; }
};

// Of one block, whose shared memory is the cluster's.
class cluster_group : public thread_block {
  public:
    static __DEVICE__ unsigned block_rank() { return 0; }
    static __DEVICE__ unsigned num_blocks() { return 1; }
    static __DEVICE__ dim3 block_index() { return dim3(0, 0, 0); }
    static __DEVICE__ dim3 dim_blocks() { return dim3(1, 1, 1); }
    static __DEVICE__ void barrier_wait() {}
    static __DEVICE__ void barrier_wait(arrival_token&&) {}
    template <class T>
    static __DEVICE__ T* map_shared_rank(T* pointer, int) {
        return pointer;
    }
    static __DEVICE__ unsigned query_shared_rank(const void*) { return 0; }
};

// Threads of one warp: those of a mask of its lanes.
class coalesced_group {
  public:
    __DEVICE__ explicit coalesced_group(unsigned lanes) : lanes_(lanes) {}
    __DEVICE__ unsigned size() const { return __popc(lanes_); }
    __DEVICE__ unsigned num_threads() const { return size(); }
    __DEVICE__ unsigned thread_rank() const { return __popc(lanes_ & ((1u << __lane_id()) - 1)); }
    __DEVICE__ void sync() const { __syncwarp(); }
    __DEVICE__ bool is_valid() const { return true; }
    __DEVICE__ unsigned lanes() const { return lanes_; }
    __DEVICE__ unsigned meta_group_size() const { return 1; }
    __DEVICE__ unsigned meta_group_rank() const { return 0; }

    template <class T>
    __DEVICE__ T shfl(T value, int rank) const {
        return __forebay::from_lane(value, lane_of((unsigned)rank % size()));
    }
    template <class T>
    __DEVICE__ T shfl_down(T value, unsigned delta) const {
        unsigned rank = thread_rank() + delta;
        return __forebay::from_lane(value, rank < size() ? lane_of(rank) : __lane_id());
    }
    template <class T>
    __DEVICE__ T shfl_up(T value, unsigned delta) const {
        unsigned rank = thread_rank();
        return __forebay::from_lane(value, rank >= delta ? lane_of(rank - delta) : __lane_id());
    }
    template <class T>
    __DEVICE__ T shfl_xor(T value, unsigned mask) const {
        unsigned rank = thread_rank() ^ mask;
        return __forebay::from_lane(value, rank < size() ? lane_of(rank) : __lane_id());
    }
    __DEVICE__ unsigned long long ballot(int predicate) const {
        unsigned votes = (unsigned)__ballot(predicate) & lanes_, result = 0, rank = 0;
        for (unsigned left = lanes_; left; left &= left - 1)
            result |= (votes >> __builtin_ctzg(left, 0) & 1) << rank++;
        return result;
    }
    __DEVICE__ int any(int predicate) const { return ((unsigned)__ballot(predicate) & lanes_) != 0; }
    __DEVICE__ int all(int predicate) const { return ((unsigned)__ballot(!predicate) & lanes_) == 0; }
    template <class T>
    __DEVICE__ unsigned long long match_any(T value) const {
        unsigned long long same = 0;
        for (unsigned rank = 0; rank < size(); rank++) {
            T other = shfl(value, (int)rank);
            same |= (unsigned long long)(__builtin_memcmp(&other, &value, sizeof(T)) == 0) << rank;
        }
        return same;
    }
    template <class T>
    __DEVICE__ unsigned long long match_all(T value, int& is_same) const {
        is_same = all(match_any(value) == (1ull << size()) - 1);
        return is_same ? (1ull << size()) - 1 : 0;
    }

  protected:
    unsigned lanes_;

    // The lane of the thread with this rank.
    __DEVICE__ unsigned lane_of(unsigned rank) const {
        unsigned left = lanes_;
        while (rank-- > 0)
            left &= left - 1;
        return (unsigned)__builtin_ctzg(left, 0);
    }
};

// `Size` neighbours in a warp.
template <unsigned Size, class Parent = void>
class thread_block_tile {
    using within = std::conditional_t<std::is_void_v<Parent>, thread_block, Parent>;
    static_assert(Size > 0 && Size <= 32 && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

  public:
    thread_block_tile() = default;
    template <class Other>
    __DEVICE__ thread_block_tile(const thread_block_tile<Size, Other>&) {}

    static __DEVICE__ constexpr unsigned size() { return Size; }
    static __DEVICE__ constexpr unsigned num_threads() { return Size; }
    static __DEVICE__ unsigned thread_rank() { return __lane_id() & (Size - 1); }
    static __DEVICE__ unsigned meta_group_rank() { return within::thread_rank() / Size; }
    static __DEVICE__ unsigned meta_group_size() { return (within::size() + Size - 1) / Size; }
    static __DEVICE__ bool is_valid() { return true; }
    static __DEVICE__ unsigned lanes() { return (Size == 32 ? ~0u : (1u << (Size & 31)) - 1) << (__lane_id() & ~(Size - 1)); }
    static __DEVICE__ void sync() { __syncwarp(); }

    template <class T>
    __DEVICE__ T shfl(T value, int rank) const {
        return __shfl(value, rank, Size);
    }
    template <class T>
    __DEVICE__ T shfl_down(T value, unsigned delta) const {
        return __shfl_down(value, delta, Size);
    }
    template <class T>
    __DEVICE__ T shfl_up(T value, unsigned delta) const {
        return __shfl_up(value, delta, Size);
    }
    template <class T>
    __DEVICE__ T shfl_xor(T value, unsigned mask) const {
        return __shfl_xor(value, (int)mask, Size);
    }
    __DEVICE__ unsigned long long ballot(int predicate) const {
        unsigned all = Size == 32 ? ~0u : (1u << (Size & 31)) - 1;
        return (unsigned)__ballot(predicate) >> (__lane_id() & ~(Size - 1)) & all;
    }
    __DEVICE__ int any(int predicate) const { return ballot(predicate) != 0; }
    __DEVICE__ int all(int predicate) const { return ballot(!predicate) == 0; }
    template <class T>
    __DEVICE__ unsigned long long match_any(T value) const {
        unsigned all = Size == 32 ? ~0u : (1u << (Size & 31)) - 1;
        return (unsigned)__match_any_sync(~0ull, value) >> (__lane_id() & ~(Size - 1)) & all;
    }
    template <class T>
    __DEVICE__ unsigned long long match_all(T value, int& same) const {
        unsigned long long mask = match_any(value);
        same = mask == ballot(1);
        return same ? mask : 0;
    }
};

// Any of these, for functions that take whatever they are given.
class thread_group {
  public:
    __DEVICE__ thread_group(const thread_block&) : lanes_(0), size_(thread_block::size()) {}
    template <unsigned Size, class Parent>
    __DEVICE__ thread_group(const thread_block_tile<Size, Parent>&)
        : lanes_((Size == 32 ? ~0u : (1u << (Size & 31)) - 1) << (__lane_id() & ~(Size - 1))), size_(Size) {}
    __DEVICE__ thread_group(const coalesced_group& group) : lanes_(group.lanes()), size_(group.size()) {}
    __DEVICE__ thread_group(const grid_group& group) : lanes_(0), size_((unsigned)group.size()), is_grid_(true) {}
    __DEVICE__ thread_group(unsigned lanes, unsigned size) : lanes_(lanes), size_(size) {}

    __DEVICE__ unsigned size() const { return size_; }
    __DEVICE__ unsigned num_threads() const { return size_; }
    __DEVICE__ unsigned thread_rank() const {
        if (is_grid_)
            return (unsigned)grid_group().thread_rank();
        return lanes_ ? __popc(lanes_ & ((1u << __lane_id()) - 1)) : thread_block::thread_rank();
    }
    __DEVICE__ bool is_valid() const { return true; }
    __DEVICE__ void sync() const {
        if (is_grid_)
            grid_group().sync();
        else if (lanes_)
            __syncwarp();
        else
            __syncthreads();
    }
    template <class T>
    __DEVICE__ T shfl(T value, int rank) const {
        return coalesced_group(lanes_).shfl(value, rank);
    }
    template <class T>
    __DEVICE__ T shfl_down(T value, unsigned delta) const {
        return coalesced_group(lanes_).shfl_down(value, delta);
    }
    template <class T>
    __DEVICE__ T shfl_up(T value, unsigned delta) const {
        return coalesced_group(lanes_).shfl_up(value, delta);
    }
    template <class T>
    __DEVICE__ T shfl_xor(T value, unsigned mask) const {
        return coalesced_group(lanes_).shfl_xor(value, mask);
    }

  private:
    unsigned lanes_;  // 0: the whole block, or grid
    unsigned size_;
    bool is_grid_ = false;
};

// -- making groups

__DEVICE__ thread_block this_thread_block() { return {}; }
__DEVICE__ thread_block_tile<1> this_thread() { return {}; }
__DEVICE__ grid_group this_grid() { return {}; }
__DEVICE__ cluster_group this_cluster() { return {}; }
__DEVICE__ multi_grid_group this_multi_grid() { return {}; }
__DEVICE__ coalesced_group coalesced_threads() { return coalesced_group((unsigned)__ballot(1)); }

template <unsigned Size, class Parent>
__DEVICE__ thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    return {};
}
template <class Parent>
__DEVICE__ thread_group tiled_partition(const Parent&, unsigned size) {
    unsigned all = size >= 32 ? ~0u : (1u << size) - 1;
    return thread_group(all << (__lane_id() & ~(size - 1) & 31), size);
}
// Of the threads of a tile or of a coalesced group.
template <class Parent>
__DEVICE__ coalesced_group binary_partition(const Parent& parent, bool predicate) {
    unsigned votes = (unsigned)__ballot(predicate), here = (unsigned)__ballot(1);
    return coalesced_group((predicate ? votes : here & ~votes) & parent.lanes());
}
template <class Parent>
__DEVICE__ coalesced_group labeled_partition(const Parent& parent, int label) {
    return coalesced_group((unsigned)__match_any(label) & parent.lanes());
}

// -- functions of groups

template <class Group>
__DEVICE__ void sync(const Group& group) {
    group.sync();
}
template <class Group>
__DEVICE__ unsigned group_size(const Group& group) {
    return group.size();
}
template <class Group>
__DEVICE__ unsigned thread_rank(const Group& group) {
    return group.thread_rank();
}

template <class Group>
__DEVICE__ bool is_valid(const Group& group) {
    return group.is_valid();
}

#define FOREBAY_FUNCTOR(name, EXPRESSION)                           \
    template <class T = void>                                       \
    struct name {                                                   \
        __DEVICE__ T operator()(T a, T b) const { return EXPRESSION; } \
    };
FOREBAY_FUNCTOR(plus, a + b)
FOREBAY_FUNCTOR(less, b < a ? b : a)
FOREBAY_FUNCTOR(greater, a < b ? b : a)
FOREBAY_FUNCTOR(bit_and, a& b)
FOREBAY_FUNCTOR(bit_or, a | b)
FOREBAY_FUNCTOR(bit_xor, a ^ b)
#undef FOREBAY_FUNCTOR

template <class Group, class T, class Function>
__DEVICE__ T reduce(const Group& group, T value, Function function) {
    T result = group.shfl(value, 0);
    for (unsigned rank = 1; rank < group.size(); rank++)
        result = function(result, group.shfl(value, (int)rank));
    return result;
}
template <class Group, class T, class Function>
__DEVICE__ T inclusive_scan(const Group& group, T value, Function function) {
    for (unsigned delta = 1; delta < group.size(); delta *= 2) {
        T before = group.shfl_up(value, delta);
        if (group.thread_rank() >= delta)
            value = function(before, value);
    }
    return value;
}
template <class Group, class T>
__DEVICE__ T inclusive_scan(const Group& group, T value) {
    return inclusive_scan(group, value, plus<T>());
}
template <class Group, class T, class Function>
__DEVICE__ T exclusive_scan(const Group& group, T value, Function function) {
    T before = group.shfl_up(inclusive_scan(group, value, function), 1);
    return group.thread_rank() ? before : T();
}
template <class Group, class T>
__DEVICE__ T exclusive_scan(const Group& group, T value) {
    return exclusive_scan(group, value, plus<T>());
}

template <class Group, class T, class U, class Function>
__DEVICE__ void reduce_store_async(const Group& group, T* to, U value, Function function) {
    T result = (T)reduce(group, value, function);
    if (group.thread_rank() == 0)
        *to = result;
}

// The operation that an atomic reference has for a function object.
template <class Group, class Atomic, class T>
__DEVICE__ void reduce_update_async(const Group& group, Atomic&& to, T value, plus<T> function) {
    T result = reduce(group, value, function);
    if (group.thread_rank() == 0)
        to.fetch_add(result);
}
template <class Group, class Atomic, class T>
__DEVICE__ void reduce_update_async(const Group& group, Atomic&& to, T value, less<T> function) {
    T result = reduce(group, value, function);
    if (group.thread_rank() == 0)
        to.fetch_min(result);
}
template <class Group, class Atomic, class T>
__DEVICE__ void reduce_update_async(const Group& group, Atomic&& to, T value, greater<T> function) {
    T result = reduce(group, value, function);
    if (group.thread_rank() == 0)
        to.fetch_max(result);
}

// What the first thread of a warp's part gives, for all of it.
template <class Group, class Function>
__DEVICE__ auto invoke_one_broadcast(const Group& group, Function function) -> decltype(function()) {
    decltype(function()) result{};
    if (group.thread_rank() == 0)
        result = function();
    return group.shfl(result, 0);
}
template <class Group, class Function>
__DEVICE__ void invoke_one(const Group& group, Function function) {
    if (group.thread_rank() == 0)
        function();
}

// Done at once; `wait` is a barrier.
template <class Group, class T, class Size>
__DEVICE__ void memcpy_async(const Group& group, T* to, const T* from, Size bytes) {
    for (size_t i = group.thread_rank(); i < (size_t)bytes / sizeof(T); i += group.size())
        to[i] = from[i];
}
template <class Group, class Size>
__DEVICE__ void memcpy_async(const Group& group, void* to, const void* from, Size bytes) {
    memcpy_async(group, (char*)to, (const char*)from, (size_t)bytes);
}
// Of elements as many as both have.
template <class Group, class T, class U, class Count, class Other>
__DEVICE__ void memcpy_async(const Group& group, T* to, Count there, const U* from, Other here) {
    size_t count = (size_t)there < (size_t)here ? (size_t)there : (size_t)here;
    memcpy_async(group, to, (const T*)from, count * sizeof(T));
}
template <class Group>
__DEVICE__ void wait(const Group& group) {
    group.sync();
}
template <unsigned Count, class Group>
__DEVICE__ void wait_prior(const Group& group) {
    group.sync();
}

}  // namespace cooperative_groups
