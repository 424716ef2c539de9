"""The lines of the program that are not forebay's own."""

from libc.stdint cimport uint32_t

cdef list known_lines  # (file, line, function) by number

cdef uint32_t line_of_program() except? 0
cdef str place_at(uint32_t line)
