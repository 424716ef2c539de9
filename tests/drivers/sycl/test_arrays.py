"""Arrays of dpctl and dpnp are arguments of launches, and lie over buffers. None of them is copied."""

import gc
import threading

import numpy as np
import pytest

import forebay as fb
from tests.helpers.refusals import refused

from .conftest import COUNT, VALUES, steps


@pytest.fixture(params=["dpctl.tensor", "dpnp.tensor", "dpnp"])
def arrays(request, device):  # the device first: it finds the driver
    """A module that makes arrays. dpctl had some before 0.22; dpnp has them since."""
    return pytest.importorskip(request.param, reason=f"{request.param} is not installed")


@pytest.fixture
def array(arrays, sycl_queue):
    made = arrays.asarray(VALUES, sycl_queue=sycl_queue)
    sycl_queue.wait()
    return made


def contents(arrays, array):
    return (arrays.asnumpy if hasattr(arrays, "asnumpy") else arrays.to_numpy)(array)


def over(arrays, buffer):
    """An array over the memory of a Buffer. `dpnp.asarray` itself would copy, because it looks for no queue there."""
    if arrays.__name__ == "dpnp":
        return arrays.asarray(pytest.importorskip("dpnp.tensor").asarray(buffer), copy=False)
    return arrays.asarray(buffer, copy=False)


@pytest.mark.parametrize("what", ["launch", "bound launch", "graph", "step"])
def test_what_launches_takes_it(arrays, array, device, step, what):
    own, grid = device.queue(), (COUNT // 64, 64)
    section, bound = own.step(), step.bind(own, *grid, device.as_buffer(array), 3)
    with own.capture() as graph:
        own.launch(step, *grid, array, 1)
        own.launch(step, *grid, array, 2)

    def in_a_step():
        with section:
            own.launch(step, *grid, array, 1)
            own.launch(step, *grid, array, 2)

    launch = {
        "launch": lambda: own.launch(step, *grid, array, 3), "bound launch": bound,
        "graph": lambda: graph.launch(own), "step": in_a_step,
    }[what]  # fmt: skip
    for n in range(1, 6):
        launch()
        own.finish()
        assert np.array_equal(contents(arrays, array), steps(VALUES, 3 * n))


def test_a_kernel_of_theirs_and_one_of_forebays_in_turn(arrays, array, queue, step):
    """Both go to the queue that was adopted, so nothing in between waits."""
    expected = VALUES
    for _ in range(20):
        queue.launch(step, COUNT // 64, 64, array, 1)
        array += 1
        expected = steps(expected, 1) + np.uint32(1)
    assert np.array_equal(contents(arrays, array), expected)


def test_a_row_is_taken_and_a_column_is_refused(arrays, array, queue, step):
    table = arrays.reshape(array, (COUNT // 64, 64))
    queue.launch(step, 1, 64, table[3], 1)
    queue.finish()
    expected = VALUES.reshape(-1, 64).copy()
    expected[3] = steps(expected[3], 1)
    assert np.array_equal(contents(arrays, table), expected)
    with refused(fb.InvalidArgumentError, ValueError, "not C-contiguous", f"({COUNT // 64},)"):
        queue.launch(step, 1, COUNT // 64, table[:, 3], 1)
    with refused(fb.InvalidArgumentError, ValueError, "not C-contiguous"):
        queue.launch(step, 1, 64, array[::-1], 1)
    queue.finish()
    assert np.array_equal(contents(arrays, table), expected)


def test_the_type_is_compared(arrays, sycl_queue, queue, step):
    with refused(fb.ArgumentTypeError, TypeError, "uint* a", "8 bytes"):
        queue.launch(step, 1, 64, arrays.zeros(64, dtype="f8", sycl_queue=sycl_queue), 1)


def test_it_is_kept_until_the_launch_is_done(arrays, sycl_queue, device):
    copy = device.program(
        "kernel void copy(global uint *to, global const uint *from) { to[get_global_id(0)] = from[get_global_id(0)]; }"
    )["copy"]
    own, out = device.queue(), device.zeros(COUNT, "u4")
    array = arrays.asarray(VALUES, sycl_queue=sycl_queue)
    sycl_queue.wait()
    go = threading.Event()
    own.host(go.wait)
    own.launch(copy, COUNT // 64, 64, out, array)
    del array
    gc.collect()
    others = [arrays.zeros(COUNT, dtype="u4", sycl_queue=sycl_queue) for _ in range(16)]  # would get its memory
    sycl_queue.wait()
    go.set()
    assert np.array_equal(out.get(queue=own), VALUES)
    assert len(others) == 16


def test_an_array_lies_over_a_buffer(arrays, queue, device, step):
    buffer = device.array(VALUES)
    device.finish()
    array = over(arrays, buffer)
    queue.launch(step, COUNT // 64, 64, buffer, 3)
    queue.finish()
    assert np.array_equal(contents(arrays, array), steps(VALUES, 3))
    queue.launch(step, COUNT // 64, 64, array, 3)
    queue.finish()
    assert np.array_equal(buffer.get(), steps(VALUES, 6))


def test_there_and_back_many_times(arrays, array, queue, device, step):
    for _ in range(200):
        array = over(arrays, device.as_buffer(array))
        queue.launch(step, COUNT // 64, 64, array, 1)
    queue.finish()
    assert np.array_equal(contents(arrays, array), steps(VALUES, 200))


def test_the_memory_of_a_dropped_buffer_lives_as_long_as_the_array(arrays, queue, device, step):
    buffer = device.array(VALUES)
    device.finish()
    array = over(arrays, buffer)
    del buffer
    gc.collect()
    others = [device.zeros(COUNT, "u4") for _ in range(16)]
    device.finish()
    assert np.array_equal(contents(arrays, array), VALUES)
    assert not any(other.get().any() for other in others)
