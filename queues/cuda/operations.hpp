// CUDA's table of operations: what is behind the handles, its memory, and then the operations. An object that refers to
// an event or a module holds a reference. The locks of contexts are taken last. Measured on an H100 (driver 580, CUDA
// 13.0):
//
// - Launches, copies, records, waits and queries need no current context; calls that make things do. Adding or changing
//   a node of a graph without the right one ends the process: `Current`.
// - cuMemFree, cuMemFreeHost, cuModuleLoadData and cuModuleUnload wait for all running work, streams behind closed
//   gates included; all but the last block launches of other threads meanwhile. So memory comes from pools, and
//   cuMemFreeAsync frees it without blocking. A module is loaded while no gate is closed (`WithoutGates`); the next
//   load unloads it.
// - cuGraphInstantiate waited for a closed gate, for a graph of three concurrent launches; most graphs did not.
//   Destroying an executable waited, too.
// - A hardware channel takes 1,020 commands, and many streams share one.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "Python.h"
#include "core/driver.hpp"
#include "core/ownership.hpp"
#include "queues/cuda/calls.hpp"

namespace forebay_cuda {

using namespace forebay;
typedef std::lock_guard<Lock> Locked;

inline Calls cuda;  // the `load` of operations.pyx fills it

enum : uint32_t {
    OUT_OF_MEMORY = 2, NOT_READY = 600, ALREADY_ENABLED = 704,  // error codes
    EQUAL = 1,  // CU_STREAM_WAIT_VALUE_EQ
    LARGEST_PATTERN = 128, FILL_BLOCK = 256, FILL_GROUPS = 1024,
    SPIN = 10000,  // microseconds: a longer wait sleeps between queries, which adds at most 1 %
    ASKS_EVERY = 50000,  // microseconds between calls of `interrupted`
    JOINED_FROM = 4,     // events
    NON_BLOCKING = 1,  // of a stream: forebay orders the null queue itself
    AHEAD = 256,       // streams, 6 ms
    NO_TIMING = 2, NO_TIMING_INTERPROCESS = 2 | 4,  // of an event
    LAZY_ENABLE_PEER_ACCESS = 1,  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag there is
    FIRST = 4096,                 // bytes of a pool's first memory
    CHUNK = 1 << 20,              // bytes of the host that blocks are cut from, a multiple of the largest
    MOST_ASKED = 4,               // gates, for each that is made
    PINNED = 1, MANAGED = 2,  // CUmemAllocationType
    ON_DEVICE = 1, ON_HOST = 2,  // CUmemLocationType
    READ_WRITE = 3,  // CUmemAccess_flags
    RELEASE_THRESHOLD = 4,  // CUmemPool_attribute
    ERROR_LOG = 5, ERROR_SIZE = 6,  // CUjit_option
    SMALLEST_BLOCK = 256,  // bytes; the sizes of all blocks are multiples of it, which aligns every type
    BLOCK_CLASSES = 9,
    LARGEST_BLOCK = 1 << 16,
    KEPT = 64 << 20,  // bytes of a pool: mapping memory takes a hundred microseconds, of the host some milliseconds
    PORTABLE_MAPPED = 3  // host memory of all contexts, with an address for the device
};

enum EventKind {
    PLAIN_EVENT,
    TIMED_EVENT,
    GATE_EVENT,  // recorded behind a wait for a word that the host writes
    EVENT_KINDS,
    IPC_EVENT  // known to other processes, and never recorded for anything else
};

enum MemoryKind { DEVICE_POOL, SHARED_POOL, HOST_POOL, POOLS };

// What is destroyed later, because the driver would wait until nothing runs, or until all gates are open.
enum EndedKind {
    ENDED_MODULES,
    ENDED_EXECUTABLES,
    ENDED_REGISTRATIONS,  // memory of the host that was registered
    ENDED_EXPORTS,        // memory that other processes could open
    ENDED_IMPORTS,        // memory of other processes
    ENDED_KINDS
};

inline int64_t now() {  // microseconds
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}
inline void rest(int microseconds) { std::this_thread::sleep_for(std::chrono::microseconds(microseconds)); }
inline void store(uint32_t *word, uint32_t value) {
    reinterpret_cast<std::atomic<uint32_t> *>(word)->store(value, std::memory_order_release);
}

// While one has begun, no gate is closed: for driver calls that would wait for all gates, and block other threads'
// launches. Making a gate blocks until it ends, which may take as long as kernels run.
class WithoutGates {
    static inline Lock lock;
    static inline std::atomic<uint32_t> closed;  // gates of all devices of the process
    std::unique_lock<Lock> held;

    bool begin(std::unique_lock<Lock> locked) {
        if (!locked || gates_are_closed()) return false;
        held = std::move(locked);
        return true;
    }

  public:
    bool begin() { return begin(std::unique_lock<Lock>(lock)); }
    bool try_begin() { return begin(std::unique_lock<Lock>(lock, std::try_to_lock)); }

    static bool gates_are_closed() { return closed.load() != 0; }
    static void note_closed() {
        Locked held(lock);
        closed.fetch_add(1);
    }
    static void note_open() { closed.fetch_sub(1); }
};

struct CuContext;
struct CuModule;
struct CuQueue;

// Makes a context current in this thread for its own lifetime.
class Current {
    bool entered = false;

