"""Submits what a step has collected of a queue: a run that was the same last time by one call, others launch by launch.

A recording that may still run is not changed. Two or three copies of it take turns, and when all may still run, the
launches are submitted one by one: leaving a step never waits. Submitting runs under the queue's lock, without the GIL.
"""

from typing import TYPE_CHECKING

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    CHANGED_GROUPS, DONE, LAUNCH_COMMAND, NOT_CREATED, NOT_NOW, WRONG_TYPE, Change, Geometry, RecordedCommand, Status,
    Waits
)
from forebay.core.plan cimport (
    LOCAL, POINTER, PackedPointer, Parameter, Plan, change_of, delete_plan, has_right_type, has_same_local, has_value,
    set_changed_arguments, take_value, usage_of
)
from forebay.core.ownership cimport Ref, release, retain
from forebay.core.process cimport is_forked
from forebay.core.state cimport (
    BY_CHECK, BY_STEP, BY_WATCH, COLLECTED, NOT_COLLECTED, OUT_OF_TURN, OWES_WAITS, TO_BE_RECORDED, Collecting, Marker,
    QueueState, open_step_count, poll_marker, refusal, submit_collected
)
from forebay.core.state cimport OpenStep  # no-cython-lint: the class below that extends it does not count
from forebay.core.usage cimport Moment, Usage, is_created, pin, release_usage, retain_usage, unpin
from forebay.core.vector_clock cimport completed_epoch, note_reached, submitted_epoch
from forebay.lifetimes.deferred cimport collect_device, retire_after
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.launch cimport create_plan, is_same_block
from forebay.queues.queue cimport Queue
from forebay.sync.ordering cimport (
    count_command, drop_pending, mark_before, may_stay_full, moment_of, owes_null_wait, waits_of_pending
)

from forebay.core.errors import ArgumentTypeError, CaptureError, ClosedError, StepError

if TYPE_CHECKING:
    from typing_extensions import Never

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(uint64_t word) noexcept nogil  # of a word that is not 0

# -- what a step knows of one queue: the record of its launches, and the recordings that stand for runs of them


cdef enum:
    MOST_COPIES = 3


cdef enum:
    ANY_FURTHER = 62  # the bit of `Entry.changed` for this parameter and all that follow
    GROUPS = 63  # the bit for the number of work-groups


cdef cppclass Entry:
    """A launch of the record, as it was last collected."""
    Plan* plan  # the lane's
    Geometry geometry
    vector[char] values  # the packed arguments
    vector[Usage*] uses  # by parameter, as in a Plan; retained
    uint64_t epoch
    bint varies  # an argument was another one than the time before
    # A bit for each of what changed since this run's recording took it; only where there is one copy
    uint64_t changed
    const void* taken_by


cdef cppclass Copy:
    """A recording of a run, and what it does now. It is changed only while it does not run."""
    void* recording  # owned
    vector[uint32_t] versions  # of its launches
    vector[char] values  # their packed arguments, one after the other; empty where there is one copy
    vector[Usage*] uses  # by launch and parameter: of the allocations in `values`; retained, NULL for none
    vector[uint32_t] groups  # three for each; empty as the values are
    uint64_t epoch  # of its last replay
    Ref[Marker] marker  # after that replay; NULL until another copy takes its turn


cdef cppclass Run:
    """Launches that are submitted together, and the copies that take turns."""
    size_t first, end
    vector[Copy*] copies
    size_t current


cdef cppclass GivenUp:
    """To be given back when the queue is done with it."""
    vector[Copy*] copies
    vector[Plan*] plans


cdef cppclass LaneEpochs:
    """Epochs of a lane's queue."""
    uint64_t began  # when the step was opened
    uint64_t last_seen  # of the last launch that was recorded or collected
    uint64_t before  # before what is collected
    uint64_t last_used  # of the last launch that used anything of this


cdef cppclass Refused:
    """The first collected launch that the driver did not take."""
    Status status
    uint64_t kernel_id
    uint32_t argument


