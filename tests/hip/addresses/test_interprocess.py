"""Memory and events of another process, in HIP's words."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay import hip

from ..conftest import each, ok
from ..helpers import E, K, N, code, ints, read

FLAGS = hip.hipEventInterprocess | hip.hipEventDisableTiming
COUNT = 1 << 12
pytestmark = pytest.mark.needs("memory that processes share")


def test_memory_of_here_is_opened_there(told, really):
    memory = ints(COUNT, 3)
    handle = ok(hip.hipIpcGetMemHandle(memory))
    assert handle == ok(hip.hipIpcGetMemHandle(memory + 40)) == hip.hipIpcMemHandle_t(handle.reserved)
    assert len(bytes(handle)) == 64
    assert told("open", handle.reserved) == 4 * COUNT
    told("add", handle.reserved, 4)
    told("finish")
    assert read(memory, COUNT) == [7] * COUNT or not really
    told("close", handle.reserved)
    ok(hip.hipFree(memory))
    assert code(hip.hipIpcGetMemHandle(memory)) == E.hipErrorInvalidValue


def test_memory_of_there_is_opened_here(told, really):
    raw = told("make", COUNT)
    handle, free = hip.hipIpcMemHandle_t(raw), ok(hip.hipMemGetInfo())
    first = ok(hip.hipIpcOpenMemHandle(handle, hip.hipIpcMemLazyEnablePeerAccess))
    again = ok(hip.hipIpcOpenMemHandle(raw, 1))
    assert first == again
    assert ok(hip.hipMemGetInfo()) == free
    attributes = ok(hip.hipPointerGetAttributes(first))
    assert attributes.type == hip.hipMemoryType.hipMemoryTypeDevice
    ok(hip.hipMemsetD32(first, 5, COUNT))
    ok(hip.hipMemcpy(first + 40, ints(10, 6), 40, K.hipMemcpyDeviceToDevice))
    ok(hip.hipDeviceSynchronize())
    told("copy", raw)
    assert told("finish").tolist() == [*[5] * 10, *[6] * 10, *[5] * (COUNT - 20)] or not really
    assert code(hip.hipFree(first)) == E.hipErrorInvalidValue
    assert "hipIpcCloseMemHandle" in str(hip.last_exception())
    assert code(hip.hipIpcGetMemHandle(first)) == E.hipErrorInvalidValue
    assert code(hip.hipIpcCloseMemHandle(first + 4)) == E.hipErrorInvalidValue
    ok(hip.hipIpcCloseMemHandle(again))
    ok(hip.hipMemsetD32(first, 5, COUNT))
    ok(hip.hipIpcCloseMemHandle(first))
    assert code(hip.hipIpcCloseMemHandle(first)) == E.hipErrorInvalidValue
    assert code(hip.hipMemsetD32(first, 5, COUNT)) != E.hipSuccess
    told("close", raw)


def test_events_of_both(told, really):
    stream, memory = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)), ints(COUNT, 0)
    raw = ok(hip.hipIpcGetMemHandle(memory)).reserved
    mine = ok(hip.hipEventCreateWithFlags(FLAGS))
    handle = ok(hip.hipIpcGetEventHandle(mine)).reserved
    theirs = told("make_event")
    opened = ok(hip.hipIpcOpenEventHandle(hip.hipIpcEventHandle_t(theirs)))
    told("open", raw)
    told("open_event", handle)
    ok(hip.hipEventQuery(mine))
    for turn in range(10):
        ok(hip.hipMemsetD32Async(memory, turn, COUNT, stream))
        ok(hip.hipEventRecord(mine, stream))
        told("wait", handle)
        told("add", raw, 10)
        told("record", theirs)
        ok(hip.hipStreamWaitEvent(stream, opened, 0))
    ok(hip.hipEventSynchronize(opened))
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory, COUNT) == [19] * COUNT or not really
    assert code(hip.hipEventElapsedTime(mine, opened)) == E.hipErrorInvalidHandle
    ok(hip.hipEventDestroy(opened))
    assert code(hip.hipEventQuery(opened)) == E.hipErrorContextIsDestroyed
    told("close", raw)
    ok(hip.hipEventDestroy(mine))
    ok(hip.hipStreamDestroy(stream))


def test_one_thread_destroys_what_others_use():
    """Whoever comes too late is told so."""
    stream, late = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)), []
    calls = [  # with what each returns before
        (lambda event: hip.hipEventRecord(event, stream), E.hipSuccess),
        (lambda event: hip.hipStreamWaitEvent(stream, event, 0), E.hipSuccess),
        (lambda event: hip.hipEventSynchronize(event), E.hipSuccess),
        (lambda event: hip.hipEventElapsedTime(event, event), E.hipErrorInvalidHandle),  # it has no time
    ]
    begun = threading.Barrier(len(calls) + 1)

    def use(call, before, event):
        assert call(event)[0] == before
        begun.wait(60)
        found = before
        while found == before:
            found = call(event)[0]
        late.append(found)

    for _ in range(20):
        event = ok(hip.hipEventCreateWithFlags(FLAGS))
        with ThreadPoolExecutor() as pool:
            uses = [pool.submit(use, *call, event) for call in calls]
            begun.wait(60)
            ok(hip.hipEventDestroy(event))
            for each in uses:
                each.result(60)
    assert late == [E.hipErrorContextIsDestroyed] * (20 * len(calls))
    gone = ok(hip.hipEventCreateWithFlags(FLAGS))
    ok(hip.hipEventDestroy(gone))
    with pytest.raises(hip.errors.HipError, match="is destroyed"):  # found by another thread before
        _ = gone.point
    ok(hip.hipStreamDestroy(stream))


def test_what_is_refused(refused, graph):
    memory, event = ints(), ok(hip.hipEventCreate())
    mine = ok(hip.hipEventCreateWithFlags(hip.hipEventInterprocess | hip.hipEventDisableTiming))
    others = ok(hip.hipMallocAsync(4 * N, None)), ok(hip.hipMallocManaged(4 * N, 1)), ok(hip.hipHostMalloc(4 * N, 0))
    handle, event_handle = ok(hip.hipIpcGetMemHandle(memory)), ok(hip.hipIpcGetEventHandle(mine))
    refused(E.hipErrorInvalidContext, ("hipIpcOpenMemHandle", handle, 1))
    refused(
        E.hipErrorInvalidValue, ("hipIpcGetMemHandle", each(*others, 40)), ("hipIpcOpenMemHandle", handle, 0),
        ("hipIpcOpenMemHandle", each(b"abc", hip.hipIpcEventHandle_t()), 1), ("hipIpcGetEventHandle", event),
        ("hipIpcOpenEventHandle", None), ("hipIpcCloseMemHandle", each(None, memory)),
    )  # fmt: skip
    refused(
        E.hipErrorInvalidHandle, ("hipIpcOpenMemHandle", hip.hipIpcMemHandle_t(), 1),
        ("hipIpcOpenEventHandle", event_handle), ("hipGraphAddEventRecordNode", graph, None, 0, mine),
    )  # fmt: skip
