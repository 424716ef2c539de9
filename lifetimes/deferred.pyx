"""Deferred release: releases what queues have used, each resource when its own uses are done.

A resource without references is a `Retired`: memory or another object, a plan, a marker, the plans of a kernel that
is closed or dropped, or a queue. Its points are queues and the epochs up to which they use it. It is in one list at a
time, all guarded by the registry's lock:

1. `fresh` of the device (`retire`): destructors put it there, without a queue's lock or a driver call.
2. `retired` of a queue (`sort_in`): it waits there for one of its points, in the order of epochs, and then at the queue
   of the next. `draining` lists such queues. A collection polls a few of them, each by one marker at a time, so its
   time does not depend on how much waits.
3. `kept` of the device (`release_done`): it is done, but OpenCL forbids its release while a gate is closed. Memory is
   reused from there (`take_spare`).

Then it is released, with the GIL and without a lock.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cython.operator cimport dereference
from libc.stdint cimport uint64_t
from libcpp.map cimport multimap
from libcpp.unordered_map cimport unordered_map
from libcpp.utility cimport move, pair
from libcpp.vector cimport vector

from forebay.core.driver cimport DONE, FOR_HOST, Answer, Status
from forebay.core.plan cimport Plan, Spill, Staging, change_use, delete_plan
from forebay.core.ownership cimport Guard, Lock, Ref, Refs, release
from forebay.core.process cimport is_forked, is_memory_low, is_memory_short
from forebay.core.state cimport (
    BY_CLOSING, DeviceState, Marker, QueueState, Retired, closed_gates, find_queue, is_closed, points_of_indirect_uses,
    poll_marker, registered_queues, unregister
)
from forebay.core.usage cimport Usage, points_of, unlist_memory
from forebay.core.vector_clock cimport ClockEntry, Epochs, advance_submitted, completed_epoch, is_empty, submitted_epoch
from forebay.sync.ordering cimport (
    carry_pending, mark_alone, note_listed_end, return_quota, take_done_checkpoints, take_markers,
    take_point, unlist_idle
)

ctypedef pair[uint64_t, Retired*] Waiting

cdef enum:
    AT_ONCE = 8  # queues that one collection polls
    BUSY_AT_ONCE = 2  # busy queues after which it stops; the next collection begins with other queues


cdef cppclass Abandoned:  # a dropped context with outstanding work
    Ref[DeviceState] state
    PyObject* driver  # owned


# -- retiring


cdef void push(Retired** items, Retired* what) noexcept nogil:
    what.next = items[0]
    items[0] = what


cdef Retired* take_first(Retired** items) noexcept nogil:
    cdef Retired* what = items[0]
    items[0] = what.next
    return what


cdef Retired* new_retired(Epochs* queue, uint64_t epoch) noexcept nogil:
    """Create a record of a deferred release, due when the queue, if any, has reached this epoch. NULL when the host is
    out of memory: the caller then keeps the resource.
    """
    cdef Retired* what
    if is_memory_low():
        return NULL
    what = new Retired()
    if queue != NULL and epoch > completed_epoch(queue):
        what.points.push_back(ClockEntry(queue, epoch))
    return what


cdef void retire(DeviceState* device, Retired* what) noexcept nogil:
    """Release it after its points. Takes it over."""
    cdef Guard guard
    guard.take(device.registry.lock)
    what.next = <Retired*> device.deferred.fresh
    device.deferred.fresh = what


cdef void retire_plan(DeviceState* device, Plan* plan) noexcept nogil:
    cdef Retired* what = new_retired(plan.queue, plan.epoch)
    if what != NULL:
        what.plan = plan
        retire(device, what)


cdef void retire_marker(QueueState* queue, Ref[Marker] marker) noexcept nogil:
    """Release the marker when the queue has reached its present epoch."""
    cdef Retired* what = new_retired(queue.epochs, submitted_epoch(queue.epochs))
    if what != NULL:
        what.marker = move(marker)
        retire(queue.device, what)
    else:
        marker.take()  # leaked, because it might still be in use


cdef void retire_queue(QueueState* queue) noexcept nogil:
    """Note that its Queue is gone, and take over the caller's reference."""
    queue.deferred.own.queue = queue
    queue.deferred.own.open = True
    retire(queue.device, &queue.deferred.own)


cdef void retire_plans(DeviceState* device, uint64_t kernel_id) noexcept nogil:
    """Take the plans of a kernel that is gone off all queues, and delete each after its launches."""
    cdef Retired* what = new_retired(NULL, 0)
    if what != NULL:
        what.kernel_id = kernel_id
        what.open = what.host = True
        retire(device, what)