cdef cppclass Lane(OpenStep):
    # Guarded by the queue's lock. What only the step's thread changes it may also read without.
    vector[Entry*] entries
    vector[uint32_t] versions  # by entry: raised whenever it changes
    vector[Run*] runs  # by their first entry; NULL for none
    vector[size_t] ends  # by the entry with which it began: the end of each run, when the step was last open
    vector[size_t] new_ends  # the same, while it is open
    vector[Plan*] plans  # one for each kernel; owned
    PyObject* names  # the owner's
    GivenUp given_up
    vector[Change] changes
    size_t first  # of what is collected
    size_t at  # the entry that the next launch is compared with
    size_t run_first  # of the run that was submitted last, or is being recorded
    LaneEpochs epochs
    bint recording  # what comes is recorded, because it is new or different
    bint plain  # the launches cannot be recorded, or are never the same, so they are submitted as they come
    bint told  # that it is plain
    int recorded  # how many times in a row
    Refused refused


cdef void submit(QueueState* queue) noexcept nogil:
    cdef Lane* lane = <Lane*> queue.step
    cdef size_t first = lane.first, end = lane.at
    cdef Run* run
    lane.waiting = 0
    lane.first = end
    lane.run_first = first
    lane.epochs.last_used = lane.epochs.last_seen = submitted_epoch(queue.epochs)
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
        status = set_changed_arguments(
            entry.plan, entry.values.data(), NULL, &bytes_set, &bytes_skipped, &failed_at)
        if status == 0:
            status = queue.driver.launch(queue.handle, entry.plan.kernel, &entry.geometry, waits)
        if status != 0:
            if lane.refused.status == 0:
                lane.refused.status, lane.refused.argument = status, failed_at
                lane.refused.kernel_id = entry.plan.kernel_id
            return
        if waits.count:
            waits.count = 0
            drop_pending(queue)


# -- recordings


cdef void give_up_copies(Lane* lane, Run* run) noexcept nogil:
    lane.given_up.copies.insert(lane.given_up.copies.end(), run.copies.begin(), run.copies.end())
    run.copies.clear()


cdef Run* run_of(Lane* lane, size_t first, size_t end) noexcept nogil:
    """Return the run of these entries. One of other length that begins there is dropped."""
    cdef Run* run = lane.runs[first]
    if run == NULL:
        run = lane.runs[first] = new Run()
        run.first = first
        run.end = end
        run.current = 0
    elif run.end != end:
        give_up_copies(lane, run)
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
    copy.marker.clear()
    return True


cdef bint may_run(QueueState* queue, Copy* copy) noexcept nogil:
    if queue.driver.changes_spare_running:
        return False
    if copy.epoch <= completed_epoch(queue.epochs):
        return False
    return copy.marker.get() == NULL or poll_marker(copy.marker.get()) != DONE


cdef Copy* choose_copy(QueueState* queue, Lane* lane, Run* run) noexcept nogil:
    """Return a copy that does what was collected; NULL when all may still run, or none can be made."""
    cdef Copy* copy
    cdef Status status = 0
    cdef size_t i, at
    if not run.copies.empty():
        copy = run.copies[run.current]
        if memcmp(copy.versions.data(), &lane.versions[run.first], copy.versions.size() * sizeof(uint32_t)) == 0:
            return copy  # it is not changed, so it may still run
        if copy.marker.get() == NULL and may_run(queue, copy) and not is_done(queue, lane):
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
        if queue.order.pending.empty():
            note_reached(queue.epochs, lane.epochs.before, queue.order.clock)
        else:
            note_reached(queue.epochs, queue.order.before_pending, queue.order.clock_before)
    return done


cdef void mark_end(QueueState* queue, Lane* lane, Copy* copy) noexcept nogil:
    """Mark how far the driver has come, before another copy takes its turn. Without a mark it is not used again."""
    if queue.order.pending.empty():
        mark_before(queue, lane.epochs.before, queue.order.clock, copy.marker)
    else:
        mark_before(queue, queue.order.before_pending, queue.order.clock_before, copy.marker)


