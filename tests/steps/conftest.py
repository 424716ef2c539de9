# ruff: noqa: F811 - fixtures that are imported

from contextlib import nullcontext

import pytest

import forebay as fb
from forebay.queues.selection import select
from tests.drivers.levelzero import validation
from tests.graphs.conftest import SIZE, made, steps, x, y  # noqa: F401
from tests.graphs.conftest import step as advance  # noqa: F401
from tests.helpers.recordings import recordings_installed
from tests.ordering import program
from tests.ordering.conftest import calls, nothing_forbidden, watched  # noqa: F401

SOURCE = f"""{program.SOURCE}
kernel void count(global uint *a) {{ a[get_global_id(0)] += get_num_groups(0); }}
kernel void real(global float *a) {{ a[get_global_id(0)] += 1; }}
typedef struct {{ uint a; uint b; }} Pair;
kernel void take(global uint *a, Pair pair) {{ a[get_global_id(0)] = a[get_global_id(0)] * 3 + pair.a * 10 + pair.b; }}
kernel void inside(global uint *a, local uint *room) {{ room[0] = 1; a[get_global_id(0)] += room[0]; }}
kernel void use(global const uint *rows, global uchar *stack, global uint *out) {{ out[0] = rows[0]; stack[0] = 1; }}
"""
TIMES = 6
RECORDINGS = {"opencl": ["none", "sparing clones", "clones"], "level_zero": ["the driver's"]}.get(
    select().backend, ["none"]
)


@pytest.fixture(scope="package", autouse=True, params=RECORDINGS)
def recordings(request, watched):
    """Whose recordings there are; "clones" are the observer's, on a driver that has none and executes. Changes of the
    sparing ones do not concern what runs, as in CUDA.
    """
    with recordings_installed("sparing" in request.param) if "clones" in request.param else nullcontext():
        yield request.param


@pytest.fixture(scope=validation.scope("module"))
def device(recordings):
    with fb.Device(private=True) as device:
        yield device


@pytest.fixture(scope=validation.scope("module"))
def kernels(device):
    return device.program(SOURCE)


@pytest.fixture
def queue(device):
    return device.queue()


def after(ks, start=0):
    """What the elements are after ``advance`` with each of these."""
    return steps(*ks, start=start)


def run(device, kernels, body, stepped, times=TIMES):
    """What two buffers hold after calls of ``body(queue, kernels, x, y, i)``, each in the step, if it is `stepped`."""
    queue, x, y = device.queue(), made(device), made(device)
    step = queue.step()
    for i in range(times):
        if stepped:
            with step:
                body(queue, kernels, x, y, i)
        else:
            body(queue, kernels, x, y, i)
    queue.finish()
    return [x.get().tolist(), y.get().tolist()]


@pytest.fixture
def collects(recordings):
    """Whether the driver can change what it has recorded, so that a step collects its launches."""
    return recordings != "none" or select().backend == "cuda"
