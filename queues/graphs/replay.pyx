"""Makes graphs ready to run: cuts them into lanes, gives them their own kernels and memory, and records the commands.

The first lane is the queue that the graph is launched on. Each other lane is a queue that only this graph uses, and
only while it holds the launch queue's lock. Lanes wait for each other through markers. At the end the first lane waits
for all others, so that everybody else sees the graph as one command. Host functions and waits divide a lane into parts.
If the driver can record commands, it submits each part by one call.
"""

from typing import TYPE_CHECKING

import numpy as np
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    COPY_COMMAND, FILL_COMMAND, FOR_DEVICE, FOR_HOST, HOST_MEMORY, LAUNCH_COMMAND, Command, Driver, Memory,
    Status, Waits
)
from forebay.core.epochs cimport completed_epoch, release_epochs, retain_epochs, submitted_epoch
from forebay.core.marker cimport Marker, release_marker
from forebay.core.plan cimport PackedPointer, Plan, delete_plan, new_plan, set_changed_arguments
from forebay.core.state cimport QueueState, note_all_used, release_device_state
from forebay.core.uses cimport Basis, Uses, note_use, release_uses, retain_uses
from forebay.events.anchors cimport retire_after
from forebay.queues.graphs.sizes cimport Sizes, is_still, works_with_scratch
from forebay.queues.graphs.work cimport CopyWork, FillWork, HostWork, KernelWork, ListWork, Work
from forebay.queues.host_functions cimport Call, submit_call
from forebay.queues.launch.guards cimport GUARD
from forebay.queues.launch.scratch cimport new_guard
from forebay.queues.memory.allocation cimport new_pointer
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.memory.copies cimport host_memory_of
from forebay.queues.queue cimport Queue
from forebay.sync.ordering cimport (
    Order, abort_command, apply_command, begin_command, conclude, count_command, end_order, note_hold,
    take_marker, waits_of
)

from forebay.queues.memory.pinned import host_empty

if TYPE_CHECKING:
    from typing_extensions import Buffer as HostBuffer


# -- making it


class CopyOnHost:
    """A copy that the host thread runs because the driver does not take pageable memory."""

    def __init__(self, to: HostBuffer, source: HostBuffer) -> None:
        self.to = np.frombuffer(to, np.uint8) if not isinstance(to, np.ndarray) else to.reshape(-1).view(np.uint8)
        self.source = np.frombuffer(source, np.uint8) if not isinstance(source, np.ndarray) else (
            source.reshape(-1).view(np.uint8))

    def __call__(self) -> None:
        self.to[:] = self.source


@cython.no_gc_clear
cdef class Prepared:
    """Owns what a graph submits. It is given back once the device is done with it."""

    def __cinit__(self) -> None:
        self.submission = new Submission()
        self.submission.needs_start = self.submission.follows = False
        self.submission.last_queue = NULL
        self.submission.last_epoch = 0

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.submission.steps.size()):
            if self.submission.steps[i].recording != NULL:
                self.driver.release_recording(self.submission.steps[i].recording)
        for i in range(self.submission.uses.size()):
            release_uses(self.submission.uses[i].uses)
        if self.submission.last_queue != NULL:
            release_epochs(self.submission.last_queue)
        del self.submission
        for i in range(self.plans.size()):
            delete_plan(self.plans[i])
        if self.state != NULL:
            release_device_state(self.state)

    cdef int add(self, Command command) except -1:
        cdef Submission* submission = self.submission
        if self.cut or submission.steps.back().kind != COMMANDS:
            self.add_step(COMMANDS, submission.commands.size(), 0)
        submission.commands.push_back(command)
        submission.steps[submission.steps.size() - 1].count += 1
        return 0

    cdef int add_step(self, StepKind kind, size_t first, size_t count) except -1:
        self.submission.steps.push_back(Step(kind, first, count, NULL, self.lane, False, False, 0, 0))
        self.cut = False
        return 0

    cdef int add_host(self, object function) except -1:
        self.add_step(HOST_CALL, len(self.functions), 1)
        self.functions.append(function)
        return 0

    cdef int add_copy(self, const Memory* to, const Memory* source, size_t nbytes) except -1:
        cdef Command command
        command.kind = COPY_COMMAND
        command.to = to[0]
        command.source = source[0]
        command.nbytes = nbytes
        return self.add(command)


cdef class Scratch:
    """Scratch of a kernel in a lane."""


