// SYCL's table of operations: first what is behind the handles (kernels with arguments, events, queues, contexts), then
// the operations. The functions are dpctl's C interface to SYCL, and none of them reports why it failed. One that makes
// something returns NULL; the others return as if nothing had happened.
//
// SYCL has no event that the host sets, and dpctl's C interface has no host task. So forebay itself holds queues:
// commands behind a gate stay in a list, and opening the gate submits them to SYCL in order. A queue that waits for a
// command in such a list is held until SYCL has that. If no queue is held, this costs a launch one read of a flag.

#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/driver.hpp"
#include "core/ownership.hpp"

namespace forebay_sycl {

using namespace forebay;

// The functions that forebay calls. The list generates the table, the numbers in a `Status` and the names in errors.
enum Code : int {};  // no error code

#define FOREBAY_SYCL(X) \
    X(Made *, Queue_SubmitNDRange, (void *kernel, void *queue, void **arguments, const int *types, \
        size_t n_arguments, const size_t *global_size, const size_t *local_size, size_t dimensions, \
        void *const *waits, size_t n_waits)) \
    X(Made *, Queue_Memcpy, (void *queue, void *to, const void *source, size_t nbytes)) \
    X(Made *, Queue_MemcpyWithEvents, (void *queue, void *to, const void *source, size_t nbytes, \
        void *const *waits, size_t n_waits)) \
    X(Made *, Queue_Memset, (void *queue, void *to, uint8_t value, size_t count)) \
    X(Made *, Queue_Fill16, (void *queue, void *to, uint16_t value, size_t count)) \
    X(Made *, Queue_Fill32, (void *queue, void *to, uint32_t value, size_t count)) \
    X(Made *, Queue_Fill64, (void *queue, void *to, uint64_t value, size_t count)) \
    X(Made *, Queue_Fill128, (void *queue, void *to, uint64_t *value, size_t count)) \
    X(Made *, Queue_SubmitBarrier, (void *queue)) \
    X(Made *, Queue_SubmitBarrierForEvents, (void *queue, void *const *waits, size_t n_waits)) \
    X(void *, Queue_Copy, (void *queue)) \
    X(void, Queue_Delete, (void *queue)) \
    X(void, Event_Wait, (void *event)) \
    X(Code, Event_GetCommandExecutionStatus, (void *event)) \
    X(uint64_t, Event_GetProfilingInfoEnd, (void *event)) \
    X(void *, Event_Copy, (void *event)) \
    X(void, Event_Delete, (void *event)) \
    X(Made *, RawKernelArg_Create, (void *value, size_t nbytes)) \
    X(void, RawKernelArg_Delete, (void *argument)) \
    X(Made *, WorkGroupMemory_Create, (size_t nbytes)) \
    X(void, WorkGroupMemory_Delete, (void *memory)) \
    X(void *, malloc_device, (size_t nbytes, void *queue)) \
    X(void *, malloc_shared, (size_t nbytes, void *queue)) \
    X(void *, malloc_host, (size_t nbytes, void *queue)) \
    X(void, free_with_context, (void *memory, void *context)) \
    X(Code, USM_GetPointerType, (void *memory, void *context)) \
    X(void *, KernelBundle_CreateFromOCLSource, (void *context, void *device, const char *source, \
        const char *options)) \
    X(void *, KernelBundle_CreateFromSpirv, (void *context, void *device, const void *module, size_t nbytes, \
        const char *options)) \
    X(void *, KernelBundle_GetKernel, (void *bundle, const char *name)) \
    X(void, KernelBundle_Delete, (void *bundle)) \
    X(void *, Kernel_Copy, (void *kernel)) \
    X(void, Kernel_Delete, (void *kernel)) \
    X(size_t, Kernel_GetWorkGroupSize, (void *kernel))

FOREBAY_TABLE(FOREBAY_SYCL)

// Forebay's own reasons for a failure, numbered after the calls.
enum Reason { OUT_OF_MEMORY = N_CALLS, HOLDS_ADOPTED, WAITS_FOR_HELD, GATE_FAILED };

inline Calls sycl;  // the `load` of operations.pyx fills it

enum { FAILED = -1 };   // the only error code there is
enum { COMPLETE = 3 };  // DPCTLSyclEventStatusType
enum { WORK_GROUP_MEMORY = 12, RAW_ARGUMENT = 13 };  // DPCTLKernelArgType

// `what` is the dpctl call that failed, or a Reason.
inline Status failed(int what) { return failure(what, FAILED); }

struct Argument {
    std::vector<char> bytes;  // empty for pointers and local memory
    size_t size = 0;          // of `bytes`, or of local memory
    void *object = nullptr;   // dpctl's, for a structure or local memory
};

struct SyclKernel {
    void *const kernel;
    const std::vector<int> types;
    std::vector<void *> values;  // as a submission takes them
    std::vector<Argument> arguments;

