import numpy as np
import pytest

import forebay as fb
from tests.helpers.refusals import refused

PAIR = np.dtype([("a", "i4"), ("b", "f4")])
TRIPLE = np.dtype([("a", "i4"), ("b", "f4"), ("c", "u1", (4,))])


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("?", True), ("?", False), ("?", np.True_), ("i4", np.True_), ("u8", np.array(True)), ("f4", np.True_),
        ("i1", -128), ("i1", 127), ("u1", 0), ("u1", 255), ("u1", True),
        ("i2", -(1 << 15)), ("u2", (1 << 16) - 1), ("i4", -(1 << 31)), ("i4", (1 << 31) - 1), ("u4", (1 << 32) - 1),
        ("i8", -(1 << 63)), ("i8", (1 << 63) - 1), ("u8", (1 << 64) - 1), ("u8", np.uint64((1 << 64) - 1)),
        ("i4", np.int64(-5)), ("u1", np.int64(200)), ("i4", np.array(7)),
        ("f2", 1.5), ("f2", 3), ("f4", 0.1), ("f4", -0.0), ("f4", np.float64(2.5)), ("f4", np.inf), ("f8", 1e300),
        ("f8", 5), ("f4", True),
        ("c8", 1 + 2j), ("c8", 3), ("c16", -1.5),
        ("S4", b"abcd"), ("U1", "µ"), ("M8[s]", np.datetime64("2020-01-01")), ("V8", np.void(b"12345678")),
        (PAIR, np.array((1, 2.5), PAIR)), (PAIR, (1, 2.5)),
    ],
)  # fmt: skip
def test_every_element_gets_the_value(device, queue, dtype, value, really):
    host = np.empty(13, dtype)
    host[:] = value
    buffer = device.empty(13, dtype)
    queue.fill(buffer, value)
    assert buffer.get(queue=queue).tobytes() == host.tobytes() or not really
    assert queue.stats.fills == 1


@pytest.mark.executes
def test_nan_is_a_value(device, queue):
    buffer = device.empty(5, "f4")
    queue.fill(buffer, np.nan)
    assert np.isnan(buffer.get(queue=queue)).all()


@pytest.mark.executes
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8, 16, 32, 64, 128])
def test_every_size_that_drivers_fill_with(device, queue, itemsize):
    element = np.void(bytes(range(1, itemsize + 1)))
    buffer = device.empty(5, element.dtype)
    queue.fill(buffer, element)
    assert buffer.get(queue=queue).tobytes() == element.tobytes() * 5


@pytest.mark.executes
@pytest.mark.parametrize("dtype", ["V3", "V12", "V129", "V256", "V4096", TRIPLE])
def test_equal_bytes_fill_any_size(device, queue, dtype):
    buffer = device.empty(5, dtype)
    queue.fill(buffer, np.frombuffer(b"\7" * buffer.itemsize, dtype)[0])
    assert set(buffer.get(queue=queue).tobytes()) == {7}


@pytest.mark.executes
@pytest.mark.parametrize(("dtype", "value"), [("V256", bytes(range(1, 65)) * 4), ("V12", b"\1\2\3\4" * 3)])
def test_repeated_bytes_fill_larger_elements(device, queue, dtype, value):
    buffer = device.empty(5, dtype)
    queue.fill(buffer, np.void(value))
    assert buffer.get(queue=queue).tobytes() == value * 5


def of_bytes(buffer, start, count, dtype):
    return buffer[start : start + count * np.dtype(dtype).itemsize].view(dtype)


@pytest.mark.executes
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
    assert np.array_equal(memory.get(queue=queue), expected)


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


@pytest.mark.executes
def test_slices_only(device, queue):
    buffer = device.array(np.arange(20, dtype="u1"))
    queue.fill(buffer[3:7], 255)
    queue.fill(buffer[9], 254)
    expected = list(range(20))
    expected[3:7] = [255] * 4
    expected[9] = 254
    assert buffer.get(queue=queue).tolist() == expected


@pytest.mark.parametrize("shape", [0, (3, 0)])
def test_nothing_is_filled_as_nothing(device, queue, shape):
    queue.fill(device.empty(shape), 1)
    assert (queue.epoch, queue.stats.fills) == (0, 0)


@pytest.mark.executes
def test_it_comes_in_order(device, queue, hold, program):
    buffer = device.zeros(10, "i4")
    device.finish()
    gate = hold(queue)
    queue.fill(buffer, 5)
    queue.launch(program["add"], 1, 10, buffer, 1)
    queue.fill(buffer[:5], 7)
    gate.open()
    assert buffer.get(queue=queue).tolist() == [7] * 5 + [6] * 5


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("u1", 256), ("u1", -1), ("i1", 128), ("i4", 1 << 31), ("i4", 1 << 100), ("u8", -1), ("u8", 1 << 64),
        ("i4", np.int64(1 << 31)), ("u1", np.int64(-1)), ("u1", np.array(256)), ("i4", 1.5), ("i4", 2.0), ("i4", "x"),
        ("i4", 1j), ("f4", 1j), ("f4", "1"), ("f4", 1e39), ("f2", 1e6), ("f2", 70000), ("i4", None), ("f4", None),
        ("f4", [1, 2]), ("i4", [1]), ("i4", np.zeros(3, "i4")), ("f4", object()), ("?", "no"),
        (PAIR, 5), (PAIR, (1, 2, 3)), ("i4", np.zeros(0, "i4")), ("S4", "abcde"), ("c8", 1e39),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused(device, queue, refuses, dtype, value):
    buffer = device.zeros(5, dtype)
    with refuses(fb.InvalidArgumentError, ValueError, "fill"):
        queue.fill(buffer, value)


@pytest.mark.executes
@pytest.mark.parametrize(("dtype", "value"), [("u1", 256), ("i4", 1.5), ("f4", 1e39), ("i4", [1]), (PAIR, (1, 2, 3))])
def test_a_refused_fill_writes_nothing(device, queue, dtype, value):
    buffer = device.array(np.full(5, -1 if dtype != "u1" else 255).astype(dtype))
    before = buffer.get().tobytes()
    with refused(fb.InvalidArgumentError, ValueError, "fill"):
        queue.fill(buffer, value)
    assert any(before)
    assert buffer.get(queue=queue).tobytes() == before


@pytest.mark.parametrize("thing", [None, 5, np.zeros(3), "buffer"])
def test_what_is_no_buffer_is_refused(queue, refuses, thing):
    with refuses(fb.ArgumentTypeError, TypeError, "Buffer", type(thing).__name__):
        queue.fill(thing, 0)


def test_a_closed_buffer_and_a_closed_queue_are_refused(device, queue, make_queue, refuses):
    buffer = device.zeros(3)
    closed = make_queue()
    closed.close()
    with refused(fb.ClosedError, RuntimeError, "Queue", "closed"):
        closed.fill(buffer, 1)
    buffer.close()
    with refuses(fb.ClosedError, RuntimeError, "buf", "closed"):
        queue.fill(buffer, 1)
