import pytest

import forebay as fb
from forebay.queues.selection import select
from tests.drivers.levelzero import validation
from tests.helpers import kernels as sources
from tests.helpers.observer import observe, watch

from .program import SOURCE, program_on


@pytest.fixture(scope="package", autouse=True)
def watched():
    with watch(select().backend) as driver:
        yield driver


@pytest.fixture(autouse=True)
def nothing_forbidden(watched):
    """No test does what the driver's specification forbids, observed or not."""
    yield
    found = watched.violations()
    assert not found, "\n".join(found)


@pytest.fixture(scope=validation.scope("module"))
def device(watched):
    with fb.Device(private=True) as device:
        yield device


@pytest.fixture(scope=validation.scope("module"))
def kernels(device):
    return device.program(SOURCE)


@pytest.fixture(scope=validation.scope("module"))
def program(device):
    return device.program(sources.SOURCE)


@pytest.fixture
def buffer(device):
    buffer = device.zeros(64, "u4")
    device.finish()
    return buffer


@pytest.fixture
def calls(device, kernels, hold):
    """The driver calls of the test."""
    device.finish()
    with observe(device) as calls:
        yield calls
    hold.open()
    device.finish()


@pytest.fixture
def checked(device, kernels):
    """A `Program`: checks results and order of what the test does by it."""
    with program_on(device, kernels) as checked:
        yield checked
