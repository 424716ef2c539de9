"""Events recorded on streams, waits for them, questions and waits of the host for both, copies and memsets.

A copy or a memset is of memory that is known by its addresses, on an open stream of its device.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libcpp.atomic cimport memory_order_relaxed

from forebay.core.state cimport captures_under_way, open_step_count
from forebay.events.event cimport Event, record, wait_for_event
from forebay.hip.compiled.calls cimport Address, answer, front, pointer_class, queue_of, read, succeed
from forebay.hip.compiled.known cimport Known, known_with
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
cdef tuple record_names = ("event", "stream")
cdef tuple wait_names = ("stream", "event", "flags")
cdef tuple stream_names = ("stream",)
cdef tuple event_names = ("event",)


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


cdef object record_front(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef PyObject* room[2]
    cdef PyObject* const* words
    cdef Queue queue
    cdef Event event
    words = read(record_names, 1, given, count, keywords, room)
    if words == NULL:
        return None
    event = event_of(words[0])
    queue = queue_of(None if words[1] == NULL else <object> words[1])
    if event is None or queue is None or event.state != queue.state.device:
        return None
    record(queue, queue.state, queue.device, capture_of(queue), event, False)
    return succeed()


cdef object wait_front(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef PyObject* room[3]
    cdef PyObject* const* words
    cdef Queue queue
    cdef Event event
    words = read(wait_names, 2, given, count, keywords, room)
    if words == NULL:
        return None
    queue = queue_of(<object> words[0])
    event = event_of(words[1])
    if event is None or queue is None or words[2] != NULL and <object> words[2] is not 0:
        return None
    if open_step_count.load(memory_order_relaxed):
        return None
    wait_for_event(queue, queue.state, capture_of(queue), event)
    return succeed()


cdef inline Queue queue_in(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    """Return the queue of the stream that is the only argument; None when the definition has to look for it."""
    cdef PyObject* room[1]
    cdef PyObject* const* words = read(stream_names, 1, given, count, keywords, room)
    return queue_of(<object> words[0]) if words != NULL else None


cdef inline Event event_in(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    """Return the event that is the only argument, likewise."""
    cdef PyObject* room[1]
    cdef PyObject* const* words = read(event_names, 1, given, count, keywords, room)
    return event_of(words[0]) if words != NULL else None


cdef object synchronize_front(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef Queue queue = queue_in(given, count, keywords)
    if queue is None:
        return None
    queue.finish()
    return None if watched else succeed()  # another thread may have loaded a module with assertions meanwhile


cdef object synchronize_event_front(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef Event event = event_in(given, count, keywords)
    if event is None:
        return None
    event.wait()
    return None if watched else succeed()


cdef object query_front(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef Queue queue = queue_in(given, count, keywords)
    return answer(queue.query()) if queue is not None else None


cdef object query_event_front(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef Event event = event_in(given, count, keywords)
    return answer(event.query()) if event is not None else None


# -- copies and memsets

cdef enum:
    TO_DEVICE = 1  # the bits of hipMemcpyKind
    FROM_DEVICE = 2
    DEFAULT = 4

cdef tuple copy_names = ("dst", "src", "sizeBytes", "kind", "stream")
cdef tuple set_names = ("dst", "value", "sizeBytes", "stream")
cdef tuple blocking_copy_names = copy_names[:4]
cdef tuple blocking_set_names = set_names[:3]


# Each of these returns what stands for "the definition has to look at it".

cdef long long size_in(PyObject* word):
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


cdef Queue open_queue(PyObject* word):
    cdef Queue queue = queue_of(None if word == NULL else <object> word)
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


cdef object copy_front(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef PyObject* room[4]
    cdef PyObject* const* words
    words = read(blocking_copy_names, 4, given, count, keywords, room)
    if words == NULL:
        return None
    return copy_on(words, NULL, True)


cdef object copy_async_front(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef PyObject* room[5]
    cdef PyObject* const* words
    words = read(copy_names, 4, given, count, keywords, room)
    if words == NULL:
        return None
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


cdef object set_front(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef PyObject* room[3]
    cdef PyObject* const* words
    words = read(blocking_set_names, 3, given, count, keywords, room)
    if words == NULL:
        return None
    return set_on(words, NULL, True)


cdef object set_async_front(PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef PyObject* room[4]
    cdef PyObject* const* words
    words = read(set_names, 3, given, count, keywords, room)
    if words == NULL:
        return None
    return set_on(words, words[3], False)


def ordinary(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the ordinary call in front of one of HIP's functions."""
    name = definition.__name__
    if name == "hipEventRecord":
        return front(definition, record_front)
    if name == "hipStreamWaitEvent":
        return front(definition, wait_front)
    if name == "hipStreamSynchronize":
        return front(definition, synchronize_front)
    if name == "hipStreamQuery":
        return front(definition, query_front)
    if name == "hipEventSynchronize":
        return front(definition, synchronize_event_front)
    if name == "hipEventQuery":
        return front(definition, query_event_front)
    if name == "hipMemcpy":
        return front(definition, copy_front)
    if name == "hipMemcpyAsync":
        return front(definition, copy_async_front)
    if name == "hipMemset":
        return front(definition, set_front)
    if name == "hipMemsetAsync":
        return front(definition, set_async_front)
    raise AssertionError(f"{name} has no ordinary call")
