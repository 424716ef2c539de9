import copy
import ctypes
import pickle
import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import forebay as fb
from forebay.queues.kernels.kernel import names
from tests.drivers.levelzero.validation import device_scope
from tests.helpers.device_data import device_data
from tests.helpers.kernels import taking
from tests.helpers.limits import limits
from tests.helpers.refusals import refused

INTEGERS = {"char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "long": "q", "ulong": "Q"}
DTYPES = {name: np.dtype(code) for name, code in INTEGERS.items()} | {"float": np.dtype("f4")}
FLOATS = {"float": "f4", "double": "f8", "half": "f2"}


@pytest.fixture(scope=device_scope)
def taker(device, program):
    """``taker("int")``: a kernel that stores its argument of that type."""
    programs = {}

    def taker(type_name):
        if type_name in ("Pair", "float3"):
            return program[f"take_{type_name.lower()}"]
        if type_name not in programs:
            extension = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" if type_name == "half" else ""
            programs[type_name] = device.program(extension + taking(type_name))
        return programs[type_name]["take"]

    return taker


@pytest.fixture
def spare(device):
    """Memory for a launch that should not happen: were it not refused, a null pointer would end the process."""
    return device.zeros(64, "u8")


# What a kernel takes


def test_the_signature_is_read_from_the_driver(program):
    kernel = program["take_pair"]
    assert (kernel.name, kernel.signature) == ("take_pair", "take_pair(float* result, Pair pair)")
    result, pair = kernel.parameters
    assert (result.name, result.kind, result.type_name) == ("result", "pointer", "float*")
    assert (pair.name, pair.kind, pair.type_name, pair.nbytes) == ("pair", "value", "Pair", 12)
    assert "take_pair(float* result, Pair pair)" in repr(kernel)
    assert program["reverse_in_groups"].parameters[1].kind == "local"
    assert program["nothing"].parameters == ()
    assert kernel.max_block_size >= 1


@pytest.mark.parametrize("given", [(), (None,), (None, 1, 2)])
def test_the_number_of_arguments_is_checked(queue, program, refuses, given):
    for attempt in (
        lambda: queue.launch(program["fill"], 1, 1, *given),
        lambda: program["fill"][1, 1, queue](*given),
        lambda: program["fill"].bind(queue, 1, 1, *given),
    ):
        with refuses(fb.ArgumentTypeError, TypeError, "'fill'", "2 arguments", f"{len(given)} given", "int value"):
            attempt()


# Values


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float), ("c", ctypes.c_char))


PAIR = np.dtype([("a", "i4"), ("b", "f4"), ("c", "i1")], align=True)
DIGITS = [sign * ((1 << 30) + more) for sign in (1, -1) for more in (-1, 0, 1)]  # of CPython's integers
NUMBERS = [True, np.True_, np.False_, np.array(True), np.array(5), *(np.dtype(code).type(7) for code in "bBhHiIlLqQ")]


def integers_in(info):
    edges = (info.min, -1 if info.min else 1, 0, 1, info.max, *DIGITS)
    return [*(value for value in edges if info.min <= value <= info.max), *NUMBERS]


def vectors_of(dtype, lanes):
    """The same numbers in every form that a vector is given in."""
    values = [100 - i if dtype.kind == "u" else 3 - i for i in range(lanes)]
    array = np.array(values, dtype)
    wide = array.astype("f8" if dtype.kind == "f" else "i8")
    return [tuple(values), values, array, array.tobytes(), memoryview(array), wide]


