"""Collects the launches of an open step: a launch is only compared with the record, and what changed is noted.

A launch that was collected counts as submitted: the epoch advances, the queue is in the null queue's list, and what it
uses is noted. Whoever is about to call the driver submits it first (`submit_collected`). So nobody else needs to know
of steps. The short path of a launch never comes here: an open step bars it.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp
from libcpp.vector cimport vector

from forebay.core.driver cimport WRONG_TYPE, Geometry, Status
from forebay.core.epochs cimport submitted_epoch
from forebay.core.plan cimport (
    LOCAL, POINTER, PackedPointer, Parameter, Plan, delete_plan, has_right_type, has_value, new_plan, take_value,
    uses_of
)
from forebay.core.process cimport check_memory, is_forked
from forebay.core.state cimport (
    BY_CHECK, BY_STEP, BY_WATCH, COLLECTED, NOT_COLLECTED, OUT_OF_TURN, OWES_WAITS, TO_BE_RECORDED, Collecting,
    QueueState, refusal, release_queue_state, retain_queue_state, submit_collected
)
from forebay.core.uses cimport Uses, hold, release_uses, retain_uses, unhold
from forebay.lifetimes.retired cimport retire_after
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.steps.lane cimport ANY_FURTHER, GROUPS, Copy, Entry, Lane, delete_copy, submit
from forebay.sync.ordering cimport count_command, owes_null_wait
from forebay.sync.room cimport may_stay_full


cdef extern from "Python.h":
    void* PyThreadState_Get() nogil

cdef enum:
    MOST_RECORDED = 3  # times in a row, before a step gives up
    LOOKS_FOR_ROOM = 64  # once for so many launches, of the hundreds that a queue takes


# -- comparing


cdef inline bint is_same(const char* known, const char* packed, size_t size) noexcept nogil:
    cdef const char* end = known + size
    while known != end:
        if memcmp(known, packed, 16) != 0:  # in line
            return False
        known += 16
        packed += 16
    return True


cdef inline bint has_block(const Entry* entry, const Geometry* geometry) noexcept nogil:
    return (
        entry.geometry.block[0] == geometry.block[0] and entry.geometry.block[1] == geometry.block[1]
        and entry.geometry.block[2] == geometry.block[2]
    )


cdef inline bint has_groups(const Entry* entry, const Geometry* geometry) noexcept nogil:
    return (
        entry.geometry.groups[0] == geometry.groups[0] and entry.geometry.groups[1] == geometry.groups[1]
        and entry.geometry.groups[2] == geometry.groups[2]
    )


cdef void change_use(QueueState* queue, Entry* entry, uint32_t index, Uses* uses) noexcept nogil:
    cdef bint writes = entry.plan.parameters[index].writes
    if entry.uses[index] == uses:
        return
    forget_use(entry, index)
    if uses != NULL:
        hold(uses, queue.epochs, &entry.epoch, writes)
        entry.uses[index] = retain_uses(uses)


cdef void forget_use(Entry* entry, uint32_t index) noexcept nogil:
    if entry.uses[index] != NULL:
        unhold(entry.uses[index], &entry.epoch, entry.plan.parameters[index].writes)
        release_uses(entry.uses[index])
        entry.uses[index] = NULL


cdef bint fits(const Entry* entry, const char* packed) noexcept nogil:
    """Return whether only that changed which a recording can take: not the size of local memory."""
    cdef const Parameter* parameter
    cdef size_t i
    if not entry.plan.has_local:
        return True
    for i in range(entry.plan.parameters.size()):
        parameter = &entry.plan.parameters[i]
        if parameter.kind == LOCAL and not has_value(
            entry.values.data() + parameter.offset, packed + parameter.offset, parameter.width
        ):
            return False
    return True


cdef Status take_arguments(
    QueueState* queue, Entry* entry, const char* packed, uint32_t* failed_at
) noexcept nogil:
    """Let the entry have these arguments, up to the first of a wrong type. Those before it do no harm: the launch is
    not collected, and the next one is compared with what is here.
    """
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
            entry.varies = True
            bytes_set += parameter.size
            entry.changed |= <uint64_t> 1 << min(i, <uint32_t> ANY_FURTHER)
            take_value(known, value, parameter.width)
            if parameter.kind == POINTER:
                change_use(queue, entry, i, uses_of(<const PackedPointer*> value))
        parameter += 1
    queue.counts.arg_bytes_set += bytes_set
    queue.counts.arg_bytes_skipped += entry.plan.argument_bytes - bytes_set
    return 0


cdef inline void note_writes(Entry* entry, Kernel kernel) noexcept:
    """Count a write to all that the launch may write to, as for any launch. With the GIL; the queue is locked."""
    for index in kernel.written:
        if entry.uses[index] != NULL:
            entry.uses[index].generation += 1


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
    if entry.plan.kernel_id != (<Kernel> launched).id or not has_block(entry, geometry):
        return TO_BE_RECORDED
    if not locked and not queue.lock.try_lock():
        return OUT_OF_TURN  # to wait for the lock the GIL would have to go, and then memory may be closed
    answer = collect_next(queue, lane, entry, <Kernel> launched, geometry, packed, status, failed_at)
    if not locked:
        queue.lock.unlock()
    return answer


cdef inline Collecting collect_next(
    QueueState* queue, Lane* lane, Entry* entry, Kernel kernel, const Geometry* geometry, const char* packed,
    Status* status, uint32_t* failed_at
) noexcept:
    """Collect a launch of the kernel and block of the record's next entry. The queue is locked."""
    if queue.barred & ~<uint32_t> (BY_CHECK | BY_WATCH) != BY_STEP:
        return NOT_COLLECTED
    if owes_null_wait(queue):
        return OWES_WAITS
    if lane.waiting % LOOKS_FOR_ROOM == 0 and may_stay_full(queue, 0):
        return OUT_OF_TURN  # which waits for room
    if not entry.varies and is_same(entry.values.data(), packed, entry.values.size()):
        queue.counts.arg_bytes_skipped += entry.plan.argument_bytes
    else:
        if not fits(entry, packed):
            return TO_BE_RECORDED
        status[0] = take_arguments(queue, entry, packed, failed_at)
        lane.versions[lane.at] += entry.varies
        if status[0] != 0:
            return COLLECTED
    if not has_groups(entry, geometry):
        entry.geometry = geometry[0]
        entry.changed |= <uint64_t> 1 << GROUPS
        lane.versions[lane.at] += 1
    if lane.waiting == 0:
        lane.before = submitted_epoch(queue.epochs)
    lane.waiting += 1
    lane.at += 1
    count_command(queue)
    entry.epoch = submitted_epoch(queue.epochs)
    queue.counts.launches += 1
    note_writes(entry, kernel)
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
            for j in range(lane.runs[i].copies.size()):
                lane.dropped.push_back(lane.runs[i].copies[j])
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
    cdef size_t i, handle
    for i in range(lane.plans.size()):
        if lane.plans[i].kernel_id == kernel.id:
            return lane.plans[i]
    check_memory()
    handle = kernel._create()
    lane.plans.push_back(new_plan(
        queue.driver, <void*> handle, kernel.id, kernel.layout, kernel.count, kernel.packed_size, NULL))
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
        lane.last_seen = submitted_epoch(queue.epochs)
        queue.lock.unlock()
    return 0


