"""`forebay stats` finds queues that wait for each other without need, and too many that are held."""

import contextlib

import numpy as np
import pytest

import forebay as fb
from forebay.races.checker import watch_uses
from forebay.tracing.findings import OFTEN
from forebay.tracing.queue_waits import APART, HELD


@pytest.fixture
def add(program):
    return program["add"]


@pytest.fixture
def other(device):
    with device.zeros(100, "i4") as other:
        device.finish()
        yield other


def by_queue(waiter, producer):
    waiter.wait(producer)


def by_event(waiter, producer):
    waiter.wait(producer.record())


@pytest.mark.parametrize("wait", [by_queue, by_event])
def test_queues_that_wait_for_each_other_and_share_nothing(find, make_queue, hold, add, buffer, other, wait):
    def run():
        first, second = make_queue(blocking=False), make_queue(blocking=False)
        hold(first), hold(second)
        for turn in range(OFTEN):
            first.launch(add, 10, 10, buffer, turn)
            second.launch(add, 10, 10, other, turn)
            wait(first, second)
            wait(second, first)

    assert find(run) == {APART: 2 * OFTEN}
    assert [habit.waits for habit in find.all] == [2 * OFTEN]


def launches(queue, add, memory):
    queue.launch(add, 10, 10, memory, 1)


def launches_bound(queue, add, memory):
    add.bind(queue, 10, 10, memory, 1)()


def fills(queue, add, memory):
    queue.fill(memory, 1)


def copies_to(queue, add, memory):
    with queue.device.empty(100, "i4") as source:
        queue.copy(memory, source)


def copies_from(queue, add, memory):
    with queue.device.empty(100, "i4") as to:
        queue.copy(to, memory)


def uploads(queue, add, memory):
    queue.copy(memory, np.zeros(100, "i4"))


def downloads(queue, add, memory):
    queue.copy(np.zeros(100, "i4"), memory)


def launches_a_view(queue, add, memory):
    queue.launch(add, 5, 10, memory[50:], 1)


def launches_in_a_step(queue, add, memory):
    with queue.step():
        queue.launch(add, 10, 10, memory, 1)


USES = (
    launches, launches_bound, fills, copies_to, copies_from, uploads, downloads, launches_a_view, launches_in_a_step,
)  # fmt: skip


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_memory_that_both_use_is_a_reason(find, make_queue, add, buffer, other, use):
    def run():
        first, second = make_queue(blocking=False), make_queue(blocking=False)
        for turn in range(OFTEN):
            first.launch(add, 10, 10, buffer, turn)
            second.launch(add, 10, 10, other, turn)
            use(second, add, buffer)
            first.wait(second)
            second.wait(first)
        second.finish()

    assert APART not in find(run)


@contextlib.contextmanager
def for_a_host_function(first, second, add, mine):
    second.host(lambda: None)
    yield


@contextlib.contextmanager
def for_the_host(first, second, add, mine):
    yield
    first.finish()


@contextlib.contextmanager
def in_a_graph(first, second, add, mine):
    graph = first.device.graph()
    graph.add_kernel(add, 10, 10, mine, 1)
    graph.launch(second)
    yield


@pytest.mark.executes(run=False)  # for host functions
@pytest.mark.parametrize("reason", [for_a_host_function, for_the_host, in_a_graph])
def test_an_order_for_something_else(find, make_queue, add, buffer, other, reason):
    def run():
        first, second = make_queue(blocking=False), make_queue(blocking=False)
        for turn in range(OFTEN):
            first.launch(add, 10, 10, buffer, turn)
            second.launch(add, 10, 10, other, turn)
            with reason(first, second, add, other):
                first.wait(second)
                second.wait(first)
        for queue in first, second:
            queue.finish()

    assert APART not in find(run)


def test_the_null_queue_comes_after_blocking_queues_and_may_need_their_order(
    find, device, make_queue, add, buffer, other
):
    def run(uses_null):
        first, second = make_queue(), make_queue()
        for turn in range(OFTEN):
            first.launch(add, 10, 10, buffer, turn)
            second.launch(add, 10, 10, other, turn)
            first.wait(second)
            second.wait(first)
            if uses_null:
                device.null_queue.fill(other, 1)

    assert find(lambda: run(False)) == {APART: 2 * OFTEN}
    assert APART not in find(lambda: run(True))


def test_memory_that_the_other_queue_frees_is_a_reason(find, make_queue, add, other):
    def run():
        first, second = make_queue(blocking=False), make_queue(blocking=False)
        for turn in range(OFTEN):
            second.launch(add, 10, 10, other, turn)
            memory = first.alloc(100, "i4")
            first.launch(add, 10, 10, memory, turn)
            second.wait(event_or_queue=first)
            second.free(memory)
            first.wait(event_or_queue=second)

    assert find(run) == {}


@pytest.mark.parametrize("check", ["", "races"])
def test_a_device_that_is_checked_for_races_is_told_the_same(find, device, check):
    def run():
        with fb.Device(device.name, private=True, check=check) as private:
            first, second = private.queue(blocking=False), private.queue(blocking=False)
            add = private.program("kernel void add(global int *to) { to[get_global_id(0)] += 1; }")["add"]
            memory, other = private.empty(100, "i4"), private.empty(100, "i4")
            for _ in range(OFTEN):
                first.launch(add, 10, 10, memory)
                second.launch(add, 10, 10, other)
                first.wait(second)
                second.wait(first)
            assert second.checked == bool(check)
            found = len(private.races)
            second.launch(add, 10, 10, other)
            first.launch(add, 10, 10, other)
            assert (found, len(private.races)) == (0, int(bool(check)))

    assert find(run) == {}  # both have used `other` in the end


