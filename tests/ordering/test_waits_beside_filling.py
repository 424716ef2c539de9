"""Waits of the host end beside threads that go on submitting, to the same queue or to others.

With FOREBAY_TURNS set, each cell runs as many turns and prints how late its waits returned: see docs/reliability.md.
"""

import collections
import itertools
import os
import statistics
import threading
import time

import pytest

import forebay as fb
from tests.helpers.threads import beside
from tests.observers.internals import in_flight_is_limited, room_of

TURNS = int(os.environ.get("FOREBAY_TURNS", 0))
GUARD = int(os.environ.get("GUARD", 20))  # seconds: a wait that lasts longer, once all is done, hangs
MOST_IN_FLIGHT = 512  # of a queue under the limit, where its commands were fast before
SOURCE = """
kernel void work(global float *x, int n) {
    float v = x[get_global_id(0)];
    for (int i = 0; i < n; i++) v = v * 1.0001f + 1.0f;
    x[get_global_id(0)] = v;
}
"""
pytestmark = [pytest.mark.threads, pytest.mark.timeout(600)]


class Scene:
    """A queue that this thread waits for, and threads that fill it or others."""

    def __init__(self, device, threads, place, ahead, iterations):
        self.device, self.ahead, self.iterations = device, ahead, iterations
        self.work = device.program(SOURCE)["work"]
        self.queue, self.x = device.queue(blocking=False), device.zeros(256, "f4")
        self.out = fb.host_empty(256, "f4", device=device)
        other = device.queue(blocking=False)
        self.filled = [
            (
                self.queue if place == "same" else other if place == "other" else device.queue(blocking=False),
                device.zeros(256, "f4"),
            )
            for _ in range(threads)
        ]
        if place == "graphs":
            self.filled = [(queue, (self.graph_of(memory), memory)) for queue, memory in self.filled]
        self.ends, self.turns, self.raised, self.running = False, 0, None, []
        self.drains = device.finish
        device.finish()

    def graph_of(self, memory):
        graph = self.device.graph()
        graph.add_kernel(self.work, 4, 64, memory, self.iterations)
        return graph.instantiate()

    def fill(self, queue, memory):
        points = collections.deque()
        try:
            while not self.ends:
                if type(memory) is tuple:
                    memory[0].launch(queue)
                else:
                    queue.launch(self.work, 4, 64, memory, self.iterations)
                self.turns += 1
                if self.ahead and self.turns % 50 == 0:
                    points.append(queue.record())
                    while len(points) > self.ahead // 50 and not self.ends:
                        if points[0].query():
                            points.popleft()
                        else:
                            time.sleep(0)
        except BaseException as error:
            self.raised = error

    def begin(self):
        self.ends, self.turns = False, 0
        self.running = [threading.Thread(target=self.fill, args=filled) for filled in self.filled]
        for thread in self.running:
            thread.start()

    def end(self):
        self.ends = True
        for thread in self.running:
            thread.join()
        self.drains()
        assert self.raised is None

    def turn(self, wait, late):
        """Wait once. Return how many milliseconds after its point the wait returned, and how many it took in all.

        None: it hung, or took as long.
        """
        if not late:
            self.begin()
            while self.turns < 60 and self.raised is None:
                time.sleep(0)
        for _ in range(300 if late else 20):
            self.queue.launch(self.work, 4, 64, self.x, 2000 if late else 200)
        if wait == "copy":
            self.queue.copy(self.out, self.x)
        points, begun, returned, reached, hung = [], threading.Event(), threading.Event(), [], []

        def watch():
            begun.wait()
            if late:
                time.sleep(0.002)  # what is submitted before the wait has taken its point is waited for as well
                self.begin()
            end = time.perf_counter() + 5 * GUARD  # other threads may have submitted much when the wait began
            while not returned.wait(0.001):
                if not reached and all(point.query() for point in points):
                    reached.append(time.perf_counter())
                    end = reached[0] + GUARD
                if time.perf_counter() > end:
                    hung.append(True)
                    self.ends = True  # so that the test fails, and does not hang itself

        with beside(watch):
            start = time.perf_counter()
            points += [queue.record() for queue, _ in self.filled if wait == "device"]
            points.append(self.queue.record())  # last: what others submit until the wait has its own counts as well
            begun.set()
            WAITS[wait](self, points[-1])
            end = time.perf_counter()
            returned.set()
        self.end()
        return None if hung else (1e3 * (end - min([*reached, end])), 1e3 * (end - start))


