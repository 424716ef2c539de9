"""The host's memory runs out at each place in turn where forebay's compiled code asks for some.

A command is refused before it has changed anything, or succeeds: no lock stays held, nothing is half done, no error is
lost. That holds when one request fails, and while all do.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.drivers.cuda import standing_in
from tests.helpers.processes import output_of

pytestmark = pytest.mark.skipif(standing_in.inside(), reason="another process has no stand-in")

MALLOC = Path(__file__).parents[1] / "helpers" / "failing_malloc.c"

CHILD = """
import ctypes, os, random, sys, threading
from tests.ordering import failures, mixed

malloc = ctypes.CDLL(None)


class Player(failures.FailingPlayer):
    # A command that was refused has changed nothing, so all memory is known.
    def go_on(self):
        malloc.fail(0, 0)
        self.over = not self.settle()
        run_out(random.Random(len(self.program.errors)))


def run_out(draw):
    malloc.fail(draw.randint(0, 60), draw.choice([1, 3, 1 << 30]))


def play(bench, seed):
    draw = random.Random(seed)
    device, built = bench.devices[0], bench.built[0]
    device.pool.growth_limit = draw.choice([0, 1 << 30])

    def make():
        player = Player(failures.FailingProgram(device, built), True)
        run_out(draw)
        return player

    (player,), _ = mixed.run(make, mixed.drawn_for_threads(draw, 1))
    failed = malloc.failures()
    malloc.fail(0, 0)
    judged = []

    def judge():
        player.program.open()
        device.finish()
        judged.append(mixed.compared(player))

    judging = threading.Thread(target=judge, daemon=True)
    judging.start()
    judging.join(60)
    if judging.is_alive():
        sys.exit("a lock is held, or a wait never ends")
    if not judged:
        sys.exit(f"program {seed} is wrong")
    return failed, len(player.program.errors)


def end(lost):
    print(f"lost: {lost.exc_value!r} in {lost.object!r}", flush=True)
    os._exit(1)


sys.unraisablehook = end
with mixed.Bench() as bench:
    counts = [play(bench, seed) for seed in range(int(sys.argv[1]))]
    print(*map(sum, zip(*counts)))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    made = tmp_path_factory.mktemp("malloc") / "failing_malloc.so"
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-O1", "-shared", "-fPIC", "-o", made, MALLOC, "-ldl"], check=True)
    return made


@pytest.mark.parametrize(
    "programs", [100, pytest.param(5000, marks=[pytest.mark.long, pytest.mark.needs("no chosen device")])]
)
def test_memory_of_the_host_runs_out(device, library, programs):
    limit = max(100, programs // 20)  # seconds, on a busy machine
    said = output_of("-c", CHILD, programs, FOREBAY_DEVICE=device.name, LD_PRELOAD=library, timeout=limit)
    assert all(int(count) > programs // 4 for count in said.split()), said


SHORT = """
import ctypes, sys
import forebay as fb

malloc = ctypes.CDLL(None)
device = fb.Device()
held, waiting, x = device.queue(blocking=False), device.queue(blocking=False), device.zeros(64, "u4")
queues = [device.queue(blocking=False) for _ in range(600)]
device.finish()
refused, calls = 0, [lambda queue=queue: queue.fill(x, 1) for queue in queues]
if sys.argv[1] == "waits":
    gate, calls = held.gate(), []
    for queue in queues:
        queue.wait(held)
        queue.fill(x, 1)
        calls.append(lambda event=queue.record(): waiting.wait(event))
malloc.fail(0, 1 << 30)
for call in calls:
    try:
        call()
    except fb.OutOfMemoryError:
        refused += 1
malloc.fail(0, 0)
if sys.argv[1] == "waits":
    gate.open()
device.finish()
print(refused)
"""


@pytest.mark.parametrize("what", ["waits", "fills"])
def test_nothing_begins_while_memory_is_short(device, library, what):
    """Or several would take more than is set aside for one."""
    said = output_of("-c", SHORT, what, FOREBAY_DEVICE=device.name, LD_PRELOAD=library, timeout=100)
    assert 0 < int(said) < 600


GIVEN_BACK = """
import ctypes, weakref
import numpy as np
import forebay as fb

malloc = ctypes.CDLL(None)
device = fb.Device()
queue, others = device.queue(blocking=False), [device.queue(blocking=False) for _ in range(600)]
x = device.zeros(64, "u4")
device.finish()
gate, known = queue.gate(), []
for _ in range(50):
    memory = np.zeros(64, "u4")
    known.append(weakref.ref(memory))
    queue.fill(device.as_buffer(memory), 1)
del memory
malloc.fail(0, 1 << 30)
refused = 0
for other in others:
    try:
        other.fill(x, 1)
    except fb.OutOfMemoryError:
        refused += 1
gate.open()
queue.finish()
print(refused, sum(each() is not None for each in known))
malloc.fail(0, 0)
"""


def test_what_is_done_is_given_back_while_memory_is_short(device, library):
    """That may be what ends the shortage."""
    if not device.driver.takes_host:
        pytest.skip("the device does not reach memory of the host")
    said = output_of("-c", GIVEN_BACK, FOREBAY_DEVICE=device.name, LD_PRELOAD=library, timeout=100)
    refused, kept = map(int, said.split())
    assert refused
    assert kept == 0
