"""USM memory that both dpctl and forebay use, without a copy."""

import gc
import weakref

import dpctl
import dpctl.memory as dpctl_memory
import numpy as np
import pytest

import forebay as fb
from tests.helpers.refusals import refused

from .conftest import COUNT, VALUES, contents, steps, usm

KINDS = {
    "device": dpctl_memory.MemoryUSMDevice, "shared": dpctl_memory.MemoryUSMShared, "host": dpctl_memory.MemoryUSMHost,
}  # fmt: skip


def address_of(memory):
    """The address of dpctl's memory."""
    return memory.__sycl_usm_array_interface__["data"][0]


class Array:
    """The smallest thing with the interface; `changes` are made to it."""

    def __init__(self, memory, **changes):
        self.memory = memory
        self.__sycl_usm_array_interface__ = {
            "data": (address_of(memory), False), "shape": (COUNT,), "strides": None, "typestr": "<u4", "version": 1,
            "syclobj": memory.sycl_queue, **changes,
        }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_one_writes_the_other_reads(kind, sycl_queue, queue, device, step):
    memory = KINDS[kind](4 * COUNT, queue=sycl_queue)
    buffer = device.as_buffer(memory).view("u4")
    assert buffer.address == address_of(memory)
    assert buffer.usm_type == kind
    memory.copy_from_host(VALUES.view("u1"))
    assert np.array_equal(buffer.get(queue=queue), VALUES)
    queue.launch(step, COUNT // 64, 64, buffer, 3)
    queue.finish()
    assert np.array_equal(contents(memory), steps(VALUES, 3))
    if kind != "device":
        assert np.array_equal(buffer.host, steps(VALUES, 3))


def test_shape_type_and_offset_are_taken_over(memory, queue, device):
    buffer = device.as_buffer(Array(memory, shape=(2, 5), strides=(5, 1), typestr="<i4", offset=4))
    assert (buffer.shape, buffer.dtype, buffer.nbytes) == ((2, 5), np.dtype("i4"), 40)
    assert buffer.get(queue=queue).ravel().tolist() == list(range(4, 14))


def test_strides_of_one_element_do_not_matter_and_nothing_is_fine(memory, device):
    assert device.as_buffer(Array(memory, shape=(1, 5, 1), strides=(99, 1, 7))).shape == (1, 5, 1)
    assert device.as_buffer(Array(memory, shape=(0, 3), data=(0, False))).nbytes == 0


def test_the_owner_lives_until_the_work_is_done(sycl_queue, queue, device, step):
    memory = usm(sycl_queue)
    owner = Array(memory)
    alive = weakref.ref(owner)
    buffer = device.as_buffer(owner)
    gate = device.queue().gate()
    queue.launch(step, COUNT // 64, 64, buffer, 1)
    del owner, memory
    buffer.close()
    gc.collect()
    assert alive() is not None
    gate.open()
    device.finish()
    gc.collect()
    assert alive() is None


def test_a_buffer_is_memory_to_dpctl(sycl_queue, queue, device):
    buffer = device.array(VALUES)
    device.finish()
    memory = dpctl_memory.as_usm_memory(buffer)
    assert address_of(memory) == buffer.address
    assert memory.nbytes == buffer.nbytes
    assert memory.get_usm_type() == "device"
    assert np.array_equal(contents(memory), VALUES)
    memory.copy_from_host(VALUES[::-1].copy().view("u1"))
    assert np.array_equal(buffer.get(queue=queue), VALUES[::-1])


def test_part_of_a_buffer_is_memory_to_dpctl(device):
    buffer = device.array(VALUES)
    interface = buffer[8:].__sycl_usm_array_interface__
    assert interface["data"] == (buffer.address + 32, False)
    assert interface["shape"] == (COUNT - 8,)


def test_dpctl_tensor_takes_it_without_a_copy(queue, device):
    tensor = pytest.importorskip("dpctl.tensor", reason="this dpctl has no arrays; they are dpnp's")
    buffer = device.array(VALUES)
    device.finish()
    array = tensor.asarray(buffer, copy=False)
    array[0] = 12345
    array.sycl_queue.wait()
    assert buffer.get(queue=queue)[0] == 12345
    assert np.array_equal(device.as_buffer(array).get(queue=queue), buffer.get(queue=queue))
    with refused(fb.InvalidArgumentError, ValueError, "C-contiguous"):
        device.as_buffer(array[::2])


def test_a_closed_buffer_is_none(device):
    buffer = device.array(VALUES)
    buffer.close()
    with refused(fb.ClosedError, RuntimeError, "closed"):
        buffer.__sycl_usm_array_interface__  # noqa: B018


# What is refused


def test_memory_of_other_drivers_is_none_to_dpctl():
    try:
        other = fb.Device("opencl")
    except fb.DeviceNotFoundError:
        pytest.skip("there is no OpenCL device")
    with other:
        assert not hasattr(other.empty(4), "__sycl_usm_array_interface__")
        with refused(fb.Error, TypeError, "as_buffer", "Device.array"):
            other.as_buffer("text")


@pytest.mark.parametrize("wrong", [None, 3, VALUES, b"bytes"], ids=lambda wrong: type(wrong).__name__)
def test_what_has_no_usm_memory(device, wrong):
    with refused(fb.Error, TypeError, "USM", type(wrong).__name__):
        device.as_buffer(wrong)


@pytest.mark.parametrize(("kind", "builtin", "words", "changes"), [
    *((fb.Error, TypeError, "is not one", wrong) for wrong in (
        {"data": None}, {"typestr": "?!"}, {"shape": None}, {"shape": ("x",)}, {"data": (1, 2, 3)},
    )),
    (fb.InvalidArgumentError, ValueError, "read-only", {"data": (1 << 20, True)}),
    *((fb.InvalidArgumentError, ValueError, "C-contiguous", {"shape": (COUNT // 2,), "strides": strides})
      for strides in ((2,), (-1,), (0,))),
    (fb.InvalidArgumentError, ValueError, "another SYCL context", {"data": (VALUES.ctypes.data, False)}),
])  # fmt: skip
def test_an_interface_that_is_refused(device, memory, kind, builtin, words, changes):
    with refused(kind, builtin, words):
        device.as_buffer(Array(memory, **changes))


def test_another_context(device, native):
    try:
        part = native.create_sub_devices(partition=1)[0]
    except dpctl.SyclSubDeviceCreationError:
        pytest.skip("the device has no parts, and each whole device has one context in dpctl")
    other = dpctl.SyclQueue(dpctl.SyclContext(part), part, property="in_order")
    memory = dpctl_memory.MemoryUSMDevice(4 * COUNT, queue=other)
    with refused(fb.InvalidArgumentError, ValueError, "another SYCL context"):
        device.as_buffer(memory)
    queue = fb.Device.adopt_queue(other)
    assert queue.device is not device
    with queue.device:
        assert queue.device.as_buffer(memory).nbytes == 4 * COUNT


def test_a_closed_device(sycl_queue, memory):
    device = fb.Device.adopt_queue(sycl_queue).device
    device.close()
    with refused(fb.ClosedError, RuntimeError, "closed"):
        device.as_buffer(memory)
