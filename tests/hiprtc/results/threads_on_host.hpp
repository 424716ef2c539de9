// The threads of a block as fibers, for `hip_on_host.hpp`.
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
    unsigned polls;
};

const size_t page = 4096, most_dynamic = 64 << 10;
alignas(page) inline char dynamic_shared[most_dynamic + page];  // nobody may touch its last page
inline size_t dynamic_bytes;
inline std::vector<Fiber> fibers;
inline std::deque<Exchange> exchanges;  // of the block
inline Fiber* now;
inline ucontext_t scheduler;
inline std::function<void()> body;
inline unsigned barriers;

inline void sleep_as(State state, const void* place) {
    now->state = state;
    now->place = place;
    swapcontext(&now->context, &scheduler);
    threadIdx = now->index;
}
__attribute__((noinline)) inline void barrier_at(const void* place) { sleep_as(at_barrier, place); }
// What each lane that is at this place gives.
inline const Exchange& exchange(const void* place, const void* value, size_t bytes) {
    now->given = value;
    now->bytes = bytes;
    sleep_as(at_exchange, place);
    return *now->got;
}
// A thread that waits for another one in a loop over an atomic function must let it run.
inline void poll() {
    if (++now->polls % 256 == 0)
        sleep_as(ready, nullptr);
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

inline void run_block(char* stacks, size_t stack_bytes) {
    const int garbage = 0x3f;
    memset(__start_hip_shared, garbage, __stop_hip_shared - __start_hip_shared);
    memset(dynamic_shared, garbage, dynamic_bytes);
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
    for (;;) {
        bool any = false;
        for (unsigned t = count; t-- > 0;)
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
        for (Fiber& fiber : fibers)
            if (fiber.state == at_barrier) {
                fiber.state = ready;
                any = true;
            }
        barriers++;
        if (!any)
            return;
    }
}

// Runs a kernel, of the last block and thread first.
inline void launch(const unsigned* grid, const unsigned* block, size_t shared_bytes, std::function<void()> thread) {
    const size_t stack_bytes = 256 << 10;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    mprotect(dynamic_shared + most_dynamic, page, PROT_NONE);
    dynamic_bytes = shared_bytes;
    body = thread;
    fibers = std::vector<Fiber>(blockDim.x * blockDim.y * blockDim.z);
    char* stacks = (char*)malloc(stack_bytes * fibers.size());
    for (unsigned b = gridDim.x * gridDim.y * gridDim.z; b-- > 0;) {
        blockIdx = {b % gridDim.x, b / gridDim.x % gridDim.y, b / gridDim.x / gridDim.y};
        run_block(stacks, stack_bytes);
    }
    free(stacks);
}

template <class... P, size_t... I>
void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_cv_t<std::remove_reference_t<P>>*)arguments[I]...);
}
template <class... P>
void run(void (*kernel)(P...), const unsigned* grid, const unsigned* block, size_t shared_bytes, void** arguments) {
    launch(grid, block, shared_bytes, [=] { call(kernel, arguments, std::index_sequence_for<P...>()); });
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
