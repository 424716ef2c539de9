"""Fills of memory that is an address alone, as on NVIDIA's GPUs; on CPUs forebay is told that the device is none."""

import gc
import threading

import numpy as np
import pyopencl as cl
import pytest

import forebay as ps
from forebay.queues.opencl import device as opencl_device
from tests.helpers.observer import observe

pytestmark = pytest.mark.needs("OpenCL")


@pytest.fixture
def of_addresses(device, monkeypatch):
    monkeypatch.setattr(opencl_device, "is_a_cpu", lambda native: False)
    with ps.Device(device.name, private=True) as opened:
        if opened._context.driver.has_memory_objects:
            pytest.skip("the device has no addresses")
        yield opened


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32, 64, 128])
def test_bytes_and_neighbours(of_addresses, size):
    element = np.void(bytes(range(1, size + 1)))
    queue = of_addresses.queue()
    for count in (1, 2, 7, 8, 9, 129, 5000):
        for start in (0, 1, 3):
            buffer = of_addresses.array(np.zeros(count + 5, element.dtype))
            queue.fill(buffer[start : start + count], element)
            expected = np.zeros(count + 5, element.dtype)
            expected[start : start + count] = element
            assert buffer.get(queue=queue).tobytes() == expected.tobytes()


def test_threads_fill_with_values_of_their_own(of_addresses):
    wrong = []

    def work(value):
        queue, buffer = of_addresses.queue(), of_addresses.empty(1000, "i4")
        for turn in range(100):
            queue.fill(buffer, value + turn)
            if not (buffer.get(queue=queue) == value + turn).all():
                wrong.append((value, turn))

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_in_a_graph(of_addresses):
    queue, buffer = of_addresses.queue(), of_addresses.zeros(100, "i4")
    with queue.capture() as graph:
        queue.fill(buffer, 7)
        queue.fill(buffer[50:], 8)
    executable = graph.instantiate()
    for _ in range(3):
        buffer.set(0, queue=queue)
        executable.launch(queue)
        assert buffer.get(queue=queue).tolist() == [7] * 50 + [8] * 50


def test_a_device_ends_while_the_next_one_of_its_context_fills(device, monkeypatch):
    monkeypatch.setattr(opencl_device, "is_a_cpu", lambda native: False)
    context = cl.Context([device.info.native])
    with ps.Device.from_pyopencl(context) as first:
        first.array([1, 2]).fill(5)
    with ps.Device.from_pyopencl(context) as second:
        assert second is not first
        buffer = second.empty(3, "u2")
        for value in (8, 9):
            with observe(second) as calls:
                buffer.fill(value)
            assert calls.count("clEnqueueNDRangeKernel") == 1
            assert buffer.get().tolist() == [value] * 3
            first = None
            gc.collect()
