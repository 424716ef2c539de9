import contextlib
import os

import pytest
from penstock.queues.errors import Error

import penstock as ps
from penstock.selection import devices, select

from . import kernels as sources
from .refusals import refused


def devices_to_test():
    """The default device and every CPU; only the one that PENSTOCK_DEVICE names, if it does."""
    try:
        default = select().name
    except Error:
        return [None]  # the fixture then fails with the reason and what to do
    if os.environ.get("PENSTOCK_DEVICE"):
        return [default]
    return [default, *(d.name for d in devices() if d.usable and d.kind == "cpu" and d.name != default)]


def pytest_report_header():
    known = {device.name: device for device in devices()}
    return [
        f"device: {name}  {known[name].platform} · {known[name].description}" if name else "device: none"
        for name in devices_to_test()
    ]


@pytest.fixture(scope="session", params=devices_to_test(), ids=str)
def device(request):
    """A test that uses this runs once on each device."""
    with ps.Device(request.param) as device:
        yield device


@pytest.fixture(scope="session")
def program(device):
    try:
        return device.program(sources.SOURCE + sources.NOTHING)
    except ps.BuildError:
        # NVIDIA's compiler (driver 580) refuses a kernel without parameters once it is asked for argument information
        return device.program(sources.SOURCE)


@pytest.fixture
def hold(device):
    """``hold(queue)``: the queue goes no further until the gate it returns is opened, at the latest by the end."""
    gates = []

    def hold(queue):
        gates.append(queue._gate())
        return gates[-1]

    yield hold
    for gate in gates:
        gate.open()


@pytest.fixture
def make_queue(device, hold):
    """``make_queue(…)`` is ``device.queue(…)``, closed when the test ends."""
    made = []

    def make_queue(**options):
        made.append(device.queue(**options))
        return made[-1]

    yield make_queue
    for queue in made:
        queue.close()


@pytest.fixture
def queue(make_queue):
    return make_queue()


@pytest.fixture
def works(device, program):
    """``works(queue)``: a launch on it does what it should."""
    values = iter(range(1, 1 << 30))

    def works(queue):
        value = next(values)
        with device.empty(100, "i4") as buffer:
            queue.launch(program["fill"], 10, 10, buffer, value)
            assert buffer.get(queue=queue).tolist() == [value] * 100

    return works


@pytest.fixture
def refuses(queue, works):
    """``with refuses(ps.X, builtin, "word", …):`` what is done inside raises that and leaves the queue as it was."""

    @contextlib.contextmanager
    def refuses(kind, builtin, *words):
        works(queue)
        before = queue.epoch, queue.stats
        with refused(kind, builtin, *words):
            yield
        assert (queue.epoch, queue.stats) == before
        works(queue)

    return refuses
