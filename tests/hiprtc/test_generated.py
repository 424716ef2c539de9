"""Random kernels leave the same on the device as on the host, see `tests.hiprtc.results.generated`."""

import pytest

from forebay.hiprtc.clang import find_clang

from .results import generated

SEEDS = range(2, 22)  # of the first one Intel's compiler for CPUs makes no vectors


@pytest.mark.executes(reads="differences how")
@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.long
def test_the_same_as_on_the_host(queue):
    if find_clang()[0] is None:
        pytest.skip("no clang")
    kernels = [generated.generated(seed) for seed in SEEDS]
    assert [how for _, how in generated.differences(kernels, queue)] == []
