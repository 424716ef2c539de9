"""Events as Python sees them."""

from libc.stdint cimport uint64_t

from forebay.core.ownership cimport Ref, relaxed_bint
from forebay.core.state cimport DeviceState, Marker, QueueState
from forebay.core.vector_clock cimport Clock


cdef class Event:
    cdef DeviceState* state
    cdef Ref[DeviceState] kept_state
    # From here on guarded by the event's critical section: another thread may record it again
    cdef Ref[Marker] marker  # NULL until first recorded
    cdef readonly object device
    cdef readonly relaxed_bint timing
    cdef object queue  # a weak reference to the queue that recorded it last
    cdef Ref[Clock] seen  # what the race checker knows of the point; NULL: nothing
    cdef object captured  # (Capture, nodes) of a record in a capture, which hides the marker until that ends


cdef Event new_event(object device, DeviceState* state, bint timing)
cdef Ref[Marker] marker_of(Event event, Ref[Clock]* seen=*)
cdef object queue_of(Event event)
cdef void set_marker(Event event, Ref[Marker]& marker, bint timed, object queue)


cdef object record(object queue, QueueState* state, object device, object capture, object given, bint timing)
cdef int wait_for_event(object queue, QueueState* state, object capture, Event event) except -1
cdef int wait_for_foreign(object queue, QueueState* state, object thing, uint64_t number) except -1
cdef int wait_for_queue(
    object queue, QueueState* state, object capture, object producer, QueueState* producer_state,
    object producer_capture
) except -1


cdef class IpcEvent:
    cdef DeviceState* state
    cdef Ref[DeviceState] kept_state
    cdef void* handle  # owned
    cdef Ref[Clock] seen  # what the race checker knows of this process's last record; NULL: nothing
    cdef readonly object device
    cdef readonly bytes ipc_handle


cdef IpcEvent new_ipc_event(object device, DeviceState* state, size_t handle, bytes ipc_handle)
