// What is behind Level Zero's handles: contexts, devices, queues, events, modules. What refers to one holds it, and it
// ends with its last reference. The locks of devices are taken last, and never held across a release.

#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/driver.hpp"
#include "core/ownership.hpp"
#include "queues/levelzero/calls.hpp"

namespace forebay_ze {

using forebay::Counted;
using forebay::Lock;
using forebay::Ref;
using forebay::Refs;
using forebay::take_last;
typedef int64_t Status;
typedef std::lock_guard<Lock> Locked;

extern Calls ze;  // operations.pyx has it

enum EventKind {  // as the core's MarkerUse
    DEVICE_EVENT,  // only lists of the device wait for it
    HOST_EVENT,    // the host and other devices may wait for it too
    TIMED_EVENT,
    GATE_EVENT,  // the host signals it
    EVENT_KINDS
};

enum EventMode {
    COUNTER_BASED,       // zeEventCounterBasedCreate
    COUNTER_BASED_POOL,  // the event-pool extension of older drivers
    RESET  // neither: plain events, which must be reset, but only after every command that waits for them has run
};

enum : uint32_t {
    IN_ORDER = 1 << 1,  // of a queue's descriptor
    ASYNCHRONOUS = 2,
    POOL_HOST_VISIBLE = 1 << 0, POOL_TIMESTAMPS = 1 << 2,
    COUNTER_IMMEDIATE = 1 << 0, COUNTER_HOST_VISIBLE = 1 << 2, COUNTER_TIMESTAMPS = 1 << 4,
    SCOPE_DEVICE = 1 << 1, SCOPE_HOST = 1 << 2,
    POOL_SIZE = 64,
    HELD_AT_MOST = 64
};

struct ZeDevice;
struct ZeQueue;

// One for all devices of a driver, so that they can wait for each other's events.
struct ZeContext {
    void *handle = nullptr;

    ~ZeContext() {
        if (handle) ze.ContextDestroy(handle);
    }

    static Status open(void *driver, std::shared_ptr<ZeContext> &context) {
        static Lock lock;
        static std::map<void *, std::weak_ptr<ZeContext>> contexts;  // by driver
        Locked held(lock);
        std::weak_ptr<ZeContext> &known = contexts[driver];
        if (!(context = known.lock())) {
            ContextDesc desc;
            context = std::make_shared<ZeContext>();
            if (Status status = ze.ContextCreate(driver, &desc, &context->handle)) return status;
            known = context;
        }
        return 0;
    }
};

struct ZeEvent : Counted<ZeEvent> {
    const EventKind kind;
    void *handle = nullptr;
    Ref<ZeDevice> device;  // none while it is idle

    // The queue that signals it: a query of a counter-based event reads its list's counter. Intel's driver (26.27) also
    // refers to the list of a plain event until the event is reset. If the list is destroyed earlier, the heap is
    // corrupted.
    Ref<ZeQueue> queue;
    Ref<ZeEvent> passed;  // gates only: signalled once the queue is past the gate; none before it is set, or if unknown

    explicit ZeEvent(EventKind kind) : kind(kind) {}
    ~ZeEvent() {
        if (handle) ze.EventDestroy(handle);
    }
    static void destroy(ZeEvent *event);  // it is idle then
};

// A wait for many events on a private list.
struct ZeJoin {
    Ref<ZeQueue> list;
    Ref<ZeEvent> joined;  // signalled when the list is idle again
    Refs<ZeQueue> awaited;  // it waits for the counters of their lists
};

struct ZeDevice : Counted<ZeDevice> {
    std::shared_ptr<ZeContext> context;
    void *const handle;
    const EventMode mode;
    double nanoseconds_per_tick = 0;
    uint64_t timestamp_mask = 0;
    Lock lock;  // guards all below
    std::vector<std::unique_ptr<ZeEvent>> idle[EVENT_KINDS];  // events that can be used again
    std::vector<Ref<ZeEvent>> closing_gates;  // open gates that their queue may not have passed yet
    std::vector<void *> pools;
    void *newest_pool[EVENT_KINDS] = {};
    uint32_t pool_used[EVENT_KINDS] = {};
    std::vector<Ref<ZeQueue>> joins;  // private lists for host waits on many events, each one wait's at a time: idle
    std::vector<ZeJoin> left_joins;  // waits that go on after the host has left them

    ZeDevice(void *handle, EventMode mode) : handle(handle), mode(mode) {}
    ~ZeDevice() {
        for (auto &events : idle) events.clear();
        for (void *pool : pools) ze.EventPoolDestroy(pool);
    }
    static Status open(void *driver, void *handle, EventMode mode, Ref<ZeDevice> &opened) {
        Ref<ZeDevice> device = Ref<ZeDevice>::adopt(new ZeDevice(handle, mode));
        Status status = ZeContext::open(driver, device->context);
        if (!status) opened = std::move(device);
        return status;
    }

    // The owner closes it, after all work is done, and submits no more.
    void close();