cdef void add_entry(QueueState* queue, Lane* lane, Entry* entry) noexcept nogil:
    cdef uint32_t i
    if not lane.recording:
        lane.recording = True
        forget_entries(lane, lane.at)
    for i in range(<uint32_t> entry.plan.parameters.size()):
        if entry.plan.parameters[i].kind == POINTER:
            change_use(queue, entry, i, uses_of(<const PackedPointer*> (
                entry.values.data() + entry.plan.parameters[i].offset)))
    if submitted_epoch(queue.epochs) != lane.last_seen + 1 and lane.at != 0:  # another command came in between
        lane.new_ends[lane.run_first] = lane.at
        lane.run_first = lane.at
    lane.entries.push_back(entry)
    lane.versions.push_back(0)
    lane.runs.push_back(NULL)
    lane.ends.push_back(0)
    lane.new_ends.push_back(0)


# -- opening and leaving


cdef bint can_collect(QueueState* queue) noexcept nogil:
    """Return whether the driver has recordings that can be changed."""
    return queue.driver.new_recording != NULL and queue.driver.change != NULL and not queue.adopted


cdef LaneOwner new_lane(object queue, QueueState* state):
    cdef LaneOwner owner = LaneOwner.__new__(LaneOwner)
    cdef Lane* lane = new Lane()
    owner.lane = lane
    owner.state = retain_queue_state(state)
    owner.queue = queue
    owner.names = {}
    lane.submit = submit
    lane.collect = collect
    lane.submitted = submitted
    lane.names = <PyObject*> owner.names
    lane.waiting = lane.first = lane.at = lane.run_first = 0
    lane.before = lane.last_epoch = lane.began = lane.last_seen = 0
    lane.recording = lane.plain = lane.told = False
    lane.recorded = 0
    lane.failed = 0
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
        lane.began = lane.last_seen = submitted_epoch(queue.epochs)
        lane.new_ends.assign(lane.entries.size(), 0)
        queue.step = lane
        queue.barred |= BY_STEP
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
            lane.dropped_plans.push_back(lane.plans[i])
    lane.plans.resize(kept)


