"""Which driver calls graphs make, in which order, and what happens when one of them fails."""

# ruff: noqa: F811 - fixtures that are imported

import numpy as np
import pytest

import forebay as fb
from forebay.queues.selection import select
from tests.helpers.observer import watch
from tests.ordering.conftest import calls, device, program  # noqa: F401

from .conftest import SIZE, made, steps

REPLAYED_BY_ONE_CALL = select().backend in ("level_zero", "cuda")
OF_FILL = {"clGetCommandQueueInfo", "clSetKernelArg", "clSetKernelArgSVMPointer"}  # by a kernel, before its launch


@pytest.fixture(scope="module")
def watched():
    with watch(select().backend) as driver:
        yield driver


@pytest.fixture(autouse=True)
def recorded():
    """The driver's calls only."""


@pytest.fixture
def graph(device, kernels, x, y):
    """Seven launches, a copy and a fill."""
    graph, last = device.graph(), ()
    for k in range(7):
        last = graph.add_kernel(kernels["advance"], 4, 16, x, k, after=last)
    last = graph.add_copy(y, x, after=last)
    graph.add_fill(x, 3, after=last)
    return graph


def commands(calls, first, queue):
    handle = calls.handle_of(queue)
    return [call for call in calls.since(first) if calls.kind(call) == "command" and call.object == handle]


def test_one_call_where_the_driver_can(calls, graph, queue):
    executable = graph.instantiate()
    assert commands(calls, 0, queue) == []
    by_kernel = calls.name_of("FILL") == calls.driver.LAUNCH
    for _ in range(3):
        first, epoch = len(calls), queue.epoch
        executable.launch(queue)
        made = commands(calls, first, queue)
        if REPLAYED_BY_ONE_CALL:
            assert [call.name for call in made] == [calls.driver.REPLAY]
        else:
            assert [call.name for call in made[:7]] == [calls.driver.LAUNCH] * 7
            assert len(made) == 9
        # nothing else: no event, no marker, no argument but for a fill by a kernel, no allocation
        rest = [call for call in calls.since(first) if call not in made]
        assert {call.name for call in rest} <= (OF_FILL if by_kernel else set()), rest
        room_of_the_copy = 2 if queue.device.info.backend == "cuda" else 0  # of a stream's 1,020: see docs/cuda.md
        assert queue.epoch - epoch == len(made) + room_of_the_copy
    assert queue.stats.events_made == 0


@pytest.mark.needs("graphs cut into lanes")
def test_a_kernel_of_the_graphs_own(calls, graph, queue, kernels, x):
    """A launch of the same kernel on a queue uses another kernel object, whose arguments may change."""
    executable = graph.instantiate()
    first = len(calls)
    queue.launch(kernels["advance"], 4, 16, x, 9)
    (direct,) = (call for call in calls.since(first) if call.name == calls.driver.LAUNCH)
    replayed = {call.kernel for call in calls.log if call.name == calls.driver.LAUNCH} - {direct.kernel}
    executable.launch(queue)
    queue.finish()
    replayed |= {call.kernel for call in calls.log if call.name == calls.driver.LAUNCH} - {direct.kernel}
    assert len(replayed) == 7 + (calls.name_of("FILL") == calls.driver.LAUNCH)  # the kernel that fills


@pytest.mark.needs("OpenCL")
def test_a_change_sets_only_what_differs(calls, kernels, x, y, queue, device):
    """A kernel object of its own is made at the first change of a launch that shares one, and kept."""
    graph, nodes = device.graph(), []
    for k in (1, 1, 2):
        nodes.append(graph.add_kernel(kernels["advance"], 4, 16, x, k, after=nodes[-1:]))
    executable = graph.instantiate()

    def made_by(*changes):
        for at, buffer, k in changes:
            executable.set_kernel(nodes[at], kernels["advance"], 4, 16, buffer, k)
        first = len(calls)
        executable.launch(queue)
        return [call.name for call in calls.since(first)]

    launches = [calls.driver.LAUNCH] * 3
    assert made_by() == launches
    assert made_by((2, x, 3)) == ["clSetKernelArg", *launches]
    assert made_by((2, x, 3)) == launches
    shared = made_by((0, x, 3))
    assert shared.count("clSetKernelArg") + shared.count("clSetKernelArgSVMPointer") == 2  # all that it has
    assert shared[-3:] == launches
    assert made_by((0, x, 4), (1, x, 5)) == ["clSetKernelArg"] * 2 + launches
    assert len(made_by((0, y, 4))) == 4
    queue.finish()


