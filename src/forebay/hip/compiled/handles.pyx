"""The objects that stand for pointers and streams in `forebay.hip`, and the queue of a stream."""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.queue cimport Queue
from forebay.queues.device cimport changes

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from forebay.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

cdef enum:
    LEGACY = 1
    PER_THREAD = 2

cdef extern from *:
    """
    // The queue of this thread's hipStreamPerThread. It is borrowed: what has it counts a change before it lets go.
    static thread_local struct { uint64_t as_of; PyObject *queue; } forebay_own = {0, nullptr};
    """
    struct Own "":
        uint64_t as_of
        PyObject* queue
    Own own "forebay_own"

stream_class = None
pointer_class = None
cdef Queue null_queue = None
cdef object guard = object()  # whose critical section guards it
cdef frozenset never_null = frozenset([tuple, list, str, bytes, bytearray, np.ndarray])  # what most programs pass
cdef tuple numbers = (int, np.integer)
cdef tuple ctypes_pointers = (ctypes.c_void_p, ctypes._Pointer)
cdef object number_class = ()  # of handles and pointers
cdef object look_for_queue = None
cdef object look_for_buffer = None


cdef class Address:
    """A number that stands for a place in memory, and the Buffer that begins there, once it was looked for."""

    def __forebay_buffer__(self) -> Buffer:
        """Return the Buffer that begins there, for launches of forebay's own Queues and `Device.as_buffer`.

        Raises
        ------
        InvalidArgumentError
            When it points into no allocation that kernels can use.
        """
        try:
            buffer = find_buffer(self)
        except Exception as error:  # a HipError, of a floor above
            raise InvalidArgumentError(f"as_buffer: {error}") from None
        if buffer is None:
            raise InvalidArgumentError("as_buffer: this is a null pointer; a launch takes forebay.NULL for it")
        return buffer


cdef class Handle(Address):
    """What stands for a stream: its queue, None when that has to be looked up for each use."""

    queue: Queue | None


def connect_streams(kind: type[Handle], queue: Callable[[Any], Queue]) -> None:
    """Set the class of streams, and who looks for the queue of one: `forebay.hip.streams`."""
    global stream_class, look_for_queue
    stream_class, look_for_queue = kind, queue


def connect_pointers(kind: type[Address], base: type, buffer: Callable[[Any], Any]) -> None:
    """Set the class of pointers to a device's memory, the class of all that has an address as a pointer or a handle,
    and who looks for the Buffer there: `forebay.hip.allocations`.
    """
    global pointer_class, number_class, look_for_buffer
    pointer_class, number_class, look_for_buffer = kind, base, buffer


def set_null_queue(queue: Queue | None) -> None:
    """The queue of stream 0 while it is the same for all threads, else None."""
    global null_queue
    with cython.critical_section(guard):
        _before, null_queue = null_queue, queue


cdef Queue queue_of_null():
    with cython.critical_section(guard):
        return null_queue


def count_changes() -> int:
    """Return how often a thread's own queue may have become another one; before it is looked up, see `note_own`."""
    return changes.load()


def note_own(Queue queue not None, uint64_t as_of) -> None:
    """Note this thread's own queue, as it was looked up when there had been this many changes."""
    own.as_of = as_of
    own.queue = <PyObject*> queue


def forget_own() -> None:
    """This thread's current device is another one now."""
    own.as_of = 0


cdef Queue other_queue_of(object stream):
    cdef Queue queue
    if stream is None:
        queue = queue_of_null()
    elif type(stream) is stream_class or isinstance(stream, Handle):
        queue = (<Handle> stream).queue
        if queue is None:
            if (<Handle> stream).address == PER_THREAD:
                if own.as_of != changes.load():
                    return None
                queue = <Queue> own.queue
            elif (<Handle> stream).address <= LEGACY:
                queue = queue_of_null()
    elif type(stream) is Queue:
        queue = stream
    else:
        return None
    return None if queue is None or is_closed(queue.state) else queue


cdef object find_queue(object stream):
    return look_for_queue(stream)


cdef object find_buffer(object pointer):
    return look_for_buffer(pointer)


cpdef bint is_null(object thing) except -1:
    """Return whether this is a null pointer: None, 0, a null pointer of ctypes, or an object that stands for one."""
    if thing is None:
        return True
    if isinstance(thing, Address):
        return (<Address> thing).address == 0
    if type(thing) in never_null:
        return False
    if isinstance(thing, number_class):
        return thing.address == 0
    if isinstance(thing, numbers):
        return thing == 0
    if isinstance(thing, ctypes_pointers):
        return not thing
    return hasattr(type(thing), "as_c_void_p") and not thing.as_c_void_p()
