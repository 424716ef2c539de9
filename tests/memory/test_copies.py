import array
import ctypes
import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from tests.helpers.refusals import refused

COUNT = 1000


@pytest.fixture
def numbers():
    return np.arange(COUNT, dtype="i4")


def pinned(device, host):
    result = fb.host_empty(host.shape, host.dtype, device=device)
    result[...] = host
    return result


# Directions


@pytest.mark.parametrize("source", ["pageable", "pinned"])
@pytest.mark.parametrize("destination", ["pageable", "pinned"])
def test_up_across_and_down(device, queue, numbers, source, destination, really):
    host = numbers if source == "pageable" else pinned(device, numbers)
    out = np.empty_like(numbers) if destination == "pageable" else fb.host_empty(COUNT, "i4", device=device)
    first, second = device.empty(COUNT, "i4"), device.empty(COUNT, "i4")
    queue.copy(first, host)
    queue.copy(second, first)
    queue.copy(out, second)
    queue.finish()
    assert out.tolist() == numbers.tolist() or not really
    assert queue.stats.copies == 3


@pytest.mark.executes
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
    assert out.tolist() == expected.tolist()


@pytest.mark.executes
def test_within_one_buffer(device, queue, numbers):
    buffer = device.array(numbers)
    queue.copy(buffer[500:], buffer[:500])
    assert buffer.get(queue=queue).tolist() == [*range(500), *range(500)]


@pytest.mark.executes
@pytest.mark.parametrize(
    "make",
    [bytes, bytearray, memoryview, lambda data: array.array("B", data), (ctypes.c_ubyte * 40).from_buffer_copy,
     lambda data: np.frombuffer(data, "M8[s]"), lambda data: memoryview(data).cast("I")],
)  # fmt: skip
def test_anything_with_a_buffer_is_a_source(device, queue, make):
    data = bytes(range(40))
    buffer = device.empty(10, "i4")
    queue.copy(buffer, make(data))
    assert buffer.get(queue=queue).tobytes() == data


@pytest.mark.executes
@pytest.mark.parametrize(
    "out",
    [bytearray(40), array.array("B", bytes(40)), (ctypes.c_ubyte * 40)(), np.zeros((2, 5), "i4"), np.zeros(5, "M8[s]"),
     memoryview(bytearray(40))],
)  # fmt: skip
def test_anything_writable_with_a_buffer_is_a_destination(device, queue, out):
    buffer = device.array(np.arange(40, dtype="u1"))
    queue.copy(out, buffer)
    queue.finish()
    assert (out.tobytes() if hasattr(out, "tobytes") else bytes(out)) == bytes(range(40))


PAIR = [("a", "f4"), ("b", "i4")]


@pytest.mark.executes
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
    assert out.tobytes() == bytes(range(64))


TWO_TYPES = [("f4", "i4"), ("i4", "f4"), ("f8", "i8"), ("f4", "f8"), ("u2", "e"), ("i4", "i8"), ("c8", "i4"),
             ("c16", "f4")]  # fmt: skip


