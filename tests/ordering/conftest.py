import pytest

import penstock as ps

from .program import SOURCE, program_on


@pytest.fixture(scope="module")
def device():
    with ps.Device() as device:
        yield device


@pytest.fixture(scope="module")
def kernels(device):
    return device.program(SOURCE)


@pytest.fixture
def program(device, kernels):
    """Checks results and order of what the test does by it."""
    with program_on(device, kernels) as program:
        yield program
