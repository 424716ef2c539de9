"""Notes what queues are given: every call of a driver's table of operations, with its times.

Without a watcher the table has the driver's own functions, so that watching costs nothing then.
"""

import time
from typing import TYPE_CHECKING

import numpy as np
from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.atomic cimport atomic, memory_order_acquire

from libcpp.deque cimport deque
from libcpp.mutex cimport mutex
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.driver cimport DONE, NOT_YET, TIMED, Answer, Driver, Status, no_waits
from forebay.core.ownership cimport Refs
from forebay.core.state cimport QueueState, registered_queues
from forebay.queues.device cimport Context
from forebay.queues.queue cimport Queue
from forebay.sync.ordering cimport count_calls

from forebay.core.errors import Error

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from forebay.queues.device import Device

cdef extern from "src/forebay/tracing/calls.hpp" namespace "forebay_tracing" nogil:
    cpdef enum Kind:
        WAITED
        LAUNCH
        COPY
        FILL
        MARKER
        BARRIER
        HOLD
        OPEN_GATE
        BRIDGE
        NEW_RECORDING
        ADD_COMMAND
        REPLAY
        POLL
        WAIT_EVENTS
        SEEN_DONE

    cppclass Entry:
        atomic[uint64_t] number

    const uint64_t CAPACITY
    atomic[uint64_t] next_number
    Entry& entry_at(uint64_t number)
    uint64_t read_ticks "forebay_tracing::ticks"()
    void set_watched(Driver* table, int slot, cbool watched)
    cbool make_room()
    const Driver* originals[Driver](int slot)

    cppclass Ran:
        uint64_t number
        uint64_t reference
        double begin
        double end

    cppclass InFlight:
        pass

    cppclass Reference:
        void* event
        uint64_t number

    cppclass TimedQueue:
        uint64_t context
        int slot
        deque[InFlight] commands

    cppclass DeviceTimes:
        mutex lock
        unordered_map[uint64_t, TimedQueue] queues
        unordered_map[uint64_t, Reference] references
        deque[Ran] ran
        size_t in_flight

    atomic[cbool] times_wanted
    DeviceTimes& device_times()
    void read_times(const Driver& driver, uint64_t queue, int most, cbool all)

# Those of Entry
_FIELDS = np.dtype([
    ("number", "u8"), ("begin", "u8"), ("end", "u8"), ("object", "u8"), ("detail", "u8"), ("event", "u8"),
    ("thread", "u4"), ("kind", "u2"), ("failed", "u2"), ("waits", "u4"), ("extra", "u4"),
])

cdef list _tables = []  # addresses, by slot; their drivers stay loaded
cdef set _watched = set()


def ticks() -> int:
    """The time now, in a unit that `now` relates to nanoseconds."""
    return read_ticks()


def now() -> tuple[int, int]:
    """The time in ticks, and in nanoseconds of `time.monotonic_ns`."""
    cdef uint64_t before = read_ticks()
    nanoseconds = time.monotonic_ns()
    return before + (read_ticks() - before) // 2, nanoseconds


def nanoseconds_a_tick(begin: tuple[int, int], end: tuple[int, int]) -> float:
    """How long a tick is, from two values of `now`."""
    return max(end[1] - begin[1], 1) / max(end[0] - begin[0], 1)


def begin() -> int:
    """Get ready to note calls. Returns the number that the next entry will have."""
    if not make_room():
        raise MemoryError("no memory to note calls in")
    return next_number.load()


def watch(table: int) -> None:
    """Note the calls of a driver's table, `DriverDevice.table`, from now on, if they are not noted already."""
    if table in _watched:
        return
    if table not in _tables:
        if len(_tables) == 4:
            raise Error("a trace watches four drivers at most")
        _tables.append(table)
    _watched.add(table)
    set_watched(<Driver*> <uintptr_t> table, _tables.index(table), True)


def unwatch() -> None:
    """Note no more calls. One that is under way may be noted yet."""
    for table in _watched:
        set_watched(<Driver*> <uintptr_t> table, _tables.index(table), False)
    _watched.clear()


def entries(first: int) -> tuple[NDArray[Any], int]:
    """Return what was noted since `begin` returned a number, and how many older entries were lost for want of room.

    The entries are structured, in the order in which the calls began on their queue. Calls under way are left out.
    """
    cdef uint64_t end = next_number.load()
    cdef uint64_t start = max(<uint64_t> first, end - CAPACITY if end > CAPACITY else 0)
    cdef uint64_t number
    cdef Py_ssize_t count = 0
    cdef Entry* entry
    rows = np.empty(end - start, _FIELDS)
    cdef Entry* to = <Entry*> <uintptr_t> rows.ctypes.data  # a typed memoryview is 15,000 lines for the compiler
    for number in range(start, end):
        entry = &entry_at(number)
        if entry.number.load(memory_order_acquire) == number + 1:
            memcpy(<void*> &to[count], <const void*> entry, sizeof(Entry))
            if entry.number.load(memory_order_acquire) == number + 1:
                count += 1
    rows["number"] -= 1
    rows["end"] = np.maximum(rows["begin"], rows["end"])  # clocks of two processors differ
    return rows[:count], start - first


