"""Keeps the list of memory that kernels may follow pointers to. Nothing here needs the GIL or calls a driver."""

from libc.stdint cimport uint64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from cython.operator cimport dereference


cdef void list_memory(Followed* followed, uint64_t address) noexcept nogil:
    cdef unordered_map[uint64_t, Place].iterator found
    cdef Place* place
    followed.lock.lock()
    found = followed.places.find(address)
    if found == followed.places.end():
        followed.places[address] = Place(followed.addresses.size(), 1)
        followed.addresses.push_back(address)
        followed.version.fetch_add(1)
    else:
        place = &dereference(found).second
        place.count += 1
    followed.lock.unlock()


cdef void unlist_memory(Followed* followed, uint64_t address) noexcept nogil:
    """Take memory off the list, before whoever looks for its users: a launch that began earlier is found as one of
    these, and one that begins later gives its kernel object the new list.
    """
    cdef unordered_map[uint64_t, Place].iterator found
    cdef Place* place
    cdef uint64_t last
    followed.lock.lock()
    found = followed.places.find(address)
    if found != followed.places.end():
        place = &dereference(found).second
        place.count -= 1
        if place.count == 0:
            last = followed.addresses.back()
            followed.addresses[place.index] = last
            followed.places[last].index = place.index
            followed.addresses.pop_back()
            followed.places.erase(address)
            followed.version.fetch_add(1)
    followed.lock.unlock()


cdef uint64_t copy_list(Followed* followed, vector[uint64_t]& addresses) noexcept nogil:
    """Copy the list, and return its version."""
    cdef uint64_t version
    followed.lock.lock()
    addresses = followed.addresses
    version = followed.version.load()
    followed.lock.unlock()
    return version
