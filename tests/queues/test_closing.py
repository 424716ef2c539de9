"""A Device that is closed while other threads use it: what came before is waited for, what comes after is refused."""

from __future__ import annotations

import gc
import threading

import pytest

import forebay as fb
from tests.helpers.observer import observe
from tests.helpers.turns import turns
from tests.inside import context_of
from tests.observers.internals import sharers_of

SOURCE = "kernel void f(global int *x) { x[get_global_id(0)] = 1; }"
TURNS = 12


class Uses:
    """What a thread does over and over until the Device is closed."""

    def __init__(self, device):
        self.queue, self.buffer = device.queue(), device.empty(64, "i4")
        self.kernel, self.step = device.program(SOURCE)["f"], self.queue.step()
        with self.queue.capture() as graph:
            self.queue.fill(self.buffer, 2)
        self.graph = graph.instantiate()
        self.other, self.pinned = device.queue(), fb.host_empty(64, "i4", device=device)

    def launch(self):
        self.queue.launch(self.kernel, 1, 64, self.buffer)

    def bound(self):
        self.kernel.bind(self.queue, 1, 64, self.buffer)()

    def steps(self):
        with self.step:
            self.launch()
            self.launch()

    def mixed(self):
        self.steps()
        self.bound()
        self.queue.fill(self.buffer, 3)
        self.queue.record()

    def graphs(self):
        self.graph.launch(self.queue)

    def copies(self):
        self.queue.copy(self.buffer, self.pinned)
        self.queue.copy(self.pinned, self.buffer)

    def events(self):
        self.launch()
        self.other.wait(self.queue.record())
        self.other.launch(self.kernel, 1, 64, self.buffer)
        self.queue.wait(self.other)


USES = ["launch", "bound", "steps", "mixed", "graphs", "copies", "events"]


def close_meanwhile(device, what):
    """Close a Device like this one while a thread uses it. Returns its queue and what the thread has raised."""
    other, raised = fb.Device(device.name, private=True), []
    uses, under_way = Uses(other), threading.Event()

    def work():
        try:
            while True:
                getattr(uses, what)()
                if uses.queue.epoch > 20:
                    under_way.set()
        except BaseException as error:
            raised.append(error)
        under_way.set()

    working = threading.Thread(target=work)
    working.start()
    under_way.wait()
    other.close()
    working.join()
    return uses.queue, raised


@pytest.mark.threads
@pytest.mark.parametrize("what", USES)
def test_nothing_is_under_way_when_it_is_closed(device, what):
    for _ in turns(TURNS):
        queue, raised = close_meanwhile(device, what)
        assert [type(error) for error in raised] == [fb.ClosedError]
        assert queue.completed == queue.epoch


@pytest.mark.threads
@pytest.mark.parametrize("what", USES)
def test_nothing_of_it_is_left(device, what):
    with observe(device) as calls:
        for _ in turns(TURNS):
            queue, _ = close_meanwhile(device, what)
            first, handle = len(calls), calls.handle_of(queue)
            del queue, _
            gc.collect()
            assert handle in {call.object for call in calls.since(first) if call.name == calls.driver.RELEASE_QUEUE}


@pytest.mark.threads
@pytest.mark.executes(run=False)  # null hardware waits for no gate
@pytest.mark.parametrize("dropped", [False, True])
def test_copies_of_pinned_memory_that_wait_for_a_gate(device, pins_of, dropped):
    """Closing waits for them, whether or not the program still has the memory."""
    other = fb.Device(device.name, private=True)
    pins, queue = pins_of(other), other.queue()
    buffer = other.zeros(64, "i4")
    source, result = (fb.host_empty(64, "i4", device=other) for _ in range(2))
    source[:] = 5
    gate = queue.gate()
    queue.copy(buffer, source)
    queue.copy(result, buffer)
    if dropped:
        del source, result
        gc.collect()
    closing = threading.Thread(target=other.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    assert pins() == 2
    gate.open()
    closing.join()
    assert queue.completed == queue.epoch
    assert pins() == 0 if dropped else result.tolist() == [5] * 64


class Watched(fb.Device):
    """A Device that calls ``meanwhile`` when `close` has waited, and is not closed yet."""

    meanwhile = None

    def _finish(self, *arguments, **named):
        super()._finish(*arguments, **named)
        if self.meanwhile is not None and not self.closed:
            self.meanwhile()


@pytest.mark.parametrize("on", ["queue", "null queue"])
def test_a_command_after_it_has_waited_and_before_it_decides(device, on):
    other = Watched(device.name, private=True)
    uses = Uses(other)
    queue, buffer = uses.queue if on == "queue" else other.null_queue, uses.buffer
    other.meanwhile = lambda: queue.fill(buffer, 1)  # not `uses`: an array in a cycle with its Device is for good
    other.close()
    assert queue.epoch > 0
    assert queue.completed == queue.epoch
    with pytest.raises(fb.ClosedError):
        queue.fill(buffer, 1)


def test_a_queue_that_is_made_meanwhile(device, monkeypatch):
    other = fb.Device(device.name, private=True)
    make, made = other.driver.create_queue, []

    def create_queue(*arguments):
        made.append(make(*arguments))
        other.close()
        return made[-1]

    monkeypatch.setattr(other.driver, "create_queue", create_queue)
    with pytest.raises(fb.ClosedError):
        other.queue()
    assert len(made) == 1


@pytest.mark.threads
def test_two_threads_close_it(device):
    """Were each to count it as gone, the null queue would be closed while others still share it."""
    other, both = Watched(device.name), threading.Barrier(2)
    before = sharers_of(context_of(other))
    other.meanwhile = both.wait
    closing = [threading.Thread(target=other.close) for _ in range(2)]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join()
    assert sharers_of(context_of(other)) == before - 1
