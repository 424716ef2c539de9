"""What other code does while a command or a wait is under way: a verdict does not depend on when it comes."""

import logging
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import forebay as fb
from forebay.events.event import wait_for_all
from forebay.races.checker import statistics
from tests.helpers.observer import observe
from tests.helpers.threads import together

SIZE = 64


class Scene:
    """Two queues, the first with work and an event, as this call of the driver needs it to be made without the GIL."""

    def __init__(self, device, way, name):
        self.device, self.x = device, device.empty(SIZE)
        self.a, self.b = device.queue(blocking="event" not in way), device.queue()
        self.gate = self.a.gate() if name == "MARKER" else None
        self.a.fill(device.empty(SIZE), 1)
        self.event = self.a.record()
        if name == "MARKER":
            device.null_queue.fill(device.empty(SIZE), 1)  # blocking ones have yet to come after it
        elif name == "QUERY":
            self.a.native.finish()  # so that one is enough


WAYS = {  # the driver's call, and what makes it; what another thread submits meanwhile does not come before its end
    "finish": ("WAIT", lambda scene: scene.a.finish()),
    "finish with a timeout": ("QUERY", lambda scene: scene.a.finish(timeout=60)),
    "query": ("QUERY", lambda scene: scene.a.query()),
    "finish of all": ("WAIT", lambda scene: scene.device.finish()),
    "record": ("MARKER", lambda scene: scene.b.wait(scene.a.record())),
    "wait for a queue": ("MARKER", lambda scene: scene.b.wait(scene.a)),
    "wait for an event": ("MARKER", lambda scene: scene.b.wait(scene.event)),
    "event": ("WAIT", lambda scene: scene.event.wait()),
    "event asked": ("QUERY", lambda scene: scene.event.query()),
    "events": ("WAIT", lambda scene: wait_for_all([scene.event])),
}


@pytest.mark.threads
@pytest.mark.needs("OpenCL")  # whose observer can stop a call
@pytest.mark.parametrize("way", WAYS)
def test_what_another_thread_submits_while_a_call_lasts_comes_later(device, found, way):
    name, use = WAYS[way]
    scene = Scene(device, way, name)

    def meanwhile():
        calls.driver.wait_until_paused()
        before = statistics()["uses"]
        filling.start()
        while statistics()["uses"] == before and filling.is_alive():  # it may need a lock that the call holds
            time.sleep(0.001)
        if "event" in way:
            filling.join()
            scene.a.record(scene.event)
        calls.driver.go_on()

    filling = threading.Thread(target=scene.a.fill, args=(scene.x, 1))
    with observe(device) as calls:
        calls.driver.pause(getattr(calls.driver, name))
        together(lambda: use(scene), meanwhile)
        filling.join()
    scene.b.fill(scene.x, 2)
    scene.gate = None
    device.finish()
    assert len(found()) == 1


@contextmanager
def while_reported(do):
    """Call ``do()`` where another thread could come: while a race is reported, before its command is submitted."""
    handler = logging.Handler()
    handler.emit = lambda record: do()
    logging.getLogger("forebay.races").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("forebay.races").removeHandler(handler)


@pytest.mark.executes
def test_a_node_that_is_changed_while_a_race_of_it_is_reported(device, found):
    """What is launched is what was judged."""
    a, b, c = (device.queue(blocking=False) for _ in range(3))
    memory, graph, raced = [device.zeros(SIZE) for _ in range(2)], device.graph(), []
    node = graph.add_fill(memory[0], 7)
    executable = graph.instantiate()
    device.finish()
    a.copy(np.empty(SIZE, "f4"), memory[0])
    with while_reported(lambda: executable.set_fill(node, memory[1], 7)):
        executable.launch(b)
    assert len(found()) == 1
    for each in memory:
        c.copy(np.empty(SIZE, "f4"), each)
        raced.append(len(found()) == 1)
    device.finish()
    assert raced == [each.get()[0] == 7 for each in memory] == [True, False]


def test_others_have_come_after_a_command_of_the_null_queue_that_is_refused(device, found):
    """A blocking queue that submits in between still comes after the null queue's next command."""
    null, blocking, other = device.null_queue, device.queue(), device.queue(blocking=False)
    x, y, z = (device.zeros(SIZE) for _ in range(3))
    device.finish()
    other.fill(y, 1)
    with while_reported(lambda: (blocking.fill(x, 1), y.close())), pytest.raises(fb.ClosedError):
        null.fill(y, 2)
    assert len(found()) == 1
    null.fill(z, 1)
    blocking.fill(z, 2)
    assert not found()
    device.finish()


def test_what_is_refused_is_not_noted_while_it_is_reported():
    """Another command meanwhile is ordered after all that was submitted."""
    with fb.Device(private=True, check="races,error") as device:
        a, b, c = (device.queue(blocking=False) for _ in range(3))
        x = device.empty(SIZE)
        a.fill(x, 1)
        with while_reported(lambda: (c.wait(a), c.fill(x, 3))), pytest.raises(fb.RaceError, match=r"b\.wait\(a\)"):
            b.fill(x, 2)
        assert c.epoch > 1
        assert len(device.races) == 1


def test_another_device_that_is_closed_has_waited_for_its_own_queues(device):
    """Both share the driver's context, and what is checked."""
    with fb.Device(device.name, check="races") as first, fb.Device(device.name, check="races") as second:
        (a, b), (mine, others) = (first.queue(blocking=False) for _ in range(2)), (first.empty(SIZE) for _ in range(2))
        a.fill(mine, 1)
        second.queue(blocking=False).fill(others, 1)
        second.close()
        b.fill(others, 2)
        assert len(first.races) == 0
        b.fill(mine, 2)
        assert len(first.races) == 1
        first.finish()


IN_PARTS = {"a graph": "OpenCL", "a download": "Level Zero"}  # elsewhere each is one call of the driver


@pytest.mark.parametrize("what", [pytest.param(what, marks=pytest.mark.needs(IN_PARTS[what])) for what in IN_PARTS])
def test_what_runs_although_its_call_has_raised(device, found, what):
    """The rest of it was refused, or the wait for it has failed."""
    a, b = (device.queue(blocking=False) for _ in range(2))
    x, graph = device.empty(SIZE), device.graph()
    graph.add_fill(device.empty(SIZE), 1, after=graph.add_copy(device.empty(SIZE), x))
    executable = graph.instantiate()
    device.finish()
    with observe(device) as calls:
        calls.fail(calls.name_of("FILL") if what == "a graph" else calls.driver.WAIT, calls.driver.FAILURE[0])
        with pytest.raises(fb.DriverError):
            executable.launch(a) if what == "a graph" else a.copy(np.empty(SIZE, "f4"), x)
    b.fill(x, 2)
    assert len(found()) == 1
    device.finish()
