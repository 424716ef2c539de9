import copy
import ctypes
import pickle
import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import forebay as fb
from tests.drivers.levelzero.validation import device_scope
from tests.helpers.kernels import taking
from tests.helpers.limits import limits
from tests.helpers.refusals import refused

BOOLS = True, np.True_, np.False_, np.array(True)
INTEGERS = {"char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "long": "q", "ulong": "Q"}
NUMPY_INTEGERS = tuple(np.dtype(code).type(7) for code in "bBhHiIlLqQ")
DTYPES = {name: np.dtype(code) for name, code in INTEGERS.items()} | {"float": np.dtype("f4")}


@pytest.fixture(scope=device_scope)
def taker(device):
    """``taker("int")``: a kernel that stores its argument of that type."""
    programs = {}

    def taker(type_name):
        if type_name not in programs:
            programs[type_name] = device.program(taking(type_name))
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


@pytest.mark.parametrize(("given", "named"), [((), 0), ((None,), 1), ((None, 1, 2), 3)])
def test_the_number_of_arguments_is_checked(queue, program, refuses, given, named):
    for attempt in (
        lambda: queue.launch(program["fill"], 1, 1, *given),
        lambda: program["fill"][1, 1, queue](*given),
        lambda: program["fill"].bind(queue, 1, 1, *given),
    ):
        with refuses(fb.ArgumentTypeError, TypeError, "'fill'", "2 arguments", f"{named} given", "int value"):
            attempt()


@pytest.mark.parametrize("thing", [None, 5, "fill", lambda: None])
def test_what_is_no_kernel_is_refused(queue, refuses, thing):
    with refuses(fb.ArgumentTypeError, TypeError, "Kernel", type(thing).__name__):
        queue.launch(thing, 1, 1)


# Scalars


@pytest.mark.executes
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_to_the_edges(device, queue, taker, name):
    limits = np.iinfo(DTYPES[name])
    result = device.zeros(1, DTYPES[name])
    around_a_digit = [sign * ((1 << 30) + more) for sign in (1, -1) for more in (-1, 0, 1)]  # of CPython's integers
    whole = [value for value in around_a_digit if limits.min <= value <= limits.max]
    for value in (limits.min, -1 if limits.min else 1, 0, 1, limits.max, *whole, np.array(5), *BOOLS, *NUMPY_INTEGERS):
        expected = int(value)
        queue.launch(taker(name), 1, 1, result, value)
        assert result.get(queue=queue)[0] == expected


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_beyond_the_edges_are_refused(queue, taker, refuses, name, spare):
    limits = np.iinfo(DTYPES[name])
    for value in (limits.min - 1, limits.max + 1, 1 << 64, -(1 << 64), 1 << 1000, 1 << 100000):
        shown = str(value) if abs(value) < 1 << 100 else "107150860718626732" if value < 1 << 2000 else "100001 bits"
        with refuses(fb.InvalidArgumentError, ValueError, "'take'", "argument 1", f"{name} value", "range", shown):
            queue.launch(taker(name), 1, 1, spare, value)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize(
    "value", [1.0, np.float32(2), np.float64(2), "1", b"1", None, 1j, Decimal(1), [1], np.array([1, 2])]
)
def test_integers_are_not_made_from_other_things(queue, taker, refuses, name, value, spare):
    with refuses(fb.ArgumentTypeError, TypeError, "argument 1", f"{name} value", "integer", type(value).__name__):
        queue.launch(taker(name), 1, 1, spare, value)


@pytest.mark.executes
@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.5, 3, True, 1e-45, 3.4028234e38, np.inf, -np.inf, np.float64(0.1), np.float32(0.1),
              np.float16(0.1), np.int64(9), np.longdouble("0.5"), np.array(2.5), Decimal("0.25"), Fraction(1, 4)],
)  # fmt: skip
def test_floats(device, queue, taker, value):
    result = device.zeros(1, "f4")
    queue.launch(taker("float"), 1, 1, result, value)
    assert result.get(queue=queue).tobytes() == np.float32(float(value)).tobytes()


@pytest.mark.executes
def test_nan(device, queue, taker):
    result = device.zeros(1, "f4")
    queue.launch(taker("float"), 1, 1, result, float("nan"))
    assert np.isnan(result.get(queue=queue)[0])