VALUES = {
    **{name: integers_in(np.iinfo(DTYPES[name])) for name in INTEGERS},
    "float": [0.0, -0.0, 1.5, 3, True, 1e-45, 3.4028234e38, np.inf, -np.inf, np.nan, np.float64(0.1), np.float32(0.1),
              np.float16(0.1), np.int64(9), np.longdouble("0.5"), np.array(2.5), Decimal("0.25"), Fraction(1, 4)],
    "double": [0.1, 1e300, 5, np.float32(0.5), -np.inf],
    "half": [0.5, 3, np.float16(1.25), -65504.0],
    **{f"{name}{lanes}": vectors_of(dtype, lanes) for name, dtype in DTYPES.items() for lanes in (2, 4, 8, 16)},
    "float3": [(1, 2, 3), [1.0, 2, 3], np.arange(1, 4), np.arange(1, 4, dtype="f4"), struct.pack("3f", 1, 2, 3),
               struct.pack("4f", 1, 2, 3, 9), (ctypes.c_float * 3)(1, 2, 3)],
    "Pair": [Pair(1, 2.5, 3), np.array((1, 2.5, 3), PAIR), np.array([(1, 2.5, 3)], PAIR)[0],
             struct.pack("ifb3x", 1, 2.5, 3), bytearray(struct.pack("ifb3x", 1, 2.5, 3)),
             memoryview(struct.pack("ifb3x", 1, 2.5, 3))],
}  # fmt: skip
VALUES["int2"] += [(0, (1 << 31) - 1), (np.True_, np.False_)]
VALUES["ulong2"] += [((1 << 64) - 1, 0)]
NEEDS = {name: pytest.mark.needs(need) for name, need in (("double", "doubles"), ("half", "halves"))}


def by_type(table):
    return [pytest.param(name, marks=NEEDS.get(name, ())) for name in table]


@pytest.mark.parametrize("type_name", by_type(VALUES))
def test_values_arrive(device, queue, taker, type_name):
    scalar = type_name.rstrip("0123456789")
    lanes = 3 if type_name == "Pair" else int(type_name[len(scalar) :] or 1)
    result = device.zeros(lanes, INTEGERS.get(scalar) or FLOATS.get(scalar, "f4"))
    for value in VALUES[type_name]:
        if type_name in ("float3", "Pair"):
            expected = np.array([1, 2 if type_name == "float3" else 2.5, 3], "f4")
        elif isinstance(value, (bytes, memoryview)):
            expected = np.frombuffer(value, result.dtype)
        else:
            expected = np.array(
                value if lanes > 1 else [float(value) if scalar in FLOATS else int(value)], result.dtype
            )
        queue.fill(result, 0)
        queue.launch(taker(type_name), 1, 1, result, value)
        assert device_data(result.get(queue=queue).tobytes()) == expected.tobytes(), value


TYPE, VALUE = (fb.ArgumentTypeError, TypeError), (fb.InvalidArgumentError, ValueError)
NO_NUMBERS = ["1.0", b"1", None, 1j, [1.0], np.array([1.0, 2.0]), object()]
NO_INTEGERS = [1.0, np.float32(2), np.float64(2), "1", b"1", None, 1j, Decimal(1), [1], np.array([1, 2])]
REFUSED = {
    **{name: {(*VALUE, "range"): [np.iinfo(DTYPES[name]).min - 1, np.iinfo(DTYPES[name]).max + 1, 1 << 64, -(1 << 64),
                                  1 << 1000, 1 << 100000], (*TYPE, "integer"): NO_INTEGERS} for name in INTEGERS},
    "float": {(*VALUE, "range"): [1e39, -1e39, 10**400, np.float64(3.5e38)], (*TYPE, "number"): NO_NUMBERS},
    "double": {(*VALUE, "range"): [10**400]},
    "half": {(*VALUE, "range"): [65520.0, 1e6]},
    "int2": {(*VALUE, "range"): [(1 << 31, 0), (0, -(1 << 31) - 1)], TYPE: [(1.0, 2.0), "ab", None, (1, None)]},
    "uchar4": {(*VALUE, "range"): [(0, 1, 2, 256), (-1, 0, 0, 0)]},
    "ulong2": {(*VALUE, "range"): [(0, 1 << 64)]},
    "char2": {(*VALUE, "range"): [np.array([200, 0])]},
    "float2": {(*VALUE, "range"): [(1e39, 0)], TYPE: ["ab", (1j, 0), {}]},
    "float4": {(*VALUE, "4"): [(), (1,), (1, 2, 3), (1, 2, 3, 4, 5), np.zeros(16), 7],
               (*VALUE, "16"): [bytes(15), bytes(12), bytes(0)]},
    "Pair": {(*VALUE, "12 bytes"): [bytes(11), bytes(13), b"", np.zeros(3, "f8"), (ctypes.c_int * 4)()],
             (*TYPE, "12 bytes"): [None, 5, 1.5, (1, 2.5, 3), "text", object()]},
}  # fmt: skip


