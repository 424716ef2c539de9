"""How many commands there is room for, shared by all streams."""

import contextlib
import random
import threading
import time

import pytest

import forebay as fb
from tests.drivers.cuda import standin
from tests.graphs.test_branches import until
from tests.helpers import processes
from tests.helpers.threads import beside
from tests.observers.internals import is_wanted

from .conftest import JUDGED, SECONDS, in_a_thread

pytestmark = JUDGED


@pytest.fixture
def idle_queues():
    """``idle_queues(device)``: many queues, which are closed when the test ends."""
    made = []

    def idle_queues(device):
        made.extend(device.queue(blocking=False) for _ in range(700))
        return made

    yield idle_queues
    for queue in made:
        queue.close()


@pytest.fixture
def idle(device, idle_queues):
    return idle_queues(device)


def test_copies_in_a_graph_take_room(device, kernels):
    """Between a launch and a copy the hardware changes its engine, which takes of a stream's 1,020."""
    queue, x, y = device.queue(blocking=False), device.empty(64, "u4"), device.empty(64, "u4")
    with queue.capture() as graph:
        for _ in range(4):
            queue.launch(kernels["advance"], 4, 16, x, 1)
            queue.copy(y, x)
    before = queue.epoch
    for _ in range(3):
        graph.launch(queue)
    assert queue.epoch - before == 3 * (1 + 2 * 4)
    queue.finish()
    assert queue.empty


def test_host_functions_of_graphs_are_no_more_than_a_channel_takes(device, kernels):
    """However much other queues lend. The driver's call would block with the queue locked, for which a function may
    wait: so the launch waits first.
    """
    queue, x = device.queue(blocking=False), device.empty(64, "u4")
    go, called = threading.Event(), []
    with queue.capture() as graph:
        queue.launch(kernels["advance"], 4, 16, x, 1)
        queue.host(lambda: (go.wait(SECONDS), called.append(queue.query())))
        queue.launch(kernels["advance"], 4, 16, x, 1)
    with beside(lambda: [graph.launch(queue) for _ in range(60)]) as (thread,):
        before = -1
        while thread.is_alive() and queue.epoch != before:  # until it waits
            before = queue.epoch
            time.sleep(0.05)  # nothing tells that a thread waits for room; too early, and the test shows less
        assert thread.is_alive()
        go.set()
    queue.finish()
    assert len(called) == 60


def test_a_graph_of_many_host_functions_waits_until_there_is_room_for_all(device, kernels):
    """Or the driver's call blocks with the queue locked, and the function before it asks for the queue."""
    queue, x = device.queue(blocking=False), device.empty(64, "u4")
    go, called = threading.Event(), []
    with queue.capture() as graph:
        for _ in range(50):
            queue.host(lambda: called.append(queue.query()))
    graph.launch(queue)
    queue.finish()
    queue.host(lambda: (go.wait(SECONDS), called.append(queue.query())))
    for _ in range(150):
        queue.launch(kernels["advance"], 4, 16, x, 1)
    with beside(lambda: graph.launch(queue)):
        time.sleep(0.2)  # nothing tells that a thread waits for room; too early, and the test shows less
        go.set()
    queue.finish()
    assert len(called) == 101


@pytest.mark.parametrize("used", ["never", "never asked for", "never asked for by a private Device"])
def test_many_streams_that_are_idle_take_no_room(device, kernels, idle_queues, used):
    """Each has little of its channel then; but a host function may go on only when more is submitted behind it."""
    with contextlib.ExitStack() as stack:
        owner = stack.enter_context(fb.Device(device.name, private=True)) if "private" in used else device
        other = owner.empty(64, "u4")
        for each in idle_queues(owner):
            if used != "never":
                each.fill(other, 1)
        queue, x, go, graph = device.queue(blocking=False), device.empty(64, "u4"), threading.Event(), device.graph()
        graph.add_host(lambda: go.wait(SECONDS))
        graph.add_kernel(kernels["advance"], 4, 16, x, 1)

        def submit():
            for _ in range(2):
                graph.launch(queue)
            for _ in range(100):
                queue.launch(kernels["advance"], 4, 16, x, 1)

        done = in_a_thread(submit)
        in_time = done(SECONDS / 2)
        go.set()
        queue.finish()
        assert in_time


