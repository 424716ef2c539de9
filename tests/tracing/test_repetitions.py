"""`forebay stats` finds copies, memory and changes of graphs that are not needed."""

import numpy as np
import pytest

from forebay.tracing.findings import OFTEN
from forebay.tracing.repetitions import ALLOCATED, ARRAYS, DOWNLOADED, SETS_KERNELS

# -- downloads


@pytest.fixture
def add(program):
    return program["add"]


def test_bytes_that_the_host_has(find, own, add, buffer):
    def run():
        for _ in range(3):
            buffer.get(queue=own)  # 2
        own.launch(add, 10, 10, buffer, 1)
        buffer.get(queue=own)
        own.copy(np.empty(100, "i4"), buffer)  # 1
        own.fill(buffer, 3)
        own.copy(np.empty(100, "i4"), buffer)
        buffer[:50].get(queue=own)
        buffer[:50].get(queue=own)  # 1

    assert find(run) == {DOWNLOADED: 4}
    assert sum(habit.nbytes for habit in find.all) == 3 * 400 + 200


def test_other_memory_at_the_same_place_is_other_bytes(find, own, add):
    def run():
        for turn in range(20):
            temporary = own.alloc(100, "i4")
            own.launch(add, 10, 10, temporary, turn)
            temporary.get(queue=own)
            own.free(temporary)

    assert find(run) == {}


@pytest.mark.executes
def test_memory_that_others_may_write_to_has_other_bytes(find, device, own):
    with device.empty(100, "i4", usm_type="shared") as shared:
        view = shared.host

        def run():
            for turn in range(3):
                view[:] = turn
                own.copy(np.empty(100, "i4"), shared)
                own.finish()
                own.copy(shared, np.zeros(100, "i4"))
                own.finish()

        assert find(run) == {}


def test_a_graph_that_downloads_is_captured_once(find, own, buffer):
    def run():
        with own.capture():
            for _ in range(3):
                own.copy(np.empty(100, "i4"), buffer)

    assert find(run) == {}


# -- arrays


@pytest.mark.executes
def test_arrays_that_have_not_changed(find, own, program):
    given, to = np.arange(100, dtype="i4"), np.zeros(100, "i4")

    def run():
        for _ in range(OFTEN + 1):
            own.launch(program["copy"], 10, 10, to, given)

    assert find(run) == {ARRAYS: OFTEN}
    assert sum(habit.nbytes for habit in find.all) == OFTEN * 800
    assert (to == given).all()


@pytest.mark.executes
def test_arrays_that_the_host_changes(find, own, add):
    array = np.zeros(100, "i4")

    def run():
        for _ in range(2 * OFTEN):
            array[0] += 1
            own.launch(add, 10, 10, array, 1)
        for _ in range(OFTEN):
            own.launch(add, 10, 10, np.full(100, 3, "i4"), 1)

    assert find(run) == {}


@pytest.mark.executes
def test_arrays_of_a_few_launches_and_of_a_capture(find, own, program):
    given, to = np.arange(100, dtype="i4"), np.zeros(100, "i4")

    def run():
        for _ in range(OFTEN):
            own.launch(program["copy"], 10, 10, to, given)
        with own.capture():
            for _ in range(2 * OFTEN):
                own.launch(program["copy"], 10, 10, to, given)

    assert find(run) == {}


# -- memory


MAKES = {
    "empty": lambda device: device.empty(100),
    "zeros": lambda device: device.zeros(100),
    "array": lambda device: device.array(np.ones(100, "f4")),
}


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_memory_that_is_made_again_and_again(find, device, make, closes):
    def run():
        for _ in range(OFTEN + 3):
            temporary = make(device)
            if closes:
                temporary.close()
            device.finish()

    found = find(run)
    assert OFTEN <= found.pop(ALLOCATED) <= OFTEN + 2
    assert {habit.nbytes // habit.times for habit in find.all if habit.what == ALLOCATED} == {400}


def test_memory_that_is_kept_and_memory_of_the_pool(find, device, own):
    def run():
        kept = [device.empty(100) for _ in range(3 * OFTEN)]
        views = []
        for _ in range(3 * OFTEN):
            views.append(device.empty(100).reshape(10, 10))
        for _ in range(3 * OFTEN):
            own.free(own.alloc(100))
        assert len(kept) == len(views)

    assert find(run) == {}


def test_memory_of_other_sizes_and_of_a_few_turns(find, device):
    def run():
        for turn in range(3 * OFTEN):
            device.empty(100 + turn).close()
        for _ in range(OFTEN):
            device.empty(100).close()

    assert find(run) == {}


# -- graphs


def chain(device, add, buffer, length):
    graph, nodes = device.graph(), []
    for _ in range(length):
        nodes.append(graph.add_kernel(add, 10, 10, buffer, 1, after=nodes[-1:]))
    return graph, nodes


def test_kernels_of_a_graph_that_are_set_before_each_launch(find, device, own, add, buffer):
    graph, nodes = chain(device, add, buffer, 4)

    def run():
        executable = graph.instantiate()
        for turn in range(OFTEN):
            for node in nodes[:2]:
                executable.set_kernel(node, add, 10, 10, buffer, turn)
            executable.launch(own)

    assert find(run) == {SETS_KERNELS: 2 * OFTEN}
    assert all(habit.ticks > 0 for habit in find.all)


def one_of_many(turn, add, program, nodes):
    yield nodes[0], add, 10, 10, turn


def now_and_then(turn, add, program, nodes):
    for node in nodes if turn % 3 == 0 else ():
        yield node, add, 10, 10, turn


def other_blocks(turn, add, program, nodes):
    for node in nodes:
        yield node, add, 10, 10 - turn % 2, turn


def a_few_times(turn, add, program, nodes):
    for node in nodes if turn < OFTEN - 1 else ():
        yield node, add, 10, 10, turn


def every_time(turn, add, program, nodes):
    for node in nodes:
        yield node, add, 10, 10, turn


MANY = 3 * OFTEN


@pytest.mark.parametrize(
    ("changes", "launches"),
    [(one_of_many, MANY), (now_and_then, MANY), (other_blocks, MANY), (a_few_times, MANY), (every_time, OFTEN - 1)],
)
def test_graphs_that_a_step_would_not_replace(find, device, own, program, add, buffer, changes, launches):
    graph, nodes = chain(device, add, buffer, 4)

    def run():
        executable = graph.instantiate()
        for turn in range(launches):
            for node, kernel, grid, block, value in changes(turn, add, program, nodes):
                executable.set_kernel(node, kernel, grid, block, buffer, value)
            executable.launch(own)

    assert find(run) == {}
