import copy
import pickle

import numpy as np
import pytest

import forebay as fb
from tests.helpers.refusals import refused


def test_it_does_what_a_launch_does(device, queue, program, really):
    buffer = device.zeros(100, "i4")
    go = program["add"].bind(queue, 10, 10, buffer, 3)
    for _ in range(7):
        assert go() is None
    assert buffer.get(queue=queue).tolist() == [21] * 100 or not really
    assert queue.stats.launches == 7
    assert "'add'" in repr(go)
    assert go.queue is queue
    assert go.kernel is program["add"]
    assert go.arguments == (buffer, 3)


def test_binding_submits_nothing(device, queue, program):
    buffer = device.zeros(1, "i4")
    program["fill"].bind(queue, 1, 1, buffer, 3)
    assert (queue.epoch, queue.stats.launches) == (0, 0)


def test_it_counts_as_a_command(device, queue, program, hold, really):
    buffer = device.zeros(10, "i4")
    device.finish()
    go = program["fill"].bind(queue, 1, 10, buffer, 3)
    gate = hold(queue)
    before = queue.epoch
    go()
    assert queue.epoch == before + 1
    assert not queue.query() or not really
    gate.open()
    queue.finish()
    assert queue.empty


@pytest.mark.parametrize("bound_first", [True, False])
def test_it_obeys_the_null_queue(device, queue, program, hold, bound_first, really):
    buffer = device.zeros(10, "i4")
    device.finish()
    on_null = program["add"].bind(device.null_queue, 1, 10, buffer, 1)
    here = program["fill"].bind(queue, 1, 10, buffer, 5)
    gate = hold(queue if bound_first else device.null_queue)
    for go in (here, on_null) if bound_first else (on_null, here):
        go()
    assert not queue.query() or not really
    assert not device.null_queue.query() or not really
    gate.open()
    assert buffer.get().tolist() == [6 if bound_first else 5] * 10 or not really


@pytest.mark.executes
def test_each_has_its_own_arguments(device, queue, program):
    buffers = [device.zeros(10, "i4") for _ in range(10)]
    bound = [program["fill"].bind(queue, 1, 10, buffer, value) for value, buffer in enumerate(buffers)]
    queue.launch(program["fill"], 1, 10, buffers[0], -1)
    for go in reversed(bound):
        go()
    for value, buffer in enumerate(buffers):
        assert buffer.get(queue=queue).tolist() == [value] * 10


@pytest.mark.executes
def test_arguments_are_read_when_it_is_bound(device, queue, program):
    value = np.array([1, 2, 3], "f4")
    result = device.zeros(3, "f4")
    go = program["take_float3"].bind(queue, 1, 1, result, value)
    value[:] = 0
    go()
    assert result.get(queue=queue).tolist() == [1, 2, 3]


def test_it_sets_its_arguments_once(device, queue, program):
    buffer = device.zeros(10, "i4")
    before = queue.stats
    go = program["fill"].bind(queue, 1, 10, buffer, 3)
    assert (queue.stats - before).arg_bytes_set == 12
    go()
    go()
    counted = queue.stats - before
    assert (counted.arg_bytes_set, counted.arg_bytes_skipped, counted.launches) == (12, 24, 2)


@pytest.mark.executes
def test_it_keeps_what_it_uses(device, make_queue, program):
    go = program["fill"].bind(device.queue(), 10, 10, device.zeros(100, "i4"), 3)
    pressure = [device.zeros(100, "i4") for _ in range(16)]
    go()
    buffer = go.arguments[0]
    assert buffer.get(queue=go.queue).tolist() == [3] * 100
    assert not any(other.get().any() for other in pressure)


@pytest.mark.executes
def test_it_may_be_dropped_in_flight(device, queue, program, hold):
    buffer = device.zeros(10, "i4")
    device.finish()
    gate = hold(queue)
    program["fill"].bind(queue, 1, 10, buffer, 3)()
    gate.open()
    assert buffer.get(queue=queue).tolist() == [3] * 10


def test_after_its_buffer_was_closed(device, queue, program, refuses):
    buffer, other = device.zeros(10, "i4"), device.zeros(10, "i4")
    go = program["copy"].bind(queue, 1, 10, other, buffer[:])
    go()
    device.zeros(3).close()  # another buffer's end is nothing to it
    go()
    buffer.close()
    for _ in range(2):
        with refuses(fb.ClosedError, RuntimeError, "'copy'", "argument 1", "int* from", "closed"):
            go()


def test_after_its_queue_was_closed(device, make_queue, program, works):
    queue = make_queue()
    go = program["fill"].bind(queue, 1, 10, device.zeros(10, "i4"), 3)
    queue.close()
    for _ in range(2):
        with refused(fb.ClosedError, RuntimeError, "Queue", str(queue.id), "closed"):
            go()
    works(device.null_queue)


@pytest.mark.parametrize(
    ("grid", "block", "arguments", "kind", "builtin"),
    [(0, 1, (fb.NULL, 1), fb.InvalidArgumentError, ValueError), (1, 1, (fb.NULL,), fb.ArgumentTypeError, TypeError),
     (1, 1, (fb.NULL, 1.5), fb.ArgumentTypeError, TypeError),
     (1, 1, (fb.NULL, 1 << 40), fb.InvalidArgumentError, ValueError),
     (1, "x", (fb.NULL, 1), fb.ArgumentTypeError, TypeError)],
)  # fmt: skip
def test_bad_arguments_are_found_when_it_is_bound(queue, program, refuses, grid, block, arguments, kind, builtin):
    with refuses(kind, builtin, "'fill'"):
        program["fill"].bind(queue, grid, block, *arguments)


def test_it_takes_no_arguments(device, queue, program):
    go = program["fill"].bind(queue, 1, 1, device.zeros(1, "i4"), 3)
    with pytest.raises(TypeError):
        go(5)


def test_it_is_made_by_bind_only(device, queue, program):
    with refused(fb.ArgumentTypeError, TypeError, "Kernel.bind"):
        fb.BoundLaunch()
    go = program["nothing"].bind(queue, 1, 1)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(go)
