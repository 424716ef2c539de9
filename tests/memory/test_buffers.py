"""Buffers and pinned memory: making, views, addresses, reading and writing, and how long they stay."""

import copy
import gc
import inspect
import pickle

import numpy as np
import pytest

import forebay as fb
from forebay.queues.selection import open_driver, select
from tests.helpers.device_data import device_data
from tests.helpers.kernels import SOURCE
from tests.helpers.limits import limits
from tests.helpers.observer import observe
from tests.helpers.refusals import refused
from tests.inside import device_of

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "S5", "U3", "V7"]
PAIR = np.dtype([("a", "i4"), ("b", "f8")])
CUBE = np.arange(60, dtype="i4").reshape(5, 4, 3)


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


def host_empty(device, queue, *arguments):
    return fb.host_empty(*arguments, device=device)


MAKES = {"empty": lambda device, queue, *arguments: device.empty(*arguments), "host_empty": host_empty,
         "alloc": lambda device, queue, *arguments: queue.alloc(*arguments)}  # fmt: skip


@pytest.mark.parametrize("shape", [0, 1, 7, (), (3,), (2, 3), (2, 3, 4), (0, 5), (5, 0), np.int16(4), [2, 2]])
@pytest.mark.parametrize("arguments", [(), ("f4",), ("u1",), (PAIR,), ("V7",)], ids=str)
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_memory_has_numpys_shape_and_type(device, queue, make, shape, arguments, really):
    like = np.empty(shape, *arguments or ("f4",))
    made = make(device, queue, shape, *arguments)
    assert (made.shape, made.ndim, made.size, made.dtype) == (like.shape, like.ndim, like.size, like.dtype)
    assert (made.itemsize, made.nbytes) == (like.itemsize, like.nbytes)
    assert not like.shape or len(made) == len(like)
    host = np.frombuffer(np.random.default_rng(1).bytes(like.nbytes), like.dtype).reshape(like.shape)
    if isinstance(made, fb.Buffer):
        assert (made.device, made.usm_type) == (device, "device")
        queue.copy(made, host)
        for part in (made, made.reshape(-1)):
            assert part.get(queue=queue).tobytes() == host.tobytes() or not really
    else:
        assert type(made) is np.ndarray
        assert made.flags.c_contiguous
        made[...] = host
        assert made.tobytes() == host.tobytes()


@pytest.mark.parametrize("dtype", [*DTYPES, PAIR, np.dtype("V256"), "M8[s]", "m8[ns]"])
def test_arrays_and_zeros_of_each_type(device, dtype):
    host = sample((3, 4), dtype)
    out = device.array(host).get()
    assert (out.shape, out.dtype, device_data(out.tobytes())) == (host.shape, host.dtype, host.tobytes())
    for shape in ((), 5, (2, 0), (2, 3)):
        out = device.zeros(shape, dtype).get()
        assert out.shape == np.empty(shape).shape
        assert device_data(out.tobytes()) == bytes(out.nbytes)


@pytest.mark.parametrize(
    "host", [[[1, 2], [3, 4]], 7, 2.5, range(4), np.arange(10)[::2], np.arange(6).reshape(2, 3).T, (True, False)]
)
def test_array_takes_what_asarray_takes(device, host):
    assert device.array(host).dtype == np.asarray(host).dtype
    assert device.array(host, "f8").dtype == "f8"
    assert device_data(device.array(host).get().tolist()) == np.asarray(host).tolist()


def test_a_queue_in_a_with_block_copies_and_fills(device, make_queue):
    queue = make_queue(blocking=False)
    with queue:
        device.zeros(10)
        device.array([1, 2]).get()
    assert (queue.stats.fills, queue.stats.copies) == (1, 2)


# Views


@pytest.fixture
def cube(device):
    return device.array(CUBE)


def test_iterating_gives_the_rows_and_ends(cube):
    assert [device_data(row.get().tolist()) for row in cube] == CUBE.tolist()


