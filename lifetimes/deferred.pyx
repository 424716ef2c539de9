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
from libcpp.map cimport map, multimap
from libcpp.unordered_map cimport unordered_map
from libcpp.utility cimport move, pair
from libcpp.vector cimport vector

from forebay.core.driver cimport DONE, FOR_HOST, Answer, Status
from forebay.core.plan cimport Plan, Staging, delete_plan, forget_queue
from forebay.core.ownership cimport Guard, Ref, Refs, release
from forebay.core.process cimport is_forked, is_memory_low, is_memory_short
from forebay.core.state cimport (
    BY_CLOSING, FOLLOWING, DeviceState, IdleQueue, Marker, NativeQueue, QueueState, Retired, RetiredList, Statistics,
    add_statistics, closed_gates, find_queue, is_closed, poll_marker, registered_queues,
    unregister, users_of_all
)
from forebay.core.vector_clock cimport (
    ClockEntry, Epochs, advance_submitted, completed_epoch, is_empty, submitted_epoch
)
from forebay.sync.ordering cimport (
    carry_pending, dissolve_list, mark_alone, note_listed_end, return_quota, take_done_checkpoints, take_markers,
    take_point, unlist_idle
)

ctypedef pair[uint64_t, Retired*] Waiting

cdef enum:
    AT_ONCE = 8  # queues that one collection looks at
    BUSY_AT_ONCE = 2  # after so many on which nothing is done it stops; the next one begins with others


# -- retiring


cdef void append(RetiredList* items, Retired* what) noexcept nogil:
    what.next = NULL
    if items.first == NULL:
        items.first = what
    else:
        items.last.next = what
    items.last = what


cdef Retired* take_first(RetiredList* items) noexcept nogil:
    cdef Retired* what = items.first
    if what != NULL:
        items.first = what.next
    return what


cdef Retired* new_retired(Epochs* queue, uint64_t epoch) noexcept nogil:
    """Create a record of a deferred release, due when the queue, if any, has reached this epoch. NULL when the host is
    out of memory: the caller then keeps what it was for.
    """
    cdef Retired* what
    if is_memory_low():
        return NULL
    what = new Retired()
    if queue != NULL and epoch > completed_epoch(queue):
        what.points.push_back(ClockEntry(queue, epoch))
    return what


cdef void retire(DeviceState* device, Retired* what) noexcept nogil:
    """Have it given back after its points. Takes it over."""
    cdef Guard guard
    guard.take(device.registry.lock)
    append(&device.deferred.fresh, what)


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
        marker.take()  # it is never released


cdef bint may_release(DeviceState* device) noexcept nogil:
    """Whether anything but events may be released (OpenCL 3.0, clSetUserEventStatus: not while a gate is closed)."""
    return not device.driver.gates_forbid_releases or closed_gates(device) == 0


cdef bint has_indirect_users(DeviceState* device) noexcept nogil:
    cdef Guard guard
    guard.take(device.registry.lock)
    return not device.resident.indirect_users.empty()


cdef void retire_memory(DeviceState* device, object memory, vector[ClockEntry]& points, size_t reusable):
    cdef Retired* what
    if points.empty() and may_release(device) and not has_indirect_users(device):
        return
    Py_INCREF(memory)
    what = new_retired(NULL, 0)
    if what != NULL:
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
    what = new_retired(queue, epoch)
    if what != NULL:
        what.host = host
        what.thing = <PyObject*> thing
        retire(device, what)


# -- looking at what is retired


