"""Random graphs of kernels with scratch: every node leaves what a model on the host computes, node by node.

The sizes follow from rows that are rewritten between launches. Two executables of a graph run at the same time, and
graphs run inside others, in several branches.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from tests.drivers.levelzero import validation
from tests.helpers.refusals import refused

ROWS, NODES = 3, 8
MOST = 1500  # the largest row, and with `extra` the most elements of a node's scratch
WIDE = 1 << 32
SOURCE = """
kernel void blend(global const uint *rows, global volatile uint *room, global uint *results,
    uint one, uint two, uint me, uint extra)
{
    uint n = rows[0] + extra, sum = 0;
    uint begin = results[one] * 3 + results[two] * 5 + me;
    for (uint i = 0; i < n; i++) room[i] = begin + 7 * i;
    for (uint i = 0; i < n; i++) sum = sum * 31 + room[i];
    results[me] = sum;
}
kernel void rewrite(global uint *rows, uint k) { rows[get_global_id(0)] = k; }
"""
POWERS = np.cumprod(np.full(2 * MOST, 31, "u4"), dtype="u4")[::-1]  # of 31, down to 31¹


def mixed(size, one, two, me):
    """What `blend` leaves, given what the others left."""
    room = np.uint32((one * 3 + two * 5 + me) % WIDE) + 7 * np.arange(size, dtype="u4")
    powers = np.append(POWERS[len(POWERS) - size + 1 :], np.uint32(1)) if size > 1 else np.ones(size, "u4")
    return int((room * powers).sum(dtype="u4"))


@pytest.fixture(scope=validation.scope("module"))
def mix(device):
    program = device.program(SOURCE)
    program["blend"].scratch("room", 4 * (fb.MaxOver("rows") + fb.Argument("extra")))
    return program


@st.composite
def nodes(draw):
    """The nodes that each comes after, and what it does: with which rows, and how much more scratch."""
    found = []
    for i in range(draw(st.integers(2, NODES))):
        after = sorted(draw(st.sets(st.integers(0, i - 1), max_size=2))) if i else []
        what = draw(st.sampled_from(["mix", "mix", "mix", "several", "empty", "write"]))
        found.append((after, what, draw(st.integers(0, ROWS - 1)), draw(st.sampled_from([0, 0, 1, 700]))))
    return found


changes = st.lists(
    st.tuples(
        st.sampled_from(["fill", "part", "copy", "kernel", "graph", "node", "node"]),
        st.integers(0, ROWS - 1),
        st.integers(1, MOST - 700),
        st.integers(0, 2),
    ),
    max_size=3,
)


class Model:
    """A graph, and what it leaves."""

    def __init__(self, device, program):
        self.device, self.program = device, program
        self.sizes = [20 * (row + 1) for row in range(ROWS)]
        self.memory = device.array(np.repeat(self.sizes, 8).astype("u4"))  # of one allocation
        self.rows = [self.memory[8 * row : 8 * row + 8] for row in range(ROWS)]
        self.results = device.zeros(4 * NODES + 1, "u4")
        self.expected = [0] * (4 * NODES + 1)  # the last stays 0
        self.steps = {}  # by where a launch leaves its result: what it reads, its rows, how much more scratch it has
        self.plain = []  # (node, where it leaves its result) of launches that can be changed
        self.graph = device.graph()
        device.finish()

    def launch(self, one, two, me, row, extra):
        """The arguments of a launch, which becomes part of what is expected."""
        self.steps[me] = one, two, row, extra
        return self.program["blend"], 1, 1, self.rows[row], self.results, one, two, me, extra

    def add(self, nodes):
        measured, written, ends = set(), set(), []
        for i, (after, what, row, extra) in enumerate(nodes):
            earlier = [self.graph.nodes[other] for other in after]
            one, two, *_ = (*[ends[other] for other in after], -1, -1)
            one, two, me = one % len(self.expected), two % len(self.expected), 4 * i
            ends.append(me)
            if what in ("mix", "several") and row not in written:
                measured.add(row)
                if what == "mix":
                    node = self.graph.add_kernel(*self.launch(one, two, me, row, extra), after=earlier)
                    self.plain.append((node, me))
                else:
                    child = self.device.graph()
                    for step in ((one, two, me), (me, two, me + 1), (me, me + 1, me + 2)):
                        last = child.nodes[-1:]
                        child.add_kernel(*self.launch(*step, row, extra + me % 3), after=last)
                    self.graph.add_graph(child, after=earlier)
                    ends[-1] = me + 2
            elif what == "write" and row not in measured:
                written.add(row)
                self.graph.add_fill(self.rows[row], 5, after=earlier)
            else:
                if what == "write":
                    with refused(fb.InvalidArgumentError, ValueError, "'blend'", "'room'"):
                        self.graph.add_fill(self.rows[row], 5, after=earlier)
                elif what != "empty":
                    with refused(fb.InvalidArgumentError, ValueError, "'blend'", "'room'"):
                        self.graph.add_kernel(*self.launch(one, two, me, row, extra), after=earlier)
                    del self.steps[me]
                self.graph.add_empty(after=earlier)

    def change(self, queue, executables, how, row, size):
        if how == "node":
            if self.plain:
                node, me = self.plain[size % len(self.plain)]
                one, two, _, _ = self.steps[me]
                arguments = self.launch(one, two, me, self.steps[me][2], size % 700)
                for executable in executables:
                    executable.set_kernel(node, *arguments)
            return
        if how == "part":
            queue.fill(self.rows[row][3:5], size)  # more scratch than is used
            return
        self.sizes[row] = size
        if how == "fill":
            queue.fill(self.rows[row], size)
        elif how == "copy":
            queue.copy(self.rows[row], np.full(8, size, "u4"))
        elif how == "kernel":
            queue.launch(self.program["rewrite"], 8, 1, self.rows[row], size)
        else:
            graph = self.device.graph()
            graph.add_fill(self.rows[row], size)
            graph.launch(queue)

    def check(self):
        for me, (one, two, row, extra) in self.steps.items():
            self.expected[me] = mixed(self.sizes[row] + extra, self.expected[one], self.expected[two], me)
        self.device.finish()
        assert self.results.get().tolist() == self.expected


def executables_of(device, graph, how, queues):
    """What is launched, each on a queue of its own, and whether its nodes can be changed."""
    if how == "two":
        return [graph.instantiate(), graph.instantiate()], True
    if how == "one":
        return [graph.instantiate()], True
    outer = device.graph()
    if how == "added":
        for _ in range(2):
            outer.add_graph(graph)
    else:
        with queues[0].capture() as outer:
            queues[1].wait(queues[0])
            graph.launch(queues[0])
            graph.launch(queues[1])
            queues[0].wait(queues[1])
    return [outer.instantiate(), graph.instantiate()], False


def run(device, program, nodes, how, rounds):
    queues = [device.queue(blocking=False) for _ in range(3)]
    model = Model(device, program)
    model.add(nodes)
    executables, changing = executables_of(device, model.graph, how, queues)
    for round in rounds:
        for what, row, size, at in round:
            if changing or what != "node":
                model.change(queues[at], executables, what, row, size)
            for queue in queues:
                queue.wait(queues[at])
            for queue in queues:
                queues[at].wait(queue)
        for executable, queue in zip(executables, queues, strict=False):
            executable.launch(queue)
        model.check()
    for queue in queues:
        queue.close()


@pytest.mark.long
@pytest.mark.executes(run=False)
@settings(max_examples=80, derandomize=True, suppress_health_check=list(HealthCheck))
@given(nodes(), st.sampled_from(["one", "two", "added", "captured"]), st.lists(changes, min_size=1, max_size=4))
def test_every_node_leaves_what_the_model_does(device, mix, nodes, how, rounds):
    run(device, mix, nodes, how, rounds)
