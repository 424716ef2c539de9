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
from forebay.core.process cimport is_memory_short
from forebay.core.state cimport (
    DeviceState, QueueState, Retired, RetiredList, append, find_queue, release_queue_state, retain_queue_state, retire,
    take_first
)
from forebay.lifetimes.queue_ends cimport end_queue, release_idle_queues
from forebay.lifetimes.retired cimport has_retired, may_release, sort_in_fresh, take_done, take_retired
from forebay.sync.points cimport take_point

ctypedef pair[size_t, PyObject*] SparePair

cdef enum:
    SPARE_QUEUES = 64  # idle queues of the driver that are kept to be handed out again
    SPARE_STAGING = 2  # pieces of staging memory that a parameter keeps


cdef void give_back(DeviceState* device, Retired* what):
    if what.thing != NULL:
        Py_DECREF(<object> what.thing)
    elif what.plan != NULL:
        with nogil:
            delete_plan(what.plan)
    elif what.queue != NULL:
        if not end_queue(what.queue):
            retire(device, what)  # for a later collection
            return
    else:
        with nogil:
            release_marker(what.marker)
    del what


cdef void drop(DeviceState* device, RetiredList done):
    """Give back what is done, or keep it while nothing may be released."""
    cdef multimap[size_t, PyObject*] spare
    cdef multimap[size_t, PyObject*].iterator each
    cdef RetiredList ended
    cdef Retired* what
    cdef bint allowed = may_release(device)
    ended.first = NULL
    device.registry_lock.lock()
    if allowed:
        ended = device.kept
        device.kept.first = NULL
        spare.swap(device.spare)
    while done.first != NULL:
        what = take_first(&done)
        if allowed or what.host or what.queue != NULL and what.queue.native != NULL:
            append(&ended, what)  # which releases nothing where nothing may be
        elif what.nbytes and not is_memory_short():
            device.spare.insert(SparePair(what.nbytes, what.thing))
            del what
        else:
            append(&device.kept, what)
    device.registry_lock.unlock()
    while ended.first != NULL:
        what = take_first(&ended)
        give_back(device, what)
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
    cdef RetiredList done
    done.first = NULL
    if has_retired(device):
        with nogil:
            take_retired(device, False, &done)
        drop(device, done)


cdef inline bint holds_something(const QueueState* queue) noexcept nogil:
    """This check may race, as that of `has_retired`."""
    return not (queue.retired.empty() and queue.marks.empty() and queue.staged == 0)


cdef inline bint has_fresh(const DeviceState* device) noexcept nogil:
    """The same."""
    return device.fresh.first != NULL


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
    cdef RetiredList done
    cdef size_t i
    queues_that_hold(device, queues)
    for i in range(queues.size()):
        collect_queue(queues[i])
        release_queue_state(queues[i])
    if not has_retired(device) and device.idle_queues.size() <= SPARE_QUEUES:
        return
    while True:  # a queue that ends leaves plans behind
        done.first = NULL
        with nogil:
            take_retired(device, True, &done)
        if done.first == NULL or is_memory_short():
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
    cdef RetiredList done
    cdef size_t i
    done.first = NULL
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
        sort_in_fresh(queue.device, &done)
        take_done(queue, &done)
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
