"""How programs call what is compiled of HIP's functions, what such a call returns, and pointers and streams."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from forebay.core.state cimport is_closed
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.queue cimport Queue

cdef extern from *:
    """
    static inline int forebay_pending() { return -1; }
    """
    int raise_pending "forebay_pending"() except -1  # the error that is set

# The ordinary call of a function, with its arguments in the order of their names, each given or the default: borrowed
# references. Returns None for any other call.
ctypedef object (*Ordinary)(PyObject* const* words)

cdef object ok

# A function that does the ordinary calls itself, with the name, signature and documentation of its definition.
cdef object front(object definition, Ordinary ordinary, object failure=*)
cdef object succeed()  # and return what a function without outputs returns then
cdef object answer(bint ready)  # likewise, of a function that asks; that something is not ready is no error (HIP 7)


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


cdef object find_queue  # called with a stream, or a pointer
cdef object find_buffer
cpdef bint is_null(object thing) except -1