    SyclKernel(void *kernel, std::vector<int> types)
        : kernel(kernel), types(std::move(types)), values(this->types.size()), arguments(this->types.size()) {}
    SyclKernel(const SyclKernel &) = delete;
    ~SyclKernel() {
        for (size_t i = 0; i < types.size(); i++) set_object(i, nullptr);
        if (kernel) sycl.Kernel_Delete(kernel);
    }

    void set_object(size_t index, void *object) {
        void *before = std::exchange(arguments[index].object, object);
        values[index] = object;
        if (before && types[index] == WORK_GROUP_MEMORY) sycl.WorkGroupMemory_Delete(before);
        if (before && types[index] == RAW_ARGUMENT) sycl.RawKernelArg_Delete(before);
    }

    // Set a by-value argument, or the size of local memory.
    Status set(uint32_t index, size_t size, const void *value) {
        Argument &argument = arguments[index];
        void *made = nullptr;
        if (types[index] == WORK_GROUP_MEMORY) {
            if (argument.size == size) return 0;
            Status status = sycl.WorkGroupMemory_Create(&made, size);
            argument.size = status ? 0 : size;
            set_object(index, made);
            return status;
        }
        argument.size = size;
        argument.bytes.resize(size);  // only the first call changes it
        std::memcpy(argument.bytes.data(), value, size);
        if (types[index] != RAW_ARGUMENT) {
            values[index] = argument.bytes.data();
            return 0;
        }
        Status status = sycl.RawKernelArg_Create(&made, argument.bytes.data(), size);  // it copies the bytes
        if (!status) set_object(index, made);
        return status;
    }

    // A copy with its own arguments. None if SYCL refuses.
    std::shared_ptr<SyclKernel> copy() const {
        auto copied = std::make_shared<SyclKernel>(sycl.Kernel_Copy(kernel), types);
        if (!copied->kernel) return nullptr;
        for (size_t i = 0; i < types.size(); i++) {
            if (!arguments[i].size)
                copied->values[i] = values[i];
            else if (copied->set(i, arguments[i].size, arguments[i].bytes.data()))
                return nullptr;
        }
        return copied;
    }
};

enum EventState {
    PENDING,     // not submitted to SYCL yet, or a closed gate
    SUBMITTED,   // SYCL's event has the state; without one it is done
    ENDED_BADLY  // SYCL never got the work that it is for
};

struct SyclQueue;

// Shared with the markers after a failure, which may outlive the queue.
typedef std::shared_ptr<std::atomic<bool>> Untold;

// Guards the lists of all held queues, because one gate may free several. Taken while holding the lock of a forebay
// queue, never the other way round. It stays locked while commands go to SYCL, to keep their order.
inline Lock held_lock;
// On the heap, never deleted: threads may wait for it at exit, or have waited before a fork.
inline std::condition_variable_any &handed_on = *new std::condition_variable_any();

struct SyclEvent : Counted<SyclEvent> {
    std::atomic<int> state;
    void *event;     // SYCL's; NULL while pending, and always for gates and what was refused
    Untold failure;  // of a marker: the queue's, if an earlier command has failed unreported
    std::vector<SyclQueue *> waiters GUARDED_BY(held_lock);  // held by this event

    SyclEvent(int state, void *event) : state(state), event(event) {}
    ~SyclEvent() {
        if (event) sycl.Event_Delete(event);
    }

    bool is(int wanted) const { return state.load(std::memory_order_acquire) == wanted; }

    // Whether the event's command was refused, or is behind a gate that failed, and no wait has reported it. Later work
    // is done when it is: memory that waits for a marker of its own is released.
    bool has_failed() const { return is(ENDED_BADLY) && (!failure || failure->load(std::memory_order_acquire)); }

    // Whether a wait has to report a failure of the event, or an earlier one of its queue; true once.
    bool tell_failure() { return failure ? failure->exchange(false) : is(ENDED_BADLY); }

