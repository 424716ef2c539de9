"""What a capture records: everything that a queue is given, nothing left out, and none of it runs."""

import _weakrefset
import gc
import linecache
import sys
import threading

import numpy as np
import pytest

import forebay as fb
from forebay.core.errors import CaptureUnjoinedError
from forebay.queues import capture_rules
from forebay.queues.graphs import graph
from tests.helpers.device_data import device_data
from tests.helpers.observer import observe
from tests.helpers.refusals import refused
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


# Launches with arrays of the host in a capture, and with scratch besides


SOURCE = """
kernel void use(global const uint *rows, global uint *room, global uint *out, uint n)
{
    for (uint i = 0; i < n; i++) room[i] = rows[0] + i;
    for (uint i = 0; i < n; i++) out[i] = room[i];
}
"""


@pytest.fixture
def own(device):
    with device.program(SOURCE) as own:
        yield own["use"]


@pytest.mark.executes
def test_arrays_are_read_and_written_when_the_graph_runs(queue, kernels, x, value_of):
    given, written = np.full(SIZE, 1, "u4"), np.full(SIZE, 2, "u4")
    with queue.capture() as graph:
        queue.launch(kernels["advance"], 4, 16, written, 5)
        queue.launch(kernels["combine"], 4, 16, x, given, 0)
    assert [node.kind for node in graph.nodes] == ["copy", "kernel", "copy", "copy", "kernel"]
    assert (written == 2).all()
    for start in (3, 4):
        written[:], given[:] = start, start
        queue.fill(x, 0)
        graph.launch(queue)
        queue.finish()
        assert (written == start * 3 + 5).all()
        assert value_of(x) == start


@pytest.mark.executes
def test_such_graphs_are_like_others(device, queue, kernels):
    """What they have of memory is no node: they are updated, and become parts of others."""

    def captured(array, k):
        with queue.capture() as graph:
            queue.launch(kernels["advance"], 4, 16, array, k)
        return graph

    one, two = np.zeros(SIZE, "u4"), np.zeros(SIZE, "u4")
    graph = captured(one, 1)
    graph.update(captured(two, 2))
    outer = device.graph()
    outer.add_graph(graph)
    outer.launch(queue)
    queue.finish()
    assert (one.tolist(), two.tolist()) == ([0] * SIZE, [2] * SIZE)


def test_arrays_that_cannot_be_copied_leave_the_capture_as_it_was(queue, kernels):
    with queue.capture() as graph, refused(fb.InvalidArgumentError, ValueError, "contiguous"):
        queue.launch(kernels["advance"], 4, 16, np.zeros(2 * SIZE, "u4")[::2], 1)
    assert len(graph) == 0


@pytest.mark.executes
def test_both_at_once(queue, own):
    own.scratch("room", 4 * SIZE)
    rows, out = np.full(4, 9, "u4"), np.zeros(SIZE, "u4")
    with queue.capture() as graph:
        queue.launch(own, 1, 1, rows, out, SIZE)
    graph.launch(queue)
    queue.finish()
    assert out.tolist() == list(range(9, 9 + SIZE))


def test_an_array_for_a_structure_is_no_array_to_copy(device, queue):
    source = "kernel void take(global uint *out, uint2 pair, global uint *room) { room[0] = pair.y; out[0] = room[0]; }"
    with device.program(source) as own:
        own["take"].scratch("room", 4)
        out = device.zeros(1, "u4")
        with queue.capture() as graph:
            queue.launch(own["take"], 1, 1, out, np.array([3, 4], "u4"))
        assert [node.kind for node in graph.nodes] == ["kernel"]
        graph.launch(queue)
        assert device_data(out.get().tolist()) == [4]


# Ctrl-C while a capture begins or ends: afterwards the queue is not captured, and can be captured again


# Captures are compiled: Python looks for signals only in what they call.
OWN = (capture_rules.__file__, graph.__file__, _weakrefset.__file__)


class Interrupter:
    """Raises KeyboardInterrupt before the nth line of Python that begins and ends captures."""

    def __init__(self, turn):
        self.left = turn
        self.locked = set()

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename not in OWN or frame.f_code.co_name in ("__del__", "_remove"):
            return None  # what is raised there comes nowhere
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event in ("call", "line") and not self.leaves_lock(frame, line):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def leaves_lock(self, frame, line):
        """At the end of a `with` its line comes again. Python looks for signals only after the lock was given back."""
        is_lock = line.strip().startswith("with lock")
        known = (id(frame), frame.f_lineno) in self.locked
        if is_lock:
            self.locked.add((id(frame), frame.f_lineno))
        return is_lock and known


def interrupted(turn, function):
    """Run with an interruption at a line; return whether there was one."""
    interrupter = Interrupter(turn)
    before = sys.gettrace()
    sys.settrace(interrupter)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    assert interrupter.left > 0
    return False


def with_block(queue, other, buffer):
    with queue.capture():
        queue.fill(buffer, 1)
        other.wait(queue)
        other.fill(buffer, 2)
        queue.wait(other)


def with_unjoined_block(queue, other, buffer):
    with pytest.raises(CaptureUnjoinedError), queue.capture():  # noqa: PT012
        other.wait(queue)
        other.fill(buffer, 2)


def with_error(queue, other, buffer):
    with pytest.raises(ZeroDivisionError), queue.capture():  # noqa: PT012
        other.wait(queue)
        1 / 0  # noqa: B018


def begin(queue, other, buffer):
    queue.begin_capture()
    sys.settrace(None)
    queue.end_capture()


@pytest.mark.parametrize("run", [with_block, with_unjoined_block, with_error, begin], ids=lambda run: run.__name__)
def test_a_queue_is_not_captured_after_an_interruption_at_any_line(device, make_queue, works, run):
    queue, other, buffer = make_queue(), make_queue(), device.zeros(4, "i4")
    open_before = len(capture_rules.active)
    turn = 0
    while interrupted(turn := turn + 1, lambda: run(queue, other, buffer)):
        assert not queue.capturing, turn
        assert not other.capturing, turn
        assert len(capture_rules.active) == open_before
        with queue.capture() as graph:
            queue.fill(buffer, 3)
        assert len(graph) == 1
        graph.close()
    assert turn > 10
    works(queue)
    works(other)


def test_an_end_that_was_interrupted_has_ended_the_capture_or_can_be_tried_again(device, make_queue, works):
    queue, other, buffer = make_queue(), make_queue(), device.zeros(4, "i4")
    for turn in range(1, 1000):
        queue.begin_capture()
        other.wait(queue)
        other.fill(buffer, 2)
        queue.wait(other)
        if not interrupted(turn, queue.end_capture):
            break
        if queue.capturing:
            assert len(queue.end_capture()) == 1
        assert not other.capturing
        works(queue)
        works(other)
    assert turn > 2
