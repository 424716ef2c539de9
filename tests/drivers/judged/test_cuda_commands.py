"""CUDA's waits of the host; what waits for a gate, and what must not; what does not grow."""

import contextlib
import gc
import os
import threading

import numpy as np
import pytest

import forebay as fb
from forebay.queues.memory.transfers import copy_to_staging, prefetch
from forebay.tracing.findings import HELD, Findings
from tests.drivers.cuda import standin
from tests.helpers import processes
from tests.inside import over_host_memory

from .conftest import JUDGED, SECONDS, in_a_thread

pytestmark = JUDGED


PRINTING = """
import functools, time
from tests.drivers.cuda import standing_in
standing_in.begin()
import forebay as fb
from forebay.events.event import wait_for_all
from tests.helpers.observer import observe, observer_of
observer_of('cuda').watch()
device = fb.Device("cuda")
kernel, x, queue = device.program("kernel void use(global int *x) {}")["use"], device.empty(64, "i4"), device.queue()
waits = {
    "queue": queue.finish,
    "device": device.finish,
    "timeout": lambda: queue.finish(timeout=60),
    "event": lambda: queue.record().wait(),
    "events": lambda: wait_for_all([queue.record(), device.null_queue.record()]),
    "download": x.get,
}

def written(wait):
    queue.launch(kernel, 4, 16, x)
    while not queue.query():  # lets other threads run
        pass
    with observe(device) as calls:
        wait()
        return calls.count("cuStreamSynchronize") > 0

assert {what: written(wait) for what, wait in waits.items()} == dict.fromkeys(waits, False)
printing = standing_in.HEAD + ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\\n"
program = device.program(printing + ".visible .entry say(.param .u64 x) { ret; }\\n")
assert {what: written(wait) for what, wait in waits.items()} == dict.fromkeys(waits, True)
queue.launch(program["say"], 1, 1, x)
del program
said = [written(queue.finish) for _ in range(6)]
assert said[0] and not said[-1] and said == sorted(said, reverse=True), said  # until its end is noticed, and once more
"""


def test_each_wait_of_the_host_has_the_driver_write_what_kernels_printed():
    """Polls do not, and by them forebay may know that all is done. Nobody pays for it while no program prints: in a
    process of its own, where no other test has loaded one that does.
    """
    processes.output_of("-c", PRINTING)


# -- what is submitted by several calls


@pytest.mark.parametrize("refusals", [1, 2])
def test_a_copy_whose_event_is_refused_is_a_command(device, calls, refusals):
    """The driver has taken it by then. It gets a marker of its own; if that is refused, too, the error is raised."""
    queue, buffer = device.queue(blocking=False), device.zeros(64, "i4")
    device.finish()
    first, staged = len(calls), device.driver.stage(buffer.nbytes)
    with queue.gate():
        for _ in range(refusals):
            calls.fail("cuEventRecord", calls.driver.FAILURE[0])
        refused = contextlib.nullcontext() if refusals == 1 else pytest.raises(fb.DriverError, match="cuEventRecord")
        with refused:
            assert not copy_to_staging(queue, staged, buffer).query()
        assert calls.count("cuMemcpyAsync", first) == 1
        assert queue.stats.copies == 1
    queue.finish()


# -- what waits for a gate, and what must not


def test_a_program_is_built_when_no_gate_is_closed(device, kernels):
    """The driver would wait for the gate, and let no other thread launch. Whoever opens it is not kept from that."""
    queue, buffer, built, begun = device.queue(blocking=False), device.empty(64, "u4"), [], threading.Event()

    def build():
        begun.set()
        built.append(device.program("kernel void other(global int *x) {}")["other"])

    gate = queue.gate()
    queue.launch(kernels["advance"], 4, 16, buffer, 1)
    ended = in_a_thread(build)
    assert begun.wait(SECONDS)
    other = device.queue(blocking=False)
    second = other.gate()  # gates, launches and host functions go on
    second.open()
    other.launch(kernels["advance"], 4, 16, buffer, 1)
    other.host(lambda: None)
    other.finish()
    assert not built
    gate.open()
    assert ended()
    device.null_queue.launch(built[0], 1, 1, buffer)
    device.finish()


MANY_QUEUES = """
import _thread, threading
from tests.drivers.cuda import standing_in
standing_in.begin()
import forebay as fb
device = fb.Device("cuda")
held, other = device.queue(), device.queue(blocking=False)
gate, queues = held.gate(), [device.queue(blocking=False) for _ in range(100)]

def make():
    while len(queues) < 300:
        queues.append(device.queue(blocking=False))

making = threading.Thread(target=make, daemon=True)
making.start()
for _ in range(100):
    other.host(lambda: None)
    other.finish()
assert len(queues) < 300
gate.open()
making.join(60)
assert len(queues) == 300
gate = held.gate()
queues += [device.queue(blocking=False) for _ in range(100)]
threading.Timer(0.5, _thread.interrupt_main).start()
try:
    while True:
        queues.append(device.queue(blocking=False))
except KeyboardInterrupt:
    pass
gate.open()
queues.append(device.queue(blocking=False))
device.finish()
"""


def test_queues_are_made_behind_a_closed_gate_while_the_driver_has_memory_for_their_streams():
    """It takes more for many at a time, and waits for all gates before it does. So a queue that needs more is made when
    no gate is closed, others run meanwhile, and memory for a hundred more is taken then. Ctrl-C ends the wait.
    """
    processes.output_of("-c", MANY_QUEUES, timeout=100)