    // End the pending state; the queues that it held may continue.
    void settle(int as, void *made, std::vector<SyclQueue *> &free_again) REQUIRES(held_lock) {
        event = made;
        state.store(as, std::memory_order_release);
        free_again.insert(free_again.end(), waiters.begin(), waiters.end());
        waiters.clear();
    }
};

struct SyclContext {  // of dpctl's objects, borrowed
    void *context;
    void *device;
    void *queue;    // for allocations; gets no commands
    void *joining;  // out of order
};

// If SYCL has all events of the wait list, replaces them by SYCL's events, which may be fewer, and returns true.
inline bool read_waits(Waits &waits) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < waits.count; i++)
        if (static_cast<SyclEvent *>(waits.events[i])->is(PENDING)) return false;
    for (uint32_t i = 0; i < waits.count; i++)  // NULL for a refused one, which needs no wait
        if (void *event = static_cast<SyclEvent *>(waits.events[i])->event) waits.events[kept++] = event;
    waits.count = kept;
    return true;
}

// SYCL does not distinguish a failed command from a failed query.
inline Answer status_of(void *event) {
    const int state = sycl.Event_GetCommandExecutionStatus(event);
    if (!state) return failed(CALL_Event_GetCommandExecutionStatus);  // dpctl returns this after an exception
    return state == COMPLETE ? DONE : NOT_YET;
}

// -- submissions: the caller owns the event; the waits are SYCL's events

inline Status submit_kernel(void *queue, SyclKernel *kernel, const Geometry &geometry, Waits waits, void **event) {
    // In SYCL the last dimension varies fastest, in OpenCL and HIP the first.
    size_t global_size[3], local_size[3];
    for (int i = 0, last = geometry.dimensions - 1; i <= last; i++) {
        global_size[last - i] = geometry.global_size[i];
        local_size[last - i] = geometry.local_size[i];
    }
    return sycl.Queue_SubmitNDRange(event, kernel->kernel, queue, kernel->values.data(), kernel->types.data(),
        kernel->values.size(), global_size, local_size, geometry.dimensions, waits.events, waits.count);
}

inline Status submit_barrier(void *queue, Waits waits, void **event) {
    if (!waits.count) return sycl.Queue_SubmitBarrier(event, queue);
    return sycl.Queue_SubmitBarrierForEvents(event, queue, waits.events, waits.count);
}

typedef std::array<unsigned char, 128> Pattern;

// Fill with patterns longer than dpctl's 16 bytes: write one element, then copy it by doubling.
inline Status fill_by_doubling(
    void *queue, char *to, const Pattern &pattern, size_t pattern_size, size_t nbytes, void **event) {
    void *before = nullptr;
    Status status = 0;
    for (size_t done = 0, more; !status && done < nbytes; done += more) {
        if (done < pattern_size) {
            uint64_t part[2];
            more = sizeof part;
            std::memcpy(part, &pattern[done], more);
            status = sycl.Queue_Fill128(event, queue, to + done, part, 1);
        } else {
            more = std::min(done, nbytes - done);
            status = sycl.Queue_Memcpy(event, queue, to + done, to, more);
        }
        if (before) {
            if (status) sycl.Event_Wait(before);  // the earlier parts are not reported, and the memory may be freed
            sycl.Event_Delete(before);
        }
        before = *event;
    }
    return status;
}

inline Status submit_fill(void *queue, void *to, const Pattern &pattern, size_t pattern_size, size_t nbytes,
    Waits waits, void **event) {
    uint64_t words[2] = {};
    const size_t count = nbytes / pattern_size;
    if (waits.count) {  // dpctl's fills take no wait list
        if (Status status = submit_barrier(queue, waits, event)) return status;
        sycl.Event_Delete(*event);
    }
    std::memcpy(words, pattern.data(), std::min(pattern_size, sizeof words));
    switch (pattern_size) {
    case 1: return sycl.Queue_Memset(event, queue, to, words[0], count);
    case 2: return sycl.Queue_Fill16(event, queue, to, words[0], count);
    case 4: return sycl.Queue_Fill32(event, queue, to, words[0], count);
    case 8: return sycl.Queue_Fill64(event, queue, to, words[0], count);
    case 16: return sycl.Queue_Fill128(event, queue, to, words, count);
    default: return fill_by_doubling(queue, static_cast<char *>(to), pattern, pattern_size, nbytes, event);
    }
}

// -- queues: defer commands behind a gate, and submit them to SYCL when it opens

enum DeferredKind {
    COMMAND,
    MARKER,   // submitted after a failure, too: a wait for it is a wait for what runs
    ARRIVAL,  // wakes the host thread
    GATE
};

