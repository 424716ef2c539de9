"""What memory, copies, fills and indices refuse: what is written, the error, and words of its message.

Each leaves the queue as it was, and working: see the fixture `refuses`.
"""

import numpy as np
import pytest

import forebay as fb

CUBE = np.arange(5 * 6 * 7, dtype="i4").reshape(5, 6, 7)
PAIR = np.dtype([("a", "i4"), ("b", "f4")])
NO_SHAPES = ["'abc'", "1.5", "(1, 2.5)", "None", "(2, None)"]
NO_DTYPES = ["'no such type'", "5", "[('a', 'nothing')]"]
NO_ELEMENTS = ["object", "[('a', 'O')]", "'V0'"]
NO_MEMORY = {"None": "NoneType", "5": "int", "'text'": "str", "[1, 2, 3]": "list", "object()": "object"}
NO_VALUES = {
    "u1": ["256", "-1", "np.int64(-1)", "np.array(256)"],
    "i1": ["128"],
    "i4": ["1 << 31", "1 << 100", "np.int64(1 << 31)", "1.5", "2.0", "'x'", "1j", "None", "[1]", "np.zeros(3, 'i4')",
           "np.zeros(0, 'i4')"],
    "u8": ["-1", "1 << 64"],
    "f2": ["1e6", "70000"],
    "f4": ["1j", "'1'", "1e39", "None", "[1, 2]", "object()"],
    "c8": ["1e39"],
    "?": ["'no'"],
    "S4": ["'abcde'"],
    "i4,f4": ["5", "(1, 2, 3)"],
}  # fmt: skip
STRIDED = {"np.zeros(20, 'i4')[::2]": "(8,)", "np.zeros((4, 5), 'f2', order='F')": "(2, 8)",
           "np.zeros((4, 6), 'i2')[:, 1:]": "(12, 2)"}  # fmt: skip

