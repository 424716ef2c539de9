"""This module alone decides which queue waits for which, and submits every command.

A kind of command derives from `Command`: its driver call, the memory that it reads and writes. `submit` gathers its
waits, calls the driver, and counts the command. If the driver refuses all of it, no epoch has advanced, no clock has
joined, and the null queue's list has its queues back. Where there is nothing to gather, `submit_keeping_gil` is enough.
The common launch is inlined in queues/launch instead, and calls `is_ready_to_launch` and `count_launch`.
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
# `more`: how much room is taken with the next command, before anybody asks again
cdef bint may_stay_full(QueueState* queue, uint64_t more) noexcept nogil  # the queue is locked
cdef Status await_capacity(QueueState* queue, uint64_t more) noexcept nogil  # blocks; no lock is held
cdef uint64_t room_of_host_function(const QueueState* queue) noexcept nogil  # beside its command
cdef Status await_event(DeviceState* device, Marker* marker) noexcept nogil  # blocks; no lock is held
# These block until all events are over, and no lock is held
cdef Status wait_on_host(DeviceState* device, Waits events, Interrupted ask) noexcept nogil
cdef Status wait_watched(const Driver* driver, void* context, Waits events, Interrupted ask) noexcept nogil

cdef cppclass Order:
    """The waits that the next command of a queue carries, and the changes that its success will make. It has the lock
    of the queue from `gather` on, and ends by giving it back before anything else.
    """
    Refs[Marker] markers  # gathered for this command
    vector[void*] events  # what `waits_of` has listed
    ClockRef clock  # what the queue is ordered after once the command is submitted
    const Clock* covered  # a marker's clock that `clock` already covers: markers gathered by the null queue share it
    Refs[QueueState] taken  # queues taken off the null queue's list, with the list's references
    uint64_t null_epoch
    uint64_t elided_completed
    uint64_t elided_ordered
    Guard locked  # the last field: it goes first


cdef inline bint owes_null_wait(QueueState* queue) noexcept nogil:  # the queue is locked
    """Compare two integers. May say yes without need, but never no by mistake: gathering drops needless waits."""
    if queue.is_null:
        return queue.device.null_order.pending.load(memory_order_acquire) != NULL
    if not queue.blocking:
        return False
    if not queue.order.null_ordered:
        return True
    if queue.order.null_seen.load(memory_order_relaxed) == submitted_epoch(queue.device.null_queue.epochs):
        return False
    return True


cdef inline bint gathers_nothing(QueueState* queue) noexcept nogil:
    """Return whether nothing must be gathered and too few commands are in flight for the driver to block, so that the
    GIL may be kept. The queue is locked. It may have pending waits, which its next command carries.
    """
    return (
        queue.slow_path == 0
        and not owes_null_wait(queue)
        and submitted_epoch(queue.epochs) - completed_epoch(queue.epochs) < queue.in_flight.room
    )


cdef Status wait_for_creator(QueueState* queue, const ClockEntry& creation) noexcept nogil


cdef inline Moment moment_of(const QueueState* queue, const Clock* clock) noexcept nogil:
    """Return what a command of the queue comes after, which is ordered after `clock`."""
    cdef const Epochs* null_queue = NULL
    if queue.blocking:
        null_queue = <const Epochs*> queue.device.null_queue.epochs
    return Moment(<const Epochs*> queue.epochs, null_queue, clock)


cdef inline Status wait_for_creation(QueueState* queue, const Usage* usage) noexcept nogil:
    """Order the queue's next command after the creation of memory that it uses. The queue is not locked."""
    cdef Moment moment
    if usage.creation.queue == NULL:
        return 0
    moment = moment_of(queue, NULL)
    return 0 if is_created(usage, &moment) else wait_for_creator(queue, usage.creation)


cdef inline void push_on_list(QueueState* queue) noexcept nogil:
    """Push the queue on the list, which takes over a reference to it. The queue is locked."""
    cdef QueueState* head = queue.device.null_order.pending.load(memory_order_relaxed)
    queue.order.null_pending = True
    queue.order.next_listed = head
    while not queue.device.null_order.pending.compare_exchange_weak(head, queue, memory_order_acq_rel):
        queue.order.next_listed = head


cdef inline void enter_list(QueueState* queue) noexcept nogil:  # the queue is locked
    """Enter a blocking queue that has new work in its device's list. The list holds a reference to it."""
    if not queue.order.null_pending and queue.blocking and not queue.is_null:
        push_on_list(retain(queue))


cdef inline void count_command(QueueState* queue) noexcept nogil:
    """Count a command that the driver took. The queue is locked."""
    advance_submitted(queue.epochs)


cdef cppclass Command:
    """A command of a queue, or several with no other between. Derive from it; `init_command` sets all of these."""
    # Calls the driver, and `commit` when the driver has taken something. The queue is locked.
    Status (*call)(QueueState* queue, Command* command, Waits waits) noexcept nogil
    Usage* writes  # memory whose use is noted; the caller keeps it. NULL for none
    Usage* reads
    bint holds  # the queue stands still at it until the host or another process does something
    bint parted  # several commands to the driver: when it fails, some of them may be work of the queue
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
# Count a part that failed although the driver may have it. The queue's next command carries the waits
cdef void count_failed(QueueState* queue, Command* command) noexcept nogil


cdef inline void commit(QueueState* queue, Command* command) noexcept nogil:
    """Count what the driver took, and the waits that it carried, and note its uses of memory. The queue is locked."""
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
# Submit a command with the waits that it owes. It may block in the driver or on a lock: never call it with the GIL held
cdef Status submit(QueueState* queue, Command* command) noexcept nogil


cdef inline Status submit_ready(QueueState* queue, Command* command) noexcept nogil:
    """Submit a command that has no wait to gather, when the driver cannot block; NOT_NOW, and nothing was done, in any
    other case. The queue is locked.
    """
    if not gathers_nothing(queue):
        return NOT_NOW
    if (command.writes != NULL and command.writes.creation.queue != NULL) or (
        command.reads != NULL and command.reads.creation.queue != NULL
    ):
        if not comes_after_creations(queue, command):
            return NOT_NOW
    if not queue.order.pending.empty():
        return submit_after_pending(queue, command)
    return command.call(queue, command, no_waits())


cdef inline Status submit_keeping_gil(QueueState* queue, Command* command) noexcept:
    """`submit`, which keeps the GIL unless it may have to wait."""
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
# Keeps the GIL, unless it may have to wait
cdef Status wait_keeping_gil(QueueState* queue, Marker* marker) noexcept
cdef Status wait_for_point(QueueState* queue, uint64_t producer, uint64_t epoch) noexcept nogil
# Keeps the GIL, unless it may have to wait
cdef Status record_keeping_gil(QueueState* queue, int use, Ref[Marker]& marker) noexcept
cdef void unlist_idle(DeviceState* device) noexcept nogil
cdef bint note_listed_end(DeviceState* device) noexcept nogil
cdef void take_markers(QueueState* queue, Refs[Marker]& markers) noexcept nogil
cdef void take_done_checkpoints(QueueState* queue, Refs[Marker]& markers) noexcept nogil
