"""Host functions of a driver that tell a thread of forebay's, and nothing more, that a queue has arrived at a gate."""

from libcpp.atomic cimport atomic

from forebay.core.driver cimport Wake


cdef cppclass Arrival:
    """The argument of the driver's host function. The driver may call it before a later part of the hold is refused,
    and that call cannot be cancelled. So whichever comes second, the queue or the hold's outcome, wakes and frees.
    """
    atomic[int] state
    Wake wake
    void* data


cdef Arrival* new_arrival(Wake wake, void* data) noexcept nogil
cdef void drop_arrival(Arrival* arrival) noexcept nogil
cdef void on_arrival(void* arrival) noexcept nogil
cdef void settle(Arrival* arrival, bint submitted) noexcept nogil