TYPE = [
    *[(f"device.{make}({shape})", "shape", str(eval(shape))) for make in ("empty", "zeros") for shape in NO_SHAPES],
    *[(f"fb.host_empty({shape}, device=device)", "shape") for shape in NO_SHAPES],
    *[(f"queue.alloc({shape})", "shape") for shape in NO_SHAPES],
    *[(f"cube.reshape({shape})", "shape") for shape in ("'210'", "210.0", "(6, 35.0)", "None")],
    *[(f"device.empty(3, {dtype})", "dtype") for dtype in NO_DTYPES],
    *[(f"cube.view({dtype})", "dtype") for dtype in NO_DTYPES],
    *[(f"fb.host_empty(3, {dtype}, device=device)", "dtype") for dtype in NO_DTYPES],
    *[(f"queue.alloc(3, {dtype})", "dtype") for dtype in NO_DTYPES],
    *[(f"device.array({what})", "array") for what in ("'abc', 'f4'", "[[1], [2, 3]]", "[1, None], 'i4'")],
    *[(f"cube[{key}]", "slice") for key in ("'a'", "1.0", "[0]", "'a':'b'", "[0, 1]", "np.array([0, 1])")],
    *[(f"cube[{key}]",) for key in ("0, [1, 2]", "..., ...", "0, 0, 0, 0", ":, True")],
    ("len(scalar)", "0-dimensional"), ("scalar[0]", "0-dimensional"),
    ("pair.set('abc')", "float32"), ("pair.set(object())", "float32"), ("pair.get([0.0] * 6)", "out"),
    ("buffer.get(queue='null')", "Queue"), ("buffer.set(1, queue=device)", "Queue"),
    ("fb.host_empty(3, device='cpu')", "Device"),
    *[(f"queue.copy(buffer, {thing})", "copy", name) for thing, name in NO_MEMORY.items()],
    *[(f"queue.copy({thing}, buffer)", "copy", name) for thing, name in NO_MEMORY.items()],
    *[(f"queue.fill({thing}, 0)", "Buffer", name) for thing, name in NO_MEMORY.items()],
    *[(f"queue.free({thing})", "Buffer", name) for thing, name in NO_MEMORY.items()],
    ("queue.copy(np.zeros(3), np.zeros(3))", "Buffer", "ndarray"),
    *[(f"queue.copy({copied})", "objects") for copied in
      ("buffer[:2], objects", "objects, buffer[:2]", "buffer[:2], memoryview(objects)")],
    ("queue.copy(frozen, buffer)", "writable", "ndarray"), ("queue.copy(bytes(40), buffer)", "writable", "bytes"),
    ("queue.copy(memoryview(bytes(40)), buffer)", "writable", "memoryview"),
    *[(f"queue.copy({host}, buffer)", "not C-contiguous", strides, "get(out=array)")
      for host, strides in STRIDED.items()],
    *[(f"device.graph().add_copy(buffer, {host})", "not C-contiguous", "np.ascontiguousarray") for host in STRIDED],
    ("queue.copy(np.zeros((5, 7), 'i4'), cube[:, 1])", "view.get(out=array)"),
    *[(f"setattr(device.pool, {name!r}, 'much')", name) for name in
      ("release_threshold", "used_high", "reserved_high")],
    ("fb.Buffer()", "Device.empty"), ("fb.Buffer(10, 'f4')", "Device.empty"), ("fb.MemoryPool()", "Device.pool"),
]  # fmt: skip
VALUE = [
    *[(f"{make}({shape}{more})", "shape", shape) for shape in ("-1", "(2, -3)") for make, more in
      (("device.empty", ""), ("fb.host_empty", ", device=device"), ("queue.alloc", ""))],
    *[(f"{make}(3, {dtype}{more})", "elements") for dtype in NO_ELEMENTS for make, more in
      (("device.empty", ""), ("fb.host_empty", ", device=device"), ("queue.alloc", ""))],
    *[(f"cube.reshape({shape})", "reshape") for shape in ("211", "11, -1", "-1, -1", "0, -1", "()")],
    ("cube.reshape(-6, -35)", "(-6, -35)"),
    *[(f"cube.view({dtype})",) for dtype in ("'i8'", "'V5'", "object", "'V0'")],
    ("scalar.view('f2')", "float16"), ("scalar.view('V16')", "V16"),
    ("pair.set([1, 2])", "(2, 3)"), ("pair.set(np.zeros((3, 2)))", "(2, 3)"),
    ("pair.get(np.empty((2, 3), 'i4'))", "out"), ("pair.get(np.empty(7, 'f4'))", "out"),
    ("cube.item()", "210 elements", "index"), ("cube.item(0, 0)", "2 indices"),
    *[(f"queue.copy({copied.format(size)})", "40 bytes", f"{4 * size} bytes") for size in (0, 9, 11, 1000) for copied in
      ("buffer, np.zeros({}, 'i4')", "np.zeros({}, 'i4'), buffer", "buffer, device.empty({}, 'i4')",
       "device.empty({}, 'i4'), buffer")],
    *[(f"queue.copy(buffer[{to}], buffer[{source}])", "overlap") for to, source in
      (("0:5", "0:5"), ("0:5", "4:9"), ("4:9", "0:5"), ("2:3", "2:3"))],
    *[(f"queue.copy(cube[{to}], device.array(CUBE)[{source}])", "copy") for to in (":, 1", "0") for source in
      (":, :2", "::2, 1")],
    *[(f"queue.fill(device.zeros(5, {dtype!r}), {value})", "fill") for dtype, values in NO_VALUES.items()
      for value in values],
    ("queue.free(buffer)", "alloc", "close()"),
    ("queue.launch(program['fill'], 1, 1, cube[::2], 1)", "argument 0", "int* values", "strides", ".copy()"),
    ("device.empty(64, usm_type='managed')", "'managed'", "shared"),
    *[(f"setattr(device.pool, {name!r}, -1)", name) for name in ("release_threshold", "used_high", "reserved_high")],
    *[(f"setattr(device.pool, {name!r}, 1)", name) for name in ("used_high", "reserved_high")],
]  # fmt: skip
OTHERS = {
    (fb.OutOfRangeError, IndexError): [
        *[(f"cube[{key}]", key, "5") for key in ("5", "-6")], (f"cube[{1 << 70}]", str(1 << 70)),
        *[(f"cube[{key}]", "out of bounds") for key in ("5, 0", ":, 6", "..., -8")], ("cube.item(1000)", "1000"),
        ("cube[2**70, 1]", "out of"), ("cube[::2, -(2**70)]", "out of"), ("cube[::2][2**70]", "out of"),
    ],
    (fb.OutOfMemoryError, MemoryError): [
        *[(f"{make}(1 << {bits})",) for make in ("device.empty", "queue.alloc") for bits in (50, 62, 70)],
        ("device.empty((1 << 40, 1 << 40))",), ("fb.host_empty(1 << 55, 'u1', device=device)", "pinned"),
    ],
    (fb.NotSupportedError, NotImplementedError): [("buffer.host", ".get()", "shared")],
    (fb.ClosedError, RuntimeError): [
        ("closed_queue.copy(buffer, np.zeros(10, 'i4'))", "Queue", "closed"), ("closed_queue.fill(buffer, 1)", "Queue"),
        ("closed_queue.copy(np.zeros(10, 'i4'), buffer)", "Queue"), ("closed_queue.copy(buffer, pooled)", "Queue"),
        ("closed_queue.alloc(10)", "closed"), ("closed_queue.free(pooled)", "closed"),
        ("fb.host_empty(3, device=closed_device)", "closed"),
    ],
}  # fmt: skip
REFUSED = [
    *[(written, fb.ArgumentTypeError, TypeError, words) for written, *words in TYPE],
    *[(written, fb.InvalidArgumentError, ValueError, words) for written, *words in VALUE],
    *[(written, *kinds, words) for kinds, rows in OTHERS.items() for written, *words in rows],
]
USES = [
    "queue.launch(program['fill'], 1, 1, x, 1)", "program['fill'].bind(queue, 1, 1, x, 1)",
    "queue.copy(x, np.zeros(10, 'i4'))", "queue.copy(np.zeros(10, 'i4'), x)", "queue.copy(x, buffer)",
    "queue.copy(buffer, x)", "queue.fill(x, 1)", "bound()", "x.get()", "x.set(1)", "x[0:1]", "x[0]", "x.reshape(-1)",
    "x.view('u1')", "x.address", "x.host", "x.usm_type", "x.__enter__()", "strided.get()",
    "strided.copy()", "strided.set(1)", "strided.fill(1)",
]  # fmt: skip
"""Uses of a buffer of ten ints, `x`, and of a strided view of it."""
ENDS = {
    "closed": lambda queue, x: x.close(),
    "a slice closed": lambda queue, x: x[3:5].close(),
    "a reshape closed": lambda queue, x: x.reshape(2, 5).close(),
    "a view closed": lambda queue, x: x.view("u1").close(),
    "freed": lambda queue, x: queue.free(x),
    "a slice freed": lambda queue, x: queue.free(x[3:5]),
}


