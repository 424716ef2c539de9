"""Contexts: devices under another name, and each thread's stack of them."""

import ctypes

import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, code, in_thread, ints, read


@pytest.fixture
def number(device):
    """The current device's; every context that a test pushes is popped."""
    yield ok(hip.hipGetDevice())
    while hip.hipCtxPopCurrent()[0] == E.hipSuccess:
        pass
    hip.hipGetLastError()


def test_a_context_is_a_device(device, number):
    context = ok(hip.hipCtxCreate(0, number))
    assert isinstance(context, hip.ihipCtx_t)
    assert ok(hip.hipCtxGetCurrent()) == context == ok(hip.hipDevicePrimaryCtxRetain(number))
    assert ok(hip.hipCtxGetDevice()) == number == ok(hip.hipGetDevice())
    assert hip.current_device() is device
    memory = ints(10, 3)
    ok(hip.hipCtxSynchronize())
    assert ok(hip.hipCtxGetApiVersion(context)) > 0
    assert ok(hip.hipCtxGetCacheConfig()) == hip.hipFuncCache_t.hipFuncCachePreferNone
    ok(hip.hipCtxSetCacheConfig(hip.hipFuncCache_t.hipFuncCachePreferL1))
    assert ok(hip.hipCtxGetSharedMemConfig()) == hip.hipSharedMemConfig.hipSharedMemBankSizeFourByte
    ok(hip.hipCtxSetSharedMemConfig(hip.hipSharedMemConfig.hipSharedMemBankSizeEightByte))
    ok(hip.hipCtxDestroy(context))
    assert code(hip.hipCtxPopCurrent()) == E.hipErrorInvalidContext
    ok(hip.hipMemset(memory, 0, 40))  # the device is as it was


def test_the_stack(number):
    """Each thread has its own."""
    context = ok(hip.hipCtxCreate(hip.hipDeviceScheduleSpin, number))
    assert ok(hip.hipCtxGetFlags()) == hip.hipDeviceScheduleSpin
    assert in_thread(hip.hipCtxPopCurrent)[0] == E.hipErrorInvalidContext
    assert in_thread(lambda: ok(hip.hipCtxGetDevice())) == 0
    ok(hip.hipCtxPushCurrent(int(context)))
    ok(hip.hipCtxPushCurrent(ctypes.c_void_p(int(context))))
    ok(hip.hipCtxSetCurrent(context))
    for _ in range(3):
        assert ok(hip.hipCtxPopCurrent()) == context
    for _ in range(100):
        ok(hip.hipCtxDestroy(ok(hip.hipCtxCreate(0, number))))
    for current in (context, None):
        ok(hip.hipCtxSetCurrent(current))
    assert code(hip.hipCtxPopCurrent()) == E.hipErrorInvalidContext


@pytest.mark.needs("two devices")
def test_the_top_is_the_current_device(device):
    ok(hip.hipSetDevice(0))
    first, second = ok(hip.hipCtxCreate(0, 0)), ok(hip.hipCtxCreate(0, 1))
    assert first != second
    assert ok(hip.hipGetDevice()) == 1
    assert ok(hip.hipCtxPopCurrent()) == second
    assert ok(hip.hipGetDevice()) == 0
    ok(hip.hipCtxSetCurrent(second))
    assert ok(hip.hipCtxGetDevice()) == 1
    assert ok(hip.hipCtxPopCurrent()) == second


def test_primary_contexts(fresh, number, really):
    ok(hip.hipDeviceReset())
    assert ok(hip.hipDevicePrimaryCtxGetState(number)) == (0, 0)
    ok(hip.hipDevicePrimaryCtxSetFlags(number, hip.hipDeviceScheduleYield))
    ok(hip.hipDevicePrimaryCtxRetain(number))
    assert ok(hip.hipDevicePrimaryCtxGetState(number)) == (hip.hipDeviceScheduleYield, 1)
    assert code(hip.hipDevicePrimaryCtxSetFlags(number, 0)) == E.hipErrorContextAlreadyInUse
    memory = ints(4, 5)
    for _ in range(2):
        ok(hip.hipDevicePrimaryCtxRelease(number))
    assert read(memory, 4) == [5] * 4 or not really
    for _ in range(2):
        ok(hip.hipDevicePrimaryCtxReset(number))
        assert ok(hip.hipDevicePrimaryCtxGetState(number)) == (0, 0)
    assert code(hip.hipFree(memory)) == E.hipErrorInvalidValue
