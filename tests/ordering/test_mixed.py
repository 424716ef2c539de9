"""Random programs with everything in the mix; ``python -m tools.campaign`` runs many more of them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay.queues.selection import select
from tests.conftest import DEVICES
from tests.helpers.observer import Calls
from tests.helpers.processes import output_of

from .happens_before import OrderError
from .mixed import Bench, recording, watching
from .mixed_program import SOURCE
from .program import SIZE

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


def test_a_watched_launch_is_its_own_thread_s_though_another_launches_first(device):
    """Two threads launch on one queue from steps: the first launch may be that of the operation that began last."""
    kernel, memory = device.program(SOURCE)["advance"], device.zeros(SIZE, "u4")
    null, queue, over, later = device.null_queue, device.queue(), threading.Event(), []

    def launch(what, before=None):
        with device.queue(blocking=False).step():
            with watch.operation(null, [], [], what, may_be_collected=True) as operation:
                before and before()
                null.launch(kernel, SIZE, 1, memory, 1)
            with watch.operation(queue, [operation], [], f"after {what}"):
                queue.fill(memory, 3)
        over.set()

    with recording(device, wanted=True), watching(device, wanted=True) as watch, ThreadPoolExecutor(1) as other:
        launch("the earlier one", lambda: later.append(other.submit(launch, "the later one")) or over.wait(0.3))
        later.pop().result()
        watch.end()
        assert watch.pairs == 2


@pytest.mark.skipif(select().backend in ("cuda", "nothing"), reason="another process has no mock driver")
def test_threads_run_programs_at_once_on_devices_of_one_context():
    output_of("-m", "tools.campaign", "--programs", 50, "--threads", 4, FOREBAY_DEVICE=DEVICES[0])