cdef void drop_dead_plans(DeviceState* device) noexcept nogil:
    """Take plans of dead kernels off all queues. Each is kept for the launches that are in flight."""
    cdef vector[uint64_t] dead
    cdef Refs[QueueState] queues
    cdef vector[Plan*] plans
    cdef vector[Plan*]* idle
    cdef unordered_map[uint64_t, Plan*].iterator found
    cdef bint left = False
    cdef size_t i, j
    cdef Guard guard
    if device.registry.dead_kernels.empty():  # this check may race: at worst the next call sees it
        return
    guard.take(device.registry.lock)
    dead.swap(device.registry.dead_kernels)
    for i in range(device.registry.idle_queues.size()):
        idle = &device.registry.idle_queues[i].plans
        for j in range(idle.size(), 0, -1):
            for kernel_id in dead:
                if dereference(idle)[j - 1].kernel_id == kernel_id:
                    plans.push_back(dereference(idle)[j - 1])
                    idle.erase(idle.begin() + j - 1)
                    break
    guard.leave()
    registered_queues(device, queues)
    for queue in queues:
        if guard.try_take(queue.lock):
            for kernel_id in dead:
                found = queue.plans.by_kernel.find(kernel_id)
                if found != queue.plans.by_kernel.end():
                    plans.push_back(dereference(found).second)
                    queue.plans.by_kernel.erase(found)
                    queue.plans.last = NULL
            guard.leave()
        else:  # another thread has the lock, maybe for as long as its call blocks
            left = True
    if left:  # a later collection tries again
        guard.take(device.registry.lock)
        device.registry.dead_kernels.insert(device.registry.dead_kernels.end(), dead.begin(), dead.end())
        guard.leave()
    for plan in plans:
        retire_plan(device, plan)


cdef bint add_users_of_all(DeviceState* device, Retired* what) noexcept nogil:
    """Add the last uses by `users_of_all`. Takes no queue's lock. Returns False while such a launch is being submitted:
    nobody knows its epoch yet.
    """
    cdef Refs[QueueState] users
    cdef vector[ClockEntry] points
    cdef uint64_t epoch
    cdef bint known = True
    users_of_all(device, users)
    for queue in users:
        epoch = queue.resident.last_indirect.load()
        if epoch == FOLLOWING:
            known = False
        elif queue.adopted and not is_closed(queue):
            epoch = submitted_epoch(queue.epochs) + 1  # the marker that shows it counts as a command
        if known and epoch > completed_epoch(queue.epochs):
            points.push_back(ClockEntry(queue.epochs, epoch))
    if known:
        what.points.insert(what.points.end(), points.begin(), points.end())
    return known


cdef void sort_in(DeviceState* device, Retired* what, RetiredList* done) noexcept nogil:
    """Let it wait at the queue of its last point that is not done; without one it is done."""
    cdef Ref[QueueState] found
    cdef QueueState* queue
    cdef ClockEntry* point
    cdef Guard guard
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
            retire(device, what)  # for a later collection
            return
        guard.take(device.registry.lock)
        queue.deferred.retired.insert(Waiting(point.epoch, what))
        if not queue.deferred.draining:
            queue.deferred.draining = True
            device.deferred.draining.push_back(move(found))
        return
    append(done, what)


cdef uint64_t take_done(QueueState* queue, RetiredList* done) noexcept nogil:
    """Take off what waited for epochs that the queue is known to have reached. Returns the first epoch that something
    still waits for; 0 for none.
    """
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
        guard.leave()
        if what == NULL:
            return epoch
        sort_in(queue.device, what, done)


cdef bint poll_queue(QueueState* queue, RetiredList* done) noexcept nogil:
    """Take what is done off a queue that was taken from the device's list, and put it there again if something still
    waits. Returns whether it does.
    """
    cdef uint64_t epoch = take_done(queue, done)
    cdef Ref[Marker] _asked  # goes without the lock
    cdef Answer answer
    cdef bint waiting
    cdef Guard guard
    if queue.deferred.asked.get() == NULL and epoch != 0 and guard.try_take(queue.lock):
        # The lock may be held for as long as another thread's call blocks. Then a later collection asks.
        take_point(queue, epoch, FOR_HOST, queue.deferred.asked)
        guard.leave()
    if queue.deferred.asked.get() != NULL:
        answer = poll_marker(queue.deferred.asked.get())
        if answer == DONE or answer < 0:
            queue.deferred.asked.clear()
        if answer < 0 and guard.try_take(queue.lock):  # perhaps only because something that it waited for has failed
            mark_alone(queue, queue.deferred.asked)
            guard.leave()
        take_done(queue, done)
    guard.take(queue.device.registry.lock)
    waiting = not queue.deferred.retired.empty()
    queue.deferred.draining = waiting
    if waiting:
        queue.device.deferred.draining.push_back(Ref[QueueState].share(queue))
    else:  # another thread may have taken off what the marker was for
        _asked = move(queue.deferred.asked)
    return waiting


