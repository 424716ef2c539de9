"""Gives back what is done: things that are retired, and what a queue's own commands used."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_XDECREF
from libc.stdint cimport uint64_t
from libcpp.map cimport multimap
from libcpp.unordered_map cimport unordered_map
from libcpp.utility cimport pair
from libcpp.vector cimport vector
from cython.operator cimport dereference, preincrement

from forebay.core.driver cimport FOR_HOST, Status
from forebay.core.epochs cimport Epochs, completed_epoch
from forebay.core.marker cimport Marker, poll_marker, release_marker
from forebay.core.plan cimport Plan, Staging, delete_plan
from forebay.core.state cimport (
    DeviceState, QueueState, Retired, find_queue, release_queue_state, retain_queue_state
)
from forebay.lifetimes.queue_ends cimport end_queue, release_idle_queues
from forebay.lifetimes.retired cimport has_retired, may_release, sort_in_fresh, take_done, take_retired
from forebay.sync.points cimport take_point

ctypedef pair[size_t, PyObject*] SparePair

cdef enum:
    SPARE_QUEUES = 64  # idle queues of the driver that are kept to be handed out again
    SPARE_STAGING = 2  # pieces of staging memory that a parameter keeps


cdef void give_back(Retired* what):
    if what.thing != NULL:
        Py_DECREF(<object> what.thing)
    elif what.plan != NULL:
        with nogil:
            delete_plan(what.plan)
    elif what.queue != NULL:
        end_queue(what.queue)
    else:
        with nogil:
            release_marker(what.marker)
    del what


cdef void drop(DeviceState* device, vector[Retired*]& done):
    """Give back what is done, or keep it while nothing may be released."""
    cdef multimap[size_t, PyObject*] spare
    cdef multimap[size_t, PyObject*].iterator each
    cdef vector[Retired*] kept
    cdef vector[Retired*] ended
    cdef size_t i
    cdef bint allowed = may_release(device)
    device.registry_lock.lock()
    if allowed:
        kept.swap(device.kept)
        spare.swap(device.spare)
    else:
        for i in range(done.size()):
            if done[i].host or done[i].queue != NULL and done[i].queue.native != NULL:
                ended.push_back(done[i])  # which releases nothing
            elif done[i].nbytes:
                device.spare.insert(SparePair(done[i].nbytes, done[i].thing))
                del done[i]
            else:
                device.kept.push_back(done[i])
        done.swap(ended)
    device.registry_lock.unlock()
    for i in range(done.size()):
        give_back(done[i])
    for i in range(kept.size()):
        give_back(kept[i])
    each = spare.begin()
    while each != spare.end():
        Py_DECREF(<object> dereference(each).second)
        preincrement(each)
    if allowed:
        release_idle_queues(device, SPARE_QUEUES)


cdef object take_spare(DeviceState* device, size_t nbytes):
    cdef multimap[size_t, PyObject*].iterator found
    cdef PyObject* memory = NULL
    if device.spare.empty():
        return None
    device.registry_lock.lock()
    found = device.spare.lower_bound(nbytes)
    if found != device.spare.end() and dereference(found).first <= nbytes + nbytes // 8:
        memory = dereference(found).second
        device.spare.erase(found)
    device.registry_lock.unlock()
    if memory == NULL:
        return None
    taken = <object> memory
    Py_DECREF(taken)
    return taken


cdef void collect_device(DeviceState* device):
    """Give back some of what is done. Takes the same time however much waits."""
    cdef vector[Retired*] done
    if has_retired(device):
        with nogil:
            take_retired(device, False, done)
        drop(device, done)


cdef inline bint holds_something(const QueueState* queue) noexcept nogil:
    """This check may race, as that of `has_retired`."""
    return not (queue.retired.empty() and queue.marks.empty() and queue.staged == 0)


cdef inline bint has_fresh(const DeviceState* device) noexcept nogil:
    """The same."""
    return not device.fresh.empty()


cdef void queues_that_hold(DeviceState* device, vector[QueueState*]& into) noexcept nogil:
    """Append the queues with something to give back, each retained for the caller. Others are only looked at."""
    cdef size_t i
    device.registry_lock.lock()
    for i in range(device.queues.size()):
        if holds_something(device.queues[i].queue):
            into.push_back(retain_queue_state(device.queues[i].queue))
    device.registry_lock.unlock()


cdef void collect_all(DeviceState* device):
    """Give back everything that is done."""
    cdef vector[QueueState*] queues
    cdef vector[Retired*] done
    cdef size_t i
    queues_that_hold(device, queues)
    for i in range(queues.size()):
        collect_queue(queues[i])
        release_queue_state(queues[i])
    if not has_retired(device) and device.idle_queues.size() <= SPARE_QUEUES:
        return
    while True:  # a queue that ends leaves plans behind
        done.clear()
        with nogil:
            take_retired(device, True, done)
        if done.empty():
            break
        drop(device, done)
    drop(device, done)


cdef void trim_staging(QueueState* queue, vector[PyObject*]& dropped) noexcept nogil:
    """Take out staging memory beyond what steady launches need, if its upload is done. The queue is locked."""
    cdef unordered_map[uint64_t, Plan*].iterator each = queue.plans.begin()
    cdef Plan* plan
    cdef Staging* oldest
    cdef size_t i
    queue.staged = 0
    while each != queue.plans.end():
        plan = dereference(each).second
        for i in range(plan.spills.size()):
            while plan.spills[i].staging.size() > SPARE_STAGING:
                oldest = &plan.spills[i].staging.front()
                if oldest.epoch > completed_epoch(queue.epochs):
                    queue.staged += plan.spills[i].staging.size() - SPARE_STAGING
                    break
                if oldest.event != NULL:
                    queue.driver.release_event(oldest.event)
                dropped.push_back(oldest.array)
                plan.spills[i].staging.pop_front()
                plan.spills[i].known = False  # the bytes to compare with may have been there
        preincrement(each)


cdef void collect_queue(QueueState* queue):
    """Give back what the queue's completed commands used. Asks no driver, and does not wait for another thread that has
    the queue's lock.
    """
    cdef vector[Marker*] markers
    cdef vector[PyObject*] dropped
    cdef vector[Retired*] done
    cdef size_t i
    if not (holds_something(queue) or has_fresh(queue.device)) or not queue.lock.try_lock():
        return
    with nogil:
        if queue.staged:
            trim_staging(queue, dropped)
        while not queue.marks.empty() and queue.marks.front().epoch <= completed_epoch(queue.epochs):
            markers.push_back(queue.marks.front())
            queue.marks.pop_front()
        queue.lock.unlock()
        for i in range(markers.size()):
            release_marker(markers[i])
        sort_in_fresh(queue.device, done)
        take_done(queue, done)
    for i in range(dropped.size()):
        Py_XDECREF(dropped[i])
    drop(queue.device, done)


cdef void collect_reached(DeviceState* device, Marker* marker):
    """Give back what the queue of a marker that is reached has used, if there still is one."""
    cdef QueueState* queue = find_queue(device, marker.queue.queue_id)
    if queue != NULL:
        collect_queue(queue)
        release_queue_state(queue)


cdef Status reach_point(DeviceState* device, Epochs* epochs, uint64_t epoch) noexcept nogil:
    """Ask the driver whether a queue has reached an epoch, and if so, note it. Never blocks."""
    cdef QueueState* queue = find_queue(device, epochs.queue_id)
    cdef Marker* marker = NULL
    cdef Status status = 0
    if queue == NULL:
        return 0
    if queue.lock.try_lock():
        status = take_point(queue, epoch, FOR_HOST, &marker)
        queue.lock.unlock()
    if marker != NULL:
        poll_marker(marker)
        release_marker(marker)
    release_queue_state(queue)
    return status
