"""An asynchronous copy to pageable memory of the host has ended when the call returns; to pinned memory it has not."""

import re
import threading

import numpy as np
import pytest

import forebay as fb
from forebay import hip

from ..conftest import ok
from ..helpers import E, K, instantiate
from .test_variables import load, variable  # noqa: F401

N, ROW = 64, 32  # ints, and bytes of a row of a table
NBYTES = 4 * N
HOST, DEVICE, ARRAY = (getattr(hip.hipMemoryType, f"hipMemoryType{name}") for name in ("Host", "Device", "Array"))
DOWN = K.hipMemcpyDeviceToHost
# Copies of NBYTES to the host: how each is called, with rows that have gaps on the device's side where there are rows.
COPIES = {
    "hipMemcpyAsync": lambda to, of, stream: (to, of, NBYTES, DOWN, stream),
    "hipMemcpyDtoHAsync": lambda to, of, stream: (to, of, NBYTES, stream),
    "hipMemcpy2DAsync": lambda to, of, stream: (to, ROW, of, 2 * ROW, ROW, NBYTES // ROW, DOWN, stream),
    "hipMemcpy3DAsync": lambda to, of, stream: (
        hip.hipMemcpy3DParms(
            dstPtr=hip.hipPitchedPtr(to, ROW, ROW, 4), srcPtr=hip.hipPitchedPtr(of, 2 * ROW, ROW, 4),
            extent=hip.hipExtent(ROW, 4, 2), kind=DOWN,
        ), stream,
    ),
    "hipMemcpyParam2DAsync": lambda to, of, stream: (
        hip.hip_Memcpy2D(
            WidthInBytes=ROW, Height=NBYTES // ROW, dstHost=to, dstPitch=ROW, dstMemoryType=HOST,
            srcDevice=of, srcPitch=2 * ROW, srcMemoryType=DEVICE,
        ), stream,
    ),
    "hipDrvMemcpy3DAsync": lambda to, of, stream: (
        hip.HIP_MEMCPY3D(
            WidthInBytes=ROW, Height=4, Depth=2, dstHost=to, dstPitch=ROW, dstHeight=4, dstMemoryType=HOST,
            srcDevice=of, srcPitch=2 * ROW, srcHeight=4, srcMemoryType=DEVICE,
        ), stream,
    ),
    "hipMemcpyFromSymbolAsync": lambda to, of, stream: (to, of, NBYTES, 0, DOWN, stream),
    "hipMemcpy2DFromArrayAsync": lambda to, of, stream: (to, ROW, of, 0, 0, ROW, NBYTES // ROW, DOWN, stream),
    "hipMemcpyAtoHAsync": lambda to, of, stream: (to, of, 0, NBYTES, stream),
}  # fmt: skip
COPIES |= {f"{name}_spt": COPIES[name] for name in COPIES if hasattr(hip, f"{name}_spt")}
# They copy to memory of the device alone, or both ways as `hipMemcpyAsync`.
OTHERS = {
    "hipMemcpyDtoDAsync",
    "hipMemcpyHtoDAsync",
    "hipMemcpyHtoAAsync",
    "hipMemcpyPeerAsync",
    "hipMemcpy3DPeerAsync",
}


@pytest.fixture
def stream(device, streams):
    return streams(1, hip.hipStreamNonBlocking)[0]


@pytest.fixture
def source(request, stream):
    """``source(name)``: what a copy of this name copies from, and what has all of it be sevens, submitted."""

    def source(name):
        memory = ok(hip.hipMalloc(2 * NBYTES))
        to = memory
        if "Symbol" in name:
            to = variable(request.getfixturevalue("load")(), b"table")
        elif "Array" in name or "AtoH" in name:
            code, to = hip.hipMallocArray(hip.hipChannelFormatDesc(32), ROW // 4, NBYTES // ROW)
            if code == E.hipErrorNotSupported:
                pytest.skip("the device has no textures")

        def fill():
            ok(hip.hipMemsetD32Async(memory, 7, 2 * N, stream))
            if "Symbol" in name:
                ok(hip.hipMemcpyToSymbolAsync(to, memory, NBYTES, 0, K.hipMemcpyDeviceToDevice, stream))
            elif to is not memory:
                ok(hip.hipMemcpy2DToArrayAsync(to, 0, 0, memory, ROW, ROW, NBYTES // ROW, K.hipMemcpyDefault, stream))

        return to, fill

    return source


def waits_for(gate, call):
    """Call, while another thread opens the gate; whether it had been opened when the call returned."""
    opened = []
    opener = threading.Timer(0.02, lambda: (opened.append(True), gate.open()))
    opener.start()
    ok(call())
    waited = bool(opened)
    opener.join()
    return waited


def pinned_memory(way, request):
    """Pinned memory, the array on it, and what is to be called when it is done with."""
    if way == "host_empty":
        array = fb.host_empty(N, "i4", hip.current_device())
        return array, array
    if way == "hipHostRegister":
        array = np.zeros(N, "i4")
        ok(hip.hipHostRegister(array, NBYTES))
        request.addfinalizer(lambda: ok(hip.hipHostUnregister(array)))
        return array, array
    code, pointer = getattr(hip, way)(NBYTES)
    if code == E.hipErrorNotSupported:
        pytest.skip("the device has no such memory")
    return pointer, np.asarray(pointer).view("i4")


def test_no_copy_is_left_out():
    copies = {name for name in hip.__all__ if re.match(r"hip(Drv)?Memcpy.*Async(_spt)?$", name)}
    assert {name for name in copies if name not in OTHERS and "To" not in name and "Batch" not in name} == set(COPIES)


@pytest.mark.threads
@pytest.mark.executes(run=False)
@pytest.mark.parametrize("name", COPIES)
def test_to_pageable_memory(stream, source, hold, name):
    of, fill = source(name)
    array, gate = np.zeros(N, "i4"), hold(stream)
    fill()
    assert waits_for(gate, lambda: getattr(hip, name)(*COPIES[name](array, of, stream)))
    assert array.tolist() == [7] * N


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("way", ["hipHostMalloc", "hipMallocManaged", "hipHostRegister", "host_empty"])
@pytest.mark.parametrize("name", COPIES)
def test_to_pinned_memory(device, request, stream, source, hold, name, way):
    if way == "hipHostRegister" and not (device.driver.takes_pageable or device.info.backend == "cuda"):
        pytest.skip("the driver cannot register memory, and does not take it as it is")
    of, fill = source(name)
    (memory, array), gate = pinned_memory(way, request), hold(stream)
    fill()
    ok(getattr(hip, name)(*COPIES[name](memory, of, stream)))
    assert hip.hipStreamQuery(stream)[0] == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert array.tolist() == [7] * N


@pytest.mark.threads
@pytest.mark.executes(run=False)
@pytest.mark.parametrize("way", ["hipHostMalloc", "hipMallocManaged"])
def test_from_pageable_memory(request, stream, hold, way):
    """To where the host can look it has ended; to memory of the device the source alone may be reused."""
    (memory, array), there, back = pinned_memory(way, request), ok(hip.hipMalloc(NBYTES)), np.zeros(N, "i4")
    source, gate = np.full(N, 7, "i4"), hold(stream)
    ok(hip.hipMemcpyHtoDAsync(there, source, NBYTES, stream))
    assert hip.hipStreamQuery(stream)[0] == E.hipErrorNotReady
    source[:] = 8
    assert waits_for(gate, lambda: hip.hipMemcpyAsync(memory, source, NBYTES, K.hipMemcpyDefault, stream))
    assert array.tolist() == [8] * N
    ok(hip.hipMemcpyDtoHAsync(back, there, NBYTES, stream))
    assert back.tolist() == [7] * N


@pytest.mark.executes(run=False)  # the host thread copies
def test_in_a_capture(device, stream, streams, source):
    """It becomes a node, and waits for nothing; and one beside it does not disturb the capture."""
    memory, fill = source("hipMemcpyAsync")
    (other,), array, beside = streams(1, hip.hipStreamNonBlocking), np.zeros(N, "i4"), np.zeros(N, "i4")
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    fill()
    ok(hip.hipMemcpyDtoHAsync(array, memory, NBYTES, stream))
    ok(hip.hipMemcpyDtoHAsync(beside, memory, NBYTES, other))
    executable = instantiate(ok(hip.hipStreamEndCapture(stream)))
    assert not array.any()
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert array.tolist() == [7] * N


@pytest.mark.executes(run=False)
def test_in_a_callback(stream, source):
    memory, fill = source("hipMemcpyAsync")
    array, found = np.zeros(N, "i4"), []
    fill()
    copy = lambda _: found.append(hip.hipMemcpyDtoHAsync(array, memory, NBYTES, stream))  # noqa: E731
    ok(hip.hipLaunchHostFunc(stream, copy))
    ok(hip.hipStreamSynchronize(stream))
    assert found == [(E.hipErrorNotSupported,)]
    assert not array.any()
