"""The folder of CUDA, judged by its calls where there is no GPU: `standin.hpp` takes the place of the driver.

What this shows: each call has arguments that fit the call, objects that are there, and a context where one is needed;
what was submitted is in the order that HIP's rules ask for; what must not wait for a closed gate does not; a failure of
any call leaves nothing behind. What it cannot show: that CUDA's driver agrees with the model, and that a kernel or copy
computes anything, as none is executed. `make test-cuda` runs the whole suite on a GPU.
"""

import contextlib
import gc
import os
import random
import re
import threading
import time
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import forebay as fb
from forebay.queues.drivers.cuda.driver import Cuda
from forebay.queues.drivers.selection import DRIVERS
from forebay.queues.graphs.lanes import BRANCHES, segments_of
from forebay.tracing.habits import Habits
from forebay.tracing.queue_waits import HELD
from tests.graphs.test_branch_calls import graphs
from tests.graphs.test_branches import until
from tests.graphs.test_lanes import ancestors
from tests.helpers import processes
from tests.helpers.observer import observe
from tests.observers import cuda as observer
from tests.observers.internals import is_wanted
from tests.ordering import failures, mixed, program
from tests.ordering.happens_before import OrderError
from tests.ordering.test_programs import OPERATIONS, QUEUES, Player

from . import standin, standing_in

pytestmark = [
    pytest.mark.needs("no chosen device", "no validation layer"),
    pytest.mark.skipif(bool(DRIVERS["cuda"].discover()), reason="the table has the functions of a real driver"),
]
SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def known():
    """In this module CUDA is the stand-in."""
    patches = standing_in.begin()
    with mock.patch.dict(DRIVERS, cuda=Cuda()):
        observer.watch()
        yield
    for patch in patches:
        patch.stop()


@pytest.fixture(autouse=True)
def meant(known):
    """No test calls the driver wrongly, but for what it appends here. Failures that are planned do not reach it."""
    before, meant = standin.there_are()["faults"], []
    yield meant
    assert standin.there_are()["faults"] == before + len(meant)


@pytest.fixture(scope="module")
def device(known):
    with fb.Device("cuda", private=True) as device:
        yield device


@pytest.fixture(scope="module")
def kernels(device):
    return device.program(program.SOURCE)


@pytest.fixture
def calls(device, kernels):
    device.finish()
    with observe(device) as calls:
        yield calls
    device.finish()


@pytest.fixture
def results_are_not_compared(monkeypatch):
    for module in (program, mixed, failures):
        monkeypatch.setattr(module, "EXECUTES", False)


def in_a_thread(function):
    """Start a thread, which ends with the process at the latest. Returns what waits for it and says if it has ended."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()

    def ended(seconds=SECONDS):
        thread.join(seconds)
        return not thread.is_alive()

    return ended


# -- what it is


def test_it_is_listed_and_selected(device):
    info = next(info for info in fb.devices() if info.backend == "cuda")
    assert (info.name, info.description, info.usable) == ("cuda:gpu:0", "Stand-in", True)
    assert device.name == fb.Device("cuda:gpu:0").name == "cuda:gpu:0"


def test_it_accepts_commands_and_memory_does_not_change(device, kernels):
    queue, buffer = device.queue(blocking=False), device.zeros(64, "u4", usm_type="shared")
    queue.fill(buffer, 7)
    queue.launch(kernels["advance"], 4, 16, buffer, 1)
    queue.finish()
    assert queue.empty
    assert not np.from_dlpack(buffer).any()


def test_what_it_refuses_is_counted(device, kernels, meant):
    """So the other tests see a wrong call also where forebay says nothing."""
    with pytest.raises(fb.DriverError, match="cuLaunchKernel failed: CUDA_ERROR_INVALID_VALUE"):
        device.null_queue.launch(kernels["advance"], (1, 1 << 20), 1, device.empty(64, "u4"), 1)
    meant.append("too many groups in y")


def test_nothing_is_done_behind_a_closed_gate(device, kernels):
    first, second, free = (device.queue(blocking=False) for _ in range(3))
    buffer, ran = device.empty(64, "u4"), []
    gate = first._gate()
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
    ended = in_a_thread(gate.open)
    second.finish()
    assert ended()
    assert event.done
    assert ran == ["host"]
    assert first.query()


def test_the_null_queue_comes_after_blocking_ones_and_before(device, kernels):
    before, after, buffer = device.queue(), device.queue(), device.empty(64, "u4")
    gate = before._gate()
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


PRINTING = """
import functools, time
from tests.drivers.cuda import standing_in
standing_in.begin()
import forebay as fb
from forebay.events.event import wait_for_all
from tests.helpers.observer import observe
from tests.observers import cuda as observer
observer.watch()
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
    done = processes.python("-c", PRINTING)
    assert done.returncode == 0, done.stderr


