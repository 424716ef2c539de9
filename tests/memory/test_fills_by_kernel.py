"""Fills of memory that is an address alone, as on NVIDIA's GPUs; on CPUs forebay is told that the device is none."""

import gc
import threading
import tracemalloc

import numpy as np
import pyopencl as cl
import pytest

import forebay as fb
from forebay.queues.drivers.opencl import device as opencl_device
from tests.helpers.observer import observe
from tests.inside import context_of

pytestmark = pytest.mark.needs("OpenCL")


@pytest.fixture
def of_addresses(device, monkeypatch):
    monkeypatch.setattr(opencl_device, "is_a_cpu", lambda native: False)
    with fb.Device(device.name, private=True) as opened:
        if context_of(opened).driver.has_memory_objects:
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
    with fb.Device.adopt(context) as first:
        first.array([1, 2]).fill(5)
    with fb.Device.adopt(context) as second:
        assert second is not first
        buffer = second.empty(3, "u2")
        for value in (8, 9):
            with observe(second) as calls:
                buffer.fill(value)
            assert calls.count("clEnqueueNDRangeKernel") == 1
            assert buffer.get().tolist() == [value] * 3
            first = None
            gc.collect()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.long
def test_many_fills_leave_nothing_behind(of_addresses):
    queue, buffer = of_addresses.queue(), of_addresses.empty(64, "i4")
    for turn in range(110_000):
        queue.fill(buffer, turn)
        if turn % 1000 == 0:
            queue.finish()
        if turn == 10_000:
            tracemalloc.start()
            traced, before = tracemalloc.get_traced_memory()[0], resident()
    try:
        assert tracemalloc.get_traced_memory()[0] - traced < 100_000
        assert resident() - before < 20 << 20
    finally:
        tracemalloc.stop()
    assert buffer.get(queue=queue).tolist() == [109_999] * 64


def test_a_fill_makes_and_releases_nothing_behind_a_gate(of_addresses, hold):
    """While a user event has waiters, releasing anything but events is undefined (OpenCL 3.0, clSetUserEventStatus)."""
    queue, other, buffer = of_addresses.queue(), of_addresses.queue(), of_addresses.zeros(64, "i4")
    of_addresses.finish()
    queue.fill(buffer, 1)
    gate = hold(queue)
    with observe(of_addresses) as calls:
        for value in range(10):
            queue.fill(buffer, value)
            other.fill(buffer, value)
        assert calls.count("clEnqueueNDRangeKernel") == 20
        assert calls.count("clCreateKernel") == calls.count("clReleaseKernel") == 0
    gate.open()
    assert buffer.get(queue=queue).tolist() == [9] * 64


def test_in_a_step(of_addresses):
    queue, buffer = of_addresses.queue(), of_addresses.zeros(100, "u2")
    step = queue.step()
    for value in range(20):
        with step:
            queue.fill(buffer, value)
            queue.fill(buffer[7:9], value + 1)
        expected = [value] * 100
        expected[7:9] = [value + 1] * 2
        assert buffer.get(queue=queue).tolist() == expected


@pytest.mark.parametrize("nbytes", [0, 1, 15, 16, 17, 1023, 1024, 1025, (1 << 20) + 1])
def test_sizes_at_the_edges(of_addresses, nbytes):
    buffer, queue = of_addresses.zeros(nbytes + 32, "u1"), of_addresses.queue()
    for start in (0, 1, 16):
        queue.fill(buffer, 0)
        queue.fill(buffer[start : start + nbytes], 255)
        got = buffer.get(queue=queue)
        assert (got[start : start + nbytes] == 255).all()
        assert not got[:start].any()
        assert not got[start + nbytes :].any()


@pytest.mark.parametrize("turn", range(5))
def test_a_device_closes_while_others_fill(device, monkeypatch, turn):
    """One thread fills, one captures fills, one launches a graph of fills."""
    monkeypatch.setattr(opencl_device, "is_a_cpu", lambda native: False)
    began, errors = threading.Barrier(4), []

    def fill(opened, queue):
        buffer = opened.empty(1000, "i4")
        began.wait()
        for value in range(10**7):
            queue.fill(buffer, value)

    def capture(opened, queue):
        buffer = opened.empty(1000, "i4")
        began.wait()
        for value in range(10**7):
            with queue.capture("relaxed") as graph:
                queue.fill(buffer, value)
            graph.launch(queue)

    def replay(opened, queue):
        buffer = opened.empty(1000, "i4")
        with queue.capture("relaxed") as graph:
            for start in range(0, 1000, 100):
                queue.fill(buffer[start : start + 100], start)
        executable = graph.instantiate()
        began.wait()
        while True:
            executable.launch(queue)

    def run(work, opened):
        try:
            work(opened, opened.queue())
        except (fb.ClosedError, fb.CaptureError):
            pass
        except BaseException as error:
            errors.append(error)

    with fb.Device(device.name, private=True) as opened:
        threads = [threading.Thread(target=run, args=(work, opened)) for work in (fill, capture, replay)]
        for thread in threads:
            thread.start()
        own = opened.queue()
        began.wait()
        for _ in range(turn):
            own.fill(opened.empty(10, "i4"), turn)  # a capture of another mode forbids that to all threads
    for thread in threads:
        thread.join()
    assert errors == []
