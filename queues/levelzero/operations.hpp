// Level Zero's table of operations: what is behind the handles (contexts, devices, queues, events, modules), and then
// the operations. Objects that refer to one of these hold a reference. The locks of devices are taken last, and never
// held across a release.

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

using namespace forebay;
typedef std::lock_guard<Lock> Locked;

inline Calls ze;  // the `load` of operations.pyx fills it

enum EventKind {  // as core's MarkerUse
    DEVICE_EVENT,  // only lists of the device wait for it
    HOST_EVENT,    // the host and other devices may wait for it too
    TIMED_EVENT,
    GATE_EVENT,  // the host signals it
    EVENT_KINDS
};

enum EventMode {
    COUNTER_BASED,      // zeEventCounterBasedCreate
    COUNTER_BASED_POOL  // the event-pool extension of older drivers
};

enum : uint32_t {
    IN_ORDER = 1 << 1,  // of a queue's descriptor
    ASYNCHRONOUS = 2,
    POOL_HOST_VISIBLE = 1 << 0, POOL_TIMESTAMPS = 1 << 2,
    COUNTER_IMMEDIATE = 1 << 0, COUNTER_HOST_VISIBLE = 1 << 2, COUNTER_TIMESTAMPS = 1 << 4,
    SCOPE_DEVICE = 1 << 1, SCOPE_HOST = 1 << 2,
    POOL_SIZE = 64,
    LIST_IN_ORDER = 1 << 3,  // of a list's descriptor
    CHANGES_ALL = 3,         // of a launch in a list: its arguments and groups
    NOT_READY = 1, DEVICE_LOST = 0x70000001, UNSUPPORTED_FEATURE = 0x78000003,  // results
    WAIT_SLICE = 50000000  // nanoseconds between calls of `interrupted`
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
    Ref<ZeDevice> device;  // none while idle

    Ref<ZeQueue> queue;  // signals it: a query reads the counter of its list
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
    std::vector<std::unique_ptr<ZeEvent>> idle[EVENT_KINDS];  // can be used again
    std::vector<Ref<ZeEvent>> closing_gates;  // open gates that their queue may not have passed yet
    std::vector<void *> pools;
    void *newest_pool[EVENT_KINDS] = {};
    uint32_t pool_used[EVENT_KINDS] = {};
    std::vector<Ref<ZeQueue>> joins;  // idle private lists for host waits on many events, one wait at a time each
    std::vector<ZeJoin> left_joins;  // pending waits that the host has left

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

    // Called by the owner once all work is done; it submits no more.
    void close();

    // An idle event, or a new one.
    Status take_event(EventKind kind, Ref<ZeEvent> &taken);

    // The gate is open. It is idle once its queue is past it.
    void retire_gate(Ref<ZeEvent> gate) {
        Locked held(lock);
        closing_gates.push_back(std::move(gate));
    }
    void recycle_gates(bool all_done);

    Status take_join(ZeJoin &join);
    void keep_join(ZeJoin &join) {  // it is idle
        Locked held(lock);
        joins.push_back(std::move(join.list));
    }
    void leave_join(ZeJoin &join) {  // without an event it ends with the device
        Locked held(lock);
        left_joins.push_back(std::move(join));
    }

  private:
    Status create_event(EventKind kind, void **handle);
    Status create_in_pool(EventKind kind, const EventDesc &scopes, void **handle);
};

struct ZeQueue : Counted<ZeQueue> {
    Ref<ZeDevice> device;
    void *list = nullptr;
    uint32_t ordinal;

