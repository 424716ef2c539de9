"""Makes, shares and releases the structures of handles.pxd. None of this needs the GIL."""

from libc.stdint cimport UINT64_MAX, uint32_t
from libcpp.atomic cimport memory_order_acq_rel, memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.core.vector_clock cimport Lock
from forebay.queues.levelzero.calls cimport (
    CALL_CommandListAppendSignalEvent, CALL_CommandListCreate, CALL_CommandListCreateImmediate, CALL_ContextCreate,
    CALL_EventCounterBasedCreate, CALL_EventCreate, CALL_EventHostReset, CALL_EventPoolCreate, ContextDesc, CounterDesc,
    CounterPoolDesc, EventDesc, EventPoolDesc, ListDesc, MutableListDesc,
    QueueDesc, ze
)

cdef enum:
    IN_ORDER = 1 << 1  # of a queue's descriptor
    LIST_IN_ORDER = 1 << 3  # of a list's
    ASYNCHRONOUS = 2
    POOL_HOST_VISIBLE = 1 << 0
    POOL_TIMESTAMPS = 1 << 2
    COUNTER_IMMEDIATE = 1 << 0
    COUNTER_HOST_VISIBLE = 1 << 2
    COUNTER_TIMESTAMPS = 1 << 4
    SCOPE_DEVICE = 1 << 1
    SCOPE_HOST = 1 << 2
    OUT_OF_HOST_MEMORY = 0x70000002
    POOL_SIZE = 64
    HELD_AT_MOST = 64


# -- contexts: one for all devices of a driver, so that they can wait for each other's events

cdef Lock contexts_lock
cdef vector[ZeContext*] contexts


cdef ZeContext* open_context(void* driver, Status* status) noexcept nogil:
    cdef ZeContext* context = NULL
    cdef ContextDesc desc
    cdef size_t i
    contexts_lock.lock()
    for i in range(contexts.size()):
        if contexts[i].driver == driver:
            context = contexts[i]
            context.references.fetch_add(1, memory_order_relaxed)
    if context == NULL:
        context = new ZeContext()
        context.references.store(1, memory_order_relaxed)
        context.driver = driver
        status[0] = outcome(CALL_ContextCreate, ze.ContextCreate(driver, &desc, &context.handle))
        if status[0] != 0:
            del context
            context = NULL
        else:
            contexts.push_back(context)
    contexts_lock.unlock()
    return context


cdef void close_context(ZeContext* context) noexcept nogil:
    cdef size_t i
    contexts_lock.lock()
    if context.references.fetch_sub(1, memory_order_acq_rel) == 1:
        for i in range(contexts.size()):
            if contexts[i] == context:
                contexts.erase(contexts.begin() + i)
                break
        ze.ContextDestroy(context.handle)
        del context
    contexts_lock.unlock()


# -- devices


cdef ZeDevice* new_device(void* driver, void* handle, EventMode mode, Status* status) noexcept nogil:
    cdef ZeContext* context = open_context(driver, status)
    cdef ZeDevice* device
    cdef int kind
    if context == NULL:
        return NULL
    device = new ZeDevice()
    device.references.store(1, memory_order_relaxed)
    device.context = context
    device.handle = handle
    device.mode = mode
    for kind in range(EVENT_KINDS):
        device.newest_pool[kind] = NULL
        device.pool_used[kind] = 0
    return device


cdef void close_device(ZeDevice* device) noexcept nogil:
    """Give back the owner's reference. The owner must have finished all work, and must submit no more."""
    cdef size_t i
    recycle_gates(device, True)
    for i in range(device.joins.size()):
        end_queue(device.joins[i])
    device.joins.clear()
    for i in range(device.left_joins.size()):
        ze.CommandListHostSynchronize(device.left_joins[i].list.list, UINT64_MAX)
        end_queue(end_wait(device.left_joins[i]))
    device.left_joins.clear()
    release_device(device)


cdef void release_device(ZeDevice* device) noexcept nogil:
    """Drop a reference. The last one goes when no queue is left and all events are idle again."""
    cdef size_t i
    cdef int kind
    if device.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    for kind in range(EVENT_KINDS):
        for i in range(device.idle[kind].size()):
            ze.EventDestroy(device.idle[kind][i].handle)
            del device.idle[kind][i]
    for i in range(device.pools.size()):
        ze.EventPoolDestroy(device.pools[i])
    close_context(device.context)
    del device


# -- queues


