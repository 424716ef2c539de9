"""Changing launches of an executable graph again and again: its recordings are changed, where the driver can do that.

On OpenCL there are none, or the observer's, so that the results tell whether the right launches were changed.
"""

import contextlib
import gc
import threading
import time
import weakref
from contextlib import contextmanager, nullcontext
from functools import partial
from random import Random, randrange

import numpy as np
import pytest

import forebay as fb
from forebay.queues.selection import select
from tests.helpers.device_data import device_data
from tests.helpers.observer import observe
from tests.helpers.recordings import recordings_installed
from tests.helpers.threads import beside, switching

from .conftest import SIZE, made, steps


@pytest.fixture(autouse=True)
def recorded():
    """One of the kinds below only."""


CHANGES_BY = {"cuda": "cuGraphExecKernelNodeSetParams_v2"}  # others set each argument by a call of its own
KINDS = ["none", "recordings", "recordings that may run"] if select().backend == "opencl" else ["the driver's"]


@pytest.fixture(autouse=True, params=KINDS)
def recordings(request):
    spares = "may run" in request.param
    with recordings_installed(spares, spares) if "recordings" in request.param else nullcontext() as recordings:
        yield recordings


@pytest.fixture
def calls(device):
    with observe(device) as observed:
        yield observed


@pytest.fixture
def chain(device, kernels, x):
    return chain_of(device, kernels, x)


def chain_of(device, kernels, x):
    """A graph of five launches on `x`, one after the other, and its nodes."""
    graph, nodes = device.graph(), []
    for k in range(5):
        nodes.append(graph.add_kernel(kernels["advance"], 4, 16, x, k, after=nodes[-1:]))
    return graph, nodes


@pytest.fixture
def changeable(queue, kernels, chain, x):
    """An executable of that graph which has been launched with changes, so that there is what can be changed where the
    driver records; its nodes, and the steps that it has done.
    """
    graph, nodes = chain
    executable, done = graph.instantiate(), []
    for k in (5, 6):
        executable.set_kernel(nodes[0], kernels["advance"], 4, 16, x, k)
        executable.launch(queue)
        done += [k, 1, 2, 3, 4]
        queue.finish()
    return executable, nodes, done


ARGUMENTS = {
    "advance": lambda k: (k,),
    "take": lambda k: (np.array((0, k), "u4,u4")[()],),
    "gather": lambda k: (fb.by_value(np.full(300, k, "u4")), 1),
}


@pytest.mark.parametrize("seed", range(10))
def test_launches_among_copies_fills_and_bytes_by_value(calls, device, queue, kernels, x, y, value_of, seed):
    """Where a launch is in a recording depends on every command before it."""
    draw, graph, launches, ks, last, total = Random(seed), device.graph(), [], [], [], 0
    z = made(device)
    for kind in draw.choices([*ARGUMENTS, "copy", "fill"], k=draw.randint(4, 10)):
        if kind in ARGUMENTS:
            ks.append(draw.randrange(1000))
            last = [graph.add_kernel(kernels[kind], 4, 16, x, *ARGUMENTS[kind](ks[-1]), after=last)]
            launches.append((last[0], kind))
        else:
            last = [graph.add_copy(z, y, after=last) if kind == "copy" else graph.add_fill(z, 7, after=last)]
    executable = graph.instantiate()
    for _ in range(8):
        for i in draw.sample(range(len(ks)), draw.randint(0, len(ks))):
            ks[i] = draw.randrange(1000)
            node, kind = launches[i]
            executable.set_kernel(node, kernels[kind], 4, 16, x, *ARGUMENTS[kind](ks[i]))
        executable.launch(queue)
        total = steps(*ks, start=total)
        assert device_data(value_of(x)) == total


@contextmanager
def changes_by_the_collector(change):
    """Collections here and there, some of which change something."""
    threshold = gc.get_threshold()
    gc.callbacks.append(lambda *_: change())
    gc.set_threshold(randrange(1, 8))
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.pop()


