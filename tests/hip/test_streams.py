"""Modelled on the stream and stream-per-thread chapters of HIP's conformance tests."""

import ctypes
import threading

import numpy as np
import pytest

from forebay import hip

from .conftest import ok
from .helpers import E, K, N, code, ints, launch, read

KINDS = ("null", "legacy", "blocking", "non-blocking", "per-thread")


def stream_of(kind):
    return {
        "null": lambda: None,
        "legacy": lambda: hip.hipStreamLegacy,
        "blocking": lambda: ok(hip.hipStreamCreate()),
        "non-blocking": lambda: ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)),
        "per-thread": lambda: hip.hipStreamPerThread,
    }[kind]()


def is_null(kind):
    return kind in ("null", "legacy")


def ordered(first, second):
    if is_null(first) or is_null(second):
        return "non-blocking" not in (first, second)
    return first == second == "per-thread"


# Order


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_each_pair(function, hold, first, second):
    """What is submitted second waits for the first exactly when HIP's rules say so."""
    a, b = stream_of(first), stream_of(second)
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


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("null", [None, 0, hip.hipStreamLegacy, 1, ctypes.c_void_p(0)], ids=repr)
def test_synchronizing_the_null_stream_waits_for_blocking_streams(device, function, hold, null):
    stream, memory = ok(hip.hipStreamCreate()), ints()
    gate = hold(stream)
    launch(function("fill"), stream, memory, 1)
    assert code(hip.hipStreamQuery(null)) == E.hipErrorNotReady
    opened = []

    def let_go():
        opened.append(True)
        gate.open()

    opener = threading.Timer(0.05, let_go)
    opener.start()
    ok(hip.hipStreamSynchronize(null))
    assert opened
    ok(hip.hipStreamQuery(stream))
    opener.join()
    assert read(memory) == [1] * N


@pytest.mark.executes
def test_each_thread_has_its_own_per_thread_stream(device):
    queues = []

    def work():
        ok(hip.hipSetDevice(hip.devices.number_of(device)))
        queues.append(hip.streams.queue_of(hip.hipStreamPerThread))
        assert hip.streams.queue_of(2) is queues[-1]
        barrier.wait()

    barrier = threading.Barrier(3)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(queues)) == 3
    assert hip.streams.queue_of(hip.hipStreamPerThread).blocking


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


@pytest.mark.parametrize("flags", [0xFF, 2, -1])
def test_flags_that_there_are_none_of(device, flags):
    assert code(hip.hipStreamCreateWithFlags(flags)) == E.hipErrorInvalidValue
    assert code(hip.hipStreamCreateWithPriority(flags, 0)) == E.hipErrorInvalidValue


def test_streams_are_told_apart(device):
    a, b = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate())
    assert a != b
    assert len({a, b, hip.ihipStream_t(int(a))}) == 2
    assert int(a) == a
    assert ok(hip.hipStreamGetId(a)) != ok(hip.hipStreamGetId(b))
    ok(hip.hipStreamSynchronize(int(a)))  # by its number
    ok(hip.hipStreamSynchronize(ctypes.c_void_p(int(a))))
    assert hip.ihipStream_t(int(a)).queue is a.queue


@pytest.mark.parametrize("stream", [None, 0, hip.hipStreamLegacy, hip.hipStreamPerThread], ids=repr)
def test_default_streams_cannot_be_destroyed(device, stream):
    assert code(hip.hipStreamDestroy(stream)) == E.hipErrorInvalidResourceHandle


def test_using_a_destroyed_stream(device, function):
    stream = ok(hip.hipStreamCreate())
    event, memory = ok(hip.hipEventCreate()), ints()
    ok(hip.hipStreamDestroy(stream))
    for call in (
        lambda: hip.hipStreamDestroy(stream),
        lambda: hip.hipStreamQuery(stream),
        lambda: hip.hipStreamSynchronize(stream),
        lambda: hip.hipStreamSynchronize(int(stream)),
        lambda: hip.hipStreamWaitEvent(stream, event, 0),
        lambda: hip.hipStreamGetFlags(stream),
        lambda: hip.hipStreamGetPriority(stream),
        lambda: hip.hipEventRecord(event, stream),
        lambda: hip.hipMallocAsync(100, stream),
        lambda: hip.hipFreeAsync(memory, stream),
        lambda: hip.hipMemsetAsync(memory, 0, 4, stream),
        lambda: hip.hipLaunchHostFunc(stream, print, None),
        lambda: hip.hipMemcpyAsync(memory, memory + 100, 4, K.hipMemcpyDeviceToDevice, stream),
        lambda: hip.hipModuleLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, stream, None, (memory, 1)),
    ):
        assert code(call()) == E.hipErrorContextIsDestroyed
    ok(hip.hipFree(memory))


