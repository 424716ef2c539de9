"""Scratch in graphs: each lane of each executable graph has its own, as large as the data of the moment asks for."""

import gc
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from tests.drivers.levelzero import validation
from tests.helpers.device_data import device_data
from tests.helpers.observer import EXECUTES
from tests.helpers.refusals import refused
from tests.inside import launch_memory_of

# `crowd` finds out whether anybody else writes to its room, and `use` fills as much of it as it was given.
SOURCE = """
kernel void use(global const uint *rows, global uint *room, global uint *out, uint n)
{
    for (uint i = 0; i < n; i++) room[i] = rows[0] + i;
    for (uint i = 0; i < n; i++) out[i] = room[i];
}
kernel void crowd(global volatile uint *room, global uint *wrong, uint n, uint seed)
{
    for (uint round = 0; round < 30; round++) {
        for (uint i = 0; i < n; i++) room[i] = seed + round + i;
        for (uint i = 0; i < n; i++) wrong[0] += room[i] != seed + round + i;
    }
}
kernel void rewrite(global uint *rows, uint k) { rows[get_global_id(0)] = k; }
kernel void look(global const uint *rows, global uint *out) { out[0] = rows[0]; }
"""
MOST = 4096  # rows that the results have room for


@pytest.fixture(scope=validation.scope("module"))
def shared(device):
    program = device.program(SOURCE)
    program["crowd"].scratch("room", fb.Argument("n") * 4)
    return program


@pytest.fixture
def own(device):
    """The same kernels, for a test that changes what they declare."""
    with device.program(SOURCE) as own:
        own["use"].scratch("room", fb.MaxOver("rows") * 4)
        yield own


@pytest.fixture
def rows(device):
    buffer = device.array(np.full(8, 16, "u4"))
    device.finish()
    return buffer


@pytest.fixture
def out(device):
    buffer = device.zeros(MOST, "u4")
    device.finish()
    return buffer


def test_a_node_that_gets_a_kernel_with_scratch(device, queue, own, rows, out):
    """In a graph where no node had any."""
    graph = device.graph()
    node = graph.add_kernel(own["look"], 1, 1, rows, out)
    executable = graph.instantiate()
    executable.launch(queue)
    executable.set_kernel(node, own["use"], 1, 1, rows, out, 16)
    for value in (16, 300):
        queue.fill(rows, value)
        assert counted(device, "reductions", lambda: executable.launch(queue)) == 1
        queue.finish()
        if EXECUTES:
            assert device_data(out.get()[:16].tolist()) == list(range(value, value + 16))


def counted(device, name, do):
    """How much a counter of the device rises."""
    before = getattr(device.stats, name)
    do()
    return getattr(device.stats, name) - before


def filled(n):
    """What `use` leaves when all rows are n and it was given n."""
    return list(range(n, 2 * n))


# -- whose it is


class Crowd:
    """Kernels that notice when another one uses their scratch at the same time."""

    def __init__(self, device, kernel):
        self.kernel, self.device = kernel, device
        self.wrong = []

    def node(self, seed, n=20000):
        self.wrong.append(self.device.zeros(1, "u4"))
        self.device.finish()
        return self.kernel, 1, 1, self.wrong[-1], n, seed << 20

    def check(self):
        self.device.finish()
        wrong = [int(each.get()[0]) for each in self.wrong]
        if EXECUTES:
            assert wrong == [0] * len(wrong)


@pytest.fixture
def crowd(device, shared):
    return Crowd(device, shared["crowd"])


def captured(queue, crowd, count=1, n=20000):
    nodes = [crowd.node(seed + 1, n) for seed in range(count)]
    with queue.capture() as graph:
        for node in nodes:
            queue.launch(*node)
    return graph


def test_of_each_branch(device, make_queue, crowd):
    queue, others = make_queue(blocking=False), [make_queue(blocking=False) for _ in range(3)]
    nodes = [crowd.node(seed + 1) for seed in range(8)]
    with queue.capture() as graph:
        for other in others:
            other.wait(queue)
        for i, node in enumerate(nodes):
            (queue, *others)[i % 4].launch(*node)
        for other in others:
            queue.wait(other)
    for _ in range(3):
        graph.launch(queue)
    crowd.check()


def test_of_each_executable(make_queue, crowd):
    queues = [make_queue(blocking=False) for _ in range(2)]
    graph = captured(queues[0], crowd, 2)
    executables = [graph.instantiate() for _ in queues]
    for _ in range(4):
        for executable, queue in zip(executables, queues, strict=True):
            executable.launch(queue)
    crowd.check()