struct Deferred {
    DeferredKind kind;
    std::function<Status(void *queue, Waits waits, void **event)> submit;  // none of a gate
    Refs<SyclEvent> waits;
    Ref<SyclEvent> event;  // the event for the caller; of a GATE the gate itself

    SyclEvent *holder() const {
        if (kind == GATE) return event->is(PENDING) ? event.get() : nullptr;
        for (SyclEvent *each : waits)
            if (each->is(PENDING)) return each;
        return nullptr;
    }
};

struct SyclQueue {
    void *const queue;  // owned
    const bool adopted;
    std::atomic<bool> held{false};  // set only under the lock of forebay's queue
    std::deque<std::unique_ptr<Deferred>> deferred GUARDED_BY(held_lock);
    bool failing GUARDED_BY(held_lock) = false;  // behind a gate that failed
    // Set when a deferred command was not submitted, until that is reported.
    Untold failed = std::make_shared<std::atomic<bool>>(false);

    SyclQueue(void *queue, bool adopted) : queue(queue), adopted(adopted) {}
    ~SyclQueue() { sycl.Queue_Delete(queue); }

    // Submit a command by `submit`, or defer it if something holds it; then an error comes later, like one of the
    // device.
    template <class F> Status give(DeferredKind kind, F submit, Waits waits, void **event) {
        Ref<SyclEvent> made;
        Status status = 0;
        if (held.load(std::memory_order_acquire) || !read_waits(waits)) {
            if (event) made = Ref<SyclEvent>::adopt(new SyclEvent(PENDING, nullptr));
            status = defer(kind, std::move(submit), waits, made);
        } else {
            void *submitted = nullptr;
            status = submit(queue, waits, &submitted);
            if (!status) made = Ref<SyclEvent>::adopt(new SyclEvent(SUBMITTED, submitted));
            if (!status) note_failure(kind, made);
        }
        if (!status && event) *event = made.take();
        return status;
    }

    // Append the command, and submit what nothing holds.
    template <class F> Status defer(DeferredKind kind, F submit, Waits waits, Ref<SyclEvent> event) {
        if (adopted) return forebay_sycl::failed(WAITS_FOR_HELD);
        std::unique_ptr<Deferred> kept(new Deferred{kind, std::move(submit), {}, std::move(event)});
        for (uint32_t i = 0; i < waits.count; i++) kept->waits.share(static_cast<SyclEvent *>(waits.events[i]));
        Guard guard(held_lock);
        held.store(true, std::memory_order_release);
        deferred.push_back(std::move(kept));
        if (deferred.size() == 1) hand_on_all({this});  // otherwise the front already waits
        return 0;
    }

    // Submit for these queues, and for those that become free meanwhile.
    static void hand_on_all(std::vector<SyclQueue *> free_again) REQUIRES(held_lock) {
        while (!free_again.empty()) take_last(free_again)->hand_on(free_again);
        handed_on.notify_all();
    }

  private:
    void note_failure(DeferredKind kind, SyclEvent *event) {
        if (kind == MARKER && failed->load(std::memory_order_acquire)) event->failure = failed;
    }

    // Submit the list up to the first command that is still held.
    void hand_on(std::vector<SyclQueue *> &free_again) REQUIRES(held_lock) {
        for (; !deferred.empty(); deferred.pop_front()) {
            if (SyclEvent *holder = deferred.front()->holder()) return holder->waiters.push_back(this);
            hand_on(*deferred.front(), free_again);
        }
        failing = false;
        held.store(false, std::memory_order_release);
    }

    void hand_on(Deferred &kept, std::vector<SyclQueue *> &free_again) REQUIRES(held_lock) {
        if (kept.kind == GATE) {
            if (!kept.event->is(ENDED_BADLY)) return;
            failing = true;
            return failed->store(true);
        }
        std::vector<void *> events;
        bool fails = failing;
        for (SyclEvent *each : kept.waits) {
            events.push_back(each);
            fails = fails || each->is(ENDED_BADLY);
        }
        Waits waits = {uint32_t(events.size()), events.data()};
        void *made = nullptr;
        read_waits(waits);
        if (!fails || kept.kind != COMMAND) fails = kept.submit(queue, waits, &made) || fails;
        if (kept.kind == ARRIVAL) return;
        if (fails) failed->store(true);
        if (kept.event) {
            if (made) note_failure(kept.kind, kept.event);
            kept.event->settle(fails ? ENDED_BADLY : SUBMITTED, made, free_again);
        } else if (made) {
            sycl.Event_Delete(made);
        }
    }
};