@pytest.mark.parametrize("value", [1e39, -1e39, 10**400, np.float64(3.5e38)])
def test_floats_out_of_range_are_refused(queue, taker, refuses, value, spare):
    with refuses(fb.InvalidArgumentError, ValueError, "argument 1", "float value", "range"):
        queue.launch(taker("float"), 1, 1, spare, value)


@pytest.mark.parametrize("value", ["1.0", b"1", None, 1j, [1.0], np.array([1.0, 2.0]), object()])
def test_floats_are_not_made_from_other_things(queue, taker, refuses, value, spare):
    with refuses(fb.ArgumentTypeError, TypeError, "argument 1", "float value", "number"):
        queue.launch(taker("float"), 1, 1, spare, value)


@pytest.mark.executes
@pytest.mark.needs("doubles")
def test_doubles(device, queue):
    kernel = device.program(taking("double"))["take"]
    result = device.zeros(1, "f8")
    for value in (0.1, 1e300, 5, np.float32(0.5), -np.inf):
        queue.launch(kernel, 1, 1, result, value)
        assert result.get(queue=queue)[0] == value
    with refused(fb.InvalidArgumentError, ValueError, "double value", "range"):
        queue.launch(kernel, 1, 1, result, 10**400)


@pytest.mark.executes
@pytest.mark.needs("halves")
def test_halves(device, queue, refuses):
    kernel = device.program("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" + taking("half"))["take"]
    result = device.zeros(1, "f2")
    for value in (0.5, 3, np.float16(1.25), -65504.0):
        queue.launch(kernel, 1, 1, result, value)
        assert result.get(queue=queue)[0] == value
    for value in (65520.0, 1e6):
        with refuses(fb.InvalidArgumentError, ValueError, "half value", "range"):
            queue.launch(kernel, 1, 1, result, value)


@pytest.mark.executes
def test_bytes_beside_each_other_do_not_run_into_each_other(device, queue):
    kernel = device.program(
        "kernel void mixed(global long *r, char a, ulong b, uchar c, short d, float e, int f, ushort g) "
        "{ r[0] = a; r[1] = b; r[2] = c; r[3] = d; r[4] = e; r[5] = f; r[6] = g; }"
    )["mixed"]
    result = device.zeros(7, "i8")
    queue.launch(kernel, 1, 1, result, -1, 1 << 40, 255, -2, -3.0, -4, 65535)
    assert result.get(queue=queue).tolist() == [-1, 1 << 40, 255, -2, -3, -4, 65535]


# Vectors


@pytest.mark.executes
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("name", DTYPES)
def test_vectors(device, queue, taker, name, lanes):
    dtype = DTYPES[name]
    values = [100 - i if dtype.kind == "u" else 3 - i for i in range(lanes)]
    result = device.zeros(lanes, dtype)
    array = np.array(values, dtype)
    for value in (
        tuple(values),
        values,
        array,
        array.tobytes(),
        memoryview(array),
        array.astype("f8" if dtype.kind == "f" else "i8"),
    ):
        queue.fill(result, 0)
        queue.launch(taker(f"{name}{lanes}"), 1, 1, result, value)
        assert result.get(queue=queue).tolist() == values


@pytest.mark.executes
@pytest.mark.parametrize(
    "value",
    [(1, 2, 3), [1.0, 2, 3], np.arange(1, 4), np.arange(1, 4, dtype="f4"), struct.pack("3f", 1, 2, 3),
     struct.pack("4f", 1, 2, 3, 9), (ctypes.c_float * 3)(1, 2, 3)],
)  # fmt: skip
def test_a_vector_of_three(device, queue, program, value):
    result = device.zeros(3, "f4")
    queue.launch(program["take_float3"], 1, 1, result, value)
    assert result.get(queue=queue).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "value"),
    [("int2", (1 << 31, 0)), ("int2", (0, -(1 << 31) - 1)), ("uchar4", (0, 1, 2, 256)), ("uchar4", (-1, 0, 0, 0)),
     ("ulong2", (0, 1 << 64)), ("char2", np.array([200, 0])), ("float2", (1e39, 0))],
)  # fmt: skip
def test_vectors_out_of_range_are_refused(queue, taker, refuses, name, value, spare):
    with refuses(fb.InvalidArgumentError, ValueError, "argument 1", f"{name} value", "range"):
        queue.launch(taker(name), 1, 1, spare, value)


