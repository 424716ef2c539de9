"""Which driver calls branches take: what orders them, nothing that is not needed, and what happens when one fails."""

# ruff: noqa: F811 - fixtures that are imported

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from forebay.queues.graphs.shape import segments_of
from forebay.queues.selection import select
from tests.ordering.conftest import calls, device, program  # noqa: F401
from tests.ordering.happens_before import Recorded

from .test_calls import recorded, watched  # noqa: F401
from .test_lanes import ancestors

pytestmark = pytest.mark.needs("graphs cut into lanes")
RECORDS = select().backend == "level_zero"  # several commands become one call


@pytest.fixture
def graph_of(device, kernels, x):
    """``graph_of([], [0], …)``: a launch for each list, after these others."""

    def graph_of(*dependencies):
        graph = device.graph()
        for k, earlier in enumerate(dependencies):
            graph.add_kernel(kernels["advance"], 4, 16, x, k, after=[graph.nodes[i] for i in earlier])
        return graph.instantiate()

    return graph_of


def submitted(calls, first, queue):
    """What each call was, how many events it waits for, and in which lane: 0 is the queue, others as they come."""
    lanes = {calls.handle_of(queue): 0}
    found = []
    for call in calls.since(first):
        if calls.kind(call) in ("command", "marker", "barrier"):
            found.append((calls.kind(call), len(call.waits), lanes.setdefault(call.object, len(lanes))))
    return found


def test_a_chain_takes_no_more_than_its_commands(calls, graph_of, queue):
    executable = graph_of([], [0], [0, 1], [2])
    first, made = len(calls), calls.count(calls.driver.NEW_QUEUE)
    for _ in range(3):
        executable.launch(queue)
    assert submitted(calls, first, queue) == [("command", 0, 0)] * 3 * (1 if RECORDS else 4)
    assert calls.count(calls.driver.NEW_QUEUE) == made


def test_a_fork_and_a_join(calls, graph_of, queue):
    executable = graph_of([], [0], [0], [1, 2])
    for _ in range(3):
        first, epoch, events = len(calls), queue.epoch, queue.stats.events_made
        executable.launch(queue)
        assert submitted(calls, first, queue) == [
            ("command", 0, 0), ("marker", 0, 0), ("command", 0, 0), ("command", 1, 1), ("marker", 0, 1),
            ("command", 1, 0),
        ]  # fmt: skip
        assert queue.epoch - epoch == 3
        assert queue.stats.events_made - events == 2


def test_branches_that_nothing_joins(calls, graph_of, queue, hold):
    executable = graph_of([], [])
    ending = [("command", 0, 0), ("command", 1, 1), ("marker", 0, 1), ("barrier", 1, 0)]
    first = len(calls)
    executable.launch(queue)  # with nothing before it to wait for
    assert submitted(calls, first, queue) == [("command", 0, 0), ("command", 0, 1), *ending[2:]]
    first = len(calls)
    executable.launch(queue)
    assert submitted(calls, first, queue) == [("marker", 0, 0), *ending]
    event = queue.record()
    first = len(calls)
    executable.launch(queue)
    assert submitted(calls, first, queue) == ending  # the marker that the event has is shared
    del event


def test_lanes_have_their_own_kernel_objects(device, calls, kernels, queue, x):
    """Also for launches that are the same: a kernel object is stateful."""
    graph = device.graph()
    for _ in range(2):
        graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    executable = graph.instantiate()
    first = len(calls)
    executable.launch(queue)
    executable.launch(queue)
    used = [call.kernel for call in calls.since(first) if calls.kind(call) == "command"]
    assert used[:2] == used[2:]
    assert len(set(used)) == 2


def test_the_queues_own_waits_come_once(calls, graph_of, make_queue, hold):
    producer, queue = make_queue(blocking=False), make_queue(blocking=False)
    executable = graph_of([], [], [])
    gate = hold(producer)
    queue.wait(producer)
    first = len(calls)
    executable.launch(queue)
    waits = [number for _, number, lane in submitted(calls, first, queue) if lane == 0]
    assert sum(waits) == 1 + 2  # the producer, and in the end the other lanes
    assert waits[-1] == 2
    (marker, *_) = calls.markers_of([queue], first)
    others = [call for call in calls.since(first) if calls.kind(call) == "command" and call.waits]
    assert [call.waits for call in others] == [(marker.event,)] * 2
    gate.open()


def test_an_update_keeps_the_lanes(calls, device, graph_of, queue, kernels, x):
    executable = graph_of([], [], [])
    made = calls.count(calls.driver.NEW_QUEUE)
    for _ in range(3):
        graph = device.graph()
        for _ in range(3):
            graph.add_kernel(kernels["advance"], 4, 16, x, 5)
        executable.update(graph)
        executable.launch(queue)
    assert calls.count(calls.driver.NEW_QUEUE) == made