cdef bint may_release(DeviceState* device) noexcept nogil:
    """Whether anything but events may be released (OpenCL 3.0, clSetUserEventStatus: not while a gate is closed)."""
    return not device.driver.gates_forbid_releases or closed_gates(device) == 0


cdef void retire_memory(DeviceState* device, object memory, Usage* usage, uint64_t listed, size_t reusable):
    cdef vector[ClockEntry] points
    cdef Retired* what
    cdef bint known
    if is_forked():
        Py_INCREF(memory)  # it is the parent's
        return
    if listed != 0:  # first: see `unlist_memory`
        unlist_memory(&device.resident.listed, listed)
    points_of(usage, False, points)
    known = points_of_indirect_uses(device, True, points)
    if known and points.empty() and may_release(device):
        return
    Py_INCREF(memory)
    what = new_retired(NULL, 0)
    if what != NULL:
        what.points.swap(points)
        what.thing = <PyObject*> memory
        what.nbytes = reusable
        what.open = not known
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
    what = new_retired(queue, epoch)
    if what != NULL:
        what.host = host
        what.thing = <PyObject*> thing
        retire(device, what)


# -- collecting


cdef void take_plan(QueueState* queue, uint64_t kernel_id, vector[Plan*]& plans) noexcept nogil:
    """Take out the plan of a kernel, if there is one. The queue is locked, or idle and the registry is locked."""
    cdef unordered_map[uint64_t, Plan*].iterator found = queue.plans.by_kernel.find(kernel_id)
    if found != queue.plans.by_kernel.end():
        plans.push_back(dereference(found).second)
        queue.plans.by_kernel.erase(found)
        queue.plans.last = NULL


cdef bint take_plans(DeviceState* device, uint64_t kernel_id) noexcept nogil:
    """Take a kernel's plans off all queues. Returns False if it skipped one locked by a thread, which may block."""
    cdef Refs[QueueState] queues
    cdef vector[Plan*] plans
    cdef bint all_free = True
    cdef Guard guard
    guard.take(device.registry.lock)
    device.deferred.searches += 1
    for each in device.registry.queues:
        queues.share(each.queue)
    for queue in device.registry.idle_queues:
        take_plan(queue, kernel_id, plans)
    guard.leave()
    for queue in queues:
        if guard.try_take(queue.lock):
            take_plan(queue, kernel_id, plans)
        else:
            all_free = False
    guard.leave()
    for plan in plans:
        retire_plan(device, plan)
    return all_free


cdef bint find_uses(DeviceState* device, Retired* what) noexcept nogil:
    """Add the uses that were not known when it was retired. Returns False to try again later: another thread has a
    queue's lock, maybe while its call blocks, or submits a launch with indirect access.
    """
    cdef size_t known = what.points.size()
    cdef Guard guard
    if what.kernel_id != 0:
        return take_plans(device, what.kernel_id)
    if what.queue == NULL:
        if points_of_indirect_uses(device, True, what.points):
            return True
        what.points.resize(known)
        return False
    if not guard.try_take(what.queue.lock):
        return False
    close_locked(what.queue)
    what.points.push_back(ClockEntry(what.queue.epochs, submitted_epoch(what.queue.epochs)))
    return True


cdef void sort_in(DeviceState* device, Retired* what, Retired** done) noexcept nogil:
    """Let it wait at the queue of its last point that is not done; without one it is done."""
    cdef Ref[QueueState] found
    cdef QueueState* queue
    cdef ClockEntry* point
    cdef Guard guard
    if what.open and (is_memory_short() or not find_uses(device, what)):
        retire(device, what)  # for a later collection
        return
    what.open = False
    while not what.points.empty():
        point = &what.points.back()
        found.clear()
        if point.epoch > completed_epoch(point.queue):
            found = find_queue(device, point.queue.queue_id)
        queue = found.get()
        if queue == NULL:
            what.points.pop_back()
            continue
        if is_memory_short():
            retire(device, what)
            return
        guard.take(device.registry.lock)
        queue.deferred.retired.insert(Waiting(point.epoch, what))
        queue.deferred.count += 1
        if not queue.deferred.draining:
            queue.deferred.draining = True
            device.deferred.draining.push_back(move(found))
            device.deferred.has_draining = True
        return
    push(done, what)


