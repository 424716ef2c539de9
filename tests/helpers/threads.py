"""Threads of tests, which end or say where they are."""

import faulthandler
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

LIMIT = 120


@contextmanager
def switching(interval):
    """A thread that Python runs goes on for this many seconds before another one that waits for it has its turn."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.fixture
def hurried():
    with switching(1e-5):
        yield


def in_thread(function, *arguments):
    """What it returns in a thread of its own; what it raises is raised."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


@contextmanager
def beside(*functions):
    """Threads that run these meanwhile. They have ended when the block has, and what one raises is raised then.

    Stacks are printed if they do not end.
    """
    errors = []

    def run(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    yield threads
    end = time.monotonic() + LIMIT
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback(all_threads=True)
        pytest.fail(f"not done after {LIMIT} s")
    if errors:
        raise errors[0]


def together(*functions):
    """What they return, which begin at once: see `beside`."""
    barrier, results = threading.Barrier(len(functions)), [None] * len(functions)

    def run(number, function):
        barrier.wait()
        results[number] = function()

    with beside(*[partial(run, *each) for each in enumerate(functions)]):
        pass
    return results