cdef void sort_in_fresh(DeviceState* device, RetiredList* done) noexcept nogil:
    """Let what is retired since the last look wait at its queues. Asks no driver."""
    cdef RetiredList fresh
    cdef Retired* what
    cdef Guard guard
    guard.take(device.registry.lock)
    fresh = device.deferred.fresh
    device.deferred.fresh.first = NULL
    guard.leave()
    while fresh.first != NULL:
        what = take_first(&fresh)
        if what.open and (is_memory_short() or not add_users_of_all(device, what)):
            retire(device, what)  # for a later collection
            continue
        what.open = False
        sort_in(device, what, done)


cdef void take_retired(DeviceState* device, bint everything, RetiredList* done) noexcept nogil:
    cdef Ref[QueueState] queue
    cdef size_t at_most, busy = 0
    cdef Guard guard
    drain_orphans(device)
    drop_dead_plans(device)
    sort_in_fresh(device, done)
    guard.take(device.registry.lock)
    at_most = device.deferred.draining.size()  # each queue once: one that is not done is put back behind the others
    guard.leave()
    for _ in range(at_most if everything else min(at_most, <size_t> AT_ONCE)):
        queue.clear()  # before the lock is taken
        guard.take(device.registry.lock)
        if not device.deferred.draining.empty():
            queue = move(device.deferred.draining.front())
            device.deferred.draining.pop_front()
        guard.leave()
        if queue.get() == NULL:
            break
        busy += poll_queue(queue.get(), done)
        if busy == BUSY_AT_ONCE and not everything:
            break


cdef bint has_retired(DeviceState* device) noexcept nogil:
    """This check may race: at worst the next call sees it."""
    return not (
        device.deferred.fresh.first == NULL and device.deferred.draining.empty()
        and device.deferred.orphaned == NULL and device.deferred.kept.first == NULL
        and device.registry.dead_kernels.empty() and device.deferred.spare.empty()
    )


# -- gives back what is done: things that are retired, and what a queue's own commands used


ctypedef pair[size_t, PyObject*] SparePair

cdef enum:
    SPARE_QUEUES = 64  # idle queues of the driver that are kept to be handed out again
    SPARE_STAGING = 2  # pieces of staging memory that a parameter keeps


cdef RetiredList sort_out(
    DeviceState* device, bint allowed, RetiredList done, multimap[size_t, PyObject*]& spare
) noexcept nogil:
    """Return what may be released, and give what was spare. Keep the rest while nothing may be released."""
    cdef RetiredList ended
    cdef Retired* what
    cdef Guard guard
    ended.first = NULL
    guard.take(device.registry.lock)
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
    return ended


cdef void release_done(DeviceState* device, RetiredList done):
    """Release what is done, or keep it while nothing may be released."""
    cdef multimap[size_t, PyObject*] spare
    cdef multimap[size_t, PyObject*].iterator each
    cdef bint allowed = may_release(device)
    cdef RetiredList ended = sort_out(device, allowed, done, spare)
    cdef Retired* what
    while ended.first != NULL:
        what = take_first(&ended)
        if what.thing != NULL:
            Py_DECREF(<object> what.thing)
        elif what.plan != NULL:
            with nogil:
                delete_plan(what.plan)
        elif what.queue == NULL:
            with nogil:
                what.marker.clear()
        elif not end_queue(what.queue):
            retire(device, what)  # for a later collection
            continue
        del what
    each = spare.begin()
    while each != spare.end():
        Py_DECREF(<object> dereference(each).second)
        preincrement(each)
    if allowed:
        release_idle_queues(device, SPARE_QUEUES)


