"""Indexing as NumPy's, strided copies, and what else NumPy's arrays can do."""

import itertools
import threading

import numpy as np
import pytest

import forebay as fb

pytestmark = pytest.mark.executes

CUBE = np.arange(5 * 6 * 7, dtype="i4").reshape(5, 6, 7)
KEYS = [
    np.s_[::2], np.s_[::-1], np.s_[1:4, 2], np.s_[:, 1], np.s_[..., 3], np.s_[1, 2, 3], np.s_[-1, ::2, ::-3],
    np.s_[:, None, 2], np.s_[:, :, 1:1], np.s_[4:1:-1, 5:0:-2, -1], np.s_[()], np.s_[None], np.s_[2, 1:3],
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_parts_are_those_of_numpy(device, key):
    buffer = device.array(CUBE)
    part = buffer[key]
    assert part.shape == CUBE[key].shape
    assert np.array_equal(part.get(), CUBE[key])
    assert np.array_equal(np.asarray(part), CUBE[key])
    assert np.array_equal(part.copy().get(), CUBE[key])


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_parts_are_set_like_those_of_numpy(device, key):
    buffer, expected = device.array(CUBE), CUBE.copy()
    buffer[key] = 7
    expected[key] = 7
    assert np.array_equal(buffer.get(), expected)
    values = np.random.default_rng(1).integers(0, 100, CUBE[key].shape, "i4")
    buffer[key] = values
    expected[key] = values
    assert np.array_equal(buffer.get(), expected)


def test_contiguous_parts_are_buffers(device):
    buffer = device.array(CUBE)
    for key in (np.s_[2], np.s_[1:3], np.s_[2, 1:3], np.s_[2, 1], np.s_[:, :, :], np.s_[None, 2], np.s_[1, 2, 3]):
        assert isinstance(buffer[key], fb.Buffer), key
    assert isinstance(buffer[:, 1], fb.StridedView)
    assert buffer[:, 1].strides == CUBE[:, 1].strides


def test_parts_of_parts(device):
    buffer = device.array(CUBE)
    assert np.array_equal(buffer[::2, 1:][1, ::2].get(), CUBE[::2, 1:][1, ::2])
    assert np.array_equal(buffer[:, ::2][..., ::3][:, 1].get(), CUBE[:, ::2][..., ::3][:, 1])
    assert np.array_equal(buffer[3][::-1, 2:5].get(), CUBE[3][::-1, 2:5])


@pytest.mark.parametrize("dtype", ["u1", "V3", "f2", "f4", "V6", "f8", "c16", "V12", "V129"])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_elements_of_any_size_that_begin_anywhere(device, dtype, start):
    itemsize = np.dtype(dtype).itemsize
    raw = np.random.default_rng(2).integers(0, 256, start + 30 * itemsize, "u1")
    if start and not device.driver.has_addresses:
        pytest.skip("its parts begin at multiples of some bytes")
    part = device.array(raw)[start:].view(dtype).reshape(5, 6)
    host = raw[start:].view(dtype).reshape(5, 6)
    assert part[::2, 1::3].get().tobytes() == host[::2, 1::3].tobytes()
    assert part[:, ::-1].copy().get().tobytes() == host[:, ::-1].tobytes()


def test_copies_between_strided_memory(device, queue):
    first, second, expected = device.array(CUBE), device.zeros(CUBE.shape, "i4"), np.zeros_like(CUBE)
    device.finish()
    queue.copy(second[1::2, :, ::3], first[:2, :, 4:1:-1])
    expected[1::2, :, ::3] = CUBE[:2, :, 4:1:-1]
    assert np.array_equal(second.get(queue=queue), expected)
    packed = device.empty((5, 7), "i4")
    queue.copy(packed, first[:, 2])
    queue.copy(second[:, 3], packed)
    expected[:, 3] = CUBE[:, 2]
    assert np.array_equal(second.get(queue=queue), expected)


def test_overlapping_parts_are_copied_as_numpy_does(device):
    buffer, expected = device.array(CUBE), CUBE.copy()
    buffer[:, :, ::2] = buffer[:, :, ::-2]
    expected[:, :, ::2] = CUBE[:, :, ::-2]
    assert np.array_equal(buffer.get(), expected)
    buffer[1:] = buffer[:-1].copy()
    expected[1:] = expected[:-1].copy()
    assert np.array_equal(buffer.get(), expected)


def test_in_a_capture(device, queue):
    first, second = device.array(CUBE), device.zeros((5, 7), "i4")
    warm = device.empty((5, 7), "i4")
    queue.copy(warm, first[:, 1])
    device.finish()
    with queue.capture() as graph:
        queue.copy(second, first[:, 2])
    graph.launch(queue)
    assert np.array_equal(second.get(queue=queue), CUBE[:, 2])
    for use in (first[:, 1].get, lambda: first[:, 1].set(3), lambda: first[:, 1].fill(3)):
        with pytest.raises(fb.CaptureError, match="strided"), queue.capture(), queue:
            use()


def test_many_strided_copies(device, queue):
    buffer = device.array(CUBE)
    device.finish()
    for i in range(300):
        buffer[:, 1].fill(i, queue)
        assert buffer[:, 1].get(queue=queue)[4, 3] == i


def test_strided_and_fortran_arrays_are_sources(device, queue):
    buffer = device.empty(CUBE.shape, "i4")
    for host in (np.asfortranarray(CUBE), CUBE[::-1], np.repeat(CUBE, 2, axis=1)[:, ::2]):
        queue.copy(buffer, host)
        assert np.array_equal(buffer.get(queue=queue), host)
        assert np.array_equal(device.array(host).get(), host)


def test_strided_pinned_arrays_are_sources(device, queue, hold):
    pinned = fb.host_empty((64, 2), "i4", device)
    pinned[:] = np.arange(128).reshape(64, 2)
    buffer, expected = device.empty(64, "i4"), pinned[:, 1].copy()
    gate = hold(queue)
    queue.copy(buffer, pinned[:, 1])
    pinned[:] = 0
    gate.open()
    assert np.array_equal(buffer.get(queue=queue), expected)


def test_strided_arrays_to_copy_to(device, queue):
    buffer = device.array(CUBE)
    device.finish()
    for out in (np.zeros(CUBE.shape, "i4", order="F"), np.zeros((5, 12, 7), "i4")[:, ::2]):
        assert buffer.get(out=out) is out
        assert np.array_equal(out, CUBE)
    out = np.zeros((5, 12), "i4")[:, ::2]
    assert np.array_equal(buffer[..., 2].get(out=out), CUBE[..., 2])
    with pytest.raises(fb.ArgumentTypeError, match=r"not C-contiguous .* buffer\.get\(out=array\)"):
        queue.copy(out, device.empty((5, 6), "i4"))


def test_memory_mapped_files_are_sources(device, queue, tmp_path):
    path = tmp_path / "numbers"
    CUBE.tofile(path)
    for mode in ("r", "c"):
        mapped = np.memmap(path, "i4", mode, shape=CUBE.shape)
        assert np.array_equal(device.array(mapped).get(), CUBE)
        buffer = device.empty(CUBE.shape, "i4")
        queue.copy(buffer, mapped)
        queue.copy(buffer[0], mapped[1])
        assert np.array_equal(buffer.get(queue=queue)[0], CUBE[1])
        assert np.array_equal(device.array(mapped[:, ::2]).get(), CUBE[:, ::2])


def test_items(device):
    buffer = device.array(CUBE)
    assert buffer.item(1, 2, 3) == CUBE.item(1, 2, 3)
    assert buffer.item(100) == CUBE.item(100)
    assert buffer.item(-1) == CUBE.item(-1)
    assert type(buffer.item(0)) is int
    assert device.array(2.5).item() == 2.5
    assert buffer[::2, 1].item(1, 2) == CUBE[::2, 1].item(1, 2)


def test_copies_and_fills_of_buffers(device, queue):
    buffer = device.array(CUBE)
    other = buffer.copy()
    buffer.fill(3)
    assert np.array_equal(other.get(), CUBE)
    assert (buffer.get() == 3).all()
    device.finish()
    other.fill(4, queue)
    assert (other.copy(queue).get(queue=queue) == 4).all()


def test_a_buffer_is_set_from_a_buffer(device):
    buffer, other = device.zeros(CUBE.shape, "i4"), device.array(CUBE)
    buffer.set(other)
    assert np.array_equal(buffer.get(), CUBE)
    buffer[1] = other[2]
    buffer[2] = other[0:1].reshape(6, 7)
    assert np.array_equal(buffer.get()[1:3], CUBE[[2, 0]])
    buffer[3] = other[:, 1, :][::2, :1][0, 0].item()
    assert (buffer.get()[3] == CUBE[0, 1, 0]).all()


@pytest.mark.parametrize("dtype", ["V3", "V5", "V24", [("a", "u1"), ("b", "u1"), ("c", "u1")], "V257"])
@pytest.mark.parametrize("count", [1, 2, 3, 1000])
def test_fills_with_elements_of_any_size(device, queue, dtype, count):
    itemsize = np.dtype(dtype).itemsize
    element = np.frombuffer(bytes(i % 251 + 1 for i in range(itemsize)), dtype)[0]
    buffer = device.empty(count, dtype)
    queue.fill(buffer, element)
    assert buffer.get(queue=queue).tobytes() == element.tobytes() * count


def test_fills_of_nothing_with_elements_of_three_bytes(device, queue):
    queue.fill(device.empty(0, "V3"), b"abc")
    queue.finish()


def test_fills_of_strided_parts_with_elements_of_three_bytes(device, queue):
    buffer = device.zeros((4, 4), "V3")
    buffer[:, 1].fill(np.void(b"abc"))
    assert buffer.get()[2].tobytes() == b"\0\0\0abc\0\0\0\0\0\0"


# -- what is refused


@pytest.mark.parametrize("key", [[0, 1], np.array([0, 1]), np.s_[0, [1, 2]], "a", 1.0, np.s_["a":"b"], np.s_[..., ...],
                                 np.s_[0, 0, 0, 0], np.s_[:, True]], ids=str)  # fmt: skip
def test_what_is_no_basic_index(device, refuses, key):
    with refuses(fb.ArgumentTypeError, TypeError):
        device.array(CUBE)[key]


@pytest.mark.parametrize("key", [np.s_[5, 0], np.s_[:, 6], np.s_[..., -8]], ids=str)
def test_indices_out_of_range(device, refuses, key):
    with refuses(fb.OutOfRangeError, IndexError, "out of bounds"):
        device.array(CUBE)[key]


def test_a_launch_with_strided_memory(device, queue, program, refuses):
    with refuses(fb.InvalidArgumentError, ValueError, "argument 0", "int* values", "strides", ".copy()"):
        queue.launch(program["fill"], 1, 1, device.array(CUBE)[::2], 1)


@pytest.mark.parametrize(
    ("to", "source"), list(itertools.product([np.s_[:, 1], np.s_[0]], [np.s_[:, :2], np.s_[::2, 1]]))
)
def test_copies_that_do_not_fit(device, queue, refuses, to, source):
    buffer, other = device.array(CUBE), device.array(CUBE)
    with refuses(fb.InvalidArgumentError, ValueError, "copy"):
        queue.copy(buffer[to], other[source])


def test_closed_memory(device, queue):
    buffer, other = device.array(CUBE), device.zeros((5, 7), "i4")
    part = buffer[:, 1]
    buffer.close()
    for use in (part.get, part.copy, lambda: part.set(1), lambda: part.fill(1), lambda: queue.copy(other, part)):
        with pytest.raises(fb.ClosedError, match="closed"):
            use()
    assert part.closed


def test_items_that_are_not_there(device, refuses):
    buffer = device.array(CUBE)
    with refuses(fb.InvalidArgumentError, ValueError, "210 elements", "index"):
        buffer.item()
    with refuses(fb.InvalidArgumentError, ValueError, "2 indices"):
        buffer.item(0, 0)
    with refuses(fb.OutOfRangeError, IndexError, "1000"):
        buffer.item(1000)


def test_strided_memory_to_the_host_says_get(device, queue, refuses):
    with refuses(fb.ArgumentTypeError, TypeError, "view.get(out=array)"):
        queue.copy(np.zeros((5, 7), "i4"), device.array(CUBE)[:, 1])


# -- in place


@pytest.fixture
def in_place(device):
    """Skips where the host cannot read the memory."""
    if device.info.kind != "cpu" or device.info.backend != "opencl":
        pytest.skip("the host cannot read the device's memory")


@pytest.mark.parametrize("key", [np.s_[::2], np.s_[:, 1], np.s_[1:3, ::3, 2], np.s_[..., ::-2], np.s_[::-1, 2, 1:]])
def test_dlpack_keeps_the_strides(device, in_place, key):
    buffer = device.array(CUBE)
    view = np.from_dlpack(buffer[key])
    assert np.array_equal(view, CUBE[key])
    assert view.strides == CUBE[key].strides
    view[...] = -1
    expected = CUBE.copy()
    expected[key] = -1
    assert np.array_equal(buffer.get(), expected)
    np.asarray(buffer[key], copy=False)[...] = -2
    assert (buffer[key].get() == -2).all()


def test_dlpack_waits_for_the_uses_and_keeps_the_memory(device, queue, program, in_place):
    buffer = device.zeros((32, 32), "i4")
    device.finish()
    for _ in range(200):
        queue.launch(program["add"], 1024, 1, buffer, 1)
    view = np.from_dlpack(buffer[::2, 1])
    assert (view == 200).all()
    buffer.close()
    others = [device.array(np.full(1024, 7, "i4")) for _ in range(8)]
    device.finish()
    assert (view == 200).all()
    assert len(others) == 8


def test_dlpack_copies_when_asked(device, refuses):
    buffer = device.array(CUBE)
    copied = np.from_dlpack(buffer[:, 1], device="cpu", copy=True)
    buffer.fill(0)
    assert np.array_equal(copied, CUBE[:, 1])
    with pytest.raises(BufferError, match="stream"):
        buffer[:, 1].__dlpack__(stream=1)
    with refuses(fb.InvalidArgumentError, ValueError, "copy=False"):
        np.asarray(buffer[:, 1], "f8", copy=False)


@pytest.mark.executes
@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "f8", "V3", "V12", "c16"])
@pytest.mark.parametrize(
    "key", [np.s_[::2, :, 1:3], np.s_[1:, ::2, 1::3, ::-1, :4], np.s_[:, 1, :, 2, 3], np.s_[..., 1:]]
)
def test_axes_in_all_combinations(device, queue, dtype, key):
    """More axes than the kernel has, elements of any size, axes that lie together and axes that do not."""
    dtype = np.dtype(dtype)
    shape = (3, 5, 4, 6, 7)
    values = np.random.default_rng(5).integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
    buffer, other = device.array(values), device.zeros(shape, dtype)
    assert buffer[key].get().tobytes() == values[key].tobytes()
    other[key] = buffer[key]
    expected = np.zeros(shape, dtype)
    expected[key] = values[key]
    assert other.get().tobytes() == expected.tobytes()


