"""Memory that graphs allocate: who may use it when, and what frees it."""

import gc

import pytest

import forebay as fb
from forebay.queues.graphs.executable import figures_of
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused
from tests.inside import clock_of

from .conftest import SIZE, steps


def allocating(queue, step, out, *ks, free=True):
    """A graph that computes in memory of its own and copies the result out; and that memory."""
    with queue.capture() as graph:
        inner = queue.alloc(SIZE, "u4")
        queue.fill(inner, 0)
        for k in ks:
            step(queue, inner, k)
        queue.copy(out, inner)
        if free:
            queue.free(inner)
    return graph, inner


def settle(device):
    """Whatever is not used any more goes back; each synchronize may let go of something that keeps something else."""
    for _ in range(4):
        gc.collect()
        device.finish()


@pytest.fixture
def figures(device):
    settle(device)
    return figures_of(device)


def test_nothing_of_it_runs_or_counts_before(device, queue, step, x, figures):
    used, reserved = figures.used, figures.reserved
    before = queue.epoch, device.pool.used
    graph, memory = allocating(queue, step, x, 1, free=False)
    assert (queue.epoch, device.pool.used, figures.used) == (*before, used)
    assert figures.reserved == reserved + memory.nbytes
    graph.launch(queue)
    assert figures.used == used + memory.nbytes
    queue.free(memory)
    assert figures.used == used
    del graph, memory
    settle(device)
    assert figures.reserved == reserved


def test_memory_that_outlives_the_launch(device, queue, make_queue, step, x, value_of, really):
    graph, memory = allocating(queue, step, x, 1, free=False)
    other = make_queue()
    for _ in range(3):
        graph.launch(queue)
        other.wait(queue)
        step(other, memory, 2)
        assert value_of(memory) == steps(1, 2) or not really
        other.free(memory)
    assert not memory.closed


def test_launching_while_it_is_in_use(queue, make_queue, step, x, works):
    graph, memory = allocating(queue, step, x, 1, free=False)
    graph.launch(queue)
    with refused(fb.InvalidArgumentError, ValueError, "not freed since"):
        graph.launch(queue)
    queue.free(memory)
    graph.launch(make_queue())
    queue.free(memory)
    works(queue)


def test_what_uses_it_next_comes_after_the_free(queue, make_queue, hold, step, x, y, value_of, really):
    """The next launch comes after what another queue did with the memory until it was freed there."""
    graph, memory = allocating(queue, step, x, 1, free=False)
    other = make_queue(blocking=False)
    graph.launch(queue)
    other.wait(queue)
    gate = hold(other)
    other.copy(y, memory)
    other.free(memory)
    with graph.instantiate() as executable:
        queue.fill(x, 0)
        executable.launch(queue)
        assert other.id in clock_of(queue)
        assert not queue.query() or not really
        gate.open()
        assert (value_of(x), value_of(y)) == (steps(1), steps(1)) or not really
    queue.free(memory)


def test_freeing_what_is_not_in_use(queue, step, x, works):
    graph, memory = allocating(queue, step, x, 1, free=False)
    for _ in range(2):
        with refused(fb.InvalidArgumentError, ValueError, "no launch"):
            queue.free(memory)
        graph.launch(queue)
        queue.free(memory)
    inner_graph, inner = allocating(queue, step, x, 1)
    inner_graph.launch(queue)
    with refused(fb.InvalidArgumentError, ValueError, "no other code can"):
        queue.free(inner)
    works(queue)


def test_what_a_capture_refuses_to_free(device, queue, x, step):
    pooled = queue.alloc(4)
    with queue.capture() as graph:
        memory = queue.alloc(SIZE, "u4")
        view = memory[4:]
        for thing, kind, builtin in (
            (x, fb.InvalidArgumentError, ValueError),
            (pooled, fb.InvalidArgumentError, ValueError),
            (3, fb.ArgumentTypeError, TypeError),
        ):
            with refused(kind, builtin, "free"):
                queue.free(thing)
        queue.free(view)
        for use in (
            lambda: queue.free(memory),
            lambda: step(queue, memory, 1),
            lambda: queue.fill(view, 1),
            lambda: queue.copy(x, memory),
        ):
            with refused(fb.InvalidArgumentError, ValueError, "has freed this memory"):
                use()
    assert [node.kind for node in graph.nodes] == ["alloc", "free"]
    queue.free(pooled)


def test_bad_sizes_leave_the_capture_as_it_was(queue):
    with queue.capture() as graph:
        with refused(fb.InvalidArgumentError, ValueError, "negative"):
            queue.alloc(-1)
        with refused(fb.ArgumentTypeError, TypeError, "dtype"):
            queue.alloc(1, "no such type")
        assert queue.alloc(0).nbytes == 0
    assert len(graph) == 1
    graph.launch(queue)


def test_no_memory(device, queue):
    with queue.capture() as graph:
        with refused(fb.OutOfMemoryError, MemoryError):
            queue.alloc(1 << 60, "u1")
        queue.alloc(4)
    assert len(graph) == 1