@pytest.mark.parametrize(("count", "meanwhile"), [(5, nullcontext), (200, nullcontext), (5, changes_by_the_collector)])
def test_some_of_the_nodes_at_a_time(device, queue, kernels, x, y, value_of, count, meanwhile):
    """One, a few more than once, all, or none, now and then with other memory or more groups; amid other launches."""
    other = partial(queue.launch, kernels["advance"], 1, 16, made(device), 0)
    graph, nodes, random = device.graph(), [], Random(count)
    for k in range(count):
        nodes.append(graph.add_kernel(kernels["advance"], 4, 16, x, k, after=nodes[-1:]))
    executable, ks, of_x, of_y = graph.instantiate(), list(range(count)), [], []
    to_x = [True] * count
    for turn in range(60 if count > 5 else 300):
        for _ in range(random.choice([0, 1, 1, 2, 9, 3 * count])):
            at, k = random.randrange(count), random.randrange(1000)
            if random.random() < 1 / count:
                to_x[at] = not to_x[at]
            shape, memory = random.choice([(4, 16), (5, 16)]), x if to_x[at] else y
            with meanwhile(other):
                executable.set_kernel(nodes[at], kernels["advance"], *shape, x, k)
                executable.set_kernel(nodes[at], kernels["advance"], 4, 16, memory, k)
            ks[at] = k
        executable.launch(queue)
        of_x += [k for k, here in zip(ks, to_x, strict=True) if here]
        of_y += [k for k, here in zip(ks, to_x, strict=True) if not here]
        if turn % 7 == 0:
            queue.finish()
    queue.finish()
    assert (device_data(value_of(x)), device_data(value_of(y))) == (steps(*of_x), steps(*of_y))


@contextmanager
def changes_by_a_thread(change):
    ended = threading.Event()

    def work():
        while not ended.is_set():
            change()

    with switching(1e-6), beside(work):
        try:
            yield
        finally:
            ended.set()


@pytest.mark.threads
@pytest.mark.executes
@pytest.mark.parametrize("meanwhile", [changes_by_the_collector, changes_by_a_thread])
@pytest.mark.parametrize("seed", range(4))
def test_a_launch_does_all_changes_up_to_one_of_them(device, queue, kernels, value_of, seed, meanwhile):
    """Wherever in the launch they are made."""
    draw, graph, memory, made_by = Random(seed), device.graph(), [made(device) for _ in range(4)], []
    nodes = [graph.add_kernel(kernels["advance"], 4, 16, each, 0) for each in memory]
    executable, values, last = graph.instantiate(), [0] * 4, [0] * 4

    def change():
        if draw.random() < 0.4:
            at = draw.randrange(4)
            made_by.append(at)  # the number of the change is the argument
            shape = draw.choice([(4, 16), (4, 16), (2, 32)])
            executable.set_kernel(nodes[at], kernels["advance"], *shape, memory[at], len(made_by))

    for _ in range(60):
        change()
        with meanwhile(change):
            executable.launch(queue)
        queue.finish()
        now = [value_of(each) for each in memory]
        did = [(new - 3 * old) % (1 << 32) for new, old in zip(now, values, strict=True)]
        values = now
        newest = max(did)
        assert did == [
            max([i + 1 for i, at in enumerate(made_by[:newest]) if at == each], default=0) for each in range(4)
        ]
        assert newest >= max(last)
        last = did


def test_groups_and_what_is_recorded_anew(device, queue, kernels, chain, x, y, value_of):
    """Another block or kernel cannot be a change."""
    graph, nodes = chain
    executable, of_x = graph.instantiate(), []
    for i, (grid, block) in enumerate([(4, 16), (4, 16), (2, 32), (4, 16), (8, 8), (4, 16)]):
        executable.set_kernel(nodes[1], kernels["advance"], grid, block, x, i)
        executable.launch(queue)
        of_x += [0, i, 2, 3, 4]
    executable.set_kernel(nodes[1], kernels["combine"], 4, 16, y, x, 1)
    executable.launch(queue)
    executable.set_kernel(nodes[1], kernels["advance"], 4, 16, x, 9)
    executable.launch(queue)
    of_x += [0, 2, 3, 4, 0, 9, 2, 3, 4]
    queue.finish()
    assert device_data(value_of(x)) == steps(*of_x)
    executable.set_kernel(nodes[4], kernels["advance"], 2, 16, y, 5)
    executable.launch(queue)
    queue.finish()
    assert device_data(set(y.get()[32:]) < set(y.get()))


