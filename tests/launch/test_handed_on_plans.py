"""The kernels of a queue that is gone serve the next queue, with the driver's queue. Their arguments do not."""

from unittest import mock

import pytest

import forebay as fb
from forebay.queues.kernels import kernel as making
from tests.helpers import kernels as sources
from tests.helpers.device_data import device_data
from tests.observers.internals import uses_of

N = 16


@pytest.fixture
def device(device):
    """One of its own, on which no other test has left a queue."""
    with fb.Device(device.name, private=True) as fresh:
        yield fresh


@pytest.fixture
def fill(device):
    return device.program(sources.SOURCE)["fill"]


def launch_and_go(device, kernel, buffer, value):
    """Launch on a queue that is gone and done afterwards. Returns how many bytes of arguments were set."""
    queue = device.queue(blocking=False)
    queue.launch(kernel, 1, N, buffer, value)
    queue.finish()
    return queue.stats.arg_bytes_set


def test_the_next_queue_uses_the_kernel(device, fill):
    """And knows none of its arguments."""
    buffer = device.zeros(N, "i4")
    device.finish()
    with mock.patch.object(making, "finished_before_exit", wraps=making.finished_before_exit) as make:
        for turn in range(10):
            assert launch_and_go(device, fill, buffer, 1 + turn // 5) == 12
    assert make.call_count <= 2  # queues may take turns
    assert device_data(buffer.get().tolist()) == [2] * N


def test_an_argument_that_is_closed_is_not_used(device, fill):
    """The next buffer may have the same address, and even the same memory."""
    for _ in range(100):
        buffer = device.empty(N, "i4")
        assert launch_and_go(device, fill, buffer, 7) == 12
        queue = device.queue(blocking=False)
        assert uses_of(buffer)[1] == 0  # no kernel that is handed on has it
        assert device_data(buffer.get(queue=queue).tolist()) == [7] * N
        queue.fill(buffer, 0)
        queue.finish()
        del queue
        buffer.close()
        with pytest.raises(fb.ClosedError):
            launch_and_go(device, fill, buffer, 7)


def test_memory_of_the_pool_that_was_freed_and_a_launch_that_failed(device, fill):
    """Each queue sets what it is given, whatever the one before it had last, or was refused."""
    double = device.zeros(N, "f8")
    device.finish()
    for turn in range(100):
        with device.queue(blocking=False) as queue:
            with pytest.raises(fb.Error, match="values"):
                queue.launch(fill, 1, N, double, turn)
            buffer = queue.alloc(N, "i4")
            queue.launch(fill, 1, N, buffer, turn % 3)
            assert device_data(buffer.get(queue=queue).tolist()) == [turn % 3] * N
            queue.fill(buffer, 9)
            queue.free(buffer)
            queue.finish()
        del queue


def test_a_kernel_that_is_closed_leaves_no_plan(device):
    """The next program is the same, and so are the arguments."""
    buffer = device.zeros(N, "i4")
    device.finish()
    for turn in range(20):
        with device.program(sources.SOURCE) as program:
            assert launch_and_go(device, program["fill"], buffer, turn // 4) == 12
            kernel = program["add"]
            launch_and_go(device, kernel, buffer, 1)
        with pytest.raises(fb.ClosedError):
            launch_and_go(device, kernel, buffer, 1)
        assert device_data(buffer.get().tolist()) == [turn // 4 + 1] * N
