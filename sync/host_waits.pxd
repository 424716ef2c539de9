"""Waits of the host, and back-pressure on other threads where such a wait cannot end beside what they submit."""

from forebay.core.driver cimport Driver, Interrupted, Status, Waits
from forebay.core.state cimport DeviceState


# These block until all events are over, and no lock is held. `driver` is that of the events.
cdef Status wait_watched(const Driver* driver, void* context, Waits events, Interrupted interrupted) noexcept nogil
cdef Status wait_on_host(
    DeviceState* device, const Driver* driver, Waits events, Interrupted interrupted
) noexcept nogil
