"""Modelled on the stream, stream-per-thread and event chapters of HIP's conformance tests; steps are forebay's own."""

import ctypes

import numpy as np
import pytest

from forebay import hip
from forebay.hip import ext
from tests.helpers.device_data import device_data
from tests.helpers.threads import in_thread

from .conftest import ok
from .helpers import CANNOT_MAP, STREAMS, E, K, N, can_map, code, ints, launch, read, waits_for


def is_null(kind):
    return kind in ("null", "legacy")


def ordered(first, second):
    if is_null(first) or is_null(second):
        return "non-blocking" not in (first, second)
    return first == second == "per-thread"


# Order


@pytest.mark.executes
@pytest.mark.parametrize("second", STREAMS)
@pytest.mark.parametrize("first", STREAMS)
def test_each_pair(function, hold, first, second):
    """What is submitted second waits for the first exactly when HIP's rules say so."""
    a, b = STREAMS[first](), STREAMS[second]()
    memory, other = ints(), ints()
    gate = hold(a)
    launch(function("fill"), a, memory, 1)
    launch(function("add"), b, memory if ordered(first, second) else other, 2)
    if ordered(first, second):
        assert code(hip.hipStreamQuery(b)) == E.hipErrorNotReady
    else:
        ok(hip.hipStreamSynchronize(b))  # while the first is held
        assert code(hip.hipStreamQuery(a)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipDeviceSynchronize())
    assert read(memory) == [3 if ordered(first, second) else 1] * N


@pytest.mark.executes
@pytest.mark.parametrize("null", [None, 0, hip.hipStreamLegacy, 1, ctypes.c_void_p(0)], ids=repr)
def test_synchronizing_the_null_stream_waits_for_blocking_streams(device, function, hold, null):
    stream, memory = ok(hip.hipStreamCreate()), ints()
    gate = hold(stream)
    launch(function("fill"), stream, memory, 1)
    assert code(hip.hipStreamQuery(null)) == E.hipErrorNotReady
    assert waits_for(gate, lambda: hip.hipStreamSynchronize(null))
    ok(hip.hipStreamQuery(stream))
    assert read(memory) == [1] * N


# Making and ending


def test_flags_priorities_and_devices(device):
    least, greatest = ok(hip.hipDeviceGetStreamPriorityRange())
    assert greatest <= 0 <= least
    for flags in (hip.hipStreamDefault, hip.hipStreamNonBlocking):
        for asked in (greatest - 5, greatest, 0, least, least + 5):
            stream = ok(hip.hipStreamCreateWithPriority(flags, asked))
            assert ok(hip.hipStreamGetFlags(stream)) == flags
            assert ok(hip.hipStreamGetPriority(stream)) == min(max(asked, greatest), least)
            assert ok(hip.hipStreamGetDevice(stream)) == hip.devices.number_of(device)
            ok(hip.hipStreamDestroy(stream))
    for default in (None, 0, hip.hipStreamLegacy, hip.hipStreamPerThread):
        assert ok(hip.hipStreamGetFlags(default)) == hip.hipStreamDefault
        assert ok(hip.hipStreamGetPriority(default)) == 0


def test_streams_are_told_apart(device):
    a, b = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate())
    assert a != b
    assert len({a, b, hip.ihipStream_t(int(a))}) == 2
    assert int(a) == a
    assert ok(hip.hipStreamGetId(a)) != ok(hip.hipStreamGetId(b))
    ok(hip.hipStreamSynchronize(int(a)))  # by its number
    ok(hip.hipStreamSynchronize(ctypes.c_void_p(int(a))))
    assert hip.ihipStream_t(int(a)).queue is a.queue


def test_handles_as_words_of_c(module):
    def word(handle):
        return ctypes.c_void_p(int(handle))

    stream, event = ok(hip.hipStreamCreate()), ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(word(event), word(stream)))
    ok(hip.hipStreamWaitEvent(word(stream), word(event), 0))
    fill, memory = ok(hip.hipModuleGetFunction(word(module), b"fill")), ints()
    ok(hip.hipModuleLaunchKernel(word(fill), 1, 1, 1, 1, 1, 1, 0, word(stream), None, (word(memory), ctypes.c_int(1))))
    ok(hip.hipEventDestroy(word(event)))
    ok(hip.hipStreamDestroy(word(stream)))
    ok(hip.hipModuleUnload(word(module)))


