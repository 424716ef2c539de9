"""Graphs made node by node, instantiated, updated and launched."""

import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused
from tests.themes.test_lifetimes import memory_pressure

from .conftest import SIZE, SOURCE, made, steps


@pytest.fixture
def chain(device, kernels, x):
    """``chain(*ks)``: a graph of steps, one after the other."""

    def chain(*ks, buffer=x):
        graph, last = device.graph(), ()
        for k in ks:
            last = graph.add_kernel(kernels["advance"], 4, 16, buffer, k, after=last)
        return graph

    return chain


@pytest.mark.executes
def test_nodes_of_every_kind(device, queue, kernels, x, y):
    ran, host = [], np.zeros(SIZE, "u4")
    graph = device.graph()
    start = graph.add_empty()
    fill = graph.add_fill(x, 7, after=start)
    step = graph.add_kernel(kernels["advance"], 4, (16,), x, 2, after=[fill])
    copy = graph.add_copy(y, x, after=step)
    back = graph.add_copy(host, y, after=(copy,))
    graph.add_host(lambda: ran.append(int(host[0])), after=[back, start])
    assert [node.kind for node in graph.nodes] == ["empty", "fill", "kernel", "copy", "copy", "host"]
    assert graph.nodes[-1].dependencies == (back, start)
    assert list(graph) == list(graph.nodes)
    assert (step.work.kernel, step.work.grid, step.work.block) == (kernels["advance"], (4,), (16,))
    assert step.work.arguments == (x, 2)
    assert (copy.work.dst, copy.work.src, copy.work.nbytes) == (y, x, x.nbytes)
    assert (fill.work.buffer, fill.work.value) == (x, 7)
    graph.launch(queue)
    queue.finish()
    assert ran == [7 * 3 + 2]
    assert (host == 7 * 3 + 2).all()


def test_circles(device, queue, x, works):
    graph = device.graph()
    first = graph.add_fill(x, 1)
    second = graph.add_fill(x, 2, after=first)
    with refused(fb.InvalidArgumentError, ValueError, "itself"):
        graph.add_dependency(first, first)
    with refused(fb.InvalidArgumentError, ValueError, "already"):
        graph.add_dependency(first, second)
    graph.add_dependency(second, first)
    with refused(fb.InvalidArgumentError, ValueError, "depends on itself"):
        graph.instantiate()
    with refused(fb.InvalidArgumentError, ValueError, "depends on itself"):
        graph.launch(queue)
    works(queue)


def test_wrong_nodes(device, chain, x):
    graph, other = chain(1), chain(1)
    with refused(fb.InvalidArgumentError, ValueError, "another graph"):
        graph.add_fill(x, 1, after=other.nodes)
    with refused(fb.ArgumentTypeError, TypeError, "Node"):
        graph.add_fill(x, 1, after=[x])
    with refused(fb.ArgumentTypeError, TypeError, "after"):
        graph.add_fill(x, 1, after=3)
    with refused(fb.InvalidArgumentError, ValueError, "another graph"):
        graph.add_dependency(graph.nodes[0], other.nodes[0])
    assert len(graph) == 1


def test_wrong_arguments(device, another, kernels, x):
    graph, elsewhere = device.graph(), another.empty(SIZE, "u4")
    for kind, builtin, do in (
        (fb.ArgumentTypeError, TypeError, lambda: graph.add_kernel("advance", 4, 16, x, 1)),
        (fb.ArgumentTypeError, TypeError, lambda: graph.add_kernel(kernels["advance"], 4, 16, x)),
        (fb.ArgumentTypeError, TypeError, lambda: graph.add_kernel(kernels["advance"], 4, 16, np.zeros(64, "u4"), 1)),
        (fb.InvalidArgumentError, ValueError, lambda: graph.add_kernel(kernels["advance"], 0, 16, x, 1)),
        (fb.InvalidArgumentError, ValueError, lambda: graph.add_kernel(kernels["advance"], 4, 16, elsewhere, 1)),
        (fb.InvalidArgumentError, ValueError, lambda: another.graph().add_kernel(kernels["advance"], 4, 16, x, 1)),
        (fb.NotSupportedError, NotImplementedError, lambda: graph.add_copy(x, elsewhere)),
        (fb.InvalidArgumentError, ValueError, lambda: graph.add_copy(x, x)),
        (fb.InvalidArgumentError, ValueError, lambda: graph.add_copy(x, np.zeros(3))),
        (fb.ArgumentTypeError, TypeError, lambda: graph.add_copy(b"1", x[:1].view("u1"))),
        (fb.InvalidArgumentError, ValueError, lambda: graph.add_fill(elsewhere, 1)),
        (fb.InvalidArgumentError, ValueError, lambda: graph.add_fill(x, 1.5)),
        (fb.ArgumentTypeError, TypeError, lambda: graph.add_host(None)),
    ):
        with refused(kind, builtin):
            do()
    assert len(graph) == 0


