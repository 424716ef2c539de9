"""Every copy of HIP: what it writes, in which order, in captures, and its errors. A row of `COPIES` describes one."""

import array
import ctypes
import re
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from forebay.hip.table import FUNCTIONS
from tests.helpers.device_data import device_data

from ..conftest import ok
from ..helpers import E, K, code, ints, read, run, variable, waits_for

ROW, ROWS = 32, 8  # bytes of a row, and rows; volumes have two planes of four rows
NBYTES = ROW * ROWS
SHAPE = ROWS, ROW // 4
ONES = np.arange(1, 1 + NBYTES // 4, dtype="i4").reshape(SHAPE)
KINDS = {
    (True, False): K.hipMemcpyHostToDevice, (False, True): K.hipMemcpyDeviceToHost,
    (True, True): K.hipMemcpyDeviceToDevice, (False, False): K.hipMemcpyHostToHost,
}  # fmt: skip
INVALID = {"symbol": E.hipErrorInvalidSymbol, "array": E.hipErrorInvalidHandle}  # else hipErrorInvalidValue


class End:
    """Memory that a copy reads or writes: rows of `ROW` bytes with gaps between them, which no copy may change."""

    def __init__(self, kind, gap, request):
        self.kind, self.on_device, self.owner = kind, kind in ("device", "symbol", "array"), None
        self.pitch, self.margin = ROW + gap, (gap // 4, 1)  # of an array: columns to the left, rows above
        self.raw = np.full((ROWS, self.pitch // 4), -1, "i4")
        if kind == "host":
            self.at = self.raw
        elif kind == "device":
            self.at = ok(hip.hipMalloc(self.raw.nbytes))
        elif kind == "symbol":
            self.at = variable(request.getfixturevalue("variables")(), b"table")
        elif kind == "array":
            self.raw = np.full((ROWS + 1, ROW // 4 + self.margin[0]), -1, "i4")
            result, self.at = hip.hipMallocArray(hip.hipChannelFormatDesc(32), *self.raw.shape[::-1])
            if result == E.hipErrorNotSupported:
                pytest.skip("the device has no textures")
        else:
            self.owner, self.raw = pinned_memory(kind, self.raw, request)
            self.at = self.raw if kind == "hipHostRegister" else self.owner

    @property
    def rows(self):
        """The part of the host's picture of it that is copied."""
        return self.raw[1:, self.margin[0] :] if self.kind == "array" else self.raw[:, : ROW // 4]

    @property
    def x(self):
        return 4 * self.margin[0]

    def put(self, values, stream=None):
        """Have it hold these values, stream-ordered where there is a stream."""
        self.raw[:] = -1
        self.rows[:] = values
        if self.kind == "array":
            ok(hip.hipMemcpyHtoAAsync(self.at, 0, self.raw, self.raw.nbytes, stream))
        elif self.on_device:
            ok(hip.hipMemcpyHtoDAsync(self.at, self.raw, self.raw.nbytes, stream))

    def contents(self):
        if self.kind == "array":
            ok(hip.hipMemcpyAtoH(self.raw, self.at, 0, self.raw.nbytes))
        elif self.on_device:
            ok(hip.hipMemcpyDtoH(self.raw, self.at, self.raw.nbytes))
        found = self.rows.copy()
        self.rows[:] = -1
        assert (device_data(self.raw) == -1).all(), "it wrote beside the rows"
        return found


def pinned_memory(way, like, request):
    """Pinned memory, and the array on it."""
    if way == "host_empty":
        made = fb.host_empty(like.shape, "i4", hip.current_device())
        return made, made
    if way == "hipHostRegister":
        ok(hip.hipHostRegister(like, like.nbytes))
        request.addfinalizer(lambda: ok(hip.hipHostUnregister(like)))
        return like, like
    result, pointer = getattr(hip, way)(like.nbytes)
    if result == E.hipErrorNotSupported:
        pytest.skip("the device has no such memory")
    return pointer, np.asarray(pointer).view("i4").reshape(like.shape)


@dataclass
class Copy:
    """What a copy is given: the two ends, and how much of them."""

    to: End
    of: End
    kind: Any
    number: int
    nbytes: int = NBYTES
    width: int = ROW
    height: int = ROWS

    @property
    def linear(self):
        return self.to.at, self.of.at, self.nbytes

    @property
    def rows(self):
        return self.to.at, self.to.pitch, self.of.at, self.of.pitch, self.width, self.height, self.kind

    def volume(self, struct, **more):
        planes = [hip.hipPitchedPtr(end.at, end.pitch, ROW, ROWS // 2) for end in (self.to, self.of)]
        extent = hip.hipExtent(self.width, ROWS // 2, self.height - ROWS + 2)
        return (struct(dstPtr=planes[0], srcPtr=planes[1], extent=extent, **more),)

    def of_driver(self, struct, **more):
        """A structure of the driver's functions."""
        given = {"WidthInBytes": self.width, "Height": self.height, **more}
        for word, end in (("dst", self.to), ("src", self.of)):
            memory = "Array" if end.kind == "array" else "Device" if end.on_device else "Host"
            given[f"{word}MemoryType"] = getattr(hip.hipMemoryType, f"hipMemoryType{memory}")
            given |= {f"{word}{memory}": end.at, f"{word}Pitch": end.pitch}
            if memory == "Array":
                given |= {f"{word}XInBytes": end.x, f"{word}Y": 1}
            elif "Depth" in more:
                given[f"{word}Height"] = self.height
        return (struct(**given),)


EVERY = [*product(("device", "host"), repeat=2)]
IN_ARRAYS = [*EVERY, ("array", "host"), ("host", "array"), ("array", "array"), ("device", "array")]
# A row: the ends that it copies between, the bytes between rows if it copies rows, and its arguments without a stream.
COPIES = {
    "hipMemcpy": (EVERY, 0, lambda c: (*c.linear, c.kind)),
    "hipMemcpyHtoD": ([("device", "host")], 0, lambda c: c.linear),
    "hipMemcpyDtoH": ([("host", "device")], 0, lambda c: c.linear),
    "hipMemcpyDtoD": ([("device", "device")], 0, lambda c: c.linear),
    "hipMemcpy2D": (EVERY, 32, lambda c: c.rows),
    "hipMemcpy3D": (EVERY, 32, lambda c: c.volume(hip.hipMemcpy3DParms, kind=c.kind)),
    "hipMemcpyParam2D": (IN_ARRAYS, 32, lambda c: c.of_driver(hip.hip_Memcpy2D)),
    "hipDrvMemcpy2DUnaligned": (EVERY, 32, lambda c: c.of_driver(hip.hip_Memcpy2D)),
    "hipDrvMemcpy3D": (EVERY, 32, lambda c: c.of_driver(hip.HIP_MEMCPY3D, Depth=1)),
    "hipMemcpyPeer": ([("device", "device")], 0, lambda c: (c.to.at, c.number, c.of.at, c.number, c.nbytes)),
    "hipMemcpy3DPeer": (
        [("device", "device")], 32,
        lambda c: c.volume(hip.hipMemcpy3DPeerParms, dstDevice=c.number, srcDevice=c.number),
    ),
    "hipMemcpyToSymbol": ([("symbol", "host"), ("symbol", "device")], 0, lambda c: (*c.linear, 0, c.kind)),
    "hipMemcpyFromSymbol": ([("host", "symbol"), ("device", "symbol")], 0, lambda c: (*c.linear, 0, c.kind)),
    "hipMemcpy2DToArray": (
        [("array", "host"), ("array", "device")], 32,
        lambda c: (c.to.at, c.to.x, 1, c.of.at, c.of.pitch, c.width, c.height, c.kind),
    ),
    "hipMemcpy2DFromArray": (
        [("host", "array"), ("device", "array")], 32,
        lambda c: (c.to.at, c.to.pitch, c.of.at, c.of.x, 1, c.width, c.height, c.kind),
    ),
    "hipMemcpy2DArrayToArray": (
        [("array", "array")], 32, lambda c: (c.to.at, c.to.x, 1, c.of.at, c.of.x, 1, c.width, c.height, c.kind)
    ),
    "hipMemcpyToArray": ([("array", "host")], 0, lambda c: (c.to.at, 0, 1, c.of.at, c.nbytes, c.kind)),
    "hipMemcpyFromArray": ([("host", "array")], 0, lambda c: (c.to.at, c.of.at, 0, 1, c.nbytes, c.kind)),
    "hipMemcpyHtoA": ([("array", "host")], 0, lambda c: (c.to.at, ROW, c.of.at, c.nbytes)),
    "hipMemcpyAtoH": ([("host", "array")], 0, lambda c: (c.to.at, c.of.at, ROW, c.nbytes)),
    "hipMemcpyDtoA": ([("array", "device")], 0, lambda c: (c.to.at, ROW, c.of.at, c.nbytes)),
    "hipMemcpyAtoD": ([("device", "array")], 0, lambda c: (c.to.at, c.of.at, ROW, c.nbytes)),
    "hipMemcpyAtoA": ([("array", "array")], 0, lambda c: (c.to.at, ROW, c.of.at, ROW, c.nbytes)),
}  # fmt: skip
for name in [*COPIES]:
    suffixes = ("Async", "_spt", "Async_spt", "WithStream")
    COPIES |= {name + suffix: COPIES[name] for suffix in suffixes if hasattr(hip, name + suffix)}
WITH_STREAM = [name for name in COPIES if "Async" in name or "Stream" in name]
ASYNC = [name for name in COPIES if name.endswith("Async")]


def cases(names):
    return [pytest.param(name, *ends, id=f"{name}-{'-'.join(ends)}") for name in names for ends in COPIES[name][0]]


@pytest.fixture
def make(device, request):
    """``make(name, to, of)``: a `Copy` of this name, and ``call(copy, stream)``."""

    def make(name, to, of):
        _, gap, arguments = COPIES[name]
        ends = [End(kind, gap, request) for kind in (to, of)]
        copy = Copy(*ends, KINDS[ends[0].on_device, ends[1].on_device], hip.devices.number_of(device))
        copy.to.put(0)
        ok(hip.hipDeviceSynchronize())
        more = lambda stream: (stream,) * (name in WITH_STREAM)  # noqa: E731
        return copy, lambda copy, stream=None: getattr(hip, name)(*arguments(copy), *more(stream))

    return make


@pytest.fixture
def stream(streams):
    return streams(1, hip.hipStreamNonBlocking)[0]


def test_no_copy_is_left_out():
    functions = {name for name in FUNCTIONS if re.match("hip(Drv)?Memcpy", name) and "Batch" not in name}
    assert functions == set(COPIES)


@pytest.mark.parametrize(("name", "to", "of"), cases(COPIES))
def test_it_writes_what_is_there_and_no_more(make, stream, name, to, of):
    copy, call = make(name, to, of)
    copy.of.put(ONES)
    ok(hip.hipDeviceSynchronize())
    for kind in {copy.kind, *([K.hipMemcpyDefault] if "Symbol" not in name else [])}:
        copy.to.put(0)
        ok(hip.hipDeviceSynchronize())
        ok(call(replace(copy, kind=kind), stream))
        ok(hip.hipDeviceSynchronize())
        assert (device_data(copy.to.contents()) == ONES).all()


PINNED = ["hipHostMalloc", "hipMallocManaged", "hipHostRegister", "host_empty"]
ORDERED = cases(ASYNC) + [
    pytest.param(name, way, of, id=f"{name}-{way}-{of}")
    for name in ASYNC for to, of in COPIES[name][0] if to == "host" and of != "host"
    for way in (PINNED if name == "hipMemcpyAsync" else PINNED[:1])
] + [pytest.param("hipMemcpyAsync", way, "host", id=f"hipMemcpyAsync-{way}-host") for way in PINNED[:2]]  # fmt: skip


@pytest.mark.threads
@pytest.mark.executes
@pytest.mark.parametrize(("name", "to", "of"), ORDERED)
def test_in_the_order_of_the_stream(device, make, stream, hold, name, to, of):
    """Copies to pageable memory wait, and those of pageable memory to where the host can look.

    Any other source that is pageable memory may be written to at once.
    """
    if to == "hipHostRegister" and not (device.driver.takes_pageable or device.info.backend == "cuda"):
        pytest.skip("the driver cannot register memory, and does not take it as it is")
    copy, call = make(name, to, of)
    copy.of.put(8)
    ok(hip.hipDeviceSynchronize())
    gate = hold(stream)
    copy.of.put(ONES, stream)
    if to == "host" or (to in PINNED and of == "host"):
        assert waits_for(gate, lambda: call(copy, stream)) or to == of == "host"
    else:
        ok(call(copy, stream))
        assert hip.hipStreamQuery(stream)[0] == E.hipErrorNotReady
        if of == "host":
            copy.of.raw[:] = 9
        gate.open()
        ok(hip.hipStreamSynchronize(stream))
    assert (copy.to.contents() == ONES).all()


@pytest.mark.executes  # copies of pageable memory are host functions
@pytest.mark.parametrize(("name", "to", "of"), cases(ASYNC))
def test_captured(make, stream, name, to, of):
    """It becomes a node and waits for nothing, and reads its source at each launch."""
    if "Peer" in name:
        pytest.skip("what is captured is of one device")
    copy, call = make(name, to, of)
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    ok(call(copy, stream))
    graph = ok(hip.hipStreamEndCapture(stream))
    assert not copy.to.contents().any()
    for values in (ONES, ONES + 1):
        copy.of.put(values)
        copy.to.put(0)
        ok(hip.hipDeviceSynchronize())
        run(graph, stream)
        assert (copy.to.contents() == values).all()


@pytest.mark.parametrize("name", [name for name in COPIES if name not in WITH_STREAM and "_spt" not in name])
def test_a_synchronous_copy_ends_a_capture(make, stream, name):
    copy, call = make(name, *COPIES[name][0][0])
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    assert code(call(copy)) == E.hipErrorStreamCaptureImplicit
    assert code(hip.hipStreamEndCapture(stream)) == E.hipErrorStreamCaptureInvalidated


@pytest.mark.executes
def test_in_a_callback(make, stream):
    copy, call = make("hipMemcpyDtoHAsync", "host", "device")
    found = []
    ok(hip.hipLaunchHostFunc(stream, lambda _: found.append(call(copy, stream))))
    ok(hip.hipStreamSynchronize(stream))
    assert found == [(E.hipErrorNotSupported,)]


@pytest.mark.parametrize(("name", "to", "of"), cases(COPIES))
def test_what_it_refuses(make, works, name, to, of):
    """No memory, more than there is, wrong kinds, memory that is freed."""
    copy, call = make(name, to, of)

    def refused(expected, **changes):
        assert code(call(replace(copy, **changes))) == expected, changes

    for word in ("to", "of"):
        end, missing = getattr(copy, word), End.__new__(End)
        missing.__dict__ |= end.__dict__ | {"at": None}
        refused(INVALID.get(end.kind, E.hipErrorInvalidValue), **{word: missing})
    if COPIES[name][1]:
        refused(E.hipErrorInvalidValue, height=ROWS + 1)
        of_arrays = of == "array" and (to == "array" or "Param" in name)
        refused(E.hipErrorInvalidValue if of_arrays else E.hipErrorInvalidPitchValue, width=ROW + 64)
    else:
        refused(E.hipErrorInvalidValue, nbytes=500)
        refused(E.hipErrorInvalidValue, nbytes=-1)
    if not re.search("Param|Drv|Peer|[ADH]to[ADH]|ArrayTo", name):
        refused(E.hipErrorInvalidMemcpyDirection, kind=99)
    freed = next((end for end in (copy.of, copy.to) if end.kind in ("device", "array")), None)
    if freed is not None:
        ok(hip.hipFree(freed.at) if freed.kind == "device" else hip.hipFreeArray(freed.at))
        refused(E.hipErrorInvalidValue if freed.kind == "device" else E.hipErrorContextIsDestroyed)
    works(None)


HOSTS = {
    "array": lambda: array.array("i", range(64)), "ctypes": lambda: (ctypes.c_int * 64)(*range(64)),
    "bytearray": lambda: bytearray(np.arange(64, dtype="i4").tobytes()),
    "rows": lambda: np.arange(64, dtype="i4").reshape(4, -1),
}  # fmt: skip


@pytest.mark.parametrize("by", [lambda x: x, hip.Pointer, lambda x: int(hip.Pointer(x))], ids=["it", "Pointer", "int"])
@pytest.mark.parametrize("host", HOSTS)
def test_memory_of_the_host_in_any_form(device, host, by):
    source, back, memory = HOSTS[host](), HOSTS[host](), ints(64)
    memoryview(back).cast("B")[:] = bytes(256)
    ok(hip.hipMemcpy(memory, by(source), 256, K.hipMemcpyHostToDevice))
    ok(hip.hipMemcpy(by(back), ctypes.c_void_p(int(memory)), 256, K.hipMemcpyDeviceToHost))
    assert bytes(memoryview(back).cast("B")) == bytes(memoryview(source).cast("B"))


@pytest.mark.parametrize(("to", "of"), [*product(("host", "device", "array"), repeat=2)], ids=str)
def test_boxes_of_volumes(device, to, of):
    """Random boxes from one volume to another, against NumPy."""
    shape, random = (4, 5, 6), np.random.default_rng(3)
    volumes = [random.integers(0, 99, shape).astype("i4") for _ in range(2)]
    whole = hip.hipExtent(6, 5, 4)
    ends = []
    for kind, values in zip((to, of), volumes, strict=True):
        made, host = hip.hipMemcpy3DParms(extent=whole, kind=K.hipMemcpyDefault), hip.hipPitchedPtr(values, 24, 6, 5)
        if kind == "host":
            ends.append(("Ptr", host))
            continue
        if kind == "array":
            result, memory = hip.hipMalloc3DArray(hip.hipChannelFormatDesc(32), whole, 0)
            if result == E.hipErrorNotSupported:
                pytest.skip("the device has no textures")
            made.dstArray = memory
        else:
            memory = hip.hipPitchedPtr(ok(hip.hipMalloc(4 * 5 * 32)), 32, 6, 5)
            made.dstPtr = memory
        made.srcPtr = host
        made.extent = hip.hipExtent(6 if kind == "array" else 24, 5, 4)
        ok(hip.hipMemcpy3D(made))
        ends.append(("Array" if kind == "array" else "Ptr", memory))
    unit = 1 if "array" in (to, of) else 4  # a box with an array is of elements
    expected = volumes[0].copy()
    for _ in range(8):
        size = [int(random.integers(1, n)) for n in shape]
        at = [[int(random.integers(0, n - k + 1)) for n, k in zip(shape, size, strict=True)] for _ in range(2)]
        box = hip.hipMemcpy3DParms(extent=hip.hipExtent(size[2] * unit, *size[1::-1]), kind=K.hipMemcpyDefault)
        for word, (member, memory), (z, y, x) in zip(("dst", "src"), ends, at, strict=True):
            setattr(box, f"{word}{member}", memory)
            setattr(box, f"{word}Pos", hip.hipPos(x * (1 if member == "Array" else 4), y, z))
        ok(hip.hipMemcpy3D(box))
        slices = [tuple(slice(a, a + k) for a, k in zip(each, size, strict=True)) for each in at]
        expected[slices[0]] = volumes[1][slices[1]]
    got = np.zeros(shape, "i4")
    back = hip.hipMemcpy3DParms(dstPtr=hip.hipPitchedPtr(got, 24, 6, 5), kind=K.hipMemcpyDefault)
    setattr(back, f"src{ends[0][0]}", ends[0][1])
    back.extent = hip.hipExtent(6 if to == "array" else 24, 5, 4)
    ok(hip.hipMemcpy3D(back))
    assert np.array_equal(device_data(got), expected)


@pytest.mark.needs("two devices")
@pytest.mark.parametrize("name", ["hipMemcpyPeer", "hipMemcpyPeerAsync", "hipMemcpy3DPeer", "hipMemcpy3DPeerAsync"])
def test_between_two_devices(device, name):
    memories = []
    for number in (0, 1):
        ok(hip.hipSetDevice(number))
        memories.append(ints(64, number + 3))
    if "3D" in name:
        ends = [hip.hipPitchedPtr(memory, 32, 32, 4) for memory in memories]
        extent = hip.hipExtent(32, 4, 2)
        given = hip.hipMemcpy3DPeerParms(
            dstPtr=ends[1], dstDevice=1, srcPtr=ends[0], srcDevice=0, extent=extent
        )  # fmt: skip
        wrong = given.copy()
        wrong.dstDevice = 99
        arguments, wrong = (given,), (wrong,)
    else:
        arguments, wrong = (memories[1], 1, memories[0], 0, 256), (memories[1], 99, memories[0], 0, 256)
        assert code(getattr(hip, name)(memories[1], 0, memories[0], 1, 256)) == E.hipErrorInvalidValue
    ok(getattr(hip, name)(*arguments))
    ok(hip.hipDeviceSynchronize())
    assert device_data(read(memories[1], 64)) == [3] * 64
    assert code(getattr(hip, name)(*wrong)) == E.hipErrorInvalidDevice


# Sets


VOLUME = (4, 4, 64)  # planes, rows, bytes of a row
VALUE = -0x12345678  # of which the last bytes are taken


def planes(memory):
    return hip.hipPitchedPtr(memory, 64, 64, 4)


# Name: the type of an element, the elements that are set in an array of this shape, and the arguments.
SETS = {
    "hipMemset": ("u1", np.s_[0, 0, :60], lambda m: (m, VALUE, 60), (1, 1, 1024)),
    "hipMemsetD8": ("u1", np.s_[0, 0, :60], lambda m: (m, VALUE, 60), (1, 1, 1024)),
    "hipMemsetD16": ("u2", np.s_[0, 0, :60], lambda m: (m, VALUE, 60), (1, 1, 512)),
    "hipMemsetD32": ("u4", np.s_[0, 0, :60], lambda m: (m, VALUE, 60), (1, 1, 256)),
    "hipMemset2D": ("u1", np.s_[0, :3, :10], lambda m: (m, 64, VALUE, 10, 3), VOLUME),
    "hipMemsetD2D8": ("u1", np.s_[0, :3, :5], lambda m: (m, 64, VALUE, 5, 3), VOLUME),
    "hipMemsetD2D16": ("u2", np.s_[0, :3, :5], lambda m: (m, 64, VALUE, 5, 3), (4, 4, 32)),
    "hipMemsetD2D32": ("u4", np.s_[0, :3, :5], lambda m: (m, 64, VALUE, 5, 3), (4, 4, 16)),
    "hipMemset3D": ("u1", np.s_[:3, :2, :5], lambda m: (planes(m), VALUE, hip.hipExtent(5, 2, 3)), VOLUME),
}
SETS |= {f"{name}{suffix}": row for name, row in SETS.items() for suffix in ("Async", "_spt", "Async_spt")
         if hasattr(hip, f"{name}{suffix}")}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_it_sets_what_it_is_given_and_no_more(device, name):
    dtype, where, arguments, shape = SETS[name]
    memory, got, expected = ok(hip.hipMalloc(1024)), np.zeros(1024, "u1"), np.full(1024, 0x55, "u1")
    ok(hip.hipMemset(memory, 0x55, 1024))
    stream = (ok(hip.hipStreamCreate()),) if "Async" in name else ()
    ok(getattr(hip, name)(*arguments(memory), *stream))
    ok(hip.hipDeviceSynchronize())
    ok(hip.hipMemcpy(got, memory, 1024, K.hipMemcpyDeviceToHost))
    expected.view(dtype).reshape(shape)[where] = VALUE & np.iinfo(dtype).max
    assert device_data(got.tolist()) == expected.tolist()


def test_pitches(device):
    pointer, pitch = ok(hip.hipMallocPitch(20, 3))
    assert pitch >= 20
    assert pitch % 128 == 0
    assert ok(hip.hipMemPtrGetInfo(pointer)) == pitch * 3
    for nothing in ((0, 5), (5, 0)):
        assert ok(hip.hipMallocPitch(*nothing))[0].is_ptr_null
    assert ok(hip.hipMemAllocPitch(20, 3, 4))[1] % 256 == 0
    volume = ok(hip.hipMalloc3D(hip.hipExtent(20, 3, 4)))
    assert (volume.xsize, volume.ysize) == (20, 3)
    assert ok(hip.hipMemPtrGetInfo(volume.ptr)) == volume.pitch * 3 * 4
    for each in (pointer, volume.ptr):
        ok(hip.hipFree(each))
