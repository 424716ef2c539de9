"""Who keeps the memory of a copy until it is done, and no longer."""

import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data

COUNT = 1000
EVERY = 100  # turns
FEW = 5 * EVERY  # what may wait to be looked for: on a busy machine a CPU device runs only while the program looks


@pytest.fixture
def numbers():
    return np.arange(COUNT, dtype="i4")


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
