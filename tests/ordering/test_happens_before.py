"""The checker finds what is wrong: calls made up, and programs whose calls are changed on the way."""

import time

import pytest

from tests.helpers.observer import Call, observe

from .happens_before import OrderError, Recorded, Rules, check
from .program import Program

KINDS = {"launch": "command", "marker": "marker", "barrier": "barrier", "finish": "finish", "gate": "gate",
         "query": "query"}  # fmt: skip


def call(name, queue, waits=(), event=0, detail=0, status=0):
    return Call(name, queue, 0, tuple(waits), event, detail, status, False)


@pytest.fixture
def recorded():
    return Recorded(lambda call: KINDS[call.name])


def test_a_queue_is_in_order(recorded):
    assert recorded.read([call("launch", 1)], 1, 0, 0)[0] == 0
    assert recorded.read([call("launch", 1)], 1, 1, 0)[0] == 0b1
    assert recorded.read([call("launch", 2)], 2, 2, 0)[0] == 0


def test_a_wait_is_an_edge_and_goes_on(recorded):
    recorded.read([call("launch", 1)], 1, 0)
    recorded.read([call("marker", 1, event=7), call("launch", 2, [7])], 2, 1, 0b1)
    assert recorded.read([call("marker", 2, event=8), call("launch", 3, [8])], 3, 2, 0b11)[0] == 0b11


def test_a_failed_call_is_no_edge(recorded):
    recorded.read([call("launch", 1, status=-5)], 1)
    recorded.read([call("launch", 1)], 1, 0)
    with pytest.raises(OrderError, match="submitted nothing"):
        recorded.read([call("launch", 1, status=-5)], 1, 1)


def test_superfluous_waits(recorded):
    recorded.read([call("launch", 1)], 1, 0)
    recorded.read([call("marker", 1, event=7), call("launch", 2, [7])], 2, 1, 0b1)
    with pytest.raises(OrderError, match="adds nothing"):
        recorded.read([call("launch", 2, [7])], 2, 2, 0b11)


def test_a_wait_for_what_is_done(recorded):
    recorded.read([call("launch", 1)], 1, 0)
    recorded.read([call("marker", 1, event=7), call("finish", 1)], 1)
    assert recorded.done == 0b1
    with pytest.raises(OrderError, match="adds nothing"):
        recorded.read([call("launch", 2, [7])], 2, 1, 0b1)


def test_a_wait_nobody_asks_for(recorded):
    recorded.read([call("launch", 1)], 1, 0)
    with pytest.raises(OrderError, match="no rule asks"):
        recorded.read([call("marker", 1, event=7), call("launch", 2, [7])], 2, 1, 0)


def test_superfluous_markers(recorded):
    recorded.read([call("launch", 1)], 1, 0)
    with pytest.raises(OrderError, match="nobody waits"):
        recorded.read([call("marker", 1, event=7), call("launch", 2)], 2, 1, 0b1)
    with pytest.raises(OrderError, match="second marker"):
        recorded.read([call("marker", 1, event=8), call("launch", 2, [8])], 2, 1, 0b1)


def test_an_unknown_event(recorded):
    with pytest.raises(OrderError, match="never signalled"):
        recorded.read([call("launch", 2, [9])], 2, 1, 0b1)
    recorded.read([call("gate", 0, event=9), call("barrier", 2, [9])], 2, 1)


def test_missing_and_extra_order():
    with pytest.raises(OrderError, match=r"operation 3 is not ordered after \[1\]"):
        check(3, main=0b001, must=0b011, may=0b111, done=0)
    check(3, main=0b001, must=0b011, may=0b111, done=0b010)
    with pytest.raises(OrderError, match=r"operation 3 is ordered after \[2\]"):
        check(3, main=0b101, must=0b001, may=0b011, done=0)


def test_the_rules_of_the_null_queue():
    rules = Rules()
    null, a, b = rules.add(0, null=True), rules.add(1), rules.add(2)
    free = rules.add(3, blocking=False)
    assert rules.command(a, 0) == (0, 0)
    assert rules.command(free, 1) == (0, 0)
    assert rules.command(b, 2) == (0, 0)
    assert rules.command(null, 3) == (0b101, 0b101)
    assert rules.command(b, 4) == (0b1101, 0b1101)
    assert rules.command(free, 5) == (0b10, 0b10)
    assert rules.speaks_for(a) == 0b1
    assert rules.speaks_for(null) == 0b11101


@pytest.mark.parametrize("lost", ["waits", "marker"])
def test_a_program_whose_waits_are_lost(device, kernels, lost):
    """The calls of a real program, seen as if the driver had not been given its waits."""
    device.finish()
    with observe(device) as calls:
        program = Program(device, kernels, calls)
        queue = program.queue()
        memory = program.memory()
        program.step(queue, memory, 1)
        take = calls.take

        def without_waits(first):
            made, end = take(first)
            lose = "marker" if lost == "marker" else None
            return [each._replace(waits=()) for each in made if calls.kind(each) != lose], end

        calls.take = without_waits
        with pytest.raises(OrderError, match="nobody waits" if lost == "waits" else "is not ordered after"):
            program.step(program.null, memory, 2)
    device.finish()


def test_a_gate_that_fails_its_check_is_opened_at_the_end(device, kernels):
    device.finish()
    with observe(device) as calls:
        program = Program(device, kernels, calls)
        queue = program.queue()
        calls.take = lambda first: ([], first)
        with pytest.raises(OrderError, match="submitted nothing"):
            program.gate(queue)
        assert len(program.gates) == 1  # `program_on` opens these; its last finish would not return otherwise
        program.gates.popitem()[1].open()
    device.finish()


def test_a_query_of_the_null_queue_orders_nothing(checked):
    free, blocking = checked.queue(blocking=False), checked.queue()
    checked.gate(free)
    checked.wait(blocking, free)
    epoch = checked.null.epoch
    assert not checked.query(checked.null)
    assert checked.null.epoch == epoch
    assert not checked.wait(checked.null, free)


def test_a_queue_with_the_handle_of_one_that_is_gone(checked):
    memory = checked.memory()
    for i in range(20):
        queue = checked.queue()
        checked.step(queue, memory, i)
        checked.forget(queue)
        del queue
        for _ in range(2):  # the first gives the dropped one its last marker
            time.sleep(1e-3)
            checked.queue()
        checked.finish_device()
