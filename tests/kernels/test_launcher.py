"""``kernel[grid, block, queue]``: a launch in subscript form."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.refusals import refused

SOURCE = """
kernel void fill(global int *out, int value) { out[get_global_id(0)] = value; }
kernel void one(int value, global int *out) { out[0] = value; }
"""


@pytest.fixture
def kernel(device):
    return device.program(SOURCE)["fill"]


@pytest.fixture
def out(device):
    return device.zeros(8, "i4")


@pytest.mark.executes
def test_it_launches_again_and_again(device, queue, kernel, out):
    launch = kernel[2, 4, queue]
    assert type(launch) is fb.Launcher
    for value in range(1, 4):
        launch(out, value)
        assert out.get(queue=queue).tolist() == [value] * 8


@pytest.mark.executes
def test_without_a_queue_it_takes_the_current_one(device, queue, kernel, out):
    device.finish()
    with queue:
        kernel[1, 8](out, 5)
    assert out.get(queue=queue).tolist() == [5] * 8
    before = device.null_queue.stats.launches
    kernel[1, 8](out, 6)
    assert device.null_queue.stats.launches == before + 1


def test_keywords_are_those_of_a_launch(device, queue, really):
    result = device.program(SOURCE)["one"][1, 1, queue](7, result="i4")
    assert result.get() == 7 or not really
    assert device.program(SOURCE)["one"][1, 1, queue](7, device.zeros(1, "i4"), result=None) is None


def test_it_refuses_what_a_launch_refuses(device, queue, kernel, out):
    with refused(fb.ArgumentTypeError, TypeError, "Queue", "int"):
        kernel[1, 1, 5]
    with refused(fb.ArgumentTypeError, TypeError, "kernel[grid, block]"):
        kernel[5]
    with refused(fb.ArgumentTypeError, TypeError, "kernel[grid, block]"):
        fb.Launcher()
    with pytest.raises(fb.ArgumentTypeError, match="argument"):
        kernel[1, 1, queue](out)
    with pytest.raises(fb.ArgumentTypeError, match="keyword"):
        kernel[1, 1, queue](out, 1, other=2)
    with pytest.raises(fb.Error):
        kernel[1, 1, queue](*[out] * 40)
    launch = kernel[1, 8, queue]
    queue.close()
    with pytest.raises(fb.ClosedError):
        launch(out, 1)


@pytest.mark.executes
def test_many_arguments(device, queue):
    names = [f"v{i}" for i in range(60)]
    source = (
        f"kernel void sum(global int *out, {', '.join(f'int {n}' for n in names)}) {{ out[0] = {'+'.join(names)}; }}"
    )
    out = device.zeros(1, "i4")
    device.finish()
    device.program(source)["sum"][1, 1, queue](out, *range(60))
    assert out.get(queue=queue).tolist() == [sum(np.arange(60))]


@pytest.mark.executes
def test_it_keeps_what_it_launches(device, kernel, out):
    """The queue that it was made with, and the kernel, live as long as it does."""
    device.finish()
    launch = kernel[1, 8, device.queue()]
    del kernel
    launch(out, 3)
    launch(out, 4)
    device.finish()
    assert out.get().tolist() == [4] * 8