def test_a_slice_shares_memory(cube, queue, program):
    queue.launch(program["fill"], 1, 12, cube[1], -1)
    queue.fill(cube[3][1:2], -2)
    queue.copy(cube[0], np.full((4, 3), -3, "i4"))
    host = CUBE.copy()
    host[1], host[3][1:2], host[0] = -1, -2, -3
    assert device_data(cube.get(queue=queue).tolist()) == host.tolist()


@pytest.mark.parametrize("shape", [(60,), (-1,), (3, 20), (3, -1), (2, 5, 6), (60, 1, 1), [6, 10], (np.int64(60),)])
def test_reshape(cube, shape):
    assert cube.reshape(*shape).shape == CUBE.reshape(shape).shape
    assert device_data(cube.reshape(shape).get().tolist()) == CUBE.reshape(shape).tolist()
    assert cube[0][0][0].reshape(1, 1).shape == (1, 1)
    assert cube[:0].reshape(0, 7).shape == (0, 7)


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "u4", "V12", "V6"])
def test_view_as_another_dtype(device, cube, dtype):
    assert cube.view(dtype).shape == CUBE.view(dtype).shape
    assert device_data(cube.view(dtype).get().tobytes()) == CUBE.tobytes()
    assert device.array(1.5).view("i8").shape == ()


# Addresses


def test_addresses_count_bytes(device, queue, program):
    buffer = device.array(np.arange(100, dtype="i4"))
    if not device.driver.has_addresses:
        with refused(fb.NotSupportedError, NotImplementedError, device.name, "address"):
            buffer.address  # noqa: B018
        return
    assert buffer[7:].address == buffer.address + 28
    assert buffer.reshape(10, 10)[3].address == buffer.address + 120
    assert buffer.view("u1")[5:].address == buffer.address + 5
    result = device.zeros(1, "i4")
    queue.launch(program["follow"], 1, 1, result, buffer[42:43].address)
    assert device_data(result.get(queue=queue).tolist()) == [42]


def test_a_kernel_gets_the_address_of_a_slice_at_any_element(device, queue, program):
    buffer = device.zeros(64, "i4")
    for start in range(0, 64, 7):
        queue.launch(program["fill"], 1, 1, buffer[start:], start + 1)
    expected = np.zeros(64, "i4")
    expected[::7] = np.arange(0, 64, 7) + 1
    assert device_data(buffer.get(queue=queue).tolist()) == expected.tolist()


# Closing


def test_closing_twice_is_fine(device):
    with device.zeros(3) as buffer:
        part = buffer[1:]
        assert not buffer.closed
    assert buffer.closed
    part.close()
    buffer.close()


def test_memory_stays_while_a_slice_of_it_is_there(device, queue, hold):
    buffer = device.array(np.arange(1000, dtype="i4"))
    part = buffer[500:]
    del buffer
    gc.collect()
    pressure = [device.zeros(1000, "i4") for _ in range(16)]
    assert device_data(part.get().tolist()) == list(range(500, 1000))
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


def test_get_and_set(device, queue):
    buffer, out = device.array(np.arange(6, dtype="f4").reshape(2, 3)), np.empty((2, 3), "f4")
    assert buffer.get(out) is out
    assert out.tolist() == device_data(buffer.get(queue=queue).tolist()) == [[0, 1, 2], [3, 4, 5]]
    for host in ([1, 2, 3], 7, np.arange(12)[::2].reshape(2, 3)):  # converted and broadcast
        buffer.set(host)
        assert device_data(buffer.get().tolist()) == np.broadcast_to(host, (2, 3)).tolist()
    buffer[1].set(np.arange(3, dtype="u1"))
    assert device_data(buffer.get().tolist()) == [[0, 2, 4], [0, 1, 2]]


# The class


