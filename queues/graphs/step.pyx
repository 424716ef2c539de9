"""Steps: collect the launches of a queue, and submit runs that were the same last time by one call, others one by one.

A recording that may still run is not changed. Two or three copies of it take turns. If all may still run, the launches
are submitted one by one: leaving a step never waits. Submitting runs under the queue's lock, without the GIL.
"""

from typing import TYPE_CHECKING

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp
from libcpp.vector cimport vector

from forebay.core.driver cimport DONE, LAUNCH_COMMAND, NOT_CREATED, NOT_NOW, WRONG_TYPE, Geometry, Status, Waits
from forebay.core.ownership cimport FREE_THREADED, Guard, Ref, relaxed_bint, relaxed_pointer, relaxed_uint64
from forebay.core.plan cimport (
    POINTER, PackedPointer, Parameter, Plan, change_use, delete_plan, has_right_type, has_same_local, has_value,
    take_value, usage_of, withdraw
)
from forebay.core.process cimport is_forked
from forebay.core.state cimport (
    BY_CHECK, BY_STEP, BY_WATCH, COLLECTED, NOT_COLLECTED, OUT_OF_TURN, OWES_WAITS, TO_BE_RECORDED, Collecting,
    QueueState, open_step_count, poll_marker, refusal, submit_collected
)
from forebay.core.state cimport OpenStep  # no-cython-lint: the class below that extends it does not count
from forebay.core.usage cimport Moment, Usage, is_created
from forebay.core.vector_clock cimport Clock, completed_epoch, note_reached, submitted_epoch
from forebay.lifetimes.deferred cimport collect_device, retire_after
from forebay.queues.graphs.executable cimport (
    MOST_COPIES, Copy, Kept, Recorded, Recorder, Run, choose_copy, new_kept, submit_one, take_copies
)
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.launch cimport create_plan, is_closed_since, is_same_block
from forebay.queues.queue cimport Queue, is_captured
from forebay.sync.ordering cimport (
    count_command, drop_pending, mark_before, may_stay_full, moment_of, owes_null_wait, waits_of_pending
)

from forebay.core.errors import ArgumentTypeError, CaptureError, ClosedError, StepError

if TYPE_CHECKING:
    from typing_extensions import Never

cdef extern from "Python.h":
    void* PyThreadState_Get() nogil

# -- the state of a step for one queue: the record of its launches, and the recordings of runs of them


cdef cppclass Entry(Recorded):
    """A launch of the record, as last collected. Its plan belongs to the lane."""
    vector[Ref[Usage]] uses  # by parameter, as in a Plan
    relaxed_uint64 epoch
    bint varies  # an argument changed the last time


cdef cppclass Lane(OpenStep):
    # Guarded by the queue's lock. The step's thread reads without it what no other thread changes. Initially zero.
    vector[Entry*] entries
    vector[uint64_t] versions  # by entry: rises whenever it changes
    vector[Run*] runs  # by their first entry; NULL for none
    vector[size_t] ends  # by the entry with which it began: the end of each run, when the step was last open
    vector[size_t] new_ends  # the same, while it is open
    vector[Plan*] plans  # one for each kernel; arguments are set when a run is recorded or submitted one by one; owned
    PyObject* owner  # the LaneOwner
    vector[Copy*] dropped  # discarded by runs, until the step is left
    vector[Plan*] dropped_plans  # discarded with entries, likewise
    Recorder recorder
    size_t first  # of what is collected
    size_t at  # the entry that the next launch is compared with
    size_t run_first  # of the run that was submitted last, or is being recorded
    # Epochs of the queue
    uint64_t began  # when the step was opened
    uint64_t last_seen  # of the last launch that was recorded or collected
    uint64_t before  # before what is collected
    uint64_t last_used  # of the last launch that used anything of this
    bint recording  # the next launches are recorded, because they are new or different
    bint plain  # launches are submitted at once: they cannot be recorded, or are never the same
    bint told  # `plain` is counted in `Stats.steps_given_up`
    int recorded  # how many times in a row
    # The first collected launch that the driver did not take
    Status refused
    uint64_t refused_kernel
    uint32_t refused_argument


