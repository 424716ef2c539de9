"""Counts turns of what may take long, such as opening a Device: NVIDIA's driver opens one at a time for all."""

import time


def turns(most, least=3, seconds=6):
    """Count up to `most`, and end sooner once that has taken so many seconds, but after `least` turns only."""
    end = time.monotonic() + seconds
    for turn in range(most):
        if turn >= least and time.monotonic() > end:
            return
        yield turn
