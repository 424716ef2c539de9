import copy
import gc
import pickle

import numpy as np
import pytest

import forebay as fb
from forebay.queues.drivers.selection import open_driver, select
from tests.helpers.kernels import SOURCE
from tests.helpers.limits import limits
from tests.helpers.refusals import refused

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "S5", "U3", "V7"]
PAIR = np.dtype([("a", "i4"), ("b", "f8")])


def sample(shape, dtype):
    """An array with bytes that are no pattern."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    if dtype.kind == "b":
        return (np.arange(count) % 3 == 1).reshape(shape)
    if dtype.kind == "U":
        return np.array([chr(945 + i) * 3 for i in range(count)], dtype).reshape(shape)
    if dtype.kind in "SV" and not dtype.names:
        return np.frombuffer((np.arange(count * dtype.itemsize) % 251 + 1).astype("u1").tobytes(), dtype).reshape(shape)
    return np.arange(count).astype(dtype).reshape(shape)


# Making


@pytest.mark.parametrize("shape", [0, 1, 7, (), (3,), (2, 3), (2, 3, 4), (0, 5), (5, 0), np.int32(4), [2, 2]])
def test_shapes_are_numpys(device, shape):
    like = np.empty(shape, "f4")
    buffer = device.empty(shape)
    assert buffer.shape == like.shape
    assert (buffer.ndim, buffer.size, buffer.itemsize, buffer.nbytes) == (like.ndim, like.size, 4, like.nbytes)
    assert buffer.dtype == like.dtype
    assert buffer.device is device
    assert buffer.get().shape == like.shape
    if like.shape:
        assert len(buffer) == len(like)


@pytest.mark.executes
@pytest.mark.parametrize("dtype", [*DTYPES, PAIR, "M8[s]", "m8[ns]"])
def test_what_goes_in_comes_out(device, dtype):
    host = sample((3, 4), dtype)
    buffer = device.array(host)
    assert (buffer.shape, buffer.dtype) == (host.shape, host.dtype)
    out = buffer.get()
    assert out.dtype == host.dtype
    assert out.tobytes() == host.tobytes()


@pytest.mark.executes
@pytest.mark.parametrize("dtype", [*DTYPES, PAIR, np.dtype("V256"), "M8[s]"])
@pytest.mark.parametrize("shape", [(), 5, (2, 0), (2, 3)])
def test_zeros_are_zero(device, dtype, shape):
    buffer = device.zeros(shape, dtype)
    out = buffer.get()
    assert out.shape == np.empty(shape).shape
    assert not any(out.tobytes())


@pytest.mark.executes
@pytest.mark.parametrize(
    "host", [[[1, 2], [3, 4]], 7, 2.5, range(4), np.arange(10)[::2], np.arange(6).reshape(2, 3).T, (True, False)]
)
def test_array_takes_what_asarray_takes(device, host):
    assert device.array(host).dtype == np.asarray(host).dtype
    assert device.array(host, "f8").dtype == "f8"
    assert device.array(host).get().tolist() == np.asarray(host).tolist()


def test_a_queue_in_a_with_block_copies_and_fills(device, make_queue):
    queue = make_queue(blocking=False)
    with queue:
        device.zeros(10)
        device.array([1, 2]).get()
    assert (queue.stats.fills, queue.stats.copies) == (1, 2)


@pytest.mark.parametrize("shape", [-1, (2, -3)])
def test_negative_shapes_are_refused(device, refuses, shape):
    with refuses(fb.InvalidArgumentError, ValueError, "shape", str(shape)):
        device.empty(shape)


@pytest.mark.parametrize("shape", ["abc", 1.5, (1, 2.5), None, (2, None)])
def test_shapes_of_the_wrong_type_are_refused(device, refuses, shape):
    for make in (device.empty, device.zeros):
        with refuses(fb.ArgumentTypeError, TypeError, "shape", repr(shape)):
            make(shape)


@pytest.mark.parametrize("dtype", [object, [("a", "O")], "V0"])
def test_elements_that_memory_cannot_hold_are_refused(device, refuses, dtype):
    with refuses(fb.InvalidArgumentError, ValueError, "elements"):
        device.empty(3, dtype)


@pytest.mark.parametrize("dtype", ["no such type", 5, [("a", "nothing")]])
def test_a_dtype_that_is_none_is_refused(device, refuses, dtype):
    with refuses(fb.ArgumentTypeError, TypeError, "dtype"):
        device.empty(3, dtype)
    with refuses(fb.ArgumentTypeError, TypeError, "dtype"):
        device.empty(4).view(dtype)
    with refuses(fb.ArgumentTypeError, TypeError, "dtype"):
        fb.host_empty(3, dtype, device=device)


@pytest.mark.parametrize(("host", "dtype"), [("abc", "f4"), ([[1], [2, 3]], None), ([1, None], "i4")])
def test_array_of_what_is_no_array_is_refused(device, refuses, host, dtype):
    with refuses(fb.ArgumentTypeError, TypeError, "array"):
        device.array(host, dtype)


@pytest.mark.parametrize("shape", [1 << 50, 1 << 62, (1 << 40, 1 << 40)])
def test_more_memory_than_there_is_is_refused(device, refuses, shape):
    with refuses(fb.OutOfMemoryError, MemoryError, device.name):
        device.empty(shape)


@pytest.mark.executes
def test_a_failed_allocation_leaves_the_buffers_that_are_there(device):
    buffer = device.array([1, 2, 3])
    with refused(fb.OutOfMemoryError, MemoryError):
        device.empty(1 << 50)
    assert buffer.get().tolist() == [1, 2, 3]


# Views


@pytest.fixture
def cube(device):
    host = np.arange(60, dtype="i4").reshape(5, 4, 3)
    return host, device.array(host)


@pytest.mark.executes
@pytest.mark.parametrize(
    "key",
    [0, 4, -1, -5, np.int8(2), slice(None), slice(1, 3), slice(-2, None), slice(3, 1), slice(2, 100), slice(5, 5),
     slice(None, None, 1)],
)  # fmt: skip
def test_slices_are_numpys(cube, key):
    host, buffer = cube
    assert buffer[key].shape == host[key].shape
    assert buffer[key].get().tolist() == host[key].tolist()


def test_slices_of_slices(cube, really):
    host, buffer = cube
    assert buffer[1:4][1][2:].get().tolist() == host[1:4][1][2:].tolist() or not really
    assert buffer[2][3][1].get() == host[2][3][1] or not really
    assert buffer[2][3][1].shape == ()


@pytest.mark.executes
def test_iterating_gives_the_rows_and_ends(cube):
    host, buffer = cube
    assert [row.get().tolist() for row in buffer] == host.tolist()


@pytest.mark.executes
def test_a_slice_shares_memory(cube, queue, program):
    host, buffer = cube
    queue.launch(program["fill"], 1, 12, buffer[1], -1)
    queue.fill(buffer[3][1:2], -2)
    queue.copy(buffer[0], np.full((4, 3), -3, "i4"))
    host = host.copy()
    host[1], host[3][1:2], host[0] = -1, -2, -3
    assert buffer.get(queue=queue).tolist() == host.tolist()


@pytest.mark.executes
@pytest.mark.parametrize("shape", [(60,), (-1,), (3, 20), (3, -1), (2, 5, 6), (60, 1, 1)])
def test_reshape(cube, shape):
    host, buffer = cube
    assert buffer.reshape(*shape).shape == host.reshape(shape).shape
    assert buffer.reshape(shape).get().tolist() == host.reshape(shape).tolist()


def test_reshape_takes_a_numpy_integer_and_a_list(cube):
    _, buffer = cube
    assert buffer.reshape(np.int64(60)).shape == (60,)
    assert buffer.reshape([6, 10]).shape == (6, 10)
    assert buffer[0][0][0].reshape(1, 1).shape == (1, 1)
    assert buffer[:0].reshape(0, 7).shape == (0, 7)


@pytest.mark.parametrize("shape", [(61,), (7, -1), (-1, -1), (0, -1), ()])
def test_reshapes_that_do_not_fit_are_refused(cube, refuses, shape):
    _, buffer = cube
    with refuses(fb.InvalidArgumentError, ValueError, "reshape"):
        buffer.reshape(shape)


def test_reshapes_to_a_negative_shape_are_refused(cube, refuses):
    _, buffer = cube
    with refuses(fb.InvalidArgumentError, ValueError, "(-6, -10)"):
        buffer.reshape(-6, -10)


@pytest.mark.parametrize("shape", ["60", 60.0, (6, 10.0), None])
def test_reshapes_of_the_wrong_type_are_refused(cube, refuses, shape):
    _, buffer = cube
    with refuses(fb.ArgumentTypeError, TypeError, "shape"):
        buffer.reshape(shape)


@pytest.mark.executes
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "u4", "V12", "V6"])
def test_view_as_another_dtype(cube, dtype):
    host, buffer = cube
    assert buffer.view(dtype).shape == host.view(dtype).shape
    assert buffer.view(dtype).get().tobytes() == host.tobytes()


@pytest.mark.parametrize("dtype", ["i8", "V5", object, "V0"])
def test_views_that_do_not_fit_are_refused(cube, refuses, dtype):
    _, buffer = cube
    with refuses(fb.InvalidArgumentError, ValueError):
        buffer.view(dtype)


def test_a_scalar_is_not_viewed_as_something_smaller_or_larger(device, refuses):
    scalar = device.array(1.5)
    assert scalar.view("i8").shape == ()
    for dtype in ("f4", "V16"):
        with refuses(fb.InvalidArgumentError, ValueError, str(np.dtype(dtype))):
            scalar.view(dtype)


@pytest.mark.parametrize("key", [5, -6, 1 << 70])
def test_an_index_out_of_range_is_refused(cube, refuses, key):
    _, buffer = cube
    with refuses(fb.Error, IndexError, str(key), "5"):
        buffer[key]


@pytest.mark.parametrize("key", ["a", 1.0, [0], slice("a", "b")])
def test_keys_of_the_wrong_type_are_refused(cube, refuses, key):
    _, buffer = cube
    with refuses(fb.ArgumentTypeError, TypeError, "slice"):
        buffer[key]


def test_a_scalar_has_no_length_and_no_rows(device, refuses):
    scalar = device.zeros(())
    with refuses(fb.ArgumentTypeError, TypeError, "0-dimensional"):
        len(scalar)
    with refuses(fb.ArgumentTypeError, TypeError, "0-dimensional"):
        scalar[0]


# Addresses


def has_addresses(device):
    return device.driver.has_addresses


@pytest.mark.executes
def test_addresses_count_bytes(device, queue, program):
    buffer = device.array(np.arange(100, dtype="i4"))
    if not has_addresses(device):
        with refused(fb.NotSupportedError, NotImplementedError, device.name, "address"):
            buffer.address  # noqa: B018
        return
    assert buffer[7:].address == buffer.address + 28
    assert buffer.reshape(10, 10)[3].address == buffer.address + 120
    assert buffer.view("u1")[5:].address == buffer.address + 5
    result = device.zeros(1, "i4")
    queue.launch(program["follow"], 1, 1, result, buffer[42:43].address)
    assert result.get(queue=queue).tolist() == [42]


@pytest.mark.executes
def test_a_kernel_gets_the_address_of_a_slice_at_any_element(device, queue, program):
    buffer = device.zeros(64, "i4")
    for start in range(0, 64, 7):
        queue.launch(program["fill"], 1, 1, buffer[start:], start + 1)
    expected = np.zeros(64, "i4")
    expected[::7] = np.arange(0, 64, 7) + 1
    assert buffer.get(queue=queue).tolist() == expected.tolist()


# Closing


def use(buffer, queue, program):
    """Every way to use a buffer of ints."""
    device = buffer.device
    other = device.zeros(buffer.shape, "i4")
    host = np.zeros(buffer.shape, "i4")
    yield lambda: queue.launch(program["fill"], 1, 1, buffer, 1)
    yield lambda: program["fill"].bind(queue, 1, 1, buffer, 1)
    yield lambda: queue.copy(buffer, host)
    yield lambda: queue.copy(host, buffer)
    yield lambda: queue.copy(other, buffer)
    yield lambda: queue.copy(buffer, other)
    yield lambda: queue.fill(buffer, 1)
    yield lambda: buffer.get()
    yield lambda: buffer.set(1)
    yield lambda: buffer[0:1]
    yield lambda: buffer[0]
    yield lambda: buffer.reshape(-1)
    yield lambda: buffer.view("u1")
    yield lambda: buffer.address
    yield buffer.__enter__


@pytest.mark.parametrize("which", ["itself", "a slice", "a reshape", "a view"])
def test_closing_any_view_closes_all_and_every_use_says_so(device, queue, program, refuses, which):
    buffer = device.zeros(10, "i4")
    part = {"itself": buffer, "a slice": buffer[3:5], "a reshape": buffer.reshape(2, 5), "a view": buffer.view("u1")}
    assert not buffer.closed
    part[which].close()
    for view in (buffer, *part.values()):
        assert view.closed
        assert "closed" in repr(view)
    for attempt in use(buffer, queue, program):
        with refuses(fb.ClosedError, RuntimeError, "closed"):
            attempt()
    assert (buffer.shape, buffer.nbytes, len(buffer)) == ((10,), 40, 10)


def test_closing_twice_is_fine(device):
    buffer = device.zeros(10)
    buffer[1:].close()
    buffer.close()
    buffer.close()
    with device.zeros(3) as buffer:
        assert not buffer.closed
    assert buffer.closed
    buffer.close()


@pytest.mark.executes
@pytest.mark.parametrize("nbytes", [4096, 1 << 20])
@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_memory_stays_until_the_work_submitted_before_is_done(device, queue, make_queue, hold, program, how, nbytes):
    count = nbytes // 4
    source = device.array(np.arange(count, dtype="i4"))
    result = device.zeros(count, "i4")
    device.finish()
    other = make_queue(blocking=False)
    gate = hold(queue)
    queue.launch(program["add"], count // 64, 64, source, 5)
    queue.launch(program["copy"], count // 64, 64, result, source)
    if how == "closed":
        source.close()
    else:
        del source
    gc.collect()
    # were the memory free, one of these would be given it and overwrite it
    pressure = [device.empty(count, "i4") for _ in range(16)]
    for buffer in pressure:
        other.fill(buffer, -1)
    other.finish()
    gate.open()
    queue.finish()
    assert result.get().tolist() == list(range(5, count + 5))


@pytest.mark.executes
def test_memory_stays_while_a_slice_of_it_is_there(device, queue, hold):
    buffer = device.array(np.arange(1000, dtype="i4"))
    part = buffer[500:]
    del buffer
    gc.collect()
    pressure = [device.zeros(1000, "i4") for _ in range(16)]
    assert part.get().tolist() == list(range(500, 1000))
    assert len(pressure) == 16


@pytest.mark.needs("no more memory than the host")
def test_memory_is_given_back(device):
    total = device.info.memory
    part = min(limits(device.info).allocation, total) // 2
    for turn in range(2 * (total // part + 1)):  # more than there is, by either way, were it not given back
        buffer = device.empty(part, "u1")
        if turn % 2:
            buffer.close()
        del buffer


# Getting and setting


@pytest.mark.executes
def test_get_into_an_array(device, queue):
    buffer = device.array(np.arange(6, dtype="i4").reshape(2, 3))
    out = np.empty((2, 3), "i4")
    assert buffer.get(out) is out
    assert out.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert buffer.get(queue=queue).tolist() == out.tolist()


@pytest.mark.executes
def test_set_converts_and_broadcasts(device):
    buffer = device.zeros((2, 3), "f4")
    buffer.set([1, 2, 3])
    assert buffer.get().tolist() == [[1, 2, 3]] * 2
    buffer.set(7)
    assert buffer.get().tolist() == [[7] * 3] * 2
    buffer[1].set(np.arange(3, dtype="u1"))
    assert buffer.get().tolist() == [[7] * 3, [0, 1, 2]]
    buffer.set(np.arange(12)[::2].reshape(2, 3))
    assert buffer.get().tolist() == [[0, 2, 4], [6, 8, 10]]


@pytest.mark.parametrize("host", [[1, 2], np.zeros((3, 2))])
def test_set_of_a_shape_that_does_not_fit_is_refused(device, refuses, host):
    buffer = device.zeros((2, 3), "f4")
    with refuses(fb.InvalidArgumentError, ValueError, "(2, 3)"):
        buffer.set(host)


@pytest.mark.parametrize("host", ["abc", object()])
def test_set_of_what_is_no_number_is_refused(device, refuses, host):
    buffer = device.zeros((2, 3), "f4")
    with refuses(fb.ArgumentTypeError, TypeError, "float32"):
        buffer.set(host)


def test_get_into_an_array_of_another_dtype_or_shape_is_refused(device, refuses):
    buffer = device.zeros((2, 3), "f4")
    for out in (np.empty((2, 3), "i4"), np.empty(7, "f4")):
        with refuses(fb.InvalidArgumentError, ValueError, "out"):
            buffer.get(out)
    with refuses(fb.ArgumentTypeError, TypeError, "out"):
        buffer.get([0.0] * 6)


def test_get_and_set_on_what_is_no_queue_are_refused(device, refuses):
    buffer = device.zeros(3)
    for attempt in (lambda: buffer.get(queue="null"), lambda: buffer.set(1, queue=device)):
        with refuses(fb.ArgumentTypeError, TypeError, "Queue"):
            attempt()


# The class


def test_buffers_are_made_by_a_device_only(device):
    with refused(fb.ArgumentTypeError, TypeError, "Device.empty"):
        fb.Buffer()
    with refused(fb.ArgumentTypeError, TypeError, "Device.empty"):
        fb.Buffer(10, "f4")
    buffer = device.zeros(3)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(buffer)


def test_its_attributes_cannot_be_set(device):
    buffer = device.zeros(3)
    for name in ("shape", "dtype", "nbytes", "device", "closed"):
        with pytest.raises(AttributeError):
            setattr(buffer, name, None)


def test_repr(device):
    assert repr(device.empty((2, 3), "i2")) == f"<forebay.Buffer (2, 3) int16 on {device.name}>"


# Pinned memory


@pytest.mark.parametrize("shape", [0, 5, (), (2, 3), (3, 0), [2, 2], np.int16(3)])
@pytest.mark.parametrize("dtype", ["f4", "u1", PAIR])
def test_pinned_memory_is_an_array(device, shape, dtype):
    host = fb.host_empty(shape, dtype, device=device)
    like = np.empty(shape, dtype)
    assert type(host) is np.ndarray
    assert (host.shape, host.dtype) == (like.shape, like.dtype)
    assert host.flags.c_contiguous
    assert host.flags.writeable
    host[...] = np.ones((), dtype)
    assert (host == np.ones((), dtype)).all()


def test_pinned_memory_outlives_everything_but_its_views():
    with fb.Device(private=True) as device:
        part = fb.host_empty(1000, "i4", device=device)[10:20]
        part[:] = range(10)
    del device
    gc.collect()
    assert part.tolist() == list(range(10))


@pytest.mark.parametrize("shape", [-1, (2, -2)])
def test_pinned_memory_of_a_negative_shape_is_refused(device, refuses, shape):
    with refuses(fb.InvalidArgumentError, ValueError, "shape"):
        fb.host_empty(shape, device=device)


@pytest.mark.parametrize("shape", [2.5, "abc", None, (1, "x")])
def test_pinned_memory_of_a_shape_of_the_wrong_type_is_refused(device, refuses, shape):
    with refuses(fb.ArgumentTypeError, TypeError, "shape"):
        fb.host_empty(shape, device=device)


@pytest.mark.parametrize("dtype", [object, [("a", "O")], "V0"])
def test_pinned_memory_holds_no_objects(device, refuses, dtype):
    with refuses(fb.InvalidArgumentError, ValueError, "elements"):
        fb.host_empty(3, dtype, device=device)


def test_pinned_memory_of_no_device_is_refused(device, refuses):
    with refuses(fb.ArgumentTypeError, TypeError, "Device"):
        fb.host_empty(3, device="cpu")
    with fb.Device(device.name, private=True) as other:
        pass
    with refuses(fb.ClosedError, RuntimeError, "closed"):
        fb.host_empty(3, device=other)


def test_more_pinned_memory_than_there_is_is_refused(device, refuses):
    with refuses(fb.OutOfMemoryError, MemoryError, "pinned"):
        fb.host_empty(1 << 55, "u1", device=device)


# Devices without addresses


@pytest.fixture
def plain(device):
    """The same device, used as one without shared virtual memory: parts of its buffers are objects of the driver."""
    driver = open_driver(select(device.name))
    driver.has_addresses, driver.has_memory_objects = False, True
    with fb.Device._of(driver) as plain:
        yield plain


@pytest.mark.executes
@pytest.mark.needs("OpenCL")
def test_the_driver_gives_a_part_the_handle_of_one_that_is_gone(plain):
    count, row = 1024, 1024  # some devices want parts to begin at multiples of 512 bytes
    queue, memory = plain.queue(), plain.empty((count, row), "i4")
    fill = plain.program(SOURCE)["fill"]
    before = queue.stats
    for i in range(count):
        queue.launch(fill, row // 64, 64, memory[i], i)
        queue.finish()  # the part is given back
    assert np.array_equal(memory.get(queue=queue), np.arange(count, dtype="i4").repeat(row).reshape(count, row))
    assert (queue.stats - before).arg_bytes_set == 12 * count


@pytest.mark.needs("OpenCL")
def test_a_part_that_stays_is_not_set_again(plain):
    queue, memory = plain.queue(), plain.empty((2, 1024), "i4")
    fill, part = plain.program(SOURCE)["fill"], memory[1]
    queue.launch(fill, 16, 64, part, 1)
    before = queue.stats
    for _ in range(10):
        queue.launch(fill, 16, 64, part, 1)
    assert (queue.stats - before).arg_bytes_set == 0
    with refused(fb.ArgumentTypeError, TypeError, "needs elements of int32"):
        queue.launch(fill, 16, 64, part.view("f4"), 1)
    queue.finish()