cdef void submit(QueueState* queue) noexcept nogil:  # the queue is locked
    cdef Lane* lane = <Lane*> queue.open_step.lane
    cdef size_t first = lane.first, end = lane.at
    lane.waiting = 0
    lane.first = end
    lane.run_first = first
    lane.last_used = lane.last_seen = submitted_epoch(queue.epochs)
    lane.new_ends[first] = end
    if end - first < 2 or lane.ends[first] != end or lane.plain or not replay_run(queue, lane, first, end):
        submit_each(queue, lane, first, end)


cdef void submit_each(QueueState* queue, Lane* lane, size_t first, size_t end) noexcept nogil:  # the queue is locked
    """Submit the launches one by one. After a failure none is submitted, as if the launch had raised at once."""
    cdef vector[void*] events
    cdef Waits waits = waits_of_pending(queue, events)
    cdef Status status
    cdef Entry* entry
    cdef uint32_t failed_at
    cdef size_t i
    for i in range(first, end):
        entry = lane.entries[i]
        failed_at = <uint32_t> -1
        status = submit_one(queue.driver, queue.handle, entry, waits, &failed_at)
        if status != 0:
            if lane.refused == 0:
                lane.refused, lane.refused_kernel, lane.refused_argument = status, entry.plan.kernel_id, failed_at
            return
        if waits.count:
            waits.count = 0
            drop_pending(queue)


cdef bint replay_run(QueueState* queue, Lane* lane, size_t first, size_t end) noexcept nogil:  # the queue is locked
    """Submit a run by one call. False: nothing was submitted."""
    cdef vector[void*] events
    cdef Run* run = lane.runs[first]
    cdef Recorder* recorder = &lane.recorder
    cdef Copy* copy = NULL
    cdef Status status
    if run == NULL:
        run = lane.runs[first] = new Run()
        run.first, run.changeable = first, True
    elif run.end != end:  # another run that begins there
        take_copies(lane.dropped, run)
    run.end = end
    recorder.commands, recorder.versions = <Recorded**> lane.entries.data(), lane.versions.data()
    status = choose_copy(recorder[0], run, MOST_COPIES, &copy)
    if copy == NULL:
        lane.plain = status != NOT_NOW
        return False
    if queue.driver.replay(queue.handle, copy.recording, waits_of_pending(queue, events)) != 0:
        return False
    drop_pending(queue)
    copy.epoch = submitted_epoch(queue.epochs)
    copy.marker.clear()
    return True


cdef bint may_run(void* owner, Copy* copy) noexcept nogil:  # the queue is locked
    """Return whether a copy may still run. If so, the last replayed one gets a marker for later checks."""
    cdef QueueState* queue = <QueueState*> owner
    cdef uint64_t before = (<Lane*> queue.open_step.lane).before
    cdef Clock* clock = queue.order.clock
    cdef bint done = False
    if copy.epoch <= completed_epoch(queue.epochs):
        return False
    if copy.marker.get() == NULL:
        if not queue.order.pending.empty():
            before, clock = queue.order.before_pending, queue.order.clock_before
        # if all that the driver has of the queue is done, no marker is needed
        if queue.driver.poll != NULL and queue.driver.poll(queue.handle, &done) == 0 and done:
            note_reached(queue.epochs, before, clock)
            return False
        mark_before(queue, before, clock, copy.marker)
    return copy.marker.get() == NULL or poll_marker(copy.marker.get()) != DONE


# -- collects the launches of an open step: compares each with the record, and notes what changed
#
# A collected launch counts as submitted: the epoch advances, the queue becomes null-pending, and uses are noted. Before
# any driver call it is submitted (`submit_collected`). Beside that, only `reclaim_quota` knows of steps. An open step
# sets a slow-path flag, so that launches come here.


cdef enum:
    MOST_RECORDED = 3  # times in a row, before a step gives up
    LOOKS_FOR_ROOM = 64  # launches between two checks of the in-flight limit, which is hundreds


# -- comparing


cdef void note_argument(QueueState* queue, Entry* entry, size_t index, Usage* usage) noexcept nogil:
    """Note the allocation that is now this argument. The queue is locked, or no other thread has the entry."""
    change_use(entry.uses[index], usage, queue.epochs, &entry.epoch, entry.plan.parameters[index].writes)


