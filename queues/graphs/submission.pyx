"""Submits graphs.

The first lane is the queue that the graph is launched on. Each other lane is a queue that only this graph uses, and
only while it holds the launch queue's lock. Lanes wait for each other through markers. At the end the first lane waits
for all others, so that everybody else sees the graph as one command.
"""

from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    COPY_COMMAND, FOR_DEVICE, FOR_HOST, LAUNCH_COMMAND, Command, Driver, Status, Waits, no_waits
)
from forebay.core.epochs cimport advance_submitted_by, completed_epoch, release_epochs, retain_epochs, submitted_epoch
from forebay.core.marker cimport Marker, release_marker
from forebay.core.state cimport QueueState, begin_following, end_following, renew_followed
from forebay.core.uses cimport Basis, note_use
from forebay.queues.graphs.sizes cimport is_still
from forebay.queues.host_functions cimport Call, submit_call
from forebay.sync.host_waits cimport wait_on_host
from forebay.sync.ordering cimport (
    Order, abort_command, apply_command, begin_at_once, conclude, count_command, end_order, leave_waits, waits_of
)
from forebay.sync.points cimport note_hold, take_marker
from forebay.sync.room cimport may_stay_full, room_of_host_function


cdef enum:
    MOST_TRIES = 100


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


cdef void count_part(QueueState* queue, Run* run) noexcept nogil:
    """Count a marker or host function that failed on the launch queue, as `end_parted_command` does."""
    if run.began:
        count_command(queue)
    else:
        leave_waits(queue, &run.order)
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
    else:
        count_part(queue, run)
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
            if submission.following[i] != NULL:
                status = renew_followed(queue.device, submission.following[i])
            if status == 0:
                status = submit_one(queue.driver, handle, &submission.commands[i], waits)
            if status != 0:
                return status
            waits.count = 0
            if step.lane == 0:
                count_one(queue, run)
    else:
        if step.kind == RECORDED:
            status = queue.driver.replay(handle, step.recording, waits)
            if status == 0:
                advance_submitted_by(queue.epochs, step.room)
        elif step.kind == JOIN:
            status = queue.driver.barrier(handle, waits)
        else:
            status = submit_call(queue, handle, calls[called[0]], waits)
            called[0] += status == 0
            if status != 0 and step.lane == 0:
                count_part(queue, run)
        if status == 0 and step.lane == 0:
            count_one(queue, run)
    if status == 0 and step.awaited:
        waits.count = 0
        status = add_event(queue, handle, waits, &run.events[at])
    return status


cdef Status join_touched(QueueState* queue, Submission* submission, Run* run) noexcept nogil:
    """After a failure, make the queue wait for what its lanes were given."""
    cdef void* event = NULL
    cdef Status status = 0
    cdef size_t lane
    run.list.clear()
    for lane in range(1, submission.lanes.size()):
        if status == 0 and run.touched >> lane & 1:
            status = add_event(queue, submission.lanes[lane], no_waits(), &event)
            run.events.push_back(event)
            run.list.push_back(event)
    if status == 0:
        status = queue.driver.barrier(queue.handle, listed(run))
    if status == 0:
        count_one(queue, run)
    return status


cdef void finish_touched(QueueState* queue, Submission* submission, Run* run) noexcept nogil:
    """Wait on the host for the lanes, because `join_touched` failed. No lock is held.

    Nobody else knows of what they were given, so a wait that fails is tried again, as long as there is any hope.
    """
    cdef size_t lane
    for lane in range(1, submission.lanes.size()):
        if run.touched >> lane & 1:
            for _ in range(MOST_TRIES):
                if finish_lane(queue, submission.lanes[lane]) == 0:
                    break


cdef Status finish_lane(QueueState* queue, void* handle) noexcept nogil:
    cdef void* event = NULL
    cdef Status status
    status = queue.driver.marker(handle, no_waits(), FOR_HOST, &event)
    if status == 0:
        status = wait_on_host(queue.device, queue.driver, Waits(1, &event), NULL)
        queue.driver.release_event(event)
    return status


cdef void note_launch(QueueState* queue, Submission* submission) noexcept nogil:
    """Note the uses of a launch, of which all or a part was submitted. The queue is locked."""
    cdef uint64_t epoch = submitted_epoch(queue.epochs)
    cdef size_t i
    for i in range(submission.uses.size()):
        note_use(submission.uses[i].uses, queue.epochs, epoch, submission.uses[i].writes)
    if submission.follows:
        end_following(queue, epoch)
    if submission.last_queue != queue.epochs:
        if submission.last_queue != NULL:
            release_epochs(submission.last_queue)
        submission.last_queue = retain_epochs(queue.epochs)
    submission.last_epoch = epoch


cdef uint64_t room_of_launch(const QueueState* queue, const Submission* submission, size_t functions) noexcept nogil:
    return submission.room + functions * (1 + room_of_host_function(queue))


cdef Status replay_one(QueueState* queue, Submission* submission) noexcept nogil:
    """Submit a launch that is one recording and carries no wait. The queue is locked."""
    cdef Status status = queue.driver.replay(queue.handle, submission.steps[0].recording, no_waits())
    if status == 0:
        advance_submitted_by(queue.epochs, submission.room)
        count_command(queue)
        queue.counts.graph_launches += 1
        note_launch(queue, submission)
    return status


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
    cdef Status status = begin_at_once(queue, &run.order)
    called[0] = 0
    began[0] = False
    if status != 0:
        return status
    if (
        not is_still(moment, queue.device) or queue.device.closings.load() != closings
        # the caller makes room again: here it holds the graph's lock
        or may_stay_full(queue, room_of_launch(queue, submission, calls.size()))
    ):
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
    if submission.follows:
        begin_following(queue)
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
    if submission.follows and not run.began:
        end_following(queue, 0)
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
