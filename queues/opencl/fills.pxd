from forebay.core.driver cimport Memory, Status, Waits


cdef bint fill_by_kernel(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event,
    Status* status
) noexcept nogil
