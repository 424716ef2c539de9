import copy
import gc
import pickle
import threading
from dataclasses import fields

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.processes import python
from tests.helpers.refusals import refused
from tests.helpers.threads import beside, in_thread

# What a queue is


def test_what_it_says_of_itself(device, make_queue):
    queue = make_queue()
    assert (queue.blocking, queue.is_null, queue.closed, queue.empty, queue.priority) == (True, False, False, True, 0)
    assert queue.device is device
    assert queue.query()
    assert (queue.epoch, queue.completed) == (0, 0)
    assert f"queue {queue.id} of {device.name}" in repr(queue)
    other = make_queue(blocking=False)
    assert not other.blocking
    assert "non-blocking" in repr(other)
    assert "null" in repr(device.null_queue)
    assert device.null_queue.is_null


@pytest.mark.parametrize("priority", [-100, -1, 0, 1, 100, np.int32(-1)])
def test_priorities_are_clamped_to_what_there_is(device, make_queue, works, priority):
    queue = make_queue(priority=priority)
    lowest, highest = min(device.driver.priorities), max(device.driver.priorities)
    assert queue.priority == min(max(int(priority), lowest), highest)
    works(queue)


@pytest.mark.parametrize(
    "options", [{"blocking": 1}, {"blocking": "no"}, {"blocking": None}, {"priority": 1.5}, {"priority": "high"},
                {"priority": None}, {"timing": 1}],
)  # fmt: skip
def test_options_of_the_wrong_type_are_refused(device, refuses, options):
    ((name, value),) = options.items()
    with refuses(fb.ArgumentTypeError, TypeError, name, type(value).__name__):
        device.queue(**options)


def test_queues_are_made_by_a_device_only(queue):
    for arguments in ((), (queue.device,)):
        with refused(fb.ArgumentTypeError, TypeError, "Device.queue"):
            fb.Queue(*arguments)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(queue)


# The thread's current queue


def test_with_makes_it_current_and_nests(device, make_queue):
    first, second = make_queue(), make_queue()
    assert device.current_queue is device.null_queue
    with first as entered:
        assert entered is first
        assert device.current_queue is first
        with second:
            assert device.current_queue is second
            with first:
                assert device.current_queue is first
            assert device.current_queue is second
        assert device.current_queue is first
    assert device.current_queue is device.null_queue
    assert not first.closed
    with pytest.raises(ZeroDivisionError), first:
        1 / 0  # noqa: B018
    assert device.current_queue is device.null_queue


def test_every_thread_has_its_own(device, make_queue):
    first, second = make_queue(), make_queue()

    def other():
        assert device.current_queue is device.null_queue
        with second:
            assert device.current_queue is second
            entered.wait()
            leave.wait()

    entered, leave = threading.Barrier(2), threading.Barrier(2)
    with first, beside(other):
        entered.wait()
        assert device.current_queue is first
        leave.wait()


def test_leaving_one_that_is_not_current_is_refused(make_queue, refuses):
    first, second = make_queue(), make_queue()
    with first:
        with refused(fb.Error, Exception, "current"):
            second.__exit__(None, None, None)
        with refused(fb.Error, Exception, "current"):
            in_thread(first.__exit__, None, None, None)


def test_a_current_queue_that_was_closed_is_refused(device, make_queue, program, works):
    queue = make_queue()
    buffer = device.zeros(1, "i4")
    with queue:
        queue.close()
        for attempt in (lambda: program["fill"][1, 1](buffer, 1), buffer.get, lambda: device.zeros(1)):
            with refused(fb.ClosedError, RuntimeError, "Queue", "closed"):
                attempt()
    works(device.null_queue)


# The per-thread queue


def test_it_is_used_again_when_its_thread_has_ended(device):
    assert device.per_thread_queue is device.per_thread_queue
    assert device.per_thread_queue.blocking
    assert not device.per_thread_queue.is_null
    assert in_thread(lambda: device.per_thread_queue) is not device.per_thread_queue
    with fb.Device(device.name, private=True) as other:
        queues = {in_thread(lambda: other.per_thread_queue) for _ in range(20)}
        assert len(queues) == 1


def test_one_that_was_closed_is_not_handed_on(device, works):
    with fb.Device(device.name, private=True) as other:

        def close():
            other.per_thread_queue.close()
            assert not other.per_thread_queue.closed

        in_thread(close)
        assert not in_thread(lambda: other.per_thread_queue.closed)


# Closing