// -- the operations

inline Status launch(void *queue, void *kernel, const Geometry *geometry, Waits waits) {
    SyclQueue *on = static_cast<SyclQueue *>(queue);
    SyclKernel *launched = static_cast<SyclKernel *>(kernel);
    if (!on->held.load(std::memory_order_acquire) && (!waits.count || read_waits(waits))) {
        void *event = nullptr;
        Status status = submit_kernel(on->queue, launched, *geometry, waits, &event);
        if (!status) sycl.Event_Delete(event);  // dpctl makes an event for every launch
        return status;
    }
    if (on->adopted) return failed(WAITS_FOR_HELD);
    std::shared_ptr<SyclKernel> kept = launched->copy();
    if (!kept) return failed(OUT_OF_MEMORY);
    auto submit = [kept, geometry = *geometry](void *queue, Waits waits, void **event) {
        return submit_kernel(queue, kept.get(), geometry, waits, event);
    };
    return on->defer(COMMAND, submit, waits, nullptr);
}

inline Status set_pointer(void *kernel, uint32_t index, const Memory *memory) {
    static_cast<SyclKernel *>(kernel)->values[index] = memory->pointer();
    return 0;
}

inline Status set_value(void *kernel, uint32_t index, size_t size, const void *value) {
    return static_cast<SyclKernel *>(kernel)->set(index, size, value);
}

inline Status copy(void *queue, const Memory *to, const Memory *source, size_t nbytes, Waits waits, void **event) {
    auto submit = [to = to->pointer(), source = source->pointer(), nbytes](void *queue, Waits waits, void **event) {
        if (!waits.count) return sycl.Queue_Memcpy(event, queue, to, source, nbytes);
        return sycl.Queue_MemcpyWithEvents(event, queue, to, source, nbytes, waits.events, waits.count);
    };
    return static_cast<SyclQueue *>(queue)->give(COMMAND, submit, waits, event);
}

inline Status fill(void *queue, const Memory *to, const void *pattern, size_t pattern_size, size_t nbytes, Waits waits,
    void **event) {
    Pattern kept;
    std::memcpy(kept.data(), pattern, pattern_size);
    auto submit = [=, to = to->pointer()](void *queue, Waits waits, void **event) {
        return submit_fill(queue, to, kept, pattern_size, nbytes, waits, event);
    };
    return static_cast<SyclQueue *>(queue)->give(COMMAND, submit, waits, event);
}

inline Status marker(void *queue, Waits waits, int, void **event) {
    return static_cast<SyclQueue *>(queue)->give(MARKER, submit_barrier, waits, event);
}

inline Status barrier(void *queue, Waits waits) { return marker(queue, waits, 0, nullptr); }

// Order the queue after the waits, which SYCL must have, and call `wake` when it gets there. SYCL has no callbacks, so
// a thread waits, which never needs the GIL.
inline Status arrive(void *queue, Waits waits, HostCallback wake, void *data) {
    void *made = nullptr;
    if (!wake && !waits.count) return 0;
    Status status = submit_barrier(queue, waits, &made);
    if (status) return status;
    if (wake) {
        auto wait_and_wake = [=] {
            while (status_of(made) == NOT_YET) sycl.Event_Wait(made);  // returns early after an exception
            sycl.Event_Delete(made);
            wake(data);
        };
        try {
            std::thread(wait_and_wake).detach();
            return 0;
        } catch (...) {  // no more threads
            status = failed(OUT_OF_MEMORY);
        }
    }
    sycl.Event_Delete(made);
    return status;
}

// Defer later commands until the gate is opened. Do not use `gate` once `wake` may have been called: the woken thread
// may open and destroy it.
inline Status hold(void *queue, void *, Waits waits, HostCallback wake, void *data, void **gate) {
    SyclQueue *held = static_cast<SyclQueue *>(queue);
    Status status = 0;
    if (held->adopted) return failed(HOLDS_ADOPTED);
    Ref<SyclEvent> made = Ref<SyclEvent>::adopt(new SyclEvent(PENDING, nullptr)), given = made;
    *gate = given.get();
    if (!held->held.load(std::memory_order_acquire) && read_waits(waits)) {
        status = arrive(held->queue, waits, wake, data);
    } else if (wake) {
        auto submit = [=](void *queue, Waits waits, void **) {
            if (arrive(queue, waits, wake, data)) wake(data);  // early is better than never
            return Status(0);
        };
        status = held->defer(ARRIVAL, submit, waits, nullptr);
    } else if (waits.count) {
        status = held->defer(MARKER, submit_barrier, waits, nullptr);
    }
    if (status) {
        *gate = nullptr;
        return status;
    }
    given.take();
    return held->defer(GATE, nullptr, {}, made);
}