# -- the order that the calls make


class Follower:
    """Which nodes of which launch come before each call, by the recorded calls alone."""

    def __init__(self, calls, size):
        self.calls = calls
        self.size = size
        self.recorded = Recorded(calls.kind, calls.driver.GATE_MARKERS)
        self.read = len(calls)
        self.launches = 0

    def launch(self, segments, executable, queue):
        """Returns what comes before each node; raises when a wait adds nothing."""
        executable.launch(queue)
        groups = []
        for segment in segments:
            groups += [segment.nodes] if RECORDS and segment.nodes else [[node] for node in segment.nodes]
        shift, before = self.launches * self.size, {}
        calls, self.read = self.calls.take(self.read)
        for call in calls:
            kind = self.calls.kind(call)
            handle = self.recorded.queue(call.object)
            if kind == "finish":
                self.recorded.done |= handle.before
            elif kind == "wait":
                for event in call.waits:
                    self.recorded.done |= self.recorded.events[event]
            if kind not in ("command", "marker", "barrier") or call.status != 0:
                continue
            after = self.recorded.come_after(handle, call, handle.before, 0, None)
            if kind == "command" and groups:
                group = groups.pop(0)
                for at, node in enumerate(group):
                    before[node] = after | self.bits(group[:at], shift)
                after |= self.bits(group, shift)
            handle.before = after
            if call.event:
                self.recorded.events[call.event] = after
        self.launches += 1
        return before

    def bits(self, nodes, shift=None):
        shift = (self.launches - 1) * self.size if shift is None else shift
        return sum(1 << (node + shift) for node in nodes)

    def before_next(self, queue):
        return self.recorded.queue(self.calls.handle_of(queue)).before


@st.composite
def graphs(draw):
    size = draw(st.integers(1, 14))
    dependencies = [sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else [] for i in range(size)]
    kinds = [draw(st.sampled_from(["kernel", "kernel", "fill", "copy", "empty"])) for _ in range(size)]
    return dependencies, kinds


def add_nodes(graph, dependencies, kinds, kernels, x, y):
    """Add the nodes that `graphs` has drawn."""
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


@settings(max_examples=50, derandomize=True, suppress_health_check=list(HealthCheck))
@given(graphs(), st.lists(st.integers(0, 2), min_size=1, max_size=4))
def test_each_node_comes_after_what_it_depends_on(device, kernels, x, y, calls, program, on):
    dependencies, kinds = program
    graph = device.graph()
    add_nodes(graph, dependencies, kinds, kernels, x, y)
    acting = [kind != "empty" for kind in kinds]
    segments = segments_of(dependencies, acting)
    nodes = {i for i, acts in enumerate(acting) if acts}
    queues = [device.queue(), device.queue(blocking=False), device.null_queue]
    executable = graph.instantiate()
    device.finish()
    follower = Follower(calls, len(kinds))
    all_before = 0
    for at in on:
        before = follower.launch(segments, executable, queues[at])
        assert set(before) == nodes
        for node, its in enumerate(ancestors(dependencies)):
            if node in nodes:
                must = all_before | follower.bits(its & nodes)
                assert must & ~before[node] == 0
        all_before |= follower.bits(nodes)
        assert all_before & ~follower.before_next(queues[at]) == 0
    for queue in queues[:2]:
        queue.close()
    device.finish()


# -- failures


@pytest.mark.needs("queues made by forebay")
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_queue_that_cannot_be_made(device, calls, graph_of, queue, works, after):
    code = calls.driver.FAILURE[0]
    idle, made = [], len(calls)
    while calls.count(calls.driver.NEW_QUEUE, made) == 0:  # until none is left that was handed out before
        idle.append(device.queue(blocking=False, timing=False))
    made = len(calls)
    calls.fail(calls.driver.NEW_QUEUE, code, after)
    with pytest.raises(fb.Error):
        graph_of([], [], [], [])
    calls.forgive()
    assert len(calls) > made
    graph_of([], [], [], []).launch(queue)
    works(queue)


def test_a_branch_that_cannot_be_marked_is_waited_for(calls, graph_of, queue):
    """Its marker fails, the one that would make the queue come after it, and the first for the host."""
    executable, first = graph_of([], []), len(calls)
    for _ in range(3):
        calls.fail(calls.driver.MARKER, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=calls.driver.MARKER):
        executable.launch(queue)
    names = calls.names(first)
    assert names.count(calls.driver.MARKER) == 4
    assert calls.driver.WAIT in names
