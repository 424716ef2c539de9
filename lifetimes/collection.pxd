"""Reclamation: what queues have used is given back when that use is done."""

from libc.stdint cimport uint64_t

from forebay.core.driver cimport Status
from forebay.core.epochs cimport Epochs
from forebay.core.marker cimport Marker
from forebay.core.state cimport DeviceState, QueueState


cdef object take_spare(DeviceState* device, size_t nbytes)  # memory that is done but must not be released now, or None
cdef void collect_queue(QueueState* queue)
cdef void collect_reached(DeviceState* device, Marker* marker)
cdef void collect_device(DeviceState* device)
cdef void collect_all(DeviceState* device)
cdef Status reach_point(DeviceState* device, Epochs* queue, uint64_t epoch) noexcept nogil
