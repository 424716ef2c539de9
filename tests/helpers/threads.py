"""Threads of tests, which end or say where they are."""

import faulthandler
import sys
import threading
import time

import pytest

LIMIT = 120


@pytest.fixture
def hurried():
    """Threads take turns far more often than they otherwise do."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


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