@pytest.mark.parametrize("how", ["launched in the capture", "added", "added by a capture"])
def test_of_each_time_a_graph_is_in_another(device, make_queue, crowd, how):
    queue, other = make_queue(blocking=False), make_queue(blocking=False)
    inner = captured(queue, crowd, 2)
    if how == "added":
        graph = device.graph()
        for _ in range(2):
            graph.add_graph(inner)
    else:
        launched = inner if how == "added by a capture" else inner.instantiate()
        with queue.capture() as graph:
            other.wait(queue)
            launched.launch(queue)
            launched.launch(other)
            queue.wait(other)
    for _ in range(3):
        graph.launch(queue)
        inner.launch(other)
    crowd.check()


def test_of_what_a_graph_was_replaced_by(make_queue, crowd):
    """The new executable of a graph that got another node, while the old one runs."""
    queues = [make_queue(blocking=False) for _ in range(2)]
    graph = captured(queues[0], crowd)
    graph.launch(queues[0])
    graph.add_kernel(*crowd.node(2), after=graph.nodes[0])
    graph.launch(queues[1])
    crowd.check()


def test_launches_of_one_lane_share_it(device, queue, crowd):
    nodes = [crowd.node(1, n) for n in (10, 3000, 200)]
    with queue.capture() as graph:
        for node in nodes:
            queue.launch(*node)
    gc.collect()
    device.finish()
    pool = launch_memory_of(device)
    before = pool.used
    graph.launch(queue)
    scratch = pool.used - before
    assert 12_000 <= scratch < 13_000  # of the largest
    for _ in range(20):
        graph.launch(queue)
    assert pool.used == before + scratch
    executable = graph.instantiate()
    assert pool.used == before + 2 * scratch
    crowd.check()
    executable.close()


def test_changes_use_the_scratch_there_is(device, queue, crowd):
    """Again and again, smaller and larger, while earlier launches run."""
    graph = captured(queue, crowd, 1, 5000)
    executable = graph.instantiate()

    def change():
        for i in range(60):
            executable.launch(queue)
            executable.set_kernel(graph.nodes[0], crowd.kernel, 1, 1, crowd.wrong[0], 100 + 50 * i, i << 20)

    assert counted(device, "allocations", change) == 0
    crowd.check()


def test_another_kernel_in_one_node_leaves_the_scratch_of_others(device, queue, rows, out):
    with device.program(SOURCE) as own:
        own["use"].scratch("room", fb.Argument("n") * (1 << 20))  # as large as a graph knows it beforehand
        graph = device.graph()
        first = graph.add_kernel(own["use"], 1, 1, rows, out, 16)
        second = graph.add_kernel(own["look"], 1, 1, rows, out, after=first)
        executable = graph.instantiate()
        executable.launch(queue)

        def change():
            executable.set_kernel(second, own["rewrite"], 1, 1, out, 3)
            executable.launch(queue)

        assert counted(device, "allocations", change) == 0
        queue.finish()


def test_bytes_by_value_of_a_bound_launch(device, make_queue):
    """The graph has its own copy, too, which a kernel may use as it likes: each launch sees the bytes as they were."""
    source = """
    kernel void eat(global uint *block, global uint *out, uint n) {
        out[0] += block[0] + block[n - 1];
        for (uint i = 0; i < n; i++) block[i] = 0;
    }
    """
    out, block = device.zeros(1, "u4"), np.full(1000, 3, "u4")
    queue = make_queue()
    with device.program(source) as own:
        bound = own["eat"].bind(queue, 1, 1, fb.by_value(block), out, 1000)
        block[:] = 99
        with queue.capture() as graph:
            bound()
            bound()
        assert bytes(graph.nodes[0].work.arguments[0]) == np.full(1000, 3, "u4").tobytes()
        for _ in range(3):
            graph.launch(queue)
        assert device_data(out.get(queue=queue).tolist()) == [36]


# -- how large it is


@pytest.fixture
def graph(queue, own, rows, out):
    """``graph(n)``: `use`, which fills n. Its scratch is as large as the largest of the rows."""

    def graph(n):
        with queue.capture() as graph:
            queue.launch(own["use"], 1, 1, rows, out, n)
        return graph

    return graph


