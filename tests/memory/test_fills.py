"""Fills: values, sizes, parts, graphs and threads, also of memory that is an address alone, as on NVIDIA's GPUs."""

import contextlib
import gc
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.observer import observe
from tests.helpers.refusals import refused
from tests.inside import context_of

PAIR = np.dtype([("a", "i4"), ("b", "f4")])
TRIPLE = np.dtype([("a", "i4"), ("b", "f4"), ("c", "u1", (4,))])
needs_opencl = pytest.mark.needs("OpenCL")


def without_memory_objects():
    """A context in which devices of OpenCL are opened as ones that are no CPUs."""
    return mock.patch("forebay.queues.opencl.device.is_a_cpu", return_value=False)


@contextlib.contextmanager
def opened_with_addresses(device):
    with without_memory_objects(), fb.Device(device.name, private=True) as opened:
        if context_of(opened).driver.has_memory_objects:
            pytest.skip("the device has no addresses")
        yield opened


@pytest.fixture
def of_addresses(device):
    with opened_with_addresses(device) as opened:
        yield opened


@pytest.fixture(params=[contextlib.nullcontext, pytest.param(opened_with_addresses, marks=needs_opencl)])
def own(request, device):
    """The device, as it is and of addresses."""
    with request.param(device) as own:
        yield own


@pytest.mark.parametrize(("dtype", "value"), [
    ("?", True), ("?", False), ("?", np.True_), ("i4", np.True_), ("u8", np.array(True)), ("f4", np.True_),
    ("i1", -128), ("i1", 127), ("u1", 0), ("u1", 255), ("u1", True),
    ("i2", -(1 << 15)), ("u2", (1 << 16) - 1), ("i4", -(1 << 31)), ("i4", (1 << 31) - 1), ("u4", (1 << 32) - 1),
    ("i8", -(1 << 63)), ("i8", (1 << 63) - 1), ("u8", (1 << 64) - 1), ("u8", np.uint64((1 << 64) - 1)),
    ("i4", np.int64(-5)), ("u1", np.int64(200)), ("i4", np.array(7)),
    ("f2", 1.5), ("f2", 3), ("f4", 0.1), ("f4", -0.0), ("f4", np.float64(2.5)), ("f4", np.inf), ("f8", 1e300),
    ("f8", 5), ("f4", True), ("f4", np.nan),
    ("c8", 1 + 2j), ("c8", 3), ("c16", -1.5),
    ("S4", b"abcd"), ("U1", "µ"), ("M8[s]", np.datetime64("2020-01-01")), ("V8", np.void(b"12345678")),
    (PAIR, np.array((1, 2.5), PAIR)), (PAIR, (1, 2.5)), (TRIPLE, np.frombuffer(b"\7" * 12, TRIPLE)[0]),
])  # fmt: skip
def test_every_element_gets_the_value(device, queue, dtype, value, really):
    host = np.empty(13, dtype)
    host[:] = value
    buffer = device.empty(13, dtype)
    queue.fill(buffer, value)
    assert buffer.get(queue=queue).tobytes() == host.tobytes() or not really
    assert queue.stats.fills == 1


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 64, 128, 129, 256, 257, 4096])
@pytest.mark.parametrize("pattern", [range(1, 252), [7], [1, 2, 3, 4]], ids=["any", "equal bytes", "repeated bytes"])
def test_elements_of_any_size_and_their_neighbours(own, size, pattern):
    element, queue = np.void((bytes(pattern) * 4096)[:size]), own.queue()
    for count in (0, 1, 2, 3, 8, 9, 129):
        for start in (0, 1, 3):
            buffer, expected = own.zeros(count + 5, element.dtype), np.zeros(count + 5, element.dtype)
            own.finish()
            queue.fill(buffer[start : start + count], element)
            expected[start : start + count] = element
            assert device_data(buffer.get(queue=queue).tobytes()) == expected.tobytes()


@pytest.mark.parametrize("nbytes", [0, 1, 15, 16, 17, 1023, 1024, 1025, (1 << 20) + 1])
def test_sizes_at_the_edges(own, nbytes):
    buffer, queue = own.zeros(nbytes + 32, "u1"), own.queue()
    for start in (0, 1, 16):
        queue.fill(buffer, 0)
        queue.fill(buffer[start : start + nbytes], 255)
        expected = np.zeros(nbytes + 32, "u1")
        expected[start : start + nbytes] = 255
        assert np.array_equal(device_data(buffer.get(queue=queue)), expected)


def of_bytes(buffer, start, count, dtype):
    return buffer[start : start + count * np.dtype(dtype).itemsize].view(dtype)


