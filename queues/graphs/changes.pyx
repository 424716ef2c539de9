"""Changes the launches in a replay of a graph: what differs, and nothing else.

Launches that are submitted one by one have other arguments from then on, each with a kernel object of its own. Those of
a recording are changed where the driver can do that, and only while the replay does not run: an executable that is
changed while it runs has two or three replays then, which take turns. Nobody may be launching a replay meanwhile.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp
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

cdef enum:
    MOST_SPARES = 3  # replays of an executable beside the one that is launched next
    MOST_RECORDED = 2  # that are made because works were replaced, before there is one without recordings
    MOST_REPEATS = 8  # launches with nothing changed of a replay that submits them one by one


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


cdef bint is_recorded(Prepared prepared, size_t node):
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


cdef bint fits(Replay replay, tuple works, vector[size_t]& changed, bint* recorded):
    """Return whether the replay can be changed to do these works, of which `changed` then says which are others.
    `recorded` is set where it must not run meanwhile.
    """
    cdef Prepared prepared = replay.prepared
    cdef tuple before = replay.works
    cdef PyObject** items
    cdef PyObject** others
    cdef PyObject* work
    cdef PyObject* other
    cdef size_t i
    recorded[0] = False
    if replay.users or before is None or replay.lifetimes is not None:
        return False
    find_changes(works, before, changed)
    items, others = (<PyTupleObject*> before).ob_item, (<PyTupleObject*> works).ob_item
    for i in changed:
        work, other = items[i], others[i]
        if (
            type(<object> work) is not KernelWork or type(<object> other) is not KernelWork
            or prepared.command_of[i] == NO_LAUNCH
        ):
            return False
        if (
            <PyObject*> (<KernelWork> work).kernel != <PyObject*> (<KernelWork> other).kernel
            or not is_changeable(work) or not is_changeable(other)
        ):
            return False
        if is_recorded(prepared, i):
            recorded[0] = True
            if not prepared.changeable or not can_become(work, other):
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


cdef bint same_items(PyObject* one, PyObject* other):
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


cdef bint change(Replay replay, Sizes sizes, vector[size_t]& changed) except -1:
    """Let the replay do these works, of which those are others. Returns False, and never uses it again, when the driver
    cannot.
    """
    cdef vector[vector[Change]] changes
    cdef Prepared prepared = replay.prepared
    cdef tuple works = replay.works
    cdef tuple others = sizes.works
    cdef bint same_memory = True
    cdef PyObject* work
    cdef PyObject* other
    cdef Status status = 0
    cdef size_t i, step, command
    cdef uint32_t at
    cdef PyObject** items = (<PyTupleObject*> works).ob_item
    cdef PyObject** other_items = (<PyTupleObject*> others).ob_item
    changes.resize(prepared.submission.steps.size())
    for i in range(changes.size()):
        changes[i].reserve(changed.size())
    replay.works = None  # so that nobody launches it while it is changed, nor after it was changed in part
    replay.users += 1
    try:
        for i in changed:
            work, other = items[i], other_items[i]
            if same_memory:
                same_memory = same_items(
                    <PyObject*> (<Work> work).buffers, <PyObject*> (<Work> other).buffers
                ) and same_items(<PyObject*> (<Work> work).writes, <PyObject*> (<Work> other).writes)
            step, command = prepared.step_of[i], prepared.command_of[i]
            if is_recorded(prepared, i):
                at = <uint32_t> (command - prepared.submission.steps[step].first)
                add_changes(work, other, at, changes[step])
            elif status == 0:
                status = change_launch(prepared, i, <KernelWork> other)
        with nogil:
            if status == 0:
                status = change_recordings(prepared, changes)
    finally:
        replay.users -= 1
    if status != 0:
        prepared.changeable = False
        return False
    for i in changed:
        prepared.kept[i] = others[i]
    if same_memory:
        replay.sizes, replay.works = sizes, others
    else:
        note_works(replay, sizes)
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
