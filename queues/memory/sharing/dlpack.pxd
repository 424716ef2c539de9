"""Memory of a device in DLPack's capsules."""

from libc.stdint cimport uint64_t

cdef object new_capsule(object owner, uint64_t address, tuple shape, object dtype, tuple device)
