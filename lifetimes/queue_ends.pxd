"""The end of queues whose Queue is gone, and the driver's queues that are handed out again."""

from forebay.core.state cimport DeviceState, IdleQueue, QueueState


cdef void retire_queue(QueueState* queue) noexcept nogil  # its Queue is gone, and with it the caller's reference
cdef void drain_orphans(DeviceState* device) noexcept nogil
cdef bint end_queue(QueueState* queue)  # its work is done; False: the host has no memory for it now
# Take a queue of the driver that has ended, if there is one; the caller owns what is in it
cdef bint take_idle_queue(DeviceState* device, int priority, bint timing, IdleQueue& idle) noexcept nogil
cdef void release_idle_queues(DeviceState* device, size_t kept)