def test_strided_memory_moves_for_the_first_time_behind_a_closed_gate(device, kernels):
    """Its kernels are not built then: that would wait until the gate opens."""
    queue = device.queue(blocking=False)
    gate = queue.gate()
    with fb.Device("cuda", private=True) as fresh:
        x, other = fresh.zeros((8, 8), "u4"), fresh.queue()
        before = other.stats.launches
        x[::2, ::2].fill(7)
        other.copy(x[:, 1].copy(), x[:, 2])
        assert other.stats.launches > before
    gate.open()
    queue.finish()


def test_memory_used_before_a_gate_is_given_back_while_it_is_closed(device, kernels):
    """A marker before the gate tells that its use is done."""
    queue, used, behind = device.queue(blocking=False), device.empty(1 << 20, "u4"), device.empty(1 << 20, "u4")
    queue.launch(kernels["advance"], 4, 16, used, 1)
    gate = queue.gate()
    queue.launch(kernels["advance"], 4, 16, behind, 1)
    before = standin.there_are()["blocks"]
    used.close()
    for _ in range(10):
        device.queue(blocking=False)  # begins with a collection
    after = standin.there_are()["blocks"]
    gate.open()
    device.finish()
    assert after < before


def test_a_program_that_ends_while_a_gate_is_closed_is_unloaded_later(device):
    """Unloading would wait for the gate, too, so it is left to who loads the next one."""
    source = "kernel void passing(global int *x) {}"
    device.program(source)
    before = standin.there_are()["modules"]
    for _ in range(10):
        passing = [device.program(source)]
        gate = device.queue(blocking=False).gate()
        ended = in_a_thread(passing.clear)
        assert ended()
        gc.collect()
        gate.open()
        device.finish()
    assert standin.there_are()["modules"] <= before + 1


def test_memory_of_the_program_is_unregistered_when_no_gate_is_closed(device):
    """Behind a closed gate the driver would wait, and let no other thread launch."""
    array = np.zeros(1000, "u4")
    for _ in range(3):
        registered = over_host_memory(device, array.ctypes.data, array.nbytes)
        with device.queue(blocking=False).gate():
            device.null_queue.fill(registered, 7)
            device.null_queue.finish()
            before = standin.there_are()["blocks"]
            ended = in_a_thread(registered.close)
            assert ended()
            assert standin.there_are()["blocks"] == before
            with pytest.raises(fb.DriverError, match="ALREADY_REGISTERED"):
                over_host_memory(device, array.ctypes.data, array.nbytes)
        device.finish()
    over_host_memory(device, array.ctypes.data, array.nbytes).close()  # others were taken away before
    device.finish()
    assert standin.there_are()["blocks"] < before


def test_shared_memory_is_moved_in_the_order_of_the_queue(device, kernels, calls):
    queue, other, shared = device.queue(blocking=False), device.queue(blocking=False), device.empty(64, "u4", "shared")
    with other.gate():
        other.launch(kernels["advance"], 4, 16, shared, 1)
        queue.wait(other)
        first = len(calls)
        prefetch(queue, shared, to_host=True)
        (made,) = calls.since(first)
        assert (made.name, len(made.waits)) == ("cuMemPrefetchAsync_v2", 1)
        assert not queue.query()
    queue.finish()


def test_memory_that_processes_share_has_room_when_the_pool_gives_up_its_own(device):
    queue, most = device.queue(), device.info.memory
    queue.alloc(most // 4 * 3, "u1").close()  # kept by the pool
    queue.finish()
    shared = device.empty(most // 2, "u1", ipc_enabled=True)
    with pytest.raises(fb.OutOfMemoryError):
        device.empty(most // 4 * 3, "u1", ipc_enabled=True)
    with pytest.raises(fb.OutOfMemoryError):
        device.empty(1 << 60, "u1", ipc_enabled=True)
    shared.close()
    device.empty(most // 4 * 3, "u1", ipc_enabled=True).close()


def test_a_forked_child_gives_nothing_back(device):
    """Its garbage collector may find what the parent has."""
    memories = [
        device.driver.allocate(1 << 20), device.driver.allocate(1 << 20, "host"), device.driver.allocate_shared(16),
    ]  # fmt: skip
    array = np.zeros(1 << 12, "u1")
    memories.append(device.driver.register_host(array.ctypes.data, array.nbytes))
    before, child = standin.there_are(), os.fork()
    if child == 0:
        try:
            memories.clear()
            os._exit(0 if standin.there_are() == before else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    memories.clear()
    assert standin.there_are()["blocks"] < before["blocks"]


# -- what does not grow


def test_a_gate_asks_for_few_of_those_that_are_open_behind_a_closed_one(device):
    """Each question takes the driver a microsecond, and meanwhile nobody else of the context gets an event."""
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    closed = queue.gate()
    for _ in range(500):
        queue.gate().open()
    before = standin.there_are()
    for _ in range(200):
        other.gate().open()
        other.finish()
    now = standin.there_are()
    assert now["queries"] - before["queries"] < 200 * 20
    assert now["events"] - before["events"] <= 200
    closed.open()
    device.finish()
    before = standin.there_are()
    for _ in range(1000):
        other.gate().open()
        other.finish()
    assert standin.there_are()["events"] == before["events"]


def test_more_than_24_queues_that_are_held_or_wait_behind_a_held_one_are_told(device, kernels):
    recorder, buffer = Findings(), device.empty(64, "u4")

    def hold(count):
        """Hold one queue of so many, and let the others wait for it."""
        first, *others = (device.queue(blocking=False) for _ in range(count))
        with first.gate():
            for queue in others:
                queue.wait(first)
                queue.launch(kernels["advance"], 4, 16, buffer, 1)
        device.finish()

    recorder.begin()
    try:
        hold(24)
        hold(25)
    finally:
        _, found = recorder.end()
    assert [finding.what for finding in found] == [HELD.format(held=25, most=24)]
    assert found[0].line.startswith(f"{__file__}:")
