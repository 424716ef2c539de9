import array
import ctypes
import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.pinned import pinned
from tests.helpers.refusals import refused

COUNT = 1000


@pytest.fixture
def numbers():
    return np.arange(COUNT, dtype="i4")


# Directions


@pytest.mark.parametrize("pin", [False, True])
def test_parts(device, queue, numbers, pin):
    host = pinned(device, numbers) if pin else numbers
    buffer, other = device.zeros(COUNT, "i4"), device.zeros(COUNT, "i4")
    device.finish()
    queue.copy(buffer[100:200], host[300:400])
    queue.copy(other[7:17], buffer[110:120])
    out = pinned(device, np.zeros(COUNT, "i4")) if pin else np.zeros(COUNT, "i4")
    queue.copy(out[50:60], other[7:17])
    queue.finish()
    expected = np.zeros(COUNT, "i4")
    expected[50:60] = range(310, 320)
    assert device_data(out.tolist()) == expected.tolist()


HOLDERS = {
    "bytes": bytes,
    "bytearray": bytearray,
    "a view of bytes": memoryview,
    "a writable view": lambda data: memoryview(bytearray(data)),
    "a view of numbers": lambda data: memoryview(bytearray(data)).cast("I"),
    "array": lambda data: array.array("B", data),
    "ctypes": (ctypes.c_ubyte * 40).from_buffer_copy,
    "NumPy, read-only": lambda data: np.frombuffer(data, "u1"),
    "NumPy": lambda data: np.frombuffer(bytearray(data), "i4").reshape(2, 5),
    "times": lambda data: np.frombuffer(bytearray(data), "M8[s]"),
}


@pytest.mark.parametrize("make", HOLDERS.values(), ids=HOLDERS)
def test_anything_with_a_buffer_is_a_source_and_a_destination(device, queue, make):
    data, buffer, out = bytes(range(40)), device.empty(10, "i4"), make(bytes(40))
    queue.copy(buffer, make(data))
    assert device_data(buffer.get(queue=queue).tobytes()) == data
    if out.flags.writeable if isinstance(out, np.ndarray) else not memoryview(out).readonly:
        queue.copy(out, buffer.view("u1"))
        queue.finish()
        assert device_data(out.tobytes() if hasattr(out, "tobytes") else bytes(out)) == data


PAIR = [("a", "f4"), ("b", "i4")]


