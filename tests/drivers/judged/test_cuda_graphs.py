"""Graphs and steps."""

from hypothesis import HealthCheck, given, settings

from forebay.queues.graphs.shape import BRANCHES, segments_of
from tests.graphs.test_branch_calls import add_nodes, graphs
from tests.graphs.test_lanes import ancestors

from .conftest import JUDGED

pytestmark = JUDGED


@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_nodes_come_after_what_they_depend_on_and_nothing_else(device, kernels, calls, drawn):
    dependencies, kinds = drawn
    x, y, graph = device.zeros(64, "u4"), device.zeros(64, "u4"), device.graph()
    add_nodes(graph, dependencies, kinds, kernels, x, y)
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


def test_a_graph_is_not_instantiated_while_a_gate_is_closed(device, kernels, calls):
    """The driver may wait for the gate then. Its launches are submitted one by one, in order, until it can be."""
    queue, held, x = device.queue(blocking=False), device.queue(blocking=False), device.empty(64, "u4")
    gate = held.gate()
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


def test_a_graph_that_changes_again_and_again_is_instantiated_twice(device, kernels, calls):
    x, graph, queue = device.empty(64, "u4"), device.graph(), device.queue(blocking=False)
    nodes = [graph.add_kernel(kernels["advance"], 4, 16, x, k) for k in range(5)]
    executable = graph.instantiate()
    for k in range(100):
        executable.launch(queue)
        executable.set_kernel(nodes[k % 5], kernels["advance"], 4, 16, x, 7 + k)
    counts = calls.counts()
    assert (counts["cuGraphLaunch"], counts["cuGraphInstantiateWithFlags"]) == (100, 2)  # the second one can be changed
    assert counts["cuGraphExecKernelNodeSetParams_v2"] == 98
    queue.finish()


def test_a_step_is_not_made_a_graph_while_a_gate_is_closed(device, kernels, calls):
    queue, held, x = device.queue(blocking=False), device.queue(blocking=False), device.empty(64, "u4")
    gate, step = held.gate(), queue.step()

    def turn():
        first = len(calls)
        with step:
            for i in range(10):
                queue.launch(kernels["advance"], 4, 16, x, i * first)  # other values in each turn
        return calls.count("cuLaunchKernel", first), calls.count("cuGraphLaunch", first)

    assert [turn() for _ in range(10)] == [(10, 0)] * 10
    gate.open()
    held.finish()
    assert [turn() for _ in range(10)][-1] == (0, 1)
    queue.finish()
