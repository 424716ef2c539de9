"""What contexts that are gone have left behind."""

from forebay.core.state cimport DeviceState


# Takes over the caller's reference to the state. `driver` is the `DriverDevice`, which the queues may need.
cdef void abandon(DeviceState* state, object driver)
cdef void collect_abandoned()
