"""`Queue.wait` takes events of dpctl."""

import contextlib
import gc
import threading
from pathlib import Path

import dpctl
import numpy as np
import pytest

import forebay as fb
from tests.helpers.observer import observe
from tests.helpers.refusals import refused

from .conftest import COUNT, LONG, VALUES, steps, usm


@pytest.fixture
def own(device):
    """A queue that nothing but `wait` orders after dpctl's."""
    return device.queue(blocking=False)


def resident():
    """This process's memory, in bytes."""
    return 4096 * int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])


def long_work(queue, device, step, memory):
    """Keep the queue that forebay and dpctl share busy with this memory; return dpctl's event of its end."""
    queue.launch(step, COUNT // 64, 64, device.as_buffer(memory).view("u4"), LONG)
    return queue.native.submit_barrier()


def test_the_next_command_carries_the_wait(queue, device, step, memory, own):
    buffer = device.array(VALUES)
    device.finish()
    event = long_work(queue, device, step, memory)
    with observe(device) as calls:
        own.wait(event)
        assert not own.empty  # the edge is outstanding
        own.launch(step, COUNT // 64, 64, buffer, 1)
        own.launch(step, COUNT // 64, 64, buffer, 1)
        own.finish()
    launches = [len(call.waits) for call in calls.log if call.name == "DPCTLQueue_SubmitNDRange"]
    assert launches == [1, 0]
    assert own.empty


def test_an_event_that_is_done_changes_nothing(sycl_queue, device, own):
    event = sycl_queue.submit_barrier()
    event.wait()
    before = own.stats
    own.wait(event)
    own.wait(dpctl.SyclEvent())
    assert own.empty
    assert (own.stats - before).waits_made == 0


@pytest.mark.parametrize("where", ["", "on a held queue", "in a step"])
def test_later_commands_come_after_the_event_which_may_be_dropped(queue, device, step, memory, own, where):
    """A held queue keeps the wait back with its other commands, and gives it to SYCL when the host function returns."""
    buffer, out = device.as_buffer(memory).view("u4"), device.zeros(COUNT, "u4")
    device.finish()
    section = own.step() if where == "in a step" else contextlib.nullcontext()
    values, go = VALUES, threading.Event()
    for _ in range(4):
        if where == "on a held queue":
            go.clear()
            own.host(go.wait)
        event = long_work(queue, device, step, memory)
        with section:
            own.wait(event)
            del event
            gc.collect()
            own.copy(out, buffer)
        go.set()
        values = steps(values, LONG)
        assert np.array_equal(out.get(queue=own), values)


def test_a_captured_queue_does_not_wait_for_it(queue, device, step, memory, own):
    own.begin_capture()
    event = long_work(queue, device, step, memory)
    with pytest.raises(fb.CaptureIsolationError, match="SyclEvent"):
        own.wait(event)
    with pytest.raises(fb.CaptureError):
        own.end_capture()


def test_a_closed_queue_does_not_wait(sycl_queue, device, own):
    own.close()
    with pytest.raises(fb.ClosedError):
        own.wait(sycl_queue.submit_barrier())


def test_many_waits_leave_nothing(sycl_queue, device, step, own):
    """Each event is its own point, and what is done leaves the queue's clock."""
    buffer, memory, other = device.array(VALUES), usm(sycl_queue), usm(sycl_queue)

    def wait(times):
        for number in range(times):
            own.wait(sycl_queue.memcpy_async(memory, other, 4 * COUNT))
            own.launch(step, 1, 64, buffer, 1)
            if number % 50 == 0:
                own.finish()
        own.finish()

    wait(500)
    before = resident()
    wait(5000)
    assert resident() - before < 8 << 20


@pytest.mark.parametrize("thing", [None, 5, "event", object()])
def test_other_things_are_refused(own, thing):
    words = ("wait() needs an Event or a Queue to come after, not", type(thing).__name__)
    with refused(fb.ArgumentTypeError, TypeError, *words):
        own.wait(thing)


def test_queues_of_other_drivers_refuse_it(sycl_queue):
    words = ("dpctl.SyclEvent", "opencl:cpu:0 waits for no such event")
    with fb.Device("opencl:cpu", private=True) as device, refused(fb.ArgumentTypeError, TypeError, *words):
        device.queue().wait(sycl_queue.submit_barrier())
