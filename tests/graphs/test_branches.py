"""Branches of a graph run side by side, each node after all it depends on; for everybody else it is one command."""

import gc
import threading
import time
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drivers.levelzero import validation
from tests.helpers.observer import EXECUTES
from tests.helpers.threads import beside, together

from .conftest import SIZE, steps

NODES = 12
# No node may begin a launch before all nodes have ended the launch before, nor before what it depends on has ended this
# one. The errors are counts, so that a wrong one is not overwritten.
SOURCE = f"""
kernel void visit(global volatile uint *visits, global uint *errors, uint me, uint after, uint among, uint spin)
{{
    uint launch = visits[me] + 1;
    for (uint i = 0; i < {NODES}; i++) {{
        uint seen = visits[i];
        if ((after >> i & 1) && seen != launch)
            errors[me]++;
        if ((among >> i & 1) && seen != launch && seen + 1 != launch)
            errors[me]++;
    }}
    for (volatile uint i = 0; i < spin; i++)
        ;
    visits[me] = launch;
}}
kernel void compare(global volatile uint *visits, global uint *errors, uint among)
{{
    uint expected = 0xffffffff;
    for (uint i = 0; i < {NODES}; i++)
        if (among >> i & 1) {{
            if (expected != 0xffffffff && visits[i] != expected)
                errors[{NODES}]++;
            expected = visits[i];
        }}
}}
"""


@pytest.fixture(scope=validation.scope("module"))
def visiting(device):
    return device.program(SOURCE)


class Visits:
    """What the nodes of a graph have seen."""

    def __init__(self, device, kernels):
        self.kernels = kernels
        self.visits = device.zeros(NODES, "u4")
        self.errors = device.zeros(NODES + 1, "u4")
        device.finish()

    def node(self, me, after, among, spin):
        """Arguments for a launch."""
        return self.kernels["visit"], 1, 1, self.visits, self.errors, me, mask(after), mask(among), spin

    def compare(self, queue, among):
        queue.launch(self.kernels["compare"], 1, 1, self.visits, self.errors, mask(among))

    def check(self, nodes, launches, queue=None):
        errors, visits = self.errors.get(queue=queue), self.visits.get(queue=queue)
        if EXECUTES:
            assert errors.tolist() == [0] * (NODES + 1)
            assert visits.tolist() == [launches if i in nodes else 0 for i in range(NODES)]


def mask(nodes):
    return sum(1 << node for node in nodes)


