"""What a command uses lives until it has run, whatever the program drops or closes, and no longer."""

import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from forebay.queues.memory.allocation import open_devices
from tests.helpers.features import SIZE, Function, Scene, each_feature, program_of
from tests.helpers.turns import turns

from .places import settled

WEAK = (fb.Queue, fb.Graph, fb.ExecutableGraph, Function)


def memory_pressure(device):
    """Memory that was given back too early is another buffer's now, and has other contents."""
    kept = [np.full(1 << 14, 0xAB, "u4") for _ in range(40)]
    for nbytes in (SIZE * 4, 4096):
        for _ in range(20):
            queue = device.queue(blocking=False)
            queue.fill(device.empty(nbytes, "u1"), 0xAB)
            queue.finish()
    return kept


@pytest.fixture
def own(device):
    """A Scene whose program is its own, so that it can be closed."""
    return Scene(device)


@pytest.mark.parametrize("how", ["drop", "drop a cycle", "close"])
def test_all_that_it_uses_goes_while_it_is_in_flight(device, calls, hold, own, feature, how, holds):
    command, x, queue = feature.make(own), own.x, device.queue(blocking=False)
    for k in (1, 2):
        command(queue, k)
        queue.finish()
    gate = hold(queue)
    for k in (3, 4):
        command(queue, k)
    expected = command.after(range(1, 5))
    if how == "close":
        command.close()
        queue.close()
    elif how == "drop a cycle":  # whose lists the collector empties first
        cycle = [own, command, queue]
        cycle.append(cycle)
        del cycle
    del own, command, queue
    gc.collect()
    kept = memory_pressure(device)
    gate.open()
    device.finish()
    assert holds(x, expected)
    assert all(array[0] == 0xAB for array in kept)


def test_a_step_in_a_cycle(device, calls, kernels, hold):
    """The collector empties the step's dict of queues before the step ends."""
    queue, other, x = device.queue(blocking=False), device.queue(blocking=False), device.zeros(SIZE, "u4")
    step = queue.step()
    for turn in range(3):
        gate = hold(queue) if turn == 2 else None
        with step:
            queue.launch(kernels["advance"], 4, 16, x, turn)
            other.wait(queue)
            other.launch(kernels["advance"], 4, 16, x, turn)
        if not gate:
            device.finish()
    cycle = [step]
    cycle.append(cycle)
    del step, cycle
    gc.collect()
    gate.open()
    device.finish()


def test_its_memory_is_handed_out_after_it(device, calls, hold, scene, feature, command):
    """Closed while it is in use, the memory of `x` gets no other owner before the command has run."""
    if feature.untouched:
        pytest.skip("it uses no memory")
    queue = device.queue(blocking=False)
    command(queue, 1)
    device.finish()
    gate, address = hold(queue), scene.x.address
    command(queue, 2)
    scene.x.close()
    assert all(device.empty(SIZE, "u4").address != address for _ in range(3))
    gate.open()
    queue.finish()
    device.finish()


@pytest.mark.parametrize("ending", ["finish", "event"])
def test_nothing_is_kept_of_it_when_it_is_done(device, calls, own, feature, ending):
    """Neither what it uses nor its queue, without the garbage collector."""
    command, queue = feature.make(own), device.queue(blocking=False)
    for k in (1, 2, 3):
        command(queue, k)
    queue.finish() if ending == "finish" else queue.record().wait()
    kept = [weakref.ref(each) for each in (queue, *command.uses) if type(each) in WEAK]
    gc.disable()
    try:
        del command, own, queue
        assert settled(device, lambda: not any(each() for each in kept)), [each() for each in kept]
    finally:
        gc.enable()


@pytest.mark.parametrize("how", ["close", "drop"])
def test_the_null_queue_comes_after_a_queue_that_is_gone(device, calls, log, hold, scene, command, how, holds):
    queue, null = device.queue(), device.null_queue
    command(queue, 1)
    device.finish()
    handle, gate, first = calls.handle_of(queue), hold(queue), len(log)
    command(queue, 2)
    middle = log.commands(first)
    if how == "close":
        queue.close()
        with pytest.raises(fb.ClosedError):
            command(queue, 3)
    else:
        del queue
        gc.collect()
    others = [device.queue() for _ in range(3)]  # which may be handed what is idle
    assert handle not in map(calls.handle_of, others)
    null.launch(scene.program["advance"], 4, 16, scene.x, 7)
    relation, last = log.relation(), log.commands(first, queues=[null])[-1]
    assert all(relation.comes_after(last, each) for each in middle)
    assert not null.query()
    assert handle not in [call.object for call in calls.log if call.name == calls.driver.RELEASE_QUEUE]
    gate.open()
    device.finish()
    assert holds(scene.x, command.after([1, 2]) * 3 + 7)


@pytest.mark.parametrize("feature", each_feature(lambda feature: not feature.recordings))
def test_a_closed_device_is_gone_when_it_is_dropped(device, watched, feature):
    """At once, without the garbage collector: a process may have few contexts of a driver."""
    other = fb.Device(device.name, private=True)
    scene = Scene(other, program_of(other))
    command, queue = feature.make(scene), other.queue()
    for k in (1, 2, 3):
        for each in (queue, other.null_queue, other.per_thread_queue):
            command(each, k)
    other.finish()
    gone = [weakref.ref(other), weakref.ref(other.driver)]
    gc.collect()
    gc.disable()
    try:
        other.close()
        if feature.hosts:
            device.null_queue.host(int)  # they run one after the other: those of the other device are over then
            device.finish()
        del other, scene, command, queue, each
        assert settled(device, lambda: not any(each() for each in gone), 500 if feature.hosts else 0)
    finally:
        gc.enable()


@pytest.mark.executes
@pytest.mark.parametrize("opens", [True, False])
def test_a_dropped_device_at_work_goes_when_it_is_done(device, calls, opens):
    """Also when its gate is dropped. Another Device that is opened or closed looks after it."""
    gc.collect()
    other = fb.Device(device.name, private=True)
    queue, buffer, first = other.queue(), other.zeros(SIZE, "i4"), len(calls)
    handles, held = {calls.handle_of(each) for each in (queue, other.null_queue)}, calls.handle_of(queue)
    gate = queue.gate()
    queue.fill(buffer, 1)
    del other, queue, buffer
    gc.collect()

    def left():
        fb.Device(device.name, private=True).close()
        return handles - {call.object for call in calls.since(first) if call.name == calls.driver.RELEASE_QUEUE}

    assert held in left()
    if opens:
        gate.open()
    del gate
    assert settled(device, lambda: not left())


def test_more_devices_than_a_driver_has_contexts(device, watched):
    """NVIDIA's makes about a hundred at once, and gave none back in which memory had been filled by its own command."""
    before = set(open_devices())
    for _ in turns(120, least=12, seconds=40):  # each takes it more than a second, beside other processes
        other = fb.Device(device.name, private=True)
        other.zeros(3)
        other.close()
    assert set(open_devices()) == before