def test_an_order_of_two_others(find, device, make_queue, add, buffer, other):
    """Who comes after one of the two uses memory of one that the other came after. Nothing needs the way back."""

    def run():
        first, second = make_queue(blocking=False), make_queue(blocking=False)
        for turn in range(OFTEN):
            before, after, shared = make_queue(blocking=False), make_queue(blocking=False), device.empty(100, "i4")
            before.launch(add, 10, 10, shared, turn)
            second.wait(before)
            first.launch(add, 10, 10, buffer, turn)
            second.launch(add, 10, 10, other, turn)
            first.wait(second)
            after.wait(first)
            after.launch(add, 10, 10, shared, turn)
            second.wait(first)
        device.finish()

    assert find(run) == {APART: OFTEN}
    assert int(find.all[0].line.rpartition(":")[2]) == run.__code__.co_firstlineno + 11


@pytest.mark.parametrize(("there", "back"), [(OFTEN, 0), (OFTEN, OFTEN - 1)])
def test_waits_in_one_direction_and_a_few(find, make_queue, add, buffer, other, there, back):
    def run():
        first, second = make_queue(blocking=False), make_queue(blocking=False)
        for turn in range(there):
            first.launch(add, 10, 10, buffer, turn)
            second.launch(add, 10, 10, other, turn)
            first.wait(second)
            if turn < back:
                second.wait(first)

    assert find(run) == {}


def test_waits_in_a_capture_are_edges(find, make_queue, add, buffer, other):
    def run():
        first, second = make_queue(blocking=False), make_queue(blocking=False)
        for turn in range(OFTEN):
            first.launch(add, 10, 10, buffer, turn)
            second.launch(add, 10, 10, other, turn)
            second.wait(first)  # in one direction only
            with first.capture():
                second.wait(first)
                first.launch(add, 10, 10, buffer, turn)
                second.launch(add, 10, 10, other, turn)
                first.wait(second)
                second.wait(first)
                first.wait(second)

    assert find(run) == {}


def test_nobody_is_told_what_queues_use_afterwards(find, make_queue, add, buffer):
    first, second = make_queue(blocking=False), make_queue(blocking=False)
    find(lambda: first.wait(second))
    told = []
    watch_uses(lambda queue, uses: told.append(uses))
    try:
        first.launch(add, 10, 10, buffer, 1)
        first._watch(True)
        first.launch(add, 10, 10, buffer, 1)
        first._watch(False)
    finally:
        watch_uses(None)
    assert len(told) == 1
    assert not first.checked
    assert first.device.races == ()


@pytest.mark.needs("Level Zero")
def test_launches_of_a_watched_queue_are_collected_by_its_step(find, make_queue, add, buffer):
    queue = make_queue(blocking=False)
    queue._watch(True)
    step = queue.step()
    for turn in range(4):
        with step:
            for _ in range(5):
                queue.launch(add, 10, 10, buffer, turn)
    assert queue.stats.steps == 4
    assert queue.stats.steps_recorded == 1
    step.close()


# -- held queues


@pytest.fixture
def most(device, monkeypatch):
    """How many may be held: the driver's number, or some where it has none."""
    if device.driver.most_held is None:
        monkeypatch.setattr(device.driver, "most_held", 3)
    return device.driver.most_held


def test_too_many_queues_that_are_held(find, make_queue, most):
    def run(count):
        queues = [make_queue(blocking=False) for _ in range(count)]
        gates = [queue.gate() for queue in queues]
        for gate in gates:
            gate.open()

    assert find(lambda: run(most)) == {}
    assert find(lambda: run(most + 2)) == {HELD.format(held=most + 2, most=most): 1}


def test_queues_that_wait_behind_a_held_one_count(find, make_queue, most, add, buffer):
    def run():
        first, *others = [make_queue(blocking=False) for _ in range(most + 1)]
        gate = first.gate()
        before = first
        for queue in others:  # each behind the one before
            queue.wait(before)
            queue.launch(add, 10, 10, buffer, 1)
            before = queue
        gate.open()

    assert find(run) == {HELD.format(held=most + 1, most=most): 1}


@pytest.mark.executes(run=False)
def test_what_was_opened_or_has_returned_holds_nobody(find, make_queue, most):
    def run():
        for queue in [make_queue(blocking=False) for _ in range(most + 2)]:
            queue.gate().open()
            queue.host(lambda: None)
            queue.finish()

    assert HELD.format(held=most + 2, most=most) not in find(run)


def test_a_gate_that_is_dropped_opens_as_ever(find, make_queue, most, add, buffer):
    def run():
        first, second = make_queue(blocking=False), make_queue(blocking=False)
        first.gate()
        first.launch(add, 10, 10, buffer, 1)
        second.wait(first)
        second.finish()

    assert find(run) == {}


@pytest.mark.executes(run=False)
def test_host_functions_hold_their_queues_and_raise_as_ever(find, make_queue, most):
    def broken():
        raise ValueError("broken")

    def run():
        first, *queues = [make_queue(blocking=False) for _ in range(most + 2)]
        gate = first.gate()
        for queue in queues:
            queue.wait(first)
            queue.host(broken)
        gate.open()
        for queue in queues:
            with pytest.raises(ValueError, match="broken"):
                queue.finish()

    (what,) = find(run)
    assert what == HELD.format(held=most + 2, most=most)
