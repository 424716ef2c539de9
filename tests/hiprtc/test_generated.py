"""Random kernels leave the same on the device as on the host, see `tests.hiprtc.results.generated`.

HIPRTC_SEEDS="0 400" is for a long search.
"""

import os

import pytest

from tests.helpers.device_data import device_data

from .results.generated import cases_of
from .results.tables import kernel_differences

FIRST, END = map(int, os.environ.get("HIPRTC_SEEDS", "2 22").split())
TOGETHER = 20  # kernels in a program; of the first seed in "2 22" Intel's compiler for CPUs makes no vectors


@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.parametrize("first", range(FIRST, END, TOGETHER))
@pytest.mark.long
def test_the_same_as_on_the_host(device, queue, first):
    seeds = range(first, min(first + TOGETHER, END))
    assert device_data(kernel_differences(device, queue, cases_of(seeds))) == []
