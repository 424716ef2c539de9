"""What a capture records: everything that a queue is given, nothing left out, and none of it runs."""

import gc
import threading

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.observer import observe
from tests.helpers.threads import beside, in_thread

from .conftest import SIZE, steps


def test_what_is_captured_does_not_run(queue, step, x, value_of):
    before = queue.epoch, queue.completed, queue.stats
    with queue.capture() as graph:
        assert queue.capturing
        step(queue, x, 1)
        queue.fill(x, 9)
        queue.host(lambda: pytest.fail("it ran"))
    assert not queue.capturing
    assert (queue.epoch, queue.completed, queue.stats) == before
    assert queue.empty
    assert [node.kind for node in graph.nodes] == ["kernel", "fill", "host"]
    assert device_data(value_of(x)) == 0


def test_capture_makes_no_driver_call(device, queue, step, x, y):
    host = np.zeros(SIZE, "u4")
    step(queue, x, 1)
    device.finish()
    with observe(device) as calls, queue.capture():
        step(queue, x, 1)
        queue.copy(y, x)
        queue.copy(x, host)
        queue.fill(x, 1)
        queue.wait(queue.record())
        assert calls.names() == []
    device.finish()


def test_bound_launches_and_the_other_forms(device, queue, kernels, x, value_of, really):
    go = kernels["advance"].bind(queue, 4, 16, x, 1)
    by_value = kernels["gather"].bind(queue, 4, 16, x, np.array([2, 3], "u4").tobytes(), 2)
    with queue.capture() as graph:
        go()
        by_value()
        kernels["advance"][4, 16, queue](x, 5)
        with queue:
            kernels["advance"][4, 16](x, 6)
    del go, by_value
    gc.collect()
    for _ in range(2):
        graph.launch(queue)
    expected = 0
    for _ in range(2):
        expected = steps(1, 2 * 7 + 3, 5, 6, start=expected)
    assert value_of(x) == expected or not really
    assert [node.work.grid for node in graph.nodes] == [(4,)] * 4


def test_a_fork_and_a_join(make_queue, step, kernels, x, y, value_of, really):
    origin, other = make_queue(), make_queue(blocking=False)
    with origin.capture() as graph:
        step(origin, x, 1)
        forked = origin.record()
        other.wait(forked)
        assert other.capturing
        step(other, y, 2)
        joined = other.record()
        step(origin, x, 3)
        origin.wait(joined)
        origin.launch(kernels["combine"], 4, 16, x, y, 0)
    assert not other.capturing
    first, on_other, second, last = graph.nodes
    assert first.dependencies == ()
    assert on_other.dependencies == (first,)
    assert second.dependencies == (first,)
    assert last.dependencies == (second, on_other)
    graph.launch(other)
    other.finish()
    assert value_of(x) == steps(1, 3) * 5 + 2 or not really
    assert not forked.recorded
    assert forked.query()


def test_a_queue_that_only_passed_through_needs_no_join(make_queue, step, x):
    origin, other = make_queue(), make_queue()
    with origin.capture() as graph:
        step(origin, x, 1)
        other.wait(origin)
    assert len(graph.nodes) == 1


@pytest.mark.executes
def test_what_a_host_function_of_a_graph_raises(queue, step, x, value_of, works):
    with queue.capture() as graph:
        step(queue, x, 1)
        queue.host(lambda: 1 / 0)
        step(queue, x, 2)
    graph.launch(queue)
    with pytest.raises(ZeroDivisionError):
        queue.finish()
    assert value_of(x) == steps(1, 2)
    works(queue)


def test_an_empty_capture(device, queue, works):
    with queue.capture() as graph:
        pass
    assert graph.nodes == ()
    epoch = queue.epoch
    graph.launch(queue)
    graph.launch(queue)
    assert queue.epoch == epoch
    works(queue)


def test_a_graph_of_nothing_but_empty_commands(device, queue, works):
    nothing = device.empty(0, "u4")
    with queue.capture() as graph:
        queue.copy(nothing, np.zeros(0, "u4"))
        queue.fill(nothing, 1)
    graph.launch(queue)
    queue.finish()
    works(queue)


def test_an_event_is_after_the_capture_what_it_was_before(queue, step, x, hold):
    gate = hold(queue)
    step(queue, x, 1)
    event = queue.record()
    with queue.capture():
        step(queue, x, 1)
        assert queue.record(event) is event
    assert not event.query()
    gate.open()
    event.wait()
    assert event.query()


def test_an_event_never_recorded_is_no_edge(device, queue, step, x):
    with queue.capture() as graph:
        queue.wait(device.event())
        step(queue, x, 1)
    assert graph.nodes[0].dependencies == ()


def test_timed_events_are_points_like_others(device, make_queue, step, x):
    queue, other = make_queue(timing=True), make_queue()
    with queue.capture() as graph:
        step(queue, x, 1)
        other.wait(queue.record(timing=True))
        queue.wait(other)
        step(queue, x, 1)
    assert len(graph.nodes[1].dependencies) == 1


def test_an_exception_gives_the_capture_up(queue, step, x, works):
    graphs = []

    def interrupted():
        with queue.capture() as graph:
            graphs.append(graph)
            step(queue, x, 1)
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert not queue.capturing
    assert graphs[0].closed
    works(queue)


def test_another_thread_may_add_to_it(queue, step, x, value_of):
    with queue.capture() as graph:
        step(queue, x, 1)
        in_thread(step, queue, x, 2)
        step(queue, x, 3)
    graph.launch(queue)
    assert device_data(value_of(x)) == steps(1, 2, 3)


@pytest.mark.threads
def test_a_capture_that_begins_and_ends_while_others_launch(device, queue, step, x):
    """Whatever a launch meets, it runs or is captured, and none is lost."""
    done = threading.Event()
    launched = []

    def submit():
        while not done.is_set():
            step(queue, x, 1)
            launched.append(1)

    step(queue, x, 1)
    before, captured = queue.stats.launches, 0
    with beside(submit):
        for _ in range(200):
            with queue.capture("relaxed") as graph:
                step(queue, x, 2)
            captured += len(graph) - 1
        done.set()
    assert queue.stats.launches - before + captured == len(launched)
    device.finish()


def test_a_capture_that_is_entered_again_goes_on(queue, step, x):
    capture = queue.capture()
    with capture as graph:
        step(queue, x, 1)
        with pytest.raises(fb.CaptureError, match="is captured already"):
            capture.__enter__()
        step(queue, x, 2)
    assert len(graph.nodes) == 2
