// The threads of a block as fibers, for `hip_on_host.hpp`, and a look at which of them race with each other.
#pragma once

extern "C" char __start_hip_shared[] __attribute__((weak)), __stop_hip_shared[] __attribute__((weak));

namespace host {

// What the lanes of a group gave to an exchange.
struct Exchange {
    unsigned active = 0;
    char values[32][64];
};

enum State { ready, at_barrier, at_exchange, done };
struct Fiber {
    ucontext_t context;
    uint3 index;
    State state;
    const void* place;
    const void* given;
    size_t bytes;
    Exchange* got;
    unsigned polls, exchanges;
};

const size_t page = 4096, most_dynamic = 64 << 10;
alignas(page) inline char dynamic_shared[most_dynamic + page];  // nobody may touch its last page
inline size_t dynamic_bytes;
inline std::vector<Fiber> fibers;
inline std::deque<Exchange> exchanges;  // of the block
inline Fiber* now;
inline ucontext_t scheduler;
inline std::function<void()> body;
// 1: a barrier that threads had left before; 2: barriers at different places; 4: a warp's functions; 8: atomic functions;
// 16, 32, 64: a race within a warp, a block, between blocks.
inline unsigned flags;
inline uint64_t seed;

inline void sleep_as(State state, const void* place) {
    now->state = state;
    now->place = place;
    swapcontext(&now->context, &scheduler);
    threadIdx = now->index;
}
__attribute__((noinline)) inline void barrier_at(const void* place) { sleep_as(at_barrier, place); }
// What each lane that is at this place gives.
inline const Exchange& exchange(const void* place, const void* value, size_t bytes) {
    flags |= 4;
    now->exchanges++;
    now->given = value;
    now->bytes = bytes;
    sleep_as(at_exchange, place);
    return *now->got;
}
// A thread that waits for another one in a loop over an atomic function must let it run.
inline void poll() {
    flags |= 8;
    if (++now->polls % 256 == 0)
        sleep_as(ready, nullptr);
}

// -- races, seen through what clang calls for ThreadSanitizer at each load and store

struct Access {
    unsigned block, thread, barriers, exchanges;
};
struct Cell {
    bool is_written = false, is_read = false;
    char before;
    Access writer, readers[2];
};
struct Pending {
    char* address;
    char before;
    unsigned flag;
};
inline bool watching;
inline int quiet;
inline unsigned barriers, block_number;
inline std::unordered_map<char*, Cell> cells;
inline std::vector<std::pair<char*, char*>> watched;
inline std::vector<Pending> pending;

struct Quiet {
    __attribute__((always_inline)) Quiet() { quiet++; }
    __attribute__((always_inline)) ~Quiet() { quiet--; }
};
// The kind of the race between two accesses of which one writes; 0 when they are ordered.
inline unsigned race(const Access& a, const Access& b) {
    if (a.block != b.block)
        return 64;
    if (a.thread == b.thread || a.barriers != b.barriers)
        return 0;
    if (a.thread / 32 != b.thread / 32)
        return 32;
    return a.exchanges == b.exchanges ? 16 : 0;
}
__attribute__((no_sanitize("thread"))) inline void settle() {
    for (const Pending& each : pending)
        if (*each.address != each.before)
            flags |= each.flag;
    pending.clear();
}
// A store of what is there already is no race, so what a store changed is looked at before the next access.
__attribute__((no_sanitize("thread"))) inline void touch(void* address, size_t bytes, bool writes) {
    if (!watching || quiet || !now)
        return;
    Quiet guard;
    settle();
    char* first = (char*)address;
    bool found = false;
    for (auto& range : watched)
        found |= first >= range.first && first < range.second;
    if (!found)
        return;
    Access me{block_number, unsigned(now - fibers.data()), barriers, now->exchanges};
    for (char* at = first; at < first + bytes; at++) {
        Cell& cell = cells[at];
        if (cell.is_written && race(cell.writer, me) && (writes || *at != cell.before))
            pending.push_back({at, writes ? *at : char(~*at), race(cell.writer, me)});
        if (writes) {
            if (cell.is_read)
                for (const Access& reader : cell.readers)
                    if (race(reader, me))
                        pending.push_back({at, *at, race(reader, me)});
            if (!cell.is_written || cell.writer.block != me.block || cell.writer.thread != me.thread)
                cell.before = *at;  // what was there before this thread's first store
            cell.writer = me;
            cell.is_written = true;
        } else {
            cell.readers[1] = cell.is_read && race(cell.readers[0], me) ? cell.readers[0] : me;
            cell.readers[0] = me;
            cell.is_read = true;
        }
    }
}

inline unsigned lane_of(size_t thread) { return thread % 32; }

// Lets the threads of a warp that wait for each other at one place go on.
inline bool meet(size_t first) {
    const void* place = nullptr;
    size_t last = std::min(first + 32, fibers.size());
    for (size_t t = first; t < last; t++)
        if (fibers[t].state == at_exchange && (!place || fibers[t].place < place))
            place = fibers[t].place;
    if (!place)
        return false;
    Exchange* got = &exchanges.emplace_back();
    for (size_t t = first; t < last; t++)
        if (fibers[t].state == at_exchange && fibers[t].place == place) {
            got->active |= 1u << lane_of(t);
            memcpy(got->values[lane_of(t)], fibers[t].given, fibers[t].bytes);
            fibers[t].got = got;
            fibers[t].state = ready;
        }
    return true;
}

inline void enter() {
    threadIdx = now->index;
    body();
    now->state = done;
    swapcontext(&now->context, &scheduler);
}

inline unsigned random_below(unsigned n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}
// An order of n things: as they are, backwards, or any.
inline std::vector<unsigned> order(unsigned n, int schedule) {
    std::vector<unsigned> result(n);
    for (unsigned i = 0; i < n; i++)
        result[i] = schedule == 1 ? n - 1 - i : i;
    if (schedule == 2)
        for (unsigned i = n; i > 1; i--)
            std::swap(result[i - 1], result[random_below(i)]);
    return result;
}

inline void run_block(char* stacks, size_t stack_bytes, int schedule) {
    const int garbage[] = {0, 0x3f, 0x11};
    memset(__start_hip_shared, garbage[schedule], __stop_hip_shared - __start_hip_shared);
    memset(dynamic_shared, garbage[schedule], dynamic_bytes);
    size_t count = fibers.size();
    exchanges.clear();
    for (unsigned t = 0; t < count; t++) {
        Fiber& fiber = fibers[t];
        getcontext(&fiber.context);
        fiber.context.uc_stack = {.ss_sp = stacks + t * stack_bytes, .ss_flags = 0, .ss_size = stack_bytes};
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, enter, 0);
        fiber.index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
        fiber.state = ready;
    }
    for (auto turns = order(count, schedule);;) {
        bool any = false;
        for (unsigned t : turns)
            if (fibers[t].state == ready) {
                now = &fibers[t];
                swapcontext(&scheduler, &now->context);
                now = nullptr;
                any = true;
            }
        for (size_t first = 0; !any && first < count; first += 32)
            any |= meet(first);
        if (any)
            continue;
        const void* place = nullptr;
        bool gone = false;
        for (Fiber& fiber : fibers)
            gone |= fiber.state == done;
        for (Fiber& fiber : fibers)
            if (fiber.state == at_barrier) {
                flags |= gone | (place && place != fiber.place ? 2 : 0);
                place = fiber.place;
                fiber.state = ready;
            }
        barriers++;
        if (!place)
            return;
    }
}

