"""Host memory for staging copies: for a copy from pageable memory the driver would make the calling thread wait."""

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from forebay.core.driver import DriverMemory

SMALLEST = 1 << 12
KEPT = 64 << 20  # the pool keeps at most this many bytes for the next copies


class StagingPool:
    """Blocks of host memory, in powers of two. A block is used again once its array has no references left.

    Parameters
    ----------
    make
        Allocates so many bytes of host memory which the device reads and writes directly.
    """

    def __init__(self, make: Callable[[int], DriverMemory]) -> None:
        self._make = make
        self._idle: dict[int, list[DriverMemory]] = defaultdict(list)
        self._kept = 0
        self._lock = threading.RLock()  # the collector may run `give_back` while this thread is in `take`

    def take(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """An array of `nbytes` bytes, contents unspecified, which the device can read and write directly.

        Raises
        ------
        OutOfMemoryError
        """
        if nbytes == 0:
            return np.empty(0, np.uint8)
        size = max(SMALLEST, 1 << (nbytes - 1).bit_length())
        with self._lock:
            idle = self._idle[size]
            memory = idle.pop() if idle else None
            self._kept -= size if memory is not None else 0
        return np.asarray(_Block(self, memory or self._make(size)))[:nbytes]

    def give_back(self, memory: DriverMemory) -> None:
        """Keep a block for the next copy, unless the pool keeps too much already."""
        with self._lock:
            if self._kept + memory.nbytes <= KEPT:
                self._idle[memory.nbytes].append(memory)
                self._kept += memory.nbytes


cdef class _Block:
    """Gives its memory back when the last array made from it is gone.

    Compiled, because Python delivers a Ctrl-C at the beginning of the next function in Python: that would be `__del__`
    at the end of each copy that waited, and what `__del__` raises is lost.
    """

    cdef object pool, memory
    cdef readonly dict __array_interface__

    def __init__(self, pool, memory):
        self.pool, self.memory = pool, memory
        self.__array_interface__ = {
            "shape": (memory.nbytes,),
            "typestr": "|u1",
            "data": (memory.address, False),
            "version": 3,
        }

    def __del__(self):
        self.pool.give_back(self.memory)
