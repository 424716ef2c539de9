"""Random programs with everything in the mix; ``python -m tests.campaign`` runs many more of them."""

import pytest

from tests.conftest import DEVICES

from .mixed import Bench


@pytest.fixture(params=DEVICES, ids=str, scope="module")
def bench(request):
    with Bench(request.param) as bench:
        yield bench


@pytest.mark.threads
@pytest.mark.needs("no validation layer")  # which looks for leaks after each test; the devices stay for all of them
@pytest.mark.parametrize("first", range(0, 300, 30))
def test_programs_leave_what_the_model_does(bench, first):
    assert sum(bench.run(seed) for seed in range(first, first + 30)) > 30 * 1000
