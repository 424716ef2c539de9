"""CUDA's driver without a GPU: this file is the library that forebay loads in its place; see standin.hpp."""

from libc.stdint cimport uint64_t

cdef extern from "tests/drivers/cuda/standin.hpp" namespace "forebay_standin" nogil:
    cdef struct Counts:
        size_t events, modules, blocks
        uint64_t faults, queries, stream_queries

    Counts counts()

PATH: str = __file__


def there_are() -> dict[str, int]:
    """How many objects the driver has of some kinds, how many calls it refused because they were wrong, and how
    often it was asked for an event and for a stream.
    """
    return counts()