cdef Copy* new_copy(QueueState* queue, Lane* lane, Run* run, Status* status) noexcept nogil:
    """Record the run as it was collected. NULL when the driver cannot, which the status explains if it is not 0."""
    cdef uint64_t bytes_set = 0, bytes_skipped = 0
    cdef uint32_t failed_at = 0
    cdef void* recording = NULL
    cdef RecordedCommand command
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
    command.kind = LAUNCH_COMMAND
    for i in range(run.first, run.end):
        entry = lane.entries[i]
        command.kernel = entry.plan.kernel
        command.geometry = entry.geometry
        if status[0] == 0:
            status[0] = set_changed_arguments(
                entry.plan, entry.values.data(), NULL, &bytes_set, &bytes_skipped, &failed_at)
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
            retain_usage(copy.uses[i])
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
            release_usage(copy.uses[i])
    del copy


cdef inline void take_use(Usage** known, Usage* uses) noexcept nogil:
    """Retain these in place of the known ones. The same may stay: a part of an allocation has its uses."""
    cdef Usage* before = known[0]
    if before == uses:
        return
    known[0] = uses
    if uses != NULL:
        retain_usage(uses)
    if before != NULL:
        release_usage(before)


cdef inline void add_change(
    Lane* lane, const Entry* entry, const Parameter* parameter, uint32_t command, uint32_t index
) noexcept nogil:
    if parameter.kind != LOCAL:
        lane.changes.push_back(change_of(parameter, entry.values.data() + parameter.offset, command, index))


cdef inline void add_changed_groups(Lane* lane, const Entry* entry, uint32_t command) noexcept nogil:
    lane.changes.push_back(Change(CHANGED_GROUPS, command, 0, 0, &entry.geometry.groups[0]))


cdef void list_changes(Lane* lane, const Run* run, Copy* copy) noexcept nogil:
    """List in what a recording differs from what was collected. From then on it has that."""
    cdef const Parameter* parameter
    cdef const char* value
    cdef char* known = copy.values.data()
    cdef Usage** uses = copy.uses.data()
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


# -- collects the launches of an open step: a launch is only compared with the record, and what changed is noted
#
# A launch that was collected counts as submitted: the epoch advances, the queue is in the null queue's list, and what
# it uses is noted. Before a driver call it is submitted (`submit_collected`). So no other code needs to
# know of steps. An open step sets a slow-path flag, so that a launch comes here.


cdef extern from "Python.h":
    void* PyThreadState_Get() nogil

cdef enum:
    MOST_RECORDED = 3  # times in a row, before a step gives up
    LOOKS_FOR_ROOM = 64  # once for this many launches, of the hundreds that a queue takes


# -- comparing


cdef void change_use(QueueState* queue, Entry* entry, uint32_t index, Usage* uses) noexcept nogil:
    cdef bint writes = entry.plan.parameters[index].writes
    if entry.uses[index] == uses:
        return
    forget_use(entry, index)
    if uses != NULL:
        pin(uses, queue.epochs, &entry.epoch, writes)
        entry.uses[index] = retain_usage(uses)


cdef void forget_use(Entry* entry, uint32_t index) noexcept nogil:
    if entry.uses[index] != NULL:
        unpin(entry.uses[index], &entry.epoch, entry.plan.parameters[index].writes)
        release_usage(entry.uses[index])
        entry.uses[index] = NULL