cdef object take_spare(DeviceState* device, size_t nbytes):
    cdef multimap[size_t, PyObject*].iterator found
    cdef PyObject* memory = NULL
    cdef Guard guard
    if device.deferred.spare.empty():
        return None
    guard.take(device.registry.lock)
    found = device.deferred.spare.lower_bound(nbytes)
    if found != device.deferred.spare.end() and dereference(found).first <= nbytes + nbytes // 8:
        memory = dereference(found).second
        device.deferred.spare.erase(found)
    guard.leave()
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
        release_done(device, done)


cdef inline bint holds_something(const QueueState* queue) noexcept nogil:
    """This check may race, as that of `has_retired`."""
    return not (queue.deferred.retired.empty() and queue.order.checkpoints.empty() and queue.plans.staged == 0)


cdef void queues_to_collect(DeviceState* device, Refs[QueueState]& queues) noexcept nogil:
    cdef Guard guard
    guard.take(device.registry.lock)
    for each in device.registry.queues:
        if holds_something(each.queue):
            queues.share(each.queue)


cdef void collect_all(DeviceState* device):
    """Give back everything that is done."""
    cdef Refs[QueueState] queues
    cdef RetiredList done
    queues_to_collect(device, queues)
    for queue in queues:
        collect_queue(queue)
    if not has_retired(device) and device.registry.idle_queues.size() <= SPARE_QUEUES:  # may race
        return
    while True:  # a queue that ends leaves plans behind
        done.first = NULL
        with nogil:
            take_retired(device, True, &done)
        if done.first == NULL or is_memory_short():
            break
        release_done(device, done)
    release_done(device, done)


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
                    queue.driver.destroy_event(oldest.event)
                dropped.push_back(oldest.array)
                plan.spills[i].staging.pop_front()
                plan.spills[i].known = False  # the bytes to compare with may have been there
        preincrement(each)


cdef void collect_queue(QueueState* queue):
    """Give back what the queue's completed commands used. Asks no driver, and does not wait for another thread that has
    the queue's lock.
    """
    if holds_something(queue) or queue.device.deferred.fresh.first != NULL:  # may race
        collect_used(queue)


cdef void collect_used(QueueState* queue):
    """`collect_queue`, where there may be something to release."""
    cdef Refs[Marker] markers
    cdef vector[PyObject*] dropped
    cdef RetiredList done
    cdef Guard guard
    if not guard.try_take(queue.lock):
        return
    done.first = NULL
    with nogil:
        if queue.plans.staged:
            trim_staging(queue, dropped)
        take_done_checkpoints(queue, markers)
        guard.leave()
        markers.clear()
        sort_in_fresh(queue.device, &done)
        take_done(queue, &done)
    for thing in dropped:
        Py_XDECREF(thing)
    release_done(queue.device, done)


cdef void collect_reached(DeviceState* device, Marker* marker):
    """Give back what the queue of a marker that is reached has used, if there still is one."""
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


# -- releases what contexts that are gone have left behind, once no outstanding work can use it any more


cdef cppclass Abandoned:
    Ref[DeviceState] state
    PyObject* driver  # owned


# With work outstanding; only touched with the GIL. Never deleted: at exit the drivers may have gone.
cdef vector[Abandoned]* abandoned = new vector[Abandoned]()


cdef void abandon(Ref[DeviceState]& state, object driver):
    cdef Abandoned context
    Py_INCREF(driver)
    context.state = move(state)
    context.driver = <PyObject*> driver
    abandoned.push_back(context)
    collect_abandoned()