    ZeQueue(Ref<ZeDevice> device, uint32_t ordinal) : device(std::move(device)), ordinal(ordinal) {}
    ~ZeQueue() {
        if (list) ze.CommandListDestroy(list);
    }
    static Status create(ZeDevice *device, uint32_t ordinal, uint32_t index, uint32_t priority, Ref<ZeQueue> &made) {
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

    // Make an event for the next command of the queue to signal.
    Status event_to_signal(EventKind kind, Ref<ZeEvent> &event) {
        if (Status status = device->take_event(kind, event)) return status;
        event->queue = Ref<ZeQueue>::share(this);
        return 0;
    }

    Status signal(EventKind kind, Ref<ZeEvent> &event) {
        Status status = event_to_signal(kind, event);
        if (!status) status = ze.CommandListAppendSignalEvent(list, event->handle);
        if (status) event.clear();  // a query of an unsignalled one can report that it is done
        return status;
    }
};

// A list that can be appended to any immediate list of its ordinal, also while it still runs.
struct ZeRecording {
    Ref<ZeDevice> device;
    void *list = nullptr;
    bool changeable;
    std::vector<uint64_t> ids;  // by command, if it is changeable: the driver's id of a launch, 0 for others
    std::vector<ArgumentChange> arguments;  // storage of a change, so that it allocates nothing
    std::vector<GroupsChange> groups;

    ZeRecording(Ref<ZeDevice> device, bool changeable) : device(std::move(device)), changeable(changeable) {}
    ~ZeRecording() {
        if (list) ze.CommandListDestroy(list);
    }
};

// A plan may keep a kernel for longer than the program, and the driver's kernels keep no module.
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
    joins.clear();
    for (auto &join : left_joins) ze.CommandListHostSynchronize(join.list->list, UINT64_MAX);
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
    } else if (kind == GATE_EVENT) {
        if (Status status = ze.EventHostReset(event->handle)) return status;
    }
    event->references.store(1, std::memory_order_relaxed);
    event->device = Ref<ZeDevice>::share(this);
    taken = Ref<ZeEvent>::adopt(event.release());
    return 0;
}