WRITES = {
    "a fill": lambda device, queue, own, rows, k: queue.fill(rows, k),
    "a fill of a part": lambda device, queue, own, rows, k: queue.fill(rows[3:5], k),
    "a copy": lambda device, queue, own, rows, k: queue.copy(rows, np.full(8, k, "u4")),
    "a kernel": lambda device, queue, own, rows, k: queue.launch(own["rewrite"], 8, 1, rows, k),
    "a bound kernel": lambda device, queue, own, rows, k: own["rewrite"].bind(queue, 8, 1, rows, k)(),
    "set": lambda device, queue, own, rows, k: rows.set(np.full(8, k, "u4"), queue=queue),
    "another graph": lambda device, queue, own, rows, k: launched(device, queue, own, rows, k),
}


def launched(device, queue, own, rows, k):
    graph = device.graph()
    graph.add_fill(rows, k)
    graph.launch(queue)


@pytest.mark.parametrize("what", list(WRITES))
@pytest.mark.parametrize("elsewhere", [False, True], ids=["on this queue", "on another"])
def test_what_is_written_after_the_capture(device, make_queue, own, rows, out, queue, graph, what, elsewhere):
    writer = make_queue(blocking=False) if elsewhere else queue
    executable = graph(2000).instantiate()
    for size in (2000, 3000, 2500):
        WRITES[what](device, writer, own, rows, size)
        assert counted(device, "reductions", lambda: executable.launch(queue)) == 1
        assert counted(device, "reductions", lambda: executable.launch(queue)) == 0
        assert np.array_equal(
            device_data(out.get(queue=queue)[:2000]), device_data(rows.get(queue=queue)[0]) + np.arange(2000)
        )


@pytest.mark.parametrize("known", [False, True])
def test_a_capture_measures_nothing(device, queue, own, rows, out, graph, known):
    if known:
        queue.launch(own["use"], 1, 1, rows, out, 16)
    made = []
    assert counted(device, "reductions", lambda: made.append(graph(16).instantiate())) == 0
    assert counted(device, "reductions", lambda: made[0].launch(queue)) == (0 if known else 1)
    assert counted(device, "reductions", lambda: made[0].launch(queue)) == 0
    assert device_data(out.get(queue=queue)[:16].tolist()) == filled(16)


def test_several_are_measured_with_one_wait(device, queue, own, out):
    several = [device.array(np.full(8, 16, "u4")) for _ in range(5)]
    with queue.capture() as graph:
        for i, rows in enumerate((*several, *several)):
            queue.launch(own["use"], 1, 1, rows, out[100 * i :], 16)
    executable = graph.instantiate()
    device.finish()
    before = device.stats
    executable.launch(queue)
    assert (device.stats - before).reductions == 5
    assert (device.stats - before).host_syncs <= 1


def test_memory_that_others_write_to_is_always_measured(device, queue, own, out, really):
    try:
        rows = device.empty(8, "u4", usm_type="shared")
    except fb.NotSupportedError:
        pytest.skip("no shared memory")
    host = rows.host
    host[:] = 16
    with queue.capture() as graph:
        queue.launch(own["use"], 1, 1, rows, out, 2000)
    for size in (2000, 3000, 2000):
        queue.finish()
        host[:] = size
        assert counted(device, "reductions", lambda: graph.launch(queue)) == 1
        assert out.get(queue=queue)[:2000].tolist() == list(range(size, size + 2000)) or not really
    del host
    gc.collect()
    graph.launch(queue)
    assert counted(device, "reductions", lambda: graph.launch(queue)) == 0


def test_it_grows_seldom_and_is_given_back(device, queue, rows, out, graph):
    executable = graph(10).instantiate()

    def grow():
        for size in range(20, 4000, 20):
            queue.fill(rows, size)
            executable.launch(queue)

    assert counted(device, "reductions", grow) == 199
    assert counted(device, "allocations", grow) == 0
    assert counted(device, "allocations", lambda: (queue.fill(rows, 1 << 20), executable.launch(queue))) <= 2


def test_a_part_of_the_same_memory(device, queue, own):
    """What the graph writes lies beside the rows: it may, but what is known of the memory is then out of date."""
    memory = device.array(np.full(8 + MOST, 100, "u4"))
    rows, out = memory[:8], memory[8:]
    with queue.capture() as graph:
        queue.launch(own["use"], 1, 1, rows, out, 100)
    for _ in range(3):
        assert counted(device, "reductions", lambda: graph.launch(queue)) == 1
    assert device_data(out.get(queue=queue)[:100].tolist()) == filled(100)


