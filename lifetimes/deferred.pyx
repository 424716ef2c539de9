"""Gives back what queues have used, each thing when its own uses are done, whatever else the device is busy with.

A thing that is retired has points: queues, and the epochs up to which they use it. It waits at one of its queues, in
the order of epochs, then at the next. A collection looks at a few of the queues where something waits, and there at
what is done, so it takes the same time however much waits. While something waits at a queue, one marker shows how far
the queue has come.

Destructors only put things on a list. It is emptied where the GIL is held and no lock is.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cython.operator cimport dereference, preincrement
from libc.stdint cimport uint64_t
from libcpp.map cimport multimap
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set
from libcpp.utility cimport pair
from libcpp.vector cimport vector

from forebay.core.driver cimport DONE, FOR_HOST, Answer, Status
from forebay.core.plan cimport Plan, Staging, delete_plan
from forebay.core.process cimport is_forked, is_memory_short
from forebay.core.state cimport (
    FOLLOWING, DeviceState, Marker, QueueState, Retired, RetiredList, append, closed_gates, find_queue, is_closed,
    new_retired, note_planned, poll_marker, release_device_state, release_marker, release_queue_state,
    retain_queue_state, retire, retire_plan, take_first, users_of_all
)
from forebay.core.uses cimport Point, release_points
from forebay.core.vector_clock cimport (
    Clock, ClockEntry, Epochs, completed_epoch, list_entries, release_clock, release_epochs, retain_clock,
    retain_epochs, submitted_epoch
)
from forebay.lifetimes.queue_ends cimport drain_orphans, end_queue, release_idle_queues
from forebay.sync.finish cimport wait_on_host_for_all
from forebay.sync.ordering cimport first_hold, mark_alone, marked_before, take_point

ctypedef pair[uint64_t, Retired*] Waiting

cdef enum:
    AT_ONCE = 8  # queues that one collection looks at
    BUSY_AT_ONCE = 2  # after so many on which nothing is done it stops; the next one begins with others


# -- retiring


cdef bint may_release(DeviceState* device) noexcept nogil:
    """Whether anything but events may be released (OpenCL 3.0, clSetUserEventStatus: not while a gate is closed)."""
    return not device.driver.gates_forbid_releases or closed_gates(device) == 0


cdef void retire_memory(DeviceState* device, object memory, vector[Point]& points, size_t reusable):
    cdef Retired* what
    cdef bint unused
    if points.empty() and may_release(device):
        device.registry.lock.lock()
        unused = device.resident.all_users.empty()
        device.registry.lock.unlock()
        if unused:
            return
    Py_INCREF(memory)
    what = new_retired()
    if what == NULL:
        return
    what.points.swap(points)
    what.thing = <PyObject*> memory
    what.nbytes = reusable
    what.open = True
    retire(device, what)


cdef void retire_after(DeviceState* device, object thing, Epochs* queue, uint64_t epoch, bint host=False):
    cdef Retired* what
    cdef bint done = queue == NULL or epoch <= completed_epoch(queue)
    if is_forked():
        Py_INCREF(thing)
        return
    if done and (host or may_release(device)):
        return
    Py_INCREF(thing)
    what = new_retired()
    if what == NULL:
        return
    what.host = host
    if not done:
        what.points.push_back(Point(retain_epochs(queue), epoch))
    what.thing = <PyObject*> thing
    retire(device, what)


# -- looking at what is retired


cdef void take_idle_plans(DeviceState* device, uint64_t kernel_id, vector[Plan*]& plans) noexcept nogil:
    """Take plans of a kernel off the idle queues. The registry is locked."""
    cdef vector[Plan*]* idle
    cdef size_t i, j, kept
    for i in range(device.registry.idle_queues.size()):
        idle = &device.registry.idle_queues[i].plans
        kept = 0
        for j in range(idle.size()):
            if dereference(idle)[j].kernel_id == kernel_id:
                plans.push_back(dereference(idle)[j])
            else:
                dereference(idle)[kept] = dereference(idle)[j]
                kept += 1
        idle.resize(kept)


cdef bint take_plan(DeviceState* device, uint64_t queue_id, uint64_t kernel_id, vector[Plan*]& plans) noexcept nogil:
    """Take the plan of a kernel off a queue. Returns False when another thread has the queue's lock, maybe for as long
    as its call blocks.
    """
    cdef unordered_map[uint64_t, Plan*].iterator found
    cdef QueueState* queue = find_queue(device, queue_id)
    cdef bint locked
    if queue == NULL:
        return True
    locked = queue.lock.try_lock()
    if locked:
        found = queue.plans.by_kernel.find(kernel_id)
        if found != queue.plans.by_kernel.end():
            plans.push_back(dereference(found).second)
            queue.plans.by_kernel.erase(found)
            queue.plans.last = NULL
        queue.lock.unlock()
    release_queue_state(queue)
    return locked


cdef void drop_dead_plans(DeviceState* device) noexcept nogil:
    """Take plans of dead kernels off the queues that have one. Each is kept for the launches that are in flight."""
    cdef unordered_map[uint64_t, unordered_set[uint64_t]].iterator planned
    cdef unordered_set[uint64_t].iterator each
    cdef vector[uint64_t] dead
    cdef unordered_set[uint64_t] queues
    cdef vector[Plan*] plans
    cdef bint left
    cdef size_t i
    if device.registry.dead_kernels.empty():  # this check may race: at worst the next call sees it
        return
    device.registry.lock.lock()
    dead.swap(device.registry.dead_kernels)
    device.registry.lock.unlock()
    for i in range(dead.size()):
        queues.clear()
        device.registry.lock.lock()
        planned = device.registry.planned.find(dead[i])
        if planned != device.registry.planned.end():
            queues.swap(dereference(planned).second)
            device.registry.planned.erase(planned)
        if queues.erase(0):
            take_idle_plans(device, dead[i], plans)
        device.registry.lock.unlock()
        left = False
        each = queues.begin()
        while each != queues.end():
            if not take_plan(device, dereference(each), dead[i], plans):
                note_planned(device, dead[i], dereference(each))
                left = True
            preincrement(each)
        if left:  # a later collection tries again
            device.registry.lock.lock()
            device.registry.dead_kernels.push_back(dead[i])
            device.registry.lock.unlock()
    for i in range(plans.size()):
        retire_plan(device, plans[i])


cdef bint add_users_of_all(DeviceState* device, Retired* what) noexcept nogil:
    """Add the last uses by `users_of_all`. Takes no queue's lock. Returns False while such a launch is being submitted:
    nobody knows its epoch yet.
    """
    cdef vector[QueueState*] users
    cdef vector[Point] points
    cdef QueueState* queue
    cdef uint64_t epoch
    cdef bint known = True
    users_of_all(device, users)
    for queue in users:
        epoch = queue.resident.all_used.load()
        if epoch == FOLLOWING:
            known = False
        elif queue.adopted and not is_closed(queue):
            epoch = submitted_epoch(queue.epochs) + 1  # the marker that shows it counts as a command
        if known and epoch > completed_epoch(queue.epochs):
            points.push_back(Point(retain_epochs(queue.epochs), epoch))
        release_queue_state(queue)
    if not known:
        release_points(points)
        return False
    what.points.insert(what.points.end(), points.begin(), points.end())
    return True


cdef void sort_in(DeviceState* device, Retired* what, RetiredList* done) noexcept nogil:
    """Let it wait at the queue of its last point that is not done; without one it is done."""
    cdef QueueState* queue
    cdef Point point
    while not what.points.empty():
        point = what.points.back()
        queue = find_queue(device, point.queue.queue_id) if point.epoch > completed_epoch(point.queue) else NULL
        if queue == NULL:
            release_epochs(point.queue)
            what.points.pop_back()
            continue
        if is_memory_short():
            release_queue_state(queue)
            retire(device, what)  # for a later collection
            return
        device.registry.lock.lock()
        queue.deferred.retired.insert(Waiting(point.epoch, what))
        if queue.deferred.draining:
            device.registry.lock.unlock()
            release_queue_state(queue)
        else:
            queue.deferred.draining = True
            device.deferred.draining.push_back(queue)
            device.registry.lock.unlock()
        return
    append(done, what)


cdef void take_done(QueueState* queue, RetiredList* done) noexcept nogil:
    """Take off what waited for epochs that the queue is known to have reached."""
    cdef RetiredList reached
    cdef multimap[uint64_t, Retired*].iterator first
    cdef Retired* what
    reached.first = NULL
    queue.device.registry.lock.lock()
    while not queue.deferred.retired.empty():
        first = queue.deferred.retired.begin()
        if dereference(first).first > completed_epoch(queue.epochs):
            break
        append(&reached, dereference(first).second)
        queue.deferred.retired.erase(first)
    queue.device.registry.lock.unlock()
    while reached.first != NULL:
        what = take_first(&reached)
        sort_in(queue.device, what, done)


cdef bint first_epoch(QueueState* queue, uint64_t* epoch) noexcept nogil:
    queue.device.registry.lock.lock()
    cdef bint waiting = not queue.deferred.retired.empty()
    if waiting:
        epoch[0] = dereference(queue.deferred.retired.begin()).first
    queue.device.registry.lock.unlock()
    return waiting


cdef void look_at(QueueState* queue, RetiredList* done) noexcept nogil:
    """Take what is done off a queue that was taken from the device's list."""
    cdef uint64_t epoch = 0
    cdef Answer answer
    take_done(queue, done)
    if queue.deferred.asked == NULL and first_epoch(queue, &epoch) and queue.lock.try_lock():
        # The lock may be held for as long as another thread's call blocks. Then a later collection asks.
        take_point(queue, epoch, FOR_HOST, &queue.deferred.asked)
        queue.lock.unlock()
    if queue.deferred.asked != NULL:
        answer = poll_marker(queue.deferred.asked)
        if answer == DONE or answer < 0:
            release_marker(queue.deferred.asked)
            queue.deferred.asked = NULL
        if answer < 0 and queue.lock.try_lock():  # perhaps only because something that it waited for has failed
            mark_alone(queue, &queue.deferred.asked)
            queue.lock.unlock()
        take_done(queue, done)


