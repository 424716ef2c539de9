"""Memory that runs out."""

from forebay.core.driver cimport Status
from forebay.core.state cimport DeviceState


cdef Status wait_for_retired(DeviceState* device) noexcept nogil
