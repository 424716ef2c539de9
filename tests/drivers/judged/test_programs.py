"""Random programs on the mock driver, with calls that fail too, and the suites that every driver passes."""

import random
import re
import time

import pytest

from tests.helpers import processes
from tests.ordering import failures, mixed

from .conftest import JUDGED, in_a_thread

pytestmark = JUDGED


def test_programs_with_everything_in_the_mix(results_are_not_compared):
    with mixed.Bench("cuda", watched=True) as bench:
        for seed in range(20):
            bench.run(seed)
        assert bench.pairs > 1000


def test_programs_whose_calls_fail_at_random(results_are_not_compared):
    with failures.FailingBench("cuda") as bench:
        for seed in range(80):
            bench.run(seed)
        assert bench.failed > 60
        assert bench.errors > 30


@pytest.mark.threads
def test_two_threads_hold_build_launch_and_close(device, kernels):
    errors, stop = [], time.monotonic() + 1

    def work(seed):
        try:
            draw = random.Random(seed)
            while time.monotonic() < stop:
                queue, buffer = device.queue(blocking=draw.random() < 0.5), device.empty(64, "u4")
                if draw.random() < 0.3:
                    name = f"own{draw.randrange(5)}"
                    queue.launch(device.program(f"kernel void {name}(global uint *x) {{}}")[name], 1, 1, buffer)
                gate = queue.gate()
                queue.launch(kernels["advance"], 4, 16, buffer, 1)
                if draw.random() < 0.5:
                    queue.host(lambda: None)
                event = queue.record()
                gate.open()
                event.wait()
                queue.close()
        except BaseException as error:
            errors.append(error)

    ended = [in_a_thread(lambda seed=seed: work(seed)) for seed in range(2)]
    assert all(each() for each in ended)
    assert not errors
    device.finish()


RUNS = [  # (folders, least number of tests)
    (["tests/ordering", "tests/themes"], 600),
    (["tests/graphs", "tests/steps", "tests/memory/test_peers.py", "tests/memory/test_ipc.py",
      "tests/hip/addresses/test_interprocess.py"], 280),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("folders", "least"), RUNS)
def test_it_passes_the_tests_of_order_graphs_steps_and_lives(folders, least):
    """In one process, which knows no other device, with results left out and nothing else."""
    said = processes.output_of(
        *("-m", "pytest", "-q", "-p", "tests.drivers.cuda.plugin", "-p", "no:randomly", *folders),
        FOREBAY_DEVICE="cuda",
        FOREBAY_STANDIN_DEVICES="2",
    )
    assert int(re.search(r"(\d+) passed", said)[1]) > least