cdef QueueState* next_draining(DeviceState* device) noexcept nogil:
    cdef QueueState* queue = NULL
    device.registry.lock.lock()
    if not device.deferred.draining.empty():
        queue = device.deferred.draining.front()
        device.deferred.draining.pop_front()
    device.registry.lock.unlock()
    return queue


cdef bint put_back(QueueState* queue) noexcept nogil:
    """Return a queue to the list if something still waits there. Returns whether it does."""
    cdef Marker* asked = NULL
    cdef bint waiting
    queue.device.registry.lock.lock()
    waiting = not queue.deferred.retired.empty()
    queue.deferred.draining = waiting
    if waiting:
        queue.device.deferred.draining.push_back(queue)
    else:  # another thread may have taken off what the marker was for
        asked = queue.deferred.asked
        queue.deferred.asked = NULL
    queue.device.registry.lock.unlock()
    if asked != NULL:
        release_marker(asked)
    if not waiting:
        release_queue_state(queue)
    return waiting


cdef void sort_in_fresh(DeviceState* device, RetiredList* done) noexcept nogil:
    """Let what is retired since the last look wait at its queues. Asks no driver."""
    cdef RetiredList fresh
    cdef Retired* what
    device.registry.lock.lock()
    fresh = device.deferred.fresh
    device.deferred.fresh.first = NULL
    device.registry.lock.unlock()
    while fresh.first != NULL:
        what = take_first(&fresh)
        if what.open and (is_memory_short() or not add_users_of_all(device, what)):
            retire(device, what)  # for a later collection
            continue
        what.open = False
        sort_in(device, what, done)