@pytest.mark.needs("OpenCL")  # whose memory has weak references
def test_memory_of_a_change_is_kept_and_that_of_before_is_not(device, queue, kernels, chain, x, value_of, monkeypatch):
    graph, nodes = chain
    executable, memories, allocate = graph.instantiate(), [], device.driver.allocate

    def remembered(nbytes, usm_type):
        memory = allocate(nbytes, usm_type)
        memories.append(weakref.ref(memory))
        return memory

    monkeypatch.setattr(device.driver, "allocate", remembered)
    executable.update(chain_of(device, kernels, made(device))[0])
    executable.launch(queue)
    queue.finish()
    for i in range(8):
        other = device.zeros(SIZE, "u4")
        for node in nodes:
            executable.set_kernel(node, kernels["advance"], 4, 16, other, i)
        executable.launch(queue)
        assert other in executable.writes
        assert value_of(other) == steps(i, i, i, i, i)
        other = None
        queue.finish()
    monkeypatch.undo()
    alive = [memory() is not None for memory in memories]
    assert alive[-1]
    assert sum(alive) == 1


@pytest.mark.threads
@pytest.mark.needs("OpenCL")  # whose observer can stop a call
def test_a_change_amid_a_launch_of_another_thread(calls, device, make_queue, chain, kernels, x, value_of):
    """It does not concern what that launch has yet to submit."""
    graph, nodes = chain
    executable = graph.instantiate()
    one, other = (make_queue(blocking=False) for _ in range(2))
    executable.set_kernel(nodes[0], kernels["advance"], 4, 16, x, 5)
    executable.launch(other)  # so that the next one looks for what to wait for, and gives back the GIL
    other.finish()
    calls.driver.pause(calls.driver.LAUNCH)
    with beside(lambda: executable.launch(one)):
        calls.driver.wait_until_paused()
        seen = len(calls)
        executable.set_kernel(nodes[-1], kernels["advance"], 4, 16, x, 9)
        with beside(lambda: executable.launch(other)):
            while "clSetKernelArg" not in [call.name for call in calls.since(seen)]:
                time.sleep(0.001)
            calls.driver.go_on()
    device.finish()
    assert value_of(x) == steps(*[5, 1, 2, 3, 4] * 2, 5, 1, 2, 3, 9)


@pytest.mark.threads
def test_a_change_while_another_thread_changes(calls, queue, changeable, kernels, x, value_of, recordings):
    """What is set while a launch changes what it launches is for that one or the next, and is not lost."""
    if not recordings:
        pytest.skip("no thread can come between where the arguments of launches are set")
    executable, nodes, expected = changeable
    executable.set_kernel(nodes[0], kernels["advance"], 4, 16, x, 7)
    calls.driver.pause("clSetKernelArg")
    with beside(lambda: executable.launch(queue)):
        calls.driver.wait_until_paused()
        executable.set_kernel(nodes[4], kernels["advance"], 4, 16, x, 9)
        calls.driver.go_on()
    executable.launch(queue)
    queue.finish()
    assert value_of(x) in [steps(*expected, 7, 1, 2, 3, last, 7, 1, 2, 3, 9) for last in (4, 9)]


@pytest.mark.threads
def test_an_executable_is_closed_while_a_launch_changes_it(calls, queue, changeable, kernels, x, recordings):
    """The launch goes on, or says that it is closed."""
    if not recordings:
        pytest.skip("no thread can come between where the arguments of launches are set")
    executable, nodes, _ = changeable
    executable.set_kernel(nodes[0], kernels["advance"], 4, 16, x, 7)
    calls.driver.pause("clSetKernelArg")
    with contextlib.suppress(fb.ClosedError), beside(lambda: executable.launch(queue)):
        calls.driver.wait_until_paused()
        executable.close()
        calls.driver.go_on()
    queue.finish()
    with pytest.raises(fb.ClosedError):
        executable.launch(queue)