cdef Status take_arguments(
    QueueState* queue, Entry* entry, const char* packed, uint32_t* failed_at
) noexcept nogil:
    """Let the entry have these arguments, up to the first of a wrong type, or of memory that is not created yet. Those
    before it do no harm: the launch is not collected, and the next one is compared with what is here.
    """
    cdef Moment moment
    cdef Usage* usage = NULL
    cdef const Parameter* parameter = entry.plan.parameters.data()
    cdef const char* value
    cdef char* known
    cdef uint64_t bytes_set = 0
    cdef uint32_t i
    entry.varies = False
    for i in range(<uint32_t> entry.plan.parameters.size()):
        value = packed + parameter.offset
        known = entry.values.data() + parameter.offset
        if not has_value(known, value, parameter.width):
            if not has_right_type(parameter, value):
                failed_at[0] = i
                return WRONG_TYPE
            if parameter.kind == POINTER:
                usage = usage_of(<const PackedPointer*> value)
                moment = moment_of(queue, queue.order.clock)
                if usage != NULL and not is_created(usage, &moment):
                    return NOT_CREATED
            entry.varies = True
            bytes_set += parameter.size
            entry.changed |= <uint64_t> 1 << min(i, <uint32_t> ANY_FURTHER)
            take_value(known, value, parameter.width)
            if parameter.kind == POINTER:
                change_use(queue, entry, i, usage)
        parameter += 1
    queue.counts.arg_bytes_set += bytes_set
    queue.counts.arg_bytes_skipped += entry.plan.argument_bytes - bytes_set
    return 0


cdef Collecting collect(
    QueueState* queue, bint locked, PyObject* launched, const Geometry* geometry, const char* packed, Status* status,
    uint32_t* failed_at
) noexcept:
    """Collect a launch if it is the one that the record has next. Otherwise say how it is to be submitted."""
    cdef Lane* lane = <Lane*> queue.step
    cdef Entry* entry
    cdef Collecting answer
    if lane == NULL or lane.thread != PyThreadState_Get() or lane.plain:
        return NOT_COLLECTED
    if lane.recording or lane.at == lane.entries.size():
        return TO_BE_RECORDED
    entry = lane.entries[lane.at]
    if entry.plan.kernel_id != (<Kernel> launched).id or memcmp(
        &entry.geometry.block[0], &geometry.block[0], 3 * sizeof(uint32_t)
    ) != 0:
        return TO_BE_RECORDED
    if not locked and not queue.lock.try_lock():
        return OUT_OF_TURN  # to wait for the lock the GIL would have to go, and then memory may be closed
    answer = collect_next(queue, lane, entry, geometry, packed, status, failed_at)
    if not locked:
        queue.lock.unlock()
    return answer


cdef inline Collecting collect_next(
    QueueState* queue, Lane* lane, Entry* entry, const Geometry* geometry, const char* packed, Status* status,
    uint32_t* failed_at
) noexcept:
    """Collect a launch of the kernel and block of the record's next entry. The queue is locked."""
    if queue.slow_path & ~<uint32_t> (BY_CHECK | BY_WATCH) != BY_STEP:
        return NOT_COLLECTED
    if owes_null_wait(queue):
        return OWES_WAITS
    if lane.waiting % LOOKS_FOR_ROOM == 0 and may_stay_full(queue, 0):
        return OUT_OF_TURN  # which waits for room
    if not entry.varies and is_same_block(entry.values.data(), packed, entry.values.size()):
        queue.counts.arg_bytes_skipped += entry.plan.argument_bytes
    else:
        if entry.plan.has_local and not has_same_local(
            entry.plan.parameters.data(), entry.plan.parameters.size(), entry.values.data(), packed
        ):
            return TO_BE_RECORDED
        status[0] = take_arguments(queue, entry, packed, failed_at)
        lane.versions[lane.at] += entry.varies
        if status[0] == NOT_CREATED:
            status[0] = 0
            return OWES_WAITS
        if status[0] != 0:
            return COLLECTED
    if memcmp(&entry.geometry.groups[0], &geometry.groups[0], 3 * sizeof(uint32_t)) != 0:
        entry.geometry = geometry[0]
        entry.changed |= <uint64_t> 1 << GROUPS
        lane.versions[lane.at] += 1
    if lane.waiting == 0:
        lane.epochs.before = submitted_epoch(queue.epochs)
    lane.waiting += 1
    lane.at += 1
    count_command(queue)
    entry.epoch = submitted_epoch(queue.epochs)
    queue.counts.launches += 1
    return COLLECTED


# -- recording