def test_classes_are_made_by_their_owners(device):
    from forebay.queues.graphs.executable import Work

    for kind in (fb.Graph, fb.ExecutableGraph, Work):
        with refused(fb.ArgumentTypeError, TypeError, "made by"):
            kind()
    with refused(fb.ArgumentTypeError, TypeError, "made by"):
        fb.Node(device.graph(), None, ())


def test_an_executable_is_what_the_graph_was(queue, chain, kernels, x, value_of):
    graph = chain(1)
    first = graph.instantiate()
    graph.launch(queue)
    graph.add_kernel(kernels["advance"], 4, 16, x, 2, after=graph.nodes)
    second = graph.instantiate()
    graph.launch(queue)
    graph.close()
    first.launch(queue)
    second.launch(queue)
    assert device_data(value_of(x)) == steps(1, 1, 2, 1, 1, 2)


def test_launched_on_another_queue_while_it_still_runs(make_queue, chain, hold, value_of, x, really):
    """Executions of one executable are ordered, whichever queues they are on."""
    one, two, three = (make_queue(blocking=False) for _ in range(3))
    graph = chain(1, 2)
    gate = hold(one)
    graph.launch(one)
    graph.launch(two)
    graph.launch(three)
    graph.launch(one)
    assert not two.query() or not really
    assert not three.query() or not really
    gate.open()
    one.finish()
    assert value_of(x) == steps(*[1, 2] * 4) or not really
    assert two.empty  # which the clocks tell
    assert three.empty


def test_launched_on_another_queue_after_the_first_is_gone(device, make_queue, chain, hold, value_of, x, really):
    one, two = device.queue(blocking=False), make_queue(blocking=False)
    holder = make_queue(blocking=False)
    graph = chain(1, 2)
    gate = hold(holder)
    one.wait(holder)
    graph.launch(one)
    one.close()
    del one
    gc.collect()
    graph.launch(two)
    assert not two.query() or not really
    gate.open()
    two.finish()
    assert value_of(x) == steps(1, 2, 1, 2) or not really


def test_update(queue, chain, hold, x, y, value_of, really):
    graph = chain(1, 2)
    executable = graph.instantiate()
    gate = hold(queue)
    executable.launch(queue)
    executable.update(chain(3, 4))
    executable.launch(queue)
    graph.update(chain(5, 6))
    graph.launch(queue)
    graph.instantiate().launch(queue)
    gate.open()
    assert value_of(x) == steps(1, 2, 3, 4, 5, 6, 5, 6) or not really
    assert [node.work.arguments[1] for node in graph.nodes] == [5, 6]
    executable.update(chain(7, 8, buffer=y))
    executable.launch(queue)
    assert value_of(y) == steps(7, 8) or not really


def test_update_that_does_not_fit(device, queue, chain, x, works):
    graph = chain(1, 2)
    executable = graph.instantiate()
    free = device.graph()
    free.add_fill(x, 1)
    free.add_fill(x, 2)
    fills = device.graph()
    first = fills.add_fill(x, 1)
    fills.add_fill(x, 1, after=first)
    loose = chain(1)
    loose.add_kernel(graph.nodes[0].work.kernel, 4, 16, x, 1)
    for other, word, reason, at in (
        (chain(1), "1 nodes", "nodes", None), (fills, "'fill'", "kind", 0), (free, "'fill'", "kind", 0),
        (loose, "depends on", "dependencies", 1),
    ):  # fmt: skip
        with refused(fb.GraphUpdateError, ValueError, word):
            executable.update(other)
        with pytest.raises(fb.GraphUpdateError) as error:
            graph.update(other)
        assert error.value.reason == reason
        assert error.value.node is (None if at is None else other.nodes[at])
    assert fb.GraphUpdateError.hip_name == "hipErrorGraphExecUpdateFailure"
    with refused(fb.ArgumentTypeError, TypeError, "Graph"):
        executable.update(executable)
    executable.launch(queue)
    works(queue)


