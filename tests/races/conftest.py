import pytest

import forebay as fb

SOURCE = """
kernel void scale(global float *y, const float k) { y[get_global_id(0)] *= k; }
kernel void take(global const float *x, global float *into) { into[get_global_id(0)] = x[get_global_id(0)]; }
kernel void part(global float *y, const int first) { y[first + get_global_id(0)] *= 2; }
kernel void slots(global const float *x, global float *y, const int first, const int count)
{
    if (get_global_id(0) < count) y[first + get_global_id(0)] = x[first + get_global_id(0)];
}
"""


@pytest.fixture
def device():
    """Of its own for each test: a race is told once for each pair of lines."""
    with fb.Device(private=True, check="races") as device:
        yield device


@pytest.fixture
def kernels(device):
    return device.program(SOURCE)


@pytest.fixture
def found(device):
    """Returns the races, certain ones, that the test has found since it last asked."""
    seen = [len(device.races)]

    def new():
        races = device.races[seen[0] :]
        seen[0] += len(races)
        return races

    return new
