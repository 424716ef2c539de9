"""Anchors cost no event and no callback: the epochs tell when their thing can go, and the next sync or call looks.

Destructors of penstock's objects only put things on these lists; they are emptied where the GIL is held and no lock is.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from cython.operator cimport dereference

from penstock.events.marker cimport poll_marker, release_marker
from penstock.queues.plan cimport Plan, delete_plan
from penstock.queues.state cimport (
    DeviceAnchor, DeviceState, QueueAnchor, QueueState, add_statistics, outstanding_work, registered_queues,
    release_queue_state
)
from penstock.sync.clock cimport Clock, clock_is_done, release_clock
from penstock.sync.epochs cimport is_empty
from penstock.sync.ordering cimport notice_end, unlist_idle


cdef void anchor_on_device(DeviceState* device, object thing):
    """Keep ``thing`` until everything submitted to the device so far is done, and no gate is closed.

    Not only until its own commands are: nobody notes which queues have used an allocation, because that would be a cost
    of every launch.
    """
    cdef Clock* after = outstanding_work(device)
    if after == NULL and device.open_holds.load() == 0:
        return
    Py_INCREF(thing)
    device.registry_lock.lock()  # never held across a driver call, so it may be taken with the GIL
    device.anchors.push_back(DeviceAnchor(after, <PyObject*> thing))
    device.registry_lock.unlock()


cdef void drop(vector[PyObject*]& things):
    cdef size_t i
    for i in range(things.size()):
        Py_DECREF(<object> things[i])


cdef void collect_queue(QueueState* queue):
    """Let go of what the queue's completed commands used."""
    cdef vector[QueueAnchor] done
    cdef size_t i
    if queue.anchors.empty():  # a racy look: at worst the next one sees it
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


cdef void take_done_anchors(DeviceState* device, vector[PyObject*]& things, vector[Clock*]& clocks) noexcept nogil:
    cdef size_t i, kept = 0
    device.registry_lock.lock()
    for i in range(device.anchors.size()):
        if clock_is_done(device.anchors[i].after):
            things.push_back(device.anchors[i].thing)
            clocks.push_back(device.anchors[i].after)
        else:
            device.anchors[kept] = device.anchors[i]
            kept += 1
    device.anchors.resize(kept)
    device.registry_lock.unlock()


cdef void drop_dead_plans(DeviceState* device) noexcept nogil:
    """Plans of kernels that are gone. Their in-flight launches keep what they need alive in the driver."""
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
        delete_plan(plans[i])


cdef void retire_orphans(DeviceState* device):
    """Queues whose Queue is gone leave the registry, and end, once their work is done."""
    cdef vector[QueueState*] queues
    cdef vector[QueueState*] retired
    cdef QueueState* queue
    cdef size_t i, kept = 0
    cdef bint listed = False
    registered_queues(device, queues)
    for i in range(queues.size()):
        queue = queues[i]
        if queue.references.load() == 2 + queue.listed:  # the registry's, this look's and the list's: no Queue is left
            with nogil:
                notice_end(queue)
            collect_queue(queue)
            listed = listed or (queue.listed and is_empty(queue.epochs))
        release_queue_state(queue)
    if listed:
        with nogil:
            unlist_idle(device)
    device.registry_lock.lock()
    for i in range(device.queues.size()):
        queue = device.queues[i]
        if queue.references.load() == 1 and is_empty(queue.epochs) and queue.anchors.empty():
            add_statistics(device.retired, queue.counts)
            if queue == device.null_queue:
                device.null_queue = NULL  # its Device is gone, so no more commands come
            retired.push_back(queue)
        else:
            device.queues[kept] = queue
            kept += 1
    device.queues.resize(kept)
    device.registry_lock.unlock()
    for i in range(retired.size()):
        device.orphans.fetch_sub(1)
        with nogil:
            release_queue_state(retired[i])


cdef void collect_device(DeviceState* device):
    """Let go of what no outstanding work can use any more, and of queues that are gone and done."""
    cdef vector[PyObject*] things
    cdef vector[Clock*] clocks
    cdef size_t i
    if device.open_holds.load() != 0:
        return  # releasing anything but events is undefined while a gate is closed (OpenCL, clSetUserEventStatus)
    if not device.anchors.empty():
        take_done_anchors(device, things, clocks)
        for i in range(clocks.size()):
            release_clock(clocks[i])
        drop(things)
    if not device.dead_kernels.empty():
        with nogil:
            drop_dead_plans(device)
    if device.orphans.load() != 0:
        retire_orphans(device)
