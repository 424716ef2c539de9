"""What tests see of forebay's insides: no other file of theirs names a private attribute of the product."""

import contextlib
from unittest import mock

import forebay
from forebay.queues import context
from forebay.queues.graphs import graph as graphs


def clock_of(queue):
    """Return the queue's vector clock: the epoch that it comes after, by queue identifier."""
    return queue._clock


def context_of(device):
    """Return what the Devices of one driver context share."""
    return device._context


def step_of(queue):
    """Return the open step that the queue has joined, or None."""
    return queue._step


def capture_of(queue):
    """Return the capture that records the queue's commands, or None."""
    return queue._capture


def natives_of(program):
    """Return the driver's built program."""
    return program._natives


def module_of(program):
    """Return the module that Level Zero's driver built of a program."""
    return next(iter(program._natives.values()))._module


def launch_memory_of(device):
    """Return the pool that scratch and results of launches come from."""
    return device._launch_memory


def lend(queue, shape, dtype):
    """Return memory of the pool for launches, as a launch on the queue would have it."""
    return queue.device._lend(queue, (shape,), dtype)


def bounds_of(queue, buffer):
    """Return the least and greatest number and the sum, as sizes of scratch are measured."""
    (found,) = buffer.device._reductions.run(queue, [buffer])
    return found


def forget_races(device):
    """Forget the races that the checker has reported on the device."""
    device._forget_races()


class ClosingDevice(forebay.Device):
    """A Device that calls ``meanwhile`` when `close` has waited, and is not closed yet."""

    meanwhile = None

    def _finish(self, *arguments, **named):
        super()._finish(*arguments, **named)
        if self.meanwhile is not None and not self.closed:
            self.meanwhile()


@contextlib.contextmanager
def without_shared_contexts():
    """Let Devices of the block join no driver context from before it. Gives the list of those that may be joined."""
    before = list(context._shared)
    context._shared.clear()
    try:
        yield context._shared
    finally:
        context._shared[:] = before


def come_after_unseen(queue):
    """Let the race checker take what follows on the queue for ordered by a wait for a value in memory."""
    queue._come_after_unseen()


class _Counted:
    """In place of the class of executable graphs: counts those that are made."""

    def __init__(self):
        self.made = []

    def _of(self, *arguments):
        self.made.append(forebay.ExecutableGraph._of(*arguments))
        return self.made[-1]


@contextlib.contextmanager
def executables_made():
    """Give the list of executable graphs that are made in the block."""
    counted = _Counted()
    with mock.patch.object(graphs, "ExecutableGraph", counted):
        yield counted.made
