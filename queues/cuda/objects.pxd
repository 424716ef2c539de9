"""The Python objects around the structures of handles.pxd."""

from forebay.core.driver cimport Status
from forebay.queues.cuda.handles cimport CuContext

cdef enum:
    OUT_OF_MEMORY_CODE = 2

cdef extern from *:
    """
    #include <chrono>
    #include <thread>
    static inline void forebay_pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
    """
    void rest "forebay_pause" () noexcept nogil


cdef class ContextHandle:
    cdef CuContext* context


cdef int check(Status status, str what) except -1  # raises for a failed call