@pytest.mark.parametrize(("dst", "src"), TWO_TYPES)
def test_numbers_of_two_types_are_refused(device, queue, refuses, dst, src):
    nbytes = 64
    to, source = (device.zeros(nbytes // np.dtype(each).itemsize, each) for each in (dst, src))
    host, out = source.get(queue=queue), to.get(queue=queue)
    for there, here in ((to, source), (to, host), (out, source)):
        with refuses(fb.ArgumentTypeError, TypeError, str(to.dtype), str(source.dtype), f".view({to.dtype.str[1:]!r})"):
            queue.copy(there, here)
    queue.copy(to, source.view(dst))
    queue.copy(to, host.view(dst))
    queue.copy(out, source.view(dst))
    queue.finish()


@pytest.mark.parametrize(
    "host",
    [array.array("f", bytes(64)), memoryview(bytes(64)).cast("f"), (ctypes.c_float * 16)(), (ctypes.c_int64 * 8)()],
)
def test_numbers_of_two_types_are_refused_whatever_holds_them(device, queue, refuses, host):
    buffer = device.zeros(16, "i4")
    with refuses(fb.ArgumentTypeError, TypeError, "int32", ".view('i4')"):
        queue.copy(buffer, host)
    if not memoryview(host).readonly:
        with refuses(fb.ArgumentTypeError, TypeError, "int32"):
            queue.copy(host, buffer)


@pytest.mark.parametrize(("dst", "src"), [("f4", "i4"), ("i8", "f8")])
def test_numbers_of_two_types_are_refused_with_strides(device, queue, refuses, dst, src):
    to, source = device.zeros(16, dst), device.zeros(16, src)
    for there, here in ((to[::2], source[::2]), (to[:8], source[::2]), (to[::2], source[:8])):
        with refuses(fb.ArgumentTypeError, TypeError, str(to.dtype), str(source.dtype), ".view"):
            queue.copy(there, here)


@pytest.mark.parametrize(("dst", "src"), [("f4", "i4"), ("i4", "f8")])
def test_numbers_of_two_types_are_refused_in_graphs(device, queue, refuses, dst, src):
    to, source = (device.zeros(64 // np.dtype(each).itemsize, each) for each in (dst, src))
    host, out = source.get(queue=queue), to.get(queue=queue)
    pairs = ((to, source), (to, host), (out, source))
    graph = device.graph()
    for there, here in pairs:
        with refused(fb.ArgumentTypeError, TypeError, str(to.dtype), str(source.dtype), ".view"):
            graph.add_copy(there, here)
    for there, here in pairs:
        with refused(fb.ArgumentTypeError, TypeError, ".view"), queue.capture():
            queue.copy(there, here)
    node = graph.add_copy(to, source.view(dst))
    executable = graph.instantiate()
    with refused(fb.ArgumentTypeError, TypeError, ".view"):
        executable.set_copy(node, to, source)
    executable.launch(queue)
    queue.finish()


@pytest.mark.parametrize("pin", [False, True])
def test_nothing_is_copied_as_nothing(device, queue, pin):
    buffer = device.empty(0, "i4")
    host = fb.host_empty(0, "i4", device=device) if pin else np.empty(0, "i4")
    queue.copy(buffer, host)
    queue.copy(host, buffer)
    queue.copy(device.empty((5, 0), "i4"), buffer)
    assert queue.empty
    assert (queue.epoch, queue.stats.copies) == (0, 0)


@pytest.mark.executes
@pytest.mark.parametrize("nbytes", [1, 3, 4095, 4097, (1 << 22) + 1])
def test_any_number_of_bytes(device, queue, nbytes):
    host = (np.arange(nbytes) * 7 % 251).astype("u1")
    buffer = device.empty(nbytes, "u1")
    queue.copy(buffer, host)
    out = np.empty_like(host)
    queue.copy(out, buffer)
    queue.finish()
    assert np.array_equal(out, host)


# Time


@pytest.mark.executes
def test_a_pageable_source_may_be_reused_at_once(device, queue, hold, numbers):
    buffer = device.zeros(COUNT, "i4")
    device.finish()
    gate = hold(queue)
    queue.copy(buffer, numbers)
    numbers[:] = -1
    gate.open()
    assert buffer.get(queue=queue).tolist() == list(range(COUNT))


@pytest.mark.executes
def test_a_pageable_source_may_be_freed_at_once(device, queue, hold):
    buffers = [device.zeros(1 << 16, "i4") for _ in range(8)]
    device.finish()
    gate = hold(queue)
    for value, buffer in enumerate(buffers):
        queue.copy(buffer, np.full(1 << 16, value, "i4"))
    gc.collect()
    pressure = [np.full(1 << 16, -1, "i4") for _ in range(16)]
    gate.open()
    queue.finish()
    for value, buffer in enumerate(buffers):
        assert set(buffer.get().tolist()) == {value}
    assert len(pressure) == 16


@pytest.mark.executes
def test_a_pinned_source_is_read_when_the_queue_gets_there(device, queue, hold, numbers):
    host = pinned(device, numbers)
    buffer = device.zeros(COUNT, "i4")
    device.finish()
    gate = hold(queue)
    queue.copy(buffer, host[:])
    host[:] = -1  # not allowed to a user; here it shows that nothing was staged
    gate.open()
    assert buffer.get(queue=queue).tolist() == [-1] * COUNT


@pytest.mark.executes
def test_pinned_memory_stays_until_it_was_copied(device, queue, hold, numbers):
    buffer, out = device.zeros(COUNT, "i4"), device.array(numbers)
    device.finish()
    gate = hold(queue)
    queue.copy(buffer, pinned(device, numbers)[:])
    queue.copy(fb.host_empty(COUNT, "i4", device=device)[:], out)
    gc.collect()
    pressure = [pinned(device, np.full(COUNT, -1, "i4")) for _ in range(16)]
    gate.open()
    assert buffer.get(queue=queue).tolist() == list(range(COUNT))
    assert {value for host in pressure for value in host.tolist()} == {-1}


@pytest.fixture
def downloads_are_asynchronous(device):
    if not device.driver.takes_pageable:
        pytest.skip("a copy to pageable memory blocks on this device")


class Watched(np.ndarray):
    pass


@pytest.mark.executes
def test_a_destination_stays_until_the_copy_is_done_and_no_longer(
    device, queue, hold, numbers, downloads_are_asynchronous
):
    buffer = device.array(numbers)
    device.finish()
    out = np.zeros(COUNT, "i4").view(Watched)
    alive = weakref.ref(out)
    gate = hold(queue)
    queue.copy(out, buffer)
    del out
    gc.collect()
    assert alive() is not None
    gate.open()
    queue.finish()
    assert alive() is None


@pytest.mark.executes
def test_a_destination_cannot_be_moved_meanwhile(device, queue, hold, downloads_are_asynchronous):
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


@pytest.mark.executes
def test_a_download_arrives_when_the_queue_gets_there(device, queue, hold, program):
    buffer = device.zeros(COUNT, "i4")
    device.finish()
    out = pinned(device, np.full(COUNT, -1, "i4"))
    gate = hold(queue)
    queue.launch(program["fill"], 10, 100, buffer, 3)
    queue.copy(out, buffer)
    queue.launch(program["fill"], 10, 100, buffer, 4)
    assert out.tolist() == [-1] * COUNT
    gate.open()
    queue.finish()
    assert out.tolist() == [3] * COUNT


# What is refused


@pytest.mark.parametrize(
    "host", [np.zeros(20, "i4")[::2], np.zeros((4, 5), "f2", order="F"), np.zeros((4, 6), "i2")[:, 1:]]
)
def test_nothing_is_copied_to_memory_that_is_not_contiguous(device, queue, refuses, host):
    buffer = device.zeros(10, "i4")
    with refuses(fb.ArgumentTypeError, TypeError, "not C-contiguous", str(host.strides), "get(out=array)"):
        queue.copy(host, buffer)
    with refuses(fb.ArgumentTypeError, TypeError, "not C-contiguous", "np.ascontiguousarray"):
        device.graph().add_copy(buffer, host)


def frozen():
    host = np.zeros(10, "i4")
    host.flags.writeable = False
    return host


@pytest.mark.executes
@pytest.mark.parametrize("host", [frozen(), bytes(40), memoryview(bytes(40))])
def test_a_destination_that_is_read_only_is_refused(device, queue, refuses, host):
    buffer = device.zeros(10, "i4")
    with refuses(fb.ArgumentTypeError, TypeError, "writable", type(host).__name__):
        queue.copy(host, buffer)
    queue.copy(buffer, host)
    assert not buffer.get(queue=queue).any()


@pytest.mark.parametrize("size", [0, 9, 11, 1000])
def test_sizes_that_differ_are_refused(device, queue, refuses, size):
    buffer, other, host = device.zeros(10, "i4"), device.zeros(size, "i4"), np.zeros(size, "i4")
    for dst, src in ((buffer, host), (host, buffer), (buffer, other), (other, buffer)):
        with refuses(fb.InvalidArgumentError, ValueError, "40 bytes", f"{4 * size} bytes"):
            queue.copy(dst, src)


@pytest.mark.parametrize(("dst", "src"), [((0, 5), (0, 5)), ((0, 5), (4, 9)), ((4, 9), (0, 5)), ((2, 3), (2, 3))])
def test_overlap_is_refused(device, queue, refuses, dst, src):
    buffer = device.zeros(10, "i4")
    with refuses(fb.InvalidArgumentError, ValueError, "overlap"):
        queue.copy(buffer[slice(*dst)], buffer[slice(*src)])
    queue.copy(buffer[0:5], buffer[5:10])
    queue.finish()


@pytest.mark.parametrize("thing", [None, 5, "text", [1, 2, 3], object()])
def test_what_has_no_memory_is_refused(device, queue, refuses, thing):
    buffer = device.zeros(3, "i4")
    for dst, src in ((buffer, thing), (thing, buffer)):
        with refuses(fb.ArgumentTypeError, TypeError, "copy", type(thing).__name__):
            queue.copy(dst, src)


def test_a_copy_without_a_buffer_is_refused(queue, refuses):
    with refuses(fb.ArgumentTypeError, TypeError, "Buffer", "ndarray"):
        queue.copy(np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("wrap", [lambda host: host, memoryview])
def test_references_to_python_objects_are_no_bytes(device, queue, refuses, wrap):
    buffer = device.zeros(1, "u8")
    host = np.array([{}], object)
    for dst, src in ((buffer, host), (host, buffer)):
        with refuses(fb.ArgumentTypeError, TypeError, "objects"):
            queue.copy(wrap(dst) if dst is host else dst, wrap(src) if src is host else src)
    assert host[0] == {}


def test_a_closed_queue_copies_nothing(device, make_queue, works):
    queue = make_queue()
    queue.close()
    buffer = device.zeros(3)
    for dst, src in ((buffer, np.zeros(3, "f4")), (np.zeros(3, "f4"), buffer), (buffer, device.zeros(3))):
        with refused(fb.ClosedError, RuntimeError, "Queue", "closed"):
            queue.copy(dst, src)
    works(device.null_queue)
