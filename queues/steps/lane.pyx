"""Submits what a step has collected of a queue: a run that was the same last time by one call, others launch by launch.

A recording that may still run is not changed. Two or three copies of it take turns, and when all may still run, the
launches are submitted one by one: leaving a step never waits. All of this runs under the queue's lock, without the GIL.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    CHANGED_GROUPS, CHANGED_POINTER, CHANGED_VALUE, DONE, LAUNCH_COMMAND, NOT_NOW, Change, Command, Status, Waits
)
from forebay.core.clock cimport note_reached
from forebay.core.epochs cimport completed_epoch, submitted_epoch
from forebay.core.marker cimport poll_marker, release_marker
from forebay.core.plan cimport POINTER, VALUE, PackedPointer, Parameter, has_value, set_changed_arguments, take_value
from forebay.core.state cimport QueueState
from forebay.core.uses cimport Uses, release_uses, retain_uses
from forebay.queues.memory.slabs cimport lowest_bit
from forebay.sync.points cimport drop_pending, mark_before, waits_of_pending

cdef enum:
    MOST_COPIES = 3


cdef void submit(QueueState* queue) noexcept nogil:
    cdef Lane* lane = <Lane*> queue.step
    cdef size_t first = lane.first, end = lane.at
    cdef Run* run
    lane.waiting = 0
    lane.first = end
    lane.run_first = first
    lane.last_epoch = lane.last_seen = submitted_epoch(queue.epochs)
    lane.new_ends[first] = end
    if end - first > 1 and lane.ends[first] == end and not lane.plain:
        run = run_of(lane, first, end)
        if replay_run(queue, lane, run):
            return
    submit_each(queue, lane, first, end)


cdef void submit_each(QueueState* queue, Lane* lane, size_t first, size_t end) noexcept nogil:
    """Submit the launches one by one. After one that fails none is submitted, as if it had raised its error at once."""
    cdef vector[void*] events
    cdef Waits waits = waits_of_pending(queue, events)
    cdef uint64_t bytes_set = 0, bytes_skipped = 0
    cdef Status status
    cdef Entry* entry
    cdef uint32_t failed_at
    cdef size_t i
    for i in range(first, end):
        entry = lane.entries[i]
        failed_at = <uint32_t> -1
        status = set_changed_arguments(entry.plan, entry.values.data(), &bytes_set, &bytes_skipped, &failed_at)
        if status == 0:
            status = queue.driver.launch(queue.handle, entry.plan.kernel, &entry.geometry, waits)
        if status != 0:
            if lane.failed == 0:
                lane.failed, lane.failed_kernel, lane.failed_at = status, entry.plan.kernel_id, failed_at
            return
        if waits.count:
            waits.count = 0
            drop_pending(queue)


# -- recordings


cdef Run* run_of(Lane* lane, size_t first, size_t end) noexcept nogil:
    """Return the run of these entries. One of other length that begins there is dropped."""
    cdef Run* run = lane.runs[first]
    cdef size_t i
    if run == NULL:
        run = lane.runs[first] = new Run()
        run.first = first
        run.end = end
        run.current = 0
    elif run.end != end:
        for i in range(run.copies.size()):
            lane.dropped.push_back(run.copies[i])
        run.copies.clear()
        run.end = end
        run.current = 0
    return run


cdef bint replay_run(QueueState* queue, Lane* lane, Run* run) noexcept nogil:
    """Submit a run by one call. Returns False when that cannot be: then nothing was submitted."""
    cdef vector[void*] events
    cdef Copy* copy = choose_copy(queue, lane, run)
    if copy == NULL:
        return False
    if queue.driver.replay(queue.handle, copy.recording, waits_of_pending(queue, events)) != 0:
        return False
    drop_pending(queue)
    copy.epoch = submitted_epoch(queue.epochs)
    if copy.marker != NULL:
        release_marker(copy.marker)
        copy.marker = NULL
    return True


cdef inline bint is_as_collected(const Lane* lane, const Run* run, const Copy* copy) noexcept nogil:
    return memcmp(
        copy.versions.data(), lane.versions.data() + run.first, copy.versions.size() * sizeof(uint32_t)) == 0


cdef bint may_run(QueueState* queue, Copy* copy) noexcept nogil:
    if queue.driver.changes_spare_running:
        return False
    if copy.epoch <= completed_epoch(queue.epochs):
        return False
    return copy.marker == NULL or poll_marker(copy.marker) != DONE


cdef Copy* choose_copy(QueueState* queue, Lane* lane, Run* run) noexcept nogil:
    """Return a copy that does what was collected; NULL when all may still run, or none can be made."""
    cdef Copy* copy
    cdef Status status = 0
    cdef size_t i, at
    if not run.copies.empty():
        copy = run.copies[run.current]
        if is_as_collected(lane, run, copy):
            return copy  # it is not changed, so it may still run
        if copy.marker == NULL and may_run(queue, copy) and not is_done(queue, lane):
            mark_end(queue, lane, copy)
        for i in range(1, run.copies.size() + 1):  # the one whose turn was last comes last
            at = (run.current + i) % run.copies.size()
            copy = run.copies[at]
            if not may_run(queue, copy):
                run.current = at
                if change_copy(queue, lane, run, copy):
                    return copy
                lane.plain = True
                return NULL
        if run.copies.size() == MOST_COPIES:
            return NULL
    copy = new_copy(queue, lane, run, &status)
    if copy == NULL:
        lane.plain = status != NOT_NOW
        return NULL
    run.current = run.copies.size()
    run.copies.push_back(copy)
    return copy


cdef bint is_done(QueueState* queue, Lane* lane) noexcept nogil:
    """Ask the driver whether all that it has of the queue is done: then no marker is needed."""
    cdef bint done = False
    if queue.driver.poll != NULL and queue.driver.poll(queue.handle, &done) == 0 and done:
        if queue.pending.empty():
            note_reached(queue.epochs, lane.before, queue.clock)
        else:
            note_reached(queue.epochs, queue.before_pending, queue.clock_before)
    return done


cdef void mark_end(QueueState* queue, Lane* lane, Copy* copy) noexcept nogil:
    """Mark how far the driver has come, before another copy takes its turn. Without a mark it is not used again."""
    if queue.pending.empty():
        mark_before(queue, lane.before, queue.clock, &copy.marker)
    else:
        mark_before(queue, queue.before_pending, queue.clock_before, &copy.marker)


cdef Copy* new_copy(QueueState* queue, Lane* lane, Run* run, Status* status) noexcept nogil:
    """Record the run as it was collected. NULL when the driver cannot, which the status explains if it is not 0."""
    cdef uint64_t bytes_set = 0, bytes_skipped = 0
    cdef uint32_t failed_at = 0
    cdef void* recording = NULL
    cdef Command command
    cdef Copy* copy
    cdef Entry* entry
    cdef uint32_t previous
    cdef size_t i
    status[0] = queue.driver.new_recording(queue.handle, True, &recording)
    if status[0] != 0 or recording == NULL:
        return NULL
    copy = new Copy()
    copy.recording = recording
    copy.epoch = 0
    copy.marker = NULL
    command.kind = LAUNCH_COMMAND
    for i in range(run.first, run.end):
        entry = lane.entries[i]
        command.kernel = entry.plan.kernel
        command.geometry = entry.geometry
        if status[0] == 0:
            status[0] = set_changed_arguments(entry.plan, entry.values.data(), &bytes_set, &bytes_skipped, &failed_at)
        if status[0] == 0:
            previous = <uint32_t> (i - run.first) - 1
            status[0] = queue.driver.add_command(recording, &command, &previous, i > run.first)
        copy.versions.push_back(lane.versions[i])
        if queue.driver.changes_spare_running:
            entry.changed = 0
            entry.taken_by = run
        else:
            copy.values.insert(copy.values.end(), entry.values.begin(), entry.values.end())
            copy.uses.insert(copy.uses.end(), entry.uses.begin(), entry.uses.end())
            copy.groups.insert(copy.groups.end(), &entry.geometry.groups[0], &entry.geometry.groups[0] + 3)
    # An address that the copy compares with later must not become another allocation's.
    for i in range(copy.uses.size()):
        if copy.uses[i] != NULL:
            retain_uses(copy.uses[i])
    if status[0] == 0:
        status[0] = queue.driver.end_recording(recording)
    if status[0] != 0:
        delete_copy(queue, copy)
        return NULL
    return copy


cdef void delete_copy(QueueState* queue, Copy* copy) noexcept nogil:
    cdef size_t i
    queue.driver.release_recording(copy.recording)
    for i in range(copy.uses.size()):
        if copy.uses[i] != NULL:
            release_uses(copy.uses[i])
    if copy.marker != NULL:
        release_marker(copy.marker)
    del copy


cdef inline void take_use(Uses** known, Uses* uses) noexcept nogil:
    """Retain these in place of the known ones. The same may stay: a part of an allocation has its uses."""
    cdef Uses* before = known[0]
    if before == uses:
        return
    known[0] = uses
    if uses != NULL:
        retain_uses(uses)
    if before != NULL:
        release_uses(before)


cdef inline void add_change(
    Lane* lane, const Entry* entry, const Parameter* parameter, uint32_t command, uint32_t index
) noexcept nogil:
    cdef const char* value = entry.values.data() + parameter.offset
    if parameter.kind == POINTER:
        lane.changes.push_back(Change(CHANGED_POINTER, command, index, 0, &(<const PackedPointer*> value).memory))
    elif parameter.kind == VALUE:
        lane.changes.push_back(Change(CHANGED_VALUE, command, index, parameter.size, value))


cdef inline void add_changed_groups(Lane* lane, const Entry* entry, uint32_t command) noexcept nogil:
    lane.changes.push_back(Change(CHANGED_GROUPS, command, 0, 0, &entry.geometry.groups[0]))


cdef void list_changes(Lane* lane, const Run* run, Copy* copy) noexcept nogil:
    """List in what a recording differs from what was collected. From then on it has that."""
    cdef const Parameter* parameter
    cdef const char* value
    cdef char* known = copy.values.data()
    cdef Uses** uses = copy.uses.data()
    cdef uint32_t* groups = copy.groups.data()
    cdef Entry* entry
    cdef uint32_t command, i
    for command in range(<uint32_t> copy.versions.size()):
        entry = lane.entries[run.first + command]
        if copy.versions[command] != lane.versions[run.first + command]:
            copy.versions[command] = lane.versions[run.first + command]
            for i in range(<uint32_t> entry.plan.parameters.size()):
                parameter = &entry.plan.parameters[i]
                value = entry.values.data() + parameter.offset
                if not has_value(known + parameter.offset, value, parameter.width):
                    add_change(lane, entry, parameter, command, i)
                    if parameter.kind == POINTER:
                        take_use(&uses[i], entry.uses[i])
                    take_value(known + parameter.offset, value, parameter.width)
            if memcmp(groups, &entry.geometry.groups[0], 3 * sizeof(uint32_t)) != 0:
                add_changed_groups(lane, entry, command)
                memcpy(groups, &entry.geometry.groups[0], 3 * sizeof(uint32_t))
        known += entry.values.size()
        uses += entry.uses.size()
        groups += 3


cdef void list_noted_changes(Lane* lane, const Run* run, Copy* copy) noexcept nogil:
    """The same from what was noted when it was collected, where the recording is the only one of its run."""
    cdef const Parameter* parameter
    cdef Entry** entries = lane.entries.data() + run.first
    cdef const uint32_t* versions = lane.versions.data() + run.first
    cdef uint32_t* known = copy.versions.data()
    cdef Entry* entry
    cdef uint64_t noted
    cdef uint32_t command, count, i
    for command in range(<uint32_t> copy.versions.size()):
        if known[command] == versions[command]:
            continue
        known[command] = versions[command]
        entry = entries[command]
        noted = entry.changed if entry.taken_by == run else <uint64_t> -1
        entry.changed = 0
        entry.taken_by = run
        if noted >> GROUPS:
            add_changed_groups(lane, entry, command)
            noted &= ~(<uint64_t> 1 << GROUPS)
        parameter = entry.plan.parameters.data()
        count = <uint32_t> entry.plan.parameters.size()
        while noted:
            i = lowest_bit(noted)
            noted &= noted - 1
            if i >= count:
                break
            add_change(lane, entry, parameter + i, command, i)
            if i == ANY_FURTHER:
                for i in range(ANY_FURTHER + 1, count):
                    add_change(lane, entry, parameter + i, command, i)


cdef bint change_copy(QueueState* queue, Lane* lane, Run* run, Copy* copy) noexcept nogil:
    """Let a recording that does not run do what was collected. Returns whether the driver could."""
    lane.changes.clear()
    if queue.driver.changes_spare_running:
        list_noted_changes(lane, run, copy)
    else:
        list_changes(lane, run, copy)
    return lane.changes.empty() or queue.driver.change(
        copy.recording, lane.changes.data(), lane.changes.size()) == 0
