"""Random programs whose calls of the driver are refused at random places: no memory has two owners.

The owner of each block is known without forebay: a block is written by its owner alone, with its own number. Gates hold
the writes of earlier owners back, so a block that is handed out too early is overwritten when they open. The races are
checked, too: a program has none, and one that is planted at the end is found, whatever was refused before.
"""

import contextlib
import random

import pytest

import forebay as fb
from tests.helpers.examples import MANY, many
from tests.helpers.observer import EXECUTES

SOURCE = "kernel void own(global int *x, int number, local int *room) { x[get_global_id(0)] = number; }"
SIZES = 64, 128  # numbers, for which the pool has one size
# How often each comes
OPERATIONS = {
    "alloc": 4, "write": 5, "free": 4, "wait": 3, "pass_on": 2,
    "hold": 1, "open": 1, "record": 1, "replay": 1, "finish": 1,
}  # fmt: skip


class Block:
    """Memory from the pool, its owner's queue, and what the owner wrote last."""

    def __init__(self, buffer, queue):
        self.buffer, self.queue, self.number = buffer, queue, None


class Program:
    """One program after the other, on the same queues."""

    def __init__(self, device, driver, checked):
        self.device, self.driver, self.checked = device, driver, checked
        self.kernel = device.program(SOURCE)["own"]
        self.kernel.writes("x")  # what stands in for CUDA's compiler shows no code that does
        self.queues = [device.null_queue, *(device.queue() for _ in range(2)), *(device.queue(False) for _ in range(2))]
        self.steps = {queue: queue.step() for queue in self.queues}
        self.x = device.zeros(64, "i4")
        device.finish()
        self.number = self.refused = 0
        self.blocks, self.gates, self.events = [], [], []

    def run(self, seed):
        draw = random.Random(seed)
        self.device.pool.growth_limit = draw.choice([0, 1 << 30])
        self.driver.fail_at_random(seed, draw.choice([4, 10, 40]))
        for _ in range(draw.randint(1, 40)):
            operation, queue = draw.choices(list(OPERATIONS), OPERATIONS.values())[0], draw.choice(self.queues)
            self.attempt(operation, queue, draw)
        self.driver.forgive()
        self.end()

    def attempt(self, operation, *arguments):
        try:
            getattr(self, operation)(*arguments)
        except fb.RaceError:  # a program has none
            raise
        except fb.Error:
            self.refused += 1

    def pass_on(self, queue, draw):
        """Memory goes from queue to queue, while the null queue, which has written there, is held. The queue in between
        is in a step that knows what comes, up to the last launch.
        """
        if not queue.blocking or self.gates:
            return
        self.alloc(queue, draw)
        block, null = self.blocks.pop(), self.device.null_queue
        step = self.steps[queue] = queue.step()
        for number in (0, 0, 1):
            if number:
                self.device.finish()
                self.attempt("hold", null, draw)
                self.attempt("launch", null, block, draw.randint(0, 1))
            with contextlib.suppress(fb.OutOfMemoryError, fb.DriverError), step:
                self.launch(queue, block, draw.choice([0, number]))
        queue.free(block.buffer)
        self.alloc(draw.choice(self.queues), draw)
        self.write(None, draw, self.blocks[-1], self.blocks[-1].queue)

    def alloc(self, queue, draw):
        if self.gates:
            self.device.pool.growth_limit = 1 << 30  # it would wait for what the gates hold, and who opens them?
        self.blocks.append(Block(queue.alloc(draw.choice(SIZES), "i4"), queue))

    def write(self, queue, draw, block=None, by=None):
        """By the owner's queue, or the null queue, if that comes before and after it. In a step, mostly, whose first
        launches are recorded and whose later ones are collected.
        """
        if block is None:
            if not self.blocks:
                return
            block = draw.choice(self.blocks)
            by = self.device.null_queue if block.queue.blocking and draw.random() < 0.4 else block.queue
        self.number += 1
        before, block.number = block.number, None  # not known, should it fail half way
        if draw.random() < 0.7:
            with self.steps[by]:
                self.launch(by, block, self.number)
        else:
            try:
                self.launch(by, block, self.number)
            except fb.Error:
                block.number = before
                raise
        block.number = self.number

    def launch(self, queue, block, number):
        queue.launch(self.kernel, len(block.buffer) // 64, 64, block.buffer, number, fb.local(4 * (1 + number % 2)))

    def free(self, queue, draw):
        if self.blocks:
            block = self.blocks[draw.randrange(len(self.blocks))]
            if draw.random() < 0.3 and not self.gates:
                queue.wait(block.queue)
                queue.free(block.buffer)
            else:
                block.queue.free(block.buffer)
            self.blocks.remove(block)

    def wait(self, queue, draw):
        queue.wait(draw.choice(self.events) if self.events and draw.random() < 0.5 else draw.choice(self.queues))

    def record(self, queue, draw):
        self.events = [*self.events[-4:], queue.record()]

    def replay(self, queue, draw):
        captured = self.queues[4]
        with captured.capture() as graph:
            block = Block(captured.alloc(64, "i4"), captured)
            captured.launch(self.kernel, 1, 64, block.buffer, 1, fb.local(4))
            captured.free(block.buffer)
        graph.launch(queue)

    def hold(self, queue, draw):
        self.gates.append(draw.choice([queue, self.device.null_queue]).gate())

    def open(self, queue, draw):
        for gate in self.gates:
            gate.open()
        self.gates.clear()

    def finish(self, queue, draw):
        self.open(queue, draw)
        queue.finish()

    def end(self):
        """Judge what all blocks hold, and whether a race is still found."""
        self.open(None, None)
        for _ in range(3):  # what failed on the device is told once
            with contextlib.suppress(fb.Error):
                self.device.finish()
        self.device.finish()
        for block in self.blocks:
            if EXECUTES and block.number is not None:
                assert (block.buffer.get(queue=block.queue) == block.number).all()
            block.queue.free(block.buffer)
        self.blocks.clear()
        self.device.finish()
        self.device.pool.trim()  # so that the next program's queues pass the same memory on
        if not self.checked:
            return
        self.queues[3].launch(self.kernel, 1, 64, self.x, 1, fb.local(4))
        with pytest.raises(fb.RaceError):
            self.queues[4].launch(self.kernel, 1, 64, self.x, 2, fb.local(4))
        self.device.finish()


@pytest.mark.parametrize("checked", [None, "races,error"], ids=["", "checked for races"])
@pytest.mark.parametrize("programs", MANY)
def test_random_programs_with_refused_calls(watched, programs, checked):
    with fb.Device(private=True, check=checked) as device:
        watched.start()
        try:
            program = Program(device, watched, bool(checked))
            for seed in range(many(programs // 2)):
                program.run(seed)
                watched.take()
        finally:
            watched.forgive()
            watched.stop()
        assert program.refused > many(programs // 2)