  public:
    ~Current() {
        void *popped;
        if (entered) cuda.CtxPopCurrent_v2(&popped);
    }
    Status enter(void *context) {
        const Status status = cuda.CtxPushCurrent_v2(context);
        entered = status == 0;
        return status;
    }
};

// Give a GPU access to all memory of a pool, present and future.
inline Status allow_access(void *pool, int32_t device) {
    AccessDesc access;
    access.location.type = ON_DEVICE;
    access.location.id = device;
    access.flags = READ_WRITE;
    return cuda.MemPoolSetAccess(pool, &access, 1);
}

inline bool is_block(MemoryKind kind, size_t nbytes) { return kind == HOST_POOL && nbytes <= LARGEST_BLOCK; }

// Index of the list of blocks for this size; block sizes are powers of two.
inline int class_of(size_t nbytes) {
    int found = 0;
    while (size_t(SMALLEST_BLOCK) << found < nbytes) found++;
    return found;
}

struct CuEvent : Counted<CuEvent> {
    const EventKind kind;
    CuContext *const context;
    void *handle;
    uint32_t *word = nullptr;  // gates only: what the host writes, in pinned memory

    CuEvent(EventKind kind, CuContext *context, void *handle) : kind(kind), context(context), handle(handle) {}
    ~CuEvent();
    static void destroy(CuEvent *event);  // idle, but the stream of a gate may not have read the word yet
};

// The primary context of one GPU. It lives as long as the process, as with CUDA's runtime: making one takes half a
// second, and other packages use it.
struct CuContext {
    void *handle = nullptr;
    const int32_t device;
    Relaxed<bool> migrates;          // shared memory, on request
    void *pools[POOLS] = {};         // NULL for one that the GPU refused
    void *memory_stream = nullptr;   // memory is taken from the pools and freed on it; it has no other work
    Ref<CuModule> kernels;           // forebay's own
    void *fill = nullptr;
    std::atomic<uint32_t> streams{0};          // that are alive
    std::atomic<uint32_t> stream_capacity{0};  // for how many the driver has memory
    std::atomic<uint32_t> printing{0};         // programs that call printf
    std::atomic<uint32_t> printed{0};          // how many of these have ended
    std::atomic<uint32_t> written{0};  // how many had ended when the driver last wrote the kernels' output

    static Status open(int32_t device, const char *kernels, CuContext *&context);

    // An idle private stream for a host wait on many events, or a new one.
    Status take_join(std::unique_ptr<CuQueue> &join);
    void keep_join(std::unique_ptr<CuQueue> &join);

    // Make the driver allocate memory for `AHEAD` more streams, which it keeps. It does so for some 43 at a time, and
    // first waits for closed gates. No gate is closed.
    void make_streams_ahead(uint32_t before) {
        void *made[AHEAD];
        uint32_t count = 0;
        Current current;
        if (current.enter(handle)) return;
        while (count < AHEAD && !cuda.StreamCreateWithPriority(&made[count], NON_BLOCKING, 0)) count++;
        stream_capacity.store(std::max(stream_capacity.load(), before + count));  // the driver keeps it
        while (count) cuda.StreamDestroy_v2(made[--count]);
    }

    // With no gate closed.
    Status load_module(const char *image, char *log, size_t log_size, void **module) {
        uint32_t options[] = {ERROR_LOG, ERROR_SIZE};
        void *values[] = {log, reinterpret_cast<void *>(log_size)};
        Current current;
        if (Status status = current.enter(handle)) return status;
        destroy_ended(ENDED_MODULES);
        return cuda.ModuleLoadDataEx(module, image, 2, options, values);
    }

    // Enable access to the other's pools (`allow_access`), variables and adopted memory. False: a gate is closed.
    bool reach(CuContext *other, Status &status) {
        WithoutGates none;
        if (other == this) return true;
        {
            Locked held(lock);
            if (std::find(reached.begin(), reached.end(), other->device) != reached.end()) return true;
        }
        if (!none.begin()) return false;
        status = within(cuda, handle, cuda.CtxEnablePeerAccess, other->handle, 0);
        if (uint32_t(status) == ALREADY_ENABLED) status = 0;  // by another package
        if (!status) status = allow_access(other->pools[DEVICE_POOL], device);
        Locked held(lock);
        if (!status) reached.push_back(other->device);
        return true;
    }

    Status order(void *later, void *earlier) const {
        void *event = nullptr;
        Current current;
        Status status = current.enter(handle);  // it defines the default streams
        if (!status) status = cuda.EventCreate(&event, NO_TIMING);
        if (status) return status;
        status = cuda.EventRecord(event, earlier);
        if (!status) status = cuda.StreamWaitEvent(later, event, 0);
        cuda.EventDestroy_v2(event);
        return status;
    }

    // -- events

    // An idle event, or a new one. Recording it again does not affect streams that still wait for the earlier record.
    Status take_event(EventKind kind, Ref<CuEvent> &taken) {
        std::unique_ptr<CuEvent> event;
        if (kind == GATE_EVENT) recycle_gates();
        {
            Locked held(lock);
            event = take_last(idle[kind]);
        }
        if (!event) {
            uint64_t word = 0;
            event = std::make_unique<CuEvent>(kind, this, nullptr);
            if (kind == GATE_EVENT)
                if (Status status = take_block(sizeof *event->word, word)) return status;
            event->word = reinterpret_cast<uint32_t *>(word);
            const uint32_t flags = kind == TIMED_EVENT ? 0 : NO_TIMING;
            if (Status status = within(cuda, handle, cuda.EventCreate, &event->handle, flags)) return status;
        }
        event->references.store(1, std::memory_order_relaxed);
        if (event->word) store(event->word, 0);
        taken = Ref<CuEvent>::adopt(event.release());
        return 0;
    }