def test_another_device_waits_for_an_event(device):
    with fb.Device("cuda", private=True) as other:
        first, second = device.queue(blocking=False), other.queue(blocking=False)
        gate = first._gate()
        second.wait(first.record())
        second.fill(other.empty(4, "u4"), 1)
        assert not second.query()
        gate.open()
        second.finish()


# -- what waits for a gate, and what must not


def test_a_program_is_built_when_no_gate_is_closed(device, kernels):
    """The driver would wait for the gate, and let no other thread launch. Whoever opens it is not kept from that."""
    queue, buffer, built, begun = device.queue(blocking=False), device.empty(64, "u4"), [], threading.Event()

    def build():
        begun.set()
        built.append(device.program("kernel void other(global int *x) {}")["other"])

    gate = queue._gate()
    queue.launch(kernels["advance"], 4, 16, buffer, 1)
    ended = in_a_thread(build)
    assert begun.wait(SECONDS)
    other = device.queue(blocking=False)
    second = other._gate()  # gates, launches and host functions go on
    second.open()
    other.launch(kernels["advance"], 4, 16, buffer, 1)
    other.host(lambda: None)
    other.finish()
    assert not built
    gate.open()
    assert ended()
    device.null_queue.launch(built[0], 1, 1, buffer)
    device.finish()


def test_strided_memory_moves_for_the_first_time_behind_a_closed_gate(device, kernels):
    """Its kernels are not built then: that would wait until the gate opens."""
    queue = device.queue(blocking=False)
    gate = queue._gate()
    with fb.Device("cuda", private=True) as fresh:
        x, other = fresh.zeros((8, 8), "u4"), fresh.queue(blocking=False)
        before = other.stats.launches
        x[::2, ::2].fill(7)
        other.copy(x[:, 1].copy(), x[:, 2])
        assert other.stats.launches > before
    gate.open()
    queue.finish()


def test_a_program_that_ends_while_a_gate_is_closed_is_unloaded_later(device):
    """Unloading would wait for the gate, too, so it is left to who loads the next one."""
    source = "kernel void passing(global int *x) {}"
    device.program(source)
    before = standin.there_are()["modules"]
    for _ in range(10):
        passing = [device.program(source)]
        gate = device.queue(blocking=False)._gate()
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
        registered = device._over_host_memory(array.ctypes.data, array.nbytes)
        with device.queue(blocking=False)._gate():
            device.null_queue.fill(registered, 7)
            device.null_queue.finish()
            before = standin.there_are()["blocks"]
            ended = in_a_thread(registered.close)
            assert ended()
            assert standin.there_are()["blocks"] == before
            with pytest.raises(fb.DriverError, match="ALREADY_REGISTERED"):
                device._over_host_memory(array.ctypes.data, array.nbytes)
        device.finish()
    device._over_host_memory(array.ctypes.data, array.nbytes).close()  # others were taken away before
    device.finish()
    assert standin.there_are()["blocks"] < before


def test_shared_memory_is_moved_in_the_order_of_the_queue(device, kernels, calls):
    queue, other, shared = device.queue(blocking=False), device.queue(blocking=False), device.empty(64, "u4", "shared")
    with other._gate():
        other.launch(kernels["advance"], 4, 16, shared, 1)
        queue.wait(other)
        first = len(calls)
        queue._prefetch(shared, True)
        (made,) = calls.since(first)
        assert (made.name, len(made.waits)) == ("cuMemPrefetchAsync_v2", 1)
        assert not queue.query()
    queue.finish()


