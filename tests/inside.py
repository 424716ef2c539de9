"""What tests see of forebay's insides: no other file of theirs names a private attribute of the product."""

import forebay as fb


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
