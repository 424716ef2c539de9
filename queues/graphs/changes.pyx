"""Changes the launches in a replay of a graph, where the driver can change what it has recorded.

Only a replay that nobody launches and that does not run is changed. An executable that is changed while it runs has two
or three replays, which take turns.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp
from libcpp.vector cimport vector

from forebay.core.driver cimport CHANGED_GROUPS, CHANGED_POINTER, CHANGED_VALUE, Change, Status
from forebay.core.epochs cimport Epochs, completed_epoch, release_epochs, retain_epochs
from forebay.core.plan cimport LOCAL, POINTER, PackedPointer, Parameter
from forebay.core.state cimport DeviceState
from forebay.lifetimes.collection cimport reach_point
from forebay.queues.graphs.replay cimport NOT_RECORDED, Prepared, Replay, note_works
from forebay.queues.graphs.work cimport KernelWork


cdef bint is_changeable(KernelWork work):
    return not work.by_value and not work.scratch and not work.follows


cdef bint can_become(KernelWork work, KernelWork other):
    """Return whether a recorded launch can be changed to the other: in its arguments and groups, not in its block."""
    cdef const Parameter* parameter
    cdef Py_ssize_t i
    if work.kernel is not other.kernel or not is_changeable(work) or not is_changeable(other):
        return False
    for i in range(3):
        if work.geometry.block[i] != other.geometry.block[i]:
            return False
    for i in range(work.kernel.count):
        parameter = &work.kernel.layout[i]
        if parameter.kind == LOCAL and memcmp(
            work.packed.data() + parameter.offset, other.packed.data() + parameter.offset, parameter.width
        ) != 0:
            return False
    return True


cdef bint fits(Replay replay, tuple works):
    cdef Prepared prepared = replay.prepared
    cdef size_t i
    if not prepared.changeable or replay.users or replay.works is None or replay.lifetimes is not None:
        return False
    for i in range(<size_t> len(works)):
        if works[i] is not replay.works[i] and (
            type(works[i]) is not KernelWork or type(replay.works[i]) is not KernelWork
            or prepared.command_of[i] == NOT_RECORDED or not can_become(replay.works[i], works[i])
        ):
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
    if device.driver.changes_spare_running:
        return True
    retain_epochs(queue)
    with nogil:
        reach_point(device, queue, epoch)
        done = epoch <= completed_epoch(queue)
        release_epochs(queue)
    return done and replay.submission.last_epoch == epoch


cdef void add_changes(KernelWork work, KernelWork other, uint32_t command, vector[Change]& changes):
    cdef const Parameter* parameter
    cdef const char* value
    cdef Py_ssize_t i
    for i in range(work.kernel.count):
        parameter = &work.kernel.layout[i]
        value = other.packed.data() + parameter.offset
        if memcmp(work.packed.data() + parameter.offset, value, parameter.width) != 0:
            if parameter.kind == POINTER:
                changes.push_back(Change(
                    CHANGED_POINTER, command, <uint32_t> i, 0, &(<const PackedPointer*> value).memory))
            else:
                changes.push_back(Change(CHANGED_VALUE, command, <uint32_t> i, parameter.size, value))
    if memcmp(&work.geometry.groups[0], &other.geometry.groups[0], 3 * sizeof(uint32_t)) != 0:
        changes.push_back(Change(CHANGED_GROUPS, command, 0, 0, &other.geometry.groups[0]))


cdef Status change_recordings(Prepared prepared, vector[vector[Change]]& changes) noexcept nogil:
    cdef Status status = 0
    cdef size_t i
    for i in range(changes.size()):
        if status == 0 and not changes[i].empty():
            status = prepared.driver.change(
                prepared.submission.steps[i].recording, changes[i].data(), changes[i].size())
    return status


cdef bint change(Replay replay, Sizes sizes) except -1:
    """Let the replay do these works. Returns False, and never uses it again, when the driver cannot."""
    cdef vector[vector[Change]] changes
    cdef Prepared prepared = replay.prepared
    cdef tuple works = replay.works
    cdef tuple others = sizes.works
    cdef Status status
    cdef size_t i, step, command
    changes.resize(prepared.submission.steps.size())
    for i in range(<size_t> len(works)):
        if works[i] is not others[i]:
            command = prepared.command_of[i]
            step = prepared.step_of[i]
            add_changes(
                works[i], others[i], <uint32_t> (command - prepared.submission.steps[step].first), changes[step])
    replay.works = None  # so that nobody launches it while it is changed
    replay.users += 1
    with nogil:
        status = change_recordings(prepared, changes)
    replay.users -= 1
    if status != 0:
        prepared.changeable = False
        return False
    for i in range(<size_t> len(works)):
        prepared.kept[i] = others[i]
    note_works(replay, sizes)
    return True


cdef Replay change_one(list replays, Sizes sizes):
    """Return one of these replays, changed to do the works that the sizes are about; None if none can be."""
    cdef Replay replay
    for replay in replays:
        if fits(replay, sizes.works) and is_idle(replay) and fits(replay, sizes.works) and change(replay, sizes):
            return replay
    return None