inline void ZeEvent::destroy(ZeEvent *event) {
    Ref<ZeDevice> device = std::move(event->device);
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
        desc.flags = (kind != DEVICE_EVENT ? POOL_HOST_VISIBLE : 0) |
                     (kind == TIMED_EVENT ? POOL_TIMESTAMPS : 0);
        counters.flags = COUNTER_IMMEDIATE;
        if (kind != GATE_EVENT) desc.next = &counters;
        // an empty list of devices means all of the context: they may wait for each other's events
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

// -- the launch path

// Replace forebay's events in the wait list by the driver's handles, and return their number.
inline uint32_t to_handles(Waits waits) {
    for (uint32_t i = 0; i < waits.count; i++) waits.events[i] = static_cast<ZeEvent *>(waits.events[i])->handle;
    return waits.count;
}

inline Status set_group(ZeKernel *kernel, const Geometry *geometry) {
    const uint32_t *block = geometry->block;
    Status status = ze.KernelSetGroupSize(kernel->handle, block[0], block[1], block[2]);
    for (int i = 0; i < 3; i++) kernel->group[i] = status ? 0 : block[i];
    return status;
}

inline Status launch(void *queue, void *kernel, const Geometry *geometry, Waits waits) {
    ZeKernel *launched = static_cast<ZeKernel *>(kernel);
    const uint32_t *group = launched->group, *block = geometry->block;
    if (group[0] != block[0] || group[1] != block[1] || group[2] != block[2])
        if (Status status = set_group(launched, geometry)) return status;
    const uint32_t count = to_handles(waits);
    return ze.CommandListAppendLaunchKernel(
        static_cast<ZeQueue *>(queue)->list, launched->handle, geometry->groups, nullptr, count, waits.events);
}

inline const void *pointer_value(const Memory *memory) { return memory->address ? &memory->address : nullptr; }

inline Status set_pointer(void *kernel, uint32_t index, const Memory *memory) {
    return ze.KernelSetArgumentValue(
        static_cast<ZeKernel *>(kernel)->handle, index, sizeof(void *), pointer_value(memory));
}

inline Status set_value(void *kernel, uint32_t index, size_t size, const void *value) {
    return ze.KernelSetArgumentValue(static_cast<ZeKernel *>(kernel)->handle, index, size, value);
}

// -- other commands

// Append a command. If `event` is not NULL, the command signals a new event for the host, returned if it was accepted.
template <class F> [[gnu::always_inline]] inline Status append_signalling(void *queue, void **event, F append) {
    Ref<ZeEvent> made;
    if (event)
        if (Status status = static_cast<ZeQueue *>(queue)->event_to_signal(HOST_EVENT, made)) return status;
    Status status = append(static_cast<ZeQueue *>(queue)->list, made ? made->handle : nullptr);
    if (!status && event) *event = made.take();
    return status;
}

inline Status copy(void *queue, const Memory *to, const Memory *source, size_t nbytes, Waits waits, void **event) {
    return append_signalling(queue, event, [&](void *list, void *signal) {
        return ze.CommandListAppendMemoryCopy(
            list, to->pointer(), source->pointer(), nbytes, signal, to_handles(waits), waits.events);
    });
}

inline Status fill(void *queue, const Memory *to, const void *pattern, size_t pattern_size, size_t nbytes, Waits waits,
    void **event) {
    return append_signalling(queue, event, [&](void *list, void *signal) {
        return ze.CommandListAppendMemoryFill(
            list, to->pointer(), pattern, pattern_size, nbytes, signal, to_handles(waits), waits.events);
    });
}

inline Status barrier(void *queue, Waits waits) {
    return ze.CommandListAppendWaitOnEvents(static_cast<ZeQueue *>(queue)->list, to_handles(waits), waits.events);
}

// An immediate list submits at once, so there is nothing to flush.
inline Status marker(void *queue, Waits waits, int use, void **event) {
    Ref<ZeEvent> made;
    Status status = waits.count ? barrier(queue, waits) : 0;
    const EventKind kind = use & TIMED ? TIMED_EVENT : use & FOR_HOST ? HOST_EVENT : DEVICE_EVENT;
    if (!status) status = static_cast<ZeQueue *>(queue)->signal(kind, made);
    if (!status) *event = made.take();
    return status;
}

inline Status hold(void *queue, void *, Waits waits, HostCallback wake, void *data, void **gate) {
    ZeQueue *held = static_cast<ZeQueue *>(queue);
    Ref<ZeEvent> made;
    Arrival *arrival = nullptr;
    if (wake && ze.CommandListAppendHostFunction == nullptr)
        return failure(CALL_CommandListAppendHostFunction, UNSUPPORTED_FEATURE);
    if (Status status = held->device->take_event(GATE_EVENT, made)) return status;
    *gate = made.get();  // before `wake` can be called
    Status status = waits.count ? barrier(queue, waits) : 0;
    if (!status && wake) {
        arrival = new Arrival(wake, data);
        status = ze.CommandListAppendHostFunction(held->list, Arrival::arrive, arrival, nullptr, nullptr, 0, nullptr);
        if (status) delete std::exchange(arrival, nullptr);
    }
    if (!status) status = ze.CommandListAppendWaitOnEvents(held->list, 1, &made->handle);
    const bool waited_for = !status;
    if (!status) status = held->signal(HOST_EVENT, made->passed);
    if (!status) {
        made.take();
    } else {
        *gate = nullptr;
        if (waited_for) {
            ze.EventHostSignal(made->handle);  // otherwise the submitted wait would hold the queue for ever
            held->device->retire_gate(made);
        }
    }
    if (arrival) arrival->settle(!status);
    return status;
}

// Level Zero cannot fail commands behind a gate: they run even if `failed`.
inline Status open_gate(void *gate, int) { return ze.EventHostSignal(static_cast<ZeEvent *>(gate)->handle); }

// -- graphs

inline Status new_recording(void *queue, int changeable, void **recording) {
    ZeDevice *device = static_cast<ZeQueue *>(queue)->device;
    ListDesc desc;
    MutableListDesc changes;
    *recording = nullptr;
    if (ze.CommandListImmediateAppendCommandListsExp == nullptr) return 0;
    if (changeable &&
        (ze.CommandListGetNextCommandIdExp == nullptr || ze.CommandListUpdateMutableCommandsExp == nullptr))
        return 0;
    desc.ordinal = static_cast<ZeQueue *>(queue)->ordinal;
    desc.flags = LIST_IN_ORDER;
    if (changeable) desc.next = &changes;
    auto made = std::make_unique<ZeRecording>(static_cast<ZeQueue *>(queue)->device, changeable);
    Status status = ze.CommandListCreate(device->context->handle, device->handle, &desc, &made->list);
    if (!status) *recording = made.release();
    return status;
}

// The list is in order, and copies the kernel's arguments.
inline Status add_command(void *recording, const RecordedCommand *command, const uint32_t *, uint32_t) {
    ZeRecording *extended = static_cast<ZeRecording *>(recording);
    if (command->kind == LAUNCH_COMMAND) {
        ZeKernel *kernel = static_cast<ZeKernel *>(command->kernel);
        if (Status status = set_group(kernel, &command->geometry)) return status;
        if (extended->changeable) {  // get the id of the next launch, for later changes
            CommandIdDesc desc;
            uint64_t name = 0;
            desc.flags = CHANGES_ALL;
            if (Status status = ze.CommandListGetNextCommandIdExp(extended->list, &desc, &name)) return status;
            extended->ids.push_back(name);
        }
        return ze.CommandListAppendLaunchKernel(
            extended->list, kernel->handle, command->geometry.groups, nullptr, 0, nullptr);
    }
    if (extended->changeable) extended->ids.push_back(0);
    if (command->kind == COPY_COMMAND)
        return ze.CommandListAppendMemoryCopy(extended->list, command->to.pointer(), command->source.pointer(),
            command->nbytes, nullptr, 0, nullptr);
    return ze.CommandListAppendMemoryFill(extended->list, command->to.pointer(), command->pattern,
        command->pattern_size, command->nbytes, nullptr, 0, nullptr);
}

inline Status end_recording(void *recording) {
    return ze.CommandListClose(static_cast<ZeRecording *>(recording)->list);
}

inline Status change(void *recording, const Change *changes, size_t count) {
    ZeRecording *changed = static_cast<ZeRecording *>(recording);
    ChangesDesc desc;
    changed->arguments.resize(count);
    changed->groups.resize(count);
    for (size_t i = 0; i < count; i++) {
        const Change &each = changes[i];
        if (each.kind == CHANGED_GROUPS) {
            GroupsChange &groups = changed->groups[i];
            groups.next = std::exchange(desc.next, &groups);
            groups.command = changed->ids[each.command];
            groups.groups = static_cast<const uint32_t *>(each.value);
            continue;
        }
        ArgumentChange &argument = changed->arguments[i];
        argument.next = std::exchange(desc.next, &argument);
        argument.command = changed->ids[each.command];
        argument.index = each.index;
        argument.size = each.size;
        argument.value = each.value;
        if (each.kind == CHANGED_POINTER) {
            argument.size = sizeof(void *);
            argument.value = pointer_value(static_cast<const Memory *>(each.value));
        }
    }
    Status status = ze.CommandListUpdateMutableCommandsExp(changed->list, &desc);
    return status ? status : end_recording(recording);
}

inline Status replay(void *queue, void *recording, Waits waits) {
    return ze.CommandListImmediateAppendCommandListsExp(static_cast<ZeQueue *>(queue)->list, 1,
        &static_cast<ZeRecording *>(recording)->list, nullptr, to_handles(waits), waits.events);
}

// -- the host's side

inline Status poll(void *queue, int *done) {
    Status status = ze.CommandListHostSynchronize(static_cast<ZeQueue *>(queue)->list, 0);
    *done = status == 0;
    return uint32_t(status) == NOT_READY ? 0 : status;
}

inline Answer event_status(void *event) {
    Status status = ze.EventQueryStatus(static_cast<ZeEvent *>(event)->handle);
    if (!status) return DONE;
    if (uint32_t(status) == NOT_READY) return NOT_YET;
    return uint32_t(status) == DEVICE_LOST ? -Answer(DEVICE_LOST) : status;  // all commands are lost
}

// Wait for an event, not for the list: nothing may be appended during a list's host synchronize, and forebay holds no
// lock while the host waits.
inline Status wait_for_event(ZeEvent *event, Interrupted interrupted) {
    while (true) {
        Status status = ze.EventHostSynchronize(event->handle, interrupted ? WAIT_SLICE : UINT64_MAX);
        if (uint32_t(status) != NOT_READY) return status;
        if (interrupted && interrupted()) return INTERRUPTED;
    }
}

// Wait for one event of a private list that waits for all. On a user's list the waits would block later work; on a list
// of two host waits the second would wait for the first one's events.
inline Status wait_joined(ZeDevice *device, Waits events, Interrupted interrupted) {
    ZeJoin join;
    if (Status status = device->take_join(join)) return status;
    for (uint32_t i = 0; i < events.count; i++)  // before the driver overwrites the list
        join.awaited.share(static_cast<ZeEvent *>(events.events[i])->queue);
    Status status = barrier(join.list, events);
    if (!status) {
        status = join.list->signal(HOST_EVENT, join.joined);
        if (!status) status = wait_for_event(join.joined, interrupted);
        // The list must not wait for other lists when those end, nor hold up the next wait.
        if (status == INTERRUPTED || (status && ze.CommandListHostSynchronize(join.list->list, UINT64_MAX))) {
            device->leave_join(join);
            return status;
        }
    }
    device->keep_join(join);
    return status;
}

inline Status wait_events(void *context, Waits events, Interrupted interrupted) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < events.count; i++) {
        ZeEvent *event = static_cast<ZeEvent *>(events.events[i]);
        if (events.count == 1 && event->kind != DEVICE_EVENT) return wait_for_event(event, interrupted);
        // The host cannot query events for the device alone.
        if (event->kind == DEVICE_EVENT || event_status(event) != DONE) events.events[left++] = event;
    }
    events.count = left;
    return left ? wait_joined(static_cast<ZeDevice *>(context), events, interrupted) : 0;
}