    Status create_ipc_event(CuEvent *&made, IpcHandle &opener) {
        auto event = std::make_unique<CuEvent>(IPC_EVENT, this, nullptr);
        Current current;
        Status status = current.enter(handle);
        if (!status) status = cuda.EventCreate(&event->handle, NO_TIMING_INTERPROCESS);
        if (!status) status = cuda.IpcGetEventHandle(&opener, event->handle);
        if (!status) made = event.release();
        return status;
    }

    // -- what is destroyed later

    void destroy_later(EndedKind kind, uint64_t handle) {
        Locked held(lock);
        ended[kind].push_back(handle);
    }

    // Waits until nothing runs. No gate is closed. For executables and modules the context is current.
    void destroy_ended(EndedKind kind) {
        std::vector<uint64_t> all;
        {
            Locked held(lock);
            all.swap(ended[kind]);
        }
        for (uint64_t each : all) {
            void *object = reinterpret_cast<void *>(each);
            if (kind == ENDED_MODULES) {
                cuda.ModuleUnload(object);
            } else if (kind == ENDED_EXECUTABLES) {
                cuda.GraphExecDestroy(object);
            } else if (kind == ENDED_REGISTRATIONS) {
                cuda.MemHostUnregister(each);
            } else if (kind == ENDED_EXPORTS) {
                cuda.MemFree_v2(each);
            } else {
                Locked held(importing);
                cuda.IpcCloseMemHandle(each);
            }
        }
    }

    // False, with nothing destroyed, while a gate is closed: a later caller does it.
    bool try_destroy_ended(EndedKind first, EndedKind last) {
        WithoutGates none;
        if (!none.begin()) return false;
        for (int kind = first; kind <= last; kind++) destroy_ended(EndedKind(kind));
        return true;
    }

    // -- memory

    Status take_memory(MemoryKind kind, size_t nbytes, uint64_t &address) {
        Status status = take_at_once(kind, nbytes, address);
        Current current;
        if (uint32_t(status) != OUT_OF_MEMORY || current.enter(handle)) return status;
        trim(0);  // the pools may keep some, and exported memory may wait to be freed
        try_destroy_ended(ENDED_EXPORTS, ENDED_IMPORTS);
        return take_at_once(kind, nbytes, address);
    }

    void give_back_memory(MemoryKind kind, size_t nbytes, uint64_t address) {
        if (is_block(kind, nbytes)) return give_back_block(nbytes, address);
        cuda.MemFreeAsync(address, memory_stream);
        trim(KEPT);
    }

    Status register_memory(uint64_t address, size_t nbytes) {
        Current current;
        if (Status status = current.enter(handle)) return status;
        try_destroy_ended(ENDED_REGISTRATIONS, ENDED_REGISTRATIONS);
        return cuda.MemHostRegister_v2(address, nbytes, PORTABLE_MAPPED);
    }

    Status export_memory(size_t nbytes, uint64_t &address) {
        Current current;
        if (Status status = current.enter(handle)) return status;
        try_destroy_ended(ENDED_EXPORTS, ENDED_IMPORTS);
        Status status = cuda.MemAlloc_v2(&address, nbytes);
        if (uint32_t(status) != OUT_OF_MEMORY) return status;
        trim(0);  // the pools may keep some
        return cuda.MemAlloc_v2(&address, nbytes);
    }

    Status import_memory(const IpcHandle &opener, uint64_t &address, size_t &nbytes) {
        uint64_t base = 0;
        Current current;
        if (Status status = current.enter(handle)) return status;
        try_destroy_ended(ENDED_EXPORTS, ENDED_IMPORTS);
        {
            Locked held(importing);
            if (Status status = cuda.IpcOpenMemHandle_v2(&address, opener, LAZY_ENABLE_PEER_ACCESS)) return status;
        }
        Status status = cuda.MemGetAddressRange_v2(&base, &nbytes, address);
        if (status) destroy_later(ENDED_IMPORTS, address);
        nbytes -= address - base;
        return status;
    }

    Status give_back_shared(bool &done) {
        Current current;
        Status status = current.enter(handle);
        if (!status) done = try_destroy_ended(ENDED_EXPORTS, ENDED_IMPORTS);
        return status;
    }

  private:
    friend struct CuEvent;

    Lock lock;  // guards all below
    std::vector<int32_t> reached;  // devices whose memory this one uses
    std::vector<std::unique_ptr<CuEvent>> idle[EVENT_KINDS];
    std::vector<std::unique_ptr<CuEvent>> passing;  // open gates that their queue may not have passed yet
    size_t asked_for = 0;                           // index of the next one to query
    std::vector<uint64_t> ended[ENDED_KINDS];       // handles, or addresses of memory
    std::vector<std::unique_ptr<CuQueue>> joins;
    std::vector<uint64_t> blocks[BLOCK_CLASSES];  // idle small blocks of host memory, by size
    uint64_t chunk = 0;                           // blocks are cut from its end
    size_t chunk_left = 0;                        // bytes

    static inline Lock importing;  // two threads that open and close the same memory get CUDA_ERROR_ALREADY_MAPPED

    explicit CuContext(int32_t device) : device(device) {}
    Status begin(const char *own);

