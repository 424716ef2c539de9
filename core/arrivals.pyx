"""What happens when a queue arrives at a gate, before or after it is known whether the hold was submitted."""

from libcpp.atomic cimport memory_order_acq_rel, memory_order_relaxed

from forebay.core.driver cimport Wake

cdef enum:
    # states of an Arrival
    SUBMITTING  # the hold's outcome is open, and the queue has not arrived
    SUBMITTED  # the hold was submitted and holds the queue
    ARRIVED  # the queue arrived before the hold's outcome was known
    REFUSED


cdef Arrival* new_arrival(Wake wake, void* data) noexcept nogil:
    cdef Arrival* arrival = new Arrival()
    arrival.state.store(SUBMITTING, memory_order_relaxed)
    arrival.wake = wake
    arrival.data = data
    return arrival


cdef void drop_arrival(Arrival* arrival) noexcept nogil:
    """End one whose host function the driver refused."""
    del arrival


cdef void on_arrival(void* data) noexcept nogil:
    """The driver's host function."""
    cdef Arrival* arrival = <Arrival*> data
    cdef int state = arrival.state.exchange(ARRIVED, memory_order_acq_rel)
    if state == SUBMITTING:
        return
    if state == SUBMITTED:
        arrival.wake(arrival.data)
    del arrival


cdef void settle(Arrival* arrival, bint submitted) noexcept nogil:
    """Note the hold's outcome: it was submitted, or refused after the driver had accepted the host function."""
    if arrival.state.exchange(SUBMITTED if submitted else REFUSED, memory_order_acq_rel) == SUBMITTING:
        return
    if submitted:
        arrival.wake(arrival.data)
    del arrival
