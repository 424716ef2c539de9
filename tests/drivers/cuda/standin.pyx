"""CUDA's driver without a GPU: this file is the library that forebay loads in its place; see standin.hpp."""

from libc.stdint cimport int32_t, uint64_t
from libcpp.atomic cimport atomic

cdef extern from "tests/drivers/cuda/standin.hpp" namespace "forebay_standin" nogil:
    cdef struct Counts:
        size_t streams, events, modules, graphs, executables, blocks, words
        uint64_t faults, queries, stream_queries

    Counts counts()
    int AT_NEXT, PAUSED, NO_PAUSE
    atomic[int32_t] query_pause

PATH: str = __file__


def there_are() -> dict[str, int]:
    """How many objects the driver has of each kind, how many words streams wait for, how many calls it refused because
    they were wrong, and how often it was asked for an event and for a stream.
    """
    return counts()


def pause_query() -> None:
    """Let the next question whether a stream is done not return before `go_on`."""
    query_pause.store(AT_NEXT)


def is_paused() -> bool:
    """Whether one does not return."""
    return query_pause.load() == PAUSED


def go_on() -> None:
    """Let it return."""
    query_pause.store(NO_PAUSE)
