"""Makes graphs ready to run: gives them their own kernels and memory, and records the commands.

Host functions and waits divide a lane into parts. If the driver can record commands, it submits each part by one call;
if its recordings branch, the whole graph, unless a host function or a kernel that follows pointers divides it.
"""

from typing import TYPE_CHECKING

import numpy as np
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    COPY_COMMAND, FILL_COMMAND, HOST_MEMORY, LAUNCH_COMMAND, NOT_NOW, Command, Driver, Memory, Status
)
from forebay.core.plan cimport PackedPointer, Plan, new_plan, set_changed_arguments
from forebay.core.process cimport check_memory
from forebay.core.state cimport QueueState
from forebay.core.uses cimport Uses, release_uses, retain_uses
from forebay.lifetimes.retired cimport retire_after
from forebay.queues.graphs.prepared cimport Prepared
from forebay.queues.graphs.sizes cimport Sizes, works_with_scratch
from forebay.queues.graphs.submission cimport COMMANDS, JOIN, RECORDED, Step, Submission, UseOf
from forebay.queues.graphs.work cimport CopyWork, FillWork, HostWork, KernelWork, ListWork, Work, packed_bytes
from forebay.queues.launch.guards cimport GUARD
from forebay.queues.launch.scratch cimport LARGE, new_guard
from forebay.queues.memory.allocation cimport pointer_to
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.memory.copies cimport copy_bytes, host_memory_of
from forebay.queues.queue cimport Queue

from forebay.queues.memory.pinned import host_empty

cdef enum:
    PATIENCE = 4  # sizes in turn that need far less scratch than there is, before there is less

if TYPE_CHECKING:
    from typing_extensions import Buffer as HostBuffer


class CopyOnHost:
    """A copy that the host thread runs because the driver does not take pageable memory."""

    def __init__(self, to: HostBuffer, source: HostBuffer) -> None:
        self.to = np.frombuffer(to, np.uint8) if not isinstance(to, np.ndarray) else to.reshape(-1).view(np.uint8)
        self.source = np.frombuffer(source, np.uint8) if not isinstance(source, np.ndarray) else (
            source.reshape(-1).view(np.uint8))

    def __call__(self) -> None:
        self.to[:] = self.source


cdef class Scratch:
    """Scratch of a kernel in a lane."""


cdef Scratch new_scratch(object device, size_t nbytes):
    cdef Scratch scratch = Scratch.__new__(Scratch)
    scratch.memory = device._lease_scratch(None, nbytes)
    scratch.pointer = pointer_to(scratch.memory)
    scratch.nbytes = nbytes
    return scratch


