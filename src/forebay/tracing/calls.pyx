"""Notes what queues are given: every call of a driver's table of operations, with its times.

While nobody watches, the table has the driver's own functions, so that watching costs nothing then.
"""

import time
from typing import TYPE_CHECKING

import numpy as np
from libc.stdint cimport uint16_t, uint32_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.atomic cimport atomic, memory_order_acquire

from libcpp.vector cimport vector

from forebay.core.driver cimport Driver
from forebay.core.state cimport QueueState, registered_queues, release_queue_state
from forebay.queues.context cimport Context
from forebay.queues.queue cimport Queue

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
        FINISH
        WAIT_EVENTS
        SEEN_DONE

    cppclass Entry:
        atomic[uint64_t] number
        uint64_t begin
        uint64_t end
        uint64_t object
        uint64_t detail
        uint64_t event
        uint32_t thread
        uint16_t kind
        uint16_t failed
        uint32_t waits
        uint32_t extra

    const uint64_t CAPACITY
    atomic[uint64_t] next_number
    Entry& entry_at(uint64_t number)
    uint64_t read_ticks "forebay_tracing::ticks"()
    void set_watched(Driver* table, int slot, cbool watched)
    cbool make_room()

_FIELDS = np.dtype([
    ("kind", "u2"), ("failed", "u2"), ("thread", "u4"), ("number", "u8"), ("begin", "u8"), ("end", "u8"),
    ("object", "u8"), ("detail", "u8"), ("event", "u8"), ("waits", "u4"), ("extra", "u4"),
])

cdef struct Row:
    uint16_t kind
    uint16_t failed
    uint32_t thread
    uint64_t number
    uint64_t begin
    uint64_t end
    uint64_t object
    uint64_t detail
    uint64_t event
    uint32_t waits
    uint32_t extra

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


def begin() -> int:
    """Get ready to note calls. Returns the number that the next entry will have.

    Raises
    ------
    MemoryError
    """
    if not make_room():
        raise MemoryError("no memory to note calls in")
    return next_number.load()


def watch(table: int) -> None:
    """Note the calls of a driver's table from now on. Does nothing if they are noted already.

    Parameters
    ----------
    table : int
        Its address, `DriverDevice.table`.
    """
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
    """Return what was noted, and how many older entries were lost because there was no room for more.

    Parameters
    ----------
    first : int
        What `begin` returned.

    Returns
    -------
    entries : numpy.ndarray
        Structured, in the order in which the calls began on their queue. Calls that are under way are left out.
    lost : int
    """
    cdef uint64_t end = next_number.load()
    cdef uint64_t start = max(<uint64_t> first, end - CAPACITY if end > CAPACITY else 0)
    cdef uint64_t number
    cdef Py_ssize_t count = 0
    cdef Entry* entry
    cdef Row* row
    rows = np.empty(end - start, _FIELDS)
    cdef Row[::1] view = rows
    for number in range(start, end):
        entry = &entry_at(number)
        if entry.number.load(memory_order_acquire) != number + 1:
            continue
        row = &view[count]
        row.kind, row.failed, row.thread, row.number = entry.kind, entry.failed, entry.thread, number
        row.begin, row.end, row.object, row.detail = entry.begin, entry.end, entry.object, entry.detail
        row.event, row.waits, row.extra = entry.event, entry.waits, entry.extra
        if entry.number.load(memory_order_acquire) == number + 1:
            count += 1
    return rows[:count], start - first


cdef tuple described(QueueState* state):
    kind = "null queue" if state.is_null else "queue" if state.blocking else "non-blocking queue"
    return <uintptr_t> state.handle, f"{kind} {state.epochs.queue_id}", state.epochs.queue_id


def queue_of(Queue queue) -> tuple[int, str, int]:
    """The driver's handle, a name and the id of a queue."""
    return described(queue.state)


def queues_of(device: Device) -> list[tuple[int, str, int]]:
    """The same of all queues of a device that may have work outstanding, closed ones included."""
    cdef Context context = device._context
    cdef vector[QueueState*] states
    cdef size_t i
    registered_queues(context.state, states)
    found = [described(states[i]) for i in range(states.size())]
    for i in range(states.size()):
        release_queue_state(states[i])
    return found