cdef Status take_arguments(
    QueueState* queue, Entry* entry, const char* packed, uint64_t version, uint32_t* failed_at
) noexcept nogil:  # the queue is locked
    """Set the entry's arguments, up to the first that fails: the next launch is compared with what is set here."""
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
            entry.changed_at[i] = version
            take_value(known, value, parameter.width)
            if parameter.kind == POINTER:
                note_argument(queue, entry, i, usage)
        parameter += 1
    queue.counts.arg_bytes_set += bytes_set
    queue.counts.arg_bytes_skipped += entry.plan.argument_bytes - bytes_set
    return 0


cdef Collecting collect(
    QueueState* queue, bint locked, PyObject* launched, const Geometry* geometry, const char* packed,
    const uint64_t* closings, Status* status, uint32_t* failed_at
) noexcept:
    """Collect a launch if it is the record's next one. Otherwise return how to submit it."""
    cdef Lane* lane
    cdef Entry* entry
    cdef uint64_t before
    cdef Guard guard
    if queue.open_step.thread != PyThreadState_Get():
        return NOT_COLLECTED
    if not locked:
        if not guard.try_take(queue.lock):
            return OUT_OF_TURN  # waiting for the lock would release the GIL, and then memory may be closed
        if queue.open_step.lane == NULL:  # another thread has just closed it
            return NOT_COLLECTED
    lane = <Lane*> queue.open_step.lane
    if lane.plain:
        return NOT_COLLECTED
    if lane.recording or lane.at == lane.entries.size():
        return TO_BE_RECORDED
    entry = lane.entries[lane.at]
    if entry.plan.kernel_id != (<Kernel> launched).id or memcmp(
        &entry.command.geometry.block[0], &geometry.block[0], 3 * sizeof(uint32_t)
    ) != 0:
        return TO_BE_RECORDED
    if queue.slow_path & ~<uint32_t> (BY_CHECK | BY_WATCH) != BY_STEP:
        return NOT_COLLECTED
    if owes_null_wait(queue):
        return OWES_WAITS
    if lane.waiting % LOOKS_FOR_ROOM == 0 and may_stay_full(queue, 0):
        return OUT_OF_TURN  # its launch waits for capacity
    if not entry.varies and is_same_block(entry.values.data(), packed, entry.values.size()):
        queue.counts.arg_bytes_skipped += entry.plan.argument_bytes
    else:
        if entry.plan.has_local and not has_same_local(
            entry.plan.parameters.data(), entry.plan.parameters.size(), entry.values.data(), packed
        ):
            return TO_BE_RECORDED
        status[0] = take_arguments(queue, entry, packed, lane.versions[lane.at] + 1, failed_at)
        lane.versions[lane.at] += entry.varies
        if status[0] == NOT_CREATED:
            status[0] = 0
            return OWES_WAITS
        if status[0] != 0:
            return COLLECTED
    if memcmp(&entry.command.geometry.groups[0], &geometry.groups[0], 3 * sizeof(uint32_t)) != 0:
        entry.command.geometry = geometry[0]
        lane.versions[lane.at] += 1
        entry.changed_at[entry.plan.parameters.size()] = lane.versions[lane.at]
    before = entry.epoch
    if FREE_THREADED and closings != NULL and is_closed_since(queue, &entry.epoch, closings[0]):
        withdraw(&entry.epoch, before, entry.uses, entry.plan.parameters)
        return OUT_OF_TURN
    if lane.waiting == 0:
        lane.before = submitted_epoch(queue.epochs)
    lane.waiting += 1
    lane.at += 1
    count_command(queue)
    entry.epoch = submitted_epoch(queue.epochs)
    queue.counts.launches += 1
    return COLLECTED


# -- recording


cdef void forget_entries(Lane* lane, size_t kept) noexcept nogil:
    """Discard the entries from `kept` on, and each run that has one of them. The queue is locked."""
    cdef Entry* entry
    cdef size_t i, j
    if kept == lane.entries.size():
        return  # as after most steps
    for i in range(lane.runs.size()):
        if lane.runs[i] != NULL and lane.runs[i].end > kept:
            take_copies(lane.dropped, lane.runs[i])
            del lane.runs[i]
            lane.runs[i] = NULL
    for i in range(kept, lane.entries.size()):
        entry = lane.entries[i]
        for j in range(entry.uses.size()):
            note_argument(<QueueState*> lane.recorder.owner, entry, j, NULL)
        del entry
    lane.entries.resize(kept)
    fit_entries(lane)