cdef ZeQueue* new_queue(
    ZeDevice* device, uint32_t ordinal, uint32_t index, uint32_t priority, Status* status
) noexcept nogil:
    cdef QueueDesc desc
    cdef void* list = NULL
    cdef ZeQueue* queue
    desc.ordinal = ordinal
    desc.index = index
    desc.flags = IN_ORDER
    desc.mode = ASYNCHRONOUS
    desc.priority = priority
    status[0] = outcome(CALL_CommandListCreateImmediate, ze.CommandListCreateImmediate(
        device.context.handle, device.handle, &desc, &list))
    if status[0] != 0:
        return NULL
    queue = new ZeQueue()
    queue.references.store(1, memory_order_relaxed)
    queue.list = list
    queue.ordinal = ordinal
    queue.device = device
    device.references.fetch_add(1, memory_order_relaxed)
    return queue


cdef ZeQueue* take_join(ZeDevice* device, Status* status) noexcept nogil:
    """An idle private list, or a new one. NULL on failure."""
    cdef ZeQueue* join = NULL
    cdef LeftJoin* left = NULL
    device.lock.lock()
    if not device.joins.empty():
        join = device.joins.back()
        device.joins.pop_back()
    elif not device.left_joins.empty() and device.left_joins.back().joined != NULL and (
        ze.EventQueryStatus(device.left_joins.back().joined.handle) == 0
    ):
        left = device.left_joins.back()
        device.left_joins.pop_back()
    device.lock.unlock()
    if left != NULL:
        join = end_wait(left)
    return join if join != NULL else new_queue(device, 0, 0, 0, status)


cdef void give_back_join(ZeQueue* join) noexcept nogil:
    """Make a private list, whose wait is over, idle."""
    join.device.lock.lock()
    join.device.joins.push_back(join)
    join.device.lock.unlock()


cdef void leave_join(ZeQueue* join, ZeEvent* joined, vector[ZeQueue*]& awaited) noexcept nogil:
    """Leave a private list whose wait goes on, though nobody waits for it any more. Takes over the event, NULL when
    there is none: such a list ends with the device.
    """
    cdef LeftJoin* left = new LeftJoin()
    cdef size_t i
    left.list = join
    left.joined = joined
    left.awaited = awaited
    for i in range(awaited.size()):
        retain_queue(awaited[i])
    join.device.lock.lock()
    join.device.left_joins.push_back(left)
    join.device.lock.unlock()


cdef ZeQueue* end_wait(LeftJoin* left) noexcept nogil:
    """Return the private list of a wait that is over."""
    cdef ZeQueue* join = left.list
    cdef size_t i
    if left.joined != NULL:
        release_event(left.joined)
    for i in range(left.awaited.size()):
        release_queue(left.awaited[i])
    del left
    return join


cdef ZeQueue* retain_queue(ZeQueue* queue) noexcept nogil:
    queue.references.fetch_add(1, memory_order_relaxed)
    return queue


cdef void end_queue(ZeQueue* queue) noexcept nogil:
    """Give back the owner's reference. The owner must know that all its commands are done, and must submit no more."""
    cdef vector[Held*] batches
    cdef vector[ZeEvent*] held
    cdef size_t i
    if queue.device.mode == RESET:
        # The signal of a plain event may still be running, and the event is about to be used again.
        ze.CommandListHostSynchronize(queue.list, UINT64_MAX)
        batches.swap(queue.batches)
        held.swap(queue.held)
        for i in range(batches.size()):
            release_all(batches[i].events)
            release_event(batches[i].passed)
            del batches[i]
        release_all(held)
    release_queue(queue)


cdef void release_queue(ZeQueue* queue) noexcept nogil:
    cdef ZeDevice* device
    if queue.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    device = queue.device
    ze.CommandListDestroy(queue.list)
    del queue
    release_device(device)


cdef void release_all(vector[ZeEvent*]& events) noexcept nogil:
    cdef size_t i
    for i in range(events.size()):
        release_event(events[i])
    events.clear()


# -- events


cdef ZeEvent* take_event(ZeDevice* device, EventKind kind, Status* status) noexcept nogil:
    """An idle event, or a new one, with one reference. NULL on failure."""
    cdef ZeEvent* event = NULL
    cdef Status made = 0
    cdef bint is_new = False
    if kind == GATE_EVENT:
        recycle_gates(device, False)
    device.lock.lock()
    if not device.idle[<int> kind].empty():
        event = device.idle[<int> kind].back()
        device.idle[<int> kind].pop_back()
    else:
        is_new = True
        event = new ZeEvent()
        event.kind = kind
        event.queue = NULL
        event.passed = NULL
        made = create_event(device, kind, &event.handle)
        if made != 0:
            del event
            event = NULL
    device.lock.unlock()
    if event == NULL:
        status[0] = made
        return NULL
    # Reset without a query: the host cannot see whether an event for the device alone is signalled.
    if not is_new and (kind == GATE_EVENT or device.mode == RESET):
        status[0] = outcome(CALL_EventHostReset, ze.EventHostReset(event.handle))
        if status[0] != 0:
            give_back(device, event)
            return NULL
    event.references.store(1, memory_order_relaxed)
    event.device = device
    device.references.fetch_add(1, memory_order_relaxed)
    return event


