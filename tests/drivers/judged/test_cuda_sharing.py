"""Memory and streams that go to other packages of CUDA and come from them, on the mock driver.

Gates show what comes after what. The other package is an object of the test with the protocol's attributes: the real
ones need a GPU.
"""

import ctypes
import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from tests.helpers import foreign_packages

from .conftest import JUDGED

pytestmark = JUDGED
ON_GPU = 2  # DLPack's kDLCUDA


@pytest.fixture
def advance(kernels):
    return kernels["advance"]


class Stream:
    """A stream of another package."""

    def __init__(self, handle, owner=None):
        self.handle, self.owner = handle, owner

    def __cuda_stream__(self):
        return 0, self.handle


class Array:
    """An array of another package, whose memory a stream of it may still write to."""

    def __init__(self, buffer, **changes):
        self._described = buffer.__cuda_array_interface__ | changes

    @property
    def __cuda_array_interface__(self):
        return self._described


def takes_dlpack(capsule):
    """Use a capsule up as a consumer does: the device in it, and the call that drops the memory."""
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = ctypes.py_object, ctypes.c_char_p
    tensor = api.PyCapsule_GetPointer(capsule, b"dltensor")
    api.PyCapsule_SetName.argtypes = ctypes.py_object, ctypes.c_char_p
    api.PyCapsule_SetName(capsule, b"used_dltensor")
    data, place = ctypes.c_uint64.from_address(tensor).value, ctypes.c_int32.from_address(tensor + 8).value
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.c_void_p.from_address(tensor + 56).value)
    return data, place, lambda: deleter(tensor)


def test_a_stream_comes_after_the_uses_of_memory_that_it_is_handed(device, advance):
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    buffer = device.empty(64, "u4")
    with queue.gate():
        queue.launch(advance, 4, 16, buffer, 1)
        buffer.__dlpack__(stream=other.native)
        other.launch(advance, 4, 16, device.empty(64, "u4"), 1)
        free = device.queue(blocking=False)
        buffer.__dlpack__(stream=-1)
        free.launch(advance, 4, 16, device.empty(64, "u4"), 1)
        free.finish()
        assert not other.query()
    other.finish()
    device.finish()


def test_a_queue_comes_after_the_stream_that_an_array_names(device, advance):
    theirs, queue = device.queue(blocking=False), device.queue(blocking=False)
    array = Array(device.empty(64, "u4"), stream=theirs.native)
    with theirs.gate():
        queue.launch(advance, 4, 16, array, 1)
        assert not queue.query()
        free = device.queue(blocking=False)
        free.launch(advance, 4, 16, Array(device.empty(64, "u4")), 1)  # this one names none
        free.finish()
    queue.finish()
    device.finish()


def test_the_gpus_context_is_current_while_another_package_hands_over(device):
    with fb.Device("cuda:gpu:1", private=True) as other:
        foreign_packages.take_over((device, other))


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"data": (4096, True)}, "read-only"), ({"strides": (8,)}, "C-contiguous"), ({"mask": object()}, "mask")],
)
def test_an_array_that_cannot_be_taken_says_why(device, changes, what):
    with pytest.raises(fb.InvalidArgumentError, match=what):
        device.as_buffer(Array(device.empty(64, "u4"), **changes))


def test_a_stream_is_adopted(device, advance):
    theirs = device.queue(blocking=False)
    adopted, queue = device.adopt_queue(Stream(theirs.native, theirs)), device.queue(blocking=False)
    with theirs.gate():
        queue.wait(adopted)
        queue.launch(advance, 4, 16, device.empty(64, "u4"), 1)
        assert not queue.query()
    queue.finish()
    adopted.close()
    theirs.finish()  # it is its owner's still


def test_a_stream_is_kept_until_the_work_on_it_is_done(device):
    """Its package may destroy it as soon as nobody refers to it, and forebay still asks it how far it is."""
    theirs = device.queue(blocking=False)
    stream = Stream(theirs.native, theirs)
    kept, adopted = weakref.ref(stream), device.adopt_queue(stream)
    with adopted.device as other, theirs.gate():
        del stream, theirs
        adopted.fill(other.empty(64, "u4"), 1)
        adopted.close()
        del adopted
        gc.collect()
        assert kept() is not None
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("handle", [0, 1, 2])
def test_default_streams_are_not_adopted(device, handle):
    with pytest.raises(fb.InvalidArgumentError, match="default stream"):
        device.adopt_queue(Stream(handle))


def test_a_queue_is_a_stream_of_others(device):
    queue = device.queue()
    assert queue.__cuda_stream__() == (0, queue.native)
    with fb.Device("opencl") as other:
        assert not hasattr(other.queue(), "__cuda_stream__")
        assert not hasattr(other.empty(4), "__cuda_array_interface__")


@pytest.mark.parametrize("by", ["consumer", "capsule"])
def test_memory_lives_as_long_as_what_was_handed_out(device, by):
    buffer = device.empty((4, 16), "f4")
    address = buffer.address
    capsule = buffer.__dlpack__(stream=device.null_queue.native)
    data, place, drop = takes_dlpack(capsule) if by == "consumer" else (address, ON_GPU, None)
    assert (data, place) == (address, ON_GPU)
    assert buffer.__dlpack_device__() == (ON_GPU, 0)
    buffer.close()
    del buffer, capsule
    gc.collect()
    others = [device.empty((4, 16), "f4") for _ in range(8)]
    assert by == "capsule" or address not in [other.address for other in others]
    if drop:
        drop()
    device.finish()


def test_what_is_no_stream_is_refused_and_the_device_goes_on(device):
    buffer = device.empty(4)
    for stream in (0, -2, "1"):
        with pytest.raises(fb.InvalidArgumentError, match="stream of DLPack"):
            buffer.__dlpack__(stream=stream)
    with pytest.raises(BufferError, match=r"\.get\(\)"):
        np.from_dlpack(buffer)
    device.finish()


def test_an_event_that_processes_share_orders_queues_of_one_process():
    """The checker of races knows."""
    with fb.Device("cuda", private=True, check="races") as device:
        a, b = (device.queue(blocking=False) for _ in range(2))
        x, event = device.empty(64, "u4"), device.ipc_event()
        with a.gate():  # or the wait may find that it is done
            a.fill(x, 1)
            a.record(event)
            b.wait(event)
            b.fill(x, 2)
        assert device.races == ()
        device.finish()