cdef void count_left(QueueState* queue) noexcept nogil:
    queue.lock.lock()
    queue.counts.steps += 1
    queue.lock.unlock()


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
            queue.barred &= ~<uint32_t> BY_STEP
            if not failed and lane.failed == 0:
                end_record(queue, lane)
            elif lane.recording:
                forget_entries(lane, 0)
            if lane.plain and not lane.told:
                lane.told = True
                queue.counts.steps_given_up += 1
                forget_entries(lane, 0)
                drop_plans(lane)
        queue.lock.unlock()
    if not lane.dropped.empty() or not lane.dropped_plans.empty():
        retire_dropped(owner)


# -- giving back


@cython.no_gc_clear
cdef class Dropped:
    """Owns recordings that no step needs any more."""

    cdef QueueState* state  # retained
    cdef vector[Copy*] copies
    cdef vector[Plan*] plans  # of kernels that these have

    def __dealloc__(self):
        cdef size_t i
        if is_forked():
            return
        for i in range(self.copies.size()):
            delete_copy(self.state, self.copies[i])
        for i in range(self.plans.size()):
            delete_plan(self.plans[i])
        if self.state != NULL:
            release_queue_state(self.state)


cdef void retire_dropped(LaneOwner owner) noexcept:
    cdef Dropped dropped = Dropped.__new__(Dropped)
    cdef size_t i
    for i in range(owner.lane.dropped_plans.size()):
        if owner.lane.failed == 0 or owner.lane.dropped_plans[i].kernel_id != owner.lane.failed_kernel:
            owner.names.pop(owner.lane.dropped_plans[i].kernel_id, None)  # else an error is about to name it
    dropped.state = retain_queue_state(owner.state)
    dropped.copies.swap(owner.lane.dropped)
    dropped.plans.swap(owner.lane.dropped_plans)
    retire_after(owner.state.device, dropped, owner.state.epochs, owner.lane.last_epoch)


cdef void retire_lane(LaneOwner owner):
    leave_lane(owner, True)
    owner.queue = None
    retire_after(owner.state.device, owner, owner.state.epochs, owner.lane.last_epoch)


@cython.no_gc_clear
cdef class LaneOwner:
    """Owns what a step knows of one queue. It is given back when the queue is done with it."""

    def __dealloc__(self):
        cdef size_t i
        if self.lane == NULL or is_forked():
            return
        forget_entries(self.lane, 0)
        for i in range(self.lane.dropped.size()):
            delete_copy(self.state, self.lane.dropped[i])
        for i in range(self.lane.plans.size()):
            delete_plan(self.lane.plans[i])
        for i in range(self.lane.dropped_plans.size()):
            delete_plan(self.lane.dropped_plans[i])
        release_queue_state(self.state)
        del self.lane
