"""What tests see of forebay's insides: no other file of theirs names a private attribute of the product."""

import contextlib
from unittest import mock

from forebay import hip, host_empty


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


def open_hip_devices():
    """Return the open Devices of HIP, by number."""
    return hip.devices._devices


def forget_hip_handles(number):
    """Forget the streams, events, memory and other handles of HIP's device of this number, which stays open."""
    for forget in hip.devices._on_reset:
        forget(number)


@contextlib.contextmanager
def hip_without_devices():
    """Within the context, HIP finds no device."""
    with mock.patch.multiple(hip.devices, _infos=[], _devices={}):
        yield


@contextlib.contextmanager
def hip_without_mapped_memory(device):
    """Within the context, kernels of the device cannot use the memory of `hipHostMalloc`."""
    copies_only = mock.patch.object(hip.memory, "_host_memory", lambda device, nbytes: host_empty(nbytes, "u1", device))
    with mock.patch.object(device.driver, "has_shared", False) if device.info.backend == "opencl" else copies_only:
        yield