def shown(type_name, kind, value):
    """What a message shows of a value that is no vector: its type, or an integer as far as it is short."""
    if kind is fb.ArgumentTypeError:
        return type(value).__name__ if type_name in INTEGERS or type_name == "Pair" else ""
    if type_name not in INTEGERS:
        return ""
    return str(value) if abs(value) < 1 << 100 else "107150860718626732" if value < 1 << 1001 else "100001 bits"


@pytest.mark.parametrize("type_name", by_type(REFUSED))
def test_values_that_are_refused(queue, taker, refuses, spare, type_name):
    for (kind, builtin, *words), values in REFUSED[type_name].items():
        for value in values:
            with refuses(kind, builtin, "argument 1", f"{type_name} ", *words, shown(type_name, kind, value)):
                queue.launch(taker(type_name), 1, 1, spare, value)


def test_bytes_beside_each_other_do_not_run_into_each_other(device, queue):
    kernel = device.program(
        "kernel void mixed(global long *r, char a, ulong b, uchar c, short d, float e, int f, ushort g) "
        "{ r[0] = a; r[1] = b; r[2] = c; r[3] = d; r[4] = e; r[5] = f; r[6] = g; }"
    )["mixed"]
    result = device.zeros(7, "i8")
    queue.launch(kernel, 1, 1, result, -1, 1 << 40, 255, -2, -3.0, -4, 65535)
    assert device_data(result.get(queue=queue).tolist()) == [-1, 1 << 40, 255, -2, -3, -4, 65535]


# Local memory


