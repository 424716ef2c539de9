"""The queues that each thread has on a device."""

from libc.stdint cimport uint64_t

# How often a thread's own queue may have become another one, counted before it does; never 0. Only with the GIL. Who
# notes it, and then asks for the queue, may use that without a reference of its own, as long as this is the same.
cdef uint64_t changes