@pytest.mark.needs("OpenCL")  # recordings that cannot be changed are recorded anew
def test_a_change_that_fails(calls, kernels, x, queue, device, value_of):
    """The launch says so, and the next one tries again."""
    graph = device.graph()
    first = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    second = graph.add_kernel(kernels["advance"], 4, 16, x, 2, after=first)
    executable = graph.instantiate()
    executable.launch(queue)
    before = len(calls)
    executable.set_kernel(first, kernels["advance"], 4, 16, x, 3)
    executable.launch(queue)
    setting = [call.name for call in calls.since(before) if "Arg" in call.name]
    assert setting
    for name in dict.fromkeys(setting):
        executable.set_kernel(first, kernels["advance"], 4, 16, x, 4)
        executable.set_kernel(second, kernels["advance"], 4, 16, x, 5)
        for _ in range(9):
            calls.fail(name, calls.driver.FAILURE[0], 1)
        with pytest.raises(fb.DriverError, match=name):
            executable.launch(queue)
        calls.forgive()
    executable.launch(queue)
    queue.finish()
    assert value_of(x) == steps(1, 2, 3, 2, 4, 5)


def test_another_queue_waits_for_the_last_launch(calls, graph, make_queue, hold):
    one, two = make_queue(blocking=False), make_queue(blocking=False)
    executable = graph.instantiate()
    gate = hold(one)
    executable.launch(one)
    first = len(calls)
    executable.launch(two)
    assert len(calls.markers_of([one], first)) == 1
    assert sum(len(call.waits) for call in commands(calls, first, two)) == 1
    first = len(calls)
    executable.launch(two)
    assert sum(len(call.waits) for call in commands(calls, first, two)) == 0
    gate.open()
    two.finish()
    first = len(calls)
    executable.launch(one)  # whose last launch is known to be done
    assert calls.markers_of([two], first) == []


@pytest.mark.threads
def test_host_functions_divide_it(device, calls, kernels, queue, x):
    graph, last = device.graph(), ()
    for _ in range(2):
        for k in range(3):
            last = graph.add_kernel(kernels["advance"], 4, 16, x, k, after=last)
        last = graph.add_host(lambda: None, after=last)
    executable = graph.instantiate()
    first = len(calls)
    executable.launch(queue)
    names = [call.name for call in commands(calls, first, queue)]
    wanted = [calls.driver.REPLAY] if REPLAYED_BY_ONE_CALL else [calls.driver.LAUNCH] * 3
    assert [name for name in names if name in wanted] == wanted * 2
    assert queue.stats.host_functions == 2
    queue.finish()


def test_bytes_by_value_are_uploaded_each_time(device, calls, kernels, queue, x):
    graph = device.graph()
    graph.add_kernel(kernels["gather"], 4, 16, x, b"1234", 1)
    executable = graph.instantiate()
    uploads = []
    for _ in range(3):
        first = len(calls)
        executable.launch(queue)
        made = commands(calls, first, queue)
        uploads.append(1 if REPLAYED_BY_ONE_CALL else len(made) - 1)
        assert len(made) == (1 if REPLAYED_BY_ONE_CALL else 2)
    assert uploads == [1, 1, 1]


@pytest.mark.threads
def test_host_functions_of_a_launch_that_failed_are_let_go(device, calls, kernels, queue, x, works):
    ran = []
    graph = device.graph()
    first = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    second = graph.add_host(lambda: ran.append(1), after=first)
    graph.add_host(lambda: ran.append(2), after=second)
    executable = graph.instantiate()
    calls.fail(calls.driver.HOST_FUNCTION, calls.driver.FAILURE[0], 1)
    with pytest.raises(fb.Error):
        executable.launch(queue)
    queue.finish()
    assert ran == [1]
    works(queue)
    executable.launch(queue)
    queue.finish()
    assert ran == [1, 1, 2]


@pytest.mark.parametrize("name", [
    pytest.param("ARGUMENT", marks=pytest.mark.needs("arguments set by calls")),
    *(
        pytest.param(name, marks=pytest.mark.needs("Level Zero"))
        for name in ("LAUNCH", "zeCommandListCreate", "zeCommandListClose")
    ),
])  # fmt: skip
def test_instantiation_that_fails(calls, graph, queue, works, name):
    call = getattr(calls.driver, name, name)
    calls.fail(call, calls.driver.FAILURE[0], 0)
    with pytest.raises(fb.DriverError, match=call):
        graph.launch(queue)
    assert queue.epoch == 0
    graph.launch(queue)
    works(queue)


@pytest.mark.threads
def test_all_that_it_made_is_given_back(device, calls, graph, queue, x, y):
    """The observer finds what is freed while something may still use it, and this what is never freed."""
    executable = graph.instantiate()
    executable.launch(queue)
    graph.launch(queue)
    host = np.zeros(SIZE, "u4")
    with queue.capture() as captured:
        queue.copy(x, host)
        queue.copy(host, y)
    captured.launch(queue)
    del executable, captured
    graph.close()
    made(device)
    device.finish()
    counts = calls.counts()
    for kind in ("CommandList", "Kernel"):
        made_here = sum(count for name, count in counts.items() if name in (f"ze{kind}Create", f"clRetain{kind}"))
        ended = sum(count for name, count in counts.items() if name in (f"ze{kind}Destroy", f"clRelease{kind}"))
        assert ended >= made_here, kind
