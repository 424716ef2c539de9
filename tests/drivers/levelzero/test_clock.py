"""Times of a clock that wraps after minutes."""

import pytest

from forebay.queues.drivers.levelzero.operations import ticks_between

BITS_32 = (1 << 32) - 1
BITS_64 = (1 << 64) - 1


@pytest.mark.parametrize("mask", [BITS_32, BITS_64])
@pytest.mark.parametrize("ticks", [0, 1, -1, 12_000_000, -12_000_000, (1 << 31) - 1, 1 - (1 << 31)])
@pytest.mark.parametrize("first", [0, 5, 1 << 20, BITS_32 - 5])
def test_the_shorter_way_round(first, ticks, mask):
    first &= mask
    assert ticks_between(first, (first + ticks) & mask, mask) == ticks


def test_bits_above_the_valid_ones_do_not_count():
    assert ticks_between(7 << 40 | 3, 9 << 33 | 10, BITS_32) == 7