# Events


def test_an_event_that_was_never_recorded(device):
    event, stream = ok(hip.hipEventCreate()), ok(hip.hipStreamCreate())
    ok(hip.hipEventQuery(event))
    ok(hip.hipEventSynchronize(event))
    before = stream.queue.epoch
    ok(hip.hipStreamWaitEvent(stream, event, 0))
    assert stream.queue.epoch == before
    other = ok(hip.hipEventCreate())
    assert code(hip.hipEventElapsedTime(event, other)) == E.hipErrorInvalidHandle


@pytest.mark.executes
def test_elapsed_time_of_what_is_not_done(device, hold):
    start, stop = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(start, None))
    hold(None)
    ok(hip.hipEventRecord(stop, None))
    assert code(hip.hipEventElapsedTime(start, stop)) == E.hipErrorNotReady


@pytest.mark.parametrize(
    "flags", [hip.hipEventDefault, hip.hipEventBlockingSync, hip.hipEventDisableTiming, hip.hipEventReleaseToSystem, 3]
)
def test_flags_of_events(device, flags):
    event = ok(hip.hipEventCreateWithFlags(flags))
    ok(hip.hipEventRecord(event, None))
    ok(hip.hipEventSynchronize(event))
    assert event.event.timing == (not flags & hip.hipEventDisableTiming)
    ok(hip.hipEventDestroy(event))


@pytest.mark.needs("two devices")
def test_an_event_and_a_stream_of_two_devices(device):
    count = ok(hip.hipGetDeviceCount())
    here = ok(hip.hipGetDevice())
    event = ok(hip.hipEventCreate())
    ok(hip.hipSetDevice((here + 1) % count))
    other = ok(hip.hipEventCreate())
    assert code(hip.hipEventRecord(event, None)) == E.hipErrorInvalidHandle
    ok(hip.hipEventRecord(other, None))
    ok(hip.hipEventSynchronize(other))
    ok(hip.hipSetDevice(here))
    ok(hip.hipEventRecord(event, None))
    ok(hip.hipEventSynchronize(event))
    assert code(hip.hipEventElapsedTime(event, other)) == E.hipErrorInvalidHandle


# Steps


@pytest.mark.parametrize("kind", ["a stream", "the null stream", "the per-thread stream"])
def test_a_step_that_repeats(function, kind):
    stream = {"a stream": hip.hipStreamCreate, "the null stream": lambda: (E.hipSuccess, None)}.get(
        kind, lambda: (E.hipSuccess, hip.hipStreamPerThread)
    )()[1]
    memory = ints()
    for i in range(6):
        ok(ext.hipStreamStepBegin(stream))
        for k in (i, 1, 2):
            launch(function("add"), stream, memory, k)
        ok(ext.hipStreamStepEnd(stream))
    ok(hip.hipStreamSynchronize(stream))
    assert device_data(read(memory)) == [sum(range(6)) + 18] * N


def test_a_stream_that_is_destroyed_in_its_step(function):
    stream, memory = ok(hip.hipStreamCreate()), ints()
    for _ in range(3):
        ok(ext.hipStreamStepBegin(stream))
        launch(function("add"), stream, memory, 1)
        launch(function("add"), stream, memory, 2)
        ok(ext.hipStreamStepEnd(stream))
    ok(ext.hipStreamStepBegin(stream))
    launch(function("add"), stream, memory, 1)
    ok(hip.hipStreamDestroy(stream))
    assert code(ext.hipStreamStepEnd(stream)) == E.hipErrorContextIsDestroyed
    other = ok(hip.hipStreamCreate())
    ok(ext.hipStreamStepBegin(other))
    ok(ext.hipStreamStepEnd(other))


# Functions whose null stream is the thread's own


@pytest.mark.executes
def test_a_wait_concerns_the_threads_own_stream(hold, device):
    gate, event = hold(hip.hipStreamPerThread), ok(hip.hipEventCreate())
    ok(hip.hipEventRecord_spt(event))
    assert code(hip.hipStreamQuery_spt(None)) == E.hipErrorNotReady
    assert code(hip.hipEventQuery(event)) == E.hipErrorNotReady
    assert in_thread(hip.hipStreamQuery_spt, None) == (E.hipSuccess,)
    gate.open()
    ok(hip.hipStreamSynchronize_spt(None))
    ok(hip.hipStreamQuery_spt(None))
    ok(hip.hipEventQuery(event))


