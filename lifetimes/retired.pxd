"""What is retired: it goes back when the queues that use it have reached their points."""

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.epochs cimport Epochs
from forebay.core.state cimport DeviceState, QueueState, RetiredList
from forebay.core.uses cimport Point


# The first two may be called by destructors. What they get is kept for as long as needed.
# Gives memory back to its driver, and nothing else does: when these points are reached, which it takes over, and when
# the launches that follow pointers, submitted while it was listed, are done. `reusable` is its size if it may be handed
# out again by `take_spare`, else 0.
cdef void retire_memory(DeviceState* device, object memory, vector[Point]& points, size_t reusable)
# Anything but memory of the device, until the queue with these epochs has reached this one; NULL for what no command
# uses. `host`: memory of the host, which may be dropped even while nothing of the driver's may be released.
cdef void retire_after(DeviceState* device, object thing, Epochs* queue, uint64_t epoch, bint host=*)
cdef bint may_release(DeviceState* device) noexcept nogil
cdef bint has_retired(DeviceState* device) noexcept nogil
cdef bint has_something(DeviceState* device) noexcept nogil  # retired, or queues
cdef void sort_in_fresh(DeviceState* device, RetiredList* done) noexcept nogil
cdef void take_done(QueueState* queue, RetiredList* done) noexcept nogil
cdef void take_retired(DeviceState* device, bint everything, RetiredList* done) noexcept nogil
