"""The objects that stand for pointers and streams in `forebay.hip`."""

from libc.stdint cimport uint64_t

from forebay.core.state cimport is_closed
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.queue cimport Queue


cdef class Address:
    cdef public uint64_t address
    cdef public Buffer buffer
    cdef object __weakref__


cdef class Handle(Address):
    cdef public Queue queue


# The classes of ordinary streams and pointers, because comparing is less than asking what a class is derived from
cdef object stream_class
cdef object pointer_class
cdef Queue queue_of_null()  # the queue of stream 0 while it is the same for all threads, else None
cdef Queue other_queue_of(object stream)


cdef inline Queue queue_of(object stream):
    """Return the open queue of a stream; None when `find_queue` has to look for it, or to say why there is none."""
    cdef Queue queue
    if type(stream) is stream_class:
        queue = (<Handle> stream).queue
        if queue is not None and not is_closed(queue.state):
            return queue
    return other_queue_of(stream)


cdef object find_queue(object stream)
cdef object find_buffer(object pointer)
cpdef bint is_null(object thing) except -1