def test_closing_waits_for_what_was_submitted_and_gives_everything_back(known):
    device = fb.Device("cuda", private=True)
    device.program(program.SOURCE)
    device.close()
    gc.collect()
    before = standin.there_are()
    device = fb.Device("cuda", private=True)
    kernels, queue, buffer = device.program(program.SOURCE), device.queue(), device.zeros(1 << 20, "u4")
    gate = queue._gate()
    queue.launch(kernels["advance"], 4, 16, buffer, 1)
    graph = device.graph()
    graph.add_kernel(kernels["advance"], 4, 16, buffer, 1)
    graph.launch(queue)
    queue.copy(buffer, bytes(buffer.nbytes))
    timer = threading.Timer(0.05, gate.open)
    timer.start()
    device.close()
    timer.join()
    del kernels, queue, buffer, graph, gate, device
    gc.collect()
    now = standin.there_are()
    for what in ("streams", "graphs", "executables", "words"):
        assert now[what] <= before[what], what
    assert now["blocks"] <= before["blocks"] + 1  # a page of words


# -- what does not grow


def test_a_hundred_thousand_turns_take_no_more_of_anything(device, kernels):
    queues, buffer = [device.queue(blocking=False) for _ in range(3)], device.empty(64, "u4")

    def turns(count):
        for k in range(count):
            one, other = queues[k % 3], queues[(k + 1) % 3]
            one.launch(kernels["advance"], 4, 16, buffer, k)
            other.wait(one)
            if k % 10 == 0:
                gate = other._gate()
                other.launch(kernels["advance"], 4, 16, buffer, k)
                gate.open()
            if k % 1000 == 0:
                device.finish()

    turns(3000)
    before = standin.there_are()
    turns(100_000)
    device.finish()
    now = standin.there_are()
    assert now["events"] <= before["events"] + 8
    assert now["blocks"] == before["blocks"]
    assert now["words"] == 0


def test_a_gate_asks_for_few_of_those_that_are_open_behind_a_closed_one(device):
    """Each question takes the driver a microsecond, and meanwhile nobody else of the context gets an event."""
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    closed = queue._gate()
    for _ in range(500):
        queue._gate().open()
    before = standin.there_are()
    for _ in range(200):
        other._gate().open()
        other.finish()
    now = standin.there_are()
    assert now["queries"] - before["queries"] < 200 * 20
    assert now["events"] - before["events"] <= 200
    closed.open()
    device.finish()
    before = standin.there_are()
    for _ in range(1000):
        other._gate().open()
        other.finish()
    assert standin.there_are()["events"] == before["events"]


def test_a_graph_that_changes_again_and_again_has_the_same_nodes(device, kernels, calls):
    x, graph, queue = device.zeros(64, "u4"), device.graph(), device.queue(blocking=False)
    nodes = [graph.add_kernel(kernels["advance"], 4, 16, x, k) for k in range(5)]
    executable = graph.instantiate()
    executable.launch(queue)
    before, first = standin.there_are(), len(calls)
    for k in range(1000):
        executable.set_kernel(nodes[k % 5], kernels["advance"], 4, 16, x, 7 + k)
        executable.launch(queue)
    counts = calls.counts(first)
    assert counts["cuGraphLaunch"] == 1000
    assert counts["cuGraphExecKernelNodeSetParams_v2"] == 999  # at the first change it is recorded so that it can be
    now = standin.there_are()
    assert now["graphs"] == now["executables"] <= before["graphs"] + 1
    queue.finish()


def test_more_than_24_queues_that_are_held_or_wait_behind_a_held_one_are_told(device, kernels):
    habits, buffer = Habits(), device.empty(64, "u4")

    def hold(count):
        """Hold one queue of so many, and let the others wait for it."""
        first, *others = (device.queue(blocking=False) for _ in range(count))
        with first._gate():
            for queue in others:
                queue.wait(first)
                queue.launch(kernels["advance"], 4, 16, buffer, 1)
        device.finish()

    habits.begin()
    try:
        hold(24)
        hold(25)
    finally:
        _, found = habits.end()
    assert [habit.what for habit in found] == [HELD.format(held=25, most=24)]
    assert found[0].line.startswith(f"{__file__}:")


# -- graphs