cdef tuple described(QueueState* state):
    kind = "null queue" if state.is_null else "queue" if state.blocking else "non-blocking queue"
    return <uintptr_t> state.handle, f"{kind} {state.epochs.queue_id}", state.epochs.queue_id


def queue_of(Queue queue) -> tuple[int, str, int]:
    """The driver's handle, a name and the id of a queue."""
    return described(queue.state)


def queues_of(device: Device, take_times: bool = False) -> list[tuple[int, str, int]]:
    """The same of all queues of a device that may have work outstanding, closed ones included.

    May have the times of commands taken, too, of those that time events.
    """
    cdef Context context = device._context
    cdef Refs[QueueState] states
    cdef size_t i
    registered_queues(context.state, states)
    found = [described(states[i]) for i in range(states.size())]
    for i in range(states.size() if take_times else 0):
        note_timed(states[i], device)
    return found


# -- when commands ran: see calls.hpp, and device_times.py, which makes the references


cdef const Driver* driver_of(object table) except NULL:
    return originals[Driver](_tables.index(table))


def want_times(wanted: bool) -> None:
    """Take the times of commands from now on, or not any more."""
    times_wanted.store(wanted)


def time_queue(Queue queue) -> None:
    """Take the times of this queue, if it times events."""
    note_timed(queue.state, queue.device)


cdef int note_timed(QueueState* state, object device) except -1:
    cdef DeviceTimes* known = &device_times()
    cdef uint64_t handle = <uintptr_t> state.handle
    cdef uint64_t context = <uintptr_t> state.device.context
    cdef int slot = _tables.index(device.driver.table)
    cdef TimedQueue* entry
    count_calls(state.device, 4)
    if state.made.timing:
        with nogil:
            known.lock.lock()
            entry = &known.queues[handle]
            entry.context = context
            entry.slot = slot
            known.lock.unlock()
    return 0


def keep_gil_as_before(device: Device) -> None:
    """End what `time_queue` has changed of the device."""
    cdef Context context = device._context
    count_calls(context.state, 1)


def mark_time(table: int, queue: int, tries: int) -> tuple[int, int, int] | None:
    """Have a timed event signalled on an idle queue of the trace's own.

    Returns the driver's handle, and the ticks between which it was signalled; None if the driver refuses, or has not
    signalled it after that number of `tries`.
    """
    cdef const Driver* driver = driver_of(table)
    cdef void* handle = <void*> <uintptr_t> queue
    cdef void* event = NULL
    cdef uint64_t before, after = 0
    cdef Answer answer = NOT_YET
    cdef bint done = False
    cdef Py_ssize_t left = tries
    with nogil:
        before = read_ticks()
        if driver.marker(handle, no_waits(), TIMED, &event) != 0:
            event = NULL
        while event != NULL and answer == NOT_YET and left > 0:
            left -= 1
            answer = driver.event_status(event)
            after = read_ticks()
            if answer == NOT_YET and driver.poll != NULL and driver.poll(handle, &done) == 0 and done:
                answer = DONE
        if event != NULL and answer != DONE:
            driver.destroy_event(event)
            event = NULL
    return None if event == NULL else (<uintptr_t> event, before, after)


def elapsed(table: int, first: int, second: int) -> float | None:
    """Nanoseconds of the device between two events of `mark_time`; None if the driver does not say."""
    cdef const Driver* driver = driver_of(table)
    cdef double nanoseconds = 0
    cdef Status status = driver.elapsed(<void*> <uintptr_t> first, <void*> <uintptr_t> second, &nanoseconds)
    return None if status != 0 else nanoseconds


def release(table: int, event: int) -> None:
    """Give an event of `mark_time` back."""
    driver_of(table).destroy_event(<void*> <uintptr_t> event)


def destroy_queue(table: int, queue: int) -> None:
    """Give the driver's queue back, on which nothing is outstanding."""
    driver_of(table).destroy_queue(<void*> <uintptr_t> queue)


def set_reference(context: int, event: int, number: int) -> None:
    """Read the times of this context's commands against this event from now on."""
    cdef DeviceTimes* known = &device_times()
    cdef Reference reference
    reference.event = <void*> <uintptr_t> event
    reference.number = number
    cdef uint64_t key = context
    with nogil:
        known.lock.lock()
        known.references[key] = reference
        known.lock.unlock()


def read_all_times() -> list[tuple[int, int, float, float]]:
    """Read the times of what is done, and forget the rest, the queues and the references.

    Returns the number of each call, the number of a reference, and nanoseconds since that: begin and end.
    """
    cdef DeviceTimes* known = &device_times()
    cdef vector[uint64_t] handles
    cdef vector[int] slots
    cdef size_t i
    cdef deque[Ran] ran
    known.lock.lock()
    for entry in known.queues:
        handles.push_back(entry.first)
        slots.push_back(entry.second.slot)
    known.lock.unlock()
    for i in range(handles.size()):
        with nogil:
            read_times(originals[Driver](slots[i])[0], handles[i], 0, True)
    known.lock.lock()
    known.queues.clear()
    known.references.clear()
    ran.swap(known.ran)
    known.in_flight = 0
    known.lock.unlock()
    return [(ran[i].number, ran[i].reference, ran[i].begin, ran[i].end) for i in range(ran.size())]