// The shorter distance on a clock with the bits of `mask`, which wraps after minutes.
inline double ticks_between(uint64_t first, uint64_t second, uint64_t mask) {
    const uint64_t ticks = (second - first) & mask;
    return ticks <= mask >> 1 ? double(ticks) : -double((first - second) & mask);
}

inline Status elapsed(void *first, void *second, double *nanoseconds) {
    ZeDevice *device = static_cast<ZeEvent *>(first)->device;
    KernelTimestamps begin, end;
    Status status = ze.EventQueryKernelTimestamp(static_cast<ZeEvent *>(first)->handle, &begin);
    if (!status) status = ze.EventQueryKernelTimestamp(static_cast<ZeEvent *>(second)->handle, &end);
    if (!status)
        *nanoseconds =
            device->nanoseconds_per_tick * ticks_between(begin.global.end, end.global.end, device->timestamp_mask);
    return status;
}

// Devices of one driver share a context, so their lists can wait for each other's events.
inline Status bridge(void *context, void *event, void **bridged) {
    ZeEvent *of_other = static_cast<ZeEvent *>(event);
    if (of_other->device->context != static_cast<ZeDevice *>(context)->context)
        return failure(CALL_CommandListAppendWaitOnEvents, UNSUPPORTED_FEATURE);
    *bridged = retain(of_other);
    return 0;
}

