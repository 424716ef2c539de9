"""How much memory a program takes that goes on and on."""

import ctypes
import statistics
import sys
import time
from itertools import combinations, pairwise
from pathlib import Path

import pytest

TURNS = 100_000
PARTS = 10
EVERY = 2_000  # turns the device is given time to catch up, or what the driver keeps of commands would be all there is
MIB = 1 << 20
STATUS = Path("/proc/self/status")  # of Linux
OF_PYTHON = 128  # bytes that an object of Python's counts for, which has an allocator of its own
TOUCHED = 16 * MIB  # pages that the allocator has given back to the system and takes again


class MallInfo(ctypes.Structure):
    """As in malloc.h of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def allocated():
    """Bytes that are allocated in the process: by malloc, and by Python."""
    try:
        function = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        pytest.skip("this C library does not say how much is allocated")
    function.restype = MallInfo
    info = function()
    return info.uordblks + info.hblkhd + OF_PYTHON * sys.getallocatedblocks()


def resident():
    """Bytes that the process has made itself. Pages of files, such as libraries, do not count: the system may take them
    away at any time, and they come back when they are used.
    """
    if not STATUS.exists():
        pytest.skip("this system does not say what memory a process has")
    sizes = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return sum(int(sizes[name].split()[0]) for name in ("RssAnon", "RssShmem", "VmSwap")) * 1024


def growth(turn, is_done):
    """Bytes by which the process grows in the second half of many turns, without a wait for the device.

    Each part of the turns keeps as much of each turn, so the median of the parts counts. In a part the least figure
    counts: what the device has outstanding differs by some MiB, and is no growth. The driver's own memory grows at
    single places, when the device falls further behind than ever before. What is not allocated, such as memory of
    devices, shows in the process's pages alone, of which some come back without a need.

    ``is_done()`` only asks how far it is.
    """
    figures = []
    for _ in range(PARTS):
        measured = []
        for number in range(1, TURNS // PARTS + 1):
            turn()
            if number % EVERY == 0:
                while not is_done():
                    time.sleep(1e-4)
                measured.append((allocated(), resident()))
        figures.append([min(each) for each in zip(*measured, strict=True)])
    of_objects, of_pages = (_of_half(list(each)) for each in zip(*figures, strict=True))
    return max(of_objects, of_pages - TOUCHED)


def _of_half(figures):
    """What a part adds, by neighbours, which single places where it grows do not move; and by all pairs of parts, which
    move little with what the device happens to have outstanding. What is kept of each turn is in both.
    """
    half = PARTS // 2
    parts = list(enumerate(figures))[half - 1 :]
    neighbours, pairs = (
        statistics.median((after - before) / (j - i) for (i, before), (j, after) in two)
        for two in (pairwise(parts), combinations(parts, 2))
    )
    return half * min(neighbours, pairs)
