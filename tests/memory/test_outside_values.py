"""Values from outside: indices, shapes, counts, element types and byte orders, and objects whose special methods run
code. Each use does what NumPy does on the host, or is refused by name; and nothing else is read or written.

The memory in use lies between canaries of the same allocation, and a twin on the host has both.
"""

import contextlib
import ctypes
import operator

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import forebay as fb
from forebay.cupy_style import ReductionKernel
from tests.helpers.device_data import device_data
from tests.helpers.examples import MANY, on_examples
from tests.helpers.observer import EXECUTES

PROPERTIES = 4  # which share the examples

SOURCE = """
kernel void move(global const uchar *x, global uchar *y) { y[get_global_id(0)] = x[get_global_id(0)]; }
typedef struct { int a; float b; } Pair;
kernel void structure(Pair pair, global int *y) { y[0] = pair.a; }
kernel void vector(int2 x, global int *y) { y[0] = x.x + x.y; }
kernel void real(float x, global float *y) { *y = x; }
"""
CANARY, ROOM = 0x5A5A5A5A, 32
SWAPPED = "newbyteorder"


def property_of(*strategies):
    """Make a test of a function of the scene and of an example."""

    def decorate(body):
        @pytest.mark.executes
        @pytest.mark.filterwarnings("ignore:__index__ returned non-int")
        @pytest.mark.parametrize("count", MANY)
        def test(scene, count):
            on_examples(lambda example: body(scene, *example), st.tuples(*strategies), count // PROPERTIES)

        return test

    return decorate


class Scene:
    """A device, a queue and kernels; and memory between canaries, with a twin on the host."""

    def __init__(self, device, queue):
        self.device, self.queue = device, queue
        self.kernels = device.program(SOURCE)
        self.total = fb.reduction("T x", "T y", "x", "a + b", "0", name="total")

    def guarded(self, shape):
        """Return a view of new memory, and the twin of it; `self.check` compares all of the memory with the twin's."""
        size = int(np.prod(shape))
        self.whole = np.full(size + 2 * ROOM, CANARY, "i4")
        twin = self.whole[ROOM : ROOM + size].reshape(shape)
        twin[...] = np.arange(size).reshape(shape)
        self.base = self.device.array(self.whole)
        return self.base[ROOM : ROOM + size].reshape(shape), twin

    def check(self):
        if not self.base.closed:
            assert device_data(self.base.get(queue=self.queue).tobytes()) == self.whole.tobytes()


@pytest.fixture
def scene(device, queue):
    return Scene(device, queue)


class RaisedError(Exception):
    """What an object of the test raises, and nothing else."""


class Odd:
    """An object whose special methods run code: `does` says which, and what it returns otherwise is `value`."""

    def __init__(self, does, value=1):
        self.does, self.value, self.scene = does, value, None

    def __repr__(self):
        return f"Odd({self.does!r}, {self.value!r})"

    def run(self):
        if self.does == "raise":
            raise RaisedError
        elif self.does == "close":
            self.scene.base.close()
        elif self.does == "launch":
            self.scene.queue.launch(self.scene.kernels["move"], 4, 1, bytes(4), self.scene.device.empty(4, "u1"))
        return {"text": "1", "bool": True, "none": None}.get(self.does, self.value)


class Index(Odd):
    def __index__(self):
        return self.run()


class Shown(Odd):
    """Shows an array by the array interface."""

    @property
    def __array_interface__(self):
        shown = self.run()
        return shown.__array_interface__ if isinstance(shown, np.ndarray) else shown


class Exported(Odd):
    """Shows an array by DLPack."""

    def __dlpack__(self, **wanted):
        shown = self.run()
        return shown.__dlpack__() if isinstance(shown, np.ndarray) else shown

    def __dlpack_device__(self):
        return (1, 0)


class Buffered(Odd):
    """Shows an array by the buffer protocol (PEP 688, from Python 3.12 on)."""

    def __buffer__(self, flags):
        shown = self.run()
        return memoryview(shown) if isinstance(shown, np.ndarray) else shown


DEEDS = st.sampled_from(["return", "raise", "close", "launch", "text", "bool", "none"])
small = st.integers(-4, 4)
wholes = st.one_of(
    small,
    st.sampled_from([np.int8, np.uint8, np.int64, np.intc, np.array]).flatmap(lambda kind: st.integers(0, 3).map(kind)),
    small.map(lambda n: Index("return", n)),
    st.sampled_from([2**31, -(2**31), 2**63, -(2**63) - 1, 2**64, 2**200]),
)
odd_indices = st.builds(Index, DEEDS, small)
masks = st.sampled_from(
    [True, False, np.True_, np.array(True), np.array(False), np.array([True, False]), np.array([0]), np.array(1.0),
     np.array([[1]]), [0, 1], [], 1.0, "a", np.float32(0), (0,), 1j, np.array(0, object), object()]
)  # fmt: skip


def slices_of(parts):
    return st.builds(slice, *[st.none() | parts] * 3)


plain = st.one_of(wholes, slices_of(small), slices_of(wholes), st.none(), st.just(Ellipsis))
any_index = st.one_of(plain, masks, odd_indices, slices_of(odd_indices), slices_of(masks))


def keys_of(parts):
    return parts | st.lists(parts, max_size=4).map(tuple)


def odd_in(thing):
    """Return the objects in an example that run code."""
    parts = thing if isinstance(thing, tuple) else (thing,)
    parts = [p for part in parts for p in ((part.start, part.stop, part.step) if isinstance(part, slice) else (part,))]
    return [part for part in parts if isinstance(part, Odd)]


EXPECTED = (fb.ArgumentTypeError, fb.InvalidArgumentError, fb.ClosedError, RaisedError)


@property_of(
    st.sampled_from([(6,), (2, 3), (3, 1, 2), (0, 2), ()]),
    st.sampled_from([(), slice(None, None, 2), (Ellipsis, slice(None, None, -1)), (None, Ellipsis)]),
    st.tuples(st.just(True), keys_of(plain)) | st.tuples(st.just(False), keys_of(any_index)),
    st.sampled_from(["get", "set", "fill", "copy", "item", "set strided"]),
)
def test_indices(scene, shape, before, given_key, action):
    is_plain, key = given_key
    view, twin = scene.guarded(shape)
    if shape:
        view, twin = view[before], twin[before]
    odd = odd_in(key)
    for each in odd:
        each.scene = scene
    ran = any(each.does != "return" for each in odd)
    try:
        wanted = twin[key]
    except (IndexError, TypeError, ValueError, OverflowError, RaisedError):
        wanted = None
    must = is_plain and wanted is not None and (shape or isinstance(key, tuple))
    try:
        part = view[key]
        if action == "get":
            assert wanted is not None
            found = part.get(queue=scene.queue)
            assert found.shape == np.shape(wanted)
            assert found.tobytes() == wanted.tobytes()
        elif action == "copy":
            assert device_data(part.copy(scene.queue).get(queue=scene.queue).tobytes()) == wanted.tobytes()
        elif action == "item":
            assert part.size != 1 or device_data(part.item()) == wanted.item()
        else:
            scene.queue.finish()
            if action == "fill":
                part.fill(-7, scene.queue)
            elif action == "set":
                view[key] = -7
            else:
                part.set(scene.device.array(np.full(part.shape, -7, "i4")))
            scene.device.finish()
            if not scene.base.closed:
                assert wanted is not None
                twin[key] = -7
    except EXPECTED:
        assert not must or ran
    scene.check()


def set_threshold(scene, n):
    pool = scene.device.pool
    before = pool.release_threshold
    pool.release_threshold = n
    pool.release_threshold = before


COUNTS = {
    "an axis of a shape": lambda s, n: s.device.empty((2, n), "u1").get(),
    "a shape": lambda s, n: s.device.empty(n, "u1").get(),
    "a pool's shape": lambda s, n: s.queue.alloc((n, 3), "u1").get(),
    "a shape of pinned memory": lambda s, n: fb.host_empty((n, 3), "u1", s.device),
    "a graph's shape": lambda s, n: s.device.graph().add_alloc((n, 1), "u1"),
    "reshape": lambda s, n: s.base.reshape(n, -1).get(),
    "grid": lambda s, n: s.queue.launch(s.kernels["move"], n, 1, bytes(4), s.device.empty(4, "u1")),
    "block": lambda s, n: s.queue.launch(s.kernels["move"], 1, (n, 1), bytes(4), s.device.empty(4, "u1")),
    "local": lambda s, n: fb.local(n),
    "groups at once": lambda s, n: s.kernels["move"].groups_at_once(n),
    "bytes of local memory": lambda s, n: s.kernels["move"].groups_at_once(1, n),
    "priority": lambda s, n: s.device.queue(priority=n).close(),
    "threshold": set_threshold,
    "size": lambda s, n: fb.MaxOver("x") * n,
    "axis": lambda s, n: s.total(s.base, axis=n),
    "index": lambda s, n: s.base.item(n),
    "index of a view": lambda s, n: s.base[::2].item(n),
}


@property_of(
    st.sampled_from(sorted(COUNTS)),
    st.tuples(st.just("a number"), wholes)
    | st.tuples(st.just("none"), masks)
    | st.tuples(st.just("code"), odd_indices),
)
def test_counts(scene, name, described):
    what, value = described
    scene.guarded((6,))
    for each in odd_in(value):
        each.scene = scene
    if what == "a number" and ("shape" in name or name == "grid") and not operator.index(value) < 1 << 20:
        return  # the machine may have so much memory and time
    try:
        COUNTS[name](scene, value)
        assert what != "none" or (isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value))  # several numbers
    except (*EXPECTED, fb.OutOfMemoryError):
        assert what != "a number" or name == "axis" or operator.index(value) != 1  # which is right for all others
    scene.queue.finish()
    scene.check()