def test_using_what_never_was_a_stream(device, function):
    event, memory = ok(hip.hipEventCreate()), ints()
    for never in (12345, ctypes.c_void_p(0xFFFF), hip.ihipStream_t(0xFFFF), (1 << 60) + 16 * 10**6):
        for call in (
            lambda stream: hip.hipStreamSynchronize(stream),
            lambda stream: hip.hipStreamQuery(stream),
            lambda stream: hip.hipStreamDestroy(stream),
            lambda stream: hip.hipStreamWaitEvent(stream, event, 0),
            lambda stream: hip.hipStreamWaitValue32(stream, memory, 0, hip.hipStreamWaitValueGte),
            lambda stream: hip.hipStreamWaitValue64(stream, memory, 0, hip.hipStreamWaitValueGte),
            lambda stream: hip.hipStreamWriteValue32(stream, memory, 0, 0),
            lambda stream: hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal),
            lambda stream: hip.hipLaunchHostFunc(stream, print, None),
            lambda stream: hip.hipMemcpyAsync(memory, memory + 100, 4, K.hipMemcpyDeviceToDevice, stream),
            lambda stream: hip.hipFreeAsync(memory, stream),
            lambda stream: hip.hipModuleLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, stream, None, (memory, 1)),
        ):
            assert code(call(never)) == E.hipErrorContextIsDestroyed
    for call in (hip.hipStreamSynchronize, hip.hipStreamDestroy, hip.hipStreamQuery):
        with pytest.raises(TypeError, match="stream"):
            call("no stream")


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
    for call in (hip.hipModuleUnload, hip.hipEventQuery, lambda text: hip.hipMemPoolTrimTo(text, 0)):
        with pytest.raises(TypeError, match="str"):
            call("text")
    assert code(hip.hipModuleLaunchKernel("text", 1, 1, 1, 1, 1, 1)) == E.hipErrorInvalidValue


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("queried", [False, True])
def test_work_of_a_destroyed_stream_completes(function, hold, queried):
    stream, memory = ok(hip.hipStreamCreate()), ints()
    gate = hold(stream)
    launch(function("fill"), stream, memory, 1)
    if queried:
        assert code(hip.hipStreamQuery(stream)) == E.hipErrorNotReady
        assert code(hip.hipStreamQuery(None)) == E.hipErrorNotReady
    ok(hip.hipStreamDestroy(stream))  # at once
    assert code(hip.hipStreamQuery(None)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(None))
    assert read(memory) == [1] * N


def test_a_stream_without_work_is_ready(device):
    for stream in (None, 0, hip.hipStreamPerThread, ok(hip.hipStreamCreate())):
        ok(hip.hipStreamQuery(stream))
        ok(hip.hipStreamSynchronize(stream))


# Waiting


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("second", ["blocking", "non-blocking", "per-thread"])
@pytest.mark.parametrize("first", ["blocking", "non-blocking"])
def test_waiting_for_an_event_of_another_stream(function, hold, first, second):
    a, b, memory = stream_of(first), stream_of(second), ints()
    event = ok(hip.hipEventCreate())
    gate = hold(a)
    launch(function("fill"), a, memory, 1)
    ok(hip.hipEventRecord(event, a))
    assert code(hip.hipEventQuery(event)) == E.hipErrorNotReady
    ok(hip.hipStreamWaitEvent(b, event, 0))
    launch(function("add"), b, memory, 1)
    assert code(hip.hipStreamQuery(b)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(b))
    ok(hip.hipEventQuery(event))
    assert read(memory) == [2] * N


@pytest.mark.parametrize("kind", KINDS)
def test_waiting_wrongly(device, kind):
    stream, event = stream_of(kind), ok(hip.hipEventCreate())
    assert code(hip.hipStreamWaitEvent(stream, None, 0)) == E.hipErrorInvalidResourceHandle
    assert code(hip.hipStreamWaitEvent(stream, event, 0xFFFFFFFF)) == E.hipErrorInvalidValue
    ok(hip.hipStreamWaitEvent(stream, event, hip.hipEventWaitExternal))


@pytest.mark.executes
def test_many_streams(device, function):
    streams = [ok(hip.hipStreamCreateWithFlags(k % 2)) for k in range(20)]
    arrays = [ints(100) for _ in streams]
    for k, (stream, memory) in enumerate(zip(streams, arrays, strict=True)):
        launch(function("fill"), stream, memory, k, groups=10)
    ok(hip.hipDeviceSynchronize())
    out = np.zeros(100, "i4")
    for k, memory in enumerate(arrays):
        ok(hip.hipMemcpy(out, memory, out.nbytes, K.hipMemcpyDeviceToHost))
        assert set(out.tolist()) == {k}
    for stream, memory in zip(streams, arrays, strict=True):
        ok(hip.hipStreamDestroy(stream))
        ok(hip.hipFree(memory))