def test_other_streams_are_as_given(streams, device, really):
    (stream,) = streams(1)
    memory = ints(10)
    ok(hip.hipMemsetAsync_spt(memory, 3, 40, stream))
    ok(hip.hipStreamSynchronize_spt(stream))
    assert read(memory, 1) == [0x03030303] or not really
    ok(hip.hipStreamBeginCapture_spt(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    assert ok(hip.hipStreamIsCapturing_spt(stream)) == hip.hipStreamCaptureStatus.hipStreamCaptureStatusActive
    ok(hip.hipMemsetAsync_spt(memory, 4, 40, stream))
    graph = ok(hip.hipStreamEndCapture_spt(stream))
    ok(hip.hipGraphLaunch_spt(ok(hip.hipGraphInstantiateWithFlags(graph, 0))))
    ok(hip.hipStreamSynchronize_spt(None))
    assert read(memory, 1) == [0x04040404] or not really
    assert ok(hip.hipStreamGetFlags_spt(None)) == 0
    assert ok(hip.hipStreamGetPriority_spt(stream)) == 0


# Callbacks; such as launch, take the GIL or raise


@pytest.fixture(params=STREAMS)
def stream(request, device):
    return STREAMS[request.param]()


@pytest.mark.executes
def test_arguments(stream):
    """Of Python's functions and of C's, which are kept until they have run."""
    got, data, value = [], object(), ctypes.c_int(5)
    function = hip.hipHostFn_t(lambda data: got.append(data))
    as_object = ctypes.CFUNCTYPE(None, ctypes.py_object)(got.append)
    ok(hip.hipStreamAddCallback(stream, lambda *args: got.append(args), data, 0))
    ok(hip.hipLaunchHostFunc(stream, lambda *args: got.append(args), data))
    ok(hip.hipStreamAddCallback(
        stream, hip.hipStreamCallback_t(lambda stream, status, data: got.append((stream or 0, status, data))),
        ctypes.c_void_p(0xFF), 0,
    ))  # fmt: skip
    ok(hip.hipLaunchHostFunc(stream, function, value))
    ok(hip.hipLaunchHostFunc(stream, ctypes.cast(function, ctypes.c_void_p), None))
    ok(hip.hipLaunchHostFunc(stream, ctypes.cast(function, ctypes.c_void_p).value, 17))
    ok(hip.hipLaunchHostFunc(stream, as_object, data))
    ok(hip.hipStreamSynchronize(stream))
    assert got[:3] == [(stream or 0, E.hipSuccess, data), (data,), (int(stream or 0), 0, 0xFF)]
    assert ctypes.c_int.from_address(got[3]).value == 5
    assert got[4:] == [None, 17, data]


@pytest.mark.executes
def test_a_callback_launches_work(device, function):
    stream, other = ok(hip.hipStreamCreateWithFlags(1)), ok(hip.hipStreamCreateWithFlags(1))
    memory, fill = ints(), function("fill")
    ok(hip.hipLaunchHostFunc(stream, lambda data: launch(fill, other, data, 7), memory))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipStreamSynchronize(other))
    assert read(memory) == [7] * N


@pytest.mark.executes
@pytest.mark.parametrize("call", [hip.hipDeviceSynchronize, hip.hipDeviceReset])
def test_a_callback_may_neither_wait_nor_reset_the_device(fresh, call):
    for kind in STREAMS:
        stream, codes = STREAMS[kind](), []
        ok(hip.hipLaunchHostFunc(stream, lambda codes: codes.append(call()[0]), codes))
        ok(hip.hipStreamSynchronize(stream))
        assert codes == [E.hipErrorNotSupported]
    assert hip.current_device() is fresh
    assert not fresh.closed


class Mine(Exception):
    pass


@pytest.mark.executes
@pytest.mark.parametrize("error", [Mine("why"), hip.errors.HipError(E.hipErrorInvalidValue, "why")], ids=type)
@pytest.mark.parametrize("how", ["stream", "event", "device"])
def test_what_a_callback_raises_is_raised_by_the_next_synchronize(stream, how, error):
    def callback(*args):
        raise error

    event = ok(hip.hipEventCreate())
    ok(hip.hipStreamAddCallback(stream, callback, None, 0))
    ok(hip.hipEventRecord(event, stream))
    synchronize = {
        "stream": lambda: hip.hipStreamSynchronize(stream),
        "event": lambda: hip.hipEventSynchronize(event),
        "device": hip.hipDeviceSynchronize,
    }[how]
    with pytest.raises(type(error), match="why"):
        synchronize()
    ok(synchronize())  # once
    ok(hip.hipStreamSynchronize(stream))


# Waits for values and writes of them


BITS = {32: "u4", 64: "u8"}
MEMORY = {"device": "hipMalloc", "host": "hipHostMalloc", "managed": "hipMallocManaged", "copies": "hipHostMalloc"}
GTE, EQ, AND, NOR = (getattr(hip, f"hipStreamWaitValue{name}") for name in ("Gte", "Eq", "And", "Nor"))


@pytest.fixture(params=MEMORY)
def memory(request, device):
    """With "copies", as on a device that cannot map memory of the host."""
    if request.param == "copies":
        request.getfixturevalue("shares_none")
    elif request.param == "host" and not can_map(device):
        pytest.skip(CANNOT_MAP)
    result, pointer = getattr(hip, MEMORY[request.param])(1024)
    if result == E.hipErrorNotSupported:
        pytest.skip("the device has no such memory")
    if request.param == "copies":
        np.asarray(pointer)[:] = 0
    else:
        ok(hip.hipMemset(pointer, 0, 1024))
        ok(hip.hipDeviceSynchronize())
    return pointer


def call(what, bits, *args):
    return getattr(hip, f"hipStream{what}Value{bits}")(*args)


def value_at(pointer, bits):
    out = np.zeros(1, BITS[bits])
    ok(hip.hipMemcpy(out, pointer, out.nbytes, K.hipMemcpyDefault))
    return int(out[0])


@pytest.mark.executes
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("offset", [0, 1, 31])
def test_write(memory, bits, offset):
    stream, value = ok(hip.hipStreamCreate()), 0x70F0F0FF if bits == 32 else 0x7FFF0000FFFF0000
    ok(call("Write", bits, stream, memory + offset * bits // 8, value, 0))
    ok(hip.hipStreamSynchronize(stream))
    assert value_at(memory + offset * bits // 8, bits) == value


@pytest.mark.executes
@pytest.mark.parametrize(("bits", "flags", "mask", "wanted", "fails", "passes"), [
    (32, GTE, 0xF, 0x4, 0x3, 0x6),
    (32, EQ, 0xFFFF, 0x1, 0x0FFF0000, 0x0FFF0001),
    (32, EQ, 0xFF, 0x11, 0x25, 0x11),
    (32, AND, 0xFF, 0xF4A, 0xF35, 0x02),
    (32, NOR, None, 0x7AF5F5F5, 0xFFFFFFFF, 0x1),
    (32, GTE, None, 0x7FFF0001, 0x7FFF0000, 0x7FFF0010),
    (64, EQ, None, 0x7FFFFFFFFFFFFFFF, 0x7FFFFFFF0FFF0000, 0x7FFFFFFFFFFFFFFF),
    (64, AND, None, 0x70F0F0F0F0F0F0F0, 0x0F0F0F0F0F0F0F0F, 0x1F0F0F0F0F0F0F0F),
])  # fmt: skip
@pytest.mark.parametrize("blocks", [True, False])
def test_wait(memory, bits, flags, mask, wanted, fails, passes, blocks):
    stream, other = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    before, after = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    ok(call("Write", bits, stream, memory, fails if blocks else passes, 0))
    ok(hip.hipEventRecord(before, stream))
    arguments = (stream, memory, wanted, flags)
    ok(call("Wait", bits, *arguments) if mask is None else call("Wait", bits, *arguments, mask))
    ok(call("Write", bits, stream, memory + 8, 5, 0))
    ok(hip.hipEventRecord(after, stream))
    ok(hip.hipEventSynchronize(before))
    if blocks:
        assert code(hip.hipEventQuery(after)) == E.hipErrorNotReady
        ok(call("Write", bits, other, memory, passes, 0))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipEventQuery(after))
    assert value_at(memory + 8, bits) == 5
