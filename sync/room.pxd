"""Room in queues that may be full."""

from libc.stdint cimport uint32_t, uint64_t

from forebay.core.driver cimport Status
from forebay.core.marker cimport Marker
from forebay.core.state cimport UNLIMITED, DeviceState, QueueState, Room


cdef void be_host_thread() noexcept nogil  # the caller's thread runs host functions from now on
cdef void begin_host_function(DeviceState* device) noexcept nogil  # it counts in `open_holds` until it ends
cdef void end_host_function(DeviceState* device) noexcept nogil
cdef void count_calls(DeviceState* device, uint32_t calls) noexcept nogil
cdef void divide_room(DeviceState* device, uint64_t most) noexcept nogil
cdef void join_room(DeviceState* device, uint64_t shared) noexcept nogil
cdef void give_back_room(QueueState* queue, uint64_t in_flight) noexcept nogil  # the queue is locked
cdef void collect_room(Room* room) noexcept nogil
cdef Status look_for_room(QueueState* queue) noexcept nogil  # the queue is locked
# `more`: how much room is taken with the next command, before anybody asks again
cdef bint has_room(QueueState* queue, uint64_t more) noexcept nogil  # the queue is locked
cdef bint may_stay_full(QueueState* queue, uint64_t more) noexcept nogil  # the queue is locked
cdef void sleep_while_limited(QueueState* queue) noexcept nogil  # no lock is held
cdef Status make_room(QueueState* queue, uint64_t more) noexcept nogil  # blocks; no lock is held
cdef uint64_t room_of_host_function(const QueueState* queue) noexcept nogil  # beside its command
cdef Status await_event(DeviceState* device, Marker* marker) noexcept nogil  # blocks; no lock is held


cdef inline void give_way(QueueState* queue) noexcept nogil:
    """Let waits of the host that starve go before the queue's next command. No lock is held."""
    if queue.device.in_flight_limit.load() != UNLIMITED:
        sleep_while_limited(queue)
