"""Anchors cost no event and no callback: epochs show when their thing can go, and the next sync or call checks them.

Destructors of forebay's objects only put things on these lists. The lists are emptied where the GIL is held and no lock
is.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from cython.operator cimport dereference

from forebay.core.clock cimport Clock, clock_is_done, release_clock, retain_clock
from forebay.core.epochs cimport is_empty
from forebay.core.marker cimport poll_marker, release_marker
from forebay.core.plan cimport Plan, delete_plan
from forebay.core.state cimport (
    DeviceAnchor, DeviceState, QueueAnchor, QueueState, add_statistics, anchor, outstanding_work, registered_queues,
    release_device_state, release_queue_state
)
from forebay.sync.finish cimport notice_end
from forebay.sync.ordering cimport unlist_idle


cdef void anchor_on_device(DeviceState* device, object thing):
    """Keep ``thing`` until everything submitted to the device so far is done, and no gate is closed."""
    cdef Clock* after = outstanding_work(device)
    if after == NULL and device.open_holds.load() == 0:
        return
    release_clock(after)
    Py_INCREF(thing)
    anchor(device, DeviceAnchor(NULL, <PyObject*> thing, NULL, NULL))


cdef void collect_queue(QueueState* queue):
    """Release the things that the queue's completed commands used."""
    cdef vector[QueueAnchor] done
    cdef size_t i
    if queue.anchors.empty():  # this check may race: at worst the next call sees the anchor
        return
    with nogil:
        queue.lock.lock()
        while not queue.anchors.empty() and poll_marker(queue.anchors.front().after) != 0:
            done.push_back(queue.anchors.front())
            queue.anchors.pop_front()
        queue.lock.unlock()
        for i in range(done.size()):
            release_marker(done[i].after)
    for i in range(done.size()):
        Py_DECREF(<object> done[i].thing)


cdef void take_done_anchors(DeviceState* device, vector[DeviceAnchor]& done) noexcept nogil:
    cdef size_t i, kept = 0
    device.registry_lock.lock()
    for i in range(device.anchors.size()):
        if clock_is_done(device.anchors[i].after):
            done.push_back(device.anchors[i])
        else:
            device.anchors[kept] = device.anchors[i]
            kept += 1
    device.anchors.resize(kept)
    device.registry_lock.unlock()


cdef void let_go(DeviceState* device):
    """Drop the anchors of things that no outstanding work can use any more."""
    cdef vector[DeviceAnchor] done
    cdef size_t i
    take_done_anchors(device, done)
    with nogil:
        for i in range(done.size()):
            release_clock(done[i].after)
            if done[i].plan != NULL:
                delete_plan(done[i].plan)
            elif done[i].marker != NULL:
                release_marker(done[i].marker)
    for i in range(done.size()):
        if done[i].thing != NULL:
            Py_DECREF(<object> done[i].thing)


cdef void drop_dead_plans(DeviceState* device) noexcept nogil:
    """Take plans of dead kernels off the queues. Each is anchored for the launches that are in flight."""
    cdef vector[uint64_t] dead
    cdef vector[QueueState*] queues
    cdef vector[Plan*] plans
    cdef unordered_map[uint64_t, Plan*].iterator found
    cdef size_t i, j
    device.registry_lock.lock()
    dead.swap(device.dead_kernels)
    device.registry_lock.unlock()
    if dead.empty():
        return
    registered_queues(device, queues)
    for i in range(queues.size()):
        queues[i].lock.lock()
        for j in range(dead.size()):
            found = queues[i].plans.find(dead[j])
            if found != queues[i].plans.end():
                plans.push_back(dereference(found).second)
                queues[i].plans.erase(found)
        queues[i].last_plan = NULL
        queues[i].lock.unlock()
        release_queue_state(queues[i])
    for i in range(plans.size()):
        anchor(device, DeviceAnchor(NULL, NULL, plans[i], NULL))


cdef void retire_orphans(DeviceState* device):
    """Take queues whose Queue is gone off the registry, and end them, once their work is done."""
    cdef vector[QueueState*] queues
    cdef vector[QueueState*] retired
    cdef QueueState* queue
    cdef size_t i, kept = 0
    cdef bint gone, listed = False
    cdef Clock* after
    registered_queues(device, queues)
    for i in range(queues.size()):
        queue = queues[i]
        if queue.references.load() == 2 + queue.listed:  # the registry's, ours, and the list's: no Queue is left
            with nogil:
                notice_end(queue)
            collect_queue(queue)
            listed = listed or (queue.listed and is_empty(queue.epochs))
        release_queue_state(queue)
    if listed:
        with nogil:
            unlist_idle(device)
    after = outstanding_work(device)
    device.registry_lock.lock()
    for i in range(device.queues.size()):
        queue = device.queues[i]
        gone = queue.references.load() == 1 and is_empty(queue.epochs) and queue.anchors.empty()
        if gone and not queue.retiring:
            # Work on other queues may still wait for a point of this one, and its driver may need the queue for that.
            queue.retiring = True
            queue.outlives = retain_clock(after)
        if gone and clock_is_done(queue.outlives):
            add_statistics(device.retired, queue.counts)
            if queue == device.null_queue:
                device.null_queue = NULL  # its Device is gone, so no more commands come
            retired.push_back(queue)
        else:
            device.queues[kept] = queue
            kept += 1
    device.queues.resize(kept)
    device.registry_lock.unlock()
    release_clock(after)
    for i in range(retired.size()):
        device.orphans.fetch_sub(1)
        with nogil:
            release_queue_state(retired[i])


cdef void collect_device(DeviceState* device):
    """Release things that no outstanding work can use any more, and queues that are gone and done."""
    if device.open_holds.load() != 0:
        return  # releasing anything but events is undefined while a gate is closed (OpenCL, clSetUserEventStatus)
    if not device.dead_kernels.empty():
        with nogil:
            drop_dead_plans(device)
    if not device.anchors.empty():
        let_go(device)
    if device.orphans.load() != 0:
        retire_orphans(device)


cdef struct Abandoned:
    DeviceState* state  # retained
    PyObject* driver  # the Device's `DriverDevice`, which its queues may need; owned


cdef vector[Abandoned] abandoned  # Devices that are gone, with work outstanding; only touched with the GIL


cdef bint has_something(DeviceState* device) noexcept nogil:
    device.registry_lock.lock()
    cdef bint found = not (device.queues.empty() and device.anchors.empty())
    device.registry_lock.unlock()
    return found


cdef void abandon_device(DeviceState* device, object driver):
    """Release everything of a Device that is gone, now or once no outstanding work can use it any more.

    Takes over the caller's reference to the state.
    """
    Py_INCREF(driver)
    abandoned.push_back(Abandoned(device, <PyObject*> driver))
    collect_abandoned()


cdef void collect_abandoned():
    """Release what Devices that are gone have left behind, as far as its work is done."""
    cdef vector[Abandoned] devices
    cdef size_t i
    devices.swap(abandoned)  # more Devices may be abandoned meanwhile
    for i in range(devices.size()):
        collect_device(devices[i].state)
        if has_something(devices[i].state):
            abandoned.push_back(devices[i])
        else:
            release_device_state(devices[i].state)
            Py_DECREF(<object> devices[i].driver)
