"""What a step means: the same as without it, whatever is inside, and however it is left."""

import contextlib
import gc

import numpy as np
import pytest

import forebay as fb
from forebay.compiler.clang import find_clang
from tests.helpers.device_data import device_data
from tests.inside import step_of

from .conftest import SIZE, TIMES, after


@pytest.mark.parametrize("what", ["copy", "copy launch", "launch copy", "launch copy launch"])
def test_a_finish_after_a_copy(device, queue, advance, x, what):
    """What was collected before and after the copy is submitted before the finish waits, whatever came last."""
    step, host = queue.step(), fb.host_empty(SIZE, "u4", device=device)
    for i in range(TIMES):
        queue.fill(x, 0)
        host[:] = i + 1
        expected = 0
        with step:
            for word in what.split():
                if word == "copy":
                    queue.copy(x, host)
                    expected = i + 1
                else:
                    advance(queue, x, i)
                    expected = after([i], expected)
            queue.finish()
            assert queue.empty
        assert device_data(set(x.get(queue=queue))) == {expected}


# -- how it begins and ends


@pytest.mark.parametrize("at", [0, 2, 4, TIMES - 1])
@pytest.mark.parametrize("k", range(4))
def test_an_exception(device, queue, advance, x, at, k):
    """What was launched before it is submitted, and the step goes on the next time."""
    step, expected = queue.step(), []
    for i in range(TIMES):
        try:
            with step:
                for j in range(4):
                    if (i, j) == (at, k):
                        raise KeyError(j)
                    advance(queue, x, i + j)
                    expected.append(i + j)
        except KeyError:
            assert i == at
        assert step_of(queue) is None
    assert device_data(set(x.get())) == {after(expected)}


def test_wrong_arguments(queue, kernels, advance, x, really):
    """An error in the block is that of the launch. The step still fits: everything is as it was."""
    step, expected = queue.step(), []
    for i in range(TIMES):
        epoch = queue.epoch
        with step:
            advance(queue, x, i)
            for wrong in ((x,), (x, 1, 2), (x, "one"), (3, 3), (x, 1 << 40)):
                with pytest.raises(fb.Error):
                    queue.launch(kernels["advance"], 4, 16, *wrong)
            with pytest.raises(fb.InvalidArgumentError):
                queue.launch(kernels["advance"], 4, 1 << 20, x, 3)
            with pytest.raises(fb.ArgumentTypeError, match="view"):
                queue.launch(kernels["real"], 4, 16, x)
            advance(queue, x, 1)
        expected += [i, 1]
        assert queue.epoch == epoch + 2
    assert set(x.get()) == {after(expected)} or not really
    assert queue.stats.steps_recorded <= 1


def test_elements_that_do_not_fit_when_they_change(device, queue, kernels):
    """The pointer is compared in compiled code; the error is the same, and names the argument."""
    real, wrong, step = device.zeros(SIZE, "f4"), device.zeros(SIZE, "u4"), queue.step()
    for i in range(TIMES):
        with step:
            queue.launch(kernels["real"], 4, 16, real)
            refused = pytest.raises(fb.ArgumentTypeError, match=r"'real', argument 0 .*\.view")
            with refused if i % 2 else contextlib.nullcontext():
                queue.launch(kernels["real"], 4, 16, wrong if i % 2 else real)
    queue.finish()


def test_a_step_in_a_step(device, queue, advance, x):
    step, same, other = queue.step(), queue.step(), device.queue().step()
    for i in range(3):
        with step:
            advance(queue, x, i)
            for inner in (step, same, other):
                with pytest.raises(fb.StepError), inner:
                    raise AssertionError
            advance(queue, x, 1)
    with other, pytest.raises(fb.StepError, match="is open in this thread"), step:
        raise AssertionError
    with step:
        pass
    assert device_data(set(x.get())) == {after([0, 1, 1, 1, 2, 1])}


def test_a_capture_in_a_step(device, queue, advance, x):
    step, other = queue.step(), device.queue()
    for i in range(3):
        with step:
            advance(queue, x, i)
            with pytest.raises(fb.StepError, match="open step"), queue.capture():
                raise AssertionError
            assert not queue.capturing
            advance(queue, x, 1)
    queue.finish()
    with step, pytest.raises(fb.StepError, match="cannot join"), other.capture(mode="relaxed"):
        queue.wait(other)
    with queue.capture() as graph:
        with pytest.raises(fb.CaptureError, match="captured"), step:
            raise AssertionError
        advance(queue, x, 1)
    assert len(graph.nodes) == 1