cdef void give_back(ZeDevice* device, ZeEvent* event) noexcept nogil:
    device.lock.lock()
    device.idle[<int> event.kind].push_back(event)
    device.lock.unlock()


cdef uint32_t signal_scope(EventKind kind) noexcept nogil:
    """The memory scope of the signal. Null hardware shows no difference; a real device does."""
    return SCOPE_DEVICE if kind == DEVICE_EVENT else SCOPE_HOST


cdef uint32_t wait_scope(EventKind kind) noexcept nogil:
    return SCOPE_HOST if kind == GATE_EVENT else SCOPE_DEVICE


cdef Status create_event(ZeDevice* device, EventKind kind, void** handle) noexcept nogil:
    """Make a new event. The caller holds the device's lock."""
    cdef CounterDesc desc
    if kind == GATE_EVENT or device.mode != COUNTER_BASED:
        return create_in_pool(device, kind, handle)
    desc.flags = COUNTER_IMMEDIATE
    if kind != DEVICE_EVENT:
        desc.flags |= COUNTER_HOST_VISIBLE
    if kind == TIMED_EVENT:
        desc.flags |= COUNTER_TIMESTAMPS
    desc.signal = signal_scope(kind)
    desc.wait = wait_scope(kind)
    return outcome(CALL_EventCounterBasedCreate, ze.EventCounterBasedCreate(
        device.context.handle, device.handle, &desc, handle))


cdef Status create_in_pool(ZeDevice* device, EventKind kind, void** handle) noexcept nogil:
    cdef EventPoolDesc pool_desc
    cdef CounterPoolDesc counter_desc
    cdef EventDesc desc
    cdef Status status
    cdef void* pool = device.newest_pool[<int> kind]
    if pool == NULL or device.pool_used[<int> kind] == POOL_SIZE:
        pool_desc.count = POOL_SIZE
        if kind != DEVICE_EVENT:
            pool_desc.flags = POOL_HOST_VISIBLE
        elif device.mode == RESET:
            pool_desc.flags = POOL_HOST_VISIBLE  # the host queries and resets it
        if kind == TIMED_EVENT:
            pool_desc.flags |= POOL_TIMESTAMPS
        if kind != GATE_EVENT and device.mode == COUNTER_BASED_POOL:
            counter_desc.flags = COUNTER_IMMEDIATE
            pool_desc.next = &counter_desc
        # NULL means all devices of the context: they may wait for each other's events
        status = outcome(CALL_EventPoolCreate, ze.EventPoolCreate(device.context.handle, &pool_desc, 0, NULL, &pool))
        if status != 0:
            return status
        device.pools.push_back(pool)
        device.newest_pool[<int> kind] = pool
        device.pool_used[<int> kind] = 0
    desc.index = device.pool_used[<int> kind]
    desc.signal = signal_scope(kind)
    desc.wait = wait_scope(kind)
    status = outcome(CALL_EventCreate, ze.EventCreate(pool, &desc, handle))
    if status == 0:
        device.pool_used[<int> kind] += 1
    return status


cdef ZeEvent* retain_event(ZeEvent* event) noexcept nogil:
    event.references.fetch_add(1, memory_order_relaxed)
    return event


cdef void release_event(ZeEvent* event) noexcept nogil:
    cdef ZeDevice* device
    if event.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    device = event.device
    if device.mode == RESET and event.kind != GATE_EVENT:
        ze.EventHostReset(event.handle)  # a failure here is harmless: take_event resets it again
    set_queue(event, NULL)
    give_back(device, event)
    release_device(device)


cdef void set_queue(ZeEvent* event, ZeQueue* queue) noexcept nogil:
    """Retain the queue that signals the event: a query of the event reads that queue's counter.

    Intel's driver (26.27) also refers to the list of a plain event until the event is reset. If the list is destroyed
    earlier, the heap is corrupted.
    """
    cdef ZeQueue* before = event.queue
    if queue != NULL:
        retain_queue(queue)
    event.queue = queue
    if before != NULL:
        release_queue(before)