cdef void fit_entries(Lane* lane) noexcept nogil:
    lane.versions.resize(lane.entries.size())
    lane.runs.resize(lane.entries.size())
    lane.ends.resize(lane.entries.size())
    lane.new_ends.resize(lane.entries.size())


cdef Plan* plan_of(Lane* lane, uint64_t kernel_id) noexcept nogil:  # the queue is locked
    for plan in lane.plans:
        if plan.kernel_id == kernel_id:
            return plan
    return NULL


cdef int submitted(
    QueueState* queue, Collecting why, PyObject* launched, const Geometry* geometry, const char* packed
) except -1:
    """Record a launch that was submitted at once, or skip its entry. With the GIL."""
    cdef Lane* lane = <Lane*> queue.open_step.lane
    cdef Kernel kernel = <Kernel> launched
    cdef Entry* entry = NULL
    cdef Plan* made = NULL
    cdef LaneOwner owner
    cdef uint64_t kernel_id = kernel.id  # another thread may change it
    cdef bint plain, records, has_plan
    cdef Guard guard
    if lane == NULL or queue.open_step.thread != PyThreadState_Get():
        return 0
    owner = <LaneOwner> lane.owner  # another thread may close the step while the queue is not locked
    with nogil:
        guard.take(queue.lock)
        plain = lane.plain or queue.open_step.lane != lane
        records = why == TO_BE_RECORDED or lane.recording or lane.at == lane.entries.size()
        has_plan = plan_of(lane, kernel_id) != NULL
        guard.leave()
    if plain:
        return 0
    if records:
        if not has_plan:
            try:
                made = create_plan(queue.driver, kernel, NULL)
                kernel_id = made.kernel_id
            except Exception:  # there is no record without a kernel, and the launch itself has succeeded
                with nogil:
                    guard.take(queue.lock)
                    lane.plain = True
                    guard.leave()
                return 0
        entry = new Entry()
        entry.command.kind = LAUNCH_COMMAND
        entry.command.geometry = geometry[0]
        entry.changed_at.resize(kernel.count + 1, 0)
        entry.values.assign(packed, packed + kernel.packed_size)
        entry.uses.resize(kernel.count)
        owner.names[kernel_id] = kernel.name, kernel.parameters
    with nogil:
        guard.take(queue.lock)
        if queue.open_step.lane == lane:
            submit_collected(queue)
            if made != NULL:
                lane.plans.push_back(made)
                made = NULL
            if entry != NULL:
                entry.plan = plan_of(lane, kernel_id)
                entry.command.kernel = entry.plan.kernel
                add_entry(queue, lane, entry)
            lane.at += 1
            lane.first = lane.at
            lane.last_seen = submitted_epoch(queue.epochs)
        else:
            del entry
        guard.leave()
        if made != NULL:
            delete_plan(made)
    return 0


cdef void add_entry(QueueState* queue, Lane* lane, Entry* entry) noexcept nogil:  # the queue is locked
    cdef const Parameter* parameter
    cdef size_t i
    if not lane.recording:
        lane.recording = True
        forget_entries(lane, lane.at)
    for i in range(entry.uses.size()):
        parameter = &entry.plan.parameters[i]
        if parameter.kind == POINTER:
            note_argument(queue, entry, i, usage_of(<const PackedPointer*> (entry.values.data() + parameter.offset)))
    if submitted_epoch(queue.epochs) != lane.last_seen + 1 and lane.at != 0:  # another command came in between
        lane.new_ends[lane.run_first] = lane.at
        lane.run_first = lane.at
    lane.entries.push_back(entry)
    fit_entries(lane)


# -- opening and leaving


cdef bint can_collect(QueueState* queue) noexcept nogil:
    """Return whether the driver has recordings that can be changed."""
    return queue.driver.new_recording != NULL and queue.driver.change != NULL and not queue.adopted