cdef bint is_in_use(DeviceState* device) noexcept nogil:
    cdef Guard guard
    guard.take(device.registry.lock)
    return has_retired(device) or not device.registry.queues.empty()


cdef void collect_abandoned():
    """Release what can be released by now."""
    cdef vector[Abandoned] contexts
    cdef Abandoned* context
    cdef size_t i
    contexts.swap(abandoned[0])  # more may be abandoned meanwhile
    for i in range(contexts.size()):
        context = &contexts[i]
        collect_all(context.state.get())
        if is_in_use(context.state.get()):
            abandoned.push_back(dereference(context))
        else:
            release_idle_queues(context.state.get(), 0)
            context.state.clear()  # before the driver
            Py_DECREF(<object> context.driver)


# -- closed queues, and those whose Queue is gone: when its work is done, the driver's queue is kept for another Queue


cdef void close_locked(QueueState* queue) noexcept nogil:
    """Refuse commands from now on. The queue is locked."""
    if queue.adopted and not is_closed(queue):
        advance_submitted(queue.epochs)  # for commands from outside forebay so far; later ones are not our concern
    queue.slow_path |= BY_CLOSING


cdef Status close_queue(QueueState* queue) noexcept nogil:
    """Refuse commands from now on. Pending waits are submitted, because no later command will carry them."""
    cdef Guard guard
    guard.take(queue.lock)
    close_locked(queue)
    return carry_pending(queue)


cdef void refuse_all(DeviceState* device) noexcept nogil:
    """Let the queues refuse commands from now on: the device is lost. Who finds that out may be a query, which waits
    for no thread: a queue that another thread is busy with asks the driver once more.
    """
    cdef Refs[QueueState] queues
    cdef Guard guard
    registered_queues(device, queues)
    for queue in queues:
        if guard.try_take(queue.lock):
            close_locked(queue)


cdef Status close_queues(DeviceState* device, uint64_t owner) noexcept nogil:
    """Close the queues of an owner; with 0 the null queue. Returns the first failure, and closes the others too."""
    cdef Refs[QueueState] queues
    cdef Status status, failed = 0
    registered_queues(device, queues)
    for queue in queues:
        if queue.owner == owner:
            status = close_queue(queue)
            failed = failed if failed != 0 else status
    return failed


cdef void retire_queue(QueueState* queue) noexcept nogil:
    """Note that its Queue is gone, and with it the caller's reference."""
    cdef DeviceState* device = queue.device
    cdef Guard guard
    guard.take(device.registry.lock)
    queue.deferred.next_orphaned = device.deferred.orphaned
    device.deferred.orphaned = queue


cdef void drain_orphans(DeviceState* device) noexcept nogil:
    """Close the queues whose Queue is gone. Each ends when what it was given is done.

    Another thread may have the lock of one, to make a marker of it, and its call may block.
    """
    cdef QueueState* orphaned
    cdef QueueState* queue
    cdef Retired* what
    cdef Guard guard
    guard.take(device.registry.lock)
    orphaned = device.deferred.orphaned
    device.deferred.orphaned = NULL
    guard.leave()
    while orphaned != NULL:
        queue = orphaned
        orphaned = queue.deferred.next_orphaned
        if is_memory_short() or not guard.try_take(queue.lock):
            retire_queue(queue)  # for a later collection
            continue
        close_locked(queue)
        what = new_retired(queue.epochs, submitted_epoch(queue.epochs))
        guard.leave()
        if what == NULL:
            retire_queue(queue)
            continue
        what.queue = queue  # with the reference of its Queue
        retire(device, what)


