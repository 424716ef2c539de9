"""Changes the launches in a replay of a graph: what differs, and nothing else.

Launches that are submitted one by one have other arguments from then on, each with a kernel object of its own. Those of
a recording are changed where the driver can do that, and only while the replay does not run: an executable that is
changed while it runs has two or three replays then, which take turns. Nobody may be launching a replay meanwhile.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_REFCNT
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp
from libcpp.algorithm cimport sort, unique
from libcpp.vector cimport vector

from forebay.core.driver cimport CHANGED_GROUPS, CHANGED_POINTER, CHANGED_VALUE, Change, Geometry, Status
from forebay.core.epochs cimport Epochs, completed_epoch, release_epochs, retain_epochs
from forebay.core.plan cimport (
    LOCAL, POINTER, PackedPointer, Parameter, Plan, has_value, set_changed_arguments
)
from forebay.core.state cimport DeviceState
from forebay.lifetimes.collection cimport reach_point
from forebay.queues.graphs.prepared cimport Prepared
from forebay.queues.graphs.replay cimport NO_LAUNCH, Replay, add_plan, has_room, note_works
from forebay.queues.graphs.submission cimport RECORDED
from forebay.queues.graphs.work cimport KernelWork, PyTupleObject, Work, packed_bytes
from forebay.queues.memory.buffer cimport Buffer

cdef enum:
    MOST_SPARES = 3  # replays of an executable beside the one that is launched next
    MOST_RECORDED = 2  # that are made because works were replaced, before there is one without recordings
    MOST_REPEATS = 8  # launches with nothing changed of a replay that submits them one by one
    HOLDERS = 4  # of a tuple of works: the executable, the replay and its sizes, and who counts them


# What looks at every node borrows its references: nothing here runs code of others.


cdef inline bint is_changeable(PyObject* work):
    return not (<KernelWork> work).by_value and not (<KernelWork> work).scratch and not (<KernelWork> work).follows


cdef bint can_become(PyObject* work, PyObject* other):
    """Return whether a recorded launch can be changed to the other: in its arguments and groups, not in its block."""
    cdef const Parameter* parameter
    cdef const Geometry* geometry = &(<KernelWork> work).geometry
    cdef const Geometry* becomes = &(<KernelWork> other).geometry
    cdef Py_ssize_t i
    for i in range(3):
        if geometry.block[i] != becomes.block[i]:
            return False
    if not (<KernelWork> work).kernel.has_local:
        return True
    for i in range((<KernelWork> work).kernel.count):
        parameter = &(<KernelWork> work).kernel.layout[i]
        if parameter.kind == LOCAL and not has_value(
            packed_bytes(&(<KernelWork> work).packed) + parameter.offset,
            packed_bytes(&(<KernelWork> other).packed) + parameter.offset, parameter.width
        ):
            return False
    return True


cdef inline bint is_recorded(Prepared prepared, size_t node):
    return prepared.submission.steps[prepared.step_of[node]].kind == RECORDED


cdef void find_changes(tuple works, tuple before, vector[size_t]& changed):
    """List where two tuples of the same length differ: the part of a change that looks at every node."""
    cdef PyObject** items = (<PyTupleObject*> works).ob_item
    cdef PyObject** others = (<PyTupleObject*> before).ob_item
    cdef size_t i, count = <size_t> len(works)
    changed.clear()
    for i in range(count):
        if items[i] != others[i]:
            changed.push_back(i)


cdef inline bint can_change(Prepared prepared, size_t node, PyObject* work, PyObject* other, bint* recorded):
    """Return whether the work of a node can be changed to the other. `recorded` is set if that is in a recording."""
    if (
        type(<object> work) is not KernelWork or type(<object> other) is not KernelWork
        or prepared.command_of[node] == NO_LAUNCH
    ):
        return False
    if (
        <PyObject*> (<KernelWork> work).kernel != <PyObject*> (<KernelWork> other).kernel
        or not is_changeable(work) or not is_changeable(other)
    ):
        return False
    if is_recorded(prepared, node):
        recorded[0] = True
        return prepared.changeable and can_become(work, other)
    return True


cdef bint fits(Replay replay, tuple works, vector[size_t]& changed, bint* recorded):
    """Return whether the replay can be changed to do these works, of which `changed` then says which are others.
    `recorded` is set where it must not run meanwhile.
    """
    cdef tuple before = replay.works
    cdef PyObject** items
    cdef PyObject** others
    cdef size_t i
    recorded[0] = False
    if replay.users or before is None or replay.lifetimes is not None:
        return False
    find_changes(works, before, changed)
    items, others = (<PyTupleObject*> before).ob_item, (<PyTupleObject*> works).ob_item
    for i in changed:
        if not can_change(replay.prepared, i, items[i], others[i], recorded):
            return False
    return True


cdef bint is_idle(Replay replay):
    """Return whether the last launch of a replay that nobody launches is done. The GIL may go: look again after it."""
    cdef DeviceState* device = replay.prepared.state
    cdef Epochs* queue = replay.submission.last_queue
    cdef uint64_t epoch = replay.submission.last_epoch
    cdef bint done
    if queue == NULL or epoch <= completed_epoch(queue):
        return True
    retain_epochs(queue)
    with nogil:
        reach_point(device, queue, epoch)
        done = epoch <= completed_epoch(queue)
        release_epochs(queue)
    return done and replay.submission.last_epoch == epoch


cdef void add_changes(PyObject* work, PyObject* other, uint32_t command, vector[Change]& changes):
    cdef const Parameter* parameters = (<KernelWork> work).kernel.layout
    cdef const Parameter* parameter
    cdef const char* known = packed_bytes(&(<KernelWork> work).packed)
    cdef const char* becomes = packed_bytes(&(<KernelWork> other).packed)
    cdef const char* value
    cdef Py_ssize_t i
    for i in range((<KernelWork> work).kernel.count):
        parameter = &parameters[i]
        value = becomes + parameter.offset
        if not has_value(known + parameter.offset, value, parameter.width):
            if parameter.kind == POINTER:
                changes.push_back(Change(
                    CHANGED_POINTER, command, <uint32_t> i, 0, &(<const PackedPointer*> value).memory))
            else:
                changes.push_back(Change(CHANGED_VALUE, command, <uint32_t> i, parameter.size, value))
    if memcmp(&(<KernelWork> work).geometry.groups[0], &(<KernelWork> other).geometry.groups[0],
              3 * sizeof(uint32_t)) != 0:
        changes.push_back(Change(CHANGED_GROUPS, command, 0, 0, &(<KernelWork> other).geometry.groups[0]))


cdef Status change_recordings(Prepared prepared, vector[vector[Change]]& changes) noexcept nogil:
    cdef Status status = 0
    cdef size_t i
    for i in range(changes.size()):
        if status == 0 and not changes[i].empty():
            status = prepared.driver.change(
                prepared.submission.steps[i].recording, changes[i].data(), changes[i].size())
    return status


cdef Status change_launch(Prepared prepared, size_t node, KernelWork work) except? -1:
    """Let the launch of a node, which is in no recording, be this one."""
    cdef uint64_t bytes_set = 0, bytes_skipped = 0
    cdef uint32_t failed_at = 0
    cdef size_t at = prepared.plan_of[node], command = prepared.command_of[node]
    cdef Plan* plan
    if prepared.sharers[at] == 1:
        plan = prepared.plans[at]
    else:
        plan = add_plan(prepared, work)
        prepared.sharers[at] -= 1
        prepared.plan_of[node] = prepared.plans.size() - 1
        prepared.submission.commands[command].kernel = plan.kernel
    prepared.submission.commands[command].geometry = work.geometry
    return set_changed_arguments(plan, packed_bytes(&work.packed), &bytes_set, &bytes_skipped, &failed_at)


cdef inline bint same_items(PyObject* one, PyObject* other):
    """Return whether two tuples have the same items."""
    cdef Py_ssize_t i
    if one == other:
        return True
    if len(<tuple> one) != len(<tuple> other):
        return False
    for i in range(len(<tuple> one)):
        if (<PyTupleObject*> one).ob_item[i] != (<PyTupleObject*> other).ob_item[i]:
            return False
    return True


cdef inline bint same_memory(PyObject* work, PyObject* other):
    return same_items(<PyObject*> (<Work> work).buffers, <PyObject*> (<Work> other).buffers) and same_items(
        <PyObject*> (<Work> work).writes, <PyObject*> (<Work> other).writes)


cdef list hold_buffers(object works):
    """Return the memory of all Buffers that the works use. Keep it while the driver is given their arguments: then a
    close in the middle of the call, by other code or another thread, frees nothing.

    Raises
    ------
    ClosedError
        When one is closed.
    """
    cdef list held = []
    cdef Buffer buffer
    for work in works:
        for buffer in (<Work> work).buffers:
            if buffer.allocation.closed:
                raise buffer._closed_error(f"{work!r}, a node of the graph: a Buffer that it uses")
            held.append(buffer.allocation.memory)
    return held


cdef bint apply(
    Replay replay, vector[size_t]& changed, vector[PyObject*]& works, vector[PyObject*]& others
) except -1:
    """Let the replay do the others at these nodes. It has no works then, until the caller says which. Returns False,
    and never uses it again, when the driver cannot.
    """
    _held = hold_buffers([<object> others[i] for i in range(others.size())])
    cdef vector[vector[Change]] changes
    cdef Prepared prepared = replay.prepared
    cdef Status status = 0
    cdef size_t i, node, step
    changes.resize(prepared.submission.steps.size())
    for i in range(changes.size()):
        changes[i].reserve(changed.size())
    replay.works = None  # so that nobody launches it while it is changed, nor after it was changed in part
    replay.users += 1
    try:
        for i in range(changed.size()):
            node = changed[i]
            step = prepared.step_of[node]
            if is_recorded(prepared, node):
                add_changes(
                    works[i], others[i],
                    <uint32_t> (prepared.command_of[node] - prepared.submission.steps[step].first), changes[step])
            elif status == 0:
                status = change_launch(prepared, node, <KernelWork> others[i])
        with nogil:
            if status == 0:
                status = change_recordings(prepared, changes)
    finally:
        replay.users -= 1
    if status != 0:
        prepared.changeable = False
    return status == 0


cdef bint change(Replay replay, Sizes sizes, vector[size_t]& changed) except -1:
    """Let the replay do these works, of which those are others. Returns False, and never uses it again, when the driver
    cannot.
    """
    cdef vector[PyObject*] before
    cdef vector[PyObject*] after
    cdef tuple works = replay.works
    cdef tuple others = sizes.works
    cdef bint same = True
    cdef size_t i
    before.resize(changed.size())
    after.resize(changed.size())
    for i in range(changed.size()):
        before[i] = (<PyTupleObject*> works).ob_item[changed[i]]
        after[i] = (<PyTupleObject*> others).ob_item[changed[i]]
        same = same and same_memory(before[i], after[i])
    if not apply(replay, changed, before, after):
        return False
    for i in changed:
        replay.prepared.kept[i] = others[i]
    if same:
        replay.sizes, replay.works = sizes, others
    else:
        note_works(replay, sizes)
    return True


cdef bint change_in_place(Replay replay, list latest, vector[size_t] changed) except -1:
    """Let a replay do what was set of its works at these nodes, with other values and the same memory. Its tuple of
    works gets it, too, which nobody but the executable and the replay has. So nothing looks at every node.

    Returns False where that cannot be, and has changed nothing; when the driver could not, the replay has no works.
    """
    cdef vector[PyObject*] before
    cdef vector[PyObject*] after
    cdef tuple works = replay.works
    cdef bint recorded = False
    cdef PyObject** items
    cdef size_t i
    if (
        replay.users or works is None or replay.lifetimes is not None or replay.one_by_one
        or not replay.sizes.lasting or Py_REFCNT(works) != HOLDERS
    ):
        return False
    items = (<PyTupleObject*> works).ob_item
    sort(changed.begin(), changed.end())
    changed.erase(unique(changed.begin(), changed.end()), changed.end())
    _before = [<object> items[i] for i in changed]  # others may set them again meanwhile, and dropping runs any code
    _after = [latest[i] for i in changed]
    for i in range(changed.size()):
        before.push_back(items[changed[i]])
        after.push_back(<PyObject*> _after[i])
        if not can_change(replay.prepared, changed[i], before[i], after[i], &recorded) or not same_memory(
                before[i], after[i]):
            return False
        if recorded and not replay.prepared.driver.changes_spare_running:
            return False
    if not apply(replay, changed, before, after):
        return False
    for i in range(changed.size()):
        replay.prepared.kept[changed[i]] = <object> after[i]
        Py_INCREF(<object> after[i])
        items[changed[i]] = after[i]
        Py_DECREF(<object> before[i])
    replay.works = works
    return True


cdef Replay change_one(list replays, Sizes sizes):
    """Return one of these replays, changed to do the works that the sizes are about; None if none can be."""
    cdef Replay replay
    cdef vector[size_t] changed
    cdef bint recorded
    for replay in replays:
        # one that has these works already was found to have too little scratch, or far too much
        if (
            replay.works is sizes.works or not fits(replay, sizes.works, changed, &recorded)
            or not has_room(replay, sizes)
        ):
            continue
        if recorded and not replay.prepared.driver.changes_spare_running and not (
            is_idle(replay) and fits(replay, sizes.works, changed, &recorded)
        ):
            continue
        if change(replay, sizes, changed):
            return replay
    return None


cdef Replay replay_for(Replay last, list spares, Sizes sizes):
    """Return a replay that does the works that the sizes are about; None if one is to be prepared.

    Those that submit their launches one by one, though the driver records, serve while those with recordings run. They
    are the dearer ones, so none is launched often in turn.
    """
    cdef Replay replay, found
    found = change_one([each for each in (last, *spares) if not (<Replay> each).one_by_one], sizes)
    if found is not None:
        return found
    for replay in (last, *spares):
        if not replay.one_by_one:
            continue
        if replay.works is not sizes.works:
            replay.repeats = 0
            return change_one([replay], sizes)
        replay.repeats += 1
        if replay.repeats < MOST_REPEATS and has_room(replay, sizes):
            replay.sizes = sizes
            return replay
    return None


cdef bint is_time_for_one_by_one(uint64_t recorded, list replays):
    """Return whether the replay that is prepared next submits its launches one by one."""
    return recorded >= MOST_RECORDED and not any([each is not None and (<Replay> each).one_by_one for each in replays])


cdef list spares_of(list replays):
    """Return those that are worth being kept for their turn, of replays that are not launched next."""
    cdef Replay replay
    kept = [replay for replay in replays if replay.prepared.changeable or replay.one_by_one]
    return kept[:MOST_SPARES]
