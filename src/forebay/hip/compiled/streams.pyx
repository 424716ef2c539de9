"""Events recorded on streams, waits for them, and questions and waits of the host for both."""

from cpython.object cimport PyObject
from libcpp.atomic cimport memory_order_relaxed

from forebay.core.state cimport open_step_count
from forebay.events.event cimport Event, record, wait_for_event
from forebay.hip.compiled.calls cimport answer, front, read, succeed
from forebay.hip.compiled.handles cimport queue_of
from forebay.queues.queue cimport Queue, capture_of

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

cdef dict watched = None  # what `connect` has set
cdef tuple record_names = ("event", "stream")
cdef tuple wait_names = ("stream", "event", "flags")
cdef tuple stream_names = ("stream",)
cdef tuple event_names = ("event",)


cdef class EventHandle:
    """The base of events: None in place of the event once it is destroyed, and in what is only a number."""

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


def hipEventRecord(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the ordinary call in front of `hipEventRecord`."""
    return front(definition, record_front)


def hipStreamWaitEvent(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the ordinary call in front of `hipStreamWaitEvent`."""
    return front(definition, wait_front)


def hipStreamSynchronize(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the ordinary call in front of `hipStreamSynchronize`."""
    return front(definition, synchronize_front)


def hipStreamQuery(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the ordinary call in front of `hipStreamQuery`."""
    return front(definition, query_front)


def hipEventSynchronize(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the ordinary call in front of `hipEventSynchronize`."""
    return front(definition, synchronize_event_front)


def hipEventQuery(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the ordinary call in front of `hipEventQuery`."""
    return front(definition, query_event_front)
