"""What `zeros` and `array` write comes before every use of the buffer, on any queue, without the program's help."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.features import GRID, LARGEST, SIZE, Scene

MAKE = {
    "zeros": (lambda device: device.zeros(SIZE, "u4"), 0),
    "array": (lambda device: device.array(np.full(SIZE, 7, "u4")), 7),
}


class Held(Scene):
    """A Scene whose `x` is made on a queue that is held. What else its commands use is made on another one."""

    def __init__(self, creator, how, program):
        self.device, self.program = creator.device, program
        self.x, self.value = made_on(creator, how)

    def filled(self, value):
        with self.device.queue(blocking=False) as queue:
            buffer = self.device.array(np.full(SIZE, value, "u4"))
            queue.finish()
        return buffer


def waits(queue):
    """Whether the queue is still held after the time in which it would have done its work."""
    try:
        queue.finish(timeout=0.03)
    except fb.TimeoutError:
        return True
    return False


@pytest.fixture(params=["null", "non-blocking"])
def creator(request, device):
    """A queue that makes memory."""
    return device.null_queue if request.param == "null" else device.queue(blocking=False)


def made_on(creator, how):
    make, value = MAKE[how]
    if creator.device.null_queue is creator:
        return make(creator.device), value
    with creator:
        return make(creator.device), value


@pytest.mark.parametrize("how", MAKE)
def test_a_command_comes_after_the_creation_of_what_it_uses(device, hold, kernels, feature, creator, how, holds):
    feature.make(Scene(device, kernels))(device.null_queue, 1)  # what a driver cannot build while a queue is held
    device.finish()
    gate = hold(creator)
    scene = Held(creator, how, kernels)
    command, queue = feature.make(scene), device.queue(blocking=False)
    command(queue, 3)
    waited = waits(queue)
    gate.open()
    command(queue, 2)
    device.finish()
    assert holds(scene.x, command.after([3, 2], scene.value))
    assert waited or feature.untouched


@pytest.mark.parametrize("what", ["launch", "graph", "step"])
def test_so_does_a_command_that_was_submitted_with_other_memory_before(device, hold, kernels, creator, what, holds):
    """What remembers which arguments it was given last."""
    queue, old, kernel = device.queue(blocking=False), device.array(np.full(SIZE, 1, "u4")), kernels["advance"]
    graph = device.graph()
    node = graph.add_kernel(kernel, *GRID, old, 1)
    executable, step = graph.instantiate(), queue.step()

    def submit(x):
        if what == "launch":
            queue.launch(kernel, *GRID, x, 1)
        elif what == "graph":
            executable.set_kernel(node, kernel, *GRID, x, 1)
            executable.launch(queue)
        else:
            with step:
                queue.launch(kernel, *GRID, old, 1)
                queue.launch(kernel, *GRID, x, 1)

    for _ in range(4):
        submit(old)
    device.finish()
    gate = hold(creator)
    x, value = made_on(creator, "array")
    submit(x)
    waited = waits(queue)
    gate.open()
    device.finish()
    assert waited
    assert holds(x, value * 3 + 1)


@pytest.mark.parametrize("place", ["capture", "bound in a capture", "step", "another Device"])
def test_where_a_command_goes_elsewhere_first(device, hold, kernels, creator, place, holds):
    """A launch of a graph comes after the creation of what was captured; so do a step, and a copy to another Device."""
    kernel, queue, gate = kernels["advance"], device.queue(blocking=False), hold(creator)
    x, value = made_on(creator, "array")
    value = value * 3 + 1
    if place == "another Device":
        with fb.Device(device.name, private=True) as other:
            queue, to = other.queue(blocking=False), other.empty(SIZE, "u4")
            queue.copy(to, x)
            waited = waits(queue)
            gate.open()
            queue.finish()
            assert holds(to, 7)
        assert waited
        return
    if place == "capture":
        with queue.capture() as graph:
            bound = kernel.bind(queue, *GRID, x, 1)
            bound()
        graph.launch(queue)
        bound()
        value = value * 3 + 1
    elif place == "bound in a capture":  # the queue can wait for nothing then
        with queue.capture():
            bound = kernel.bind(queue, *GRID, x, 1)
        bound()
    else:
        with queue.step():
            queue.launch(kernel, *GRID, x, 1)
    waited = waits(queue)
    gate.open()
    device.finish()
    assert waited
    assert holds(x, value)


def test_the_result_of_a_reduction_comes_before_its_uses(device, hold, kernels, holds):
    creator, queue = (device.queue(blocking=False) for _ in range(2))
    x, out = device.array(np.arange(SIZE, dtype="u4")), device.empty(SIZE, "u4")
    LARGEST(x, queue=creator)  # what a driver cannot build while a queue is held
    device.finish()
    gate = hold(creator)
    largest = LARGEST(x, queue=creator)
    queue.copy(out[:1], largest.reshape(1))
    waited = waits(queue)
    gate.open()
    device.finish()
    assert waited
    assert holds(out[:1], SIZE - 1)


def test_memory_that_another_queue_frees_goes_on_after_it(device, hold, holds):
    creator, queue = (device.queue(blocking=False) for _ in range(2))
    x = device.array(np.arange(SIZE, dtype="u4"))
    LARGEST(x, queue=creator)
    device.finish()
    gate = hold(creator)
    queue.free(LARGEST(x, queue=creator))
    place = queue.alloc(1, "u4")
    queue.fill(place, 5)
    waited = waits(queue)
    gate.open()
    device.finish()
    assert waited
    assert holds(place, 5)


def test_bytes_by_value_are_uploaded_after_the_wait(device, calls, hold, kernels):
    """Or another launch would overwrite them meanwhile."""
    creator, queue, block = device.queue(blocking=False), device.queue(blocking=False), np.ones(300, "u4")
    queue.launch(kernels["gather"], *GRID, device.zeros(SIZE, "u4"), block, 300)
    device.finish()
    gate, first = hold(creator), len(calls)
    x, _ = made_on(creator, "zeros")
    queue.launch(kernels["gather"], *GRID, x, fb.by_value(2 * block), 300)
    since, own = calls.since(first), calls.handle_of(queue)
    gate.open()
    device.finish()
    assert sum(calls.kind(call) == "command" and call.object == own for call in since) == 2
    assert [calls.kind(call) for call in since].index("marker") < [call.object for call in since].index(own)


def test_it_waits_for_the_creation_and_for_no_gate_after_it(device, hold, kernels):
    """Nor for a host function."""
    creator, queue = (device.queue(blocking=False) for _ in range(2))
    x, _ = made_on(creator, "zeros")
    gate = hold(creator)
    queue.launch(kernels["advance"], *GRID, x, 1)
    queue.finish()
    gate.open()


def test_once_ordered_it_waits_no_more(device, hold, kernels):
    """Nor where the rules of the null queue order it, nor when the creation is known to be done."""
    creator, queue, blocking = device.queue(blocking=False), device.queue(blocking=False), device.queue()
    kernel, gate = kernels["advance"], hold(creator)
    x, _ = made_on(creator, "zeros")
    for _ in range(3):
        queue.launch(kernel, *GRID, x, 1)
        queue.fill(x, 2)
        creator.launch(kernel, *GRID, x, 1)
    made = queue.stats.waits_made, creator.stats.waits_made
    gate.open()
    device.finish()
    y, _ = made_on(creator, "zeros")
    creator.finish()
    queue.launch(kernel, *GRID, y, 1)
    z, _ = made_on(device.null_queue, "zeros")
    blocking.launch(kernel, *GRID, z, 1)
    with creator:
        creator.fill(x, 1)
        queue.launch(kernels["combine"], *GRID, y, device.array(np.empty(0, "u4")), 1)
    assert made == (1, 0)
    assert queue.stats.waits_made == 1
    assert blocking.stats.waits_made <= 1
    device.finish()


def test_it_is_no_race(device):
    """A checked Device knows the order. What comes after it is ordered by the program, as ever."""
    with fb.Device(device.name, private=True, check="races,error") as checked:
        kernel = checked.program("kernel void advance(global uint *x, uint k) { x[get_global_id(0)] += k; }")["advance"]
        creator, queue = (checked.queue(blocking=False) for _ in range(2))
        for how in MAKE:
            before = checked.empty(SIZE, "u4")
            creator.fill(before, 1)
            x, _ = made_on(creator, how)
            queue.launch(kernel, *GRID, x, 1)
            queue.launch(kernel, *GRID, before, 1)
            with pytest.raises(fb.RaceError):
                creator.fill(x, 1)
        checked.finish()