@pytest.mark.parametrize("block", [1, 8, 32])
def test_local_memory(device, queue, program, block):
    buffer = device.array(np.arange(64, dtype="i4"))
    queue.launch(program["reverse_in_groups"], 64 // block, block, buffer, fb.local(4 * block))
    expected = np.arange(64).reshape(-1, block)[:, ::-1].ravel()
    assert device_data(buffer.get(queue=queue).tolist()) == expected.tolist()


def test_local_says_what_it_is():
    assert repr(fb.local(np.int32(64))) == "forebay.local(64)"
    assert fb.local(64).nbytes == 64
    for nbytes in (0, -1, 1 << 64, 1 << 100):
        with refused(*VALUE, "local memory", str(nbytes)):
            fb.local(nbytes)
    for nbytes in (1.5, "16", None, []):
        with refused(*TYPE, "local", type(nbytes).__name__):
            fb.local(nbytes)


# Pointers


def test_null_is_a_null_pointer_from_the_first_launch_on(device, queue, program):
    result = device.zeros(1, "i4")
    for _ in range(2):
        queue.launch(program["is_null"], 1, 1, result, fb.NULL)
        assert device_data(result.get(queue=queue)[0]) == 1


@pytest.mark.needs("null pointers after others")
def test_null_is_a_null_pointer(device, queue, program):
    result, other = device.zeros(1, "i4"), device.zeros(1, "i4")
    for pointer, expected in ((fb.NULL, 1), (other, 0), (fb.NULL, 1), (other[0:], 0)):
        queue.launch(program["is_null"], 1, 1, result, pointer)
        assert device_data(result.get(queue=queue).tolist()) == [expected]


def test_there_is_one_null():
    assert repr(fb.NULL) == "forebay.NULL"
    assert not fb.NULL
    for same in (pickle.loads(pickle.dumps(fb.NULL)), copy.copy(fb.NULL), copy.deepcopy(fb.NULL)):
        assert same is fb.NULL
    with refused(*TYPE, "forebay.NULL"):
        type(fb.NULL)()


def test_pointers_and_local_memory_that_are_refused(device, queue, program, refuses, spare):
    fill, reverse, limit = program["fill"], program["reverse_in_groups"], limits(device.info).local_memory
    for value in (None, 5, 0, np.int32(3), bytearray(4), "text", [1], fb.local(4)):
        with refuses(*TYPE, "'fill'", "argument 0", "int* values", type(value).__name__, "needs a Buffer"):
            queue.launch(fill, 1, 1, value, 1)
    for value in (None, 16, "16", np.zeros(4), spare):
        with refuses(*TYPE, "argument 1", "room", "forebay.local", type(value).__name__):
            queue.launch(reverse, 1, 1, spare.view("i4"), value)
    for nbytes in (limit + 1, 1 << 62):
        with refuses(*VALUE, "local memory", str(nbytes), str(limit)):
            queue.launch(reverse, 1, 1, spare.view("i4"), fb.local(nbytes))


# Geometry


@pytest.mark.parametrize(("grid", "block", "expected"), [
    (3, 4, (3, 1, 1)), ((3,), (4,), (3, 1, 1)), ((3, 2), 4, (3, 2, 1)), (3, (2, 2), (3, 1, 1)),
    ((2, 3, 4), (2, 1, 2), (2, 3, 4)), ((2, 3, 4), 1, (2, 3, 4)), (np.int64(3), np.uint8(4), (3, 1, 1)),
    ((np.int32(2), 2), (1, np.int16(3)), (2, 2, 1)), (1, 1, (1, 1, 1)),
])  # fmt: skip
def test_grid_counts_groups_and_block_work_items(device, queue, program, grid, block, expected):
    block_size = [*(block if isinstance(block, tuple) else (block,)), 1, 1][:3]
    size = [int(groups) * int(items) for groups, items in zip(expected, block_size, strict=True)]
    ids = device.array(np.full(size[::-1], -1, "i4"))
    queue.launch(program["where"], grid, block, ids)
    z, y, x = np.meshgrid(*(np.arange(extent) for extent in size[::-1]), indexing="ij")
    groups = x // int(block_size[0]) + 100 * (y // int(block_size[1])) + 10000 * (z // int(block_size[2]))
    assert device_data(ids.get(queue=queue).tolist()) == groups.tolist()


@pytest.mark.parametrize("what", ["grid", "block"])
@pytest.mark.parametrize(("values", "refusal"), [
    ([0, -1, (0,), (1, 0), (1, 1, -1), 1 << 63, 1 << 70], VALUE),
    ([(), (1, 1, 1, 1)], (*VALUE, "1 to 3 dimensions")),
    ([1.0, "1", None, True, np.True_, [1], {1: 1}, (1, 1.5), (None,), np.zeros(2, int)], TYPE),
], ids=["below one or beyond 64 bits", "dimensions", "no ints"])  # fmt: skip
def test_sizes_that_are_refused(queue, program, refuses, what, values, refusal):
    for value in values:
        number = str(min(value) if isinstance(value, tuple) else value) if refusal is VALUE else ""
        with refuses(*refusal, "'nothing'", what, number):
            queue.launch(program["nothing"], *((value, 1) if what == "grid" else (1, value)))


def test_blocks_and_grids_that_are_too_large(device, queue, program, refuses):
    largest = program["nothing"].max_block_size
    queue.launch(program["nothing"], 1, min(largest, limits(device.info).block_axis))
    for block in (largest + 1, (largest, 2), (1 << 31, 1 << 31, 1 << 31)):
        with refuses(*VALUE, "'nothing'", "block", device.name, str(block) if isinstance(block, int) else ""):
            queue.launch(program["nothing"], 1, block)
    with refuses(*VALUE, "'nothing'", "grid", "too large"):
        queue.launch(program["nothing"], (1 << 62), 4)


def test_a_required_block_is_required(device, queue, program, refuses):
    buffer = device.zeros(8, "i4")
    queue.launch(program["of_eight"], 1, (4, 2), buffer)
    assert device_data(buffer.get(queue=queue).tolist()) == [8] * 8
    for block in (8, (2, 4), (4, 2, 2), 1):
        with refuses(fb.InvalidArgumentError, ValueError, "'of_eight'", "(4, 2, 1)"):
            queue.launch(program["of_eight"], 1, block, buffer)


# Subscript form


def test_subscript_form(device, queue, program, really):
    buffer = device.zeros(100, "i4")
    program["fill"][10, 10, queue](buffer, 3)
    assert buffer.get(queue=queue).tolist() == [3] * 100 or not really
    assert queue.stats.launches == 1
    before = device.null_queue.stats.launches
    program["fill"][10, 10](buffer, 4)
    assert device.null_queue.stats.launches == before + 1
    with queue:
        program["fill"][(10,), (10,)](buffer, 5)
        assert buffer.get().tolist() == [5] * 100 or not really
    assert queue.stats.launches == 2


def test_what_a_launcher_refuses(device, queue, program, refuses):
    out, fill = device.zeros(1, "i4"), program["fill"]
    for configuration in (1, (1,), (), (1, 1, None, None), "grid"):
        with refuses(*TYPE, "kernel[grid, block]"):
            fill[configuration]
    for thing in ("queue", 5, object()):
        with refuses(*TYPE, "Queue", type(thing).__name__):
            program["nothing"][1, 1, thing]()
        with refuses(*TYPE, "Queue", type(thing).__name__):
            program["nothing"].bind(thing, 1, 1)
    for thing in (None, 5, "fill", lambda: None):
        with refuses(*TYPE, "Kernel", type(thing).__name__):
            queue.launch(thing, 1, 1)
    with refuses(*TYPE, "fill[grid, block]"):
        fill(None, 1)
    with refuses(*TYPE, "keyword"):
        fill[1, 1, queue](out, 1, other=2)
    with refuses(*TYPE, "2 arguments"):
        fill[1, 1, queue](*[out] * 40)
    with refuses(*TYPE, "kernel[grid, block]"):
        fb.Launcher()
    with refuses(*TYPE, "Program"):
        fb.Kernel()
    closed = device.queue()
    launch = fill[1, 1, closed]
    closed.close()
    with refuses(fb.ClosedError, RuntimeError, "Queue"):
        launch(out, 1)


def test_the_keywords_of_a_launcher_are_those_of_a_launch(device, queue, really):
    one = device.program("kernel void one(int value, global int *out) { out[0] = value; }")["one"]
    assert one[1, 1, queue](7, result="i4").get() == 7 or not really
    assert one[1, 1, queue](7, device.zeros(1, "i4"), result=None) is None


def test_a_launcher_keeps_what_it_launches(device, program):
    """The queue that it was made with, and the kernel, live as long as it does."""
    out = device.zeros(8, "i4")
    device.finish()
    launch = device.program(taking("int"))["take"][1, 1, device.queue()]
    assert type(launch) is fb.Launcher
    for value in (3, 4):
        launch(out, value)
    device.finish()
    assert device_data(out.get()[0]) == 4


# Arguments remembered


def test_only_what_changed_is_set(device, queue, program):
    buffer, other = device.zeros(10, "i4"), device.zeros(10, "i4")
    kernel = program["fill"]
    expected = []
    for target, value, nbytes in ((buffer, 1, 12), (buffer, 1, 0), (buffer, 2, 4), (other, 2, 8), (other, 2, 0)):
        before = queue.stats
        queue.launch(kernel, 1, 10, target, value)
        gone = queue.stats - before
        expected.append((gone.arg_bytes_set, gone.arg_bytes_skipped) == (nbytes, 12 - nbytes))
        assert device_data(target.get(queue=queue).tolist()) == [value] * 10
    assert all(expected)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 122, 123, 124])  # the common launch has room for the pointer and 123
