"""Threads of tests, which end or say where they are."""

import faulthandler
import sys
import threading
import time
from contextlib import contextmanager

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


def together(*functions):
    """Run all at once and return when all have; what one raises is raised. Stacks are printed if they do not end."""
    barrier = threading.Barrier(len(functions))
    errors = []

    def run(function):
        try:
            barrier.wait()
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    end = time.monotonic() + LIMIT
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback(all_threads=True)
        pytest.fail(f"not done after {LIMIT} s")
    if errors:
        raise errors[0]
