"""Where commands are submitted: a queue, what it comes after, and what comes after it."""

import time

from tests.helpers.features import GRID
from tests.ordering.happens_before import Relation

KINDS = ["null", "blocking", "non-blocking"]


class Place:
    """A queue of a kind, those that its next command comes after, which are held, and one whose command comes later."""

    def __init__(self, device, kind, scene):
        null, self.waits = device.null_queue, kind == "non-blocking"
        self.kernel, self.aside = scene.program["advance"], [scene.filled(0) for _ in range(2)]
        if kind == "null":
            self.queue, self.later = null, device.queue()
            self.producers = [device.queue() for _ in range(3)]
        elif kind == "blocking":
            self.queue, self.later, self.producers = device.queue(), null, [null]
        else:
            self.queue, self.later, *self.producers = (device.queue(blocking=False) for _ in range(5))

    def submit(self, queue):
        """Submit a command that has nothing to do with the scene's memory."""
        queue.launch(self.kernel, *GRID, self.aside[queue is self.queue], 1)

    def begin(self, hold):
        """Give each producer a gate and a command behind it, and let the queue come after them."""
        for producer in self.producers:
            hold(producer)
            self.submit(producer)
            if self.waits:
                self.queue.wait(producer)

    def end(self):
        """Submit what comes after the queue's commands."""
        if self.waits:
            self.later.wait(self.queue)
        self.submit(self.later)


class Log:
    """The driver's calls, by their numbers in the log of a test."""

    def __init__(self, calls):
        self.calls = calls

    def __len__(self):
        return len(self.calls.log)

    def commands(self, first, last=None, queues=None):
        """The calls in this range that submitted a command, to one of these queues."""
        log, driver = self.calls.log, self.calls.driver
        recordings = {call.detail for call in log if call.name == driver.NEW_RECORDING}
        handles = None if queues is None else {self.calls.handle_of(queue) for queue in queues}
        return [
            i
            for i, call in enumerate(log[:last])
            if i >= first
            and call.status == 0
            and self.calls.kind(call) == "command"
            and call.object not in recordings
            and (handles is None or call.object in handles)
        ]

    def relation(self):
        return Relation(self.calls.log, self.calls.kind)


def settled(device, condition, times=500):
    """Whether it becomes true: a driver may report that all is done before it has let go of what was used."""
    for _ in range(times):
        if condition():
            return True
        device.finish()
        time.sleep(0.01)
    return condition()
