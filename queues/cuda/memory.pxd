"""Memory of the driver's pools."""

from libc.stdint cimport uint64_t

from forebay.core.driver cimport Status
from forebay.queues.cuda.calls cimport IpcHandle
from forebay.queues.cuda.handles cimport CuContext


cdef void trim(CuContext* context, size_t kept) noexcept nogil
# With the context current:
cdef bint give_back_ended(CuContext* context) noexcept nogil
cdef Status open_import(const IpcHandle& handle, uint64_t* address) noexcept nogil
