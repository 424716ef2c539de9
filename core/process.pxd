"""Process-wide state: exit, the host thread, signals, forks, and memory of the host."""

cdef void be_host_thread() noexcept nogil  # makes the calling thread the one that runs host functions
cpdef bint on_host_thread() noexcept nogil
cdef bint is_forked() noexcept nogil  # from a process that had started drivers
cdef bint interrupted() noexcept nogil  # for `wait_events` of driver.pxd
cdef int raise_interrupt() except -1  # raises what the signal handler raised, after `interrupted` returned true

cdef extern from "core/reserve.hpp" namespace "forebay" nogil:
    # Whether the host is out of memory: then no command may begin. One load, if it never was
    bint is_memory_short "forebay::reserve.is_short"() noexcept
    # Whether the reserve is low: then releases, which cannot be refused, are deferred, or the memory is kept
    bint is_memory_low "forebay::reserve.is_low"() noexcept

cdef int raise_memory_short() except -1


cdef inline int check_memory() except -1:
    """Raise OutOfMemoryError if the host is out of memory, before making something that is no command."""
    return raise_memory_short() if is_memory_short() else 0
