"""Driver calls that fail beside commands: waits, queries, arguments and gates. `tests.themes` has those of commands."""

import contextlib
import gc

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data

from .program import holds, launch


def test_a_failed_finish_is_no_finish(device, kernels, buffer, calls):
    queue = device.queue(blocking=False)
    launch(queue, kernels, buffer)
    calls.fail(calls.driver.FINISH, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=calls.driver.FINISH):
        queue.finish()
    assert not queue.empty
    event = queue.record()
    calls.fail(calls.driver.WAIT, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=calls.driver.WAIT):
        event.wait()
    assert not queue.empty
    event.wait()
    assert queue.empty


def test_a_device_whose_finish_fails_has_waited_for_all_queues(device, kernels, buffer, calls, hold):
    """The driver may return from it as soon as one command has failed."""
    queues = [device.queue(blocking=k % 2 == 0) for k in range(4)]
    for queue in queues:
        launch(queue, kernels, buffer)
    calls.fail(calls.driver.WAIT, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=calls.driver.WAIT):
        device.finish()
    assert all(queue.empty for queue in queues)
    device.finish()


def test_a_read_that_fails_keeps_no_events(device, kernels, buffer, calls, hold):
    """Its wait for all that writes to the memory, of which not all can be marked."""
    queues = [device.queue(blocking=False) for _ in range(2)]
    for queue in queues:
        hold(queue)
    alive = len(calls.events_alive())
    for _ in range(20):
        for queue in queues:
            launch(queue, kernels, buffer)
        calls.fail(calls.driver.MARKER, calls.driver.FAILURE[0], after=1)
        with pytest.raises(fb.Error, match=calls.driver.MARKER):
            buffer.get()
    assert len(calls.events_alive()) <= alive + 4


@pytest.mark.parametrize("ask", ["query", "event", "timeout"])
def test_asking_in_vain_is_no_answer(device, kernels, buffer, calls, hold, ask):
    held, queue = device.queue(blocking=False), device.queue(blocking=False)
    gate = hold(held)
    queue.wait(held)
    launch(queue, kernels, buffer)
    event = queue.record()
    calls.fail((calls.driver.QUERY, calls.driver.FINISH), calls.driver.FAILURE[0])  # whichever the driver asks by
    with pytest.raises(fb.DriverError, match=calls.driver.FAILURE[1]) as caught:
        {"query": queue.query, "event": event.query, "timeout": lambda: queue.finish(timeout=1)}[ask]()
    assert caught.value.call in (calls.driver.QUERY, calls.driver.FINISH)
    assert (caught.value.name, f"{caught.value.call} failed" in str(caught.value)) == (calls.driver.FAILURE[1], True)
    calls.forgive()
    assert not queue.empty
    assert not held.empty
    assert not event.query()
    gate.open()
    event.wait()
    assert event.query()
    queue.finish()
    assert queue.empty
    assert held.empty


def test_memory_of_a_copy_is_kept_while_nobody_knows_whether_it_is_done(device, pins, buffer, calls, hold):
    """Or the copy would write to memory that the host has freed."""
    queue = device.queue(blocking=False)
    gate = hold(queue)
    to = fb.host_empty(64, "u4", device=device)
    queue.copy(to, buffer)
    del to
    for _ in range(3):
        calls.fail(calls.driver.QUERY, calls.driver.FAILURE[0])
        device.empty(1).close()  # gives back what is done
        gc.collect()
        assert pins() == 1
    assert [call.name for call in calls.log if call.injected] == [calls.driver.QUERY] * 3
    calls.forgive()
    gate.open()
    queue.finish()
    gc.collect()
    assert pins() == 0


def test_bytes_by_value_are_kept_while_nobody_knows_whether_they_were_read(device, calls, hold):
    kernel = device.program("kernel void first(global int *out, global const int *in) { out[0] = in[0]; }")["first"]
    queue = device.queue(blocking=False)
    outs = [device.empty(1, "i4") for _ in range(100)]
    gate = hold(queue)
    for i, out in enumerate(outs):
        calls.fail(calls.driver.QUERY, calls.driver.FAILURE[0])
        queue.launch(kernel, 1, 1, out, np.full(1024, i, "i4").tobytes())
    calls.forgive()
    gate.open()
    queue.finish()
    assert [device_data(int(out.get(queue=queue)[0])) for out in outs] == list(range(100))


@pytest.mark.needs("arguments set by calls")
def test_the_argument_being_set_is_unknown_after_a_failure(device, kernels, buffer, calls):
    queue = device.queue(blocking=False)
    launch(queue, kernels, buffer, 1)
    queue.finish()
    buffer.set(1)
    device.finish()
    calls.fail(calls.driver.ARGUMENT, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=calls.driver.ARGUMENT + r".*argument 1 \(uint k\)"):
        launch(queue, kernels, buffer, 2)
    first = len(calls)
    launch(queue, kernels, buffer, 1)  # what it was before: set again all the same
    assert calls.names(first) == [calls.driver.ARGUMENT, calls.driver.LAUNCH]
    assert holds(buffer, 4, queue)


def test_arguments_set_before_a_failed_launch_stay_known(device, kernels, buffer, calls):
    queue = device.queue(blocking=False)
    launch(queue, kernels, buffer, 1)
    calls.fail(calls.driver.LAUNCH, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=calls.driver.LAUNCH):
        launch(queue, kernels, buffer, 2)
    first = len(calls)
    launch(queue, kernels, buffer, 2)
    assert calls.names(first) == [calls.driver.LAUNCH]


@pytest.mark.parametrize("what", ["GATE", "MARKER", "HOLD", "HOST_FUNCTION"])
def test_a_host_function_that_fails_does_not_run_and_holds_nothing(device, kernels, buffer, calls, what):
    name = calls.name_of(what)
    queue = device.queue(blocking=False)
    launch(queue, kernels, buffer)
    alive, ran = calls.events_alive(), []
    calls.fail(name, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=name if isinstance(name, str) else "|".join(name)):
        queue.host(lambda: ran.append(1))
    calls.forgive()
    # The marker of the point before it; and a gate that the queue may not be past is not used again.
    assert len(calls.events_alive()) - len(alive) <= 1 + (what == "MARKER") * calls.driver.GATE_MARKERS
    launch(queue, kernels, buffer)
    queue.host(lambda: ran.append(2))
    queue.finish()
    assert ran == [2]


def test_a_failed_gate_ends_what_is_behind_it_and_nothing_else(device, kernels, buffer, hold):
    if device.info.platform == "Portable Computing Language":
        pytest.skip("PoCL 3.1 aborts the process when a user event is set to an error (pocl_update_event_failed)")
    held, other = device.queue(blocking=False), device.queue(blocking=False)
    gate = hold(held)
    launch(held, kernels, buffer)
    gate.open(failed=True)
    second = device.zeros(64, "u4")
    device.null_queue.finish()
    launch(other, kernels, second)
    other.finish()
    assert holds(second, 1, other)
    with contextlib.suppress(fb.DriverError):  # where nobody has heard of the failure, closing the Device would tell it
        held.finish()
