"""`gc.collect` for tests: what is garbage by then is gone when it returns."""

import gc
import threading
import time
from collections import Counter

SECONDS = 2  # that another thread's collection may take
collect_once = gc.collect
collecting, collections = set(), Counter()  # threads, and how many collections each has begun


def note(phase, _):
    here = threading.get_ident()
    if phase == "start":
        collecting.add(here)
        collections[here] += 1
    else:
        collecting.discard(here)


gc.callbacks.append(note)


def collect(generation=2):
    """Collect as `gc.collect`, which returns at once and collects nothing while another thread does (CPython)."""
    here = threading.get_ident()
    before, end = collections[here], time.monotonic() + SECONDS
    found = collect_once(generation)
    # A destructor may call it, in a collection of its own thread: nothing can wait for that.
    while collections[here] == before and here not in collecting and time.monotonic() < end:
        time.sleep(1e-4)
        found = collect_once(generation)
    return found
