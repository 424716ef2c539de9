"""Waits of the host."""

from libc.stdint cimport uint64_t

from forebay.core.driver cimport Status
from forebay.core.ownership cimport Refs
from forebay.core.state cimport DeviceState, Marker, QueueState
from forebay.core.usage cimport Usage


cdef int finish_queue(object queue, QueueState* state, object timeout) except -1
cdef bint query_queue(object queue, QueueState* state) except -1
# Either of these for a queue that is checked for races; returns the result of a query, else true
cdef bint wait_checked(object queue, QueueState* state, bint asks, object timeout) except -1
cdef Status finish_device(DeviceState* device, uint64_t owner) noexcept nogil  # 0: every queue
cdef int wait_for_markers(object device, DeviceState* state, Refs[Marker]& markers, object what) except -1
cdef int wait_for_uses(object device, DeviceState* state, Usage* uses, bint writers_only, QueueState* reader) except -1
cdef int order_after_uses(object queue, QueueState* state, DeviceState* of, Usage* uses, bint writers_only) except -1
cdef Status wait_for_retired(DeviceState* device) noexcept nogil