def uses(queue, null, kernel, buffer):
    """Every way to use a queue: of a closed one, or of a device that was closed."""
    host, event, never = np.zeros(1, "i4"), buffer.device.event(), buffer.device.event()
    null.record(event)
    return (
        kernel.bind(queue, 1, 1, buffer, 1), lambda: queue.launch(kernel, 1, 1, buffer, 1),
        lambda: kernel[1, 1, queue](buffer, 1), lambda: kernel.bind(queue, 1, 1, buffer, 1),
        lambda: queue.copy(buffer, host), lambda: queue.copy(host, buffer), lambda: queue.copy(buffer[:0], host[:0]),
        lambda: queue.fill(buffer, 1), lambda: queue.fill(buffer[:0], 1), lambda: queue.host(print), queue.gate,
        queue.record, lambda: queue.record(never), lambda: queue.wait(event), lambda: queue.wait(never),
        lambda: queue.wait(queue), lambda: queue.wait(null), lambda: null.wait(queue), queue.query, queue.finish,
        lambda: queue.finish(timeout=1), queue.__enter__, lambda: buffer.get(queue=queue),
        lambda: buffer.set(1, queue=queue),
    )  # fmt: skip


def test_a_closed_queue_says_so_whatever_is_asked_of_it(device, make_queue, program, refuses):
    queue = make_queue()
    attempts = uses(queue, device.null_queue, program["fill"], device.zeros(1, "i4"))
    queue.launch(program["nothing"], 1, 1)  # so that it has a plan
    queue.close()
    queue.close()
    assert queue.closed
    for attempt in attempts:
        with refuses(fb.ClosedError, RuntimeError, "Queue", str(queue.id), "closed"):
            attempt()
    assert queue.stats.launches == 1
    assert queue.device is device


def test_the_null_queue_lives_as_long_as_its_device(device, refuses):
    with refuses(fb.InvalidArgumentError, ValueError, "null queue", "Device"):
        device.null_queue.close()


# Devices


def test_a_closed_device_says_so_whatever_is_asked_of_it(device, works):
    with fb.Device(device.name, private=True) as other:
        program = other.program("kernel void one(global int *a, int value) { a[0] = value; }")
        kernel, buffer, null = program["one"], other.zeros(3, "i4"), other.null_queue
        queues = other.queue(), other.per_thread_queue
        attempts = [attempt for queue in queues for attempt in uses(queue, null, kernel, buffer)]
    other.close()
    assert other.closed
    for attempt in (
        *attempts, other.queue, other.event, other.finish, other.__enter__, buffer.get, lambda: other.empty(1),
        lambda: other.zeros(1), lambda: other.array([1]), lambda: other.program(""), lambda: other.null_queue,
        lambda: other.per_thread_queue, lambda: other.current_queue, lambda: fb.host_empty(1, device=other),
    ):  # fmt: skip
        with refused(fb.ClosedError, RuntimeError, "closed"):
            attempt()
    for closable in (*queues, buffer, kernel, program, other):
        closable.close()
        closable.close()
    works(device.null_queue)


def test_a_device_is_kept_by_what_was_made_for_it(device):
    buffer = fb.Device(device.name, private=True).array([1, 2, 3])
    gc.collect()
    assert device_data(buffer.get().tolist()) == [1, 2, 3]
    buffer.device.close()


def test_what_a_device_says_of_itself(device):
    assert device.name == device.info.name
    assert device.name in repr(device)
    assert device.info in fb.devices()
    assert not device.closed
    with refused(fb.Error, Exception, "already"):
        device.__init__()


# Counters


def test_subtracting_gives_what_happened_in_between():
    later, earlier = fb.Stats(launches=5, waits_made=3), fb.Stats(launches=2, copies=0, waits_made=3)
    assert later - earlier == fb.Stats(launches=3)
    assert later - later == fb.Stats()
    with pytest.raises(TypeError):
        later - 1


def test_it_prints_a_line_for_each():
    text = str(fb.Stats(launches=1234567))
    assert len(text.splitlines()) == len(fields(fb.Stats)) + 1
    assert "1,234,567" in text


def test_a_device_counts_queues_that_are_gone(device, program):
    with fb.Device(device.name, private=True) as other:
        kernel = other.program("kernel void nothing(void) { mem_fence(CLK_GLOBAL_MEM_FENCE); }")["nothing"]
        for number in range(5):
            queue = other.queue()
            queue.launch(kernel, 1, 1)
            if number % 2:
                queue.close()
            del queue
            other.finish()
            assert other.stats.launches == number + 1
    assert other.stats.launches == 5


# Finishing with a timeout


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

FINISH_START = """
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
FINISH_END = """
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
    done = python("-c", FINISH_START + code + FINISH_END, FOREBAY_DEVICE=device.name, timeout=120)
    assert (done.stdout.split(), done.stderr, done.returncode) == (["interrupted", "works"], "", 0)