LIMITS = [-(2**63) - 1, -1, 0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70]


@pytest.mark.parametrize("name", COUNTS)
def test_counts_at_the_limits_of_types(scene, name):
    scene.guarded((6,))
    for n in LIMITS:
        if ("shape" in name or name in ("grid", "priority")) and 0 <= n < 2**62:
            continue  # the machine may have so much memory, time and range
        with contextlib.suppress(*EXPECTED, fb.OutOfMemoryError):
            COUNTS[name](scene, n)
    scene.queue.finish()
    if EXECUTES:
        scene.check()


scalars = st.builds(
    lambda order, kind: np.dtype(order + kind),
    st.sampled_from("<>"),
    st.sampled_from(["i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "?", "S3", "U2", "V5"]),
)
with_axes = st.builds(lambda dtype, shape: np.dtype((dtype, shape)), scalars, st.sampled_from([(2,), (1, 3)]))
types = st.recursive(
    scalars | with_axes,
    lambda inner: st.builds(
        lambda fields: np.dtype([(f"f{i}", each) for i, each in enumerate(fields)]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=4,
)


def swapped(dtype):
    """Whether something in an element is in the other byte order, as the type's own description says."""
    return dtype.newbyteorder("=") != dtype


def native(array):
    return array.astype(array.dtype.newbyteorder("="))


def array_of(dtype):
    """Return an array of two elements with every byte set, which stay the same when they are read as numbers."""
    base = np.zeros(2, dtype)
    filled = np.frombuffer((np.arange(base.nbytes, dtype="u1") % 23 + 33).tobytes(), base.dtype)
    return np.ones(2, dtype) if dtype.base.kind in "bU" or dtype.names else filled.reshape(base.shape).copy()


def moved(scene, host, *, count):
    """Return what a kernel reads of it."""
    out = scene.device.zeros(count, "u1")
    scene.queue.wait(scene.device.current_queue)
    scene.queue.launch(scene.kernels["move"], count, 1, host, out)
    return out.get(queue=scene.queue).tobytes()


def copied_from(scene, host, wrap=lambda host: host):
    buffer = scene.device.empty(host.nbytes, "u1")
    scene.queue.copy(buffer, wrap(host))
    return buffer.get(queue=scene.queue).tobytes()


def copied_to(scene, host, wrap=lambda host: host):
    target = np.zeros_like(host)
    scene.queue.copy(wrap(target), scene.device.array(native(host)))
    scene.queue.finish()
    return native(target).tobytes()


def captured(scene, host):
    graph = scene.device.graph()
    buffer = scene.device.empty(host.nbytes, "u1")
    graph.add_copy(buffer, host)
    graph.launch(scene.queue)
    return buffer.get(queue=scene.queue).tobytes()


def adopted(scene, host):
    assume(scene.device.driver.takes_host)
    buffer = scene.device.as_buffer(host)
    return moved(scene, buffer, count=buffer.nbytes)


def written(scene, host):
    buffer = scene.device.empty(host.shape, host.dtype.newbyteorder("="))
    buffer.set(host, scene.queue)
    return buffer.get(queue=scene.queue).tobytes()


def received(scene, host):
    target = np.zeros_like(host)
    scene.device.array(native(host)).get(target, scene.queue)
    return native(target).tobytes()


def viewed(scene, host):
    return scene.device.array(host.view("u1").reshape(-1)).view(host.dtype).get(queue=scene.queue).tobytes()


def by_itself(make):
    """Return a function that makes memory of the type, and reads nothing."""

    def made(scene, host):
        make(scene, host.dtype)
        return native(host).tobytes()

    return made


# What of the bytes of an array comes out of the device, by each way in.
WAYS = {
    "array": lambda s, host: s.device.array(host).get(queue=s.queue).tobytes(),
    "set": written,
    "copy from": copied_from,
    "copy to": copied_to,
    "copy from a view": lambda s, host: copied_from(s, host, memoryview),
    "copy to a view": lambda s, host: copied_to(s, host, memoryview),
    "copy in a graph": captured,
    "get": received,
    "view": viewed,
    "launch": lambda s, host: moved(s, host, count=host.nbytes),
    "by value": lambda s, host: moved(s, fb.by_value(host), count=host.nbytes),
    "a view by value": lambda s, host: moved(s, fb.by_value(memoryview(host)), count=host.nbytes),
    "a structure by value": lambda s, host: moved(s, host[0], count=host[0].nbytes) + native(host[1:]).tobytes(),
    "as_buffer": adopted,
    "array interface": lambda s, host: adopted(s, Shown("return", host)),
    "DLPack": lambda s, host: adopted(s, Exported("return", host)),
    "empty": by_itself(lambda s, dtype: s.device.empty(2, dtype)),
    "zeros": by_itself(lambda s, dtype: s.device.zeros(2, dtype)),
    "host_empty": by_itself(lambda s, dtype: fb.host_empty(2, dtype, s.device)),
    "alloc": by_itself(lambda s, dtype: s.queue.alloc(2, dtype)),
    "add_alloc": by_itself(lambda s, dtype: s.device.graph().add_alloc(2, dtype)),
    "result=": by_itself(lambda s, dtype: s.queue.launch(s.kernels["move"], 1, 1, bytes(4), result=dtype)),
}
CONVERTS = {"array", "set"}
NOT_ALL_TYPES = {"copy from a view", "copy to a view", "a view by value", "a structure by value", "array interface",
                 "DLPack"}  # fmt: skip


@property_of(st.sampled_from(sorted(WAYS)), types)
def test_byte_orders(scene, way, dtype):
    host = array_of(dtype)
    try:
        assert WAYS[way](scene, host) == native(host).tobytes()
        assert way in CONVERTS or not swapped(dtype) or dtype.itemsize == 1
    except EXPECTED as error:
        assert swapped(dtype) or way in NOT_ALL_TYPES
        assert way not in CONVERTS
        message = str(error)
    else:
        message = SWAPPED
    assert SWAPPED in message or way in {*NOT_ALL_TYPES, "get"}


def test_lists_of_structures_are_converted_by_numpy(device):
    pair = np.dtype([("a", "i4"), ("b", [("c", "f4"), ("d", "f4", 2)])])
    made = device.array([(1, (2, [3, 4]))], pair)
    assert made.dtype == pair
    made.set([(5, (6, [7, 8]))])
    device.finish()


@pytest.mark.skipif(not hasattr(ctypes, "BigEndianUnion"), reason="Python has none before 3.11")
@pytest.mark.parametrize("shape", ["union", "in a structure", "in an array"])
def test_unions_of_the_other_byte_order(device, queue, shape):
    """Their buffer shows no order."""
    union = type("Union", (ctypes.BigEndianUnion,), {"_fields_": [("a", ctypes.c_int), ("b", ctypes.c_float)]})
    structure = type("Structure", (ctypes.Structure,), {"_fields_": [("u", union)]})
    value = {"union": union(7), "in a structure": structure(union(7)), "in an array": (union * 1)()}[shape]
    buffer = device.zeros(1, "i4")
    for use in (lambda: queue.copy(buffer, value), lambda: queue.copy(value, buffer), lambda: fb.by_value(value)):
        with pytest.raises(fb.ArgumentTypeError, match="order"):
            use()


class Swapped(ctypes.BigEndianStructure):
    _fields_ = (("O", ctypes.c_int32), ("b", ctypes.c_float))


class Nested(ctypes.Structure):
    _fields_ = (("in", Swapped), ("c", ctypes.c_int32))


TYPED = {
    "a structure of ctypes": lambda s: moved(s, Swapped(1, 2), count=8),
    "a structure in one": lambda s: moved(s, fb.by_value(Nested()), count=12),
    "a structure as a parameter": lambda s: s.queue.launch(s.kernels["structure"], 1, 1, Swapped(1, 2), s.base),
    "numbers of a vector": lambda s: s.queue.launch(s.kernels["vector"], 1, 1, memoryview(np.ones(2, ">i4")), s.base),
    "an array of ctypes": lambda s: s.queue.copy(s.base[:2], (ctypes.c_int32.__ctype_be__ * 2)(1, 2)),
    "elementwise": lambda s: fb.elementwise("T x", "T y", "y = x")(np.ones(3, ">f4"), queue=s.queue),
    "reduction": lambda s: s.total(np.ones(3, ">f4"), queue=s.queue),
    "a result of a reduction": lambda s: s.total(s.base, result=">i4"),
    "what is accumulated": lambda s: fb.reduction("T x", "T y", "x", "a + b", accumulate=">f8"),
    "a type of a parameter": lambda s: fb.elementwise(">f4 x", "T y", "y = x"),
    "a type of CuPy's": lambda s: ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", reduce_type=">f8"),
}


@pytest.mark.parametrize("use", TYPED)
def test_the_other_byte_order_is_refused_by_name(scene, use):
    scene.guarded((6,))
    with pytest.raises((fb.ArgumentTypeError, fb.InvalidArgumentError), match=SWAPPED):
        TYPED[use](scene)
    scene.check()


def test_numbers_in_the_other_byte_order_are_converted(scene):
    scene.guarded((6,))
    scene.queue.launch(scene.kernels["vector"], 1, 1, np.array([7, 8], ">i4"), scene.base)
    assert device_data(scene.base.item(0)) == 15
    scene.base.fill(np.array(3, ">i8"))
    assert device_data(scene.base.item(5)) == 3
    twice = fb.elementwise("T x, T y", "T z", "z = x * y", name="twice")
    assert device_data(twice(scene.base, np.array(2, ">i4")).item(1)) == 6
    assert device_data(twice(np.array(2.5, ">f4"), np.float32(2), size=3, queue=scene.queue).item(1)) == 5


HOSTS = [
    np.arange(6, dtype="i4"), np.arange(6, dtype=">i4"), np.arange(3, dtype="i8"), np.zeros((0,), "i4"), {}, 5, "abc",
    {"shape": (6,), "typestr": "<i4", "version": 3, "data": None}, {"shape": "6", "typestr": "<i4", "data": (0, 0)},
]  # fmt: skip
USES = {
    "set": lambda s, view, odd: view.set(odd, s.queue),
    "assign": lambda s, view, odd: view.__setitem__(slice(1, 4), odd),
    "assign strided": lambda s, view, odd: view.__setitem__(slice(None, None, 2), odd),
    "fill": lambda s, view, odd: view.fill(odd, s.queue),
    "copy from": lambda s, view, odd: s.queue.copy(view, odd),
    "copy to": lambda s, view, odd: s.queue.copy(odd, view),
    "launch": lambda s, view, odd: s.queue.launch(s.kernels["move"], 24, 1, odd, view),
    "launch for it": lambda s, view, odd: s.queue.launch(s.kernels["move"], 24, 1, view, odd),
    "by value": lambda s, view, odd: s.queue.launch(s.kernels["move"], 24, 1, fb.by_value(odd), view),
    "array": lambda s, view, odd: s.device.array(odd),
    "as_buffer": lambda s, view, odd: s.queue.copy(view, s.device.as_buffer(odd)),
    "a number": lambda s, view, odd: s.queue.launch(s.kernels["real"], 1, 1, odd, view.view("f4")),
    "elementwise": lambda s, view, odd: s.total(odd, result=view[:1], queue=s.queue),
}


@property_of(
    st.sampled_from(sorted(USES)),
    st.sampled_from([Shown, Exported, Buffered, Index]),
    st.sampled_from(["return", "raise", "close", "launch", "none"]),
    st.sampled_from(range(len(HOSTS))),
)
def test_objects_that_run_code(scene, name, kind, does, host):
    view, _ = scene.guarded((6,))
    value = HOSTS[host].copy() if isinstance(HOSTS[host], np.ndarray) else HOSTS[host]
    if name in ("launch", "launch for it") and isinstance(value, np.ndarray) and value.nbytes < 24:
        return  # the kernel itself would read behind it
    odd = kind(does, value)
    odd.scene = scene
    with contextlib.suppress(*EXPECTED):
        USES[name](scene, view, odd)
    scene.device.finish()
    if not scene.base.closed:  # what it may write to is between the canaries
        now = scene.base.get(queue=scene.queue)
        assert (now[:ROOM] == CANARY).all()
        assert (now[-ROOM:] == CANARY).all()


COMPLEX = [1j, np.complex64(1 + 2j), np.complex128(2j), np.array(1j), np.array([2j], "c8"), [np.complex64(1j)], [1j, 2]]
REAL_PLACES = {
    "float": lambda s, value: s.queue.launch(s.kernels["real"], 1, 1, value, s.base),
    "fill": lambda s, value: s.base.fill(value),
    "fill strided": lambda s, value: s.base[::2].fill(value),
    "fill of ints": lambda s, value: s.base.view("i4").fill(value),
    "fill of structures": lambda s, value: s.base.view("i4,f4").fill((1, value)),
    "fill of the same structures": lambda s, value: s.base.view("f4").fill(np.array([(value,)], [("a", "c8")])[0]),
    "set": lambda s, value: s.base[:1].set(value),
    "assign": lambda s, value: s.base.__setitem__(slice(0, 1), value),
    "assign strided": lambda s, value: s.base.__setitem__(slice(0, 2, 2), value),
    "set structures": lambda s, value: s.base.view([("a", "f4")]).set(np.array([(value,)], [("a", "c8")])),
    "array": lambda s, value: s.device.array(value, "f4"),
    "objects": lambda s, value: s.device.array(np.array([value, None], object)[:1], "f8"),
    "elementwise": lambda s, value: s.total(value, result=s.base[:1], queue=s.queue),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("place", REAL_PLACES)
def test_nothing_imaginary_is_dropped(scene, place):
    scene.base = scene.device.zeros(64)
    for value in COMPLEX:
        given_value = np.complex64(value[0]) if np.ndim(value) and "structure" in place else value
        with pytest.raises((fb.ArgumentTypeError, fb.InvalidArgumentError)):
            REAL_PLACES[place](scene, given_value)
    assert (device_data(scene.base.get()) == 0).all()