// Runs a kernel; schedule 0 forwards, 1 backwards, 2 at random.
inline void launch(const unsigned* grid, const unsigned* block, int schedule, size_t shared_bytes,
                   std::function<void()> thread) {
    const size_t stack_bytes = 256 << 10;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    mprotect(dynamic_shared + most_dynamic, page, PROT_NONE);
    dynamic_bytes = shared_bytes;
    body = thread;
    fibers = std::vector<Fiber>(blockDim.x * blockDim.y * blockDim.z);
    watching = schedule == 0;
    watched.push_back({__start_hip_shared, __stop_hip_shared});
    watched.push_back({dynamic_shared, dynamic_shared + most_dynamic});
    char* stacks = (char*)malloc(stack_bytes * fibers.size());
    for (unsigned b : order(gridDim.x * gridDim.y * gridDim.z, schedule)) {
        blockIdx = {b % gridDim.x, b / gridDim.x % gridDim.y, b / gridDim.x / gridDim.y};
        block_number = b;
        run_block(stacks, stack_bytes, schedule);
    }
    settle();
    free(stacks);
}

template <class... P, size_t... I>
void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_cv_t<std::remove_reference_t<P>>*)arguments[I]...);
}
template <class... P>
unsigned run(void (*kernel)(P...), const unsigned* grid, const unsigned* block, int schedule,
         size_t shared_bytes, void** arguments) {
    launch(grid, block, schedule, shared_bytes,
           [=] { call(kernel, arguments, std::index_sequence_for<P...>()); });
    return flags;
}

inline unsigned lane() {
    return lane_of(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
template <class T>
T of_lane(const Exchange& got, unsigned lane) {
    T value;
    memcpy(&value, got.values[lane % 32], sizeof(T));
    return value;
}
inline unsigned votes(const Exchange& got) {
    unsigned result = 0;
    for (int i = 0; i < 32; i++)
        result |= unsigned(got.active >> i & 1 && of_lane<int>(got, i)) << i;
    return result;
}
}  // namespace host