    Status open_pool(MemoryKind kind) {
        PoolProps props;
        uint64_t kept = KEPT, first = 0;
        void *pool = nullptr;
        props.allocation = kind == SHARED_POOL ? MANAGED : PINNED;
        props.location.type = kind == HOST_POOL ? ON_HOST : ON_DEVICE;
        props.location.id = kind == HOST_POOL ? 0 : device;
        Current current;
        Status status = current.enter(handle);
        if (!status) status = cuda.MemPoolCreate(&pool, &props);
        if (!status && kind == HOST_POOL) status = allow_access(pool, device);
        if (!status) status = cuda.MemPoolSetAttribute(pool, RELEASE_THRESHOLD, &kept);
        if (!status) status = cuda.MemAllocFromPoolAsync(&first, FIRST, pool, memory_stream);
        if (!status) cuda.MemFreeAsync(first, memory_stream);
        {
            Locked held(lock);
            if (!status && !pools[kind]) std::swap(pools[kind], pool);
        }
        if (pool) cuda.MemPoolDestroy(pool);  // refused, or another thread was first
        return status;
    }

    // Release memory that the pools keep, except for this many bytes each.
    void trim(size_t kept) {
        for (void *pool : pools)
            if (pool) cuda.MemPoolTrimTo(pool, kept);
    }

    Status take_at_once(MemoryKind kind, size_t nbytes, uint64_t &address) {
        if (is_block(kind, nbytes)) return take_block(nbytes, address);
        if (!pools[kind])  // the GPU refused it when the context was opened
            if (Status status = open_pool(kind)) return status;
        return cuda.MemAllocFromPoolAsync(&address, nbytes, pools[kind], memory_stream);
    }

    // Find gates that their stream has passed. Queries a few in turn: many open ones may wait behind a closed one.
    void recycle_gates() {
        Locked held(lock);
        for (size_t left = std::min<size_t>(passing.size(), MOST_ASKED); left; left--) {
            if (asked_for >= passing.size()) asked_for = 0;
            std::unique_ptr<CuEvent> &gate = passing[asked_for];
            if (cuda.EventQuery(gate->handle)) {
                asked_for++;
                continue;
            }
            idle[GATE_EVENT].push_back(std::move(gate));
            gate = std::move(passing.back());
            passing.pop_back();
        }
    }

    // -- small host memory, up to LARGEST_BLOCK: pinned, and never returned to the driver, whose cuMemFreeHost waits
    // for the whole device. A 4-byte copy from memory of the pool, which can be returned, takes 1.6 µs more; from 64
    // KiB on they are equal.

    Status take_block(size_t nbytes, uint64_t &address) {
        const int at = class_of(nbytes);
        const size_t size = size_t(SMALLEST_BLOCK) << at;
        while (true) {
            {
                Locked held(lock);
                if ((address = take_last(blocks[at]))) return 0;
                if (chunk_left >= size) {
                    address = chunk + (chunk_left -= size);
                    return 0;
                }
            }
            void *more = nullptr;
            Status status = within(cuda, handle, cuda.MemHostAlloc, &more, size_t(CHUNK), uint32_t(PORTABLE_MAPPED));
            if (status) return status;
            Locked held(lock);
            for (int smaller = BLOCK_CLASSES; smaller--;)  // the rest of the chunk before goes to the lists
                while (chunk_left >= size_t(SMALLEST_BLOCK) << smaller)
                    blocks[smaller].push_back(chunk + (chunk_left -= size_t(SMALLEST_BLOCK) << smaller));
            chunk = reinterpret_cast<uintptr_t>(more);
            chunk_left = CHUNK;
        }
    }

    void give_back_block(size_t nbytes, uint64_t address) {
        Locked held(lock);
        blocks[class_of(nbytes)].push_back(address);
    }
};

struct CuQueue {
    void *stream = nullptr;
    CuContext *const context;
    PyObject *owner;  // the adopted object that has the stream, retained; NULL for forebay's own streams

    CuQueue(CuContext *context, PyObject *owner) : context(context), owner(owner) {}
    ~CuQueue() {
        if (owner) return;
        if (stream) cuda.StreamDestroy_v2(stream);
        context->streams.fetch_sub(1);
    }
    // The caller has counted the stream.
    static Status create(CuContext *context, int32_t priority, std::unique_ptr<CuQueue> &made) {
        auto queue = std::make_unique<CuQueue>(context, nullptr);
        Status status =
            within(cuda, context->handle, cuda.StreamCreateWithPriority, &queue->stream, NON_BLOCKING, priority);
        if (!status) made = std::move(queue);
        return status;
    }
};

// A plan may keep a kernel for longer than the program. Unloading waits for all running work, so the next load does it.
struct CuModule : Counted<CuModule> {
    CuContext *const context;
    void *const handle;
    const bool prints;

    CuModule(CuContext *context, void *handle, bool prints) : context(context), handle(handle), prints(prints) {
        if (prints) context->printing.fetch_add(1);
    }
    ~CuModule() {
        if (prints) {  // in this order: otherwise a wait could count it as ended and written
            context->printed.fetch_add(1);
            context->printing.fetch_sub(1);
        }
        context->destroy_later(ENDED_MODULES, reinterpret_cast<uintptr_t>(handle));
    }
};

// A function and the values of its parameters, which a launch copies.
struct CuKernel {
    void *const function;
    Ref<CuModule> module;
    std::vector<uint64_t> words;       // the values, each at a whole word
    std::vector<void *> values;        // the address of each of the driver's parameters, as cuLaunchKernel takes them
    std::vector<uint32_t> locals;      // by parameter: bytes of local memory
    std::vector<uint32_t> alignments;  // of these; 0 for other parameters
    uint32_t shared = 0;               // bytes of dynamic shared memory