cdef LaneOwner new_lane(object queue, QueueState* state):
    cdef LaneOwner owner = LaneOwner.__new__(LaneOwner)
    cdef Lane* lane = new Lane()
    owner.lane = lane
    owner.kept_state = Ref[QueueState].share(state)
    owner.state = state
    owner.queue = queue
    owner.names = {}
    lane.submit = submit
    lane.collect = collect
    lane.submitted = submitted
    lane.owner = <PyObject*> owner
    lane.recorder.driver, lane.recorder.queue = state.driver, state.handle
    lane.recorder.may_run, lane.recorder.owner = may_run, state
    return owner


cdef Status open_lane(LaneOwner owner):
    """Collect the queue's launches by this thread from now on."""
    cdef QueueState* queue = owner.state
    cdef Lane* lane = owner.lane
    cdef Status status
    cdef Guard guard
    cdef void* thread = PyThreadState_Get()
    with nogil:
        guard.take(queue.lock)
        status = refusal(queue)
        if status == 0 and not lane.plain:
            lane.first = lane.at = lane.run_first = 0
            lane.recording = False
            lane.began = lane.last_seen = submitted_epoch(queue.epochs)
            lane.new_ends.assign(lane.entries.size(), 0)
            queue.open_step.lane = lane
            queue.open_step.thread = thread
            queue.slow_path |= BY_STEP
        guard.leave()
    return status


cdef void drop_plans(Lane* lane) noexcept nogil:
    """Discard the plans that no entry has any more. The queue is locked."""
    cdef vector[Plan*] used
    for plan in lane.plans:
        for entry in lane.entries:
            if entry.plan == plan:
                used.push_back(plan)
                break
        else:
            lane.dropped_plans.push_back(plan)
    lane.plans.swap(used)


cdef void leave_lane(LaneOwner owner, bint failed, uint64_t steps=0) noexcept:
    """Submit what was collected, and stop collecting. A failed step keeps a complete record. Counts `steps`."""
    cdef QueueState* queue = owner.state
    cdef Lane* lane = owner.lane
    cdef bint differs
    cdef Guard guard
    if is_forked():
        return
    with nogil:
        guard.take(queue.lock)
        queue.counts.steps += steps
        if queue.open_step.lane == lane:
            submit_collected(queue)
            queue.open_step.lane = queue.open_step.thread = NULL
            queue.slow_path &= ~<uint32_t> BY_STEP
            differs = lane.recording or lane.at < lane.entries.size()
            if not failed and lane.refused == 0:
                if lane.recording:
                    lane.new_ends[lane.run_first] = lane.at
                forget_entries(lane, lane.at)
                lane.ends.swap(lane.new_ends)
                if differs and lane.recorded == MOST_RECORDED:
                    lane.plain = True
                else:
                    lane.recorded = lane.recorded + 1 if differs else 0
                    queue.counts.steps_recorded += differs
            elif lane.recording:
                forget_entries(lane, 0)
            if lane.plain and not lane.told:
                lane.told = differs = True
                queue.counts.steps_given_up += 1
                forget_entries(lane, 0)
            if differs:
                drop_plans(lane)
        guard.leave()
    retire_dropped(owner)


# -- releasing


cdef void retire_dropped(LaneOwner owner) noexcept:
    """Release what was discarded once the queue is done with it."""
    cdef Lane* lane = owner.lane
    cdef Kept kept
    cdef Plan* plan
    if lane.dropped.empty() and lane.dropped_plans.empty():
        return
    for plan in lane.dropped_plans:
        if lane.refused == 0 or plan.kernel_id != lane.refused_kernel:
            owner.names.pop(plan.kernel_id, None)  # else an error is about to name it
    kept = new_kept(owner.state.device)
    kept.copies.swap(lane.dropped)
    kept.plans.swap(lane.dropped_plans)
    retire_after(owner.state.device, kept, owner.state.epochs, lane.last_used)


@cython.no_gc_clear
cdef class LaneOwner:
    """Owns a queue's lane, and releases it once the queue is done with it, even in a garbage collection."""

    cdef Lane* lane
    cdef QueueState* state  # of the queue; retained
    cdef Ref[QueueState] kept_state
    cdef readonly object queue
    cdef readonly dict names  # of the kernels in the record, by id; for errors

    def __dealloc__(self):
        if self.lane == NULL or is_forked():
            return
        forget_entries(self.lane, 0)
        drop_plans(self.lane)
        retire_dropped(self)
        del self.lane