cdef void take_retired(DeviceState* device, bint everything, RetiredList* done) noexcept nogil:
    cdef QueueState* queue
    cdef size_t at_most, busy = 0
    drain_orphans(device)
    drop_dead_plans(device)
    sort_in_fresh(device, done)
    device.registry.lock.lock()
    at_most = device.deferred.draining.size()  # each queue once: one that is not done is put back behind the others
    device.registry.lock.unlock()
    for _ in range(at_most if everything else min(at_most, <size_t> AT_ONCE)):
        queue = next_draining(device)
        if queue == NULL:
            break
        look_at(queue, done)
        busy += put_back(queue)
        if busy == BUSY_AT_ONCE and not everything:
            break


cdef bint has_retired(DeviceState* device) noexcept nogil:
    """This check may race: at worst the next call sees it."""
    return not (
        device.deferred.fresh.first == NULL and device.deferred.draining.empty()
        and device.deferred.orphaned == NULL and device.deferred.kept.first == NULL
        and device.registry.dead_kernels.empty() and device.deferred.spare.empty()
    )


# retired, or queues
cdef bint has_something(DeviceState* device) noexcept nogil:
    device.registry.lock.lock()
    cdef bint found = has_retired(device) or not device.registry.queues.empty()
    device.registry.lock.unlock()
    return found