    // `sizes` are the bytes of the driver's parameters. The last of forebay's parameters may have none there.
    CuKernel(void *function, Ref<CuModule> module, const std::vector<size_t> &sizes, std::vector<uint32_t> alignments)
        : function(function), module(std::move(module)), locals(alignments.size()), alignments(std::move(alignments)) {
        std::vector<size_t> offsets;
        for (size_t size : sizes) {
            offsets.push_back(words.size());
            words.resize(words.size() + (size + 7) / 8);
        }
        for (size_t offset : offsets) values.push_back(words.data() + offset);
    }

    std::unique_ptr<CuKernel> copy() const {
        auto made = std::make_unique<CuKernel>(*this);
        for (void *&value : made->values) value = made->words.data() + (static_cast<uint64_t *>(value) - words.data());
        return made;
    }

    void place_locals() {
        uint32_t end = 0;
        for (size_t i = 0; i < alignments.size(); i++) {
            if (!alignments[i]) continue;
            end = (end + alignments[i] - 1) / alignments[i] * alignments[i];
            if (i < values.size()) *static_cast<uint64_t *>(values[i]) = end;
            end += locals[i];
        }
        shared = end;
    }
};

// A command in a recording, in its present state.
struct CuNode {
    void *node = nullptr;
    std::unique_ptr<CuKernel> kernel;  // of a launch: a copy, so that it can change
    KernelNode params;
};

struct CuRecording {
    CuContext *const context;
    void *graph = nullptr;
    void *executable = nullptr;
    std::vector<CuNode> nodes;
    std::vector<void *> after;  // scratch for a node's predecessors

    explicit CuRecording(CuContext *context) : context(context) {}
    // Destroying an executable may wait for closed gates, as making one does; then the next `end_recording` does it.
    ~CuRecording() {
        Current current;
        const bool entered = current.enter(context->handle) == 0;
        if (executable) context->destroy_later(ENDED_EXECUTABLES, reinterpret_cast<uintptr_t>(executable));
        if (executable && entered) context->try_destroy_ended(ENDED_EXECUTABLES, ENDED_EXECUTABLES);
        if (graph) cuda.GraphDestroy(graph);
    }
};

// -- contexts

inline Status CuContext::open(int32_t device, const char *kernels, CuContext *&context) {
    static Lock contexts_lock;
    static std::vector<CuContext *> contexts;
    Locked held(contexts_lock);
    for (CuContext *each : contexts)
        if (each->device == device) {
            context = each;
            return 0;
        }
    std::unique_ptr<CuContext> made(new CuContext(device));
    // After a failure the little that was made stays with the primary context, unused.
    if (Status status = made->begin(kernels)) return status;
    // GPUs copy to and from each other's host memory; without access the driver would end the process. A refusal
    // affects only copies between the two.
    for (CuContext *each : contexts) {
        allow_access(made->pools[HOST_POOL], each->device);
        allow_access(each->pools[HOST_POOL], device);
    }
    contexts.push_back(context = made.release());
    return 0;
}

// Make everything now, because some of these calls wait for closed gates.
inline Status CuContext::begin(const char *own) {
    void *module = nullptr;
    Current current;
    Status status = cuda.DevicePrimaryCtxRetain(&handle, device);
    if (!status) status = current.enter(handle);
    if (!status) status = cuda.StreamCreateWithPriority(&memory_stream, NON_BLOCKING, 0);
    if (!status) status = cuda.ModuleLoadDataEx(&module, own, 0, nullptr, nullptr);
    if (!status) status = cuda.ModuleGetFunction(&fill, module, "fill");
    if (!status) make_streams_ahead(0);
    if (!status) status = open_pool(DEVICE_POOL);
    if (!status) open_pool(SHARED_POOL);  // a GPU may have none: `allocate` says so
    if (!status) status = open_pool(HOST_POOL);
    if (!status) kernels = Ref<CuModule>::adopt(new CuModule(this, module, false));
    return status;
}

inline Status CuContext::take_join(std::unique_ptr<CuQueue> &join) {
    {
        Locked held(lock);
        join = take_last(joins);
    }
    if (join) return 0;
    streams.fetch_add(1);
    return CuQueue::create(this, 0, join);
}

inline void CuContext::keep_join(std::unique_ptr<CuQueue> &join) {
    Locked held(lock);
    joins.push_back(std::move(join));
}

// -- events

inline CuEvent::~CuEvent() {
    if (word) context->give_back_block(sizeof *word, reinterpret_cast<uintptr_t>(word));
    if (handle) cuda.EventDestroy_v2(handle);
}

inline void CuEvent::destroy(CuEvent *event) {
    std::unique_ptr<CuEvent> released(event);
    if (event->kind == IPC_EVENT) return;
    CuContext *context = event->context;
    Locked held(context->lock);
    (event->kind == GATE_EVENT ? context->passing : context->idle[event->kind]).push_back(std::move(released));
}

// -- the launch path

// Order the stream after these events. If a later call is refused, the earlier waits stay and do no harm.
inline Status come_after(void *stream, Waits waits) {
    for (uint32_t i = 0; i < waits.count; i++)
        if (Status status = cuda.StreamWaitEvent(stream, static_cast<CuEvent *>(waits.events[i])->handle, 0))
            return status;
    return 0;
}

inline Status launch(void *queue, void *kernel, const Geometry *geometry, Waits waits) {
    void *stream = static_cast<CuQueue *>(queue)->stream;
    CuKernel *launched = static_cast<CuKernel *>(kernel);
    const uint32_t *groups = geometry->groups, *block = geometry->block;
    if (waits.count)
        if (Status status = come_after(stream, waits)) return status;
    return cuda.LaunchKernel(launched->function, groups[0], groups[1], groups[2], block[0], block[1], block[2],
        launched->shared, stream, launched->values.data(), nullptr);
}

inline Status set_pointer(void *kernel, uint32_t index, const Memory *memory) {
    *static_cast<uint64_t *>(static_cast<CuKernel *>(kernel)->values[index]) = memory->address;
    return 0;
}

inline Status set_value(void *kernel, uint32_t index, size_t size, const void *value) {
    CuKernel *changed = static_cast<CuKernel *>(kernel);
    if (value) {
        std::memcpy(changed->values[index], value, size);
    } else {
        changed->locals[index] = size;
        changed->place_locals();
    }
    return 0;
}

// -- other commands

// Take the event, if wanted, before the command, which cannot be undone; record it afterwards.
template <class F>
[[gnu::always_inline]] inline Status submit(void *queue, Waits waits, EventKind kind, void **event, F call) {
    CuQueue *on = static_cast<CuQueue *>(queue);
    Ref<CuEvent> made;
    Status status = come_after(on->stream, waits);
    if (!status && event) status = on->context->take_event(kind, made);
    if (!status) status = call(on);
    if (!status && event) status = cuda.EventRecord(made->handle, on->stream);
    if (!status && event) *event = made.take();
    return status;
}

// The same for a command; if the driver refuses its event after submission, it has none.
template <class F> inline Status submit_command(void *queue, Waits waits, void **event, F call) {
    bool submitted = false;
    const Status status = submit(queue, waits, PLAIN_EVENT, event, [&](CuQueue *on) {
        const Status called = call(on);
        submitted = !called;
        return called;
    });
    return submitted ? 0 : status;
}

inline Status copy(void *queue, const Memory *to, const Memory *source, size_t nbytes, Waits waits, void **event) {
    return submit_command(queue, waits, event,
        [&](CuQueue *on) { return cuda.MemcpyAsync(to->address, source->address, nbytes, on->stream); });
}

// The shortest period of a pattern that has a fill: 1, 2 or 4 bytes, otherwise its own size.
inline uint32_t repeats(const void *pattern, size_t size) {
    const uint32_t *words = static_cast<const uint32_t *>(pattern);
    if (size <= 4) return size;
    return std::all_of(words, words + size / 4, [=](uint32_t word) { return word == *words; }) ? 4 : size;
}

// A launch of the kernel for patterns that no driver call fills with.
struct Fill : KernelNode {
    uint64_t to, count;
    uint32_t mask;
    unsigned char pattern[LARGEST_PATTERN];
    void *arguments[4] = {&to, &count, &mask, pattern};