@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_nodes_come_after_what_they_depend_on_and_nothing_else(device, kernels, calls, drawn):
    dependencies, kinds = drawn
    x, y, graph = device.zeros(64, "u4"), device.zeros(64, "u4"), device.graph()
    for k, (earlier, kind) in enumerate(zip(dependencies, kinds, strict=True)):
        after = [graph.nodes[i] for i in earlier]
        if kind == "kernel":
            graph.add_kernel(kernels["advance"], 4, 16, x, k, after=after)
        elif kind == "fill":
            graph.add_fill(x, k, after=after)
        elif kind == "copy":
            graph.add_copy(x, y, after=after)
        else:
            graph.add_empty(after=after)
    acts = [kind != "empty" for kind in kinds]
    first = len(calls)
    executable = graph.instantiate()
    order = [node for segment in segments_of(dependencies, acts, BRANCHES) for node in segment.nodes]
    added = [call for call in calls.since(first) if calls.kind(call) == "node"]
    assert len(added) == len(order)
    node_of = {call.event: node for call, node in zip(added, order, strict=False)}
    before = {}
    for call in added:
        before[call.event] = set(call.waits).union(*(before[each] for each in call.waits))
    for event, node in node_of.items():
        assert {node_of[each] for each in before[event]} == ancestors(dependencies)[node] & set(order)
    first = len(calls)
    executable.launch(device.null_queue)
    assert calls.kinds(first)["command"] == any(acts)


def test_host_functions_cut_a_graph_and_are_called(device, kernels, calls):
    graph, ran, x = device.graph(), [], device.zeros(64, "u4")
    first = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    host = graph.add_host(lambda: ran.append(1), after=first)
    graph.add_kernel(kernels["advance"], 4, 16, x, 2, after=host)
    executable = graph.instantiate()
    for _ in range(10):
        executable.launch(device.null_queue)
    device.finish()
    assert ran == [1] * 10
    assert calls.count("cuLaunchHostFunc") == calls.count("open") == 10


def test_a_graph_is_not_instantiated_while_a_gate_is_closed(device, kernels, calls):
    """The driver may wait for the gate then. Its launches are submitted one by one, in order, until it can be."""
    queue, held, x = device.queue(blocking=False), device.queue(blocking=False), device.zeros(64, "u4")
    gate = held._gate()
    graph = device.graph()
    begin = graph.add_kernel(kernels["advance"], 4, 16, x, 0)
    branches = [graph.add_kernel(kernels["advance"], 4, 16, x, k, after=begin) for k in (1, 2, 3)]
    graph.add_kernel(kernels["advance"], 4, 16, x, 4, after=branches)
    executable = graph.instantiate()
    for _ in range(20):
        executable.launch(queue)
    assert (calls.count("cuLaunchKernel"), calls.count("cuGraphLaunch")) == (100, 0)
    assert len({call.object for call in calls.log if call.name == "cuLaunchKernel"}) == 1  # so they are in order
    gate.open()
    for _ in range(20):
        executable.launch(queue)
    first = len(calls)
    executable.launch(queue)
    assert (calls.count("cuLaunchKernel", first), calls.count("cuGraphLaunch", first)) == (0, 1)
    queue.finish()
    held.finish()


def test_a_launch_on_another_queue_comes_after_the_one_before(device, kernels, calls):
    """Though the driver orders them, too: what comes after it on that queue must be known to come after both."""
    queues, x = [device.queue(blocking=False) for _ in range(2)], device.zeros(64, "u4")
    with queues[0].capture() as graph:
        for k in range(3):
            queues[0].launch(kernels["advance"], 4, 16, x, k)
    executable = graph.instantiate()
    for turn in range(6):
        before, first = queues[turn % 2].stats, len(calls)
        executable.launch(queues[turn % 2])
        made = queues[turn % 2].stats - before
        looked = made.waits_made + made.waits_elided_completed + made.waits_elided_ordered
        assert (looked, calls.count("cuGraphLaunch", first)) == (turn > 0, 1)
        executable.launch(queues[turn % 2])  # nothing to look for: the short way
    device.finish()


def test_a_step_is_not_made_a_graph_while_a_gate_is_closed(device, kernels, calls):
    queue, held, x = device.queue(blocking=False), device.queue(blocking=False), device.zeros(64, "u4")
    gate, step = held._gate(), queue.step()

    def turn():
        first = len(calls)
        with step:
            for i in range(10):
                queue.launch(kernels["advance"], 4, 16, x, i)
        return calls.count("cuLaunchKernel", first), calls.count("cuGraphLaunch", first)

    assert [turn() for _ in range(10)] == [(10, 0)] * 10
    gate.open()
    held.finish()
    assert [turn() for _ in range(10)][-1] == (0, 1)
    queue.finish()


