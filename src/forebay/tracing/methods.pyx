"""Replaces methods of compiled classes while somebody watches them, so that nothing is added to them for that; and says
what is known of memory.
"""

import weakref
from typing import TYPE_CHECKING

from cpython.object cimport PyObject
from libc.stdint cimport uintptr_t

from forebay.core.ownership cimport Ref
from forebay.core.usage cimport Usage, generation_of
from forebay.events.event cimport Event, queue_of
from forebay.queues.memory.allocation cimport exposures
from forebay.queues.memory.buffer cimport Buffer

if TYPE_CHECKING:
    from forebay.queues.queue import Queue

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject* tp_dict
    void PyType_Modified(PyTypeObject*)


def replace(owner: type, name: str, method: object) -> object:
    """Put a method in the place of one that the class defines itself, and return that one.

    A method with two underscores at either end must not be replaced: CPython would go on to call the old one.
    """
    cdef PyTypeObject* kind = <PyTypeObject*> owner
    old = (<dict> kind.tp_dict)[name]
    (<dict> kind.tp_dict)[name] = method
    PyType_Modified(kind)
    return old


cdef class Memory:
    """Knows one piece of memory again, and when it was given back, without keeping it."""

    cdef Ref[Usage] uses  # kept, or other memory could have its address later
    cdef object __weakref__

    @property
    def gone(self) -> bool:
        """Whether the memory has no owner any more."""
        return self.uses.get().references.load() == 1  # there is one object of each


_known: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()


def memory_of(Buffer buffer) -> Memory:
    """The memory that a buffer lies in: the same object for all its views, as long as somebody has it."""
    cdef Usage* uses = buffer.allocation.usage
    cdef Memory memory = _known.get(<uintptr_t> uses)
    if memory is None:
        memory = Memory.__new__(Memory)
        memory.uses = buffer.allocation.kept_usage
        _known[<uintptr_t> uses] = memory
    return memory


def place_of(Buffer buffer) -> tuple[Memory, int, int]:
    """Where the bytes of a buffer lie: memory, offset, number of bytes."""
    return memory_of(buffer), buffer.start, buffer.nbytes


def version_of(Buffer buffer) -> tuple[int, int] | None:
    """A value that differs when something may have written to the buffer; None when that is not known."""
    if buffer.allocation.exposed.load():
        return None
    return generation_of(buffer.allocation.usage), buffer.allocation.state.resident.unseen_writes.load()


def producer_of(Event event) -> Queue | None:
    """The queue that an event was recorded on last; None when that is gone, and before the first record."""
    return queue_of(event)


def times_exposed() -> int:
    """How often somebody was let read and write memory without forebay's knowledge: NumPy's views, other packages."""
    return exposures.load()