def test_closed(device, queue, advance, x):
    step = queue.step()
    for i in range(3):
        with step:
            advance(queue, x, i)
    step.close()
    step.close()
    assert step.closed
    assert "closed" in repr(step)
    with pytest.raises(fb.ClosedError), step:
        raise AssertionError
    advance(queue, x, 3)
    assert device_data(set(x.get())) == {after(range(4))}
    lost = device.queue()
    step = lost.step()
    lost.close()
    with pytest.raises(fb.ClosedError), step:
        raise AssertionError
    with pytest.raises(fb.ClosedError):
        lost.step()


@pytest.mark.parametrize("what", ["step", "queue"])
def test_close_in_the_middle(device, advance, x, what):
    queue = device.queue()
    step = queue.step()
    for i in range(TIMES - 1):
        with step:
            advance(queue, x, i)
            advance(queue, x, 1)
    with step:
        advance(queue, x, 7)
        (step if what == "step" else queue).close()
        if what == "step":
            advance(queue, x, 8)
        else:
            with pytest.raises(fb.ClosedError):
                advance(queue, x, 8)
    device.finish()
    expected = [k for i in range(TIMES - 1) for k in (i, 1)] + [7] + [8] * (what == "step")
    assert device_data(set(x.get())) == {after(expected)}


def test_the_device_closes_in_the_middle(watched):
    device = fb.Device(private=True)
    kernel, x = device.program("kernel void f(global int *a) { a[0] = 1; }")["f"], device.zeros(4, "i4")
    queue = device.queue()
    step = queue.step()
    for _ in range(3):
        with step:
            queue.launch(kernel, 1, 1, x)
            queue.launch(kernel, 1, 1, x)
    with step:
        queue.launch(kernel, 1, 1, x)
        queue.launch(kernel, 1, 1, x)
        device.close()
    del step, queue
    gc.collect()


def test_a_kernel_is_closed_meanwhile(device, queue, x):
    """Its launches are collected, and then it goes: they still run."""
    step = queue.step()
    program = device.program("kernel void add(global uint *a, uint k) { a[get_global_id(0)] += k; }")
    for i in range(TIMES):
        if i == TIMES - 1:
            program = device.program("kernel void add(global uint *a, uint k) { a[get_global_id(0)] += k + 1; }")
        with step:
            queue.launch(program["add"], 4, 16, x, 1)
            queue.launch(program["add"], 4, 16, x, i)
            if i == TIMES - 2:
                program.close()
    assert device_data(set(x.get())) == {TIMES + sum(range(TIMES)) + 2}


def test_it_is_made_by_its_queue():
    with pytest.raises(fb.ArgumentTypeError, match=r"Queue\.step"):
        type(fb.Device(private=True).queue().step())()


def test_an_empty_step(queue):
    step = queue.step()
    for _ in range(10):
        with step as same:
            assert same is step
    assert (queue.stats.steps, queue.stats.steps_recorded, queue.stats.steps_given_up) == (10, 0, 0)
    assert queue.epoch == 0


@pytest.mark.needs("a compiler of its own", "SPIR-V")
def test_blocks_of_another_shape_with_as_many_threads(device, queue, x):
    """Of a kernel with warps, whose block a driver may get as one row."""
    if find_clang()[0] is None:
        pytest.skip(find_clang()[1])
    source = """extern "C" __global__ void rows(unsigned* a) {
        unsigned r = threadIdx.x + blockDim.x * threadIdx.y;
        a[r] = a[r] * 3 + threadIdx.y + blockDim.x + __shfl_xor(threadIdx.x, 1);
    }"""
    step, expected = queue.step(), np.zeros(SIZE, "u4")
    rank = np.arange(SIZE, dtype="u4")
    with device.program(source) as program:
        for wide in (8, 8, 8, 8, 4, 4, 4, 8, 4, 8, SIZE):
            with step:
                for width in (wide, 16):
                    queue.launch(program["rows"], 1, (width, SIZE // width), x)
                    expected = expected * 3 + rank // width + width + (rank ^ 1) % width
        assert np.array_equal(device_data(x.get(queue=queue)), expected)
