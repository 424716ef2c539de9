"""What tests see of forebay's insides: no other file of theirs names a private attribute of the product."""

import contextlib
from unittest import mock

import forebay as fb
from forebay.queues.kernels import build_process


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


def launch_memory_of(device):
    """Return the pool that scratch and results of launches come from."""
    return device._launch_memory


def forget_races(device):
    """Forget the races that the checker has reported on the device."""
    device._forget_races()


def device_of(driver):
    """Return a Device of an open driver that a test has changed."""
    return fb.Device._of(driver)


def end_build_processes():
    """End the processes for building, as the end of this one does."""
    build_process._end()


@contextlib.contextmanager
def around_builds(step, before=lambda: None, after=lambda: None):
    """Call functions around a step of each build in another process: "accepts", of the request, or "answer"."""
    whole = getattr(build_process._Process, step)

    def call(self, *arguments):
        before()
        result = whole(self, *arguments)
        after()
        return result

    with mock.patch.object(build_process._Process, step, call):
        yield