cdef void forget_entries(Lane* lane, size_t kept) noexcept nogil:
    """Drop the entries from `kept` on, and every run that has one of them. The queue is locked."""
    cdef Entry* entry
    cdef size_t i, j
    if kept == lane.entries.size():
        return  # as after most steps
    for i in range(lane.runs.size()):
        if lane.runs[i] != NULL and lane.runs[i].end > kept:
            give_up_copies(lane, lane.runs[i])
            del lane.runs[i]
            lane.runs[i] = NULL
    for i in range(kept, lane.entries.size()):
        entry = lane.entries[i]
        for j in range(entry.uses.size()):
            forget_use(entry, <uint32_t> j)
        del entry
    lane.entries.resize(kept)
    lane.versions.resize(kept)
    lane.runs.resize(kept)
    lane.ends.resize(kept)
    lane.new_ends.resize(kept)


cdef Plan* plan_of(QueueState* queue, Lane* lane, Kernel kernel) except NULL:
    """Return the lane's own plan of a kernel: its arguments are set when a run is recorded, or submitted one by one."""
    cdef size_t i
    for i in range(lane.plans.size()):
        if lane.plans[i].kernel_id == kernel.id:
            return lane.plans[i]
    lane.plans.push_back(create_plan(queue.driver, kernel, NULL))
    return lane.plans.back()


cdef int submitted(
    QueueState* queue, Collecting why, PyObject* launched, const Geometry* geometry, const char* packed
) except -1:
    """Record a launch that was submitted as it is, or pass over its entry. With the GIL."""
    cdef Lane* lane = <Lane*> queue.step
    cdef Kernel kernel = <Kernel> launched
    cdef Entry* entry = NULL
    if lane == NULL or lane.thread != PyThreadState_Get():
        return 0
    if why == TO_BE_RECORDED:
        try:
            plan = plan_of(queue, lane, kernel)
        except Exception:  # whatever it is: there is no record without a kernel, and the launch itself went well
            lane.plain = True
            return 0
        entry = new Entry()
        entry.plan = plan
        entry.geometry = geometry[0]
        entry.epoch = entry.changed = 0
        entry.varies = False
        entry.taken_by = NULL
        entry.values.assign(packed, packed + kernel.packed_size)
        entry.uses.resize(kernel.count, NULL)
        (<dict> lane.names)[kernel.id] = kernel.name, kernel.parameters
    with nogil:
        queue.lock.lock()
        submit_collected(queue)
        if entry != NULL:
            add_entry(queue, lane, entry)
        lane.at += 1
        lane.first = lane.at
        lane.epochs.last_seen = submitted_epoch(queue.epochs)
        queue.lock.unlock()
    return 0


cdef void add_entry(QueueState* queue, Lane* lane, Entry* entry) noexcept nogil:
    cdef uint32_t i
    if not lane.recording:
        lane.recording = True
        forget_entries(lane, lane.at)
    for i in range(<uint32_t> entry.plan.parameters.size()):
        if entry.plan.parameters[i].kind == POINTER:
            change_use(queue, entry, i, usage_of(<const PackedPointer*> (
                entry.values.data() + entry.plan.parameters[i].offset)))
    if submitted_epoch(queue.epochs) != lane.epochs.last_seen + 1 and lane.at != 0:  # another command came in between
        lane.new_ends[lane.run_first] = lane.at
        lane.run_first = lane.at
    lane.entries.push_back(entry)
    lane.versions.push_back(0)
    lane.runs.push_back(NULL)
    lane.ends.push_back(0)
    lane.new_ends.push_back(0)


# -- opening and leaving


cdef enum:
    IN_STEP = -101  # the queue is in an open step already


cdef bint can_collect(QueueState* queue) noexcept nogil:
    """Return whether the driver has recordings that can be changed."""
    return queue.driver.new_recording != NULL and queue.driver.change != NULL and not queue.adopted


