"""HIP's pointers and streams with forebay's own Queues, and the other way round."""

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused

from .conftest import SOURCE, ok

COUNT = 256
VALUES = np.arange(COUNT, dtype="i4")


@pytest.fixture
def array(device):
    array = ok(hip.hipMalloc(4 * COUNT)).configure(typestr="int32", shape=(4, 64))
    ok(hip.hipMemcpy(array, VALUES, 4 * COUNT, hip.hipMemcpyKind.hipMemcpyHostToDevice))
    yield array
    hip.hipFree(array)


@pytest.fixture
def kernels(device):
    return device.program(SOURCE)


@pytest.fixture
def queue(device):
    with_it = device.queue()
    yield with_it
    with_it.close()


def contents(array):
    host = np.zeros(COUNT, "i4")
    ok(hip.hipMemcpy(host, array, 4 * COUNT, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    return host


def test_a_launch_takes_an_array_and_a_part(array, queue, kernels):
    for _ in range(3):
        queue.launch(kernels["add"], COUNT // 64, 64, array, 5)
    queue.launch(kernels["add"], 1, 64, array[1], 100)
    queue.finish()
    expected = VALUES + 15
    expected[64:128] += 100
    assert np.array_equal(device_data(contents(array)), expected)


def test_a_buffer_over_it_has_its_shape(array, device, queue, kernels):
    buffer = device.as_buffer(array)
    assert (buffer.shape, buffer.dtype) == ((4, 64), np.dtype("i4"))
    bound = kernels["add"].bind(queue, COUNT // 64, 64, buffer, 1)
    with queue.capture() as graph:
        queue.launch(kernels["add"], COUNT // 64, 64, buffer, 1)
    bound()
    graph.launch(queue)
    assert np.array_equal(device_data(buffer.get(queue=queue)), (VALUES + 2).reshape(4, 64))
    buffer[:, ::2] = 0
    device.finish()
    assert (device_data(contents(array)[::2]) == 0).all()


def test_a_pointer_is_bytes(array, device):
    assert device.as_buffer(hip.Pointer(array)).nbytes == 4 * COUNT
    assert np.array_equal(device_data(device.as_buffer(hip.Pointer(array) + 8).view("i4").get()[:3]), [2, 3, 4])


def test_a_stream_is_a_queue_and_a_queue_is_a_stream(array, device, queue, kernels):
    stream = ok(hip.hipStreamCreate())
    stream.queue.launch(kernels["add"], COUNT // 64, 64, array, 1)
    queue.wait(stream.queue)
    queue.launch(kernels["add"], COUNT // 64, 64, array, 1)
    ok(hip.hipStreamSynchronize(queue))
    assert np.array_equal(device_data(contents(array)), VALUES + 2)
    ok(hip.hipStreamDestroy(stream))


def test_the_type_is_compared(array, queue, kernels):
    with refused(fb.ArgumentTypeError, TypeError, "argument 0", "8 bytes"):
        queue.launch(kernels["add"], 1, 1, array.configure(typestr="float64", shape=(COUNT // 2,)), 1)


def test_memory_that_is_gone(device, queue, kernels):
    array = ok(hip.hipMalloc(4 * COUNT))
    buffer = device.as_buffer(array)
    ok(hip.hipFree(array))
    with refused(fb.ClosedError, RuntimeError, "closed"):
        queue.launch(kernels["add"], 1, 1, buffer, 1)
    with refused(fb.InvalidArgumentError, ValueError, "argument 0", "no allocation"):
        queue.launch(kernels["add"], 1, 1, array, 1)
    with refused(fb.InvalidArgumentError, ValueError, "null pointer"):
        device.as_buffer(hip.Pointer(None))


def test_another_device(array, kernels, device):
    with fb.Device(device.name, private=True) as other, refused(fb.InvalidArgumentError, ValueError, "belongs to"):
        other.as_buffer(array)