@pytest.mark.executes
@pytest.mark.parametrize(
    ("name", "value"), [("int2", (0, (1 << 31) - 1)), ("ulong2", ((1 << 64) - 1, 0)), ("int2", (np.True_, np.False_))]
)
def test_vectors_to_the_edges(device, queue, taker, name, value):
    result = device.zeros(2, DTYPES[name[:-1]])
    queue.launch(taker(name), 1, 1, result, value)
    assert result.get(queue=queue).tolist() == list(value)


@pytest.mark.parametrize(
    "value", [(), (1,), (1, 2, 3), (1, 2, 3, 4, 5), np.zeros(16), 7, bytes(15), bytes(12), bytes(0)]
)
def test_vectors_of_another_length_are_refused(queue, taker, refuses, value, spare):
    with refuses(
        fb.InvalidArgumentError, ValueError, "argument 1", "float4 value", "4" if not isinstance(value, bytes) else "16"
    ):
        queue.launch(taker("float4"), 1, 1, spare, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("int2", (1.0, 2.0)), ("int2", "ab"), ("float2", "ab"), ("float2", (1j, 0)), ("int2", None), ("float2", {}),
     ("int2", (1, None))],
)  # fmt: skip
def test_vectors_are_not_made_from_other_things(queue, taker, refuses, name, value, spare):
    with refuses(fb.ArgumentTypeError, TypeError, "argument 1", f"{name} value"):
        queue.launch(taker(name), 1, 1, spare, value)


# Structures


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float), ("c", ctypes.c_char))


PAIR = np.dtype([("a", "i4"), ("b", "f4"), ("c", "i1")], align=True)


@pytest.mark.executes
@pytest.mark.parametrize(
    "value",
    [Pair(1, 2.5, 3), np.array((1, 2.5, 3), PAIR), np.array([(1, 2.5, 3)], PAIR)[0], struct.pack("ifb3x", 1, 2.5, 3),
     bytearray(struct.pack("ifb3x", 1, 2.5, 3)), memoryview(struct.pack("ifb3x", 1, 2.5, 3))],
)  # fmt: skip
def test_structures_are_bytes(device, queue, program, value):
    result = device.zeros(3, "f4")
    queue.launch(program["take_pair"], 1, 1, result, value)
    assert result.get(queue=queue).tolist() == [1, 2.5, 3]


@pytest.mark.executes(reads="found")
def test_structures_that_change(queue, device, program, hold):
    """The launch has the bytes that it was given, and not those of one before or after it."""
    results = [device.zeros(3, "f4") for _ in range(4)]
    device.finish()
    take = program["take_pair"]
    queue.launch(take, 1, 1, results[0], np.array((1, 2.5, 3), PAIR))
    queue.launch(take, 1, 1, results[1], np.array((4, 5.5, 6), PAIR))
    gate = hold(queue)
    queue.launch(take, 1, 1, results[2], np.array((7, 8.5, 9), PAIR))
    queue.launch(take, 1, 1, results[3], np.array((-1, 0.5, -2), PAIR))
    gate.open()
    found = [result.get(queue=queue).tolist() for result in results]
    assert found == [[1, 2.5, 3], [4, 5.5, 6], [7, 8.5, 9], [-1, 0.5, -2]]


@pytest.mark.parametrize("value", [bytes(11), bytes(13), b"", np.zeros(3, "f8"), (ctypes.c_int * 4)()])
def test_structures_of_another_size_are_refused(queue, program, refuses, value, spare):
    with refuses(fb.InvalidArgumentError, ValueError, "'take_pair'", "Pair pair", "12 bytes"):
        queue.launch(program["take_pair"], 1, 1, spare, value)


@pytest.mark.parametrize("value", [None, 5, 1.5, (1, 2.5, 3), "text", object()])
def test_structures_are_not_made_from_other_things(queue, program, refuses, value, spare):
    with refuses(fb.ArgumentTypeError, TypeError, "'take_pair'", "Pair pair", "12 bytes", type(value).__name__):
        queue.launch(program["take_pair"], 1, 1, spare, value)


