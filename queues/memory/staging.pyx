"""Host memory for staging copies: for a copy from pageable memory the driver would make the calling thread wait.

Compiled, because Python delivers a Ctrl-C at the beginning of the next function in Python: that would be the one that
gives a block back at the end of each copy that waited, and what such a function raises is lost. Nor does it need any
names of a module when Python ends.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from forebay.core.driver import DriverMemory

cdef enum:
    SMALLEST = 1 << 12
    KEPT = 64 << 20  # the pool keeps at most this many bytes for the next copies


cdef class StagingPool:
    """Blocks of host memory, in powers of two. A block is used again once its array has no references left.

    Parameters
    ----------
    make
        Allocates so many bytes of host memory which the device reads and writes directly.
    """

    cdef object make, lock
    cdef dict idle  # lists of blocks, by their size
    cdef Py_ssize_t kept

    def __init__(self, make: Callable[[int], DriverMemory]) -> None:
        self.make, self.idle, self.kept = make, {}, 0
        self.lock = threading.RLock()  # the collector may give a block back while this thread is in `take`

    def take(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """An array of `nbytes` bytes, contents unspecified, which the device can read and write directly.

        Raises
        ------
        OutOfMemoryError
        """
        cdef Py_ssize_t size
        if nbytes == 0:
            return np.empty(0, np.uint8)
        size = max(<Py_ssize_t> SMALLEST, 1 << (nbytes - 1).bit_length())
        memory = None
        with self.lock:
            if self.idle.get(size):
                memory = self.idle[size].pop()
                self.kept -= size
        return np.asarray(Block(self, memory or self.make(size)))[:nbytes]

    cdef int give_back(self, object memory) except -1:
        """Keep a block for the next copy, unless the pool keeps too much already."""
        cdef Py_ssize_t size = memory.nbytes
        with self.lock:
            if self.kept + size <= KEPT:
                self.idle.setdefault(size, []).append(memory)
                self.kept += size
        return 0


cdef class Block:
    """Gives its memory back when the last array made from it is gone."""

    cdef StagingPool pool
    cdef object memory
    cdef readonly dict __array_interface__

    def __init__(self, pool: StagingPool, memory: DriverMemory) -> None:
        self.pool, self.memory = pool, memory
        self.__array_interface__ = {
            "shape": (memory.nbytes,),
            "typestr": "|u1",
            "data": (memory.address, False),
            "version": 3,
        }

    def __del__(self) -> None:
        self.pool.give_back(self.memory)