cdef uint64_t take_done(QueueState* queue, Retired** done) noexcept nogil:
    """Take off what waited for epochs known to be reached. Returns the next epoch waited for, or 0."""
    cdef multimap[uint64_t, Retired*].iterator first
    cdef uint64_t epoch = 0
    cdef Retired* what = NULL
    cdef Guard guard
    while True:
        what = NULL
        guard.take(queue.device.registry.lock)
        first = queue.deferred.retired.begin()
        epoch = 0 if queue.deferred.retired.empty() else dereference(first).first
        if epoch != 0 and epoch <= completed_epoch(queue.epochs):
            what = dereference(first).second
            queue.deferred.retired.erase(first)
            queue.deferred.count -= 1
        guard.leave()
        if what == NULL:
            return epoch
        sort_in(queue.device, what, done)


cdef bint poll_queue(QueueState* queue, Retired** done) noexcept nogil:
    """Take what is done off a queue from the device's list. Returns whether something still waits there."""
    cdef uint64_t epoch = take_done(queue, done)
    cdef Ref[Marker] _asked  # released without the lock
    cdef Answer answer
    cdef bint waiting
    cdef Guard guard
    if queue.deferred.asked.get() == NULL and epoch != 0 and guard.try_take(queue.lock):
        # Another thread's call may hold the lock while it blocks. Then a later collection asks.
        take_point(queue, epoch, FOR_HOST, queue.deferred.asked)
        guard.leave()
    if queue.deferred.asked.get() != NULL:
        answer = poll_marker(queue.deferred.asked.get())
        if answer == DONE or answer < 0:
            queue.deferred.asked.clear()
        if answer < 0 and guard.try_take(queue.lock):  # maybe only something that it waited for has failed
            mark_alone(queue, queue.deferred.asked)
            guard.leave()
        take_done(queue, done)
    guard.take(queue.device.registry.lock)
    waiting = not queue.deferred.retired.empty()
    queue.deferred.draining = waiting
    if waiting:
        queue.device.deferred.draining.push_back(Ref[QueueState].share(queue))
        queue.device.deferred.has_draining = True
    else:  # another thread may have taken off what the marker was for
        _asked = move(queue.deferred.asked)
    return waiting


cdef void sort_in_fresh(DeviceState* device, Retired** done) noexcept nogil:
    """Let what was retired since the last collection wait at its queues. Does not poll the driver."""
    cdef Retired* fresh
    cdef Retired* oldest = NULL  # first: what is released last is often allocated again first, from the cache
    cdef Guard guard
    guard.take(device.registry.lock)
    fresh = <Retired*> device.deferred.fresh
    device.deferred.fresh = NULL
    guard.leave()
    while fresh != NULL:
        push(&oldest, take_first(&fresh))
    while oldest != NULL:
        sort_in(device, take_first(&oldest), done)


cdef void take_retired(DeviceState* device, bint everything, Retired** done) noexcept nogil:
    cdef Ref[QueueState] queue
    cdef size_t at_most, busy = 0
    cdef Guard guard
    sort_in_fresh(device, done)
    guard.take(device.registry.lock)
    at_most = device.deferred.draining.size()  # each queue once: busy ones return to the end
    guard.leave()
    for _ in range(at_most if everything else min(at_most, <size_t> AT_ONCE)):
        queue.clear()  # before the lock is taken
        guard.take(device.registry.lock)
        if not device.deferred.draining.empty():
            queue = move(device.deferred.draining.front())
            device.deferred.draining.pop_front()
            device.deferred.has_draining = not device.deferred.draining.empty()
        guard.leave()
        if queue.get() == NULL:
            break
        busy += poll_queue(queue.get(), done)
        if busy == BUSY_AT_ONCE and not everything:
            break


cdef bint has_retired(DeviceState* device) noexcept nogil:
    """This check may race: at worst the next call sees it."""
    return device.deferred.fresh != NULL or device.deferred.has_draining or device.deferred.kept != NULL


# -- releasing what is done: retired resources, and what a queue's own commands used


cdef enum:
    SPARE_QUEUES = 64  # idle driver queues kept for reuse
    SPARE_STAGING = 2  # pieces of staging memory that a parameter keeps


