"""Random programs of HIP's functions leave what a model says (`random_program`)."""

import pytest

from .random_bench import functions_of, give_back, run


@pytest.fixture
def functions(device):
    module, functions = functions_of(device)
    yield functions
    give_back(module)


@pytest.mark.executes  # on null hardware host functions stay, with the device that they are for
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_programs_leave_what_the_model_does(device, functions, hold, first):
    assert sum(run(seed, functions, hold) for seed in range(first, first + 20)) > 20 * 1000


@pytest.mark.executes
@pytest.mark.threads
@pytest.mark.parametrize("first", range(100, 120, 10))
def test_programs_of_two_threads_that_follow_pointers(device, functions, hold, first):
    """Either thread frees memory while kernels of both follow pointers."""
    assert sum(run(seed, functions, hold, threads=2) for seed in range(first, first + 10)) > 10 * 1000