def test_a_buffer_is_not_copied_and_its_attributes_are_not_set(device):
    buffer = device.empty((2, 3), "i2")
    assert repr(buffer) == f"<forebay.Buffer (2, 3) int16 on {device.name}>"
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(buffer)
    for name in ("shape", "dtype", "nbytes", "device", "closed"):
        with pytest.raises(AttributeError):
            setattr(buffer, name, None)


def test_pinned_memory_outlives_everything_but_its_views():
    with fb.Device(private=True) as device:
        part = fb.host_empty(1000, "i4", device=device)[10:20]
        part[:] = range(10)
    del device
    gc.collect()
    assert part.tolist() == list(range(10))


# Devices without addresses


@pytest.fixture
def plain(device):
    """The same device, used as one without shared virtual memory: parts of its buffers are objects of the driver."""
    driver = open_driver(select(device.name))
    driver.has_addresses, driver.has_memory_objects = False, True
    with device_of(driver) as plain:
        yield plain


@pytest.mark.needs("OpenCL")
def test_the_driver_gives_a_part_the_handle_of_one_that_is_gone(plain):
    count, row = 1024, 1024  # some devices want parts to begin at multiples of 512 bytes
    queue, memory = plain.queue(), plain.empty((count, row), "i4")
    fill = plain.program(SOURCE)["fill"]
    before = queue.stats
    for i in range(count):
        queue.launch(fill, row // 64, 64, memory[i], i)
        queue.finish()  # the part is given back
    assert np.array_equal(
        device_data(memory.get(queue=queue)), np.arange(count, dtype="i4").repeat(row).reshape(count, row)
    )
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


@pytest.mark.needs("OpenCL")
def test_a_driver_without_memory_is_asked_twice(device):
    """NVIDIA's (580) has none at times where it has some a moment later."""
    if not device.driver.has_addresses:
        pytest.skip("without clSVMAlloc")
    with observe(device) as calls:
        calls.fail("clSVMAlloc", 0)
        memory = device.empty(1 << 20, "u1")
        for _ in range(4):  # once more when what others have freed has been given back
            calls.fail("clSVMAlloc", 0)
        with refused(fb.OutOfMemoryError, MemoryError, "clSVMAlloc returned no memory for 1048576 bytes"):
            device.empty(1 << 20, "u1")
        calls.forgive()
        assert device.empty(1 << 20, "u1").address != memory.address


# Memory that the host shares with the device


def made(device, usm_type, shape=64, dtype="i4"):
    try:
        return device.empty(shape, dtype, usm_type=usm_type)
    except fb.NotSupportedError:
        pytest.skip(f"the device has no {usm_type} memory")


@pytest.mark.parametrize("usm_type", ["shared", "host"])
def test_the_host_sees_what_the_device_wrote_and_the_other_way_round(device, program, queue, usm_type):
    buffer = made(device, usm_type)
    zeros, array = device.zeros(16, "f8", usm_type=usm_type), device.array([1.5, 2.5], usm_type=usm_type)
    device.finish()
    assert {each.usm_type for each in (buffer, zeros, array)} == {usm_type}
    assert (device_data(zeros.host.tolist()), device_data(array.host.tolist())) == ([0.0] * 16, [1.5, 2.5])
    assert usm_type == "host" or np.shares_memory(np.from_dlpack(buffer), buffer.host)
    host = buffer.host
    assert (host.shape, host.dtype) == ((64,), np.dtype("i4"))
    host[:] = np.arange(64)
    queue.launch(program["add"], 4, 16, buffer, 5)
    queue.finish()
    assert device_data(host.tolist()) == list(range(5, 69))
    assert device_data(buffer.get().tolist()) == list(range(5, 69))


@pytest.mark.parametrize("usm_type", ["shared", "host"])
def test_views_share_the_memory(device, usm_type):
    buffer = made(device, usm_type, (4, 8))
    buffer.host[:] = np.arange(32).reshape(4, 8)
    assert buffer[1].host.tolist() == list(range(8, 16))
    assert buffer[1:3].reshape(-1)[4:6].host.tolist() == [12, 13]
    assert buffer.view("u1").host.shape == (4, 32)
    assert buffer[2:2].host.shape == (0, 8)
    buffer[3].host[0] = -1
    assert buffer.host[3, 0] == -1


@pytest.mark.parametrize("usm_type", ["shared", "host"])
def test_the_array_keeps_the_memory(device, usm_type):
    buffer = made(device, usm_type)
    host = buffer.host
    host[:] = 7
    buffer.close()
    del buffer
    gc.collect()
    others = [made(device, usm_type) for _ in range(20)]
    for other in others:
        other.host[:] = 8
    assert host.tolist() == [7] * 64


# What they do not do as arrays do: operators, functions of NumPy


@pytest.fixture
def x(device):
    return device.zeros((8, 8), "i4")


y = x


# Without np.add.reduce(x): NumPy 2.4 keeps a reference for ever to what refuses it.
@pytest.mark.parametrize("written", [
    "x + y", "1 - x", "np.float32(2) * x", "x @ y", "-x", "abs(x)", "x > 3", "x += 1", "np.ones(8) + x", "np.sin(x)",
    "np.ones(8) == x", "float(x)", "int(x[0, 0])", "range(x[0, 0])", "f'{x:.2f}'", "np.exp(1, out=x)",
])  # fmt: skip
def test_arithmetic_copies_nothing_unseen(device, written, x, y):
    for left, right in ((x, y), (x[:, 0:1], y[:, 0:1])):
        epoch = device.null_queue.epoch
        with pytest.raises(TypeError):
            exec(written, {"x": left, "y": right, "np": np})
        assert device.null_queue.epoch == epoch, "it was copied"


TRUE = [
    "x == x", "(x != x) is False", "x in [y, x]", "x not in [y, y[0]]", "x in (y, 3, 'text', x)", "x != 3",
    "[y, x, y].index(x) == 1", "[y, x].count(y) == 1", "{x: 1, y: 2}[y] == 2", "len({x, y, x}) == 2",
    "(np.shape(x), np.ndim(x), np.size(x)) == ((8, 8), 2, 64)", "np.shape(x[:, 0]) == (8,)", "f'{x}' == str(x)",
    *[f"not hasattr({thing}, '{name}') and '{name}' not in dir({thing})" for thing in ("x", "x[:, 0]")
      for name in ("__float__", "__int__", "__index__", "__add__", "__complex__")],
    "queue == queue and queue != queue.device.null_queue", "event in [queue.record(), event]",
]  # fmt: skip


@pytest.mark.parametrize("written", TRUE)
def test_what_looks_at_no_element_is_as_for_any_object(x, y, queue, written):
    names = {"x": x, "y": y, "np": np, "queue": queue, "event": queue.record()}
    assert eval(written, names)


def test_a_class_of_the_programs_own_is_refused_alike(device):
    class Own(fb.Device):
        """Device is what programs derive from."""

    assert "synchronize" not in dir(Own)
    with pytest.raises(AttributeError, match=r"Own.*finish\(\)"):
        Own.synchronize  # noqa: B018
    assert inspect.getmro(Own)[:2] == (Own, fb.Device)


@pytest.mark.parametrize("settings", [{"debug": True}, {"check": "races"}], ids=str)
def test_a_closed_buffer_says_where_it_was_made(device, settings):
    with fb.Device(device.name, private=True, **settings) as own:
        queue, here = own.queue(), f"test_buffers.py:{inspect.currentframe().f_lineno}"
        made = [own.zeros(8, "f4"), own.array([1.5]), queue.alloc(4) if own.check else own.empty(4)]
        after = f"test_buffers.py:{int(here.partition(':')[2]) + 1}"
        for buffer in made:
            part = buffer[1:]
            buffer.close()
            for use in (buffer.get, part.get, lambda b=buffer: queue.fill(b, 1), lambda b=part: b.view("u1")):
                with refused(fb.ClosedError, RuntimeError, "is closed: (", f"{own.name}, made at ", after):
                    use()