cdef void release_done(DeviceState* device, Retired* done):
    """Release what is done, or keep it while a gate forbids releases."""
    cdef bint allowed = may_release(device)
    cdef Retired* kept
    cdef Retired* ended = NULL
    cdef Retired* what
    cdef Guard guard
    guard.take(device.registry.lock)
    kept = <Retired*> device.deferred.kept
    if allowed:
        ended = kept
        kept = NULL
    while done != NULL:
        what = take_first(&done)
        if allowed or what.host or what.queue != NULL and what.queue.made.native != NULL:
            push(&ended, what)  # while releases are forbidden, ending these makes none
        else:
            push(&kept, what)
    device.deferred.kept = kept
    guard.leave()
    while ended != NULL:
        what = take_first(&ended)
        if what.queue != NULL:
            if not end_queue(what.queue):
                retire(device, what)  # for a later collection
            continue
        Py_XDECREF(what.thing)
        with nogil:
            if what.plan != NULL:
                delete_plan(what.plan)
            del what  # and its marker
    if allowed:
        release_idle_queues(device, SPARE_QUEUES)


cdef object take_spare(DeviceState* device, size_t nbytes):
    cdef Retired* kept
    cdef Retired** place = &kept
    cdef Retired* what
    cdef Guard guard
    guard.take(device.registry.lock)
    kept = <Retired*> device.deferred.kept
    while place[0] != NULL and not 0 < nbytes <= place[0].nbytes <= nbytes + nbytes // 8:
        place = &place[0].next
    what = place[0]
    if what != NULL:
        place[0] = what.next
    device.deferred.kept = kept
    guard.leave()
    if what == NULL:
        return None
    memory = <object> what.thing
    Py_DECREF(memory)
    del what
    return memory


cdef void collect_device(DeviceState* device):
    """Release some of what is done. Its time does not depend on how much waits."""
    cdef Retired* done = NULL
    if has_retired(device):
        with nogil:
            take_retired(device, False, &done)
        release_done(device, done)


cdef bint collect_all(DeviceState* device):
    """Release everything that is done. Returns whether anything was retired."""
    cdef bint any_retired = has_retired(device)
    cdef Refs[QueueState] queues
    cdef Retired* done = NULL
    registered_queues(device, queues)
    for queue in queues:
        collect_queue(queue)
    if not has_retired(device) and count_idle_queues(device) <= SPARE_QUEUES:
        return any_retired
    while True:  # an ended queue leaves plans behind
        done = NULL
        with nogil:
            take_retired(device, True, &done)
        if done == NULL or is_memory_short():
            break
        release_done(device, done)
    release_done(device, done)
    return any_retired


cdef void trim_staging(QueueState* queue, vector[PyObject*]& dropped) noexcept nogil:
    """Take out staging memory beyond what steady launches need, if its upload is done. The queue is locked."""
    cdef Spill* spill
    cdef Staging* oldest
    cdef size_t i
    queue.plans.staged = 0
    for each in queue.plans.by_kernel:
        for i in range(each.second.spills.size()):
            spill = &each.second.spills[i]
            while spill.staging.size() > SPARE_STAGING:
                oldest = &spill.staging.front()
                if oldest.epoch > completed_epoch(queue.epochs):
                    queue.plans.staged += spill.staging.size() - SPARE_STAGING
                    break
                dropped.push_back(oldest.array)
                spill.staging.pop_front()
                spill.known = False  # the bytes to compare with may have been there


cdef void collect_queue(QueueState* queue):
    """Release what the queue's completed commands used. Neither polls the driver nor waits for the queue's lock."""
    if not (  # this may race, as `has_retired`
        queue.deferred.count == 0 and not queue.order.has_checkpoints and queue.plans.staged == 0
        and queue.device.deferred.fresh == NULL
    ):
        collect_used(queue)


cdef void collect_used(QueueState* queue):
    cdef Refs[Marker] markers
    cdef vector[PyObject*] dropped
    cdef Retired* done = NULL
    cdef Guard guard
    if not guard.try_take(queue.lock):
        return
    with nogil:
        if queue.plans.staged:
            trim_staging(queue, dropped)
        take_done_checkpoints(queue, &markers)
        guard.leave()
        markers.clear()
        sort_in_fresh(queue.device, &done)
        take_done(queue, &done)
    for thing in dropped:
        Py_XDECREF(thing)
    release_done(queue.device, done)


cdef void collect_reached(DeviceState* device, Marker* marker):
    """Release what the queue of a reached marker has used, if the queue still exists."""
    cdef Ref[QueueState] queue = find_queue(device, marker.queue.queue_id)
    if queue.get() != NULL:
        collect_queue(queue.get())


