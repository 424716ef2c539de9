"""Queues as Python sees them."""

from libc.stdint cimport uint64_t

from forebay.core.ownership cimport FREE_THREADED
from forebay.core.state cimport BY_CAPTURE, AnyQueue, DeviceState, QueueState

cdef class Queue(AnyQueue):
    cpdef int _check_open(self) except -1


cdef inline bint is_captured(Queue queue) noexcept:
    return queue.state.slow_path & BY_CAPTURE != 0 if FREE_THREADED else queue.captured_by is not None


cdef inline object capture_of(Queue queue):
    """Return the Capture that records its commands; None when they run."""
    return queue._capture if is_captured(queue) else None


# Called after the host has waited for a queue. Set by the module of the Device, which is on a higher layer
ctypedef int (*AfterWait)(object device, object queue) except -1
cdef AfterWait after_wait
# Makes a Queue over this state, or over the `adopted` queue of another package. It takes over the owner's reference,
# except that to a null queue, which belongs to the Context.
cdef Queue new_queue(object device, QueueState* state, object adopted)
cdef QueueState* new_queue_of(
    DeviceState* device, object native, size_t handle, uint64_t owner, bint is_null, bint blocking, bint timing,
    bint adopted, object priority
)