@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_change_beside_a_buffer_that_was_closed(device, queue, kernels, x, meanwhile):
    """What is not changed is looked at, too; also if the garbage collector closes it while the launch is changed."""
    own, graph = made(device), device.graph()
    first = graph.add_kernel(kernels["advance"], 4, 16, x, 1)
    graph.add_kernel(kernels["advance"], 4, 16, own, 1, after=first)
    executable = graph.instantiate()
    for k in (2, 3):
        executable.set_kernel(first, kernels["advance"], 4, 16, x, k)
        executable.launch(queue)
        queue.finish()
    executable.set_kernel(first, kernels["advance"], 4, 16, x, 4)
    if meanwhile:
        threshold, close = gc.get_threshold(), lambda *_: own.close()
        gc.callbacks.append(close)
        try:
            gc.set_threshold(1)
            executable.launch(queue)  # the next thing that makes objects
        except fb.ClosedError:
            pass
        finally:
            gc.set_threshold(*threshold)
            gc.callbacks.remove(close)
    own.close()
    for _ in range(2):
        with pytest.raises(fb.ClosedError):
            executable.launch(queue)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_change_that_fails_is_not_lost(calls, device, queue, changeable, kernels, x, value_of, after):
    """Some of three arguments are set by then. The launch may raise; later ones do all that was set."""
    executable, nodes, expected = changeable
    for at, k in ((0, 7), (2, 8), (4, 9)):
        executable.set_kernel(nodes[at], kernels["advance"], 4, 16, x, k)
    calls.fail(CHANGES_BY.get(device.info.backend, calls.driver.ARGUMENT), calls.driver.FAILURE[0], after)
    try:
        executable.launch(queue)
        expected += [7, 1, 8, 3, 9]
    except fb.DriverError:
        pass
    calls.forgive()
    for k in (10, 11):
        executable.set_kernel(nodes[1], kernels["advance"], 4, 16, x, k)
        executable.launch(queue)
        expected += [7, k, 8, 3, 9]
    queue.finish()
    assert device_data(value_of(x)) == steps(*expected)


def test_a_capture_takes_what_was_set(queue, kernels, chain, x, value_of):
    graph, nodes = chain
    executable = graph.instantiate()
    for k in (5, 6):
        executable.set_kernel(nodes[0], kernels["advance"], 4, 16, x, k)
        executable.launch(queue)
    executable.set_kernel(nodes[3], kernels["advance"], 4, 16, x, 9)
    with queue.capture() as captured:
        executable.launch(queue)
    executable.set_kernel(nodes[3], kernels["advance"], 4, 16, x, 10)
    executable.launch(queue)
    captured.launch(queue)
    queue.finish()
    assert device_data(value_of(x)) == steps(5, 1, 2, 3, 4, 6, 1, 2, 3, 4, 6, 1, 2, 10, 4, 6, 1, 2, 9, 4)


def test_changes_while_recordings_run(calls, queue, kernels, chain, x, value_of, hold, recordings):
    """Two with recordings, and one without, are prepared; then the launches of that one are changed."""
    graph, nodes = chain
    executable, ks, expected = graph.instantiate(), list(range(5)), []
    hold(queue)

    def launch(*changes):
        for at, k in changes:
            ks[at] = k
            executable.set_kernel(nodes[at], kernels["advance"], 4, 16, x, k)
        executable.launch(queue)
        expected.extend(ks)

    for i in range(4):
        launch((i % 5, 10 + i))
    first, clones = len(calls), recordings and recordings.clones()
    for i in range(20):
        launch((i % 5, 50 + i), ((i + 2) % 5, 80 + i))
    assert "zeCommandListCreate" not in calls.names(first)
    assert not recordings or recordings.clones() == clones
    hold.open()
    queue.finish()
    assert device_data(value_of(x)) == steps(*expected)
    replays = recordings and recordings.counts()[1]
    for i in range(3):  # nothing runs any more, so what is recorded is changed
        launch((i, 100 + i))
        queue.finish()
    assert not recordings or recordings.counts()[1] == replays + 3
    assert device_data(value_of(x)) == steps(*expected)


def test_what_is_no_longer_changed_is_recorded_again(queue, kernels, chain, x, value_of, hold, recordings):
    graph, nodes = chain
    executable, expected = graph.instantiate(), []
    hold(queue)
    for i in range(6):
        executable.set_kernel(nodes[1], kernels["advance"], 4, 16, x, i)
        executable.launch(queue)
        expected += [0, i, 2, 3, 4]
    replays = recordings and recordings.counts()[1]
    for _ in range(20):
        executable.launch(queue)
        expected += [0, 5, 2, 3, 4]
    assert not recordings or recordings.counts()[1] >= replays + 10
    hold.open()
    queue.finish()
    assert device_data(value_of(x)) == steps(*expected)
