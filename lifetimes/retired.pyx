"""Gives back what queues have used, each thing when its own uses are done, whatever else the device is busy with.

A thing that is retired has points: queues, and the epochs up to which they use it. It waits at one of its queues, in
the order of epochs, then at the next. A collection looks at a few of the queues where something waits, and there at
what is done, so it takes the same time however much waits. While something waits at a queue, one marker shows how far
the queue has come.

Destructors only put things on a list. It is emptied where the GIL is held and no lock is.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint64_t
from libcpp.map cimport multimap
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set
from libcpp.utility cimport pair
from libcpp.vector cimport vector
from cython.operator cimport dereference, preincrement

from forebay.core.driver cimport DONE, FOR_HOST, Answer
from forebay.core.epochs cimport Epochs, completed_epoch, release_epochs, retain_epochs, submitted_epoch
from forebay.core.marker cimport Marker, poll_marker, release_marker
from forebay.core.plan cimport Plan
from forebay.core.process cimport is_forked, is_memory_short
from forebay.core.state cimport (
    FOLLOWING, DeviceState, QueueState, Retired, RetiredList, append, closed_gates, find_queue, is_closed, new_retired,
    note_planned, release_queue_state, retire, retire_plan, take_first, users_of_all
)
from forebay.core.uses cimport Point, release_points
from forebay.lifetimes.queue_ends cimport drain_orphans
from forebay.sync.points cimport mark_alone, take_point

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
        device.registry_lock.lock()
        unused = device.all_users.empty()
        device.registry_lock.unlock()
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
    for i in range(device.idle_queues.size()):
        idle = &device.idle_queues[i].plans
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
        found = queue.plans.find(kernel_id)
        if found != queue.plans.end():
            plans.push_back(dereference(found).second)
            queue.plans.erase(found)
            queue.last_plan = NULL
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
    if device.dead_kernels.empty():  # this check may race: at worst the next call sees it
        return
    device.registry_lock.lock()
    dead.swap(device.dead_kernels)
    device.registry_lock.unlock()
    for i in range(dead.size()):
        queues.clear()
        device.registry_lock.lock()
        planned = device.planned.find(dead[i])
        if planned != device.planned.end():
            queues.swap(dereference(planned).second)
            device.planned.erase(planned)
        if queues.erase(0):
            take_idle_plans(device, dead[i], plans)
        device.registry_lock.unlock()
        left = False
        each = queues.begin()
        while each != queues.end():
            if not take_plan(device, dereference(each), dead[i], plans):
                note_planned(device, dead[i], dereference(each))
                left = True
            preincrement(each)
        if left:  # a later collection tries again
            device.registry_lock.lock()
            device.dead_kernels.push_back(dead[i])
            device.registry_lock.unlock()
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
        epoch = queue.all_used.load()
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
        device.registry_lock.lock()
        queue.retired.insert(Waiting(point.epoch, what))
        if queue.draining:
            device.registry_lock.unlock()
            release_queue_state(queue)
        else:
            queue.draining = True
            device.draining.push_back(queue)
            device.registry_lock.unlock()
        return
    append(done, what)


cdef void take_done(QueueState* queue, RetiredList* done) noexcept nogil:
    """Take off what waited for epochs that the queue is known to have reached."""
    cdef RetiredList reached
    cdef multimap[uint64_t, Retired*].iterator first
    cdef Retired* what
    reached.first = NULL
    queue.device.registry_lock.lock()
    while not queue.retired.empty():
        first = queue.retired.begin()
        if dereference(first).first > completed_epoch(queue.epochs):
            break
        append(&reached, dereference(first).second)
        queue.retired.erase(first)
    queue.device.registry_lock.unlock()
    while reached.first != NULL:
        what = take_first(&reached)
        sort_in(queue.device, what, done)


cdef bint first_epoch(QueueState* queue, uint64_t* epoch) noexcept nogil:
    queue.device.registry_lock.lock()
    cdef bint waiting = not queue.retired.empty()
    if waiting:
        epoch[0] = dereference(queue.retired.begin()).first
    queue.device.registry_lock.unlock()
    return waiting


cdef void look_at(QueueState* queue, RetiredList* done) noexcept nogil:
    """Take what is done off a queue that was taken from the device's list."""
    cdef uint64_t epoch = 0
    cdef Answer answer
    take_done(queue, done)
    if queue.asked == NULL and first_epoch(queue, &epoch) and queue.lock.try_lock():
        # The lock may be held for as long as another thread's call blocks. Then a later collection asks.
        take_point(queue, epoch, FOR_HOST, &queue.asked)
        queue.lock.unlock()
    if queue.asked != NULL:
        answer = poll_marker(queue.asked)
        if answer == DONE or answer < 0:
            release_marker(queue.asked)
            queue.asked = NULL
        if answer < 0 and queue.lock.try_lock():  # perhaps only because something that it waited for has failed
            mark_alone(queue, &queue.asked)
            queue.lock.unlock()
        take_done(queue, done)


cdef QueueState* next_draining(DeviceState* device) noexcept nogil:
    cdef QueueState* queue = NULL
    device.registry_lock.lock()
    if not device.draining.empty():
        queue = device.draining.front()
        device.draining.pop_front()
    device.registry_lock.unlock()
    return queue


cdef bint put_back(QueueState* queue) noexcept nogil:
    """Return a queue to the list if something still waits there. Returns whether it does."""
    cdef Marker* asked = NULL
    cdef bint waiting
    queue.device.registry_lock.lock()
    waiting = not queue.retired.empty()
    queue.draining = waiting
    if waiting:
        queue.device.draining.push_back(queue)
    else:  # another thread may have taken off what the marker was for
        asked = queue.asked
        queue.asked = NULL
    queue.device.registry_lock.unlock()
    if asked != NULL:
        release_marker(asked)
    if not waiting:
        release_queue_state(queue)
    return waiting


cdef void sort_in_fresh(DeviceState* device, RetiredList* done) noexcept nogil:
    """Let what is retired since the last look wait at its queues. Asks no driver."""
    cdef RetiredList fresh
    cdef Retired* what
    device.registry_lock.lock()
    fresh = device.fresh
    device.fresh.first = NULL
    device.registry_lock.unlock()
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
    device.registry_lock.lock()
    at_most = device.draining.size()  # each queue once: one that is not done is put back behind the others
    device.registry_lock.unlock()
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
        device.fresh.first == NULL and device.draining.empty() and device.orphaned == NULL and device.kept.first == NULL
        and device.dead_kernels.empty() and device.spare.empty()
    )


cdef bint has_something(DeviceState* device) noexcept nogil:
    device.registry_lock.lock()
    cdef bint found = has_retired(device) or not device.queues.empty()
    device.registry_lock.unlock()
    return found
