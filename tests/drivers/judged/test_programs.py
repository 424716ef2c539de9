"""Random programs on each mock driver, and each call of each operation failing in turn."""

import contextlib
import gc
import random
import re
import time

import pytest

import forebay as fb
from tests.drivers.cuda import standin
from tests.helpers import processes
from tests.ordering import failures, mixed, program
from tests.ordering.happens_before import OrderError
from tests.ordering.test_programs import OPERATIONS, QUEUES, Player

from .conftest import JUDGED, in_a_thread

pytestmark = JUDGED


def play(device, kernels, seed):
    """A random program; the checker compares each of its commands with HIP's rules, by the calls of the driver."""
    draw = random.Random(seed)
    with program.program_on(device, kernels) as checked:
        player = Player(checked)
        for _ in range(60):
            player.play(draw.choice(OPERATIONS), draw.randrange(len(QUEUES)), draw.randrange(6), draw.random() < 0.5)
        checked.finish_device()


def found_in(device, kernels, seeds):
    """What the checker says of the random programs of these seeds, which is nothing of most."""
    found = []
    for seed in seeds:
        try:
            play(device, kernels, seed)
        except OrderError as error:
            found.append(str(error))
    return found


def test_random_programs_are_in_the_order_of_the_rules(device, kernels, results_are_not_compared):
    assert found_in(device, kernels, range(40)) == []


def test_the_checker_finds_a_driver_that_launches_without_waits(device, kernels, lie):
    lie(waits=True)
    found = found_in(device, kernels, range(40))
    assert len(found) > 10
    assert any("is not ordered after" in each for each in found)


def test_the_checker_finds_a_driver_whose_gates_do_not_hold(device, kernels, lie):
    lie(gates=True)
    found = found_in(device, kernels, range(40))
    assert len(found) > 5
    assert all("while their gates are closed" in each for each in found)


def test_programs_with_everything_in_the_mix(backend, results_are_not_compared):
    with mixed.Bench(backend, watched=True) as bench:
        for seed in range(20):
            bench.run(seed)
        assert bench.pairs > 1000


def test_programs_whose_calls_fail_at_random(backend, results_are_not_compared):
    with failures.FailingBench(backend) as bench:
        for seed in range(80):
            bench.run(seed)
        assert bench.failed > 60
        assert bench.errors > 30


# -- failures, each call of each operation in turn


def operations_on(device, kernels):
    """By name: what may be done again and again, also after it failed."""
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    x, y, wide = device.empty(64, "u4"), device.empty(64, "u4"), device.empty(64, "u8")
    host = bytes(x.nbytes)

    def waiting(command):
        def run():
            gate = other.gate()
            try:
                other.launch(kernels["advance"], 4, 16, x, 1)
                queue.wait(other)
                command()
            finally:
                gate.open()

        return run

    def held():
        queue.gate().open()

    def graph(launches):
        def run():
            graph = device.graph()
            first = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
            second = graph.add_kernel(kernels["advance"], 4, 16, y, 2)
            third = graph.add_copy(x, y, after=[first, second])
            graph.add_fill(wide, 1 << 40, after=third)
            executable = graph.instantiate()
            for k in range(launches):
                executable.launch(queue)
                executable.set_kernel(first, kernels["advance"], 4, 16, x, 10 + k)

        return run

    return {
        "launch": waiting(lambda: queue.launch(kernels["advance"], 4, 16, x, 1)),
        "record": waiting(queue.record),
        "timed record": waiting(lambda: queue.record(timing=True)),
        "upload": waiting(lambda: queue.copy(x, host)),
        "copy": waiting(lambda: queue.copy(x, y)),
        "fill": waiting(lambda: queue.fill(x, 1)),
        "wide fill": waiting(lambda: queue.fill(wide, 1 << 40)),
        "download": lambda: queue.copy(bytearray(x.nbytes), x),
        "gate": waiting(held),
        "host function": waiting(lambda: queue.host(int)),
        "finish": lambda: (queue.launch(kernels["advance"], 4, 16, x, 1), queue.finish()),
        "finish of many": lambda: ([each.fill(x, 1) for each in (queue, other, device.null_queue)], device.finish()),
        "graph": graph(1),
        "changed graph": graph(3),
        "memory": lambda: device.empty(1 << 16, "u4").close(),
    }


RELEASING = ("Destroy", "Free", "Release")
OPERATIONS_THAT_FAIL = (
    "launch", "record", "timed record", "upload", "copy", "fill", "wide fill", "download", "gate", "host function",
    "finish", "finish of many", "graph", "changed graph", "memory",
)  # fmt: skip


@pytest.mark.parametrize("what", OPERATIONS_THAT_FAIL)
def test_a_call_that_fails_at_any_place(device, kernels, calls, what):
    """Nothing is left of it, and the same works again."""
    operation = operations_on(device, kernels)[what]

    def fails(name, after):
        begun = len(calls)
        calls.fail(name, calls.driver.FAILURE[0], after)
        with contextlib.suppress(fb.Error):
            operation()
        calls.forgive()
        with contextlib.suppress(fb.Error):  # what only now is told
            device.finish()
        operation()
        device.finish()
        gc.collect()
        return sum(call.injected for call in calls.since(begun))

    for _ in range(3):
        operation()
        device.finish()
    first = len(calls)
    operation()
    made = calls.counts(first)
    device.finish()
    alive, failed = len(calls.events_alive()), 0
    for name, count in made.items():
        if name in (*calls.driver.NEVER_FAIL, calls.driver.OPEN) or any(each in name for each in RELEASING):
            continue
        for after in range(count):
            failed += fails(name, after)
            before = standin.there_are()
            for _ in range(5):
                fails(name, after)
            now = standin.there_are()
            # A gate whose event was refused is not used again: nobody knows when its stream has read the word.
            assert now["events"] <= before["events"] + (5 if name == calls.driver.MARKER else 0), name
            for kind in ("streams", "graphs", "executables", "modules", "words"):
                assert now[kind] <= before[kind], (name, kind)
    assert failed
    assert len(calls.events_alive()) <= alive + 4


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


RUNS = [  # (mock driver, folders, least number of tests)
    ("nothing", ["tests/ordering", "tests/themes"], 600),
    ("cuda", ["tests/ordering", "tests/themes"], 600),
    ("cuda", ["tests/graphs", "tests/steps", "tests/memory/test_peers.py", "tests/memory/test_ipc.py",
              "tests/hip/addresses/test_interprocess.py"], 300),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("driver", "folders", "least"), RUNS)
def test_it_passes_the_tests_of_order_graphs_steps_and_lives(driver, folders, least):
    """In one process, which knows no other device, with results left out and nothing else."""
    done = processes.python(
        *("-m", "pytest", "-q", "-p", f"tests.drivers.{driver}.plugin", "-p", "no:randomly", *folders),
        FOREBAY_DEVICE=driver,
        FOREBAY_STANDIN_DEVICES="2",
    )
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > least