def test_each_argument_that_changes_is_set(device, queue, count, really):
    numbers, weighed = (
        ", ".join(f"int n{i}" for i in range(count)),
        " + ".join(f"{i + 1} * n{i}" for i in range(count)),
    )
    kernel = device.program(f"kernel void weigh(global int *r, {numbers}) {{ r[0] = {weighed}; }}")["weigh"]
    result = device.zeros(1, "i4")
    values = [0] * count
    for i in sorted({0, 1, 2, 3, 50, count - 2, count - 1} & set(range(count))):
        values[i] = 1
        queue.launch(kernel, 1, 1, result, *values)
        assert result.get(queue=queue)[0] == sum((k + 1) * value for k, value in enumerate(values)) or not really
    with queue.capture() as graph:
        queue.launch(kernel, 1, 1, result, *[0] * (count - 1), 7)
    assert len(graph.nodes) == 1
    graph.launch(queue)
    assert result.get(queue=queue)[0] == 7 * count or not really


def test_a_refused_launch_sets_nothing(device, queue, program, refuses):
    buffer = device.zeros(10, "i4")
    queue.launch(program["fill"], 1, 10, buffer, 1)
    with refuses(fb.InvalidArgumentError, ValueError, "range"):
        queue.launch(program["fill"], 1, 10, device.zeros(10, "i4"), 1 << 40)
    queue.launch(program["fill"], 1, 10, buffer, 1)
    assert device_data(buffer.get(queue=queue).tolist()) == [1] * 10


