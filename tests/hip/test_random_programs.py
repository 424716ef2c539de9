"""Random programs of HIP's functions leave what a model says (`random_program`)."""

import pytest

from .random_program import HipBench


@pytest.mark.executes  # on null hardware host functions stay, with the device that they are for
@pytest.mark.threads
@pytest.mark.parametrize("first", range(0, 80, 20))
def test_programs_leave_what_the_model_does(device, first):
    """Those of odd numbers have two threads, either of which frees memory while kernels of both follow pointers."""
    with HipBench() as bench:
        assert sum(bench.run(seed) for seed in range(first, first + 20)) > 20 * 1000
