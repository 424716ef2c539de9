"""Events recorded on streams, waits for them, questions and waits of the host for both, copies and memsets.

Also which ordinary call belongs to which function.

A copy or a memset is of memory that is known by its addresses, on an open stream of its device.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libcpp.atomic cimport memory_order_relaxed

from forebay.core.state cimport captures_under_way, open_step_count
from forebay.events.event cimport Event, record, wait_for_event
from forebay.hip.compiled.calls cimport Address, Ordinary, answer, front, pointer_class, queue_of, succeed
from forebay.hip.compiled.known cimport Known, free_front, known_with, malloc_front
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.memory.transfers cimport fill_bytes
from forebay.queues.queue cimport Queue, capture_of, is_captured

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

cdef extern from "Python.h":
    bint PyLong_CheckExact(object)
    bint PyLong_Check(object)
    long long PyLong_AsLongLongAndOverflow(object, int* overflow)  # never raises for an int
    unsigned long PyLong_AsUnsignedLongMask(object)

cdef dict watched = None  # what `connect` has set


cdef class EventHandle:
    """The base of events: None in place of the event once it is destroyed, and in what is only a number."""

    cdef public uint64_t address
    cdef public Event event
    cdef public uint32_t flags
    cdef public int device
    cdef object __weakref__

    event: Event | None
    flags: int
    device: int


def connect(asserting: dict[Any, Any]) -> None:
    """Set what synchronizing functions look at besides, unless it is empty: `forebay.hip.streams`."""
    global watched
    watched = asserting


cdef inline Event event_of(PyObject* word):
    """Return the event that a handle stands for; None when the definition has to look for it."""
    return (<EventHandle> word).event if isinstance(<object> word, EventHandle) else None


cdef object record_front(PyObject* const* words):
    cdef Event event = event_of(words[0])
    cdef Queue queue = queue_of(<object> words[1])
    if event is None or queue is None or event.state != queue.state.device:
        return None
    record(queue, queue.state, queue.device, capture_of(queue), event, False)
    return succeed()


cdef object wait_front(PyObject* const* words):
    cdef Queue queue = queue_of(<object> words[0])
    cdef Event event = event_of(words[1])
    if event is None or queue is None or <object> words[2] is not 0:
        return None
    if open_step_count.load(memory_order_relaxed):
        return None
    wait_for_event(queue, queue.state, capture_of(queue), event)
    return succeed()


cdef object synchronize_front(PyObject* const* words):
    cdef Queue queue = queue_of(<object> words[0])
    if queue is None:
        return None
    queue.finish()
    return None if watched else succeed()  # another thread may have loaded a module with assertions meanwhile


cdef object synchronize_event_front(PyObject* const* words):
    cdef Event event = event_of(words[0])
    if event is None:
        return None
    event.wait()
    return None if watched else succeed()


cdef object query_front(PyObject* const* words):
    cdef Queue queue = queue_of(<object> words[0])
    return answer(queue.query()) if queue is not None else None


cdef object query_event_front(PyObject* const* words):
    cdef Event event = event_of(words[0])
    return answer(event.query()) if event is not None else None


# -- copies and memsets

cdef enum:
    TO_DEVICE = 1  # the bits of hipMemcpyKind
    FROM_DEVICE = 2
    DEFAULT = 4


# Each of these returns what stands for "the definition has to look at it".

cdef inline long long size_in(PyObject* word):
    cdef int overflow = 0
    cdef long long size = 0
    if PyLong_CheckExact(<object> word):
        size = PyLong_AsLongLongAndOverflow(<object> word, &overflow)
    return 0 if overflow or size < 0 else size


cdef int kind_in(PyObject* word):
    cdef int overflow = 0
    cdef long long kind = -1
    if PyLong_Check(<object> word):
        kind = PyLong_AsLongLongAndOverflow(<object> word, &overflow)
    return -1 if overflow or not 0 <= kind <= DEFAULT else <int> kind


cdef object part_at(PyObject* word, size_t nbytes, Queue queue):
    """Return the bytes from a pointer on: in a Buffer of the queue's device, or in an array for copies only."""
    cdef Known known
    cdef uint64_t offset
    if type(<object> word) is not pointer_class and not isinstance(<object> word, Address):
        return None
    known = known_with((<Address> <object> word).address)
    if known is None:
        return None
    offset = (<Address> <object> word).address - known.base
    if offset + nbytes > known.nbytes:
        return None
    part = known.part_of(offset, nbytes)
    if type(part) is Buffer and (<Buffer> part).allocation.state != queue.state.device:
        return None
    return part


cdef bint in_host_memory(object part) except -1:
    return type(part) is not Buffer or (<Buffer> part).usm_type != "device"


cdef inline Queue open_queue(PyObject* stream):
    cdef Queue queue = queue_of(<object> stream)
    return None if queue is None or is_captured(queue) else queue


cdef object copy_on(PyObject* const* words, PyObject* stream, bint blocks):
    cdef Queue queue = open_queue(stream)
    cdef long long nbytes = size_in(words[2])
    cdef int kind = kind_in(words[3])
    if queue is None or nbytes == 0 or kind < 0 or blocks and captures_under_way():
        return None
    to, source = part_at(words[0], nbytes, queue), part_at(words[1], nbytes, queue)
    if (
        to is None or source is None
        or type(to) is not Buffer and (type(source) is not Buffer or kind & TO_DEVICE or not to.flags.writeable)
        or type(source) is not Buffer and kind & FROM_DEVICE
    ):
        return None
    waits = blocks and (in_host_memory(to) or in_host_memory(source))
    queue.copy(to, source)  # the method, which a trace sees
    if waits:
        queue.finish()
    return succeed()


cdef object copy_front(PyObject* const* words):
    return copy_on(words, <PyObject*> None, True)


cdef object copy_async_front(PyObject* const* words):
    return copy_on(words, words[4], False)


cdef object set_on(PyObject* const* words, PyObject* stream, bint blocks):
    cdef Queue queue = open_queue(stream)
    cdef long long nbytes = size_in(words[2])
    cdef unsigned char byte
    if queue is None or nbytes == 0 or not PyLong_Check(<object> words[1]) or blocks and captures_under_way():
        return None
    byte = <unsigned char> PyLong_AsUnsignedLongMask(<object> words[1])
    part = part_at(words[0], nbytes, queue)
    if type(part) is not Buffer:
        return None
    waits = blocks and in_host_memory(part)
    fill_bytes(queue, queue.state, part, &byte, 1)
    if waits:
        queue.finish()
    return succeed()


cdef object set_front(PyObject* const* words):
    return set_on(words, <PyObject*> None, True)


cdef object set_async_front(PyObject* const* words):
    return set_on(words, words[3], False)


cdef tuple names = (
    "hipEventRecord", "hipStreamWaitEvent", "hipStreamSynchronize", "hipStreamQuery", "hipEventSynchronize",
    "hipEventQuery", "hipMemcpy", "hipMemcpyAsync", "hipMemset", "hipMemsetAsync", "hipMallocAsync", "hipFreeAsync")
cdef Ordinary[12] calls = [
    record_front, wait_front, synchronize_front, query_front, synchronize_event_front,
    query_event_front, copy_front, copy_async_front, set_front, set_async_front, malloc_front, free_front]


def ordinary(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the ordinary call in front of one of HIP's functions."""
    return front(definition, calls[names.index(definition.__name__)])
