"""What the process as a whole allows: when it ends, and when it was forked."""

cdef bint is_forked() noexcept nogil  # from a process in which drivers had been started