def test_an_update_does_not_turn_a_copy_round(device, queue, x, y, works):
    host = np.zeros(x.shape, x.dtype)

    def copy(dst, src):
        graph = device.graph()
        graph.add_copy(dst, src)
        return graph

    executable = copy(x, y).instantiate()
    executable.update(copy(y, x))
    for other, way in ((copy(host, x), "device to host"), (copy(x, host), "host to device")):
        with refused(fb.GraphUpdateError, ValueError, f"copies {way}, here device to device"):
            executable.update(other)
    executable.launch(queue)
    works(queue)


class Unhashable:
    def __init__(self, error):
        self.error = error

    def __hash__(self):
        raise self.error


def test_a_kernel_node_of_an_executable(queue, chain, kernels, x, y, value_of):
    graph = chain(1, 2)
    one, two = graph.instantiate(), graph.instantiate()
    one.launch(queue)
    one.set_kernel(graph.nodes[1], kernels["gather"], 4, 16, x, b"\x07\0\0\0", 1)
    one.launch(queue)
    two.launch(queue)
    assert device_data(value_of(x)) == steps(1, 2, 1, 7, 1, 2)
    with refused(fb.InvalidArgumentError, ValueError, "no node"):
        one.set_kernel(chain(1).nodes[0], kernels["advance"], 4, 16, y, 1)
    for error, told in ((TypeError, fb.InvalidArgumentError), (OSError, OSError)):
        with pytest.raises(told):
            one.set_kernel(Unhashable(error), kernels["advance"], 4, 16, y, 1)
    with refused(fb.ArgumentTypeError, TypeError, "arguments"):
        one.set_kernel(graph.nodes[0], kernels["advance"], 4, 16, y)
    one.launch(queue)
    assert device_data(value_of(x)) == steps(1, 2, 1, 7, 1, 2, 1, 7)


def test_setting_what_is_no_kernel(device, kernels, x):
    graph = device.graph()
    node = graph.add_fill(x, 1)
    with refused(fb.InvalidArgumentError, ValueError, "no kernel node"):
        graph.instantiate().set_kernel(node, kernels["advance"], 4, 16, x, 1)


def test_debug_dot(device, queue, kernels, x, y):
    def named():
        """A host function."""

    with queue.capture() as graph:
        queue.launch(kernels["advance"], (2, 2), (4, 4), x, 1)
        queue.copy(y, x)
        queue.fill(y, 3)
        queue.host(named)
    dot = graph.debug_dot()
    assert dot.startswith("digraph")
    assert dot.count("{") == dot.count("}") == 1
    for text in ("advance", "(2, 2)", "copy 256 bytes, device to device", "fill", "named"):
        assert text in dot
    assert [line.strip() for line in dot.splitlines() if "->" in line] == ["n0 -> n1;", "n1 -> n2;", "n2 -> n3;"]


def test_closing(device, queue, chain, works):
    graph = chain(1, 2)
    executable = graph.instantiate()
    graph.launch(queue)
    graph.close()
    graph.close()
    for do in (lambda: graph.launch(queue), graph.instantiate, graph.debug_dot, graph.add_empty):
        with refused(fb.ClosedError, RuntimeError, "Graph is closed"):
            do()
    with executable:
        executable.launch(queue)
    executable.close()
    with refused(fb.ClosedError, RuntimeError, "ExecutableGraph is closed"):
        executable.launch(queue)
    with refused(fb.ClosedError, RuntimeError, "closed"):
        executable.update(chain(1, 2))
    with pytest.raises(fb.ClosedError), graph:
        pass
    assert "closed" in repr(graph)
    assert "closed" in repr(executable)
    works(queue)