# -- gives back what is done: things that are retired, and what a queue's own commands used


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
    device.registry.lock.lock()
    if allowed:
        ended = device.deferred.kept
        device.deferred.kept.first = NULL
        spare.swap(device.deferred.spare)
    while done.first != NULL:
        what = take_first(&done)
        if allowed or what.host or what.queue != NULL and what.queue.made.native != NULL:
            append(&ended, what)  # which releases nothing where nothing may be
        elif what.nbytes and not is_memory_short():
            device.deferred.spare.insert(SparePair(what.nbytes, what.thing))
            del what
        else:
            append(&device.deferred.kept, what)
    device.registry.lock.unlock()
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
    if device.deferred.spare.empty():
        return None
    device.registry.lock.lock()
    found = device.deferred.spare.lower_bound(nbytes)
    if found != device.deferred.spare.end() and dereference(found).first <= nbytes + nbytes // 8:
        memory = dereference(found).second
        device.deferred.spare.erase(found)
    device.registry.lock.unlock()
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
    return not (queue.deferred.retired.empty() and queue.order.marks.empty() and queue.plans.staged == 0)


cdef inline bint has_fresh(const DeviceState* device) noexcept nogil:
    """The same."""
    return device.deferred.fresh.first != NULL


cdef void queues_that_hold(DeviceState* device, vector[QueueState*]& into) noexcept nogil:
    """Append the queues with something to give back, each retained for the caller. Others are only looked at."""
    cdef size_t i
    device.registry.lock.lock()
    for i in range(device.registry.queues.size()):
        if holds_something(device.registry.queues[i].queue):
            into.push_back(retain_queue_state(device.registry.queues[i].queue))
    device.registry.lock.unlock()


