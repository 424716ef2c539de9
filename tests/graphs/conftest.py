from contextlib import nullcontext

import pytest

from forebay.queues.selection import select
from tests.drivers.levelzero import validation
from tests.helpers.recordings import recordings_installed
from tests.ordering import program

SOURCE = f"""{program.SOURCE}
kernel void gather(global uint *a, global const uint *block, uint n)
{{
    uint sum = 0;
    for (uint i = 0; i < n; i++)
        sum = sum * 7 + block[i];
    a[get_global_id(0)] = a[get_global_id(0)] * 3 + sum;
}}
typedef struct {{ uint a; uint b; }} Pair;
kernel void take(global uint *a, Pair pair) {{ a[get_global_id(0)] = a[get_global_id(0)] * 3 + pair.a * 10 + pair.b; }}
"""
SIZE = 64


@pytest.fixture(autouse=True, params=["", "branching"] if select().backend == "opencl" else [""])
def recorded(request):
    """Graphs as the driver takes them; and as recordings whose commands come in any order that the graph allows."""
    with recordings_installed(True, True) if request.param else nullcontext():
        yield


@pytest.fixture(scope=validation.scope("module"))
def kernels(device):
    return device.program(SOURCE)


@pytest.fixture
def x(device):
    return made(device)


y = x


def made(device):
    buffer = device.zeros(SIZE, "u4")
    device.finish()
    return buffer


@pytest.fixture
def step(kernels):
    """``step(queue, buffer, k)``: every element becomes three times itself plus k, so that order shows."""

    def step(queue, buffer, k):
        queue.launch(kernels["advance"], 4, 16, buffer, k)

    return step


def steps(*ks, start=0):
    """What the elements are after these steps."""
    for k in ks:
        start = start * 3 + k
    return start % (1 << 32)


@pytest.fixture
def value_of(device):
    """``value_of(buffer)``: the element that all of it is; a list when they differ."""

    def value_of(buffer):
        got = buffer.get()
        return int(got[0]) if (got == got[0]).all() else got.tolist()

    return value_of