cdef LaneOwner new_lane(object queue, QueueState* state):
    cdef LaneOwner owner = LaneOwner.__new__(LaneOwner)
    cdef Lane* lane = new Lane()
    owner.lane = lane
    owner.state = retain(state)
    owner.queue = queue
    owner.names = {}
    lane.submit = submit
    lane.collect = collect
    lane.submitted = submitted
    lane.names = <PyObject*> owner.names
    lane.waiting = lane.first = lane.at = lane.run_first = 0
    lane.epochs.before = lane.epochs.last_used = lane.epochs.began = lane.epochs.last_seen = 0
    lane.recording = lane.plain = lane.told = False
    lane.recorded = 0
    lane.refused.status = 0
    return owner


cdef Status open_lane(LaneOwner owner):
    """Let the queue's launches be collected from now on, as long as they are this thread's."""
    cdef QueueState* queue = owner.state
    cdef Lane* lane = owner.lane
    cdef Status status
    lane.thread = PyThreadState_Get()
    if not queue.lock.try_lock():
        with nogil:
            queue.lock.lock()
    status = refusal(queue)
    if status == 0 and queue.step != NULL:
        status = IN_STEP
    if status == 0 and not lane.plain:
        lane.first = lane.at = lane.run_first = 0
        lane.recording = False
        lane.epochs.began = lane.epochs.last_seen = submitted_epoch(queue.epochs)
        lane.new_ends.assign(lane.entries.size(), 0)
        queue.step = lane
        queue.slow_path |= BY_STEP
    queue.lock.unlock()
    return status


cdef void drop_plans(Lane* lane) noexcept nogil:
    """Drop the plans of kernels that no entry has any more. The queue is locked."""
    cdef bint used
    cdef size_t i, j, kept = 0
    for i in range(lane.plans.size()):
        used = False
        for j in range(lane.entries.size()):
            used = used or lane.entries[j].plan == lane.plans[i]
        if used:
            lane.plans[kept] = lane.plans[i]
            kept += 1
        else:
            lane.given_up.plans.push_back(lane.plans[i])
    lane.plans.resize(kept)


cdef void end_record(QueueState* queue, Lane* lane) noexcept nogil:
    """Note what this time was like: the same, or recorded; and where the runs ended. The queue is locked."""
    cdef bint differs = lane.recording or lane.at < lane.entries.size()
    if lane.recording:
        lane.new_ends[lane.run_first] = lane.at
    forget_entries(lane, lane.at)
    if differs:
        drop_plans(lane)
    lane.ends.swap(lane.new_ends)
    if not differs:
        lane.recorded = 0
    elif lane.recorded == MOST_RECORDED:
        lane.plain = True
    else:
        lane.recorded += 1
        queue.counts.steps_recorded += 1


cdef void leave_lane(LaneOwner owner, bint failed) noexcept:
    """Submit what was collected, and collect nothing any more. A step that has failed half way keeps its record."""
    cdef QueueState* queue = owner.state
    cdef Lane* lane = owner.lane
    if is_forked():
        return
    with nogil:
        queue.lock.lock()
        if queue.step == lane:
            submit_collected(queue)
            queue.step = NULL
            queue.slow_path &= ~<uint32_t> BY_STEP
            if not failed and lane.refused.status == 0:
                end_record(queue, lane)
            elif lane.recording:
                forget_entries(lane, 0)
            if lane.plain and not lane.told:
                lane.told = True
                queue.counts.steps_given_up += 1
                forget_entries(lane, 0)
                drop_plans(lane)
        queue.lock.unlock()
    retire_dropped(owner)


# -- giving back


cdef void delete_given_up(QueueState* queue, GivenUp* given_up) noexcept:
    cdef size_t i
    for i in range(given_up.copies.size()):
        delete_copy(queue, given_up.copies[i])
    for i in range(given_up.plans.size()):
        delete_plan(given_up.plans[i])


@cython.no_gc_clear
cdef class Dropped:
    """Owns recordings that no step needs any more."""

    cdef QueueState* state  # retained
    cdef GivenUp given_up

    def __dealloc__(self):
        if self.state != NULL and not is_forked():
            delete_given_up(self.state, &self.given_up)
            release(self.state)