cdef Scratch new_scratch(object device, size_t nbytes):
    cdef Scratch scratch = Scratch.__new__(Scratch)
    scratch.native = device._allocate(nbytes, "device")
    scratch.pointer = new_pointer(scratch.native)
    scratch.nbytes = nbytes
    return scratch


cdef int make_scratch(Prepared prepared, object device, Sizes sizes, list segments, Prepared last) except -1:
    """Allocate the scratch. Launches of a kernel in one lane come one after the other, so they share it.

    What `last` had is used again if it is large enough: executions of one graph come one after the other, too.
    """
    cdef Scratch scratch
    cdef KernelWork work
    cdef dict needed = {}
    placed = [
        (segment.lane, work) for segment in segments
        for work in works_with_scratch([sizes.works[node] for node in segment.nodes])]
    for lane, work in placed:
        prepared.room[work] = sizes.by_work.get(work, [1] * len(work.scratch))
        for (index, _), nbytes in zip(work.scratch, prepared.room[work], strict=True):
            needed[lane, work.kernel, index] = max(needed.get((lane, work.kernel, index), 0), nbytes)
    if device.debug:
        return 0
    for key, nbytes in needed.items():
        scratch = None if last is None else last.scratch.get(key)
        if scratch is None or scratch.nbytes < nbytes:
            # an eighth more, so that scratch that grows slowly is not allocated at every launch
            scratch = new_scratch(device, nbytes if scratch is None else nbytes + nbytes // 8)
        prepared.scratch[key] = scratch
    prepared.room = {}
    for lane, work in placed:
        there = [(<Scratch> prepared.scratch[lane, work.kernel, index]).nbytes for index, _ in work.scratch]
        prepared.room[work] = [min(pair) for pair in zip(there, prepared.room.get(work, there), strict=True)]
    return 0


cdef bint has_room(Replay replay, Sizes sizes):
    """Return whether the scratch is large enough. The scratch of a debugging device has to fit, for its guards."""
    cdef Prepared prepared = replay.prepared
    for work, needed in sizes.by_work.items():
        if prepared.guards:
            if needed != prepared.room[work]:
                return False
        elif any([nbytes > there for nbytes, there in zip(needed, prepared.room[work], strict=True)]):
            return False
    return True


cdef Scratch scratch_of(Prepared prepared, object device, KernelWork work, Py_ssize_t i):
    """Return the memory for a launch's scratch."""
    cdef Scratch scratch
    if not device.debug:
        return prepared.scratch[prepared.lane, work.kernel, work.scratch[i][0]]
    nbytes = prepared.room[work][i]
    scratch = new_scratch(device, nbytes + GUARD)
    prepared.kept.append(scratch)
    prepared.guards.append(new_guard(device, work.kernel, scratch.native, work.scratch[i], nbytes))
    return scratch


cdef int add_kernel(Prepared prepared, object device, KernelWork work) except -1:
    """Add a kernel launch.

    Launches of one kernel with identical arguments in one lane share a kernel object that nobody else uses. Bytes by
    value go into a buffer of the launch's own. They are copied there before every launch, without skipping.
    """
    cdef vector[char] packed = work.packed
    cdef uint64_t bytes_set = 0, bytes_skipped = 0
    cdef uint32_t failed_at = 0
    cdef uintptr_t handle
    cdef PackedPointer* slot
    cdef const unsigned char[::1] given
    cdef Memory source
    cdef Command command
    cdef Plan* plan
    cdef Status status
    cdef Py_ssize_t i
    if work.follows:
        work.kernel._keep_up_with_memory()
    for index, value in work.by_value:
        given = value
        native = device._allocate(given.shape[0], "device")
        staged = device.driver.stage(given.shape[0])
        prepared.kept += [native, staged]
        slot = <PackedPointer*> (packed.data() + work.kernel.layout[<size_t> index].offset)
        slot[0] = new_pointer(native)
        source = host_memory_of(staged)
        memcpy(<void*> <uintptr_t> source.address, &given[0], given.shape[0])
        prepared.add_copy(&slot.memory, &source, given.shape[0])
    for i in range(len(work.scratch)):
        slot = <PackedPointer*> (packed.data() + work.kernel.layout[<size_t> work.scratch[i][0]].offset)
        slot[0] = scratch_of(prepared, device, work, i).pointer
    key = prepared.lane, work.kernel.id, PyBytes_FromStringAndSize(packed.data(), packed.size())
    if key in prepared.by_arguments:
        plan = prepared.plans[<size_t> prepared.by_arguments[key]]
    else:
        handle = work.kernel._create()
        plan = new_plan(
            prepared.driver, <void*> handle, work.kernel.id, work.kernel.layout, work.kernel.count,
            work.kernel.packed_size, NULL)
        prepared.by_arguments[key] = prepared.plans.size()
        prepared.plans.push_back(plan)
        status = set_changed_arguments(plan, packed.data(), &bytes_set, &bytes_skipped, &failed_at)
        if status != 0:
            parameter = work.kernel.parameters[failed_at]
            device._raise(
                status, f"kernel {work.kernel.name!r}, argument {failed_at} ({parameter.type_name} {parameter.name})")
    command.kind = LAUNCH_COMMAND
    command.kernel = plan.kernel
    command.geometry = work.geometry
    return prepared.add(command)


cdef int add_copy(Prepared prepared, object device, CopyWork work) except -1:
    """Add a copy. The driver accesses pageable memory when the graph runs; if it cannot, the host thread does."""
    cdef Memory memory
    cdef bint to_host = work.to.kind & HOST_MEMORY
    if not work.pageable or (device.driver.takes_pageable if to_host else device.driver.reads_pageable_late):
        return prepared.add_copy(&work.to, &work.source, work.nbytes)
    staged = host_empty(work.nbytes, np.uint8, device)
    prepared.kept.append(staged)
    memory = host_memory_of(staged)
    if to_host:
        prepared.add_copy(&memory, &work.source, work.nbytes)
        return prepared.add_host(CopyOnHost(work.host, staged))
    prepared.add_host(CopyOnHost(staged, work.host))
    return prepared.add_copy(&work.to, &memory, work.nbytes)


cdef int add_fill(Prepared prepared, FillWork work) except -1:
    cdef Command command
    cdef const unsigned char[::1] pattern = work.pattern
    command.kind = FILL_COMMAND
    command.to = work.to
    command.nbytes = (<Buffer> work.buffer).nbytes
    command.pattern_size = pattern.shape[0]
    command.pattern = &pattern[0]  # owned by the work
    return prepared.add(command)


cdef bint is_acting(Work work):
    """Return whether the work submits anything."""
    if type(work) is ListWork:
        return any([is_acting(each) for each in (<ListWork> work).works])
    if work.kind == "copy":
        return (<CopyWork> work).nbytes != 0
    if work.kind == "fill":
        return (<Buffer> (<FillWork> work).buffer).nbytes != 0
    return work.kind in ("kernel", "host")


cdef int add_work(Prepared prepared, object device, Work work) except -1:
    """Add a work for which `is_acting` is true."""
    if type(work) is ListWork:
        for each in (<ListWork> work).works:
            if is_acting(each):
                add_work(prepared, device, each)
    elif work.kind == "kernel":
        add_kernel(prepared, device, work)
    elif work.kind == "copy":
        add_copy(prepared, device, work)
    elif work.kind == "fill":
        add_fill(prepared, work)
    else:
        prepared.add_host((<HostWork> work).function)
    return 0


cdef int add_segment(Prepared prepared, object device, tuple works, segment, list ends) except -1:
    """Add a segment. `ends` holds the last step of each earlier segment; this segment's is appended."""
    cdef Submission* submission = prepared.submission
    cdef size_t first = submission.steps.size()
    cdef Step* step
    prepared.lane = segment.lane
    prepared.cut = True
    for node in segment.nodes:
        add_work(prepared, device, works[node])
        if works[node].kind == "kernel":
            prepared.command_of[<size_t> node] = submission.commands.size() - 1
            prepared.step_of[<size_t> node] = submission.steps.size() - 1
    if not segment.nodes:
        prepared.add_step(JOIN, 0, 0)
    step = &submission.steps[first]
    step.from_start = segment.from_start
    step.first_wait = submission.waits.size()
    step.wait_count = len(segment.waits)
    for other in segment.waits:
        submission.waits.push_back(ends[other])
    submission.needs_start |= step.from_start
    step = &submission.steps[submission.steps.size() - 1]
    step.awaited = segment.awaited
    ends.append(submission.steps.size() - 1)
    return 0


cdef Status record_commands(
    QueueState* queue, const Command* commands, Step* step, bint changeable
) noexcept nogil:
    cdef Status status = queue.driver.new_recording(queue.handle, changeable, &step.recording)
    cdef size_t i
    if status != 0 or step.recording == NULL:
        return status
    for i in range(step.count):
        if status == 0:
            status = queue.driver.add_command(step.recording, &commands[i])
    return queue.driver.end_recording(step.recording) if status == 0 else status


cdef int record_steps(Prepared prepared, object device, QueueState* queue) except -1:
    cdef Submission* submission = prepared.submission
    cdef Status status
    cdef Step* step
    cdef size_t i
    for i in range(submission.steps.size()):
        step = &submission.steps[i]
        if step.kind != COMMANDS or step.count == 1:
            continue
        with nogil:
            status = record_commands(queue, submission.commands.data() + step.first, step, prepared.changeable)
            if prepared.changeable and (status != 0 or step.recording == NULL):
                # some kernels can be recorded, but not to be changed
                prepared.changeable = False
                if step.recording != NULL:
                    prepared.driver.release_recording(step.recording)
                    step.recording = NULL
                status = record_commands(queue, submission.commands.data() + step.first, step, False)
        if status != 0:
            device._raise(status, "recording a graph")
        if step.recording != NULL:
            step.kind = RECORDED
    for i in range(prepared.command_of.size()):
        if prepared.command_of[i] != NOT_RECORDED and submission.steps[prepared.step_of[i]].kind != RECORDED:
            prepared.command_of[i] = NOT_RECORDED
    return 0


cdef int note_works(Replay replay, Sizes sizes) except -1:
    """Note what the replay does from now on."""
    replay.sizes = sizes
    replay.buffers = tuple(dict.fromkeys([buffer for work in sizes.works for buffer in work.buffers]))
    replay.written = tuple(dict.fromkeys([buffer for work in sizes.works for buffer in work.writes]))
    note_buffers(replay.submission, sizes.works)
    replay.works = sizes.works
    return 0


cdef int note_buffers(Submission* submission, object works) except -1:
    """Note which allocations a launch uses, each once."""
    cdef Uses* uses
    cdef size_t i
    for i in range(submission.uses.size()):
        release_uses(submission.uses[i].uses)
    submission.uses.clear()
    written = {(<uintptr_t> (<Buffer> buffer).allocation.uses) for work in works for buffer in (<Work> work).writes}
    for each in dict.fromkeys([
        <uintptr_t> (<Buffer> buffer).allocation.uses for work in works for buffer in (<Work> work).buffers
    ]):
        uses = <Uses*> <uintptr_t> each
        submission.uses.push_back(UseOf(retain_uses(uses), each in written))
    submission.follows = any([(<Work> work).follows for work in works])
    return 0


cdef void note_launch(QueueState* queue, Submission* submission) noexcept nogil:
    """Note the uses of a launch, of which all or a part was submitted. The queue is locked."""
    cdef uint64_t epoch = submitted_epoch(queue.epochs)
    cdef size_t i
    for i in range(submission.uses.size()):
        note_use(submission.uses[i].uses, queue.epochs, epoch, submission.uses[i].writes)
    if submission.follows:
        note_all_used(queue, epoch)
    if submission.last_queue != queue.epochs:
        if submission.last_queue != NULL:
            release_epochs(submission.last_queue)
        submission.last_queue = retain_epochs(queue.epochs)
    submission.last_epoch = epoch


cdef Replay new_replay(
    object device, QueueState* queue, Sizes sizes, list segments, list lanes, Replay last, bint changeable
):
    """Make a replay of the works that the sizes are about, cut into these segments, for all queues of the device.

    `queue` is one of the device's queues. `lanes` are Queues that only this replay and earlier replays of the same
    executable use; `last`, or None, is one of these.
    """
    cdef Replay replay = Replay.__new__(Replay)
    cdef Prepared prepared = Prepared.__new__(Prepared)
    queue.device.references.fetch_add(1, memory_order_relaxed)
    prepared.state = queue.device
    prepared.driver = queue.driver
    prepared.functions = []
    prepared.by_arguments = {}
    prepared.scratch = {}
    prepared.room = {}
    prepared.guards = []
    prepared.kept = [*sizes.works, *lanes]
    prepared.changeable = changeable and queue.driver.change != NULL
    prepared.command_of.resize(len(sizes.works), NOT_RECORDED)
    prepared.step_of.resize(len(sizes.works), 0)
    prepared.submission.lanes.push_back(NULL)
    for lane in lanes:
        prepared.submission.lanes.push_back((<Queue> lane).state.handle)
    make_scratch(prepared, device, sizes, segments, None if last is None else last.prepared)
    ends = []
    for segment in segments:
        add_segment(prepared, device, sizes.works, segment, ends)
    if prepared.driver.new_recording != NULL:
        record_steps(prepared, device, queue)
    replay.prepared = prepared
    replay.submission = prepared.submission
    note_works(replay, sizes)
    return replay


@cython.no_gc_clear
cdef class Replay:
    """What launches submit until something is changed. Keeps its `Prepared` until everything submitted of it is done.
    """

    def __dealloc__(self):
        if self.prepared is not None:
            retire_after(self.prepared.state, self.prepared, self.submission.last_queue, self.submission.last_epoch)


# -- running it


cdef cppclass Run:
    """A launch in progress. The queue is locked."""
    Order order
    Waits waits  # the waits that the queue's next command carries
    bint began  # whether anything was submitted to the queue
    Marker* begin  # marker of everything before the launch; retained, or NULL
    void* start  # the event that other lanes begin with a wait for; NULL when there is nothing to wait for
    vector[void*] events  # by step: its event if another lane waits for it, else NULL; then further events; owned
    vector[void*] list  # wait list for the driver, which may overwrite it
    uint32_t touched  # one bit for each lane that may have received a command


cdef inline Status submit_one(const Driver* driver, void* handle, const Command* command, Waits waits) noexcept nogil:
    if command.kind == LAUNCH_COMMAND:
        return driver.launch(handle, command.kernel, &command.geometry, waits)
    if command.kind == COPY_COMMAND:
        return driver.copy(handle, &command.to, &command.source, command.nbytes, waits, NULL)
    return driver.fill(handle, &command.to, command.pattern, command.pattern_size, command.nbytes, waits, NULL)


cdef inline void count_one(QueueState* queue, Run* run) noexcept nogil:
    """Count a command that the queue's driver took. The first command carries the waits."""
    if run.began:
        count_command(queue)
    else:
        apply_command(queue, &run.order)
        run.began = True
        run.waits.count = 0


cdef inline Waits listed(Run* run) noexcept nogil:
    cdef Waits waits
    waits.count = <uint32_t> run.list.size()
    waits.events = run.list.data()
    return waits


cdef Status add_event(QueueState* queue, void* handle, Waits waits, void** event) noexcept nogil:
    cdef Status status = queue.driver.marker(handle, waits, FOR_DEVICE, event)
    if status == 0:
        queue.counts.markers_made += 1
        queue.counts.events_made += 1
    else:
        event[0] = NULL
    return status


cdef Status begin_lanes(QueueState* queue, Run* run) noexcept nogil:
    """Make the event that other lanes begin with a wait for. An idle queue with no waits needs none."""
    cdef Status status
    if run.waits.count == 0:
        status = take_marker(queue, FOR_DEVICE, &run.begin)
        if status == 0 and run.begin.epoch > completed_epoch(run.begin.queue):
            run.start = run.begin.event
        return status
    status = add_event(queue, queue.handle, run.waits, &run.start)
    if status == 0:
        run.events.push_back(run.start)
        count_one(queue, run)
    return status


cdef Waits waits_of_step(QueueState* queue, Submission* submission, Step* step, Run* run) noexcept nogil:
    cdef size_t i
    run.list.clear()
    for i in range(step.first_wait, step.first_wait + step.wait_count):
        run.list.push_back(run.events[submission.waits[i]])
    if step.from_start and run.start != NULL:
        run.list.push_back(run.start)
    queue.counts.waits_made += run.list.size()
    return listed(run)


cdef Status submit_step(
    QueueState* queue, Submission* submission, size_t at, vector[Call*]& calls, size_t* called, Run* run
) noexcept nogil:
    """Submit one step. Only commands on the launch queue count in its epoch: it waits for the other lanes at the end.
    """
    cdef Step* step = &submission.steps[at]
    cdef void* handle = queue.handle
    cdef Waits waits = run.waits
    cdef Status status = 0
    cdef size_t i
    if step.lane != 0:
        handle = submission.lanes[step.lane]
        run.touched |= <uint32_t> 1 << step.lane
    if step.lane != 0 or step.wait_count != 0:
        waits = waits_of_step(queue, submission, step, run)
    if step.kind == COMMANDS:
        for i in range(step.first, step.first + step.count):
            status = submit_one(queue.driver, handle, &submission.commands[i], waits)
            if status != 0:
                return status
            waits.count = 0
            if step.lane == 0:
                count_one(queue, run)
    else:
        if step.kind == RECORDED:
            status = queue.driver.replay(handle, step.recording, waits)
        elif step.kind == JOIN:
            status = queue.driver.barrier(handle, waits)
        else:
            status = submit_call(queue, handle, calls[called[0]], waits)
            called[0] += status == 0
        if status == 0 and step.lane == 0:
            count_one(queue, run)
    if status == 0 and step.awaited:
        waits.count = 0
        status = add_event(queue, handle, waits, &run.events[at])
    return status


cdef Status join_touched(QueueState* queue, Submission* submission, Run* run) noexcept nogil:
    """After a failure, make the queue wait for what its lanes were given."""
    cdef Waits none
    cdef void* event = NULL
    cdef Status status = 0
    cdef size_t lane
    none.count = 0
    none.events = NULL
    run.list.clear()
    for lane in range(1, submission.lanes.size()):
        if status == 0 and run.touched >> lane & 1:
            status = add_event(queue, submission.lanes[lane], none, &event)
            run.events.push_back(event)
            run.list.push_back(event)
    if status == 0:
        status = queue.driver.barrier(queue.handle, listed(run))
    if status == 0:
        count_one(queue, run)
    return status


cdef void finish_touched(QueueState* queue, Submission* submission, Run* run) noexcept nogil:
    """Wait on the host for the lanes, because `join_touched` failed. No lock is held."""
    cdef Waits waits
    cdef void* event = NULL
    cdef size_t lane
    for lane in range(1, submission.lanes.size()):
        if not run.touched >> lane & 1:
            continue
        if queue.driver.finish != NULL:
            queue.driver.finish(submission.lanes[lane])
            continue
        waits.count = 0
        waits.events = NULL
        if queue.driver.marker(submission.lanes[lane], waits, FOR_HOST, &event) == 0:
            waits.count = 1
            waits.events = &event
            queue.driver.wait_events(queue.device.context, waits, NULL)
            queue.driver.release_event(event)


cdef Status submit_replay(
    QueueState* queue, Submission* submission, const Basis* moment, uint64_t closings, vector[Call*]& calls,
    size_t* called, bint* began
) noexcept nogil:
    """Submit a whole launch under one lock, so that no other command comes in between.

    What the launch was decided from is looked at again: when sizes were read, and how many buffers were closed.
    `called` counts the host functions that were submitted. `began` is set when anything was submitted to the queue. The
    epoch counts driver calls, because it also shows how full the queue can be. When a call fails, everything submitted
    before it still runs.
    """
    cdef Run run
    cdef size_t i
    cdef bint joined = True
    cdef Status status = begin_command(queue, &run.order)
    called[0] = 0
    began[0] = False
    if status != 0:
        return status
    if not is_still(moment, queue.device) or queue.device.closings.load() != closings:
        abort_command(queue, &run.order)
        return OUT_OF_DATE
    if not calls.empty():
        status = note_hold(queue)
        if status != 0:
            abort_command(queue, &run.order)
            return status
    run.waits = waits_of(queue, &run.order)
    run.began = False
    run.begin = NULL
    run.start = NULL
    run.touched = 0
    if submission.lanes.size() > 1:
        run.events.resize(submission.steps.size(), NULL)
        if submission.needs_start:
            status = begin_lanes(queue, &run)
    for i in range(submission.steps.size()):
        if status != 0:
            break
        status = submit_step(queue, submission, i, calls, called, &run)
    if status == 0:
        queue.counts.graph_launches += 1
    elif run.touched:
        joined = join_touched(queue, submission, &run) == 0
    began[0] = run.began
    if run.began:
        note_launch(queue, submission)
        queue.lock.unlock()
        end_order(&run.order)
    elif status != 0 or not run.order.markers.empty():
        abort_command(queue, &run.order)
    else:
        conclude(queue, &run.order)
    if not joined:
        finish_touched(queue, submission, &run)
    for i in range(run.events.size()):
        if run.events[i] != NULL:
            queue.driver.release_event(run.events[i])
    if run.begin != NULL:
        release_marker(run.begin)
    return status