def test_a_buffer_that_was_closed(device, queue, chain, x, works):
    buffer = made(device)
    graph = chain(1, 2, buffer=buffer)
    executable = graph.instantiate()
    made(device).close()  # one that it does not use
    executable.launch(queue)
    buffer.close()
    before = queue.epoch, queue.stats
    for do in (lambda: executable.launch(queue), graph.instantiate, lambda: graph.launch(queue)):
        with refused(fb.ClosedError, RuntimeError, "Buffer", "closed"):
            do()
    assert (queue.epoch, queue.stats) == before
    works(queue)


def test_a_kernel_that_was_closed(device, queue, x, value_of):
    from .conftest import SOURCE

    with device.program(SOURCE) as program:
        graph = device.graph()
        graph.add_kernel(program["advance"], 4, 16, x, 1)
        executable = graph.instantiate()
    with refused(fb.ClosedError, RuntimeError, "advance", "closed"):
        graph.instantiate()
    executable.launch(queue)  # which has kernels of its own
    assert device_data(value_of(x)) == 1


def test_launching_on_what_cannot(device, another, queue, chain, works):
    graph = chain(1)
    with refused(fb.ArgumentTypeError, TypeError, "Queue"):
        graph.launch(device)
    with refused(fb.InvalidArgumentError, ValueError, another.name):
        graph.launch(another.queue())
    closed = device.queue()
    closed.close()
    with refused(fb.ClosedError, RuntimeError, repr(closed)):
        graph.launch(closed)
    works(queue)


def test_what_may_be_written(device, chain, x, y):
    graph = chain(1, 2)
    graph.add_copy(y, x)
    graph.add_copy(np.zeros(SIZE, "u4"), x)
    assert set(map(id, graph.instantiate().writes)) == {id(x), id(y)}


# A graph, and a launch of it in flight, keep all that they use; and let it go when they are done


class Function:
    """A host function that can be asked whether it still is."""

    def __init__(self, ran):
        self.ran = ran

    def __call__(self):
        self.ran.append(1)


@pytest.mark.executes
def test_a_graph_keeps_what_it_uses(device, queue):
    result, ran = made(device), []
    program = device.program(SOURCE)
    source = device.array(np.full(SIZE, 5, "u4"))
    host = np.full(SIZE, 3, "u4")
    block = np.array([4], "u4")
    graph = device.graph()
    first = graph.add_kernel(program["combine"], 4, 16, result, source, 1)
    second = graph.add_kernel(program["gather"], 4, 16, result, fb.by_value(block), 1, after=first)
    third = graph.add_copy(source, host, after=second)
    graph.add_host(Function(ran), after=third)
    device.finish()
    del program, source, host, block, first, second, third
    gc.collect()
    kept = memory_pressure(device)
    graph.launch(queue)
    queue.finish()
    assert (result.get() == (5 + 1) * 3 + 4).all()
    assert ran == [1]
    assert all(array[0] == 0xAB for array in kept)


@pytest.mark.parametrize("nested", [False, True])
def test_a_host_function_that_refers_to_its_graph(device, nested):
    """The collector of cycles finds both."""
    graph, inner, function = device.graph(), device.graph(), Function([])
    (inner if nested else graph).add_host(function)
    if nested:
        graph.add_graph(inner)
    function.ran.append(graph.instantiate())
    known = weakref.ref(function)
    del graph, inner, function
    gc.collect()
    assert known() is None


def test_host_memory_of_a_graph_cannot_be_resized(device, x):
    host = bytearray(x.nbytes)
    graph = device.graph()
    graph.add_copy(host, x)
    with pytest.raises(BufferError):
        host.extend(b"more")
    graph.close()
    del graph
    gc.collect()
    host.extend(b"more")


def test_a_queue_it_was_launched_on_is_not_kept(device, kernels, x):
    queue = device.queue()
    known = weakref.ref(queue)
    graph = device.graph()
    graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    graph.launch(queue)
    device.finish()
    del queue
    gc.collect()
    assert known() is None
    graph.launch(device.null_queue)
    device.finish()
