"""Each call of the driver that a step makes fails in turn: the launches are submitted all the same, or say why not."""

import gc

import pytest

import forebay as fb

from .conftest import RECORDINGS, SIZE

pytestmark = [
    pytest.mark.parametrize("recordings", RECORDINGS[-1:], indirect=True),
    pytest.mark.skipif(RECORDINGS != ["the driver's"], reason="of the driver's own recordings"),
]


def repeat_and_open(step, queue, advance, x):
    """Make the step repeat its launches, and leave it open with two that differ."""
    for _ in range(3):
        with step:
            for k in range(3):
                advance(queue, x, k)
        queue.finish()
    step.__enter__()
    advance(queue, x, 5)
    advance(queue, x, 6)


@pytest.mark.parametrize("name", ["zeCommandListAppendLaunchKernel", "zeKernelSetArgumentValue"])
def test_launches_that_fail_when_they_are_submitted(calls, device, queue, advance, x, name):
    """The error names the kernel, at the end of the block. Other queues, and the step, go on."""
    step, other = queue.step(), device.queue(blocking=False)
    repeat_and_open(step, queue, advance, x)
    calls.fail(name, calls.driver.FAILURE[0])
    queue.fill(x, 1)
    advance(queue, x, 7)
    with pytest.raises(fb.DriverError, match=r"UNKNOWN.*kernel 'advance', collected by a step") as raised:
        step.__exit__(None, None, None)
    calls.forgive()
    assert name in str(raised.value)
    assert repr(queue) in str(raised.value)
    if name == "zeKernelSetArgumentValue":
        assert "argument 1 (uint k)" in str(raised.value)
    advance(other, x, 1)
    other.finish()
    with step:
        for k in range(3):
            advance(queue, x, k)
    queue.finish()
    assert queue.empty


@pytest.mark.parametrize("name", ["zeCommandListAppendLaunchKernel", "zeKernelSetArgumentValue"])
def test_a_launch_that_fails_in_the_turn_that_gives_the_step_up(calls, queue, advance, x, name):
    """The step has forgotten the kernel by then; the error names it all the same."""
    step = queue.step()
    for turn in range(3):
        with step:
            for k in range(3):
                advance(queue, x, turn + k)
    calls.fail("zeCommandListUpdateMutableCommandsExp", 0x70000003)
    calls.fail(name, 0x70000003)
    step.__enter__()
    for k in range(3):
        advance(queue, x, 10 + k)
    with pytest.raises(fb.OutOfMemoryError, match=f"{name}.*kernel 'advance'"):
        step.__exit__(None, None, None)
    assert queue.stats.steps_given_up == 1
    with step:
        advance(queue, x, 1)
    queue.finish()


def test_an_exception_of_the_block_comes_first(calls, queue, advance, x):
    step = queue.step()
    repeat_and_open(step, queue, advance, x)
    calls.fail("zeCommandListAppendLaunchKernel", calls.driver.FAILURE[0])
    queue.fill(x, 1)
    step.__exit__(KeyError, KeyError(), None)
    calls.forgive()
    with step:
        advance(queue, x, 5)


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("splits", [False, True])
def test_nothing_is_left(watched, closes, splits):
    """Lists, kernels and events are given back with the step, when the device is done with them."""
    gc.collect()
    before = watched.alive()
    with fb.Device(private=True) as device:
        kernel, x = device.program("kernel void f(global int *a, int k) { a[0] = k; }")["f"], device.zeros(4, "i4")
        queue = device.queue()
        step = queue.step()
        for i in range(12):
            gate = queue.gate()
            with step:
                for k in range(4):
                    if splits and i // 3 % 2 and k == 2:
                        queue.fill(x, i)
                    queue.launch(kernel, 1, 1, x, i + k)
            gate.open()
        lists = watched.alive()["lists"]
        queue.finish()
        if closes:
            step.close()
            step.close()
        del step
        device.finish()
        del queue
        gc.collect()
        device.zeros(4, "i4")
        assert watched.alive()["lists"] <= lists - 2  # copies took turns
    del device, kernel, x
    gc.collect()
    now = watched.alive()
    assert [kind for kind in now if kind != "contexts" and now[kind] > before[kind]] == []


def test_a_kernel_that_the_step_has_no_more(calls, device, queue, x):
    """The step's own object of it is given back when what was launched with it is done."""
    source = "kernel void {0}(global uint *a, uint k) {{ a[get_global_id(0)] += k; }}"
    own, step = device.program(source.format("before") + source.format("now")), queue.step()
    for i, name in enumerate(["before", "before", "before", "now", "now"]):
        if i == 3:
            first = len(calls)
        with step:
            for k in range(2):
                queue.launch(own[name], 4, 16, x, k)
        queue.finish()
        device.empty(SIZE, "u4")
    assert calls.count("zeKernelDestroy", first) == 1
