"""Random programs with everything in the mix; ``python -m tools.campaign`` runs many more of them."""

import pytest

from forebay.queues.selection import select
from tests.conftest import DEVICES
from tests.helpers.observer import Calls
from tests.helpers.processes import output_of

from .happens_before import OrderError
from .mixed import Bench

# The layer looks for leaks after each test; the devices stay for all of them.
pytestmark = [pytest.mark.threads, pytest.mark.needs("no validation layer")]


@pytest.fixture(params=DEVICES, ids=str, scope="module")
def bench(request):
    with Bench(request.param, watched=True) as bench:
        yield bench


@pytest.mark.parametrize("first", range(0, 180, 30))
def test_programs_leave_what_the_model_does_in_the_order_of_the_rules(bench, first):
    judged = bench.pairs
    assert sum(bench.run(seed) for seed in range(first, first + 30)) > 30 * 1000
    assert bench.pairs - judged > 30 * 100


@pytest.mark.parametrize("which", [0, 3, 6])
def test_waits_that_are_lost_are_found_though_the_bytes_may_be_right(bench, monkeypatch, which):
    """The calls of real programs, seen as if the driver had not been given one wait in seven."""
    take = Calls.take

    def without(calls, first):
        made, end = take(calls, first)
        return [each._replace(waits=tuple(event for event in each.waits if event % 7 != which)) for each in made], end

    found = []
    monkeypatch.setattr(Calls, "take", without)
    for seed in range(30):
        try:
            bench.run(seed)
        except OrderError as error:
            found.append(str(error))
    assert len(found) > 10
    assert all("is not ordered after" in each for each in found)


@pytest.mark.skipif(select().backend in ("cuda", "nothing"), reason="another process has no mock driver")
def test_threads_run_programs_at_once_on_devices_of_one_context():
    output_of("-m", "tools.campaign", "--programs", 50, "--threads", 4, FOREBAY_DEVICE=DEVICES[0])