cdef void retire_dropped(LaneOwner owner) noexcept:
    """Keep what the record has given up until the queue is done with it."""
    cdef Dropped dropped
    cdef size_t i
    if owner.lane.given_up.copies.empty() and owner.lane.given_up.plans.empty():
        return
    dropped = Dropped.__new__(Dropped)
    for i in range(owner.lane.given_up.plans.size()):
        if owner.lane.refused.status == 0 or owner.lane.given_up.plans[i].kernel_id != owner.lane.refused.kernel_id:
            owner.names.pop(owner.lane.given_up.plans[i].kernel_id, None)  # else an error is about to name it
    dropped.state = retain(owner.state)
    dropped.given_up.copies.swap(owner.lane.given_up.copies)
    dropped.given_up.plans.swap(owner.lane.given_up.plans)
    retire_after(owner.state.device, dropped, owner.state.epochs, owner.lane.epochs.last_used)


@cython.no_gc_clear
cdef class LaneOwner:
    """Owns what a step knows of one queue. It is given back when the queue is done with it, also where the collector of
    cycles drops it.
    """

    cdef Lane* lane
    cdef QueueState* state  # of the queue; retained
    cdef readonly object queue
    cdef readonly dict names  # of the kernels in the record, by id; for errors

    def __dealloc__(self):
        if self.lane == NULL or is_forked():
            return
        forget_entries(self.lane, 0)
        drop_plans(self.lane)
        retire_dropped(self)
        release(self.state)
        del self.lane


# -- steps, which `Queue.step` makes


cdef extern from "Python.h":
    void* PyThreadState_Get() nogil

cdef list open_steps = []  # of all threads; only touched with the GIL