@pytest.mark.parametrize(
    ("start", "dtype", "value"),
    [(1, "u1", 7), (1, "f4", 0), (3, "i8", -1), (2, "u4", 0x70007), (4, "u8", 0x700000007), (4, "c8", 2 + 2j)],
)
@pytest.mark.parametrize("how", ["queue", "captured", "node"])
def test_parts_that_begin_anywhere(device, queue, start, dtype, value, how):
    """Where the bytes of the value repeat, their smallest number counts."""
    memory = device.zeros(64, "u1")
    device.finish()
    part = of_bytes(memory, start, 3, dtype)
    if how == "queue":
        queue.fill(part, value)
    elif how == "captured":
        with queue.capture() as graph:
            queue.fill(part, value)
        graph.launch(queue)
    else:
        graph = device.graph()
        graph.add_fill(part, value)
        graph.launch(queue)
    expected = np.zeros(64, "u1")
    expected[start : start + part.nbytes] = np.full(3, value, dtype).view("u1")
    assert np.array_equal(device_data(memory.get(queue=queue)), expected)


@pytest.mark.parametrize(
    ("start", "dtype", "value"), [(1, "f4", 1.5), (2, "i4", 1), (4, "f8", 1.5), (1, "u2", 256), (8, "c16", 1 + 2j)]
)
def test_parts_that_drivers_cannot_fill_are_refused_in_graphs(device, queue, refuses, start, dtype, value):
    memory = device.zeros(64, "u1")
    device.finish()
    part, size = of_bytes(memory, start, 2, dtype), np.dtype(dtype).itemsize
    words = "fill", f"{size} bytes", f"byte {start}"
    graph = device.graph()
    with refuses(fb.InvalidArgumentError, ValueError, *words):
        graph.add_fill(part, value)
    node = graph.add_fill(memory, 3)
    executable = graph.instantiate()
    with refuses(fb.InvalidArgumentError, ValueError, *words):
        executable.set_fill(node, part, value)
    with queue.capture() as captured:
        queue.fill(memory, 4)
        with refused(fb.InvalidArgumentError, ValueError, *words):
            queue.fill(part, value)
    assert len(captured) == 1
    captured.launch(queue)
    executable.launch(queue)
    queue.finish()


def test_a_graph_and_a_step_and_commands_before_and_after(own, program):
    queue, buffer = own.queue(), own.zeros(100, "i4")
    own.finish()
    with queue.capture() as graph:
        queue.fill(buffer, 7)
        queue.fill(buffer[50:], 8)
    executable, step = graph.instantiate(), queue.step()
    for value in range(20):
        buffer.set(0, queue=queue)
        executable.launch(queue)
        assert device_data(buffer.get(queue=queue).tolist()) == [7] * 50 + [8] * 50
        with step:
            queue.fill(buffer, value)
            queue.copy(buffer[:5], buffer[50:55])
            queue.fill(buffer[7:9], value + 1)
        assert device_data(buffer.get(queue=queue).tolist()) == [value] * 7 + [value + 1] * 2 + [value] * 91


@pytest.mark.parametrize("shape", [0, (3, 0)])
def test_nothing_is_filled_as_nothing(device, queue, shape):
    queue.fill(device.empty(shape), 1)
    queue.fill(device.empty(shape, "V3"), b"abc")
    assert (queue.epoch, queue.stats.fills) == (0, 0)


# -- by kernels of forebay


@needs_opencl
def test_a_device_ends_while_the_next_one_of_its_context_fills(device):
    import pyopencl as cl

    context = cl.Context([device.info.native])
    with without_memory_objects():
        with fb.Device.adopt(context) as first:
            first.array([1, 2]).fill(5)
        with fb.Device.adopt(context) as second:
            assert second is not first
            buffer = second.empty(3, "u2")
            for value in (8, 9):
                with observe(second) as calls:
                    buffer.fill(value)
                assert calls.count("clEnqueueNDRangeKernel") == 1
                assert device_data(buffer.get().tolist()) == [value] * 3
                first = None
                gc.collect()


@needs_opencl
def test_a_fill_makes_and_releases_nothing_behind_a_gate(of_addresses, hold):
    """While a user event has waiters, releasing anything but events is undefined (OpenCL 3.0, clSetUserEventStatus)."""
    queue, other, buffer = of_addresses.queue(), of_addresses.queue(), of_addresses.zeros(64, "i4")
    beside = of_addresses.zeros(64, "i4")
    of_addresses.finish()
    queue.fill(buffer, 1)
    gate = hold(queue)
    with observe(of_addresses) as calls:
        for value in range(10):
            queue.fill(buffer, value)
            other.fill(beside, value)
        assert calls.count("clEnqueueNDRangeKernel") == 20
        assert calls.count("clCreateKernel") == calls.count("clReleaseKernel") == 0
    gate.open()
    assert device_data(buffer.get(queue=queue).tolist()) == [9] * 64
