"""Programs that go on and on and never wait for the device: copies, records and waits keep nothing of each turn."""

import itertools

import numpy as np
import pytest

import forebay as fb
from tests.helpers.growth import MIB, growth

pytestmark = pytest.mark.needs("no validation layer")  # it remembers every call

LITTLE = 4 * MIB  # in 50,000 turns: 80 bytes each

COUNT = 64
ADD = fb.elementwise("uint32 x, uint32 a", "uint32 y", "y = x + a", name="add")
SUM = fb.reduction("uint32 x", "uint32 total", "x", "a + b", 0, name="sum_of")


class Program:
    def __init__(self, device, make_queue, kernels):
        self.queue, self.other = make_queue(), make_queue()
        self.buffer, self.second = device.zeros(COUNT, "u4"), device.zeros(COUNT, "u4")
        self.pinned = fb.host_empty(COUNT, "u4", device=device)
        self.kernel, self.event = kernels["advance"], device.event()
        graph = device.graph()
        self.nodes = [graph.add_kernel(self.kernel, 1, COUNT, self.buffer, k) for k in range(2)]
        self.executable, self.numbers = graph.instantiate(), itertools.count()
        many = device.zeros(1000, "u4")  # on a CPU two launches, with memory between them
        self.expressions_in_turn = itertools.cycle([
            lambda: ADD(self.buffer, 1, queue=self.queue), lambda: SUM(many, queue=self.queue)
        ])  # fmt: skip

    def is_done(self):
        return self.queue.query() and self.other.query()

    def launch(self):
        self.queue.launch(self.kernel, 1, COUNT, self.buffer, 1)

    def up(self):
        self.queue.copy(self.buffer, self.pinned)

    def down(self):
        self.queue.copy(self.pinned, self.buffer)

    def across(self):
        self.queue.copy(self.second, self.buffer)

    def part(self):
        self.queue.copy(self.buffer[1:9], self.pinned[1:9])

    def new_event(self):
        self.launch()
        self.queue.record()

    def one_event(self):
        self.launch()
        self.queue.record(self.event)

    def wait_for_queue(self):
        self.launch()
        self.other.wait(self.queue)
        self.other.launch(self.kernel, 1, COUNT, self.second, 1)

    def wait_for_event(self):
        self.launch()
        self.queue.record(self.event)
        self.other.wait(self.event)

    def wait_both_ways(self):
        self.up()
        self.other.wait(self.queue)
        self.other.copy(self.second, self.buffer)
        self.queue.wait(self.other)

    def one_node(self):
        number = next(self.numbers)
        self.executable.set_kernel(self.nodes[number % 2], self.kernel, 1, COUNT, self.buffer, number)
        self.executable.launch(self.queue)

    def numpy_numbers(self):
        self.queue.launch(self.kernel, 1, COUNT, self.buffer, np.uint32(1))

    def launcher(self):
        self.kernel[1, COUNT, self.queue](*(self.buffer, 1))

    def expressions(self):
        next(self.expressions_in_turn)()  # the memory of its result is dropped


WAYS = [name for name in vars(Program) if not name.startswith("_") and name not in ("is_done", "launch")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.long
def test_nothing_is_kept_of_each_turn(device, make_queue, kernels, way):
    program = Program(device, make_queue, kernels)
    assert growth(getattr(program, way), program.is_done) < LITTLE
    program.queue.finish()
    program.other.finish()


@pytest.mark.long
def test_nothing_is_kept_of_waits_of_a_device_that_nobody_asks(device, make_queue, kernels):
    """The host asks the queues of the one device only, and those of the other wait for them.

    A backlog of the other would be the driver's: now and then it is waited for, past forebay.
    """
    program = Program(device, make_queue, kernels)
    with fb.Device(device.name, private=True) as other:
        waiting, buffer = other.queue(blocking=False), other.zeros(COUNT, "u4")
        other.finish()

        def turn():
            program.launch()
            waiting.wait(program.queue)
            waiting.fill(buffer, 1)

        def is_done():
            native = waiting.native
            getattr(native, "finish", getattr(native, "wait", lambda: None))()  # of pyopencl, of dpctl
            return program.is_done()

        assert growth(turn, is_done) < LITTLE
        waiting.finish()