def test_a_size_that_cannot_be_leaves_the_graph_as_it_was(device, queue, own, out):
    own["crowd"].scratch("room", fb.Argument("n") - 5)
    with refused(fb.InvalidArgumentError, ValueError, "'crowd'", "'room'", "-4 bytes"):
        device.graph().add_kernel(own["crowd"], 1, 1, out, 1, 1)
    graph = device.graph()
    node = graph.add_kernel(own["crowd"], 1, 1, out, 6, 1)
    with graph.instantiate() as executable:
        with refused(fb.InvalidArgumentError, ValueError, "-4 bytes"):
            executable.set_kernel(node, own["crowd"], 1, 1, out, 1, 1)
        executable.launch(queue)
        queue.finish()


@pytest.mark.executes
def test_nothing_is_measured_on_the_host_thread(device, queue, make_queue, rows, out, graph):
    executable, other = graph(16).instantiate(), make_queue(blocking=False)
    queue.host(lambda: executable.launch(other))
    with pytest.raises(fb.Error, match=r"measured.*host function"):
        queue.finish()
    executable.launch(queue)
    queue.finish()
    queue.host(lambda: executable.launch(other))  # with what is known
    queue.finish()


# -- graphs that write to what a size is read from

NAMES = "'use'", "'room'", "MaxOver('rows')", "Buffer (8,) uint32"


@pytest.mark.parametrize("first", ["the write", "the launch"])
@pytest.mark.parametrize("what", [each for each in WRITES if each != "set"])
def test_that_is_refused_in_a_capture(device, queue, own, rows, out, what, first):
    do = [
        lambda: WRITES[what](device, queue, own, rows, 2000),
        lambda: queue.launch(own["use"], 1, 1, rows, out, 16),
    ]
    one, two = do if first == "the write" else reversed(do)
    with queue.capture() as graph:
        one()
        with refused(fb.InvalidArgumentError, ValueError, *NAMES):
            two()
        queue.launch(own["look"], 1, 1, rows, out)
    assert len(graph) == 2
    if EXECUTES or what != "a copy":  # where host functions never run, and one copies to memory of the device
        graph.launch(queue)
        queue.finish()


def test_that_is_refused_of_a_graph_in_a_graph(device, queue, own, rows, graph):
    inner, writing = graph(16), device.graph()
    writing.add_fill(rows, 5)
    writing.add_fill(rows, 6)
    with queue.capture() as outer:
        writing.launch(queue)
        with refused(fb.InvalidArgumentError, ValueError, *NAMES):
            inner.launch(queue)
    assert len(outer) == 2
    with queue.capture() as outer:
        inner.launch(queue)
        with refused(fb.InvalidArgumentError, ValueError, *NAMES):
            writing.launch(queue)
    assert len(outer) == 1
    outer = device.graph()
    outer.add_graph(inner)
    for add in (lambda: outer.add_graph(writing), lambda: outer.add_fill(rows[2:3], 1)):
        with refused(fb.InvalidArgumentError, ValueError, *NAMES):
            add()
    assert len(outer) == 1
    outer.launch(queue)
    queue.finish()


def test_that_is_refused_of_changes(device, queue, own, rows, out, graph):
    other = device.zeros(8, "u4")
    made, harmless, writing = graph(16), device.graph(), device.graph()
    harmless.add_fill(other, 1)
    writing.add_fill(rows, 1)
    fill = made.add_fill(other, 1)
    child = made.add_graph(harmless)
    executable = made.instantiate()
    for change in (
        lambda: executable.set_fill(fill, rows, 3),
        lambda: executable.set_fill(fill, rows[7:], 3),
        lambda: executable.set_kernel(made.nodes[0], own["use"], 1, 1, other, out, 16),
        lambda: executable.set_graph(child, writing),
        lambda: made.add_fill(rows, 3, after=child),
    ):
        with refused(fb.InvalidArgumentError, ValueError, "'use'", "'room'", "MaxOver('rows')"):
            change()
    executable.launch(queue)
    assert device_data(out.get(queue=queue)[:16].tolist()) == filled(16)
    assert device_data(rows.get(queue=queue).tolist()) == [16] * 8