def test_a_step_that_repeats_is_one_launch_of_a_graph(device, kernels, calls):
    queue, x = device.queue(blocking=False), device.zeros(64, "u4")
    step = queue.step()
    for k in range(20):
        first = len(calls)
        with step:
            for i in range(10):
                queue.launch(kernels["advance"], 4, 16, x, i * k)
    names = calls.counts(first)
    assert names["cuGraphLaunch"] == 1
    assert names["cuLaunchKernel"] == 0
    queue.finish()


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
    """``lie(waits=True)``, ``lie(gates=True)``: until the test ends, the folder is no good."""
    yield observer.lie
    observer.lie()


def test_random_programs_are_in_the_order_of_the_rules(device, kernels, results_are_not_compared):
    assert found_in(device, kernels, range(40)) == []


def test_the_checker_finds_a_folder_that_launches_without_waits(device, kernels, lie):
    lie(waits=True)
    found = found_in(device, kernels, range(40))
    assert len(found) > 10
    assert any("is not ordered after" in each for each in found)


def test_the_checker_finds_a_folder_whose_gates_do_not_hold(device, kernels, lie):
    lie(gates=True)
    found = found_in(device, kernels, range(40))
    assert len(found) > 5
    assert all("while their gates are closed" in each for each in found)


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


# -- failures, each call of each operation in turn


def operations_on(device, kernels):
    """By name: what may be done again and again, also after it failed."""
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    x, y, wide = device.zeros(64, "u4"), device.zeros(64, "u4"), device.zeros(64, "u8")
    host = bytes(x.nbytes)

    def waiting(command):
        def run():
            gate = other._gate()
            try:
                other.launch(kernels["advance"], 4, 16, x, 1)
                queue.wait(other)
                command()
            finally:
                gate.open()

        return run

    def held():
        queue._gate().open()

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
                gate = queue._gate()
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


@pytest.mark.long
def test_it_passes_the_tests_of_order_graphs_steps_and_lives():
    """In one process, which knows no other device of CUDA, with results left out and nothing else."""
    done = processes.python(
        *("-m", "pytest", "-q", "-p", "tests.drivers.cuda.plugin", "-p", "no:randomly"),
        *("tests/ordering", "tests/graphs", "tests/steps"),
        *("tests/queues/test_closing.py", "tests/queues/test_device_lifetime.py", "tests/memory/test_peers.py"),
        *("tests/memory/test_ipc.py", "tests/hip/addresses/test_interprocess.py"),
        FOREBAY_DEVICE="cuda",
        FOREBAY_STANDIN_DEVICES="2",
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert int(passed[1]) > 600


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
        device.driver.allocate(1 << 20),
        device.driver.allocate(1 << 20, "host"),
        device.driver.allocate_shared(16),
    ]
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


def test_copies_in_a_graph_take_room(device, kernels):
    """Between a launch and a copy the hardware changes its engine, which takes of a stream's 1,020."""
    queue, x, y = device.queue(blocking=False), device.empty(64, "u4"), device.empty(64, "u4")
    with queue.capture() as graph:
        for _ in range(4):
            queue.launch(kernels["advance"], 4, 16, x, 1)
            queue.copy(y, x)
    before = queue.epoch
    for _ in range(3):
        graph.launch(queue)
    assert queue.epoch - before == 3 * (1 + 2 * 4)
    queue.finish()
    assert queue.empty


def test_host_functions_of_graphs_are_no_more_than_a_channel_takes(device, kernels):
    """However much other queues lend. The driver's call would block with the queue locked, for which a function may
    wait: so the launch waits first.
    """
    queue, x = device.queue(blocking=False), device.empty(64, "u4")
    go, called = threading.Event(), []
    with queue.capture() as graph:
        queue.launch(kernels["advance"], 4, 16, x, 1)
        queue.host(lambda: (go.wait(SECONDS), called.append(queue.query())))
        queue.launch(kernels["advance"], 4, 16, x, 1)
    thread = threading.Thread(target=lambda: [graph.launch(queue) for _ in range(60)])
    thread.start()
    before = -1
    while thread.is_alive() and queue.epoch != before:  # until it waits
        before = queue.epoch
        time.sleep(0.05)  # nothing tells that a thread waits for room; too early, and the test shows less
    assert thread.is_alive()
    go.set()
    thread.join()
    queue.finish()
    assert len(called) == 60


@pytest.mark.parametrize("used", ["never", "never asked for", "never asked for by a private Device"])
def test_many_streams_that_are_idle_take_no_room(device, kernels, used):
    """Each has little of its channel then; but a host function may go on only when more is submitted behind it."""
    with contextlib.ExitStack() as stack:
        owner = stack.enter_context(fb.Device(device.name, private=True)) if "private" in used else device
        many_that_are_idle(device, kernels, owner, used != "never")


