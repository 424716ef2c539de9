"""How much memory a program takes that goes on and on."""

import time
from pathlib import Path

import pytest

TURNS = 100_000
EVERY = 2_000  # turns the device is given time to catch up, or what the driver keeps of commands would be all there is
MIB = 1 << 20
STATM = Path("/proc/self/statm")  # of Linux; the second number is the resident pages


def resident():
    if not STATM.exists():
        pytest.skip("this system does not say what memory a process has")
    return int(STATM.read_text().split()[1]) * 4096


def growth(turn, is_done):
    """Bytes by which the process grows in the second half of many turns, in which nobody waits for the device.

    ``is_done()`` only asks how far it is.
    """
    sizes = []
    for number in range(TURNS):
        turn()
        if number % EVERY == EVERY - 1:
            while not is_done():
                time.sleep(1e-4)
            sizes.append(resident())
    half = len(sizes) // 2
    return max(sizes[half:]) - max(sizes[:half])