@pytest.mark.parametrize(
    ("dst", "src"),
    [("i2", "u1"), ("f8", "i1"), ("S8", "f4"), ("u4", "i4"), ("f4", "c8"), (PAIR, "i8"), ("f8", PAIR), ("?", "f4"),
     ("M8[s]", "f8")],
)  # fmt: skip
def test_shapes_may_differ_and_types_whose_numbers_are_alike(device, queue, dst, src):
    """Bytes and structures go everywhere; the sign makes no difference, and a complex number is two."""
    host = np.frombuffer(bytes(range(64)), src)
    buffer, other = device.empty(64 // np.dtype(dst).itemsize, dst), device.empty((2, host.size // 2), src)
    out = np.empty(buffer.size, dst)
    queue.copy(buffer, host)
    queue.copy(other, buffer)
    queue.copy(out, other)
    queue.finish()
    assert device_data(out.tobytes()) == bytes(range(64))


@pytest.mark.parametrize(
    ("dst", "src"),
    [("f4", "i4"), ("i4", "f4"), ("f8", "i8"), ("i8", "f8"), ("f4", "f8"), ("u2", "f2"), ("i4", "i8"), ("c8", "i4"),
     ("c16", "f4")],
)  # fmt: skip
def test_numbers_of_two_types_are_refused(device, queue, refuses, dst, src):
    to, source = (device.zeros(64 // np.dtype(each).itemsize, each) for each in (dst, src))
    host, out, graph = source.get(queue=queue), to.get(queue=queue), device.graph()
    words = str(to.dtype), str(source.dtype), f".view({to.dtype.str[1:]!r})"
    pairs = [(to, source), (to, host), (out, source)]
    if to.itemsize == source.itemsize:
        pairs += [(to[::2], source[::2]), (to[: to.size // 2], source[::2]), (to[::2], source[: to.size // 2])]
    for there, here in pairs:
        with refuses(fb.ArgumentTypeError, TypeError, *words):
            queue.copy(there, here)
    for there, here in pairs[:3]:
        with refused(fb.ArgumentTypeError, TypeError, *words):
            graph.add_copy(there, here)
        with refused(fb.ArgumentTypeError, TypeError, *words), queue.capture():
            queue.copy(there, here)
    for there, here in ((to, source), (to, host), (out, source)):
        queue.copy(there, here.view(dst))
    node = graph.add_copy(to, source.view(dst))
    executable = graph.instantiate()
    with refused(fb.ArgumentTypeError, TypeError, ".view"):
        executable.set_copy(node, to, source)
    executable.launch(queue)
    queue.finish()


@pytest.mark.parametrize(
    "host",
    [array.array("f", bytes(64)), memoryview(bytearray(64)).cast("f"), (ctypes.c_float * 16)(), (ctypes.c_int64 * 8)()],
    ids=type,
)
def test_numbers_of_two_types_are_refused_whatever_holds_them(device, queue, refuses, host):
    buffer = device.zeros(16, "i4")
    for there, here in ((buffer, host), (host, buffer)):
        with refuses(fb.ArgumentTypeError, TypeError, "int32"):
            queue.copy(there, here)


@pytest.mark.parametrize("pin", [False, True])
def test_nothing_is_copied_as_nothing(device, queue, pin):
    buffer = device.empty(0, "i4")
    host = fb.host_empty(0, "i4", device=device) if pin else np.empty(0, "i4")
    queue.copy(buffer, host)
    queue.copy(host, buffer)
    queue.copy(device.empty((5, 0), "i4"), buffer)
    assert queue.empty
    assert (queue.epoch, queue.stats.copies) == (0, 0)


@pytest.mark.parametrize("nbytes", [1, 3, 4095, 4097, (1 << 22) + 1])
def test_any_number_of_bytes(device, queue, nbytes):
    host = (np.arange(nbytes) * 7 % 251).astype("u1")
    buffer = device.empty(nbytes, "u1")
    queue.copy(buffer, host)
    out = np.empty_like(host)
    queue.copy(out, buffer)
    queue.finish()
    assert np.array_equal(device_data(out), host)


# Time


def test_a_pageable_source_may_be_reused_at_once(device, queue, hold, numbers):
    buffer = device.zeros(COUNT, "i4")
    device.finish()
    gate = hold(queue)
    queue.copy(buffer, numbers)
    numbers[:] = -1
    gate.open()
    assert device_data(buffer.get(queue=queue).tolist()) == list(range(COUNT))


def test_a_destination_cannot_be_moved_meanwhile(device, queue, hold):
    if not device.driver.takes_pageable:
        pytest.skip("a copy to pageable memory blocks on this device")
    buffer = device.zeros(10, "u1")
    device.finish()
    out, numbers = bytearray(10), np.ones(10, "u1")
    gate = hold(queue)
    queue.copy(out, buffer)
    queue.copy(numbers, buffer)
    with pytest.raises(BufferError):
        out.extend(b"more")
    with pytest.raises(ValueError, match="resize"):
        numbers.resize(1000)
    gate.open()
    queue.finish()
    out.extend(b"more")
    assert out == bytes(10) + b"more"
    assert not numbers.any()


# Who keeps the memory of a copy until it is done, and no longer


EVERY = 100  # turns
FEW = 5 * EVERY  # what may wait to be looked for: on a busy machine a CPU device runs only while the program looks


@pytest.fixture
def buffer(device, numbers):
    buffer = device.array(numbers)
    device.finish()
    return buffer


class Watched(np.ndarray):
    pass


def test_pinned_memory_outlives_its_device(device, pins_of, numbers):
    with fb.Device(device.name, private=True) as own:
        pins = pins_of(own)
        host = fb.host_empty(COUNT, "i4", device=own)
        host[:] = numbers
        own.queue().copy(own.empty(COUNT, "i4"), host)
        other = fb.host_empty(COUNT, "i4", device=own)
        own.queue().copy(other, own.zeros(COUNT, "i4"))
        del other
    gc.collect()
    assert host.tolist() == numbers.tolist()
    assert pins() == 1
    del host
    gc.collect()
    assert pins() == 0


@pytest.mark.parametrize("show", [memoryview, lambda host: host[100:].reshape(30, 30), lambda host: host.view("u1")])
def test_pinned_memory_is_known_whatever_shows_it(device, queue, hold, buffer, numbers, show):
    host = fb.host_empty(COUNT, "i4", device=device)
    host[:] = numbers
    shown = show(host)
    nbytes = memoryview(shown).nbytes
    gate = hold(queue)
    queue.copy(buffer[: nbytes // 4].view("u1"), shown)
    host[:] = -1  # not allowed to a user; here it shows that nothing was staged
    gate.open()
    assert device_data(set(buffer.get(queue=queue)[: nbytes // 4].tolist())) == {-1}


def test_memory_beside_pinned_memory_is_not_taken_for_it(device, queue, hold, buffer, numbers):
    """Also where the pinned memory was before."""
    pinned = fb.host_empty(COUNT, "i4", device=device)
    address = pinned.ctypes.data
    around = [np.empty(COUNT, "i4") for _ in range(100)]
    around.sort(key=lambda host: abs(host.ctypes.data - address))
    del pinned
    device.finish()
    around += [np.empty(COUNT, "i4") for _ in range(100)]
    gate = hold(queue)
    parts = [device.empty(COUNT, "i4") for _ in around]
    for host, part in zip(around, parts, strict=True):
        host[:] = numbers
        queue.copy(part, host)
        host[:] = -1
    gate.open()
    queue.finish()
    assert all(device_data(part.get().tolist()) == numbers.tolist() for part in parts)


# A program that never waits


FRESH = {
    "pinned memory": lambda device, buffer: (buffer, fb.host_empty(COUNT, "i4", device=device)),
    "a source": lambda device, buffer: (buffer, np.zeros(COUNT, "i4")),
    "a destination": lambda device, buffer: (np.zeros(COUNT, "i4").view(Watched), buffer),
}


@pytest.mark.executes  # on null hardware no event is ever reached by itself
@pytest.mark.parametrize("make", FRESH.values(), ids=FRESH)
def test_a_program_that_never_waits_keeps_little(device, queue, buffer, pins, staged, make):
    """Copies of ever new memory, until what is kept is little again, which it is once the device has caught up."""
    arrays = []
    for turn in range(100_000):
        ends = make(device, buffer)
        queue.copy(*ends)
        arrays += [weakref.ref(end) for end in ends if isinstance(end, Watched)]
        del ends
        if turn > 1000 and turn % EVERY == 0:
            kept = pins() + staged() + sum(array() is not None for array in arrays)
            if kept <= FEW:
                break
    assert kept <= FEW
    queue.finish()