def test_what_a_private_device_has_in_flight_takes_room(device, kernels, idle):
    """It has streams of the same channels. Who gives the driver more than they take would block, with a queue locked
    that a host function may want.
    """
    go, x = threading.Event(), device.empty(64, "u4")
    queue = device.queue(blocking=False)
    with fb.Device(device.name, private=True) as private:
        assert private.driver.keeps_gil_below < 30
        other, y = [private.queue(blocking=False) for _ in range(2)], private.empty(64, "u4")
        gates = [each.gate() for each in other]
        for each in other:  # all that is to be lent
            for _ in range(500):
                each.fill(y, 1)
        queue.host(lambda: go.wait(SECONDS))
        submitted = queue.epoch
        done = in_a_thread(lambda: [queue.launch(kernels["advance"], 4, 16, x, 1) for _ in range(100)])
        in_time = done(1)
        submitted = queue.epoch - submitted
        go.set()
        for gate in gates:
            gate.open()
        assert done(SECONDS)
    queue.finish()
    assert not in_time
    assert submitted < 40


def test_one_queue_borrows_three_quarters_of_what_is_shared(device, kernels, idle):
    """Others that are behind host functions need the rest."""
    queue, x, go = device.queue(blocking=False), device.empty(64, "u4"), threading.Event()
    queue.host(lambda: go.wait(SECONDS))
    before = queue.epoch
    done = in_a_thread(lambda: [queue.launch(kernels["advance"], 4, 16, x, 1) for _ in range(2000)])
    in_time = done(1)
    submitted = queue.epoch - before
    go.set()
    queue.finish()
    assert done(SECONDS)
    assert not in_time
    assert submitted <= device.driver.shared_room * 3 // 4 + device.driver.keeps_gil_below


def test_what_is_lent_is_given_back_by_who_needs_it_no_more(device, kernels, idle):
    """Though nobody has asked whether they are done; and by those that end."""
    x = device.empty(64, "u4")
    room = device.driver.keeps_gil_below
    for turn in range(3):
        for each in idle[20 * turn : 20 * turn + 20]:  # they borrow all there is
            for _ in range(10 * room):
                each.launch(kernels["advance"], 4, 16, x, 1)
            if turn == 1:
                each.close()
        queue, go = device.queue(blocking=False), threading.Event()
        queue.host(lambda go=go: go.wait(SECONDS))
        done = in_a_thread(lambda queue=queue: [queue.launch(kernels["advance"], 4, 16, x, 1) for _ in range(5 * room)])
        in_time = done(SECONDS / 2)
        go.set()
        queue.finish()
        assert in_time


@pytest.mark.parametrize("what", ["a wait", "a step"])
def test_who_is_asked_whether_it_needs_what_is_lent_may_have_more_than_the_driver_knows(device, kernels, idle, what):
    """It is not done then, though the driver has nothing of it."""
    x = device.empty(64, "u4")
    room, held = device.driver.keeps_gil_below, device.queue(blocking=False)
    asked, *others = idle[:20]
    step = asked.step()
    for _ in range(3):
        with step:
            asked.launch(kernels["advance"], 4, 16, x, 1)
    for _ in range(10 * room):  # it borrows
        asked.launch(kernels["advance"], 4, 16, x, 1)
    with held.gate():
        with contextlib.ExitStack() as stack:
            if what == "a wait":
                asked.wait(held)
            else:
                stack.enter_context(step)
                asked.launch(kernels["advance"], 4, 16, x, 1)
            for each in others:  # who finds nothing left has it asked
                for _ in range(10 * room):
                    each.launch(kernels["advance"], 4, 16, x, 1)
            assert not asked.empty
        assert asked.query() is (what == "a step")
    device.finish()


CROWDED = """
from tests.drivers.cuda import standing_in
standing_in.begin()
import forebay as fb
from tests.observers.internals import room_of
device = fb.Device("cuda")
kernel, x = device.program("kernel void use(global int *x) {}")["use"], device.empty(64, "i4")
held, other = device.queue(blocking=False), device.queue(blocking=False)
assert room_of(other) == device.driver.keeps_gil_below == 255
gate = held.gate()
for _ in range(2000):
    held.launch(kernel, 4, 16, x)
more = [device.queue(blocking=False) for _ in range(200)]
assert room_of(other) == room_of(more[0]) == 1
gate.open()
device.finish()
for _ in range(100):
    other.launch(kernel, 4, 16, x)
assert room_of(held) == room_of(more[0]) == device.driver.keeps_gil_below == 255 // 7
assert room_of(other) > 255 // 7
"""