def until(condition, seconds=60):
    """Whether it becomes true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


# -- side by side


class Blocker:
    """A host function that does not return before it is let go."""

    def __init__(self):
        self.arrived = threading.Event()
        self.go = threading.Event()

    def __call__(self):
        self.arrived.set()
        self.go.wait(120)


@pytest.fixture
def blocker():
    blocker = Blocker()
    yield blocker
    blocker.go.set()


def fork(queue, other, block, work, work_first):
    """Capture two branches on two queues."""
    with queue.capture() as graph:
        other.wait(queue)
        if work_first:
            work(other)
            queue.host(block)
        else:
            queue.host(block)
            work(other)
        queue.wait(other)
    return graph


@pytest.mark.executes
@pytest.mark.parametrize("work_first", [False, True])
@pytest.mark.parametrize("kind", ["kernel", "fill", "copy", "upload"])
def test_a_branch_does_not_wait_for_another(device, make_queue, step, x, y, blocker, kind, work_first):
    if kind == "upload" and not device.driver.reads_pageable_late:
        pytest.skip("the device reads no pageable memory: the host thread, which the other branch holds, stages it")
    queue, other, reader = (make_queue(blocking=False) for _ in range(3))
    y.set(np.full(SIZE, 5, "u4"))
    device.finish()
    work, expected = {
        "kernel": (lambda on: step(on, x, 7), 7),
        "fill": (lambda on: on.fill(x, 3), 3),
        "copy": (lambda on: on.copy(x, y), 5),
        "upload": (lambda on: on.copy(x, np.full(SIZE, 9, "u4")), 9),
    }[kind]
    graph = fork(queue, other, blocker, work, work_first)
    graph.launch(queue)
    event = queue.record()
    seen = until(lambda: (x.get(queue=reader) == expected).all())
    waiting = blocker.arrived.is_set() or until(blocker.arrived.is_set)
    done = event.query()
    blocker.go.set()
    queue.finish()
    assert seen  # while the other branch was blocked
    assert waiting
    assert not done
    assert event.query()


@pytest.mark.executes
def test_nodes_that_nothing_orders(device, make_queue, kernels, x, blocker):
    queue, reader = make_queue(blocking=False), make_queue(blocking=False)
    graph = device.graph()
    graph.add_host(blocker)
    first = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    graph.add_kernel(kernels["advance"], 4, 16, x, 2, after=first)
    for _ in range(2):
        graph.launch(queue)
    seen = until(lambda: (x.get(queue=reader) == steps(1, 2)).all())
    blocker.go.set()
    queue.finish()
    assert seen
    assert (x.get() == steps(1, 2, 1, 2)).all()


@pytest.mark.executes
@pytest.mark.parametrize("asked", [True, False], ids=["never used", "never asked for"])
def test_many_queues_that_are_idle_take_no_room(device, make_queue, kernels, x, y, blocker, asked):
    """Behind a host function that goes on only when they are submitted."""
    idle = [make_queue(blocking=False) for _ in range(700 if device.driver.shared_room else 100)]
    if not asked:
        for each in idle:
            each.launch(kernels["advance"], 4, 16, y, 1)
    queue, graph = make_queue(blocking=False), device.graph()
    graph.add_host(blocker)
    graph.add_kernel(kernels["advance"], 4, 16, x, 1)

    def submit():
        for _ in range(2):
            graph.launch(queue)
        for _ in range(100):
            queue.launch(kernels["advance"], 4, 16, x, 2)
        blocker.go.set()

    with beside(submit) as (submitting,):
        submitting.join(60)
        seen = blocker.go.is_set()
        blocker.go.set()
    queue.finish()
    assert seen
    assert (x.get() == steps(1, 1, *[2] * 100)).all()


# -- any graph


@st.composite
def graphs(draw):
    """What each node depends on, whether it is empty, and how long it takes."""
    size = draw(st.integers(2, NODES))
    dependencies = [sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else [] for i in range(size)]
    empty = [draw(st.integers(0, 5)) == 0 for _ in range(size)]
    spins = [draw(st.sampled_from([0, 1000, 30000])) for _ in range(size)]
    return dependencies, empty, spins


@settings(max_examples=50, derandomize=True, suppress_health_check=list(HealthCheck))
@given(graphs(), st.lists(st.integers(0, 2), min_size=1, max_size=6))
def test_any_graph_on_any_queues(device, visiting, program, on):
    dependencies, empty, spins = program
    visits = Visits(device, visiting)
    among = [i for i, is_empty in enumerate(empty) if not is_empty]
    graph, before = device.graph(), []
    for i, earlier in enumerate(dependencies):
        before.append(set(earlier).union(*[before[other] for other in earlier]))
        after = [graph.nodes[other] for other in earlier]
        if empty[i]:
            graph.add_empty(after=after)
        else:
            graph.add_kernel(*visits.node(i, before[i].intersection(among), among, spins[i]), after=after)
    queues = [device.queue(), device.queue(blocking=False), device.null_queue]
    executable = graph.instantiate()
    for at in on:
        executable.launch(queues[at])
    last = queues[on[-1]]
    visits.compare(last, among)
    last.finish()
    visits.check(among, len(on), last)
    for queue in queues[:2]:
        queue.close()


# -- one command for everybody else


def wide(device, visits, nodes=6, spin=3000):
    """Independent nodes, and one after all of them."""
    graph = device.graph()
    every = range(nodes + 1)
    first = [graph.add_kernel(*visits.node(i, (), every, spin)) for i in range(nodes)]
    graph.add_kernel(*visits.node(nodes, range(nodes), every, spin), after=first)
    return graph


def at_once(*functions, times=20):
    """Call each in a thread of its own, again and again."""
    together(*(lambda function=function: [function() for _ in range(times)] for function in functions))


@pytest.mark.threads
def test_nothing_comes_in_between(device, make_queue, visiting):
    """Two threads launch it on a queue, while a third looks from there."""
    visits = Visits(device, visiting)
    queue = make_queue()
    executable = wide(device, visits).instantiate()
    launch = partial(executable.launch, queue)
    at_once(launch, launch, lambda: visits.compare(queue, range(7)))
    queue.finish()
    visits.check(range(7), 40, queue)


@pytest.mark.threads
@pytest.mark.parametrize("chain", [False, True])
def test_the_null_queue_of_another_thread(device, make_queue, visiting, chain):
    visits = Visits(device, visiting)
    if chain:
        graph, last = device.graph(), ()
        for i in range(7):
            last = graph.add_kernel(*visits.node(i, range(i), range(7), 3000), after=last)
    else:
        graph = wide(device, visits)
    executable = graph.instantiate()
    for _ in range(10):
        queues = [make_queue(), make_queue()]
        at_once(
            partial(executable.launch, queues[0]),
            partial(executable.launch, queues[1]),
            lambda: visits.compare(device.null_queue, range(7)),
        )
        device.finish()
    visits.check(range(7), 400)


def test_updated_while_it_runs(device, make_queue, visiting, hold):
    """The launches before and after come one after the other, whatever was made anew in between."""
    visits = Visits(device, visiting)
    queue, other = make_queue(blocking=False), make_queue(blocking=False)
    executable = wide(device, visits).instantiate()
    gate = hold(queue)
    for spin in (0, 5000, 100):
        executable.launch(queue)
        executable.update(wide(device, visits, spin=spin))
        executable.launch(other)
    graph = wide(device, visits)
    again = graph.instantiate()
    other.wait(queue)
    for spin in (0, 5000):
        again.launch(other)
        again.set_kernel(graph.nodes[2], *visits.node(2, (), range(7), spin))
        again.launch(other)
    gc.collect()
    gate.open()
    other.finish()
    visits.check(range(7), 10, other)