cdef Status reach_point(DeviceState* device, Epochs* epochs, uint64_t epoch) noexcept nogil:
    """Ask the driver whether a queue has reached an epoch, and if so, note it. Never blocks."""
    cdef Ref[QueueState] found = find_queue(device, epochs.queue_id)
    cdef QueueState* queue = found.get()
    cdef Ref[Marker] marker
    cdef Status status = 0
    cdef Guard guard
    if queue == NULL:
        return 0
    if guard.try_take(queue.lock):
        status = take_point(queue, epoch, FOR_HOST, marker)
        guard.leave()
    if marker.get() != NULL:
        poll_marker(marker.get())
    return status


# -- releases what dropped contexts have left behind, once no outstanding work can use it


# Never deleted: at exit drivers may be unloaded. A list of Python objects could find no memory in a destructor.
cdef vector[Abandoned]* abandoned = new vector[Abandoned]()
cdef Lock abandoned_lock


cdef void keep_abandoned(Abandoned& context) noexcept nogil:
    cdef Guard guard
    guard.take(abandoned_lock)
    abandoned.push_back(context)


cdef void abandon(Ref[DeviceState]& state, object driver):
    cdef Abandoned context
    Py_INCREF(driver)
    context.state = move(state)
    context.driver = <PyObject*> driver
    keep_abandoned(context)
    collect_abandoned()


cdef bint is_in_use(DeviceState* device) noexcept nogil:
    cdef Guard guard
    guard.take(device.registry.lock)
    return has_retired(device) or not device.registry.queues.empty()


cdef void collect_abandoned():
    cdef vector[Abandoned] contexts
    cdef Abandoned* context
    cdef size_t i
    cdef Guard guard
    guard.take(abandoned_lock)
    contexts.swap(abandoned[0])
    guard.leave()
    for i in range(contexts.size()):
        context = &contexts[i]
        collect_all(context.state.get())
        if is_in_use(context.state.get()):
            keep_abandoned(dereference(context))
        else:
            release_idle_queues(context.state.get(), 0)
            context.state.clear()  # before the driver
            Py_DECREF(<object> context.driver)


# -- closed and dropped queues: when its work is done, the driver's queue is kept for another Queue


cdef void close_locked(QueueState* queue) noexcept nogil:
    """Refuse commands from now on. The queue is locked."""
    if queue.adopted and not is_closed(queue):
        advance_submitted(queue.epochs)  # covers commands from outside forebay so far; later ones do not count
    queue.slow_path |= BY_CLOSING


cdef Status close_queue(QueueState* queue) noexcept nogil:
    """Refuse commands from now on. Submits pending waits, because no later command will carry them."""
    cdef Guard guard
    guard.take(queue.lock)
    close_locked(queue)
    return carry_pending(queue)


cdef void refuse_all(DeviceState* device) noexcept nogil:
    """Make the queues of a lost device refuse commands. Must not block, as a query may find the loss: a queue that
    another thread has locked asks the driver once more.
    """
    cdef Refs[QueueState] queues
    cdef Guard guard
    registered_queues(device, queues)
    for queue in queues:
        if guard.try_take(queue.lock):
            close_locked(queue)


cdef Status close_queues(DeviceState* device, uint64_t owner) noexcept nogil:
    """Close the queues of an owner; with 0 the null queue. Returns the first failure, but closes all."""
    cdef Refs[QueueState] queues
    cdef Status status, failed = 0
    registered_queues(device, queues)
    for queue in queues:
        if queue.owner == owner:
            status = close_queue(queue)
            failed = failed if failed != 0 else status
    return failed


cdef void forget_queue(Plan* plan) noexcept nogil:
    """Forget the queue, and which arguments the kernel has. All its launches are done."""
    cdef size_t i
    for i in range(plan.uses.size()):
        change_use(plan.uses[i], NULL, plan.queue, &plan.epoch, plan.parameters[i].writes)
        plan.known[i] = 0
    plan.all_known = plan.uses.empty()
    plan.queue = NULL
    plan.epoch = 0