def many_that_are_idle(device, kernels, owner, used):
    idle, other = [owner.queue(blocking=False) for _ in range(700)], owner.empty(64, "u4")
    if used:
        for each in idle:
            each.fill(other, 1)
    queue, x, go, graph = device.queue(blocking=False), device.empty(64, "u4"), threading.Event(), device.graph()
    graph.add_host(lambda: go.wait(SECONDS))
    graph.add_kernel(kernels["advance"], 4, 16, x, 1)

    def submit():
        for _ in range(2):
            graph.launch(queue)
        for _ in range(100):
            queue.launch(kernels["advance"], 4, 16, x, 1)

    done = in_a_thread(submit)
    in_time = done(SECONDS / 2)
    go.set()
    queue.finish()
    assert in_time
    for each in idle:
        each.close()


def test_what_a_private_device_has_in_flight_takes_room(device, kernels):
    """It has streams of the same channels. Who gives the driver more than they take would block, with a queue locked
    that a host function may want.
    """
    idle, go, x = [device.queue(blocking=False) for _ in range(700)], threading.Event(), device.empty(64, "u4")
    queue = device.queue(blocking=False)
    with fb.Device(device.name, private=True) as private:
        assert private.driver.keeps_gil_below < 30
        other, y = [private.queue(blocking=False) for _ in range(2)], private.empty(64, "u4")
        gates = [each._gate() for each in other]
        for each in other:  # all that is to be lent
            for _ in range(500):
                each.fill(y, 1)
        queue.host(lambda: go.wait(SECONDS))
        submitted = queue.epoch
        done = in_a_thread(lambda: [queue.launch(kernels["advance"], 4, 16, x, 1) for _ in range(100)])
        in_time = done(1)
        submitted = queue.epoch - submitted
        go.set()
        for gate in gates:
            gate.open()
        assert done(SECONDS)
    queue.finish()
    assert not in_time
    assert submitted < 40
    for each in idle:
        each.close()


def test_what_is_lent_is_given_back_by_who_needs_it_no_more(device, kernels):
    """Though nobody has asked whether they are done; and by those that end."""
    idle, x = [device.queue(blocking=False) for _ in range(700)], device.empty(64, "u4")
    room = device.driver.keeps_gil_below
    for turn in range(3):
        for each in idle[20 * turn : 20 * turn + 20]:  # they borrow all there is
            for _ in range(10 * room):
                each.launch(kernels["advance"], 4, 16, x, 1)
            if turn == 1:
                each.close()
        queue, go = device.queue(blocking=False), threading.Event()
        queue.host(lambda go=go: go.wait(SECONDS))
        done = in_a_thread(lambda queue=queue: [queue.launch(kernels["advance"], 4, 16, x, 1) for _ in range(5 * room)])
        in_time = done(SECONDS / 2)
        go.set()
        queue.finish()
        assert in_time
    for each in idle:
        each.close()


@pytest.mark.parametrize("what", ["a wait", "a step"])
def test_who_is_asked_whether_it_needs_what_is_lent_may_have_more_than_the_driver_knows(device, kernels, what):
    """It is not done then, though the driver has nothing of it."""
    idle, x = [device.queue(blocking=False) for _ in range(700)], device.empty(64, "u4")
    room, held = device.driver.keeps_gil_below, device.queue(blocking=False)
    asked, *others = idle[:20]
    step = asked.step()
    for _ in range(3):
        with step:
            asked.launch(kernels["advance"], 4, 16, x, 1)
    for _ in range(10 * room):  # it borrows
        asked.launch(kernels["advance"], 4, 16, x, 1)
    with held._gate():
        with contextlib.ExitStack() as stack:
            if what == "a wait":
                asked.wait(held)
            else:
                stack.enter_context(step)
                asked.launch(kernels["advance"], 4, 16, x, 1)
            for each in others:  # who finds nothing left has it asked
                for _ in range(10 * room):
                    each.launch(kernels["advance"], 4, 16, x, 1)
            assert not asked.empty
        assert asked.query() is (what == "a step")
    device.finish()
    for each in idle:
        each.close()


