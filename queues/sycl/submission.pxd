"""Submits commands to SYCL."""

from forebay.core.driver cimport Geometry, Status, Waits
from forebay.queues.sycl.kernels cimport SyclKernel

# Each function makes an event, which the caller owns. The waits are SYCL's events.
cdef Status submit_kernel(
    void* queue, SyclKernel* kernel, const Geometry* geometry, Waits waits, void** event
) noexcept nogil
cdef Status submit_copy(
    void* queue, void* to, const void* source, size_t nbytes, Waits waits, void** event
) noexcept nogil
cdef Status submit_fill(
    void* queue, void* to, const unsigned char* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil
cdef Status submit_barrier(void* queue, Waits waits, void** event) noexcept nogil
