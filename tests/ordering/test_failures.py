"""A driver call that fails after waits were gathered: nothing has happened, and others go on."""

import contextlib
import gc

import numpy as np
import pytest

import forebay as fb
from tests.helpers.observer import EXECUTES

from .program import holds


@pytest.fixture
def buffer(device):
    return device.empty(64, "u4")


@pytest.fixture
def busy(device, calls, kernels, buffer, hold):
    """Three blocking queues with a command behind a gate each."""
    queues = [device.queue() for _ in range(3)]
    gates = [hold(queue) for queue in queues]
    for queue in queues:
        launch(queue, kernels, buffer)
    yield queues
    for gate in gates:
        gate.open()


def launch(queue, kernels, buffer, k=1):
    queue.launch(kernels["advance"], 4, 16, buffer, k)


def state_of(queue):
    """All that must not change; markers already made are kept and counted."""
    changing = ("markers_made", "markers_shared", "events_made", "arg_bytes_set", "arg_bytes_skipped")
    stats = {name: value for name, value in vars(queue.stats).items() if name not in changing}
    return queue.epoch, queue.completed, queue.empty, stats


def counts_once_more(queue, before):
    """A marker, a gate and a host function can be several commands to the driver. When one of these fails, the earlier
    ones may be work of the queue, so that it counts as a command; the waits are the next command's.
    """
    epoch, completed, _, _ = before
    return (queue.epoch, queue.completed, queue.empty) == (epoch + 1, completed, False)


def waits_of_next_null_launch(device, kernels, buffer, calls):
    first = len(calls)
    launch(device.null_queue, kernels, buffer)
    (call,) = (call for call in calls.since(first) if call.name == calls.driver.LAUNCH)
    return call.waits


def null_commands(device, kernels, buffer):
    null = device.null_queue
    small = bytes(buffer.nbytes)
    return {
        "LAUNCH": lambda: launch(null, kernels, buffer),
        "ARGUMENT": lambda: launch(null, kernels, buffer, 77),
        "UPLOAD": lambda: null.copy(buffer, small),
        "DOWNLOAD": lambda: null.copy(bytearray(buffer.nbytes), buffer),
        "FILL": lambda: null.fill(buffer, 3),
        "MARKER": null.record,
        "BARRIER": null.finish,
    }


ARGUMENT = pytest.param("ARGUMENT", marks=pytest.mark.needs("arguments set by calls"))


@pytest.mark.parametrize("what", ["LAUNCH", ARGUMENT, "UPLOAD", "DOWNLOAD", "FILL", "MARKER", "BARRIER"])
def test_a_null_command_that_fails_leaves_all_as_it_was(device, kernels, buffer, calls, busy, what):
    name = calls.name_of(what)
    launch(device.null_queue, kernels, buffer)  # its plan and its waits
    for queue in busy:
        launch(queue, kernels, buffer, 2)
    before, alive = state_of(device.null_queue), len(calls.events_alive())
    # Those of the queues that it waits for come first, and where scopes matter one of the point before the waits.
    after = (3 + (device.info.backend == "level_zero")) if what == "MARKER" else 0
    first = len(calls)
    calls.fail(name, calls.driver.FAILURE[0], after)
    with pytest.raises(fb.Error, match=f"{name}.*{calls.driver.FAILURE[1]}"):
        null_commands(device, kernels, buffer)[what]()
    assert [call.name for call in calls.log if call.injected] == [name]
    if what == "MARKER":
        assert counts_once_more(device.null_queue, before)
    else:
        assert state_of(device.null_queue) == before
    # the markers of the three are kept, and that of the null queue's point before what may be held up
    assert len(calls.events_alive()) <= alive + 4
    assert len(waits_of_next_null_launch(device, kernels, buffer, calls)) == 3
    made = [call for call in calls.markers_of(busy, first) if not call.injected]
    assert len(made) == 3  # once for the failed command, then shared
    assert waits_of_next_null_launch(device, kernels, buffer, calls) == ()


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_marker_that_fails_while_gathering_leaves_all_queues_listed(device, kernels, buffer, calls, busy, failing):
    launch(device.null_queue, kernels, buffer, 5)
    for queue in busy:
        launch(queue, kernels, buffer, 2)
    before = state_of(device.null_queue)
    calls.fail(calls.driver.MARKER, calls.driver.FAILURE[0], failing)
    with pytest.raises(fb.Error, match=calls.driver.MARKER):
        launch(device.null_queue, kernels, buffer)
    assert state_of(device.null_queue) == before
    launch(busy[1], kernels, buffer, 3)  # one of them goes on meanwhile
    assert len(waits_of_next_null_launch(device, kernels, buffer, calls)) == 3
    for queue in busy:  # and they enter the list again
        launch(queue, kernels, buffer, 2)
    assert len(waits_of_next_null_launch(device, kernels, buffer, calls)) == 3


