from libc.stdint cimport uint32_t

from forebay.core.driver cimport Status

cdef struct Calls:
    # what the device makes without the table of operations, so that an observer sees that too
    Status (*allocate)(size_t nbytes, void** memory) noexcept nogil
    void (*free)(void* memory) noexcept nogil
    Status (*new_queue)(void** queue) noexcept nogil
    Status (*new_kernel)(uint32_t parameters, void** kernel) noexcept nogil