# -- steps, which `Queue.step` makes


cdef dict open_steps = {}  # by the thread in the block, which alone changes its entry


cdef bint claim(Queue queue, Step step):
    """Let a queue be in a step, unless it is in one. Returns whether it was in none."""
    with cython.critical_section(queue):
        if queue.in_step is not None:
            return False
        queue.in_step = step
    return True


@cython.no_gc_clear
cdef class Step:
    """A repeated section of a program: ``with step:`` around its commands. Made by `Queue.step`.

    The first time, the commands are submitted at once, and the launches are recorded. From then on, on a driver that
    can change its recordings (Level Zero, CUDA), each launch is only compared with the record, and leaving the block
    submits a run of launches by one driver call. Arguments and group counts may differ each time. If kernels, blocks or
    the number of launches differ, the launches are submitted at once from there on and recorded anew. After three such
    times in a row the step gives up, which `Stats.steps_given_up` counts. On other drivers each launch is submitted at
    once, as without the step.

    Everything is ordered as if it were submitted at once: other commands, and waits in any thread, first submit the
    launches before them. Only what the host observes without forebay, such as a flag in pinned memory that a kernel
    sets, may come as late as the end of the block.

    Another queue of the device joins with its first wait in the block for this queue, or for an event recorded there.
    Only launches of the thread that opened the step are collected. If an exception leaves the block, what was launched
    before it is still submitted.

    Attributes
    ----------
    queue : Queue
    closed : bool
    """

    cdef readonly Queue queue
    cdef readonly relaxed_bint closed
    cdef relaxed_bint is_open
    cdef bint inside  # a thread is in the block, so only that one releases what its launches use
    cdef relaxed_pointer thread  # the last that was
    cdef LaneOwner own  # the queue's; None when the driver submits each launch at once
    cdef dict owners  # LaneOwner by Queue, `own` included
    cdef list joined  # LaneOwners that have joined this time, without `own`
    cdef object __weakref__

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a Step is made by Queue.step")

    @staticmethod
    def _of(Queue queue) -> Step:
        cdef Step step = Step.__new__(Step)
        step.queue = queue
        step.owners, step.joined = {}, []
        if can_collect(queue.state):
            step.own = step.owners[queue] = new_lane(queue, queue.state)
        return step

    def __dealloc__(self):
        if self.queue is not None and not is_forked():
            self.give_back()

    cdef int give_back(self) except -1:
        cdef LaneOwner owner
        with cython.critical_section(self):
            _own, self.own = self.own, None  # released outside
            owners, self.owners = self.owners, {}
        for owner in owners.values():
            leave_lane(owner, True)
            owner.queue = None
        return 0

    cdef int leave_block(self) except -1:
        cdef void* thread = PyThreadState_Get()
        with cython.critical_section(self):
            if open_steps.get(<uintptr_t> thread) is not self:
                thread = self.thread  # another thread leaves it than the one that entered
            self.inside = self.inside and self.thread != thread  # another thread may have entered it since
            left = self.closed and not self.inside
        open_steps.pop(<uintptr_t> thread, None)
        return self.give_back() if left else 0

    def __enter__(self) -> Step:
        """Begin the step.

        Raises
        ------
        ClosedError
            If the step or its queue is closed.
        StepError
            If this thread has a step open, or the queue is in one.
        CaptureError
            If the queue is captured.
        """
        cdef void* thread = PyThreadState_Get()
        cdef Status status = 0
        cdef Step other
        cdef LaneOwner own
        if self.closed:
            raise ClosedError(f"this Step of {self.queue!r} is closed")
        self.queue._check_open()
        if self.queue._capture is not None:
            raise CaptureError(f"step on {self.queue!r}: it is captured")
        other = open_steps.get(<uintptr_t> thread)
        if other is not None and other.is_open and other.queue is not self.queue:
            raise StepError(f"step on {self.queue!r}: a step of {other.queue!r} is open in this thread")
        if not claim(self.queue, self):
            raise StepError(f"step on {self.queue!r}: it is in an open step already")
        with cython.critical_section(self):  # another thread may close the step
            own, self.inside, self.thread = self.own, True, thread
        if own is not None:
            status = open_lane(own)
            if status != 0 or self.closed:
                leave_lane(own, True)
                self.leave_block()
                self.queue._step = None
                if self.closed:
                    raise ClosedError(f"this Step of {self.queue!r} is closed")
                self.queue._raise(status, "step")
        self.is_open = True
        open_steps[<uintptr_t> thread] = self
        open_step_count.fetch_add(1)
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """End the step, and submit what was collected.

        Does not wait for the device. Blocks only while the driver's queue is full, without the GIL.

        Raises
        ------
        DriverError
            If the driver refused a collected launch; those after it were not submitted. Not raised if an exception
            leaves the block.
        """
        try:
            if self.is_open:
                self.leave(kind is not None)
        finally:
            self.leave_block()

    cdef int leave(self, bint failed) except -1:
        """End the step, beginning with what cannot fail."""
        cdef QueueState* state = self.queue.state
        cdef LaneOwner owner
        cdef LaneOwner refused = None
        cdef LaneOwner own
        cdef Guard guard
        with cython.critical_section(self):
            own = self.own
            opened, self.is_open = self.is_open, False
            joined, self.joined = self.joined, []
        if not opened:  # another thread has ended it meanwhile
            return 0
        queues = [owner.queue for owner in joined]  # a close by another thread would clear these
        open_step_count.fetch_sub(1)
        if own is not None:
            leave_lane(own, failed, 1)
            if own.lane.refused != 0:
                refused = own
        else:
            with nogil:
                guard.take(state.lock)
                state.counts.steps += 1
                guard.leave()
        for owner, queue in zip(joined, queues):
            leave_lane(owner, failed)
            (<Queue> queue)._step = None
            if owner.lane.refused != 0:
                refused = owner
        self.queue._step = None
        if refused is not None:
            self.raise_refused(refused, failed)
        return 0

    cdef int raise_refused(self, LaneOwner owner, bint failed) except -1:
        cdef Status status = owner.lane.refused
        cdef uint32_t failed_at = owner.lane.refused_argument
        owner.lane.refused = 0
        if failed:
            return 0
        name, parameters = owner.names[owner.lane.refused_kernel]
        what = f"kernel {name!r}, collected by a step"
        if failed_at < len(parameters):
            parameter = parameters[failed_at]
            what += f", argument {failed_at} ({parameter.type_name} {parameter.name})"
        self.queue._raise(status, what)

    def _join(self, Queue queue, Queue producer, epoch: int | None) -> None:
        """Add a queue that waits for a queue of the step, or for an event recorded there at this epoch."""
        cdef LaneOwner owner
        cdef bint joins
        if (
            not self.is_open or self.own is None or self.thread != PyThreadState_Get() or queue._step is not None
            or queue.device._context is not self.queue.device._context or is_captured(queue)
            or not can_collect(queue.state)
        ):
            return
        owner = self.owners[producer]
        if epoch is not None and epoch <= owner.lane.began:
            return
        owner = self.owners.get(queue)
        if owner is None:
            owner = self.owners[queue] = new_lane(queue, queue.state)
        if not claim(queue, self):
            return
        joins = open_lane(owner) == 0
        with cython.critical_section(self):
            joins = joins and self.is_open
            if joins:
                self.joined.append(owner)
        if not joins:  # another thread has closed it meanwhile
            leave_lane(owner, True)
            queue._step = None

    def close(self) -> None:
        """Release what the step has recorded, once the device is done with it. Does not block for that.

        An open step is ended first, as at the end of its block. Closing twice is allowed.
        """
        with cython.critical_section(self):
            closed, self.closed = self.closed, True
            used = self.inside and self.thread != PyThreadState_Get()
        if closed:
            return
        try:
            if self.is_open:
                self.leave(False)
        finally:
            if not used:
                self.give_back()
        collect_device(self.queue.state.device)

    def __repr__(self) -> str:
        state = "closed, " if self.closed else "open, " if self.is_open else ""
        return f"<forebay.Step, {state}on {self.queue!r}>"
