"""Deferred release of what queues use."""

from libc.stdint cimport uint64_t

from forebay.core.driver cimport Status
from forebay.core.ownership cimport Ref
from forebay.core.plan cimport Plan
from forebay.core.state cimport DeviceState, Marker, QueueState
from forebay.core.usage cimport Usage
from forebay.core.vector_clock cimport Epochs

# Destructors may call the retire functions, which keep the resource as long as needed. `retire_memory` alone frees
# memory: when its uses are done, and the launches with indirect access submitted while it was in the resident set.
# `listed` is its address if it is in that set, `reusable` its size if `take_spare` may return it; else 0.
cdef void retire_memory(DeviceState* device, object memory, Usage* usage, uint64_t listed, size_t reusable)
# Keeps anything but device memory until the queue with these epochs has reached this one; NULL if no command uses it.
# `host`: it is host memory, which may be released even while the driver forbids releases.
cdef void retire_after(DeviceState* device, object thing, Epochs* queue, uint64_t epoch, bint host=*)
cdef void retire_marker(QueueState* queue, Ref[Marker] marker) noexcept nogil
cdef void retire_plan(DeviceState* device, Plan* plan) noexcept nogil  # after its last launch
cdef void retire_queue(QueueState* queue) noexcept nogil  # takes over the reference of its Queue, which is gone
cdef void retire_plans(DeviceState* device, uint64_t kernel_id) noexcept nogil  # of a kernel that is gone


cdef object take_spare(DeviceState* device, size_t nbytes)  # memory that is done but must not be released now, or None
cdef void collect_queue(QueueState* queue)
cdef void collect_reached(DeviceState* device, Marker* marker)
cdef void collect_device(DeviceState* device)
cdef bint collect_all(DeviceState* device)  # returns whether anything was retired
cdef Status reach_point(DeviceState* device, Epochs* queue, uint64_t epoch) noexcept nogil


# `driver` is the `DriverDevice`, which the queues may need.
cdef void abandon(Ref[DeviceState]& state, object driver)
cdef void collect_abandoned()


cdef Status close_queue(QueueState* queue) noexcept nogil
cdef Status close_queues(DeviceState* device, uint64_t owner) noexcept nogil
cdef void refuse_all(DeviceState* device) noexcept nogil
cdef Ref[QueueState] take_idle_queue(DeviceState* device, int priority, bint timing) noexcept nogil
cdef void take_over_plans(QueueState* queue, QueueState* ended) noexcept nogil
cdef void release_idle_queues(DeviceState* device, size_t kept)