# Local memory


@pytest.mark.executes
@pytest.mark.parametrize("block", [1, 8, 32])
def test_local_memory(device, queue, program, block):
    buffer = device.array(np.arange(64, dtype="i4"))
    queue.launch(program["reverse_in_groups"], 64 // block, block, buffer, fb.local(4 * block))
    expected = np.arange(64).reshape(-1, block)[:, ::-1].ravel()
    assert buffer.get(queue=queue).tolist() == expected.tolist()


@pytest.mark.parametrize("value", [None, 16, "16", np.zeros(4)])
def test_local_memory_is_not_made_from_other_things(device, queue, program, refuses, value, spare):
    with refuses(fb.ArgumentTypeError, TypeError, "argument 1", "room", "forebay.local", type(value).__name__):
        queue.launch(program["reverse_in_groups"], 1, 1, spare, value)


def test_a_buffer_is_no_local_memory_and_local_memory_no_buffer(device, queue, program, refuses):
    buffer = device.zeros(4, "i4")
    with refuses(fb.ArgumentTypeError, TypeError, "forebay.local", "Buffer"):
        queue.launch(program["reverse_in_groups"], 1, 1, buffer, buffer)
    with refuses(fb.ArgumentTypeError, TypeError, "needs a Buffer", "argument 0"):
        queue.launch(program["reverse_in_groups"], 1, 1, fb.local(4), fb.local(4))


def test_more_local_memory_than_the_device_has_is_refused(device, queue, program, refuses, spare):
    limit = limits(device.info).local_memory
    for nbytes in (limit + 1, 1 << 62):
        with refuses(fb.InvalidArgumentError, ValueError, "local memory", str(nbytes), str(limit)):
            queue.launch(program["reverse_in_groups"], 1, 1, spare, fb.local(nbytes))


@pytest.mark.parametrize("nbytes", [0, -1, 1 << 64, 1 << 100])
def test_local_memory_of_no_size_is_refused(nbytes):
    with refused(fb.InvalidArgumentError, ValueError, "local memory", str(nbytes)):
        fb.local(nbytes)


@pytest.mark.parametrize("nbytes", [1.5, "16", None, []])
def test_local_memory_of_no_number_is_refused(nbytes):
    with refused(fb.ArgumentTypeError, TypeError, "local", type(nbytes).__name__):
        fb.local(nbytes)


def test_local_says_what_it_is():
    assert repr(fb.local(np.int32(64))) == "forebay.local(64)"
    assert fb.local(64).nbytes == 64


# Pointers


@pytest.mark.executes
def test_null_is_a_null_pointer_from_the_first_launch_on(device, queue, program):
    result = device.zeros(1, "i4")
    for _ in range(2):
        queue.launch(program["is_null"], 1, 1, result, fb.NULL)
        assert result.get(queue=queue)[0] == 1


@pytest.mark.needs("null pointers after others")
@pytest.mark.executes
def test_null_is_a_null_pointer(device, queue, program):
    result, other = device.zeros(1, "i4"), device.zeros(1, "i4")
    for pointer, expected in ((fb.NULL, 1), (other, 0), (fb.NULL, 1), (other[0:], 0)):
        queue.launch(program["is_null"], 1, 1, result, pointer)
        assert result.get(queue=queue).tolist() == [expected]


def test_there_is_one_null():
    assert repr(fb.NULL) == "forebay.NULL"
    assert not fb.NULL
    for same in (pickle.loads(pickle.dumps(fb.NULL)), copy.copy(fb.NULL), copy.deepcopy(fb.NULL)):
        assert same is fb.NULL
    with refused(fb.ArgumentTypeError, TypeError, "forebay.NULL"):
        type(fb.NULL)()


@pytest.mark.parametrize("value", [None, 5, 0, np.int32(3), bytearray(4), "text", [1]])
def test_pointers_are_not_made_from_other_things(queue, program, refuses, value):
    with refuses(fb.ArgumentTypeError, TypeError, "'fill'", "argument 0", "int* values", type(value).__name__):
        queue.launch(program["fill"], 1, 1, value, 1)


# Geometry


@pytest.mark.executes
@pytest.mark.parametrize(
    ("grid", "block", "expected"),
    [
        (3, 4, (3, 1, 1)), ((3,), (4,), (3, 1, 1)), ((3, 2), 4, (3, 2, 1)), (3, (2, 2), (3, 1, 1)),
        ((2, 3, 4), (2, 1, 2), (2, 3, 4)), ((2, 3, 4), 1, (2, 3, 4)), (np.int64(3), np.uint8(4), (3, 1, 1)),
        ((np.int32(2), 2), (1, np.int16(3)), (2, 2, 1)), (1, 1, (1, 1, 1)),
    ],
)  # fmt: skip
def test_grid_counts_groups_and_block_work_items(device, queue, program, grid, block, expected):
    block_size = [*(block if isinstance(block, tuple) else (block,)), 1, 1][:3]
    size = [int(groups) * int(items) for groups, items in zip(expected, block_size, strict=True)]
    ids = device.array(np.full(size[::-1], -1, "i4"))
    queue.launch(program["where"], grid, block, ids)
    z, y, x = np.meshgrid(*(np.arange(extent) for extent in size[::-1]), indexing="ij")
    groups = x // int(block_size[0]) + 100 * (y // int(block_size[1])) + 10000 * (z // int(block_size[2]))
    assert ids.get(queue=queue).tolist() == groups.tolist()


@pytest.mark.parametrize("what", ["grid", "block"])
@pytest.mark.parametrize("value", [0, -1, (0,), (1, 0), (1, 1, -1), 1 << 63, 1 << 70])
def test_sizes_below_one_or_beyond_64_bits_are_refused(queue, program, refuses, what, value):
    grid, block = (value, 1) if what == "grid" else (1, value)
    number = min(value) if isinstance(value, tuple) else value
    with refuses(fb.InvalidArgumentError, ValueError, "'nothing'", what, str(number)):
        queue.launch(program["nothing"], grid, block)


@pytest.mark.parametrize("what", ["grid", "block"])
@pytest.mark.parametrize("value", [(), (1, 1, 1, 1)])
def test_other_numbers_of_dimensions_are_refused(queue, program, refuses, what, value):
    grid, block = (value, 1) if what == "grid" else (1, value)
    with refuses(fb.InvalidArgumentError, ValueError, "'nothing'", what, "1 to 3 dimensions"):
        queue.launch(program["nothing"], grid, block)


@pytest.mark.parametrize("what", ["grid", "block"])
@pytest.mark.parametrize("value", [1.0, "1", None, True, np.True_, [1], {1: 1}, (1, 1.5), (None,), np.zeros(2, int)])
def test_sizes_that_are_no_ints_are_refused(queue, program, refuses, what, value):
    grid, block = (value, 1) if what == "grid" else (1, value)
    with refuses(fb.ArgumentTypeError, TypeError, "'nothing'", what):
        queue.launch(program["nothing"], grid, block)


def test_a_block_larger_than_the_kernel_can_have_is_refused(device, queue, program, refuses):
    largest = program["nothing"].max_block_size
    queue.launch(program["nothing"], 1, min(largest, limits(device.info).block_axis))
    with refuses(fb.InvalidArgumentError, ValueError, "'nothing'", "block", str(largest + 1), device.name):
        queue.launch(program["nothing"], 1, largest + 1)
    with refuses(fb.InvalidArgumentError, ValueError, "'nothing'", "block", device.name):
        queue.launch(program["nothing"], 1, (largest, 2))
    with refuses(fb.InvalidArgumentError, ValueError, "'nothing'", "block", device.name):
        queue.launch(program["nothing"], 1, (1 << 31, 1 << 31, 1 << 31))


def test_a_grid_that_overflows_is_refused(queue, program, refuses):
    with refuses(fb.InvalidArgumentError, ValueError, "'nothing'", "grid", "too large"):
        queue.launch(program["nothing"], (1 << 62), 4)


@pytest.mark.executes
def test_a_required_block_is_required(device, queue, program, refuses):
    buffer = device.zeros(8, "i4")
    queue.launch(program["of_eight"], 1, (4, 2), buffer)
    assert buffer.get(queue=queue).tolist() == [8] * 8
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


@pytest.mark.parametrize("configuration", [1, (1,), (), (1, 1, None, None), "grid"])
def test_other_subscripts_are_refused(program, refuses, configuration):
    with refuses(fb.ArgumentTypeError, TypeError, "kernel[grid, block]"):
        program["fill"][configuration]


def test_a_call_without_geometry_is_refused(program, refuses):
    with refuses(fb.ArgumentTypeError, TypeError, "fill[grid, block]"):
        program["fill"](None, 1)


@pytest.mark.parametrize("thing", ["queue", 5, object()])
def test_what_is_no_queue_is_refused(program, refuses, thing):
    with refuses(fb.ArgumentTypeError, TypeError, "Queue", type(thing).__name__):
        program["nothing"][1, 1, thing]()
    with refuses(fb.ArgumentTypeError, TypeError, "Queue", type(thing).__name__):
        program["nothing"].bind(thing, 1, 1)


# Arguments remembered


@pytest.mark.executes
def test_only_what_changed_is_set(device, queue, program):
    buffer, other = device.zeros(10, "i4"), device.zeros(10, "i4")
    kernel = program["fill"]
    expected = []
    for target, value, nbytes in ((buffer, 1, 12), (buffer, 1, 0), (buffer, 2, 4), (other, 2, 8), (other, 2, 0)):
        before = queue.stats
        queue.launch(kernel, 1, 10, target, value)
        gone = queue.stats - before
        expected.append((gone.arg_bytes_set, gone.arg_bytes_skipped) == (nbytes, 12 - nbytes))
        assert target.get(queue=queue).tolist() == [value] * 10
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


@pytest.mark.executes
def test_a_refused_launch_sets_nothing(device, queue, program, refuses):
    buffer = device.zeros(10, "i4")
    queue.launch(program["fill"], 1, 10, buffer, 1)
    with refuses(fb.InvalidArgumentError, ValueError, "range"):
        queue.launch(program["fill"], 1, 10, device.zeros(10, "i4"), 1 << 40)
    queue.launch(program["fill"], 1, 10, buffer, 1)
    assert buffer.get(queue=queue).tolist() == [1] * 10


@pytest.mark.executes
def test_every_queue_has_its_own_arguments(device, make_queue, program, hold):
    queues = [make_queue(blocking=False) for _ in range(4)]
    buffers = [device.zeros(10, "i4") for _ in queues]
    device.finish()
    gates = [hold(queue) for queue in queues]
    for value, (queue, buffer) in enumerate(zip(queues, buffers, strict=True)):
        queue.launch(program["fill"], 1, 10, buffer, value)
    for gate in gates:
        gate.open()
    for value, (queue, buffer) in enumerate(zip(queues, buffers, strict=True)):
        assert buffer.get(queue=queue).tolist() == [value] * 10


@pytest.mark.executes
def test_arguments_of_launches_in_flight_do_not_change(device, queue, hold, program):
    buffer = device.zeros((100, 10), "i4")
    device.finish()
    gate = hold(queue)
    for row in range(100):
        queue.launch(program["fill"], 1, 10, buffer[row], row)
    gate.open()
    assert buffer.get(queue=queue).tolist() == [[row] * 10 for row in range(100)]


@pytest.mark.executes
def test_a_new_buffer_where_an_old_one_was_is_a_new_argument(device, queue, program):
    for value in range(50):
        with device.zeros(1000, "i4") as buffer:
            queue.launch(program["fill"], 10, 100, buffer, 7)
            assert buffer.get(queue=queue).tolist() == [7] * 1000, value


# Closing


@pytest.mark.executes
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
    assert buffer.get(queue=queue).tolist() == [1]


@pytest.mark.executes
def test_a_kernel_may_be_closed_while_it_is_in_flight(device, queue, hold):
    program = device.program("kernel void one(global int *a) { a[0] = 1; }")
    buffer = device.zeros(1, "i4")
    device.finish()
    gate = hold(queue)
    with program["one"] as kernel:
        queue.launch(kernel, 1, 1, buffer)
    del kernel, program
    gate.open()
    assert buffer.get(queue=queue).tolist() == [1]


def test_kernels_come_from_a_program_only():
    with refused(fb.ArgumentTypeError, TypeError, "Program"):
        fb.Kernel()