@pytest.mark.executes
@pytest.mark.parametrize("width", [1, 2, 3, 63, 64, 65, 200])
@pytest.mark.parametrize("rows", [1, 2, 63, 65, 300_000])
def test_blocks_of_every_shape(device, queue, width, rows):
    if width * rows > 1 << 20:
        rows = (1 << 20) // width + 1
    values = np.arange(rows * (width + 1), dtype="i4").reshape(rows, width + 1)
    buffer = device.array(values)
    packed = buffer[:, :width].copy()
    assert np.array_equal(packed.get(), values[:, :width])
    buffer[:, :width] = packed.get() + 1
    assert np.array_equal(buffer.get()[:, width], values[:, width])


@pytest.mark.executes
def test_in_a_graph_and_in_a_step(device, make_queue):
    """Three times each, and the copies are ordered with what the queue does before and after."""
    queue, buffer, out = make_queue(), device.array(CUBE), device.zeros((5, 4), "i4")
    device.finish()
    with queue.capture() as graph:
        queue.copy(out, buffer[:, 1, 1:5])
        queue.fill(buffer, 7)
    graph.launch(queue)
    assert np.array_equal(out.get(queue=queue), CUBE[:, 1, 1:5])
    graph.launch(queue)
    assert (out.get(queue=queue) == 7).all()
    section = queue.step()
    for value in range(4):
        with section:
            queue.fill(buffer, value)
            queue.copy(out, buffer[:, 1, 1:5])
            queue.fill(buffer, 99)
        assert (out.get(queue=queue) == value).all()


def test_memory_that_is_closed_by_another_thread(device, queue):
    """The call ends, or says that the memory is closed."""
    for _ in range(200):
        buffer = device.zeros((8, 8, 8), "i4")
        thread = threading.Thread(target=buffer.close)
        thread.start()
        try:
            for _ in range(20):
                buffer[:, 1].copy()
                buffer.reshape(-1).view("u1")[3:]
        except fb.ClosedError:
            pass
        thread.join()