@pytest.mark.needs("OpenCL")  # others submit at once
def test_the_flush_of_a_marker_that_fails_leaks_no_event(device, kernels, buffer, calls, busy):
    alive = calls.events_alive()
    calls.fail(calls.driver.FLUSH, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=calls.driver.FLUSH):
        busy[0].record()
    assert calls.events_alive() == alive
    assert len(waits_of_next_null_launch(device, kernels, buffer, calls)) == 3


@pytest.mark.parametrize("what", ["LAUNCH", ARGUMENT, "UPLOAD", "MARKER"])
def test_a_blocking_command_that_fails_still_waits_for_null_next_time(device, kernels, buffer, calls, what, hold):
    name = calls.name_of(what)
    null, queue = device.null_queue, device.queue()
    launch(queue, kernels, buffer)
    queue.finish()
    gate = hold(null)
    launch(null, kernels, buffer)
    before = state_of(queue)
    calls.fail(name, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=name):
        queue.copy(buffer, bytes(256)) if what == "UPLOAD" else launch(queue, kernels, buffer, 9)
    assert state_of(queue) == before
    first = len(calls)
    launch(queue, kernels, buffer, 9)
    (call,) = (call for call in calls.since(first) if call.name == calls.driver.LAUNCH)
    assert len(call.waits) == 1
    assert queue.stats.waits_made == 1
    gate.open()


def test_a_failed_command_keeps_waits_that_wait_to_be_carried(device, kernels, buffer, calls, busy):
    upload, queue = calls.name_of("UPLOAD"), device.queue(blocking=False)
    for other in busy:
        queue.wait(other)
    launch_fails = (calls.driver.LAUNCH, lambda: launch(queue, kernels, buffer))
    copy_fails = (upload, lambda: queue.copy(buffer, bytes(256)))
    marker_fails = (calls.driver.MARKER, queue.record)
    query_fails = ((calls.driver.MARKER, calls.driver.BARRIER), queue.query)  # whichever the driver takes
    barrier_fails = (calls.driver.BARRIER, queue.finish)
    hold_fails = (calls.driver.HOLD, queue.gate)
    gate_fails = (calls.driver.GATE, queue.gate)
    for name, command in (
        launch_fails, copy_fails, marker_fails, query_fails, barrier_fails, hold_fails, gate_fails
    ):  # fmt: skip
        before, alive = state_of(queue), calls.events_alive()
        calls.fail(name, calls.driver.FAILURE[0])
        with pytest.raises(fb.Error, match=name if isinstance(name, str) else "|".join(name)):
            command()
        calls.forgive()
        if command == queue.gate:
            assert counts_once_more(queue, before)
        else:
            assert state_of(queue) == before
        assert calls.events_alive() == alive
    first = len(calls)
    launch(queue, kernels, buffer)
    (call,) = (call for call in calls.since(first) if call.name == calls.driver.LAUNCH)
    assert len(call.waits) == 3


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


@pytest.mark.parametrize("ask", ["query", "event", "timeout"])
def test_asking_in_vain_is_no_answer(device, kernels, buffer, calls, hold, ask):
    held, queue = device.queue(blocking=False), device.queue(blocking=False)
    gate = hold(held)
    queue.wait(held)
    launch(queue, kernels, buffer)
    event = queue.record()
    calls.fail((calls.driver.QUERY, calls.driver.FINISH), calls.driver.FAILURE[0])  # whichever the driver asks by
    with pytest.raises(fb.Error, match=calls.driver.FAILURE[1]):
        {"query": queue.query, "event": event.query, "timeout": lambda: queue.finish(timeout=1)}[ask]()
    calls.forgive()
    assert not queue.empty
    assert not held.empty
    assert not event.query()
    gate.open()
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


@pytest.mark.executes
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
    assert [int(out.get(queue=queue)[0]) for out in outs] == list(range(100))


def test_a_query_that_fails_is_no_failure_of_the_command(device, kernels, buffer, calls):
    queue = device.queue(blocking=False)
    launch(queue, kernels, buffer)
    event = queue.record()
    calls.fail(calls.driver.QUERY, calls.driver.FAILURE[0])
    with pytest.raises(fb.DriverError, match=f"{calls.driver.QUERY} failed") as caught:
        event.query()
    assert (caught.value.call, caught.value.name) == (calls.driver.QUERY, calls.driver.FAILURE[1])
    event.wait()
    assert event.query()


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