cdef void collect_all(DeviceState* device):
    """Give back everything that is done."""
    cdef vector[QueueState*] queues
    cdef RetiredList done
    cdef size_t i
    queues_that_hold(device, queues)
    for i in range(queues.size()):
        collect_queue(queues[i])
        release_queue_state(queues[i])
    if not has_retired(device) and device.registry.idle_queues.size() <= SPARE_QUEUES:
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
    cdef unordered_map[uint64_t, Plan*].iterator each = queue.plans.by_kernel.begin()
    cdef Plan* plan
    cdef Staging* oldest
    cdef size_t i
    queue.plans.staged = 0
    while each != queue.plans.by_kernel.end():
        plan = dereference(each).second
        for i in range(plan.spills.size()):
            while plan.spills[i].staging.size() > SPARE_STAGING:
                oldest = &plan.spills[i].staging.front()
                if oldest.epoch > completed_epoch(queue.epochs):
                    queue.plans.staged += plan.spills[i].staging.size() - SPARE_STAGING
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
        if queue.plans.staged:
            trim_staging(queue, dropped)
        while not queue.order.marks.empty() and queue.order.marks.front().epoch <= completed_epoch(queue.epochs):
            markers.push_back(queue.order.marks.front())
            queue.order.marks.pop_front()
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


# -- releases what contexts that are gone have left behind, once no outstanding work can use it any more


cdef struct Abandoned:
    DeviceState* state  # retained
    PyObject* driver  # owned


cdef vector[Abandoned] abandoned  # with work outstanding; only touched with the GIL


cdef void abandon(DeviceState* state, object driver):
    Py_INCREF(driver)
    abandoned.push_back(Abandoned(state, <PyObject*> driver))
    collect_abandoned()


cdef void collect_abandoned():
    """Release what can be released by now."""
    cdef vector[Abandoned] contexts
    cdef size_t i
    contexts.swap(abandoned)  # more may be abandoned meanwhile
    for i in range(contexts.size()):
        collect_all(contexts[i].state)
        if has_something(contexts[i].state):
            abandoned.push_back(contexts[i])
        else:
            release_idle_queues(contexts[i].state, 0)
            release_device_state(contexts[i].state)
            Py_DECREF(<object> contexts[i].driver)


# -- memory that runs out: waits for what will come free, and for nothing that a gate or a host function holds up


cdef uint64_t free_until(QueueState* queue) noexcept nogil:
    """Return the epoch that the queue reaches whether or not any gate is opened; 0 when that is not known."""
    cdef uint64_t held, epoch
    cdef Clock* clock
    cdef QueueState* other
    cdef vector[ClockEntry] entries
    cdef bint free = True
    queue.lock.lock()
    held = first_hold(queue)
    epoch = submitted_epoch(queue.epochs) if held == 0 else marked_before(queue, held)
    clock = retain_clock(queue.order.clock)
    queue.lock.unlock()
    list_entries(clock, entries)
    for entry in entries:
        other = find_queue(queue.device, entry.queue.queue_id)
        if other == NULL:
            continue
        other.lock.lock()
        held = first_hold(other)
        other.lock.unlock()
        free = free and (held == 0 or held > entry.epoch)
        release_queue_state(other)
    release_clock(clock)
    return epoch if free else 0


cdef Status wait_for_retired(DeviceState* device) noexcept nogil:
    """Block until everything is done that something retired waits for, except where a gate or host function is in the
    way.
    """
    cdef vector[QueueState*] queues
    cdef vector[Marker*] markers
    cdef Marker* marker
    cdef uint64_t epoch
    cdef Status status = 0
    cdef size_t i
    device.registry.lock.lock()
    for i in range(device.deferred.draining.size()):
        queues.push_back(retain_queue_state(device.deferred.draining[i]))
    device.registry.lock.unlock()
    for i in range(queues.size()):
        epoch = submitted_epoch(queues[i].epochs) if closed_gates(device) == 0 else free_until(queues[i])
        if status == 0 and epoch > completed_epoch(queues[i].epochs):
            queues[i].lock.lock()
            status = take_point(queues[i], epoch, FOR_HOST, &marker)
            queues[i].lock.unlock()
            if marker != NULL:
                markers.push_back(marker)
        release_queue_state(queues[i])
    if status == 0:
        status = wait_on_host_for_all(device, markers)
    for i in range(markers.size()):
        release_marker(markers[i])
    return status