def wait_for_another(scene, point):
    after = scene.device.queue(blocking=False)
    after.wait(scene.queue)
    after.finish()


WAITS = {
    "finish": lambda scene, point: scene.queue.finish(),
    "event": lambda scene, point: point.wait(),
    "get": lambda scene, point: scene.x.get(queue=scene.queue),
    "copy": lambda scene, point: scene.queue.finish(),
    "device": lambda scene, point: scene.device.finish(),
    "a queue after it": wait_for_another,
    "pinned memory": lambda scene, point: fb.host_empty(1 << 20, "f4", device=scene.device),
}
LONG = [pytest.mark.long, pytest.mark.needs("waits that starve")]
SHORT = [
    (1, "same", None, 200, False), (2, "other", None, 200, False), (2, "same", 1000, 5000, True),
    (4, "graphs", None, 200, False),
]  # fmt: skip
FILLINGS = [  # threads, where they submit, how many commands ahead, iterations, whether they begin while the wait is on
    *itertools.product((1, 2, 4), ("same", "other"), (1000, None), (200,), (False,)),
    *itertools.product((2, 4), ("others",), (1000, None), (200,), (False,)),
    *itertools.product((1, 2, 4), ("same", "other"), (None,), (200,), (True,)),
    *itertools.product((2,), ("same", "other"), (1000,), (5000,), (False, True)),
    (4, "graphs", None, 200, False),
]


@pytest.mark.parametrize(
    "filling",
    [pytest.param(each, marks=() if each in SHORT else LONG) for each in FILLINGS],
    ids=lambda filling: "-".join(map(str, filling)),
)
@pytest.mark.parametrize("wait", WAITS)
def test_it_ends(device, wait, filling):
    *where, late = filling
    scene = Scene(device, *where)
    turns = [scene.turn(wait, late) for _ in range(TURNS or 3)]
    assert None not in turns
    for name, each in zip(("late", "in all"), zip(*turns, strict=True), strict=True) if TURNS else ():
        print(f"\n{wait}, {filling}, {name}: median {statistics.median(each):.1f} ms, {max(each):.0f} ms at most")


@pytest.mark.needs("waits that starve")
@pytest.mark.parametrize(("threads", "place"), [(2, "same"), (4, "others")])
def test_it_ends_beside_long_commands(device, threads, place):
    """Where threads are kept to half a second of work each, a wait ends although that never runs out."""
    scene = Scene(device, threads, place, 150, 20000)
    assert None not in [scene.turn("finish", False) for _ in range(3)]


@pytest.mark.needs("waits that starve")
def test_the_limit_lasts_while_it_is_what_stops_the_threads(device):
    """They submit nothing for seconds then. The wait is for what is in flight when it begins, and for little more."""
    scene = Scene(device, 2, "same", 150, 80000)
    scene.begin()
    while scene.queue.epoch - scene.queue.completed < 250:
        time.sleep(0)
    begun = scene.queue.epoch
    scene.queue.finish()
    assert scene.queue.completed - begun < 250
    scene.end()


@pytest.mark.parametrize("by", ["gate", pytest.param("host function", marks=pytest.mark.executes)])
def test_it_ends_while_something_else_is_held(device, hold, by):
    """A queue that has nothing to do with the wait, nor with what the threads submit."""
    scene = Scene(device, 4, "others", None, 200)
    release = (hold_by_gate if by == "gate" else hold_by_host_function)(hold, device.queue(blocking=False))
    scene.drains = lambda: [queue.finish() for queue, _ in scene.filled]
    turns = [scene.turn("finish", False) for _ in range(3)]
    release()
    device.finish()
    assert None not in turns


def hold_by_gate(hold, queue):
    return hold(queue).open


def hold_by_host_function(hold, queue):
    go = threading.Event()
    queue.host(go.wait)
    return go.set


