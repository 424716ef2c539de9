"""Memory of the driver's pools."""

from forebay.queues.drivers.cuda.handles cimport CuContext


cdef void trim(CuContext* context, size_t kept) noexcept nogil
cdef bint give_back_ended(CuContext* context) noexcept nogil  # the context is current
