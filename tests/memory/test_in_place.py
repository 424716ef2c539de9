"""Memory that the host and other packages use in place: DLPack, the array interface, ``as_buffer``."""

import array
import gc
import mmap

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused

COUNT = 1 << 10
VALUES = np.arange(COUNT, dtype="i4")


# -- memory of forebay

KEYS = [np.s_[:], np.s_[3], np.s_[1:3], np.s_[::2], np.s_[:, 1], np.s_[1:30, 2::3], np.s_[..., ::-2], np.s_[::-1, 2:]]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_numpy_reads_and_writes_the_memory_itself(device, queue, program, in_place, key):
    expected = VALUES.reshape(32, 32).copy()
    buffer = device.array(expected)
    view = np.from_dlpack(buffer[key])
    assert np.array_equal(view, expected[key])
    assert view.strides == expected[key].strides
    queue.launch(program["add"], COUNT, 1, buffer, 5)
    queue.finish()
    assert np.array_equal(view, expected[key] + 5)
    view[...] = -1
    expected += 5
    expected[key] = -1
    assert np.array_equal(device_data(buffer.get()), expected)
    np.asarray(buffer[key], copy=False)[...] = -2
    assert (device_data(buffer[key].get()) == -2).all()
    with refused(fb.InvalidArgumentError, ValueError, "copy=False"):
        np.asarray(buffer[key], "f8", copy=False)
    assert buffer.__dlpack_device__() == (1, 0)
    for _ in range(100):
        assert (np.from_dlpack(buffer[key]) == -2).all()


@pytest.mark.parametrize("key", [np.s_[:], np.s_[::2, 1]], ids=str)
def test_it_waits_for_the_uses_of_the_memory_alone(device, make_queue, hold, program, in_place, key):
    """Another queue is held for good, and what comes after the last use is, too."""
    using, other = make_queue(blocking=False), make_queue(blocking=False)
    buffer = device.zeros((32, 32), "i4")
    device.finish()
    hold(other)
    other.launch(program["fill"], 1, 1, device.empty(1, "i4"), 1)
    for _ in range(200):
        using.launch(program["add"], COUNT, 1, buffer, 1)
    hold(using)
    using.launch(program["fill"], 1, 1, device.empty(1, "i4"), 1)
    assert (np.from_dlpack(buffer[key]) == 200).all()


@pytest.mark.parametrize("key", [np.s_[:], np.s_[::2]], ids=str)
@pytest.mark.parametrize("how", ["closed", "dropped", "device closed"])
def test_the_memory_lives_as_long_as_the_array(device, in_place, how, key):
    own = fb.Device(device.name)
    buffer = own.array(VALUES)
    view = np.from_dlpack(buffer[key])
    if how == "closed":
        buffer.close()
    elif how == "device closed":
        own.close()
    del buffer
    gc.collect()
    others = [] if how == "device closed" else [own.zeros(COUNT, "i4") for _ in range(8)]
    if others:
        own.finish()
    assert np.array_equal(view, VALUES[key])
    view[:] = 9
    assert not any(other.get().any() for other in others)
    own.close()


def test_numpy_makes_arrays_of_buffers(device):
    buffer = device.array(VALUES)
    device.finish()
    assert device_data(np.asarray(buffer).sum()) == VALUES.sum()
    assert np.array_equal(device_data(np.asarray(buffer, "f8")), VALUES.astype("f8"))
    assert np.array_equal(device_data(np.array([buffer, buffer])), np.array([VALUES, VALUES]))
    copied, part = (np.from_dlpack(each, device="cpu", copy=True) for each in (buffer, buffer[::2]))
    buffer.fill(0)
    assert np.array_equal(device_data(copied), VALUES)
    assert np.array_equal(device_data(part), VALUES[::2])


def test_what_cannot_be_handed_out(device, queue, in_place):
    with pytest.raises(BufferError, match=r"\.get\(\)"):
        np.from_dlpack(queue.alloc(COUNT, "i4"))
    assert np.from_dlpack(queue.alloc(COUNT, "i4"), device="cpu").size == COUNT
    for part in (device.empty(4), device.empty(4)[::2]):
        with pytest.raises(BufferError, match="stream"):
            part.__dlpack__(stream=1)
    with pytest.raises(BufferError):
        np.from_dlpack(device.empty(4, [("a", "i4"), ("b", "f4")]))
    buffer = device.zeros(4)
    queue.host(lambda: np.from_dlpack(buffer))
    with pytest.raises(fb.Error, match="host function"):
        queue.finish()
    with pytest.raises(fb.CaptureError), queue.capture():
        np.from_dlpack(buffer)
    buffer.close()
    with refused(fb.ClosedError, RuntimeError, "closed"):
        np.from_dlpack(buffer)


def test_memory_of_a_device_that_the_host_cannot_read(device, hold, queue):
    if device.info.kind == "cpu":
        pytest.skip("the host reads it")
    with pytest.raises(BufferError, match=r"\.get\(\)"):
        np.from_dlpack(device.empty(4))


