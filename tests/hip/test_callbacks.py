"""Modelled on the callback chapter of HIP's conformance tests; callbacks that launch, take the GIL or raise."""

import ctypes
import threading

import numpy as np
import pytest

from forebay import hip

from .conftest import ok
from .helpers import E, K, N, code, ints, launch, read

STREAMS = {
    "null": lambda: None,
    "per-thread": lambda: hip.hipStreamPerThread,
    "blocking": lambda: ok(hip.hipStreamCreate()),
    "non-blocking": lambda: ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)),
}
pytestmark = pytest.mark.executes(run=False)


@pytest.fixture(params=STREAMS)
def stream(request, device):
    return STREAMS[request.param]()


def test_arguments(stream):
    got, data = [], object()
    ok(hip.hipStreamAddCallback(stream, lambda *args: got.append(args), data, 0))
    ok(hip.hipLaunchHostFunc(stream, lambda *args: got.append(args), data))
    ok(hip.hipStreamSynchronize(stream))
    (at, status, given), (only,) = got
    assert at == (stream or 0)
    assert status == E.hipSuccess
    assert given is only is data


def test_callbacks_come_in_order_and_after_what_is_before(stream, function):
    memory, seen = ints(), []
    out = np.zeros(N, "i4")
    for k in range(10):
        launch(function("fill"), stream, memory, k)
        ok(hip.hipMemcpyAsync(out, memory, out.nbytes, K.hipMemcpyDeviceToHost, stream))
        ok(hip.hipStreamAddCallback(stream, lambda s, e, k: seen.append((k, out.tolist() == [k] * N)), k, 0))
    ok(hip.hipStreamSynchronize(stream))
    assert seen == [(k, True) for k in range(10)]


def test_a_callback_blocks_what_follows(stream, function):
    memory, entered, go = ints(), threading.Event(), threading.Event()

    def callback(stream, status, data):
        entered.set()
        go.wait()

    ok(hip.hipStreamAddCallback(stream, callback, None, 0))
    launch(function("fill"), stream, memory, 1)
    entered.wait()
    assert code(hip.hipStreamQuery(stream)) == E.hipErrorNotReady
    go.set()
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == [1] * N


def test_a_callback_launches_work(device, function):
    stream, other = ok(hip.hipStreamCreateWithFlags(1)), ok(hip.hipStreamCreateWithFlags(1))
    memory, fill = ints(), function("fill")
    ok(hip.hipLaunchHostFunc(stream, lambda data: launch(fill, other, data, 7), memory))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipStreamSynchronize(other))
    assert read(memory) == [7] * N


def test_a_callback_may_not_wait(stream):
    codes = []
    ok(hip.hipLaunchHostFunc(stream, lambda data: codes.append(hip.hipDeviceSynchronize()[0]), None))
    ok(hip.hipStreamSynchronize(stream))
    assert codes == [E.hipErrorNotSupported]


def test_a_callback_may_not_reset_the_device(fresh):
    stream, memory, codes = ok(hip.hipStreamCreate()), ints(), []
    ok(hip.hipLaunchHostFunc(stream, lambda data: codes.append(hip.hipDeviceReset()[0]), None))
    ok(hip.hipStreamSynchronize(stream))
    assert codes == [E.hipErrorNotSupported]
    assert hip.current_device() is fresh
    assert not fresh.closed
    ok(hip.hipFree(memory))
    ok(hip.hipStreamDestroy(stream))


@pytest.mark.parametrize("how", ["stream", "event", "device"])
def test_what_a_callback_raises_is_raised_by_the_next_synchronize(stream, how):
    class Mine(Exception):
        pass

    def callback(*args):
        raise Mine("mine")

    event = ok(hip.hipEventCreate())
    ok(hip.hipStreamAddCallback(stream, callback, None, 0))
    ok(hip.hipEventRecord(event, stream))
    synchronize = {
        "stream": lambda: hip.hipStreamSynchronize(stream),
        "event": lambda: hip.hipEventSynchronize(event),
        "device": hip.hipDeviceSynchronize,
    }[how]
    with pytest.raises(Mine, match="mine"):
        synchronize()
    ok(synchronize())  # once
    ok(hip.hipStreamSynchronize(stream))


def test_an_error_of_forebay_in_a_callback_is_raised_as_it_is(device):
    stream = ok(hip.hipStreamCreate())

    def callback(data):
        raise hip.errors.HipError(E.hipErrorInvalidValue, "from the callback")

    ok(hip.hipLaunchHostFunc(stream, callback, None))
    with pytest.raises(hip.errors.HipError, match="from the callback"):
        hip.hipStreamSynchronize(stream)


def test_c_function_pointers(stream):
    got = []
    callback = hip.hipStreamCallback_t(lambda stream, status, data: got.append((stream or 0, status, data)))
    function = hip.hipHostFn_t(lambda data: got.append(data))
    value = ctypes.c_int(5)
    ok(hip.hipStreamAddCallback(stream, callback, ctypes.c_void_p(0xFF), 0))
    ok(hip.hipLaunchHostFunc(stream, function, value))
    ok(hip.hipLaunchHostFunc(stream, ctypes.cast(function, ctypes.c_void_p), None))
    ok(hip.hipLaunchHostFunc(stream, ctypes.cast(function, ctypes.c_void_p).value, 17))
    ok(hip.hipStreamSynchronize(stream))
    assert got[0] == (int(stream or 0), 0, 0xFF)
    assert ctypes.c_int.from_address(got[1]).value == 5
    assert got[2:] == [None, 17]


def test_any_object_through_a_c_function_pointer(device):
    stream, got, data = ok(hip.hipStreamCreate()), [], {"a": 1}
    function = ctypes.CFUNCTYPE(None, ctypes.py_object)(got.append)
    ok(hip.hipLaunchHostFunc(stream, function, data))
    ok(hip.hipStreamSynchronize(stream))
    assert got[0] is data


def test_the_function_is_kept(stream):
    got = []
    ok(hip.hipLaunchHostFunc(stream, hip.hipHostFn_t(lambda data: got.append(1)), None))
    ok(hip.hipStreamSynchronize(stream))
    assert got == [1]


def test_many_threads_add_callbacks(device):
    stream, seen = ok(hip.hipStreamCreate()), []

    def work():
        for _ in range(20):
            ok(hip.hipStreamAddCallback(stream, lambda *args: seen.append(args[2]), threading.get_ident(), 0))

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ok(hip.hipStreamSynchronize(stream))
    assert len(seen) == 100