    Fill(CuContext *context, uint64_t to, const void *pattern, size_t size, size_t nbytes)
        : to(to), count(nbytes / 4), mask(size / 4 - 1) {  // a size is a power of two
        std::memcpy(this->pattern, pattern, size);
        function = context->fill;
        groups[0] = std::min<uint64_t>((count + FILL_BLOCK - 1) / FILL_BLOCK, FILL_GROUPS);
        block[0] = FILL_BLOCK;
        values = arguments;
        this->context = context->handle;
    }
};

inline Status fill(void *queue, const Memory *to, const void *pattern, size_t pattern_size, size_t nbytes, Waits waits,
    void **event) {
    return submit_command(queue, waits, event, [&](CuQueue *on) -> Status {
        const uint32_t size = repeats(pattern, pattern_size);
        uint32_t value = 0;
        std::memcpy(&value, pattern, std::min(size, 4u));
        if (size == 1) return cuda.MemsetD8Async(to->address, value, nbytes, on->stream);
        if (size == 2) return cuda.MemsetD16Async(to->address, value, nbytes / 2, on->stream);
        if (size == 4) return cuda.MemsetD32Async(to->address, value, nbytes / 4, on->stream);
        Fill wide(on->context, to->address, pattern, size, nbytes);
        return cuda.LaunchKernel(
            wide.function, wide.groups[0], 1, 1, FILL_BLOCK, 1, 1, 0, on->stream, wide.values, nullptr);
    });
}

inline Status prefetch(void *queue, const Memory *memory, size_t nbytes, int to_host, Waits waits) {
    return submit(queue, waits, PLAIN_EVENT, nullptr, [&](CuQueue *on) -> Status {
        Location to;
        to.type = to_host ? ON_HOST : ON_DEVICE;
        to.id = to_host ? 0 : on->context->device;
        return on->context->migrates ? cuda.MemPrefetchAsync_v2(memory->address, nbytes, to, 0, on->stream) : 0;
    });
}

inline Status marker(void *queue, Waits waits, int use, void **event) {
    return submit(queue, waits, use & TIMED ? TIMED_EVENT : PLAIN_EVENT, event, [](CuQueue *) { return Status(0); });
}

inline Status barrier(void *queue, Waits waits) { return come_after(static_cast<CuQueue *>(queue)->stream, waits); }

inline Status record_shared(void *queue, void *event) {
    return cuda.EventRecord(static_cast<CuEvent *>(event)->handle, static_cast<CuQueue *>(queue)->stream);
}

inline Status hold(void *queue, void *, Waits waits, HostCallback wake, void *data, void **gate) {
    CuQueue *held = static_cast<CuQueue *>(queue);
    Ref<CuEvent> made;
    Arrival *arrival = nullptr;
    if (Status status = held->context->take_event(GATE_EVENT, made)) return status;
    WithoutGates::note_closed();
    CuEvent *event = made;
    *gate = event;  // before `wake` can be called
    Status status = come_after(held->stream, waits);
    if (!status && wake) {
        arrival = new Arrival(wake, data);
        status = cuda.LaunchHostFunc(held->stream, Arrival::arrive, arrival);
        if (status) delete std::exchange(arrival, nullptr);
    }
    if (!status) status = cuda.StreamWaitValue32_v2(held->stream, reinterpret_cast<uintptr_t>(event->word), 1, EQUAL);
    if (!status) {
        made.take();
        status = cuda.EventRecord(event->handle, held->stream);
    }
    if (status) {
        *gate = nullptr;
        WithoutGates::note_open();
        if (!made) store(event->word, 1);  // the stream may read the word at any time, so it is not used again
    }
    if (arrival) arrival->settle(!status);
    return status;
}

// CUDA cannot fail the commands behind a gate: they run even if `failed`.
inline Status open_gate(void *gate, int) {
    store(static_cast<CuEvent *>(gate)->word, 1);
    WithoutGates::note_open();
    return 0;
}

// -- graphs

inline Status new_recording(void *queue, int, void **recording) {
    if (WithoutGates::gates_are_closed()) return NOT_NOW;
    auto made = std::make_unique<CuRecording>(static_cast<CuQueue *>(queue)->context);
    Status status = cuda.GraphCreate(&made->graph, 0);
    if (!status) *recording = made.release();
    return status;
}

// The driver copies a kernel's arguments, and so does the recording.
inline Status add_command(void *recording, const RecordedCommand *command, const uint32_t *after, uint32_t count) {
    CuRecording *to = static_cast<CuRecording *>(recording);
    CuContext *context = to->context;
    CuNode node;
    Current current;
    Status status = current.enter(context->handle);
    if (status) return status;
    to->after.clear();
    for (uint32_t i = 0; i < count; i++) to->after.push_back(to->nodes[after[i]].node);
    auto add = [&](auto call, const auto *params, auto... more) {
        return call(&node.node, to->graph, to->after.data(), to->after.size(), params, more...);
    };
    if (command->kind == LAUNCH_COMMAND) {
        node.kernel = static_cast<CuKernel *>(command->kernel)->copy();
        std::memcpy(node.params.groups, command->geometry.groups, sizeof node.params.groups);
        std::memcpy(node.params.block, command->geometry.block, sizeof node.params.block);
        node.params.function = node.kernel->function;
        node.params.shared = node.kernel->shared;
        node.params.values = node.kernel->values.data();
        node.params.context = context->handle;
        status = add(cuda.GraphAddKernelNode_v2, &node.params);
    } else if (command->kind == COPY_COMMAND) {
        CopyNode params;
        params.source.address = command->source.address;
        params.to.address = command->to.address;
        params.source.pitch = params.to.pitch = params.width = command->nbytes;
        status = add(cuda.GraphAddMemcpyNode, &params, context->handle);
    } else if (const uint32_t size = repeats(command->pattern, command->pattern_size); size > 4) {
        const Fill wide(context, command->to.address, command->pattern, size, command->nbytes);
        status = add(cuda.GraphAddKernelNode_v2, &wide);
    } else {
        FillNode params;
        params.to = command->to.address;
        params.size = size;
        params.width = command->nbytes / size;
        std::memcpy(&params.value, command->pattern, size);
        status = add(cuda.GraphAddMemsetNode, &params, context->handle);
    }
    if (!status) to->nodes.push_back(std::move(node));
    return status;
}

inline Status end_recording(void *recording) {
    CuRecording *ended = static_cast<CuRecording *>(recording);
    WithoutGates none;
    Current current;
    if (!none.begin()) return NOT_NOW;
    if (Status status = current.enter(ended->context->handle)) return status;
    ended->context->destroy_ended(ENDED_EXECUTABLES);
    return cuda.GraphInstantiateWithFlags(&ended->executable, ended->graph, 0);
}

// Change nodes, one driver call each. Replays submitted before are not affected.
inline Status change(void *recording, const Change *changes, size_t count) {
    CuRecording *changed = static_cast<CuRecording *>(recording);
    Current current;
    Status status = current.enter(changed->context->handle);
    for (size_t i = 0; i < count && !status; i++) {
        const Change &each = changes[i];
        CuNode &node = changed->nodes[each.command];
        if (each.kind == CHANGED_GROUPS)
            std::memcpy(node.params.groups, each.value, sizeof node.params.groups);
        else if (each.kind == CHANGED_POINTER)
            set_pointer(node.kernel.get(), each.index, static_cast<const Memory *>(each.value));
        else
            set_value(node.kernel.get(), each.index, each.size, each.value);
        if (i + 1 < count && changes[i + 1].command == each.command) continue;
        node.params.shared = node.kernel->shared;
        status = cuda.GraphExecKernelNodeSetParams_v2(changed->executable, node.node, &node.params);
    }
    return status;
}

inline Status replay(void *queue, void *recording, Waits waits) {
    void *stream = static_cast<CuQueue *>(queue)->stream;
    if (Status status = come_after(stream, waits)) return status;
    return cuda.GraphLaunch(static_cast<CuRecording *>(recording)->executable, stream);
}

// -- the host's side

inline Status poll(void *queue, int *done) {
    Status status = cuda.StreamQuery(static_cast<CuQueue *>(queue)->stream);
    *done = status == 0;
    return uint32_t(status) == NOT_READY ? 0 : status;
}

// Poll until the event is done. The driver's own wait cannot be interrupted, and polls as well.
inline Status wait_for_event(CuEvent *event, Interrupted interrupted) {
    int64_t begin = 0, asked = 0;
    while (true) {
        Status status = cuda.EventQuery(event->handle);
        if (uint32_t(status) != NOT_READY) return status;
        const int64_t current = now();
        if (!begin) begin = asked = current;
        if (current - begin > SPIN) rest(50);
        if (interrupted && current - asked > ASKS_EVERY) {
            asked = current;
            if (interrupted()) return INTERRUPTED;
        }
    }
}

inline void destroy_event(void *event) { release(static_cast<CuEvent *>(event)); }

// Wait for each event. For many, wait for one event of a private stream that waits for all, as each query takes 1 µs.
// Not while a gate is closed: a waiting stream can stall others, and the gate's opening may depend on those.
inline Status wait_events(void *context, Waits events, Interrupted interrupted) {
    CuContext *on = static_cast<CuContext *>(context);
    std::unique_ptr<CuQueue> join;  // destroyed here if its wait may still be pending
    void *joined = nullptr;
    Status status = 0;
    if (events.count < JOINED_FROM || WithoutGates::gates_are_closed()) {
        for (uint32_t i = 0; i < events.count && !status; i++)
            status = wait_for_event(static_cast<CuEvent *>(events.events[i]), interrupted);
        return status;
    }
    status = on->take_join(join);
    if (!status) status = marker(join.get(), events, 0, &joined);
    if (!status) {
        status = wait_for_event(static_cast<CuEvent *>(joined), interrupted);
        destroy_event(joined);
        if (!status) on->keep_join(join);
    }
    return status;
}

// The driver writes in a wait for any stream; waiting for this idle one takes 4 µs, so it is skipped if no program
// prints. Without a wait it writes some time later, or not at all if the process ends.
inline void write_printed(void *context) {
    CuContext *on = static_cast<CuContext *>(context);
    if (!on->printing.load() && on->printed.load() == on->written.load()) return;
    const uint32_t ended = on->printed.load();
    cuda.StreamSynchronize(on->memory_stream);
    on->written.store(ended);  // afterwards, so that another thread's wait does not return before
}

// Whether an error means that the context is lost: all its commands are over.
inline bool is_lost(uint32_t error) {
    for (uint32_t lost : {214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999})
        if (error == lost) return true;
    return false;
}

inline Answer event_status(void *event) {
    Status status = cuda.EventQuery(static_cast<CuEvent *>(event)->handle);
    const uint32_t error = status;
    if (!error) return DONE;
    if (error == NOT_READY) return NOT_YET;
    return is_lost(error) ? -Answer(error) : status;
}

inline Status elapsed(void *first, void *second, double *nanoseconds) {
    float milliseconds = 0;
    Status status = cuda.EventElapsedTime_v2(
        &milliseconds, static_cast<CuEvent *>(first)->handle, static_cast<CuEvent *>(second)->handle);
    *nanoseconds = milliseconds * 1e6;
    return status;
}

// Streams can wait for events of other devices.
inline Status bridge(void *, void *event, void **bridged) {
    *bridged = retain(static_cast<CuEvent *>(event));
    return 0;
}

inline void destroy_kernel(void *kernel) { delete static_cast<CuKernel *>(kernel); }
inline void destroy_recording(void *recording) { delete static_cast<CuRecording *>(recording); }

// The stream is no longer used. No lock is held, because the owner of an adopted stream may be destroyed.
inline void destroy_queue(void *queue) {
    CuQueue *released = static_cast<CuQueue *>(queue);
    if (released->owner) {
        PyGILState_STATE gil = PyGILState_Ensure();
        Py_DECREF(released->owner);
        PyGILState_Release(gil);
    }
    delete released;
}

// A host function's call blocks after 54, after 27 with graphs between, and after 1,020 launches. Between a launch and
// a copy in a graph the hardware changes its engine. A stream's query takes 1 µs or less: after 64 of them a marker's
// cost does not matter.
inline Driver table = {
    .changes_spare_running = true, .recordings_branch = true, .room_of_host_function = 11, .room_of_recorded_copy = 2,
    .asks_of_finish = 64, .launch = launch, .set_pointer = set_pointer, .set_value = set_value, .copy = copy,
    .fill = fill, .prefetch = prefetch, .marker = marker, .barrier = barrier, .record_shared = record_shared,
    .hold = hold, .open_gate = open_gate, .new_recording = new_recording, .add_command = add_command,
    .end_recording = end_recording, .change = change, .replay = replay, .poll = poll, .wait_events = wait_events,
    .write_printed = write_printed, .event_status = event_status, .elapsed = elapsed, .bridge = bridge,
    .destroy_event = destroy_event, .destroy_kernel = destroy_kernel, .destroy_recording = destroy_recording,
    .destroy_queue = destroy_queue};

}  // namespace forebay_cuda
