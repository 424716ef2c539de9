"""Room in queues that may be full."""

from forebay.core.driver cimport Status
from forebay.core.marker cimport Marker
from forebay.core.state cimport DeviceState, QueueState


cdef void be_host_thread() noexcept nogil  # the caller's thread runs host functions from now on
cdef void begin_host_function(DeviceState* device) noexcept nogil  # it counts in `open_holds` until it ends
cdef void end_host_function(DeviceState* device) noexcept nogil
cdef bint may_stay_full(QueueState* queue) noexcept nogil  # the queue is locked
cdef Status make_room(QueueState* queue) noexcept nogil  # blocks; no lock is held
cdef Status await_event(DeviceState* device, Marker* marker) noexcept nogil  # blocks; no lock is held
