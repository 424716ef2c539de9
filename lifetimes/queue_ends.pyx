"""The end of a queue whose Queue is gone: when its work is done, the driver's queue is kept for another Queue."""

from cpython.ref cimport Py_DECREF
from libc.stdint cimport uint64_t
from libcpp.map cimport map
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from cython.operator cimport dereference, preincrement

from forebay.core.vector_clock cimport retain_epochs, submitted_epoch
from forebay.core.state cimport (
    DeviceState, IdleQueue, Marker, NativeQueue, QueueState, Retired, Statistics, add_statistics, all_are_idle,
    forget_planned, new_retired, note_planned, release_marker, release_queue_state, retire, retire_plan, unregister
)
from forebay.core.plan cimport Plan, can_be_handed_on, delete_plan, forget_queue
from forebay.core.process cimport is_memory_short
from forebay.core.uses cimport Point
from forebay.sync.finish cimport close_locked
from forebay.sync.ordering cimport dissolve_list, give_back_room, unlist_idle


cdef void retire_queue(QueueState* queue) noexcept nogil:
    cdef DeviceState* device = queue.device
    device.registry.lock.lock()
    queue.deferred.next_orphaned = device.deferred.orphaned
    device.deferred.orphaned = queue
    device.registry.lock.unlock()


cdef void drain_orphans(DeviceState* device) noexcept nogil:
    """Close the queues whose Queue is gone. Each ends when what it was given is done.

    Another thread may have the lock of one, to make a marker of it, and its call may block.
    """
    cdef QueueState* orphaned
    cdef QueueState* queue
    cdef Retired* what
    device.registry.lock.lock()
    orphaned = device.deferred.orphaned
    device.deferred.orphaned = NULL
    device.registry.lock.unlock()
    while orphaned != NULL:
        queue = orphaned
        orphaned = queue.deferred.next_orphaned
        what = new_retired()
        if what == NULL or is_memory_short() or not queue.lock.try_lock():
            del what
            retire_queue(queue)  # for a later collection
            continue
        what.queue = queue  # with the reference of its Queue
        close_locked(queue)
        what.points.push_back(Point(retain_epochs(queue.epochs), submitted_epoch(queue.epochs)))
        queue.lock.unlock()
        retire(device, what)


cdef void hand_on(QueueState* queue, vector[Plan*]& plans) noexcept nogil:
    """Take a queue whose work is done off the registry, and keep its driver's queue to be handed out again, with the
    plans that no longer refer to it.
    """
    cdef DeviceState* device = queue.device
    cdef map[uint64_t, Statistics].iterator counts
    cdef IdleQueue idle
    cdef bint crowded = False
    cdef size_t i
    queue.lock.lock()
    give_back_room(queue, 0)
    if queue.made.native != NULL and queue.driver.renew_queue != NULL:
        queue.driver.renew_queue(queue.handle)
    device.registry.lock.lock()
    unregister(device, queue.epochs.queue_id)
    counts = device.registry.counts_of_ended.find(queue.owner)
    if counts != device.registry.counts_of_ended.end():
        add_statistics(dereference(counts).second, queue.counts)
    if queue == device.null_queue:
        device.null_queue = NULL  # its Device is gone, so no more commands come
    for i in range(device.resident.all_users.size()):
        if device.resident.all_users[i] == queue.epochs.queue_id:
            device.resident.all_users.erase(device.resident.all_users.begin() + i)
            break
    if queue.made.native != NULL:
        idle.handle = queue.handle
        idle.made.native = queue.made.native
        idle.made.priority = queue.made.priority
        idle.made.timing = queue.made.timing
        idle.plans = plans
        device.registry.idle_queues.push_back(idle)
    if queue.order.listed:
        device.null_order.listed_ended += 1
        crowded = device.null_order.listed_ended > 64 + device.registry.queues.size() // 4
        if crowded:
            device.null_order.listed_ended = 0
    device.registry.lock.unlock()
    queue.lock.unlock()
    if queue.made.native == NULL:
        queue.driver.release_queue(queue.handle)
    if queue.is_null:
        dissolve_list(device)
    elif crowded:
        unlist_idle(device)


cdef void take_markers(QueueState* queue, vector[Marker*]& markers) noexcept nogil:
    """Take the markers of a queue whose work is done: the null queue's list may keep its state for long."""
    cdef size_t i
    for i in range(queue.order.marks.size()):
        markers.push_back(queue.order.marks[i])
    queue.order.marks.clear()
    if queue.order.marker != NULL:
        markers.push_back(queue.order.marker)
        queue.order.marker = NULL
    if queue.order.copied != NULL:
        markers.push_back(queue.order.copied)
        queue.order.copied = NULL


cdef bint end_queue(QueueState* queue):
    cdef vector[Plan*] plans
    cdef vector[Plan*] handed_on
    cdef unordered_map[uint64_t, Plan*].iterator each
    cdef vector[Marker*] markers
    cdef size_t i
    if is_memory_short():
        return False
    with nogil:
        queue.lock.lock()
        each = queue.plans.by_kernel.begin()
        while each != queue.plans.by_kernel.end():
            if queue.made.native != NULL and can_be_handed_on(dereference(each).second):
                handed_on.push_back(dereference(each).second)
            else:
                plans.push_back(dereference(each).second)
            preincrement(each)
        queue.plans.by_kernel.clear()
        queue.plans.last = NULL
        take_markers(queue, markers)
        queue.lock.unlock()
        for i in range(plans.size()):
            forget_planned(queue.device, plans[i].kernel_id, queue.epochs.queue_id)
            retire_plan(queue.device, plans[i])
        for i in range(handed_on.size()):
            forget_planned(queue.device, handed_on[i].kernel_id, queue.epochs.queue_id)
            note_planned(queue.device, handed_on[i].kernel_id, 0)
            forget_queue(handed_on[i])
        for i in range(markers.size()):
            release_marker(markers[i])
        hand_on(queue, handed_on)
        release_queue_state(queue)  # the registry's
        release_queue_state(queue)  # its Queue's
    return True


cdef bint take_idle_queue(DeviceState* device, int priority, bint timing, IdleQueue& idle) noexcept nogil:
    cdef Py_ssize_t i
    cdef NativeQueue* made
    cdef bint found = False
    device.registry.lock.lock()
    for i in range(<Py_ssize_t> device.registry.idle_queues.size() - 1, -1, -1):  # the last is likely in the cache
        made = &device.registry.idle_queues[i].made
        if made.priority == priority and made.timing == timing:
            idle = device.registry.idle_queues[i]
            device.registry.idle_queues[i] = device.registry.idle_queues.back()
            device.registry.idle_queues.pop_back()
            found = True
            break
    device.registry.lock.unlock()
    return found


cdef void release_idle_queues(DeviceState* device, size_t kept):
    """Release all idle queues but so many. Where others may still wait for them, a later call does."""
    cdef vector[IdleQueue] idle
    cdef size_t i, j
    if device.driver.waits_read_queues and device.registry.idle_queues.size() > kept and not all_are_idle(device):
        return
    device.registry.lock.lock()
    while device.registry.idle_queues.size() > kept:
        idle.push_back(device.registry.idle_queues.back())
        device.registry.idle_queues.pop_back()
    device.registry.lock.unlock()
    for i in range(idle.size()):
        with nogil:
            for j in range(idle[i].plans.size()):
                delete_plan(idle[i].plans[j])
            device.driver.release_queue(idle[i].handle)
        Py_DECREF(<object> idle[i].made.native)
