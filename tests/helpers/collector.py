"""`gc.collect` for tests: what is garbage by then is gone when it returns."""

import gc
import threading
import time

SECONDS = 2  # it may be called by a destructor, in a collection of its own thread, which nothing can wait for
collect_once = gc.collect


def collect(generation=2):
    """Collect as `gc.collect`, which returns at once and collects nothing while another thread does (CPython)."""
    here, began, end = threading.get_ident(), [], time.monotonic() + SECONDS

    def note(phase, _):
        if phase == "start" and threading.get_ident() == here:
            began.append(phase)

    gc.callbacks.append(note)
    try:
        found = collect_once(generation)
        while not began and time.monotonic() < end:
            time.sleep(1e-4)
            found = collect_once(generation)
    finally:
        gc.callbacks.remove(note)
    return found
