"""What can go wrong: a call of dpctl, which never says why, or one of forebay's own reasons."""

from libc.stdint cimport int64_t

from forebay.core.driver cimport Status

cdef enum:
    FAILED = -1  # the only error code there is


cdef inline Status failure(int what) noexcept nogil:
    return (<int64_t> what << 32) | <unsigned int> FAILED