    // An idle event, or a new one.
    Status take_event(EventKind kind, Ref<ZeEvent> &taken);

    // The gate is open. It can be used again once its queue is past it.
    void retire_gate(Ref<ZeEvent> gate) {
        Locked held(lock);
        closing_gates.push_back(std::move(gate));
    }
    void recycle_gates(bool all_done);

    // An idle private list, or a new one.
    Status take_join(ZeJoin &join);
    void keep_join(ZeJoin &join) {  // it is idle
        Locked held(lock);
        joins.push_back(std::move(join.list));
    }
    void leave_join(ZeJoin &join) {  // it ends with the device if it has no event
        Locked held(lock);
        left_joins.push_back(std::move(join));
    }

  private:
    Status create_event(EventKind kind, void **handle);
    Status create_in_pool(EventKind kind, const EventDesc &scopes, void **handle);
};

// RESET mode: what commands of a queue signal or wait for.
struct ZeHeld {
    Ref<ZeEvent> passed;  // once this is signalled, the queue is done with the events
    Refs<ZeEvent> events;
};

struct ZeQueue : Counted<ZeQueue> {
    Ref<ZeDevice> device;
    void *list = nullptr;
    uint32_t ordinal;
    Refs<ZeEvent> held;  // RESET mode only, as the batches
    std::vector<ZeHeld> batches;

    ZeQueue(Ref<ZeDevice> device, uint32_t ordinal) : device(std::move(device)), ordinal(ordinal) {}
    ~ZeQueue() {
        if (list) ze.CommandListDestroy(list);
    }
    static Status create(
        ZeDevice *device, uint32_t ordinal, uint32_t index, uint32_t priority, Ref<ZeQueue> &made) {
        QueueDesc desc;
        desc.ordinal = ordinal;
        desc.index = index;
        desc.flags = IN_ORDER;
        desc.mode = ASYNCHRONOUS;
        desc.priority = priority;
        Ref<ZeQueue> queue = Ref<ZeQueue>::adopt(new ZeQueue(Ref<ZeDevice>::share(device), ordinal));
        Status status = ze.CommandListCreateImmediate(device->context->handle, device->handle, &desc, &queue->list);
        if (!status) made = std::move(queue);
        return status;
    }

    // The owner ends it, after all its commands are done, and submits no more.
    void end() {
        if (device->mode != RESET) return;
        // The signal of a plain event may still be running, and the event is about to be used again.
        ze.CommandListHostSynchronize(list, UINT64_MAX);
        batches.clear();
        held.clear();
    }

    // An event that the next command of the queue signals.
    Status event_to_signal(EventKind kind, Ref<ZeEvent> &event) {
        if (device->mode == RESET)
            if (Status status = hold_events()) return status;
        if (Status status = device->take_event(kind, event)) return status;
        if (device->mode == RESET) held.push_back(event);
        event->queue = Ref<ZeQueue>::share(this);
        return 0;
    }

    Status signal(EventKind kind, Ref<ZeEvent> &event) {
        Status status = event_to_signal(kind, event);
        if (!status) status = ze.CommandListAppendSignalEvent(list, event->handle);
        if (status) event.clear();  // a query of one that was never signalled can say that it is done
        return status;
    }

  private:
    // Release plain events once every command that signals or waits for them has run. The queue keeps the events of its
    // commands. From time to time it signals one more; once that is done, the kept ones are too.
    Status hold_events() {
        while (!batches.empty() && ze.EventQueryStatus(batches.front().passed->handle) == 0)
            batches.erase(batches.begin());
        if (held.size() < HELD_AT_MOST) return 0;
        ZeHeld batch;
        Status status = device->take_event(HOST_EVENT, batch.passed);
        if (!status) status = ze.CommandListAppendSignalEvent(list, batch.passed->handle);
        if (status) return status;
        batch.events.swap(held);
        batches.push_back(std::move(batch));
        return 0;
    }
};

// A list that can be appended to any immediate list of its ordinal, and again while it still runs.
struct ZeRecording {
    Ref<ZeDevice> device;
    void *list = nullptr;
    bool changeable;
    std::vector<uint64_t> ids;  // by command, if it is changeable: what the driver calls a launch, 0 for others
    std::vector<ArgumentChange> arguments;  // room for the next change's descriptors, so that it allocates nothing
    std::vector<GroupsChange> groups;

    ZeRecording(Ref<ZeDevice> device, bool changeable) : device(std::move(device)), changeable(changeable) {}
    ~ZeRecording() {
        if (list) ze.CommandListDestroy(list);
    }
};

// A plan may keep a kernel for longer than anybody keeps the program, and the driver keeps no module for its kernels.
struct ZeModule : Counted<ZeModule> {
    Ref<ZeDevice> device;
    void *handle;

    ZeModule(Ref<ZeDevice> device, void *handle) : device(std::move(device)), handle(handle) {}
    ~ZeModule() { ze.ModuleDestroy(handle); }
};

struct ZeKernel {
    void *handle;
    Ref<ZeModule> module;
    uint32_t group[3] = {};