def test_the_memory_counts_as_changing_while_the_array_lives(device, queue, program, in_place):
    """A size of scratch is measured at each launch then."""
    kernel = device.program(
        "kernel void k(global const int *n, global int *room, global int *to) { for (int i = 0; i < n[0]; i++) "
        "room[i] = i; to[0] = room[n[0] - 1]; }")["k"]  # fmt: skip
    kernel.scratch("room", fb.MaxOver("n") * 4)
    n, to = device.array(np.array([10], "i4")), device.zeros(1, "i4")
    view = np.from_dlpack(n)
    for size in (10, 1000, 100_000):
        view[0] = size
        queue.launch(kernel, 1, 1, n, to)
        queue.finish()
        assert device_data(to.get(queue=queue)[0]) == size - 1


# -- memory of the host


def page():
    made = mmap.mmap(-1, 4 * COUNT)
    np.frombuffer(made, "i4")[:] = VALUES
    return made


class DLPack:
    """A foreign array that shows nothing but DLPack."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


OWNERS = {
    "NumPy": VALUES.copy,
    "array.array": lambda: array.array("i", VALUES.tolist()),
    "bytearray": lambda: bytearray(VALUES.tobytes()),
    "mmap": page,
    "DLPack": lambda: DLPack(VALUES.copy()),
}


@pytest.mark.parametrize("make", OWNERS.values(), ids=OWNERS)
def test_the_device_uses_memory_of_the_host(device, queue, program, takes_host, make):
    owner = make()
    buffer = device.as_buffer(owner).view("i4")
    for _ in range(20):
        queue.launch(program["add"], COUNT, 1, buffer, 1)
    queue.finish()
    seen = owner.values if isinstance(owner, DLPack) else np.frombuffer(owner, "i4")
    assert np.array_equal(seen, VALUES + 20)
    assert np.array_equal(buffer.host, VALUES + 20)
    if isinstance(owner, DLPack):  # as an argument, too
        queue.launch(program["add"], COUNT, 1, owner, 1)
        program["add"][COUNT, 1, queue](owner, 1)
        queue.finish()
        assert np.array_equal(seen, VALUES + 22)
    queue.copy(buffer, device.array(VALUES[::-1].copy()))
    queue.finish()
    assert np.array_equal(seen, VALUES[::-1])


def test_memory_of_forebay_comes_back(device, queue, in_place, takes_host):
    buffer = device.array(VALUES)
    again = device.as_buffer(np.from_dlpack(buffer))
    queue.fill(again, 4)
    assert (device_data(buffer.get(queue=queue)) == 4).all()
    assert again.address == buffer.address


def test_what_is_refused(device, queue, program, takes_host, refuses):
    class Elsewhere(DLPack):
        def __dlpack_device__(self):
            return (2, 0)

    with refuses(fb.ArgumentTypeError, TypeError, "argument 0", "int32", ".view"):
        queue.launch(program["fill"], 1, 1, DLPack(np.zeros(4, "f8")), 1)
    frozen = VALUES.copy()
    frozen.flags.writeable = False
    for wrong, word in ((frozen, "read-only"), (VALUES[::2], "np.ascontiguousarray"), (np.array([None]), "Python")):
        with refused(fb.InvalidArgumentError, ValueError, "as_buffer", word):
            device.as_buffer(wrong)
    for wrong in (3, None, "text", [1, 2]):
        with refused(fb.ArgumentTypeError, TypeError, "as_buffer", type(wrong).__name__, "Device.array"):
            device.as_buffer(wrong)
    with refused(fb.ArgumentTypeError, TypeError, "Elsewhere", "another device"):
        device.as_buffer(Elsewhere(VALUES))


def test_devices_that_do_not_reach_the_host(device):
    if device.driver.takes_host:
        pytest.skip("it does")
    with refused(fb.Error, Exception, "as_buffer", "Device.array"):
        device.as_buffer(VALUES.copy())


def test_the_owner_lives_until_the_work_is_done(device, queue, hold, program, takes_host):
    values, out = VALUES.copy(), device.zeros(COUNT, "i4")
    kept = np.frombuffer(memoryview(values), "i4")
    device.finish()
    gate = hold(queue)
    queue.launch(program["copy"], COUNT, 1, out, DLPack(values))
    before = len(gc.get_referrers(values))
    del values
    gc.collect()
    gate.open()
    assert np.array_equal(device_data(out.get(queue=queue)), kept)
    assert before


def test_read_only_memory_is_a_source_like_any_other(device, queue, program, takes_host):
    """NumPy shows all of DLPack 0.x as read-only."""

    class Tensor(DLPack):
        def __dlpack__(self, **options):
            return self.values.__dlpack__()

    tensor = Tensor(np.arange(100, dtype="i4"))
    assert not np.from_dlpack(tensor).flags.writeable
    total = fb.reduction("T x", "T y", "x", "a + b", name="total")
    copy, launched, graph = device.empty(100, "i4"), device.empty(100, "i4"), device.graph()
    queue.copy(copy, tensor)
    queue.launch(program["copy"], 10, 10, launched, tensor)
    for buffer in (copy, launched):
        assert np.array_equal(device_data(buffer.get(queue=queue)), tensor.values)
    assert device_data(total(tensor, queue=queue).get(queue=queue)) == 4950
    graph.add_copy(copy, tensor)
    for write in (
        lambda: queue.copy(tensor, copy),
        lambda: graph.add_copy(tensor, copy),
        lambda: queue.launch(program["fill"], 1, 1, tensor, 1),
        lambda: total(copy, tensor, queue=queue),
    ):
        with refused(fb.InvalidArgumentError, ValueError, "read-only"):
            write()
