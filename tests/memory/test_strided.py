"""Indexing as NumPy's, strided copies, and what else NumPy's arrays can do."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data

CUBE = np.arange(5 * 6 * 7, dtype="i4").reshape(5, 6, 7)
KEYS = [
    np.s_[::2], np.s_[::-1], np.s_[1:4, 2], np.s_[:, 1], np.s_[..., 3], np.s_[1, 2, 3], np.s_[-1, ::2, ::-3],
    np.s_[:, None, 2], np.s_[:, :, 1:1], np.s_[4:1:-1, 5:0:-2, -1], np.s_[()], np.s_[None], np.s_[2, 1:3],
    0, 4, -1, -5, np.int8(2), np.s_[:], np.s_[1:3], np.s_[-2:], np.s_[3:1], np.s_[2:100], np.s_[5:5], np.s_[::1],
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_parts_are_those_of_numpy(device, key):
    buffer, expected = device.array(CUBE), CUBE.copy()
    part = buffer[key]
    assert part.shape == CUBE[key].shape
    for found in (part.get(), np.asarray(part), part.copy().get()):
        assert np.array_equal(device_data(found), CUBE[key])
    for values in (7, np.random.default_rng(1).integers(0, 100, CUBE[key].shape, "i4")):
        buffer[key] = expected[key] = values
        assert np.array_equal(device_data(buffer.get()), expected)


def test_contiguous_parts_are_buffers(device):
    buffer = device.array(CUBE)
    for key in (np.s_[2], np.s_[1:3], np.s_[2, 1:3], np.s_[2, 1], np.s_[:, :, :], np.s_[None, 2], np.s_[1, 2, 3]):
        assert isinstance(buffer[key], fb.Buffer), key
    assert isinstance(buffer[:, 1], fb.StridedView)
    assert buffer[:, 1].strides == CUBE[:, 1].strides


@pytest.mark.parametrize("dtype", ["u1", "V3", "f2", "f4", "V6", "f8", "c16", "V12", "V129"])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_elements_of_any_size_that_begin_anywhere(device, dtype, start):
    itemsize = np.dtype(dtype).itemsize
    raw = np.random.default_rng(2).integers(0, 256, start + 30 * itemsize, "u1")
    if start and not device.driver.has_addresses:
        pytest.skip("its parts begin at multiples of some bytes")
    part = device.array(raw)[start:].view(dtype).reshape(5, 6)
    host = raw[start:].view(dtype).reshape(5, 6)
    assert device_data(part[::2, 1::3].get().tobytes()) == host[::2, 1::3].tobytes()
    assert device_data(part[:, ::-1].copy().get().tobytes()) == host[:, ::-1].tobytes()


@pytest.mark.parametrize("assign", [
    lambda to, x: to.__setitem__(np.s_[1::2, :, ::3], x[:2, :, 4:1:-1]),
    lambda to, x: to.__setitem__(np.s_[:, 3], x[:, 2].copy()),
    lambda to, x: x.__setitem__(np.s_[:, :, ::2], x[:, :, ::-2]),  # parts that overlap
    lambda to, x: x.__setitem__(np.s_[1:], x[:-1].copy()),
    lambda to, x: x.__setitem__(np.s_[2:4], x[:2]),
    lambda to, x: to.__setitem__(1, x[2]),
    lambda to, x: to.__setitem__(2, x[0:1].reshape(6, 7)),
    lambda to, x: to.__setitem__(3, x[:, 1, :][::2, :1][0, 0].item()),
    lambda to, x: to.__setitem__(slice(None), x),
])  # fmt: skip
def test_copies_between_parts_are_those_of_numpy(device, assign):
    there, here = (device.zeros(CUBE.shape, "i4"), device.array(CUBE)), (np.zeros_like(CUBE), CUBE.copy())
    assign(*there)
    assign(*here)
    for buffer, expected in zip(there, here, strict=True):
        assert np.array_equal(device_data(buffer.get()), expected)


def test_in_captures_and_steps(device, queue):
    """Each three times, and the copies are ordered with what the queue does before and after."""
    buffer, out = device.array(CUBE), device.zeros((5, 4), "i4")
    device.finish()
    with queue.capture() as graph:
        queue.copy(out, buffer[:, 1, 1:5])
        queue.fill(buffer, 7)
    for expected in (CUBE[:, 1, 1:5], np.full((5, 4), 7)):
        graph.launch(queue)
        assert np.array_equal(device_data(out.get(queue=queue)), expected)
    section = queue.step()
    for value in range(4):
        with section:
            queue.fill(buffer, value)
            queue.copy(out, buffer[:, 1, 1:5])
            queue.fill(buffer, 99)
        assert (device_data(out.get(queue=queue)) == value).all()
    for use in (buffer[:, 1].get, lambda: buffer[:, 1].set(3), lambda: buffer[:, 1].fill(3)):
        with pytest.raises(fb.CaptureError, match="strided"), queue.capture(), queue:
            use()


def test_strided_and_fortran_arrays_are_sources(device, queue):
    buffer = device.empty(CUBE.shape, "i4")
    for host in (np.asfortranarray(CUBE), CUBE[::-1], np.repeat(CUBE, 2, axis=1)[:, ::2]):
        queue.copy(buffer, host)
        assert np.array_equal(device_data(buffer.get(queue=queue)), host)
        assert np.array_equal(device_data(device.array(host).get()), host)


def test_strided_pinned_arrays_are_sources(device, queue, hold):
    pinned = fb.host_empty((64, 2), "i4", device)
    pinned[:] = np.arange(128).reshape(64, 2)
    buffer, expected = device.empty(64, "i4"), pinned[:, 1].copy()
    gate = hold(queue)
    queue.copy(buffer, pinned[:, 1])
    pinned[:] = 0
    gate.open()
    assert np.array_equal(device_data(buffer.get(queue=queue)), expected)


def test_strided_arrays_to_copy_to(device, queue):
    buffer = device.array(CUBE)
    device.finish()
    for out in (np.zeros(CUBE.shape, "i4", order="F"), np.zeros((5, 12, 7), "i4")[:, ::2]):
        assert buffer.get(out=out) is out
        assert np.array_equal(out, CUBE)
    out = np.zeros((5, 12), "i4")[:, ::2]
    assert np.array_equal(device_data(buffer[..., 2].get(out=out)), CUBE[..., 2])


def test_memory_mapped_files_are_sources(device, queue, tmp_path):
    path = tmp_path / "numbers"
    CUBE.tofile(path)
    for mode in ("r", "c"):
        mapped = np.memmap(path, "i4", mode, shape=CUBE.shape)
        assert np.array_equal(device_data(device.array(mapped).get()), CUBE)
        buffer = device.empty(CUBE.shape, "i4")
        queue.copy(buffer, mapped)
        queue.copy(buffer[0], mapped[1])
        assert np.array_equal(device_data(buffer.get(queue=queue)[0]), CUBE[1])
        assert np.array_equal(device_data(device.array(mapped[:, ::2]).get()), CUBE[:, ::2])


def test_items_copies_and_fills(device, queue):
    buffer = device.array(CUBE)
    for index in ((1, 2, 3), (100,), (-1,)):
        assert device_data(buffer.item(*index)) == device_data(CUBE.item(*index))
    assert type(buffer.item(0)) is int
    assert device_data(device.array(2.5).item()) == 2.5
    assert device_data(buffer[::2, 1].item(1, 2)) == device_data(CUBE[::2, 1].item(1, 2))
    other = buffer.copy()
    buffer.fill(3)
    assert np.array_equal(device_data(other.get()), CUBE)
    assert (device_data(buffer.get()) == 3).all()
    device.finish()
    other.fill(4, queue)
    assert (device_data(other.copy(queue).get(queue=queue)) == 4).all()


def test_fills_of_strided_parts_with_elements_of_three_bytes(device, queue):
    buffer = device.zeros((4, 4), "V3")
    buffer[:, 1].fill(np.void(b"abc"))
    assert device_data(buffer.get()[2].tobytes()) == b"\0\0\0abc\0\0\0\0\0\0"


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
    assert device_data(buffer[key].get().tobytes()) == values[key].tobytes()
    other[key] = buffer[key]
    expected = np.zeros(shape, dtype)
    expected[key] = values[key]
    assert device_data(other.get().tobytes()) == expected.tobytes()


@pytest.mark.parametrize("width", [1, 2, 3, 63, 64, 65, 200])
@pytest.mark.parametrize("rows", [1, 2, 63, 65, 300_000])
def test_blocks_of_every_shape(device, queue, width, rows):
    if width * rows > 1 << 20:
        rows = (1 << 20) // width + 1
    values = np.arange(rows * (width + 1), dtype="i4").reshape(rows, width + 1)
    buffer = device.array(values)
    packed = buffer[:, :width].copy()
    assert np.array_equal(device_data(packed.get()), values[:, :width])
    buffer[:, :width] = packed.get() + 1
    assert np.array_equal(device_data(buffer.get()[:, width]), values[:, width])