def test_that_is_refused_of_the_kernel_itself(device, queue, own, rows):
    source = "kernel void self(global uint *rows, global uint *room) { rows[0] = room[0] = 1; }"
    with device.program(source) as program:
        program["self"].scratch("room", fb.SumOver("rows"))
        queue.launch(program["self"], 1, 1, rows)  # outside of a graph it is measured again and again
        with queue.capture() as graph, refused(fb.InvalidArgumentError, ValueError, "'self'", "'room'", "may write"):
            queue.launch(program["self"], 1, 1, rows)
        assert len(graph) == 0
    queue.finish()


def test_that_is_refused_of_kernels_that_follow_pointers(device, queue, own, rows, out):
    if not device.driver.has_addresses:
        pytest.skip("no addresses")
    own["look"].follow_pointers()
    for first, second in (("look", "use"), ("use", "look")):
        arguments = {"look": (out, out), "use": (rows, out, 16)}
        with queue.capture() as graph:
            queue.launch(own[first], 1, 1, *arguments[first])
            with refused(fb.InvalidArgumentError, ValueError, *NAMES, "follows pointers"):
                queue.launch(own[second], 1, 1, *arguments[second])
        assert len(graph) == 1


def test_that_is_refused_of_arrays_and_of_memory_of_the_graph(queue, own, out):
    with queue.capture() as graph:
        with refused(fb.InvalidArgumentError, ValueError, "'use'", "argument 0", "Buffer"):
            queue.launch(own["use"], 1, 1, np.full(8, 16, "u4"), out, 16)
        assert len(graph) == 0
        rows = queue.alloc(8, "u4")
        with refused(fb.InvalidArgumentError, ValueError, *NAMES):
            queue.launch(own["use"], 1, 1, rows, out, 16)
        queue.free(rows)
    assert len(graph) == 2


# -- a launch of a graph writes all that its nodes write: what was known of that data is looked at again

NODES = {  # whether it writes to the rows, and what adds it
    "a kernel": (True, lambda graph, own, rows, other: graph.add_kernel(own["rewrite"], 8, 1, rows, 20)),
    "a kernel, a part": (True, lambda graph, own, rows, other: graph.add_kernel(own["rewrite"], 4, 1, rows[:4], 20)),
    "a fill": (True, lambda graph, own, rows, other: graph.add_fill(rows, 20)),
    "a copy": (True, lambda graph, own, rows, other: graph.add_copy(rows, other)),
    "a kernel that reads": (False, lambda graph, own, rows, other: graph.add_kernel(own["look"], 1, 1, rows, other)),
    "a copy of it": (False, lambda graph, own, rows, other: graph.add_copy(other, rows)),
    "a download": (False, lambda graph, own, rows, other: graph.add_copy(fb.host_empty(8, "u4", graph.device), rows)),
}


@pytest.fixture
def other(device):
    other = device.array(np.full(8, 20, "u4"))
    device.finish()
    return other


@pytest.fixture
def measured(device, queue, own, rows, out):
    """``measured()``: how many buffers a launch measures for its scratch."""
    return lambda on=queue: counted(device, "reductions", lambda: on.launch(own["use"], 1, 1, rows, out, 16))


@pytest.mark.parametrize("what", NODES)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["on this queue", "on another"])
def test_what_a_node_writes(device, queue, make_queue, own, rows, other, measured, what, elsewhere):
    graph, (writes, add) = device.graph(), NODES[what]
    add(graph, own, rows, other)
    assert measured() == 1
    graph.instantiate()  # which runs nothing
    assert measured() == 0
    for _ in range(2):
        graph.launch(make_queue() if elsewhere else queue)
        assert measured() == writes
        assert measured() == 0


def test_what_was_put_in_place_of_something(device, queue, own, rows, other, measured):
    graph = device.graph()
    node = graph.add_kernel(own["rewrite"], 8, 1, other, 20)
    executable = graph.instantiate()
    for buffer, writes in ((None, False), (rows, True)):
        if buffer is not None:
            executable.set_kernel(node, own["rewrite"], 8, 1, buffer, 20)
        measured()
        executable.launch(queue)
        assert measured() == writes


@pytest.mark.parametrize("since", ["the capture", "a change"])
def test_a_kernel_that_follows_pointers_may_write_anywhere(device, queue, own, out, other, measured, since):
    if since == "the capture":
        own["look"].follow_pointers()
    with queue.capture("relaxed") as graph:
        queue.launch(own["look"], 1, 1, other, out)
    executable = graph.instantiate()
    if since == "a change":
        for follows in (False, True):
            if follows:
                own["look"].follow_pointers()
            executable.set_kernel(graph.nodes[0], own["look"], 1, 1, other, out)
            measured()
            executable.launch(queue)
    else:
        measured()
        assert measured() == 0
        executable.launch(queue)
    assert measured() == 1


