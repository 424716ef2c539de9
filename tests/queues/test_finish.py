import numpy as np
import pytest

import forebay as fb
from tests.helpers.processes import python
from tests.helpers.refusals import refused


@pytest.mark.executes
def test_a_timeout_that_passes_leaves_the_queue_as_it_was(device, queue, hold, works, program):
    buffer = device.zeros(10, "i4")
    device.finish()
    gate = hold(queue)
    queue.launch(program["fill"], 1, 10, buffer, 4)
    before = queue.epoch
    for timeout in (0, 0.01, np.float32(0.01), -1):
        with refused(fb.TimeoutError, TimeoutError, "Queue", str(queue.id)):
            queue.finish(timeout=timeout)
    assert queue.epoch == before
    assert not queue.closed
    queue.launch(program["add"], 1, 10, buffer, 1)
    gate.open()
    queue.finish(timeout=60)
    assert queue.empty
    assert buffer.get(queue=queue).tolist() == [5] * 10
    works(queue)


@pytest.mark.executes
def test_a_timeout_of_the_null_queue_is_for_the_blocking_queues_too(device, queue, hold):
    gate = hold(queue)
    with refused(fb.TimeoutError, TimeoutError, "null queue"):
        device.null_queue.finish(timeout=0.01)
    gate.open()
    device.null_queue.finish(timeout=60)
    assert queue.empty


@pytest.mark.parametrize("timeout", ["1", [], object(), 1j])
def test_a_timeout_of_the_wrong_type_is_refused(queue, refuses, timeout):
    with refuses(fb.ArgumentTypeError, TypeError, "timeout", type(timeout).__name__):
        queue.finish(timeout=timeout)


def test_a_timeout_that_is_no_number_is_refused(queue, refuses):
    with refuses(fb.InvalidArgumentError, ValueError, "timeout", "nan"):
        queue.finish(timeout=float("nan"))


# Ctrl-C, in a process of its own

START = """
import os, signal, threading
import forebay as fb
device = fb.Device()
program = device.program("kernel void fill(global int *a, int v) { a[get_global_id(0)] = v; }")
queue, buffer = device.queue(), device.zeros(10, "i4")
device.finish()
gate = queue.gate()
queue.launch(program["fill"], 1, 10, buffer, 3)

def interrupt_when(began):
    def run():
        while not began():
            pass
        os.kill(os.getpid(), signal.SIGINT)
        after()
    threading.Thread(target=run).start()
"""
END = """
gate.open()
assert buffer.get(queue=queue).tolist() == [3] * 10
queue.launch(program["fill"], 1, 10, buffer, 4)
assert buffer.get(queue=queue).tolist() == [4] * 10
print("works")
"""


@pytest.mark.executes
@pytest.mark.parametrize(("what", "began", "after"), [
    ("queue.finish(timeout=1000)", "queue.stats.markers_made", "lambda: None"),
    *[(what, "device.stats.host_syncs", "gate.open") for what in
      ("queue.finish()", "device.finish()", "queue.record().wait()", "buffer.get(queue=queue)")],
])  # fmt: skip
def test_ctrl_c_ends_a_timeout_at_once_and_is_delivered_when_another_wait_returns(device, what, began, after):
    code = f"""
after, before = {after}, {began}
interrupt_when(lambda: {began} > before)
try:
    {what}
    for _ in range(1000):
        pass
except KeyboardInterrupt:
    assert queue.query() == (after == gate.open)
    print("interrupted")
"""
    done = python("-c", START + code + END, FOREBAY_DEVICE=device.name, timeout=120)
    assert (done.stdout.split(), done.stderr, done.returncode) == (["interrupted", "works"], "", 0)
