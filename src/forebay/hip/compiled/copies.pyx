"""Copies and memsets of memory that is known by its addresses, on an open stream of its device."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from forebay.core.state cimport captures_under_way
from forebay.hip.compiled.calls cimport front, read, succeed
from forebay.hip.compiled.handles cimport Address, pointer_class, queue_of
from forebay.hip.compiled.known cimport Known, known_with
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.memory.transfers cimport fill_bytes
from forebay.queues.queue cimport Queue, is_captured

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

cdef extern from "Python.h":
    bint PyLong_CheckExact(object)
    bint PyLong_Check(object)
    long long PyLong_AsLongLongAndOverflow(object, int* overflow)  # never raises for an int
    unsigned long PyLong_AsUnsignedLongMask(object)

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


def hipMemcpy(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the common copy in front of `hipMemcpy`."""
    return front(definition, copy_front)


def hipMemcpyAsync(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the common copy in front of `hipMemcpyAsync`."""
    return front(definition, copy_async_front)


def hipMemset(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the common memset in front of `hipMemset`."""
    return front(definition, set_front)


def hipMemsetAsync(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the common memset in front of `hipMemsetAsync`."""
    return front(definition, set_async_front)
