"""The Python objects around the structures of handles.pxd."""

from libc.stdint cimport uint64_t

from forebay.core.driver cimport Status
from forebay.queues.cuda.calls cimport IpcHandle
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
