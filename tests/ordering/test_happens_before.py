"""The checker finds what is wrong: calls made up, and programs whose calls are changed on the way."""

import time

import pytest

from tests.helpers.observer import observe

from .happens_before import OrderError
from .program import Program


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
        with pytest.raises(OrderError, match="no command waits" if lost == "waits" else "is not ordered after"):
            program.step(program.null, memory, 2)
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