# -- when events may be used again


cdef void set_passed(ZeEvent* gate, ZeEvent* passed) noexcept nogil:
    """Set the gate's `passed` event, under the lock: the gate may meanwhile have been opened and retired."""
    gate.device.lock.lock()
    gate.passed = passed
    gate.device.lock.unlock()


cdef void retire_gate(ZeEvent* gate) noexcept nogil:
    """Note that the gate is open. It can be used again once its queue is past it."""
    gate.device.lock.lock()
    gate.device.closing_gates.push_back(gate)
    gate.device.lock.unlock()


cdef void recycle_gates(ZeDevice* device, bint all_done) noexcept nogil:
    cdef vector[ZeEvent*] passed
    cdef size_t i, kept = 0
    device.lock.lock()
    for i in range(device.closing_gates.size()):
        if all_done or device.closing_gates[i].passed != NULL and (
            ze.EventQueryStatus(device.closing_gates[i].passed.handle) == 0
        ):
            passed.push_back(device.closing_gates[i])
        else:
            device.closing_gates[kept] = device.closing_gates[i]
            kept += 1
    device.closing_gates.resize(kept)
    device.lock.unlock()
    for i in range(passed.size()):
        if passed[i].passed != NULL:
            release_event(passed[i].passed)
            passed[i].passed = NULL
        release_event(passed[i])


cdef Status hold_events(ZeQueue* queue) noexcept nogil:
    """RESET mode: release plain events once every command that signals or waits for them has run.

    The queue keeps the events of its commands. From time to time it signals one more event; once that is done, the kept
    ones are too. The core holds the queue's lock.
    """
    cdef Held* batch
    cdef Status status = 0
    while not queue.batches.empty() and ze.EventQueryStatus(queue.batches.front().passed.handle) == 0:
        batch = queue.batches.front()
        queue.batches.erase(queue.batches.begin())
        release_all(batch.events)
        release_event(batch.passed)
        del batch
    if queue.held.size() < HELD_AT_MOST:
        return 0
    batch = new Held()
    batch.passed = take_event(queue.device, HOST_EVENT, &status)
    if batch.passed == NULL:
        del batch
        return status
    status = outcome(CALL_CommandListAppendSignalEvent, ze.CommandListAppendSignalEvent(
        queue.list, batch.passed.handle))
    if status != 0:
        release_event(batch.passed)
        del batch
        return status
    batch.events.swap(queue.held)
    queue.batches.push_back(batch)
    return 0


# -- recordings


cdef ZeRecording* new_recording(
    ZeDevice* device, uint32_t ordinal, bint changeable, Status* status
) noexcept nogil:
    """A new in-order command list, still open for commands."""
    cdef ListDesc desc
    cdef MutableListDesc mutable
    cdef void* list = NULL
    cdef ZeRecording* recording
    desc.ordinal = ordinal
    desc.flags = LIST_IN_ORDER
    if changeable:
        desc.next = &mutable
    status[0] = outcome(CALL_CommandListCreate, ze.CommandListCreate(
        device.context.handle, device.handle, &desc, &list))
    if status[0] != 0:
        return NULL
    recording = new ZeRecording()
    recording.list = list
    recording.changeable = changeable
    recording.device = device
    device.references.fetch_add(1, memory_order_relaxed)
    return recording


cdef void release_recording(ZeRecording* recording) noexcept nogil:
    cdef ZeDevice* device = recording.device
    ze.CommandListDestroy(recording.list)
    del recording
    release_device(device)


# -- modules and kernels: a plan may keep a kernel for longer than anybody keeps the program


cdef ZeModule* new_module(ZeDevice* device, void* handle) noexcept nogil:
    cdef ZeModule* module = new ZeModule()
    module.references.store(1, memory_order_relaxed)
    module.handle = handle
    module.device = device
    device.references.fetch_add(1, memory_order_relaxed)
    return module


cdef ZeModule* retain_module(ZeModule* module) noexcept nogil:
    module.references.fetch_add(1, memory_order_relaxed)
    return module


cdef void release_module(ZeModule* module) noexcept nogil:
    cdef ZeDevice* device = module.device
    if module.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    ze.ModuleDestroy(module.handle)
    del module
    release_device(device)


cdef void release_kernel(ZeKernel* kernel) noexcept nogil:
    cdef ZeModule* module = kernel.module
    ze.KernelDestroy(kernel.handle)
    del kernel
    release_module(module)
