"""Fills a table of functions from a library, and names them."""

import ctypes

from libc.stdint cimport uintptr_t


cdef tuple names_of(const char* const* names, int count, str prefix):
    """Return the library's name of each function of a list, by number."""
    return tuple([prefix + (<bytes> names[i]).decode() for i in range(count)])


cdef int fill(void** entries, tuple names, library, optional, str where, str advice) except -1:
    """Look each name up in a `ctypes.CDLL` and put its address into the table. A filled table is not filled again.

    Functions in `optional` may be missing; they are NULL then.

    Raises
    ------
    ImportError
        When another function is missing. The message contains `where` and `advice`. The table stays empty.
    """
    if entries[0] != NULL:
        return 0
    found = []
    for name in names:
        try:
            found.append(ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
        except AttributeError:
            if name not in optional:
                raise ImportError(f"{where} has no {name}: {advice}") from None
            found.append(0)
    cdef Py_ssize_t i
    for i in range(len(names)):
        entries[i] = <void*> <uintptr_t> found[i]
    return 0
