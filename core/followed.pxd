"""The memory that kernels may reach by pointers which they find in memory, for drivers that need a list of it."""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport atomic
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.epochs cimport Lock


cdef struct Place:
    size_t index  # in the list
    size_t count  # how many listed it: memory may be taken over twice


cdef cppclass Followed:
    """The list of a device. Memory is on it from its allocation until nobody has it any more, so before it is freed."""
    # Rises with each change, under the lock. A launch that follows pointers compares it with the version that its
    # kernel object has; 0 is that of a kernel object without a list.
    atomic[uint64_t] version
    Lock lock  # guards the two below; taken last, never held across a call
    vector[uint64_t] addresses  # each once, in no order
    unordered_map[uint64_t, Place] places


cdef void list_memory(Followed* followed, uint64_t address) noexcept nogil
cdef void unlist_memory(Followed* followed, uint64_t address) noexcept nogil
cdef uint64_t copy_list(Followed* followed, vector[uint64_t]& addresses) noexcept nogil
