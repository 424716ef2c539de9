"""The functions whose null stream is the thread's own."""

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, code, in_thread, ints, read

PER_THREAD = hip.hipStreamPerThread


@pytest.mark.executes
def test_they_use_the_threads_own_stream(device):
    own = hip.streams.queue_of(PER_THREAD)
    memory, host, got = ints(100), np.arange(100, dtype="i4"), np.zeros(100, "i4")
    ok(hip.hipMemcpy_spt(memory, host, 400, K.hipMemcpyHostToDevice))
    ok(hip.hipMemcpyAsync_spt(got, memory, 400, K.hipMemcpyDeviceToHost))
    ok(hip.hipStreamSynchronize_spt(None))
    assert got.tolist() == list(range(100))
    assert own.empty
    ok(hip.hipMemsetAsync_spt(memory, 1, 400, 0))
    ok(hip.hipStreamSynchronize_spt(0))
    ok(hip.hipMemset_spt(memory, 2, 4))
    assert read(memory, 2) == [0x02020202, 0x01010101]


@pytest.mark.executes(run=False)
def test_a_wait_concerns_the_threads_own_stream(hold, device):
    gate, event = hold(PER_THREAD), ok(hip.hipEventCreate())
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