cdef int make_scratch(Prepared prepared, object device, Sizes sizes, list segments, Prepared last) except -1:
    """Allocate the scratch. Launches of a kernel in one lane come one after the other, so they share it.

    What `last` had is used again if it is large enough, and not far too large: executions of one graph come one after
    the other, too.
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
        if scratch is None or scratch.nbytes < nbytes or scratch.nbytes > LARGE and scratch.nbytes // 4 > nbytes:
            # an eighth more, so that scratch that grows slowly is not allocated at every launch
            scratch = new_scratch(device, nbytes if scratch is None else nbytes + nbytes // 8)
        prepared.scratch[key] = scratch
    prepared.room = {}
    for lane, work in placed:
        there = [(<Scratch> prepared.scratch[lane, work.kernel, index]).nbytes for index, _ in work.scratch]
        prepared.room[work] = [min(pair) for pair in zip(there, prepared.room.get(work, there), strict=True)]
    return 0


cdef bint wastes(Prepared prepared, Sizes sizes):
    """Return whether all launches of some kernel need far less scratch than one of them has."""
    cdef dict most = {}  # (needed, there) by kernel and position
    if prepared.guards:
        return False
    for work, needed in sizes.by_work.items():
        for i, pair in enumerate(zip(needed, prepared.room[work], strict=True)):
            most[work.kernel, i] = tuple(map(max, pair, most.get((work.kernel, i), (0, 0))))
    return any([there > LARGE and there // 4 > needed for needed, there in most.values()])


cdef bint has_room(Replay replay, Sizes sizes):
    """Return whether the scratch is large enough, and was not far too large for several sizes in turn.

    The scratch of a debugging device has to fit, for its guards.
    """
    cdef Prepared prepared = replay.prepared
    replay.wasted = replay.wasted + 1 if wastes(prepared, sizes) else 0
    if replay.wasted > PATIENCE:
        return False
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
    prepared.guards.append(new_guard(device, work.kernel, scratch.memory, work.scratch[i], nbytes))
    return scratch


cdef Plan* add_plan(Prepared prepared, KernelWork work) except NULL:
    """Add a plan for a launch of this kernel, with a kernel object of its own."""
    cdef uintptr_t handle
    check_memory()
    handle = work.kernel._create()
    prepared.plans.push_back(new_plan(
        prepared.driver, <void*> handle, work.kernel.id, work.kernel.layout, work.kernel.count,
        work.kernel.packed_size, NULL))
    prepared.sharers.push_back(1)
    return prepared.plans.back()


cdef size_t add_kernel(Prepared prepared, object device, KernelWork work) except? 0:
    """Add a kernel launch, and return the index of its plan.

    Launches of one kernel with identical arguments in one lane share a kernel object that nobody else uses. Bytes by
    value go into a buffer of the launch's own. They are copied there before every launch, without skipping.
    """
    cdef vector[char] packed
    cdef uint64_t bytes_set = 0, bytes_skipped = 0
    cdef uint32_t failed_at = 0
    cdef PackedPointer* slot
    cdef bytes given
    cdef Memory source
    cdef Command command
    cdef Plan* plan
    cdef Status status
    cdef size_t at
    cdef Py_ssize_t i
    packed.assign(packed_bytes(&work.packed), packed_bytes(&work.packed) + work.packed.count)
    for index, value in work.by_value or ():
        given = value
        memory = device._allocate(len(given), "device")
        staged = device.driver.stage(len(given))
        prepared.kept += [memory, staged]
        slot = <PackedPointer*> (packed.data() + work.kernel.layout[<size_t> index].offset)
        slot[0] = pointer_to(memory)
        source = host_memory_of(staged)
        copy_bytes(<void*> <uintptr_t> source.address, <const char*> given, len(given))
        prepared.add_copy(&slot.memory, &source, len(given))
    for i in range(len(work.scratch)):
        slot = <PackedPointer*> (packed.data() + work.kernel.layout[<size_t> work.scratch[i][0]].offset)
        slot[0] = scratch_of(prepared, device, work, i).pointer
    key = prepared.lane, work.kernel.id, PyBytes_FromStringAndSize(packed.data(), packed.size())
    if key in prepared.by_arguments:
        at = prepared.by_arguments[key]
        plan = prepared.plans[at]
        prepared.sharers[at] += 1
    else:
        at = prepared.plans.size()
        plan = add_plan(prepared, work)
        prepared.by_arguments[key] = at
        status = set_changed_arguments(plan, packed.data(), &bytes_set, &bytes_skipped, &failed_at)
        if status != 0:
            parameter = work.kernel.parameters[failed_at]
            device._raise(
                status, f"kernel {work.kernel.name!r}, argument {failed_at} ({parameter.type_name} {parameter.name})")
    command.kind = LAUNCH_COMMAND
    command.kernel = plan.kernel
    command.geometry = work.geometry
    prepared.add(command, plan if work.follows else NULL)
    return at


cdef bint runs_on_host(object device, CopyWork work):
    return work.pageable and not (
        device.driver.takes_pageable if work.to.kind & HOST_MEMORY else device.driver.reads_pageable_late)


cdef int add_copy(Prepared prepared, object device, CopyWork work) except -1:
    """Add a copy. The driver accesses pageable memory when the graph runs; if it cannot, the host thread does."""
    cdef Memory memory
    if not runs_on_host(device, work):
        return prepared.add_copy(&work.to, &work.source, work.nbytes)
    staged = host_empty(work.nbytes, np.uint8, device)
    prepared.kept.append(staged)
    memory = host_memory_of(staged)
    if work.to.kind & HOST_MEMORY:
        prepared.add_copy(&memory, &work.source, work.nbytes)
        return prepared.add_host(CopyOnHost(work.host, staged))
    prepared.add_host(CopyOnHost(staged, work.host))
    return prepared.add_copy(&work.to, &memory, work.nbytes)


cdef int add_fill(Prepared prepared, FillWork work) except -1:
    cdef Command command
    command.kind = FILL_COMMAND
    command.to = work.to
    command.nbytes = (<Buffer> work.buffer).nbytes
    command.pattern_size = len(work.pattern)
    command.pattern = work.pattern  # owned by the work
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


cdef bint is_recordable(object device, const Driver* driver, Work work):
    """Return whether a recording can have all commands of the work."""
    if type(work) is ListWork:
        return all([is_recordable(device, driver, each) for each in (<ListWork> work).works])
    if work.kind == "copy":
        return not runs_on_host(device, work)
    return work.kind != "host" and not (work.follows and driver.follow != NULL)


cdef bint is_one_recording(object device, const Driver* driver, tuple works):
    """Return whether one recording does all of it, whatever runs side by side."""
    return driver.recordings_branch and driver.new_recording != NULL and all([
        is_recordable(device, driver, work) for work in works])


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
        if type(works[node]) is KernelWork:
            prepared.plan_of[<size_t> node] = add_kernel(prepared, device, works[node])
            prepared.command_of[<size_t> node] = submission.commands.size() - 1
            prepared.step_of[<size_t> node] = submission.steps.size() - 1
        else:
            add_work(prepared, device, works[node])
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


cdef int join_steps(Prepared prepared) except -1:
    """Make all commands one step, whose commands come after the last of their lane, and of segments that it waits for.
    """
    cdef Submission* submission = prepared.submission
    cdef dict last = {}  # command by lane
    cdef size_t i, at
    cdef Step* step
    cdef Step* other
    prepared.after.resize(submission.commands.size())
    for i in range(submission.steps.size()):
        step = &submission.steps[i]
        for at in range(step.first, step.first + step.count):
            if step.lane in last:
                prepared.after[at].push_back(last[step.lane])
            last[step.lane] = at
        if step.kind == JOIN:
            continue  # whatever comes after a recording comes after all of it
        for at in range(step.first_wait, step.first_wait + step.wait_count):
            other = &submission.steps[submission.waits[at]]
            prepared.after[step.first].push_back(<uint32_t> (other.first + other.count - 1))
    submission.steps.clear()
    submission.waits.clear()
    submission.needs_start = False
    prepared.lane = 0
    if not submission.commands.empty():
        prepared.add_step(COMMANDS, 0, submission.commands.size())
    for i in range(prepared.step_of.size()):
        prepared.step_of[i] = 0
    return 0


cdef Status record_commands(
    Prepared prepared, QueueState* queue, const Command* commands, Step* step, bint changeable
) noexcept nogil:
    cdef Status status = queue.driver.new_recording(queue.handle, changeable, &step.recording)
    cdef uint32_t previous
    cdef size_t i
    if status != 0 or step.recording == NULL:
        return status
    for i in range(step.count):
        previous = <uint32_t> i - 1
        if status == 0 and prepared.after.empty():
            status = queue.driver.add_command(step.recording, &commands[i], &previous, i > 0)
        elif status == 0:
            status = queue.driver.add_command(
                step.recording, &commands[i], prepared.after[i].data(), <uint32_t> prepared.after[i].size())
    if status == 0:
        status = queue.driver.end_recording(step.recording)
    return status


cdef int record_steps(Prepared prepared, object device, QueueState* queue) except -1:
    cdef Submission* submission = prepared.submission
    cdef Status status
    cdef Step* step
    cdef size_t i
    for i in range(submission.steps.size()):
        step = &submission.steps[i]
        # CUDA, whose recordings branch, replays one launch in less time than it launches it.
        if step.kind != COMMANDS or (step.count == 1 and not queue.driver.recordings_branch):
            continue
        with nogil:
            status = record_commands(
                prepared, queue, submission.commands.data() + step.first, step, prepared.changeable)
            if prepared.changeable and status != NOT_NOW and (status != 0 or step.recording == NULL):
                # some kernels can be recorded, but not to be changed
                prepared.changeable = False
                if step.recording != NULL:
                    prepared.driver.release_recording(step.recording)
                    step.recording = NULL
                status = record_commands(prepared, queue, submission.commands.data() + step.first, step, False)
            if status == NOT_NOW:
                prepared.not_now = True
                if step.recording != NULL:
                    prepared.driver.release_recording(step.recording)
                    step.recording = NULL
                status = 0
        if status != 0:
            device._raise(status, "recording a graph")
        if step.recording != NULL:
            step.kind = RECORDED
            step.room = queue.driver.room_of_recorded_copy * copies_in(submission.commands, step)
            submission.room += step.room
    return 0


cdef uint64_t copies_in(const vector[Command]& commands, const Step* step) noexcept nogil:
    cdef uint64_t found = 0
    cdef size_t i
    for i in range(step.first, step.first + step.count):
        found += commands[i].kind == COPY_COMMAND
    return found


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


cdef Replay new_replay(
    object device, QueueState* queue, Sizes sizes, list segments, list lanes, Replay last, bint changeable,
    bint one_by_one
):
    """Make a replay of the works that the sizes are about, cut into these segments, for all queues of the device.

    `queue` is one of the device's queues. `lanes` are Queues that only this replay and earlier replays of the same
    executable use, or None for one recording; `last`, or None, is one of these.
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
    prepared.kept = [*sizes.works, *(lanes or ())]
    prepared.changeable = changeable and not one_by_one and queue.driver.change != NULL
    prepared.command_of.resize(len(sizes.works), NO_LAUNCH)
    prepared.step_of.resize(len(sizes.works), 0)
    prepared.plan_of.resize(len(sizes.works), 0)
    prepared.submission.lanes.push_back(NULL)
    for lane in lanes or ():
        prepared.submission.lanes.push_back((<Queue> lane).state.handle)
    make_scratch(prepared, device, sizes, segments, None if last is None else last.prepared)
    ends = []
    for segment in segments:
        add_segment(prepared, device, sizes.works, segment, ends)
    if lanes is None:
        join_steps(prepared)
    if prepared.driver.new_recording != NULL and not one_by_one:
        record_steps(prepared, device, queue)
    replay.prepared = prepared
    replay.submission = prepared.submission
    replay.one_by_one = one_by_one or prepared.not_now
    replay.alone = (
        prepared.submission.steps.size() == 1 and prepared.submission.steps[0].kind == RECORDED
        and not replay.one_by_one and not prepared.functions and not prepared.guards)
    note_works(replay, sizes)
    return replay


@cython.no_gc_clear
cdef class Replay:
    """What launches submit until something is changed. Keeps its `Prepared` until everything submitted of it is done.
    """

    def __dealloc__(self):
        if self.prepared is not None:
            retire_after(self.prepared.state, self.prepared, self.submission.last_queue, self.submission.last_epoch)