def test_queues_that_have_more_than_is_left_for_them_leave_the_others_little_until_they_are_done():
    """They were given it when there were fewer queues. In a process of its own, which has only these."""
    processes.output_of("-c", CROWDED, CUDA_DEVICE_MAX_CONNECTIONS="32")


@pytest.mark.long
def test_no_channel_gets_more_than_it_takes_while_the_interpreter_is_locked(device, kernels):
    """The driver would block then, and maybe until another thread of Python goes on. The stand-in counts that as a
    wrong call. However many streams there are, with two Devices, and whoever borrows.
    """
    x, rest, rng = device.empty(64, "u4"), [], random.Random(0)
    with fb.Device(device.name, private=True) as private, contextlib.ExitStack() as gates:
        y, own = private.empty(64, "u4"), private.program("kernel void advance(global uint *x, uint n) {}")["advance"]
        held = [(device.queue(blocking=False), kernels["advance"], x) for _ in range(10)]
        held += [(private.queue(blocking=False), own, y) for _ in range(10)]
        # The driver keeps memory for as many streams as there were: one more would wait until no gate is closed.
        for queue in [each.queue(blocking=False) for each in (device, private) for _ in range(1000)]:
            queue.close()
        device.finish()
        for queue, _, _ in held:
            gates.enter_context(queue.gate())
        for _ in range(30):
            rest += [rng.choice((device, private)).queue(blocking=False) for _ in range(rng.randrange(60))]
            for _ in range(100):
                queue, kernel, memory = rng.choice(held)
                for _ in range(rng.choice((1, 10, 100))):
                    queue.launch(kernel, 4, 16, memory, 1)
        same = [queue for queue in rest[:500] if queue.device is device]
        for queue in same:
            queue.wait(held[0][0])
            for _ in range(40):
                queue.launch(kernels["advance"], 4, 16, x, 1)
    device.finish()
    for queue in rest:
        queue.close()


def test_whoever_never_waits_has_the_queue_asked_now_and_then(device, kernels):
    """Else it would count as full from some command on, though the device keeps up, and each launch take longer."""
    queue, x = device.queue(blocking=False), device.empty(64, "u4")
    device.finish()
    before = standin.there_are()["queries"]
    for _ in range(5000):
        queue.launch(kernels["advance"], 4, 16, x, 1)
    asked = standin.there_are()["queries"] - before
    # How much it takes depends on how many other queues there are.
    assert 4 <= queue.stats.markers_made <= asked + 1 <= 200
    queue.finish()


def test_a_finish_asks_no_more_when_another_thread_wants_the_queue(device, kernels, calls):
    """It asks up to 64 times with the queue locked, which could be as many microseconds."""
    queue, x = device.queue(blocking=False), device.empty(64, "u4")
    gate = queue.gate()
    calls.driver.pause("cuStreamQuery")
    finished = in_a_thread(queue.finish)
    calls.driver.wait_until_paused()
    launched = in_a_thread(lambda: queue.launch(kernels["advance"], 4, 16, x, 1))
    assert until(lambda: is_wanted(queue))
    before = standin.there_are()["stream_queries"]
    calls.driver.go_on()
    assert launched(SECONDS)
    asked = standin.there_are()["stream_queries"] - before
    gate.open()
    assert finished(SECONDS)
    assert asked == 0


def test_groups_at_once_are_what_the_driver_says(device, kernels):
    """A grid whose groups wait for each other would never end with one more."""
    kernel = kernels["advance"]
    units = device.info.compute_units
    assert kernel.groups_at_once(1024) == kernel.groups_at_once((32, 32)) == 2 * units
    assert kernel.groups_at_once(32) == 32 * units
    assert kernel.groups_at_once(32, 50_000) == 4 * units
    assert kernel.groups_at_once(32, local_bytes=100_000) == 2 * units
    with pytest.raises(fb.InvalidArgumentError, match="local_bytes"):
        kernel.groups_at_once(32, -1)
