"""The driver that executes nothing: it is one folder and one line, and it is judged like the others."""

import random
import re
import threading
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay.queues.drivers.selection import DRIVERS
from tests.drivers.nothing.driver import Nothing
from tests.helpers import processes
from tests.observers import nothing as observer
from tests.ordering import mixed, program
from tests.ordering.happens_before import OrderError
from tests.ordering.test_programs import OPERATIONS, QUEUES, Player

pytestmark = pytest.mark.needs("no chosen device", "no validation layer")


@pytest.fixture(scope="module", autouse=True)
def known():
    """The one line in `selection.py`."""
    with mock.patch.dict(DRIVERS, nothing=Nothing()):
        yield


@pytest.fixture(scope="module")
def device(known):
    with fb.Device("nothing", private=True) as device:
        yield device


@pytest.fixture(scope="module")
def kernels(device):
    return device.program(program.SOURCE)


@pytest.fixture
def results_are_not_compared(monkeypatch):
    for module in (program, mixed):
        monkeypatch.setattr(module, "EXECUTES", False)


# -- what it is


def test_it_is_listed_and_selected(device):
    assert "nothing:custom:0" in [info.name for info in fb.devices()]
    assert device.name == "nothing:custom:0"
    assert fb.Device("custom:0").name == device.name
    with pytest.raises(fb.ArgumentTypeError):  # no driver adopts it, and this one adopts nothing
        device.adopt_queue(object())


def test_it_accepts_commands_and_memory_does_not_change(device, kernels):
    queue, buffer = device.queue(blocking=False), device.empty(64, "u4", usm_type="shared")
    queue.fill(buffer, 7)
    queue.launch(kernels["advance"], 4, 16, buffer, 1)
    queue.finish()
    assert queue.empty
    assert not np.from_dlpack(buffer).any()  # in place: what a copy would write is unspecified, as none is made


def test_nothing_is_done_behind_a_closed_gate(device, kernels):
    first, second, free = (device.queue(blocking=False) for _ in range(3))
    buffer, ran = device.empty(64, "u4"), []
    gate = first.gate()
    first.launch(kernels["advance"], 4, 16, buffer, 1)
    event = first.record()
    second.wait(event)
    second.host(lambda: ran.append("host"))
    free.launch(kernels["advance"], 4, 16, buffer, 1)
    free.finish()
    assert not event.done
    assert not first.query()
    assert not second.query()
    with pytest.raises(fb.TimeoutError):
        second.finish(timeout=0)
    assert not ran
    opener = threading.Thread(target=gate.open)
    opener.start()
    second.finish()
    opener.join()
    assert event.done
    assert ran == ["host"]
    assert first.query()


def test_the_null_queue_comes_after_blocking_ones_and_before(device, kernels):
    before, after, buffer = device.queue(), device.queue(), device.empty(64, "u4")
    gate = before.gate()
    device.null_queue.launch(kernels["advance"], 4, 16, buffer, 1)
    after.launch(kernels["advance"], 4, 16, buffer, 1)
    assert not device.null_queue.query()
    assert not after.query()
    gate.open()
    after.finish()
    assert device.null_queue.query()


def test_time_goes_on_from_one_event_to_the_next(device):
    queue = device.queue(timing=True)
    first, second = queue.record(timing=True), queue.record(timing=True)
    queue.finish()
    assert second - first >= 0


def test_another_device_waits_for_an_event(device):
    with fb.Device("nothing", private=True) as other:
        first, second = device.queue(blocking=False), other.queue(blocking=False)
        gate = first.gate()
        second.wait(first.record())
        second.fill(other.empty(4, "u4"), 1)
        assert not second.query()
        gate.open()
        second.finish()


@pytest.mark.parametrize("source", ["kernel int f() {}", "kernel void f(int *a) {}", "kernel void f(Unknown a) {}"])
def test_what_it_cannot_read_does_not_build(device, source):
    with pytest.raises(fb.BuildError):
        device.program(source)


# -- judged


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


@pytest.fixture
def lie(results_are_not_compared):
    """``lie(waits=True)``, ``lie(gates=True)``: until the test ends, the driver is no good."""
    yield observer.lie
    observer.lie()


def test_random_programs_are_in_the_order_of_the_rules(device, kernels, results_are_not_compared):
    assert found_in(device, kernels, range(40)) == []


def test_the_checker_finds_a_driver_that_launches_without_waits(device, kernels, lie):
    lie(waits=True)
    found = found_in(device, kernels, range(40))
    assert len(found) > 10
    assert any("is not ordered after" in each for each in found)


def test_the_checker_finds_a_driver_whose_gates_do_not_hold(device, kernels, lie):
    """It is not the record that is wrong then: the driver says of events and queues that they are done."""
    lie(gates=True)
    found = found_in(device, kernels, range(40))
    assert len(found) > 5
    assert all("while their gates are closed" in each for each in found)


def test_programs_with_everything_in_the_mix(results_are_not_compared):
    with mixed.Bench("nothing", watched=True) as bench:
        for seed in range(20):
            bench.run(seed)
        assert bench.pairs > 1000


@pytest.mark.long
def test_it_passes_all_tests_of_ordering():
    """In a process that knows no other device, with results left out and nothing else."""
    done = processes.python(
        *("-m", "pytest", "-q", "-p", "tests.drivers.nothing.plugin", "-p", "no:randomly", "tests/ordering"),
        FOREBAY_DEVICE="nothing",
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert int(passed[1]) > 300
