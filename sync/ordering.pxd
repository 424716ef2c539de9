"""Decides which queue waits for which, and submits commands.

A kind of command derives from `Command` and names its driver call and the memory that it reads and writes. `submit`
gathers its waits, calls the driver, and counts the command. If the driver refuses all of it, no epoch advances, no
clock joins, and the null queue's list gets its queues back. `submit_keeping_gil` keeps the GIL where it can.
The common launch is inlined in queues/launch, and calls `is_ready_to_launch` and `count_launch`. Bound launches, steps
and graphs call the driver for parts of a command; tools/checks/commands.py lists all that do.
"""

from libc.stdint cimport uint32_t, uint64_t
from libcpp.atomic cimport memory_order_acq_rel, memory_order_acquire, memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport NOT_NOW, Driver, Interrupted, Status, Waits, no_waits
from forebay.core.ownership cimport Guard, Ref, Refs, retain
from forebay.core.process cimport is_memory_short
from forebay.core.state cimport UNLIMITED, DeviceState, Marker, QueueState
from forebay.core.usage cimport Moment, Usage, is_created, note_use
from forebay.core.vector_clock cimport (
    Clock, ClockEntry, ClockRef, Epochs, advance_submitted, completed_epoch, submitted_epoch
)


cdef int raise_status(object owner, Status status, str what) except -1  # the error of a Queue or Device


cdef inline int check_status(object owner, Status status, str what) except -1:
    return 0 if status == 0 else raise_status(owner, status, what)


cdef Status take_marker(QueueState* queue, int use, Ref[Marker]& marker) noexcept nogil
cdef void keep_copied(QueueState* queue, void* event) noexcept nogil
cdef Status take_point(QueueState* queue, uint64_t epoch, int use, Ref[Marker]& marker) noexcept nogil
cdef Status mark_before(QueueState* queue, uint64_t epoch, Clock* clock, Ref[Marker]& marker) noexcept nogil
cdef Status mark_alone(QueueState* queue, Ref[Marker]& marker) noexcept nogil
cdef Status ask_queue(QueueState* queue, bint* done) noexcept nogil
cdef Status note_gate_epoch(QueueState* queue) noexcept nogil  # of a command that holds the queue
cdef uint64_t first_gate_epoch(QueueState* queue) noexcept nogil
cdef Waits waits_of_pending(QueueState* queue, vector[void*]& events) noexcept nogil
cdef void drop_pending(QueueState* queue) noexcept nogil
cdef Status carry_pending(QueueState* queue) noexcept nogil


cdef void begin_hold(DeviceState* device, bint calls) noexcept nogil  # by a gate, or a host function that it calls
cdef void end_hold(DeviceState* device, bint called) noexcept nogil
cdef void count_calls(DeviceState* device, uint32_t calls) noexcept nogil
cdef void divide_capacity(DeviceState* device, uint64_t most) noexcept nogil
cdef void join_quota(DeviceState* device, uint64_t shared) noexcept nogil
cdef void return_quota(QueueState* queue, uint64_t in_flight) noexcept nogil  # the queue is locked
# `more`: room that is taken with the next command, without another check
cdef bint may_stay_full(QueueState* queue, uint64_t more) noexcept nogil  # the queue is locked
cdef Status await_capacity(QueueState* queue, uint64_t more) noexcept nogil  # blocks; no lock is held
cdef uint64_t room_of_host_function(const QueueState* queue) noexcept nogil  # beside its command
cdef Status await_event(DeviceState* device, Marker* marker) noexcept nogil  # blocks; no lock is held
# These block until all events are over; no lock is held
cdef Status wait_on_host(DeviceState* device, Waits events, Interrupted ask) noexcept nogil
cdef Status wait_watched(const Driver* driver, void* context, Waits events, Interrupted ask) noexcept nogil

cdef cppclass Order:
    """The waits of a queue's next command, and the changes that its success makes. `gather` takes the queue's lock; the
    destructor releases it before anything else.
    """
    Refs[Marker] markers  # gathered for this command
    vector[void*] events  # what `waits_of` has listed
    ClockRef clock  # what the queue is ordered after once the command is submitted
    const Clock* covered  # a marker's clock that `clock` covers: markers that the null queue gathers share it
    Refs[QueueState] taken  # queues taken off the null queue's list, with the list's references
    uint64_t null_epoch
    uint64_t elided_completed
    uint64_t elided_ordered
    Guard locked  # the last field, destroyed first


cdef inline bint owes_null_wait(QueueState* queue) noexcept nogil:  # the queue is locked
    """Compare two integers. May return true without need, never false by mistake: gathering drops needless waits."""
    if queue.is_null:
        return queue.device.null_order.pending.load(memory_order_acquire) != NULL
    if not queue.blocking:
        return False
    if not queue.order.null_ordered:
        return True
    if queue.order.null_seen.load(memory_order_relaxed) == submitted_epoch(queue.device.null_queue.epochs):
        return False
    return True


cdef inline bint gathers_nothing(QueueState* queue) noexcept nogil:  # the queue is locked
    """Return whether the GIL may be kept: no wait to gather, and no full queue. Pending waits are allowed."""
    return (
        queue.slow_path == 0
        and not owes_null_wait(queue)
        and submitted_epoch(queue.epochs) - completed_epoch(queue.epochs) < queue.in_flight.room
    )


cdef Status wait_for_creator(QueueState* queue, const ClockEntry& creation) noexcept nogil


