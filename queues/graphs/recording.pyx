"""Records runs of commands, and changes what was recorded."""

cimport cython
from libc.stdint cimport uint32_t
from libc.string cimport memcmp
from libcpp.vector cimport vector

from forebay.core.driver cimport CHANGED_GROUPS, NOT_NOW, Change, Driver, Status
from forebay.core.ownership cimport Ref
from forebay.core.plan cimport Parameter, change_of, delete_plan
from forebay.core.process cimport is_forked
from forebay.core.state cimport DeviceState


cdef Status record(Recorder& recorder, Run* run, void** recording) noexcept nogil:
    """Record a run. NULL, without an error: the driver has no recordings of such commands."""
    cdef const Driver* driver = recorder.driver
    cdef Status status = driver.new_recording(recorder.queue, recorder.changeable, recording)
    cdef uint32_t failed_at = 0, previous
    cdef Recorded* each
    cdef size_t i
    if status != 0 or recording[0] == NULL:
        return status
    for i in range(run.end - run.first):
        each = recorder.commands[run.first + i]
        previous = <uint32_t> i - 1
        if status == 0:
            status = set_arguments(each, &failed_at)
        if status == 0 and recorder.after == NULL:
            status = driver.add_command(recording[0], &each.command, &previous, i > 0)
        elif status == 0:
            status = driver.add_command(
                recording[0], &each.command, recorder.after[i].data(), <uint32_t> recorder.after[i].size())
    if status == 0:
        status = driver.end_recording(recording[0])
    if status != 0:
        driver.release_recording(recording[0])
        recording[0] = NULL
    return status


cdef Status change(Recorder& recorder, Run* run, Copy* copy) noexcept nogil:
    """Let a copy that does not run have the newest version of each command."""
    cdef const uint32_t* versions = recorder.versions + run.first
    cdef const Parameter* parameter
    cdef const uint32_t* changed_at
    cdef Recorded* launch
    cdef uint32_t command, known, count, i
    recorder.changes.clear()
    for command in range(<uint32_t> copy.versions.size()):
        known = copy.versions[command]
        if known == versions[command]:
            continue
        copy.versions[command] = versions[command]
        launch = recorder.commands[run.first + command]
        changed_at = launch.changed_at.data()
        parameter = launch.plan.parameters.data()
        count = <uint32_t> launch.plan.parameters.size()
        for i in range(count):
            if changed_at[i] > known:
                recorder.changes.push_back(change_of(
                    parameter, launch.values.data() + parameter.offset, command, i))
            parameter += 1
        if changed_at[count] > known:
            recorder.changes.push_back(Change(CHANGED_GROUPS, command, 0, 0, &launch.command.geometry.groups[0]))
    if recorder.changes.empty():
        return 0
    return recorder.driver.change(copy.recording, recorder.changes.data(), recorder.changes.size())


cdef Status choose_copy(Recorder& recorder, Run* run, size_t most, Copy** chosen) noexcept nogil:
    cdef const uint32_t* versions = recorder.versions + run.first
    cdef size_t i, at, count = run.copies.size()
    cdef bint runs
    cdef void* recording = NULL
    cdef Copy* copy
    cdef Status status
    chosen[0] = NULL
    if count != 0:
        copy = run.copies[run.current]
        if memcmp(copy.versions.data(), versions, copy.versions.size() * sizeof(uint32_t)) == 0:
            chosen[0] = copy  # it is not changed, so it may still run
            return 0
        runs = not recorder.driver.changes_spare_running and recorder.may_run(recorder.owner, copy)
        for i in range(1, count + 1):  # the one whose turn was last comes last
            at = (run.current + i) % count
            copy = run.copies[at]
            if recorder.changeable and not (runs if i == count else recorder.may_run(recorder.owner, copy)):
                run.current = at
                status = change(recorder, run, copy)
                if status == 0:
                    chosen[0] = copy
                return status
    if count >= most:
        return NOT_NOW
    status = record(recorder, run, &recording)
    if recording != NULL:
        copy = new Copy()
        copy.recording = recording
        copy.queue = NULL
        copy.epoch = 0
        copy.versions.assign(versions, versions + (run.end - run.first))
        run.current = count
        run.copies.push_back(copy)
        chosen[0] = copy
    return status


cdef void take_copies(vector[Copy*]& copies, Run* run) noexcept nogil:
    """Take over the copies of a run, which has none then."""
    copies.insert(copies.end(), run.copies.begin(), run.copies.end())
    run.copies.clear()
    run.current = 0


@cython.no_gc
cdef class Kept:
    """See recording.pxd. The collector of cycles, which empties a list before its owner has ended, does not see it. So
    no host function is in it, which may refer to its graph.
    """

    def __dealloc__(self):
        cdef Copy* copy
        cdef size_t i
        if self.state.get() == NULL or is_forked():
            return
        for copy in self.copies:
            self.state.get().driver.release_recording(copy.recording)
            del copy
        for i in range(self.plans.size()):
            delete_plan(self.plans[i])


cdef Kept new_kept(DeviceState* state):
    cdef Kept kept = Kept.__new__(Kept)
    kept.state = Ref[DeviceState].share(state)
    kept.things = []
    return kept