    ZeKernel(void *handle, Ref<ZeModule> module) : handle(handle), module(std::move(module)) {}
    ~ZeKernel() { ze.KernelDestroy(handle); }
};

// -- devices

inline void ZeDevice::close() {
    recycle_gates(true);
    for (auto &join : joins) join->end();
    joins.clear();
    for (auto &join : left_joins) {
        ze.CommandListHostSynchronize(join.list->list, UINT64_MAX);
        join.list->end();
    }
    left_joins.clear();
}

inline Status ZeDevice::take_join(ZeJoin &join) {
    ZeJoin ended;
    {
        Locked held(lock);
        join.list = take_last(joins);
        if (!join.list.get() && !left_joins.empty() && left_joins.back().joined.get() &&
            ze.EventQueryStatus(left_joins.back().joined->handle) == 0) {
            ended = take_last(left_joins);
            join.list = ended.list;
        }
    }
    return join.list.get() ? 0 : ZeQueue::create(this, 0, 0, 0, join.list);
}

// -- events

inline Status ZeDevice::take_event(EventKind kind, Ref<ZeEvent> &taken) {
    std::unique_ptr<ZeEvent> event;
    if (kind == GATE_EVENT) recycle_gates(false);
    {
        Locked held(lock);
        event = take_last(idle[kind]);
    }
    if (!event) {
        event = std::make_unique<ZeEvent>(kind);
        if (Status status = create_event(kind, &event->handle)) return status;
    } else if (kind == GATE_EVENT || mode == RESET) {
        // Without a query: the host cannot see whether an event for the device alone is signalled.
        if (Status status = ze.EventHostReset(event->handle)) return status;
    }
    event->references.store(1, std::memory_order_relaxed);
    event->device = Ref<ZeDevice>::share(this);
    taken = Ref<ZeEvent>::adopt(event.release());
    return 0;
}

inline void ZeEvent::destroy(ZeEvent *event) {
    Ref<ZeDevice> device = std::move(event->device);
    if (device->mode == RESET && event->kind != GATE_EVENT)
        ze.EventHostReset(event->handle);  // a failure here is harmless: take_event resets it again
    event->queue.clear();
    event->passed.clear();
    Locked held(device->lock);
    device->idle[event->kind].emplace_back(event);
}

inline Status ZeDevice::create_event(EventKind kind, void **made) {
    // Null hardware shows no difference between scopes; a real device does.
    EventDesc scopes;
    scopes.signal = kind == DEVICE_EVENT ? SCOPE_DEVICE : SCOPE_HOST;
    scopes.wait = kind == GATE_EVENT ? SCOPE_HOST : SCOPE_DEVICE;
    if (kind == GATE_EVENT || mode != COUNTER_BASED) return create_in_pool(kind, scopes, made);
    CounterDesc desc;
    desc.flags = COUNTER_IMMEDIATE | (kind != DEVICE_EVENT ? COUNTER_HOST_VISIBLE : 0) |
                 (kind == TIMED_EVENT ? COUNTER_TIMESTAMPS : 0);
    desc.signal = scopes.signal;
    desc.wait = scopes.wait;
    return ze.EventCounterBasedCreate(context->handle, handle, &desc, made);
}

inline Status ZeDevice::create_in_pool(EventKind kind, const EventDesc &scopes, void **made) {
    Locked held(lock);
    if (!newest_pool[kind] || pool_used[kind] == POOL_SIZE) {
        EventPoolDesc desc;
        CounterPoolDesc counters;
        desc.count = POOL_SIZE;
        desc.flags = (kind != DEVICE_EVENT || mode == RESET ? POOL_HOST_VISIBLE : 0) |  // the host queries, and resets
                     (kind == TIMED_EVENT ? POOL_TIMESTAMPS : 0);
        counters.flags = COUNTER_IMMEDIATE;
        if (kind != GATE_EVENT && mode == COUNTER_BASED_POOL) desc.next = &counters;
        // no list of devices means all of the context: they may wait for each other's events
        void *pool = nullptr;
        if (Status status = ze.EventPoolCreate(context->handle, &desc, 0, nullptr, &pool)) return status;
        pools.push_back(pool);
        newest_pool[kind] = pool;
        pool_used[kind] = 0;
    }
    EventDesc desc = scopes;
    desc.index = pool_used[kind];
    Status status = ze.EventCreate(newest_pool[kind], &desc, made);
    pool_used[kind] += status == 0;
    return status;
}

inline void ZeDevice::recycle_gates(bool all_done) {
    std::vector<Ref<ZeEvent>> passed;
    Locked held(lock);
    auto first = std::partition(closing_gates.begin(), closing_gates.end(), [=](const Ref<ZeEvent> &gate) {
        return !all_done && !(gate->passed.get() && ze.EventQueryStatus(gate->passed->handle) == 0);
    });
    passed.assign(std::make_move_iterator(first), std::make_move_iterator(closing_gates.end()));
    closing_gates.erase(first, closing_gates.end());
}

}  // namespace forebay_ze