def test_the_measure_comes_after_the_graph(device, make_queue, rows, out, measured, hold):
    one, two = make_queue(blocking=False), make_queue(blocking=False)
    assert measured(two) == 1
    graph = device.graph()
    graph.add_fill(rows, 20)
    graph.launch(one)
    assert measured(two) == 1  # which waits for the other queue
    two.finish()
    assert np.array_equal(device_data(out.get()[:1]), [20])


# -- between two steps of a launch


def test_a_capture_that_begins_in_a_launch(queue, own, rows, out):
    """The launch becomes a node, although it was about to run, with scratch of the queue."""

    class Begins:
        def __index__(self):
            if not queue.capturing:
                queue.begin_capture()
            return 16

    queue.launch(own["use"], 1, 1, rows, out, 16)
    queue.launch(own["use"], 1, 1, rows, out[100:], Begins())
    graph = queue.end_capture()
    assert len(graph) == 1
    assert device_data(out.get(queue=queue)[100:116].tolist()) == [0] * 16
    graph.launch(queue)
    assert device_data(out.get(queue=queue)[100:116].tolist()) == filled(16)


class Between:
    """In place of a lock that a launch takes between looking at its buffers and submitting: does something there."""

    def __init__(self, do):
        self.do = do

    def __enter__(self):
        do, self.do = self.do, lambda: None
        do()

    def __exit__(self, *exc_info):
        pass


@pytest.fixture
def between(queue, own, rows, out):
    """``between(do)`` launches a graph, and calls ``do()`` just before that is submitted."""

    def between(do):
        with queue.capture() as graph:
            queue.free(queue.alloc(16))
            queue.launch(own["use"], 1, 1, rows, out, 2000)
        executable = graph.instantiate()
        queue.fill(rows, 16)
        with mock.patch("forebay.queues.graphs.executable.memory_lock", Between(do)):
            executable.launch(queue)

    return between


def test_a_write_before_it_is_submitted(device, queue, rows, out, between):
    assert counted(device, "reductions", lambda: between(lambda: queue.fill(rows, 2000))) == 2
    assert device_data(out.get(queue=queue)[:2000].tolist()) == filled(2000)


@pytest.mark.parametrize("which", ["rows", "out"])
def test_a_buffer_that_is_closed_before_it_is_submitted(device, queue, rows, out, between, works, which):
    epoch = []

    def close():
        {"rows": rows, "out": out}[which].close()
        epoch.append(queue.epoch)

    with refused(fb.ClosedError, RuntimeError, "a Buffer that it uses is closed"):
        between(close)
    assert queue.epoch == epoch[0]  # nothing was submitted
    works(queue)


# -- debugging


@pytest.mark.executes
@pytest.mark.parametrize("how", ["alone", "beside another", "in another graph"])
def test_debugging_names_kernel_and_scratch_that_overflow(device, how):
    with fb.Device(device.name, debug=True, private=True) as debugging:
        use = debugging.program(SOURCE)["use"]
        use.scratch("room", fb.MaxOver("rows") * 4)
        rows, out = debugging.array(np.array([100, 3], "u4")), debugging.zeros(MOST, "u4")
        queue = debugging.queue()
        graph = debugging.graph()
        if how == "beside another":
            graph.add_kernel(use, 1, 1, debugging.array(np.array([1000], "u4")), out, 1000)
        node = graph.add_kernel(use, 1, 1, rows, out, 100, after=graph.nodes)
        if how == "in another graph":
            inner, graph = graph, debugging.graph()
            graph.add_graph(inner)
        executable = graph.instantiate()
        for size in (100, 300, 100):
            queue.fill(rows, size)
            executable.launch(queue)
        named = (f"'use' (id {use.content_id:08x})", f"'room' (id {use.scratch_id('room'):08x})")
        queue.fill(rows, 99)
        with refused(fb.ScratchOverflowError, RuntimeError, *named, "396 bytes", "MaxOver('rows') * 4"):
            executable.launch(queue)
        if how != "in another graph":
            executable.set_kernel(node, use, 1, 1, rows, out, 99)
            executable.launch(queue)
        queue.host(lambda: executable.launch(debugging.queue()))
        with pytest.raises(fb.Error, match=r"debugging.*host function"):
            queue.finish()
