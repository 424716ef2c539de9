"""Tables of functions that are found in a library at run time; `function_table.hpp` makes one from a driver's list."""

cdef tuple names_of(const char* const* names, int count, str prefix)
cdef int fill(void** entries, tuple names, library, optional, str where, str advice) except -1
