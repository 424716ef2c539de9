"""The host's side: ask whether queues, events and devices are done, or wait for them. Nothing here needs the GIL."""

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.core.state cimport DeviceState, Marker, QueueState


cdef Status query_queue(QueueState* queue, int* reached) noexcept nogil
cdef Status finish_queue(QueueState* queue) noexcept nogil
cdef Status finish_device(DeviceState* device, uint64_t owner) noexcept nogil  # 0: every queue
cdef Status close_queues(DeviceState* device, uint64_t owner) noexcept nogil
cdef void refuse_all(DeviceState* device) noexcept nogil
cdef Status wait_on_host_for_all(DeviceState* device, vector[Marker*]& markers) noexcept nogil
cdef Status mark_for_closing(QueueState* queue) noexcept nogil
cdef void close_locked(QueueState* queue) noexcept nogil
cdef Status tell_failures(QueueState* queue) noexcept nogil
cdef Status mark_ends(QueueState* queue, vector[Marker*]& markers) noexcept nogil


cdef inline void write_printed(DeviceState* device) noexcept nogil:
    """Each wait of the host ends with this: polls may have found the work done, and drivers print in a wait."""
    if device.driver.write_printed != NULL:
        device.driver.write_printed(device.context)
