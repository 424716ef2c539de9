"""Modelled on the callback chapter of HIP's conformance tests; callbacks that launch, take the GIL or raise."""

import ctypes

import pytest

from forebay import hip

from .conftest import ok
from .helpers import STREAMS, E, N, ints, launch, read

pytestmark = pytest.mark.executes


@pytest.fixture(params=STREAMS)
def stream(request, device):
    return STREAMS[request.param]()


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


def test_a_callback_launches_work(device, function):
    stream, other = ok(hip.hipStreamCreateWithFlags(1)), ok(hip.hipStreamCreateWithFlags(1))
    memory, fill = ints(), function("fill")
    ok(hip.hipLaunchHostFunc(stream, lambda data: launch(fill, other, data, 7), memory))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipStreamSynchronize(other))
    assert read(memory) == [7] * N


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