inline void destroy_event(void *event) {
    Ref<ZeEvent> released = Ref<ZeEvent>::adopt(static_cast<ZeEvent *>(event));
    if (released->kind == GATE_EVENT) released->device->retire_gate(released);
}

inline void destroy_kernel(void *kernel) { delete static_cast<ZeKernel *>(kernel); }
inline void destroy_recording(void *recording) { delete static_cast<ZeRecording *>(recording); }

inline void destroy_queue(void *queue) {
    Ref<ZeQueue> released = Ref<ZeQueue>::adopt(static_cast<ZeQueue *>(queue));
    released->device->recycle_gates(false);
}

inline Driver table = {
    .scopes_matter = true, .waits_read_queues = true, .launch = launch, .set_pointer = set_pointer,
    .set_value = set_value, .copy = copy, .fill = fill, .marker = marker, .barrier = barrier, .hold = hold,
    .open_gate = open_gate, .new_recording = new_recording, .add_command = add_command, .end_recording = end_recording,
    .change = change, .replay = replay, .poll = poll, .wait_events = wait_events, .event_status = event_status,
    .elapsed = elapsed, .bridge = bridge, .destroy_event = destroy_event, .destroy_kernel = destroy_kernel,
    .destroy_recording = destroy_recording, .destroy_queue = destroy_queue};

}  // namespace forebay_ze
