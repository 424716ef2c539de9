"""Events as Python sees them."""

from libcpp.vector cimport vector

from forebay.core.marker cimport Marker
from forebay.core.state cimport DeviceState


cdef class Event:
    cdef DeviceState* state  # retained
    cdef Marker* marker  # retained; NULL until first recorded
    cdef readonly object device
    cdef readonly bint timing
    cdef object queue  # a weak reference to the queue that recorded it last
    cdef void* seen  # what the checker of races knows of the point; owned; NULL: nothing
    cdef object captured  # (Capture, nodes) of a record in a capture, which hides the marker until that ends


cdef Event new_event(object device, DeviceState* state, bint timing)
cdef void set_marker(Event event, Marker* marker, bint timed, object queue)
cdef void set_captured(Event event, tuple point)
cdef tuple captured_point(Event event)
cdef int reach(object device, DeviceState* state, vector[Marker*]& markers, object what) except -1
