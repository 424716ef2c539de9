"""What tests see of forebay's insides: no other file of theirs names a private attribute of the product."""

import numpy as np


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


def control_of(bench):
    """Return what selftest's control run reports: how many races on purpose were seen."""
    from forebay.selftest import work

    return work._control(bench)


def buffer_over(device, memory, shape, dtype):
    """Return a Buffer over memory of the device's driver."""
    return device._over(memory, shape, np.dtype(dtype))