inline Status open_gate(void *gate, int failed) {
    SyclEvent *opened = static_cast<SyclEvent *>(gate);
    std::vector<SyclQueue *> free_again;
    Guard guard(held_lock);
    if (!opened->is(PENDING)) return 0;
    opened->settle(failed ? ENDED_BADLY : SUBMITTED, nullptr, free_again);
    SyclQueue::hand_on_all(std::move(free_again));
    return 0;
}

// Wait, then query the state: after an exception dpctl returns normally.
inline Status await_event(void *event) {
    sycl.Event_Wait(event);
    return status_of(event) == DONE ? 0 : failed(CALL_Event_Wait);
}

// Join several events by a barrier on the context's out-of-order queue, and wait for that. Failures from before the
// submission to SYCL are reported when the rest is done.
inline Status wait_events(void *context, Waits events, Interrupted) {
    std::vector<void *> given(events.events, events.events + events.count);
    Waits waits = {events.count, given.data()};
    void *joined = nullptr;
    Status status = 0;
    for (void *each : given) {
        SyclEvent *event = static_cast<SyclEvent *>(each);
        if (!event->is(PENDING)) continue;
        std::unique_lock<Lock> held(held_lock);
        handed_on.wait(held, [=] { return !event->is(PENDING); });
    }
    read_waits(waits);
    if (waits.count == 1) {
        status = await_event(waits.events[0]);
    } else if (waits.count > 1) {
        status = submit_barrier(static_cast<SyclContext *>(context)->joining, waits, &joined);
        if (!status) status = await_event(joined);
        if (joined) sycl.Event_Delete(joined);
    }
    for (uint32_t i = 0; i < events.count; i++)
        if (static_cast<SyclEvent *>(events.events[i])->tell_failure() && !status) status = failed(GATE_FAILED);
    return status;
}

inline Status tell_failure(void *queue) {
    return static_cast<SyclQueue *>(queue)->failed->exchange(false) ? failed(GATE_FAILED) : 0;
}

inline void renew_queue(void *queue) {
    Guard guard(held_lock);  // another thread may still be emptying the list
    static_cast<SyclQueue *>(queue)->failed = std::make_shared<std::atomic<bool>>(false);  // markers keep the old one
}

inline Answer event_status(void *event) {
    SyclEvent *asked = static_cast<SyclEvent *>(event);
    if (asked->is(PENDING)) return NOT_YET;
    const Answer answer = asked->event ? status_of(asked->event) : DONE;
    return answer == DONE && asked->has_failed() ? FAILED : answer;
}

inline Status elapsed(void *first, void *second, double *nanoseconds) {
    const uint64_t begin = sycl.Event_GetProfilingInfoEnd(static_cast<SyclEvent *>(first)->event);
    const uint64_t end = begin ? sycl.Event_GetProfilingInfoEnd(static_cast<SyclEvent *>(second)->event) : 0;
    *nanoseconds = double(int64_t(end - begin));
    return end ? 0 : failed(CALL_Event_GetProfilingInfoEnd);
}

// SYCL can wait for events of other contexts.
inline Status bridge(void *, void *event, void **bridged) {
    *bridged = retain(static_cast<SyclEvent *>(event));
    return 0;
}

inline void destroy_event(void *event) { release(static_cast<SyclEvent *>(event)); }
inline void destroy_kernel(void *kernel) { delete static_cast<SyclKernel *>(kernel); }

inline void destroy_queue(void *queue) {
    std::unique_ptr<SyclQueue> released(static_cast<SyclQueue *>(queue));
    Guard guard(held_lock);  // another thread may still be emptying the list
    released->deferred.clear();
}

inline Driver table = {
    .launch = launch, .set_pointer = set_pointer, .set_value = set_value, .copy = copy, .fill = fill, .marker = marker,
    .barrier = barrier, .hold = hold, .open_gate = open_gate, .wait_events = wait_events, .tell_failure = tell_failure,
    .renew_queue = renew_queue, .event_status = event_status, .elapsed = elapsed, .bridge = bridge,
    .destroy_event = destroy_event, .destroy_kernel = destroy_kernel, .destroy_queue = destroy_queue};

}