cdef bint end_queue(QueueState* queue):
    """End a queue whose work is done: take it off the registry, and keep its driver's queue to be handed out again,
    with the plans that no longer refer to it. Return False when the host has no memory for it now.
    """
    cdef DeviceState* device = queue.device
    cdef map[uint64_t, Statistics].iterator counts
    cdef vector[Plan*] plans
    cdef Refs[Marker] markers
    cdef IdleQueue idle
    cdef Plan* plan
    cdef bint prunes = False
    cdef Guard guard
    cdef Guard of_registry
    if is_memory_short():
        return False
    with nogil:
        guard.take(queue.lock)
        for each in queue.plans.by_kernel:
            plan = each.second
            if queue.made.native != NULL and plan.spills.empty() and plan.snapshot == NULL:
                idle.plans.push_back(plan)
            else:
                plans.push_back(plan)
        queue.plans.by_kernel.clear()
        queue.plans.last = NULL
        take_markers(queue, markers)
        guard.leave()
        for plan in plans:
            retire_plan(device, plan)
        for plan in idle.plans:
            forget_queue(plan)
        markers.clear()
        guard.take(queue.lock)
        return_quota(queue, 0)
        if queue.made.native != NULL and queue.driver.renew_queue != NULL:
            queue.driver.renew_queue(queue.handle)
        of_registry.take(device.registry.lock)
        unregister(device, queue.epochs.queue_id)
        counts = device.registry.counts_of_ended.find(queue.owner)
        if counts != device.registry.counts_of_ended.end():
            add_statistics(dereference(counts).second, queue.counts)
        if queue == device.null_queue:
            device.null_queue = NULL  # its Device is gone, so no more commands come
        if queue.made.native != NULL:
            idle.handle = queue.handle
            idle.made = queue.made
            device.registry.idle_queues.push_back(idle)
        prunes = queue.order.null_pending and note_listed_end(device)
        of_registry.leave()
        guard.leave()
        if queue.made.native == NULL:
            queue.driver.destroy_queue(queue.handle)
        if queue.is_null:
            dissolve_list(device)
        elif prunes:
            unlist_idle(device)
        release(queue)  # the registry's reference
        release(queue)  # its Queue's
    return True


cdef bint take_idle_queue(DeviceState* device, int priority, bint timing, IdleQueue& idle) noexcept nogil:
    """Take a queue of the driver that has ended, if there is one; the caller owns what is in it."""
    cdef Py_ssize_t i
    cdef NativeQueue* made
    cdef Guard guard
    guard.take(device.registry.lock)
    for i in range(<Py_ssize_t> device.registry.idle_queues.size() - 1, -1, -1):  # the last is likely in the cache
        made = &device.registry.idle_queues[i].made
        if made.priority == priority and made.timing == timing:
            idle = device.registry.idle_queues[i]
            device.registry.idle_queues[i] = device.registry.idle_queues.back()
            device.registry.idle_queues.pop_back()
            return True
    return False


cdef void release_idle_queues(DeviceState* device, size_t kept):
    """Release all idle queues but this many. If others may still wait for them, a later call does."""
    cdef vector[IdleQueue] idle
    cdef size_t j
    cdef Guard guard
    if device.driver.waits_read_queues and device.registry.idle_queues.size() > kept and not all_are_idle(device):
        return
    guard.take(device.registry.lock)
    while device.registry.idle_queues.size() > kept:
        idle.push_back(device.registry.idle_queues.back())
        device.registry.idle_queues.pop_back()
    guard.leave()
    for each in idle:
        with nogil:
            for j in range(each.plans.size()):
                delete_plan(each.plans[j])
            device.driver.destroy_queue(each.handle)
        Py_DECREF(<object> each.made.native)


cdef bint all_are_idle(DeviceState* device) noexcept nogil:
    """Return whether no queue has work that is not known to be done, nor is being given any."""
    cdef QueueState* queue
    cdef Guard of_registry
    cdef Guard guard
    of_registry.take(device.registry.lock)
    for each in device.registry.queues:
        queue = each.queue
        if not is_empty(queue.epochs) or queue.adopted and not is_closed(queue) or not guard.try_take(queue.lock):
            return False
        if not is_empty(queue.epochs) or not queue.order.pending.empty():
            return False
    return True
