"""NumPy arrays given to a launch: copied in on its queue, and out again when they are writable."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.threads import together

SOURCE = """
kernel void axpy(float a, global const float *x, global float *y) {
    size_t i = get_global_id(0);
    y[i] += a * x[i];
}
kernel void swap(global int *a, global int *b) {
    size_t i = get_global_id(0);
    int keep = a[i];
    a[i] = b[i] + 1;
    b[i] = keep;
}
kernel void scratched(global int *values, global int *room) {
    room[get_global_id(0)] = values[get_global_id(0)];
    values[get_global_id(0)] = room[get_global_id(0)] + 1;
}
"""


def test_in_and_out(device, queue, kernels):
    x, y = np.arange(64, dtype="f4"), np.ones(64, "f4")
    queue.launch(kernels["axpy"], 64, 1, 2.0, x, y)
    assert np.array_equal(device_data(y), 2 * np.arange(64) + 1)
    buffer = device.array(y)
    device.finish()
    queue.launch(kernels["axpy"], 64, 1, 1.0, buffer, y)
    assert np.array_equal(device_data(y), 4 * np.arange(64) + 2)


def test_a_synchronize_only_if_something_comes_back(device, queue, kernels):
    x, y = np.arange(64, dtype="f4"), device.zeros(64)
    device.finish()
    before = device.stats
    queue.launch(kernels["axpy"], 64, 1, 2.0, x, y)  # x is const to the kernel
    spent = device.stats - before
    assert (spent.host_syncs, spent.copies) == (0, 1)
    queue.launch(kernels["axpy"], 64, 1, 2.0, x, np.zeros(64, "f4"))
    assert (device.stats - before).host_syncs <= 1
    assert (device.stats - before).copies == 4


def test_what_would_be_lost_is_refused(device, queue, kernels, refuses):
    """A read-only array can be an argument where the kernel cannot write to it."""
    frozen, y = np.arange(64, dtype="f4"), device.zeros(64)
    frozen.flags.writeable = False
    with refuses(fb.InvalidArgumentError, ValueError, "'axpy', argument 2", "read-only", "not const", "pass a copy"):
        queue.launch(kernels["axpy"], 64, 1, 2.0, np.ones(64, "f4"), frozen)
    queue.launch(kernels["axpy"], 64, 1, 2.0, frozen, y)
    assert np.array_equal(device_data(y.get()), 2 * np.arange(64))


def test_one_array_twice_is_one_piece_of_memory(queue, kernels):
    values = np.arange(8, dtype="i4")
    queue.launch(kernels["swap"], 8, 1, values, values)
    assert device_data(values.tolist()) == list(range(8))
    a, b = np.arange(8, dtype="i4"), np.full(8, 5, "i4")
    queue.launch(kernels["swap"], 8, 1, a, b)
    assert (device_data(a.tolist()), device_data(b.tolist())) == ([6] * 8, list(range(8)))


@pytest.mark.threads
def test_copies_are_on_the_queue_of_the_launch(device, queue, kernels):
    """Another queue's gate does not hold them up."""
    y = np.zeros(64, "f4")
    with device.queue() as other, other.gate():
        together(lambda: queue.launch(kernels["axpy"], 64, 1, 1.0, np.ones(64, "f4"), y))
        assert device_data(y.tolist()) == [1] * 64


def test_scratch_and_shapes_in_a_steady_state_that_allocates_nothing(device, queue, really):
    with device.program(SOURCE) as own:
        own["scratched"].scratch("room", 4 * 24)
        values = np.arange(24, dtype="i4").reshape(2, 3, 4)
        for turn in range(50):
            if turn == 3:
                before = device.stats.allocations
            queue.launch(own["scratched"], 24, 1, values)
        assert np.array_equal(values, np.arange(50, 74).reshape(2, 3, 4)) or not really
        assert device.stats.allocations == before


def test_what_is_refused(queue, kernels, refuses):
    good, whole = np.zeros(64, "f4"), np.zeros(100, "i4")
    for bad, reason in (
        (np.zeros(128, "f4")[::2], "not C-contiguous (shape (64,), strides (8,) bytes): pass np.ascontiguousarray"),
        (np.zeros(0, "f4"), "it is empty (shape (0,))"),
        (np.array([None]), "Python objects"),
    ):
        with refuses(fb.InvalidArgumentError, ValueError, "'axpy'", "argument 2", reason):
            queue.launch(kernels["axpy"], 64, 1, 2.0, good, bad)
    with refuses(fb.InvalidArgumentError, ValueError, "'swap'", "overlap"):
        queue.launch(kernels["swap"], 8, 1, whole[:64], whole[10:74])
    with refuses(fb.ArgumentTypeError, TypeError, "'axpy'", "bound"):
        kernels["axpy"].bind(queue, 64, 1, 2.0, good, good)
    with refuses(fb.ArgumentTypeError, TypeError, "'axpy'", "argument 0"):
        queue.launch(kernels["axpy"], 64, 1, "2", good, good)


@pytest.mark.executes
def test_writing_to_arrays_is_refused_on_the_host_thread(device, queue, make_queue, kernels):
    other = make_queue()
    queue.host(lambda: other.launch(kernels["axpy"], 64, 1, 2.0, np.zeros(64, "f4"), np.zeros(64, "f4")))
    with pytest.raises(fb.Error, match="host function"):
        queue.finish()