def test_memory_freed_in_a_graph_serves_again(queue, make_queue, step, x, y, value_of, figures):
    reserved = figures.reserved
    other = make_queue()
    with queue.capture() as graph:
        for out, k in ((x, 1), (y, 2)):
            inner = queue.alloc(SIZE, "u4")
            queue.fill(inner, k)
            step(queue, inner, k)
            queue.copy(out, inner)
            queue.free(inner)
        assert figures.reserved == reserved + inner.nbytes
        kept = queue.alloc(SIZE, "u4")
        queue.alloc(SIZE // 8, "u4")  # nothing was freed that is not much too large
        assert figures.reserved == reserved + inner.nbytes + SIZE // 2
        other.wait(queue)
        queue.free(kept)
        other.alloc(SIZE, "u4")  # not after that free
        assert figures.reserved == reserved + 2 * inner.nbytes + SIZE // 2
        queue.wait(other)
    for _ in range(2):
        with graph.instantiate(auto_free=True) as executable:
            executable.launch(queue)
            assert (device_data(value_of(x)), device_data(value_of(y))) == (steps(1, start=1), steps(2, start=2))


def test_the_most_that_graphs_have_used(queue, step, x, figures):
    figures.reset("used_high")
    used = figures.used
    assert figures.used_high == used
    graph, inner = allocating(queue, step, x, 1)
    assert figures.used_high == used
    graph.launch(queue)
    assert (figures.used, figures.used_high) == (used, used + inner.nbytes)


def test_freed_by_another_graph(device, queue, step, x, value_of):
    graph, memory = allocating(queue, step, x, 1, free=False)
    with queue.capture() as freeing:
        step(queue, memory, 2)
        queue.copy(x, memory)
        queue.free(memory)
    with refused(fb.InvalidArgumentError, ValueError, "no launch"):
        freeing.launch(queue)
    for _ in range(2):
        graph.launch(queue)
        freeing.launch(queue)
        assert device_data(value_of(x)) == steps(1, 2)
        with refused(fb.InvalidArgumentError, ValueError, "freed before"):
            freeing.launch(queue)


def test_memory_that_a_graph_frees_itself_is_no_other_graphs(queue, step, x):
    _, inner = allocating(queue, step, x, 1)
    with queue.capture() as graph, refused(fb.InvalidArgumentError, ValueError, "frees it"):
        queue.free(inner)
    assert len(graph) == 0


def test_node_by_node(device, queue, kernels, x, y):
    graph = device.graph()
    alloc = graph.add_alloc(SIZE, "u4")
    memory = alloc.work.buffer
    assert (memory.shape, memory.dtype) == ((SIZE,), "u4")
    fill = graph.add_fill(memory, 7, after=alloc)
    copy = graph.add_copy(x, memory, after=fill)
    for thing in (x, 3):
        with refused((fb.InvalidArgumentError, fb.ArgumentTypeError), (ValueError, TypeError), "free"):
            graph.add_free(thing, after=copy)
    graph.add_free(memory, after=copy)
    with refused(fb.InvalidArgumentError, ValueError, "has freed"):
        graph.add_free(memory)
    late = graph.add_copy(y, memory, after=copy)
    with refused(fb.InvalidArgumentError, ValueError, "after it frees it"):
        graph.instantiate()
    graph.add_dependency(late, graph.nodes[3])
    graph.launch(queue)
    queue.finish()
    assert "alloc 256 bytes" in graph.debug_dot()
    assert "free 256 bytes" in graph.debug_dot()


def test_its_own_memory_in_use_is_not_freed_by_a_new_node(device, queue):
    graph = device.graph()
    memory = graph.add_alloc(4).work.buffer
    graph.launch(queue)
    with refused(fb.InvalidArgumentError, ValueError, "by a launch"):
        graph.add_free(memory)
    queue.free(memory)
    graph.add_free(memory)
    graph.launch(queue)
    graph.launch(queue)


def test_one_executable_at_a_time(device, queue, step, x):
    graph, _ = allocating(queue, step, x, 1)
    first = graph.instantiate()
    for make in (graph.instantiate, lambda: graph.launch(queue)):
        with refused(fb.NotSupportedError, NotImplementedError, "one executable"):
            make()
    first.launch(queue)
    first.close()
    second = graph.instantiate()
    del second
    graph.launch(queue)
    graph.launch(queue)


def test_it_is_no_part_of_another_graph_and_not_updated(device, queue, step, x):
    graph, _ = allocating(queue, step, x, 1)
    with queue.capture() as outer:
        with refused(fb.NotSupportedError, NotImplementedError, "part of another"):
            graph.launch(queue)
        step(queue, x, 1)
    assert len(outer) == 1
    with queue.capture() as plain:
        step(queue, x, 1)
    for one, two in ((graph, plain), (plain, graph), (graph, graph)):
        with refused(fb.GraphUpdateError, ValueError, "not updated") as caught:
            one.update(two)
            assert caught.value.reason == "memory"
    plain.launch(queue)
    graph.launch(queue)


def test_closing_the_buffer_gives_the_memory_back(device, queue, step, x):
    graph, memory = allocating(queue, step, x, 1, free=False)
    graph.launch(queue)
    memory.close()
    with refused(fb.ClosedError, RuntimeError, "closed"):
        graph.launch(queue)
    with refused(fb.ClosedError, RuntimeError):
        queue.free(memory)


def test_a_launch_that_does_not_begin_changes_nothing(device, queue, step, x, figures):
    graph, memory = allocating(queue, step, x, 1, free=False)
    queue.begin_capture()
    used = figures.used
    with refused(fb.CaptureImplicitError, RuntimeError):
        graph.launch(device.null_queue)
    with refused(fb.CaptureInvalidatedError, RuntimeError):
        queue.end_capture()
    assert figures.used == used
    graph.launch(queue)
    queue.free(memory)


def test_in_a_capture_that_fails(device, queue, figures, works):
    reserved = figures.reserved
    with pytest.raises(ZeroDivisionError), queue.capture():
        queue.alloc(SIZE // 0 if queue.alloc(SIZE) is not None else 1)
    settle(device)
    assert figures.reserved == reserved
    works(queue)