def test_arguments_of_launches_in_flight_do_not_change(device, make_queue, program, hold):
    """Buffers, numbers and structures, of many launches of one kernel on each of four queues."""
    queues, buffer = [make_queue(blocking=False) for _ in range(4)], device.zeros((100, 10), "i4")
    results = [device.zeros(3, "f4") for _ in range(100)]
    device.finish()
    gates = [hold(queue) for queue in queues]
    for row, result in enumerate(results):
        queues[row % 4].launch(program["fill"], 1, 10, buffer[row], row)
        queues[row % 4].launch(program["take_pair"], 1, 1, result, np.array((row, row / 2, row % 7), PAIR))
    for gate in gates:
        gate.open()
    device.finish()
    assert device_data(buffer.get().tolist()) == [[row] * 10 for row in range(100)]
    found = [result.get().tolist() for result in results]
    assert device_data(found) == [[row, row / 2, row % 7] for row in range(100)]


def test_a_new_buffer_where_an_old_one_was_is_a_new_argument(device, queue, program):
    for value in range(50):
        with device.zeros(1000, "i4") as buffer:
            queue.launch(program["fill"], 10, 100, buffer, 7)
            assert device_data(buffer.get(queue=queue).tolist()) == [7] * 1000, value


# Closing


def test_a_closed_kernel(device, queue, make_queue, refuses):
    program = device.program("kernel void one(global int *a) { a[0] = 1; }")
    kernel = program["one"]
    buffer = device.zeros(1, "i4")
    go = kernel.bind(queue, 1, 1, buffer)
    queue.launch(kernel, 1, 1, buffer)
    kernel.close()
    kernel.close()
    assert "closed" in repr(kernel)
    other = make_queue()
    for attempt in (
        lambda: queue.launch(kernel, 1, 1, buffer),
        lambda: other.launch(kernel, 1, 1, buffer),
        lambda: kernel[1, 1, queue](buffer),
        lambda: kernel.bind(queue, 1, 1, buffer),
        kernel.__enter__,
    ):
        with refuses(fb.ClosedError, RuntimeError, "'one'", "closed"):
            attempt()
    queue.fill(buffer, 0)
    go()
    assert device_data(buffer.get(queue=queue).tolist()) == [1]


# Names of the driver's kernels, for traces


def test_a_handle_that_is_used_again_has_the_later_name(device, queue):
    buffer = device.zeros(1, "i4")
    for number in range(30):
        with device.program(f"kernel void named_{number % 3}(global int *a, int n) {{ a[0] = n; }}") as program:
            before = names()
            queue.launch(program[f"named_{number % 3}"], 1, 1, buffer, 1)
            (new,) = {handle: name for handle, name in names().items() if before.get(handle) != name}.values()
            assert new == f"named_{number % 3}"
        queue.finish()
    assert sum(name.startswith("named_") for name in names().values()) <= 2