cdef bint end_queue(QueueState* queue):
    """Take a queue whose work is done off the registry. Keep its driver's queue for reuse, with the plans that no
    longer refer to it. Returns False if the host is out of memory.
    """
    cdef DeviceState* device = queue.device
    cdef bint idle = queue.made.native != NULL
    cdef unordered_map[uint64_t, Plan*] kept
    cdef vector[Plan*] plans
    cdef Refs[Marker] markers
    cdef bint prunes = False
    cdef Guard guard, of_registry
    if is_memory_short():
        return False
    with nogil:
        guard.take(queue.lock)
        for each in queue.plans.by_kernel:
            if idle and each.second.spills.empty() and each.second.snapshot == NULL:
                forget_queue(each.second)
                kept.insert(each)
            else:
                plans.push_back(each.second)
        queue.plans.by_kernel.swap(kept)
        queue.plans.last = NULL
        queue.plans.staged = 0
        take_markers(queue, markers)
        return_quota(queue, 0)
        if idle and queue.driver.renew_queue != NULL:
            queue.driver.renew_queue(queue.handle)
        of_registry.take(device.registry.lock)
        unregister(queue)
        if idle:
            device.registry.idle_queues.share(queue)
        prunes = queue.order.null_pending and note_listed_end(device)
        of_registry.leave()
        guard.leave()
        markers.clear()
        for plan in plans:
            retire_plan(device, plan)
        if not idle:
            queue.driver.destroy_queue(queue.handle)
        if prunes or queue.is_null:
            unlist_idle(device)
        release(queue)  # the registry's reference
        release(queue)  # its Queue's
    return True


cdef Ref[QueueState] take_idle_queue(DeviceState* device, int priority, bint timing) noexcept nogil:
    """Take out an idle queue; NULL if there is none. The caller owns its driver's queue and its plans."""
    cdef Ref[QueueState] found
    cdef Refs[QueueState]* idle = &device.registry.idle_queues
    cdef Py_ssize_t i
    cdef Guard guard
    guard.take(device.registry.lock)
    for i in range(<Py_ssize_t> idle.size() - 1, -1, -1):  # the last is probably in the cache
        if dereference(idle)[i].made.priority == priority and dereference(idle)[i].made.timing == timing:
            found = Ref[QueueState].share(dereference(idle)[i])
            found.get().plans.searches = device.deferred.searches
            idle.erase(idle.begin() + i)
            break
    guard.leave()
    return found


cdef void take_over_plans(QueueState* queue, QueueState* ended) noexcept nogil:
    """Give a queue the plans of the one whose driver's queue it got, unless one may be of a kernel that is gone."""
    cdef unordered_map[uint64_t, Plan*] plans
    cdef Guard guard, of_registry
    guard.take(ended.lock)  # a collection that listed it before may still look at it
    plans.swap(ended.plans.by_kernel)
    guard.take(queue.lock)  # as may one for this queue
    queue.plans.by_kernel.swap(plans)
    for each in queue.plans.by_kernel:
        each.second.queue = <Epochs*> queue.epochs
    of_registry.take(queue.device.registry.lock)
    if ended.plans.searches != queue.device.deferred.searches:
        queue.plans.by_kernel.swap(plans)
    of_registry.leave()
    guard.leave()
    for each in plans:
        retire_plan(queue.device, each.second)


cdef size_t count_idle_queues(DeviceState* device) noexcept nogil:
    cdef Guard guard
    guard.take(device.registry.lock)
    return device.registry.idle_queues.size()


cdef void release_idle_queues(DeviceState* device, size_t kept):
    """Release all but `kept` idle queues. Those that other queues may wait for are left to a later call."""
    cdef unordered_map[uint64_t, Plan*] plans
    cdef Refs[QueueState] idle
    cdef Guard guard
    if count_idle_queues(device) <= kept or device.driver.waits_read_queues and not all_are_idle(device):
        return
    guard.take(device.registry.lock)
    while device.registry.idle_queues.size() > kept:
        idle.share(device.registry.idle_queues.back())
        device.registry.idle_queues.pop_back()
    guard.leave()
    for queue in idle:
        with nogil:
            guard.take(queue.lock)  # as in `take_over_plans`
            plans.swap(queue.plans.by_kernel)
            guard.leave()
            for each in plans:
                delete_plan(each.second)
            plans.clear()
            device.driver.destroy_queue(queue.handle)
        Py_DECREF(<object> queue.made.native)


cdef bint all_are_idle(DeviceState* device) noexcept nogil:
    """Return whether no queue has work that is not known to be done, nor is receiving any."""
    cdef QueueState* queue
    cdef Guard of_registry, guard
    of_registry.take(device.registry.lock)
    for each in device.registry.queues:
        queue = each.queue
        if not is_empty(queue.epochs) or queue.adopted and not is_closed(queue) or not guard.try_take(queue.lock):
            return False
        if not is_empty(queue.epochs) or not queue.order.pending.empty():
            return False
    return True
