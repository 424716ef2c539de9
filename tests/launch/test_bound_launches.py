import copy
import pickle

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused


def test_it_does_what_a_launch_does(device, queue, program, hold, really):
    """Each has its own arguments, read when it is bound and set once."""
    buffers = [device.zeros(10, "i4") for _ in range(10)]
    device.finish()
    before = queue.stats
    bound = [program["fill"].bind(queue, 1, 10, buffer, value) for value, buffer in enumerate(buffers)]
    assert queue.epoch == 0
    assert (queue.stats - before).arg_bytes_set == 12 * 10
    gate = hold(queue)
    for go in [*bound, *reversed(bound)]:
        epoch = queue.epoch
        assert go() is None
        assert queue.epoch == epoch + 1
    assert not queue.query() or not really
    counted = queue.stats - before
    assert (counted.arg_bytes_set, counted.arg_bytes_skipped, counted.launches) == (12 * 10, 24 * 10, 20)
    go = bound[3]
    assert (go.queue, go.kernel, go.arguments) == (queue, program["fill"], (buffers[3], 3))
    assert "'fill'" in repr(go)
    del bound, go  # in flight
    gate.open()
    for value, buffer in enumerate(buffers):
        assert buffer.get(queue=queue).tolist() == [value] * 10 or not really
    queue.finish()
    assert queue.empty
    value, result = np.array([1, 2, 3], "f4"), device.zeros(3, "f4")
    go = program["take_float3"].bind(queue, 1, 1, result, value)
    value[:] = 0
    go()
    assert result.get(queue=queue).tolist() == [1, 2, 3] or not really


def test_it_keeps_what_it_uses(device, make_queue, program):
    go = program["fill"].bind(device.queue(), 10, 10, device.zeros(100, "i4"), 3)
    pressure = [device.zeros(100, "i4") for _ in range(16)]
    go()
    buffer = go.arguments[0]
    assert device_data(buffer.get(queue=go.queue).tolist()) == [3] * 100
    assert all((device_data(other.get()) == 0).all() for other in pressure)


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


def test_what_is_refused(queue, program, refuses):
    type_error, value_error = (fb.ArgumentTypeError, TypeError), (fb.InvalidArgumentError, ValueError)
    for grid, block, arguments, kinds in (
        (0, 1, (fb.NULL, 1), value_error), (1, 1, (fb.NULL,), type_error), (1, 1, (fb.NULL, 1.5), type_error),
        (1, 1, (fb.NULL, 1 << 40), value_error), (1, "x", (fb.NULL, 1), type_error),
    ):  # fmt: skip
        with refuses(*kinds, "'fill'"):
            program["fill"].bind(queue, grid, block, *arguments)
    with refused(*type_error, "Kernel.bind"):
        fb.BoundLaunch()
    go = program["nothing"].bind(queue, 1, 1)
    for attempt in (lambda: go(5), lambda: copy.copy(go), lambda: copy.deepcopy(go), lambda: pickle.dumps(go)):
        with pytest.raises(TypeError):
            attempt()