@pytest.fixture
def names(device, queue, program, make_queue):
    """What is written with: memory of a shape and a type each."""
    frozen, closed = np.zeros(10, "i4"), make_queue()
    frozen.flags.writeable = False
    closed.close()
    with fb.Device(device.name, private=True) as closed_device:
        pass
    return {
        "np": np, "fb": fb, "CUBE": CUBE, "device": device, "queue": queue, "program": program,
        "buffer": device.zeros(10, "i4"), "cube": device.array(CUBE), "pair": device.zeros((2, 3), "f4"),
        "scalar": device.zeros(()), "pooled": queue.alloc(10, "i4"), "objects": np.array([{}], object),
        "frozen": frozen, "closed_queue": closed, "closed_device": closed_device,
    }  # fmt: skip


@pytest.mark.parametrize(("written", "kind", "builtin", "words"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_is_refused(refuses, names, written, kind, builtin, words):
    with refuses(kind, builtin, *words):
        eval(written, names)


@pytest.mark.parametrize("end", ENDS)
def test_memory_that_was_closed_or_freed(refuses, names, queue, end):
    x = queue.alloc(10, "i4") if "freed" in end else names["device"].zeros(10, "i4")
    views = {"x": x, "part": x[1:3], "strided": x[::2]}
    names |= views | {"bound": names["program"]["fill"].bind(queue, 1, 10, x, 1)}
    ENDS[end](queue, x)
    for view in views.values():
        assert view.closed
        assert "closed" in repr(view)
    for written in USES:
        with refuses(fb.ClosedError, RuntimeError, "closed"):
            eval(written, names)
    for freed in (x, views["part"]) if "freed" in end else ():
        with refuses(fb.ClosedError, RuntimeError, "freed"):
            queue.free(freed)
    x.close()
    assert (x.shape, x.nbytes, len(x)) == ((10,), 40, 10)


def test_freeing_on_another_device_is_refused(queue, another, refuses):
    buffer = queue.alloc(10)
    with another.queue() as other, refuses(fb.InvalidArgumentError, ValueError, "belongs to"):
        other.free(buffer)
    assert not buffer.closed
