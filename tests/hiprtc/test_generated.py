"""Random kernels leave the same on the device as on the host, see `tests.hiprtc.results.generated`."""

import pytest

from tests.helpers.device_data import device_data

from .results.generated import cases_of
from .results.tables import kernel_differences

SEEDS = range(2, 22)  # of the first one Intel's compiler for CPUs makes no vectors


@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.long
def test_the_same_as_on_the_host(device, queue):
    assert device_data(kernel_differences(device, queue, cases_of(SEEDS))) == []
