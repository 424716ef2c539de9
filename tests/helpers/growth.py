"""How much memory a program takes that goes on and on."""

import statistics
import time
from itertools import pairwise
from pathlib import Path

import pytest

TURNS = 100_000
PARTS = 10
EVERY = 2_000  # turns the device is given time to catch up, or what the driver keeps of commands would be all there is
MIB = 1 << 20
STATUS = Path("/proc/self/status")  # of Linux


def resident():
    """Bytes that the process has made itself. Pages of files, such as libraries, do not count: the system may take them
    away at any time, and they come back when they are used.
    """
    if not STATUS.exists():
        pytest.skip("this system does not say what memory a process has")
    sizes = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return sum(int(sizes[name].split()[0]) for name in ("RssAnon", "RssShmem", "VmSwap")) * 1024


def growth(turn, is_done):
    """Bytes by which the process grows in the second half of many turns, in which nobody waits for the device.

    Of what is kept of each turn, each part of the turns keeps the same: so the median of the parts counts. The driver's
    own memory grows at single places, whenever the device falls further behind than ever before.

    ``is_done()`` only asks how far it is.
    """
    highest = []
    for _ in range(PARTS):
        sizes = []
        for number in range(1, TURNS // PARTS + 1):
            turn()
            if number % EVERY == 0:
                while not is_done():
                    time.sleep(1e-4)
                sizes.append(resident())
        highest.append(max(sizes))
    half = PARTS // 2
    return half * statistics.median(after - before for before, after in pairwise(highest[half - 1 :]))
