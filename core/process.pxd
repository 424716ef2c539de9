"""What the process as a whole allows: when it ends, and when it was forked."""

cdef void be_host_thread() noexcept nogil  # the caller's thread runs host functions from now on
cpdef bint on_host_thread() noexcept nogil
cdef bint is_forked() noexcept nogil  # from a process in which drivers had been started
cdef bint interrupted() noexcept nogil  # for `wait_events` of driver.pxd
cdef int raise_interrupt() except -1  # what the signal handler raised, after `interrupted` has said yes

cdef extern from "core/reserve.hpp" namespace "forebay" nogil:
    # Whether the host is out of memory: then no command may begin. One load, as long as it never was
    bint is_memory_short "forebay::reserve.is_short"() noexcept
    # The same for each of many things that are given back, which cannot be refused: then it is left for later, or kept
    bint is_memory_low "forebay::reserve.is_low"() noexcept

cdef int raise_memory_short() except -1


cdef inline int check_memory() except -1:
    """Raise OutOfMemoryError when the host is out of memory, before something is made that is no command."""
    return raise_memory_short() if is_memory_short() else 0