CROWDED = """
from tests.drivers.cuda import standing_in
standing_in.begin()
import forebay as fb
from tests.observers.internals import room_of
device = fb.Device("cuda")
kernel, x = device.program("kernel void use(global int *x) {}")["use"], device.empty(64, "i4")
held, other = device.queue(blocking=False), device.queue(blocking=False)
assert room_of(other) == device.driver.keeps_gil_below == 255
gate = held._gate()
for _ in range(2000):
    held.launch(kernel, 4, 16, x)
more = [device.queue(blocking=False) for _ in range(200)]
assert room_of(other) == room_of(more[0]) == 1
gate.open()
device.finish()
for _ in range(100):
    other.launch(kernel, 4, 16, x)
assert room_of(held) == room_of(more[0]) == device.driver.keeps_gil_below == 255 // 7
assert room_of(other) > 255 // 7
"""


def test_queues_that_have_more_than_is_left_for_them_leave_the_others_little_until_they_are_done():
    """They were given it when there were fewer queues. In a process of its own, which has only these."""
    done = processes.python("-c", CROWDED, CUDA_DEVICE_MAX_CONNECTIONS="32")
    assert done.returncode == 0, done.stderr


def test_no_channel_gets_more_than_it_takes_while_the_interpreter_is_locked(device, kernels):
    """The driver would block then, and maybe until another thread of Python goes on. The stand-in counts that as a
    wrong call. However many streams there are, with two Devices, and whoever borrows.
    """
    x, rest, rng = device.empty(64, "u4"), [], random.Random(0)
    with fb.Device(device.name, private=True) as private, contextlib.ExitStack() as gates:
        y, own = private.empty(64, "u4"), private.program("kernel void advance(global uint *x, uint n) {}")["advance"]
        held = [(device.queue(blocking=False), kernels["advance"], x) for _ in range(10)]
        held += [(private.queue(blocking=False), own, y) for _ in range(10)]
        for queue, _, _ in held:
            gates.enter_context(queue._gate())
        for _ in range(30):
            rest += [rng.choice((device, private)).queue(blocking=False) for _ in range(rng.randrange(60))]
            for _ in range(100):
                queue, kernel, memory = rng.choice(held)
                for _ in range(rng.choice((1, 10, 100))):
                    queue.launch(kernel, 4, 16, memory, 1)
        same = [queue for queue in rest[:500] if queue.device is device]
        for queue in same:
            queue.wait(held[0][0])
            for _ in range(40):
                queue.launch(kernels["advance"], 4, 16, x, 1)
    device.finish()
    for queue in rest:
        queue.close()


def test_whoever_never_waits_has_the_queue_asked_now_and_then(device, kernels):
    """Else it would count as full from some command on, though the device keeps up, and each launch take longer."""
    queue, x = device.queue(blocking=False), device.empty(64, "u4")
    device.finish()
    before = standin.there_are()["queries"]
    for _ in range(5000):
        queue.launch(kernels["advance"], 4, 16, x, 1)
    asked = standin.there_are()["queries"] - before
    # How much it takes depends on how many other queues there are.
    assert 4 <= queue.stats.markers_made <= asked + 1 <= 200
    queue.finish()


def test_a_finish_asks_no_more_when_another_thread_wants_the_queue(device, kernels):
    """It asks up to 64 times with the queue locked, which could be as many microseconds."""
    queue, x = device.queue(blocking=False), device.empty(64, "u4")
    gate = queue._gate()
    standin.pause_query()
    finished = in_a_thread(queue.finish)
    assert until(standin.is_paused)
    launched = in_a_thread(lambda: queue.launch(kernels["advance"], 4, 16, x, 1))
    assert until(lambda: is_wanted(queue))
    before = standin.there_are()["stream_queries"]
    standin.go_on()
    assert launched(SECONDS)
    asked = standin.there_are()["stream_queries"] - before
    gate.open()
    assert finished(SECONDS)
    assert asked == 1


def test_groups_at_once_are_what_the_driver_says(device, kernels):
    """A grid whose groups wait for each other would never end with one more."""
    kernel = kernels["advance"]
    units = device.info.compute_units
    assert kernel.groups_at_once(1024) == kernel.groups_at_once((32, 32)) == 2 * units
    assert kernel.groups_at_once(32) == 32 * units
    assert kernel.groups_at_once(32, 50_000) == 4 * units
    assert kernel.groups_at_once(32, local_bytes=100_000) == 2 * units
    with pytest.raises(fb.InvalidArgumentError, match="local_bytes"):
        kernel.groups_at_once(32, -1)