def hold_by_user_event(hold, queue):
    """Nothing tells forebay that the queue is held."""
    import pyopencl as cl

    context = queue.device.null_queue.native.context
    native, event = cl.CommandQueue(context), cl.UserEvent(context)
    cl.enqueue_barrier(native, wait_for=[event])
    queue.wait(queue.device.adopt_queue(native))
    return lambda: event.set_status(cl.command_execution_status.COMPLETE)


@pytest.mark.parametrize("hold_by", [
    hold_by_gate,
    # a GPU's queue takes some hundreds of commands while a host function has not returned: see docs/concepts.md
    pytest.param(hold_by_host_function, marks=[pytest.mark.executes, pytest.mark.needs("waits that starve")]),
    pytest.param(hold_by_user_event, marks=pytest.mark.needs("OpenCL")),
])  # fmt: skip
def test_a_thread_that_a_wait_depends_on_goes_on(device, hold, hold_by):
    """It submits hundreds of commands first, more than others may have in flight beside a wait."""
    queue = device.queue(blocking=False)
    work, x = device.program(SOURCE)["work"], device.zeros(256, "f4")
    let_go = hold_by(hold, queue)
    with beside(queue.finish) as (waiting,):
        for _ in range(8):
            for _ in range(100):
                queue.launch(work, 4, 64, x, 200)
            time.sleep(0.005)
        assert waiting.is_alive()
        let_go()


@pytest.mark.needs("OpenCL", "waits that starve")
def test_a_thread_gives_way_once_at_each_queue_that_is_held(device, calls, hold):
    """While it does, it asks the driver how far the queue is."""
    held, work, x = [device.queue() for _ in range(3)], device.program(SOURCE)["work"], device.zeros(256, "f4")
    device.finish()
    gates = [hold(queue) for queue in held]
    with beside(held[0].finish):
        free = device.queue(blocking=False)
        assert until(in_flight_is_limited, lambda: free.launch(work, 4, 64, x, 200))
        first = len(calls)
        for _ in range(60):
            for queue in held:
                queue.launch(work, 4, 64, x, 200)
        asked = calls.count(calls.driver.QUERY, first)
        for gate in gates:
            gate.open()
    assert asked < 10_000


@pytest.mark.needs("OpenCL", "waits that starve")
def test_a_thread_whose_queue_stands_still_goes_on_slowly(device, calls, hold):
    """It looks before each command how far the queue is, where no gate says why it stands still."""
    queue, work, x = device.queue(), device.program(SOURCE)["work"], device.zeros(256, "f4")
    device.finish()
    let_go = hold_by_user_event(hold, queue)
    with beside(queue.finish):
        assert until(in_flight_is_limited, lambda: queue.launch(work, 4, 64, x, 0))
        for count in (MOST_IN_FLIGHT, 100):  # the first that finds the limit reached waits for longer
            first = len(calls)
            for _ in range(count):
                queue.launch(work, 4, 64, x, 0)
        asked = calls.count(calls.driver.QUERY, first)
        let_go()
    assert asked >= 100


@pytest.mark.needs("waits that starve")
def test_queues_take_few_commands_while_a_wait_lasts(device, hold):
    """Once other threads submit; also those of other contexts. They take any number again when no thread has waited."""
    assert until(lambda: not in_flight_is_limited(), lambda: time.sleep(0.01))  # by an earlier test
    queue, room = device.queue(), room_of(device.queue())
    work, x = device.program(SOURCE)["work"], device.zeros(256, "f4")
    with fb.Device(device.name, private=True) as other:
        held = other.queue()
        gate = hold(held)
        with beside(held.finish):
            submitting = until(lambda: 1 < room_of(queue) <= MOST_IN_FLIGHT, lambda: queue.launch(work, 4, 64, x, 200))
            draining = until(lambda: room_of(queue) == 1, lambda: queue.launch(work, 4, 64, x, 200))
            gate.open()
    assert submitting
    assert draining
    assert until(lambda: room_of(queue) == room, lambda: time.sleep(0.01))


def until(holds, action):
    end = time.monotonic() + GUARD
    while time.monotonic() < end:
        if holds():
            return True
        action()
    return False