@cython.no_gc_clear
cdef class Step:
    """A stretch of a program that repeats: ``with step:`` around its commands. Made by `Queue.step`.

    The first time, the commands are submitted as they stand, and the launches are recorded. From then on, on a driver
    that can change what it has recorded (Level Zero, CUDA), each launch is only compared with the record, and leaving
    the block submits a run of launches by one driver call. Arguments and group counts may differ each time. When
    kernels, blocks or the number of launches differ, the launches are submitted as they stand from there on and
    recorded anew; after three such times in a row the step gives up, which `Stats.steps_given_up` tells. On other
    drivers each launch is submitted at once, as without the step.

    Everything is ordered as if it had been submitted at once: what is no launch submits the launches before it first,
    and so does whatever waits for them, in any thread. Only what the host finds out without forebay, such as a flag
    in pinned memory that a kernel sets, may come as late as the end of the block.

    Another queue of the device takes part from its first wait in the block for this queue, or for an event recorded
    there. Only the launches of the thread that opened the step are collected. An exception that leaves the block
    changes nothing of this: what was launched before is submitted.

    Attributes
    ----------
    queue : Queue
    closed : bool
    """

    cdef readonly Queue queue
    cdef readonly bint closed
    cdef bint is_open
    cdef void* thread
    cdef LaneOwner own  # the queue's; None when the driver submits each launch at once
    cdef dict others  # LaneOwner by Queue
    cdef list joined  # LaneOwners that take part this time, beside the queue's
    cdef object __weakref__

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a Step is made by Queue.step")

    @staticmethod
    def _of(Queue queue) -> Step:
        cdef Step step = Step.__new__(Step)
        step.queue = queue
        step.others = {}
        step.joined = []
        if can_collect(queue.state):
            step.own = new_lane(queue, queue.state)
        return step

    def __dealloc__(self):
        if self.queue is not None and not is_forked():
            self.give_back()

    cdef int give_back(self) except -1:
        cdef LaneOwner owner
        for owner in [self.own, *self.others.values()]:
            if owner is not None:
                leave_lane(owner, True)
                owner.queue = None
        self.own = None
        self.others = {}
        self.joined = []
        return 0

    def __enter__(self) -> Step:
        """Begin the step.

        Raises
        ------
        ClosedError
            When the step or its queue is closed.
        StepError
            When this thread has a step open, or the queue is in one.
        CaptureError
            When the queue is captured.
        """
        cdef void* thread = PyThreadState_Get()
        cdef Status status = 0
        cdef Step other
        if self.closed:
            raise ClosedError(f"this Step of {self.queue!r} is closed")
        self.queue._check_open()
        if self.queue._capture is not None:
            raise CaptureError(f"step on {self.queue!r}: it is captured")
        if self.queue._step is not None:
            raise StepError(f"step on {self.queue!r}: it is in an open step already")
        for other in open_steps:
            if other.thread == thread:
                raise StepError(f"step on {self.queue!r}: a step of {other.queue!r} is open in this thread")
        if self.own is not None:
            status = open_lane(self.own)
            if status == IN_STEP:
                raise StepError(f"step on {self.queue!r}: it is in an open step already")
            if status != 0:
                self.queue._raise(status, "step")
        self.thread = thread
        self.is_open = True
        self.queue._step = self
        open_steps.append(self)
        open_step_count.fetch_add(1)
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """End the step, and submit what was collected.

        Does not wait for the device. Blocks only while the device's own queue is full, without the GIL.

        Raises
        ------
        DriverError
            When the driver refused a launch that was collected; those after it were not submitted. Not when an
            exception leaves the block.
        """
        if self.is_open:
            self.leave(kind is not None)

    cdef int leave(self, bint failed) except -1:
        """End it: first whatever cannot fail."""
        cdef QueueState* state = self.queue.state
        cdef LaneOwner owner
        cdef LaneOwner refused = None
        self.is_open = False
        open_steps.remove(self)
        open_step_count.fetch_sub(1)
        self.queue._step = None
        if self.own is not None:
            leave_lane(self.own, failed)
            if self.own.lane.refused.status != 0:
                refused = self.own
        for owner in self.joined:
            (<Queue> owner.queue)._step = None
            leave_lane(owner, failed)
            if owner.lane.refused.status != 0:
                refused = owner
        if self.joined:
            self.joined = []
        with nogil:
            state.lock.lock()
            state.counts.steps += 1
            state.lock.unlock()
        if refused is not None:
            self.raise_refused(refused, failed)
        return 0

    cdef int raise_refused(self, LaneOwner owner, bint failed) except -1:
        cdef Status status = owner.lane.refused.status
        cdef uint32_t failed_at = owner.lane.refused.argument
        owner.lane.refused.status = 0
        if failed:
            return 0
        name, parameters = owner.names[owner.lane.refused.kernel_id]
        what = f"kernel {name!r}, collected by a step"
        if failed_at < len(parameters):
            parameter = parameters[failed_at]
            what += f", argument {failed_at} ({parameter.type_name} {parameter.name})"
        owner.queue._raise(status, what)

    def _join(self, Queue queue, Queue producer, epoch: int | None) -> None:
        """Let a queue take part that waits for one that does, or for an event that was recorded there at this epoch."""
        cdef LaneOwner owner
        if (
            not self.is_open or self.thread != PyThreadState_Get() or self.own is None or queue._step is not None
            or queue.device._context is not self.queue.device._context or queue._capture is not None
            or not can_collect(queue.state)
        ):
            return
        owner = self.own if producer is self.queue else self.others[producer]
        if epoch is not None and epoch <= owner.lane.epochs.began:
            return
        owner = self.others.get(queue)
        if owner is None:
            owner = self.others[queue] = new_lane(queue, queue.state)
        if open_lane(owner) == 0:
            queue._step = self
            self.joined.append(owner)

    def close(self) -> None:
        """Give back what the step has recorded, once the device is done with it. Does not block.

        An open step is ended first. Closing twice is fine.
        """
        if self.closed:
            return
        self.closed = True
        try:
            if self.is_open:
                self.leave(False)
        finally:
            self.give_back()
        collect_device(self.queue.state.device)

    def __repr__(self) -> str:
        state = "closed, " if self.closed else "open, " if self.is_open else ""
        return f"<forebay.Step, {state}on {self.queue!r}>"