def test_a_bound_launch_that_fails(device, kernels, buffer, calls, busy):
    null = device.null_queue
    bound = kernels["advance"].bind(null, 4, 16, buffer, 1)
    before = state_of(null)
    calls.fail(calls.driver.LAUNCH, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=calls.driver.LAUNCH):
        bound()
    assert state_of(null) == before
    first = len(calls)
    bound()
    (call,) = (call for call in calls.since(first) if call.name == calls.driver.LAUNCH)
    assert len(call.waits) == 3


@pytest.mark.parametrize("what", ["GATE", "MARKER", "HOLD", "HOST_FUNCTION"])
def test_a_host_function_that_fails_does_not_run_and_holds_nothing(device, kernels, buffer, calls, what):
    name = calls.name_of(what)
    queue = device.queue(blocking=False)
    launch(queue, kernels, buffer)
    before, alive = state_of(queue), calls.events_alive()
    ran = []
    calls.fail(name, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=name if isinstance(name, str) else "|".join(name)):
        queue.host(lambda: ran.append(1))
    calls.forgive()
    if what == "MARKER":  # that of the point before it
        assert state_of(queue) == before
    else:
        assert counts_once_more(queue, before)
    # The marker of the point before it; and a gate that the queue may not be past is not used again.
    assert len(calls.events_alive()) - len(alive) <= 1 + (what == "MARKER") * calls.driver.GATE_MARKERS
    launch(queue, kernels, buffer)
    queue.host(lambda: ran.append(2))
    queue.finish()
    assert ran == [2]


GIVEN = {"marker", "barrier", "command"}
NEVER_MADE = {
    "record": {"BARRIER", "HOST_FUNCTION"}, "timed record": {"HOST_FUNCTION"}, "gate": {"HOST_FUNCTION"}
}  # fmt: skip


@pytest.mark.threads  # the host thread's
@pytest.mark.parametrize("command", ["record", "timed record", "gate", "host function", "graph"])
@pytest.mark.parametrize("what", ["MARKER", "BARRIER", "HOST_FUNCTION", "FLUSH"])
def test_what_a_failed_call_left_in_a_queue_keeps_it(device, kernels, buffer, calls, hold, command, what):
    """A queue is handed on, or ended, after all that its driver was given, also by a call that then failed."""
    name = calls.name_of(what)
    if name is None:
        pytest.skip("this driver submits at once")
    gate = hold(device.null_queue)
    launch(device.null_queue, kernels, buffer)
    graph = device.graph()
    graph.add_host(int, after=[graph.add_host(int), graph.add_kernel(kernels["advance"], 4, 16, buffer, 1)])
    executable = graph.instantiate()
    failed = 0
    timing = command == "timed record"
    for after in range(8):
        queue = device.queue(timing=timing)
        run = {
            "record": queue.record,
            "timed record": lambda queue=queue: queue.record(timing=True),
            "gate": queue.gate,
            "host function": lambda queue=queue: queue.host(int),
            "graph": lambda queue=queue: executable.launch(queue),
        }[command]
        first, handle = len(calls), calls.handle_of(queue)
        calls.fail(name, calls.driver.FAILURE[0], after)
        with contextlib.suppress(fb.Error):
            run()
        calls.forgive()
        made = calls.since(first)
        failed += any(call.injected for call in made)
        given = any(call.object == handle and not call.injected and calls.kind(call) in GIVEN for call in made)
        assert not given or not queue.empty
        del queue, run
        gc.collect()
        others = [device.queue(timing=timing) for _ in range(3)]
        assert not given or handle not in map(calls.handle_of, others)
        ended = [call.object for call in calls.since(first) if call.name == calls.driver.RELEASE_QUEUE]
        assert not given or handle not in ended
        del others
    gate.open()
    device.finish()
    own = calls.driver.HOLD != calls.driver.BARRIER  # a gate is the driver's own, or it keeps a list: no barriers
    assert failed or what in NEVER_MADE.get(command, ()) or own


def test_other_queues_go_on_after_a_failure(device, kernels, buffer, calls):
    queues = [device.queue(blocking=False) for _ in range(3)]
    buffers = [device.zeros(64, "u4") for _ in queues]
    device.finish()
    failed = 0
    for k in range(60):
        if k % 10 == 3:
            calls.fail(calls.driver.LAUNCH, calls.driver.FAILURE[0])
        try:
            launch(queues[k % 3], kernels, buffers[k % 3], 1)
        except fb.Error:
            failed += 1
    assert failed == 6
    device.finish()
    assert sum(queue.epoch for queue in queues) == 54 == sum(queue.stats.launches for queue in queues)
    if not EXECUTES:
        return
    total = 0
    for each in buffers:
        value, launches = int(each.get()[0]), 0
        while value:
            value, launches = (value - 1) // 3, launches + 1
        total += launches
    assert total == 54


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