cdef inline Moment moment_of(const QueueState* queue, const Clock* clock) noexcept nogil:
    """Return what a command of the queue comes after, if the queue is ordered after `clock`."""
    cdef const Epochs* null_queue = NULL
    if queue.blocking:
        null_queue = <const Epochs*> queue.device.null_queue.epochs
    return Moment(<const Epochs*> queue.epochs, null_queue, clock)


cdef inline Status wait_for_creation(QueueState* queue, const Usage* usage) noexcept nogil:
    """Order the queue's next command after the creation of memory. The queue is not locked."""
    cdef Moment moment
    if usage.creation.queue == NULL:
        return 0
    moment = moment_of(queue, NULL)
    return 0 if is_created(usage, &moment) else wait_for_creator(queue, usage.creation)


cdef inline void push_on_list(QueueState* queue) noexcept nogil:
    """Push the queue, whose `null_pending` is true, with the caller's reference; no other thread has it in a list."""
    cdef QueueState* head = queue.device.null_order.pending.load(memory_order_relaxed)
    queue.order.next_listed = head
    while not queue.device.null_order.pending.compare_exchange_weak(head, queue, memory_order_acq_rel):
        queue.order.next_listed = head


cdef inline void enter_list(QueueState* queue) noexcept nogil:  # the queue is locked
    """Enter a blocking queue with new work in its device's list, which holds a reference to it."""
    if not queue.order.null_pending and queue.blocking and not queue.is_null:
        queue.order.null_pending = True
        push_on_list(retain(queue))


cdef inline void count_command(QueueState* queue) noexcept nogil:  # the queue is locked
    advance_submitted(queue.epochs)


cdef cppclass Command:
    """A command of a queue, or several with no other in between. `init_command` sets all members."""
    # Calls the driver, and `commit` for what the driver has taken. The queue is locked.
    Status (*call)(QueueState* queue, Command* command, Waits waits) noexcept nogil
    Usage* writes  # memory whose use is noted; kept by the caller. NULL for none
    Usage* reads
    bint holds  # it holds the queue until the host or another process acts
    bint parted  # multi-call command: after a failure some of its driver calls may be work of the queue
    bint at_once  # the caller holds another lock, so `submit` does not wait for room in the queue
    bint began  # something was committed
    Order* order  # of the waits that the first part carries; NULL where none was gathered


cdef inline void init_command(
    Command* command, Status (*call)(QueueState* queue, Command* command, Waits waits) noexcept nogil
) noexcept nogil:
    command.call = call
    command.writes = command.reads = NULL
    command.holds = command.parted = command.at_once = command.began = False
    command.order = NULL


cdef void commit_order(QueueState* queue, Command* command) noexcept nogil
# Count a part that failed although the driver may have it. Its waits are left to the queue's next command
cdef void count_failed(QueueState* queue, Command* command) noexcept nogil


cdef inline void commit(QueueState* queue, Command* command) noexcept nogil:  # the queue is locked
    """Count what the driver took and the waits that it carried, and note its uses of memory."""
    if command.order != NULL and not command.began:
        commit_order(queue, command)
    else:
        count_command(queue)
    command.began = True
    if command.writes != NULL:
        note_use(command.writes, queue.epochs, submitted_epoch(queue.epochs), True)
    if command.reads != NULL:
        note_use(command.reads, queue.epochs, submitted_epoch(queue.epochs), False)


cdef bint comes_after_creations(QueueState* queue, const Command* command) noexcept nogil
cdef Status submit_after_pending(QueueState* queue, Command* command) noexcept nogil
# Submit a command with the waits that it owes. Blocks in the driver or on a lock: never call it with the GIL held
cdef Status submit(QueueState* queue, Command* command) noexcept nogil


cdef inline Status submit_ready(QueueState* queue, Command* command) noexcept nogil:  # the queue is locked
    """Submit a command if it gathers no wait and the driver cannot block; else do nothing and return NOT_NOW."""
    if not gathers_nothing(queue):
        return NOT_NOW
    if (
        command.writes != NULL and command.writes.creation.queue != NULL
        or command.reads != NULL and command.reads.creation.queue != NULL
    ) and not comes_after_creations(queue, command):
        return NOT_NOW
    if not queue.order.pending.empty():
        return submit_after_pending(queue, command)
    return command.call(queue, command, no_waits())


cdef inline Status submit_keeping_gil(QueueState* queue, Command* command) noexcept:
    """`submit`, but keep the GIL unless it may have to wait."""
    cdef Status status = NOT_NOW
    cdef Guard guard
    if not is_memory_short() and guard.try_take(queue.lock):
        status = submit_ready(queue, command)
        guard.leave()
    if status == NOT_NOW:
        with nogil:
            status = submit(queue, command)
    return status


# Submit the waits that the next command would owe, if any, as a command of their own
cdef Status submit_waits(QueueState* queue) noexcept nogil
cdef Status wait_for_marker(QueueState* queue, Marker* marker) noexcept nogil
# Keeps the GIL, unless it may have to wait; `record_keeping_gil` likewise
cdef Status wait_keeping_gil(QueueState* queue, Marker* marker) noexcept
cdef Status wait_for_point(QueueState* queue, uint64_t producer, uint64_t epoch) noexcept nogil
cdef Status record_keeping_gil(QueueState* queue, int use, Ref[Marker]& marker) noexcept
cdef void unlist_idle(DeviceState* device) noexcept nogil
cdef bint note_listed_end(DeviceState* device) noexcept nogil
cdef void take_markers(QueueState* queue, Refs[Marker]& markers) noexcept nogil
cdef void take_done_checkpoints(QueueState* queue, Refs[Marker]* markers) noexcept nogil
