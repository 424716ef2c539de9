"""Contexts, which HIP keeps for programs that came from CUDA's driver interface: each is a device under another name.

As on AMD's devices a device has one context, its primary one. `hipCtxCreate` does not make another, but pushes this one
onto the thread's stack of contexts. The top of the stack is the thread's current device.
"""

from __future__ import annotations

import threading
from typing import Any

from forebay.hip.devices import (
    _on_reset,
    check_schedule,
    current_device,
    current_number,
    device_number,
    device_of,
    hipDeviceSynchronize,
    is_open,
    reset,
    set_current,
)
from forebay.hip.errors import HipError, Result, api
from forebay.hip.facts import hipError_t, hipFuncCache_t, hipSharedMemConfig
from forebay.hip.hardware_limits import check_bank_config, check_cache_config
from forebay.hip.hardware_peers import disable_peer, enable_peer
from forebay.hip.pointers import Number, handle_number

FIRST_HANDLE = 7 << 60
API_VERSION = 4  # HIP's own says so of each context


class ihipCtx_t(Number):
    """The context of a device; compares, hashes and converts like its number."""

    def __init__(self, address: Any = 0) -> None:
        self.address: int = int(address)


hipCtx_t = ihipCtx_t


class _Stack(threading.local):
    """The numbers of the devices whose contexts a thread has pushed."""

    def __init__(self) -> None:
        self.devices: list[int] = []


_stack = _Stack()
_flags: dict[int, int] = {}  # by device


def _forget(number: int) -> None:
    _flags.pop(number, None)


_on_reset.append(_forget)


def _context(number: int) -> ihipCtx_t:
    return ihipCtx_t(FIRST_HANDLE + 16 * number)


def _device_of(ctx: Any) -> int:
    """Return the number of a context's device; hipErrorInvalidContext when it is none."""
    address = handle_number(ctx, "a context")
    try:
        if address % 16 or address < FIRST_HANDLE:
            raise HipError(hipError_t.hipErrorInvalidContext)
        return device_number((address - FIRST_HANDLE) // 16)
    except HipError:
        raise HipError(hipError_t.hipErrorInvalidContext, f"no context: {address:#x}") from None


@api(outputs=1)
def hipCtxCreate(flags: int, device: int) -> ihipCtx_t:
    """Push the context of a device, which becomes the thread's current one; ``(hipError_t, context)``.

    It is the primary context; a device has no other. hipErrorInvalidDevice for an unknown device, hipErrorInvalidValue
    for flags other than those of `hipSetDeviceFlags`, which make no difference.
    """
    number = device_number(device)
    check_schedule(flags)
    set_current(number)
    current_device()
    _flags[number] = flags
    _stack.devices.append(number)
    return _context(number)


@api()
def hipCtxDestroy(ctx: Any) -> None:
    """Pop a context that this thread has on top; ``(hipError_t,)``. Streams and memory of the device stay.

    `ctx` is the context.

    hipErrorInvalidValue for None, hipErrorInvalidContext for anything but a context.
    """
    if ctx is None:
        raise HipError(hipError_t.hipErrorInvalidValue, "the context is None")
    number = _device_of(ctx)
    if _stack.devices and _stack.devices[-1] == number:
        _pop()


def _pop() -> int:
    number = _stack.devices.pop()
    if _stack.devices:
        set_current(_stack.devices[-1])
    return number


@api(outputs=1)
def hipCtxPopCurrent() -> ihipCtx_t:
    """Pop the context on top; ``(hipError_t, context)``. The device of the next one becomes the current one, if any.

    hipErrorInvalidContext when the thread has pushed none.
    """
    if not _stack.devices:
        raise HipError(hipError_t.hipErrorInvalidContext, "this thread has pushed no context")
    return _context(_pop())


@api()
def hipCtxPushCurrent(ctx: Any) -> None:
    """Push a context, whose device becomes the current one; ``(hipError_t,)``: hipErrorInvalidContext.

    `ctx` is what `hipCtxCreate` or `hipDevicePrimaryCtxRetain` returned; hipErrorInvalidContext for anything else.
    """
    number = _device_of(ctx)
    _stack.devices.append(number)
    set_current(number)


@api()
def hipCtxSetCurrent(ctx: Any) -> None:
    """Put a context in the place of the one on top; None pops that; ``(hipError_t,)``. See `hipCtxPushCurrent`.

    `ctx` is the context.
    """
    if ctx is None:
        if _stack.devices:
            _pop()
        return
    number = _device_of(ctx)
    _stack.devices[-1:] = [number]
    set_current(number)


@api(outputs=1)
def hipCtxGetCurrent() -> ihipCtx_t:
    """Return ``(hipError_t, context)`` of the thread's current device, which is the primary one if none was pushed."""
    return _context(current_number())


@api(outputs=1)
def hipCtxGetDevice() -> int:
    """Return ``(hipError_t, number)`` of the current context's device: what `hipGetDevice` returns."""
    current_device()
    return current_number()


@api(outputs=1)
def hipCtxGetApiVersion(ctx: Any) -> int:
    """Return ``(hipError_t, 4)``, as HIP's own; hipErrorInvalidContext for anything but a context.

    `ctx` is the context.
    """
    _device_of(ctx)
    return API_VERSION


@api(outputs=1)
def hipCtxGetFlags() -> int:
    """Return ``(hipError_t, flags)`` that the current device's context was created with; 0 if it was not."""
    return _flags.get(current_number(), 0)


@api(outputs=1)
def hipCtxGetCacheConfig() -> hipFuncCache_t:
    """Do what `hipDeviceGetCacheConfig` does."""
    current_device()
    return hipFuncCache_t.hipFuncCachePreferNone


@api()
def hipCtxSetCacheConfig(cacheConfig: int) -> None:
    """Do what `hipDeviceSetCacheConfig` does.

    `cacheConfig` is a hipFuncCache_t. Returns ``(hipError_t,)``.
    """
    current_device()
    check_cache_config(cacheConfig)


@api(outputs=1)
def hipCtxGetSharedMemConfig() -> hipSharedMemConfig:
    """Do what `hipDeviceGetSharedMemConfig` does."""
    current_device()
    return hipSharedMemConfig.hipSharedMemBankSizeFourByte


@api()
def hipCtxSetSharedMemConfig(config: int) -> None:
    """Do what `hipDeviceSetSharedMemConfig` does.

    `config` is a hipSharedMemConfig. Returns ``(hipError_t,)``.
    """
    current_device()
    check_bank_config(config)


def hipCtxSynchronize() -> Result:
    """Do what `hipDeviceSynchronize` does. Blocks. Returns ``(hipError_t,)``."""
    return hipDeviceSynchronize()


@api()
def hipCtxEnablePeerAccess(peerCtx: Any, flags: int = 0) -> None:
    """Let kernels use memory of a context's device, see `hipDeviceEnablePeerAccess`; ``(hipError_t,)``.

    `peerCtx` is a context of the other device, and `flags` are 0; hipErrorInvalidContext for anything but a context.
    """
    enable_peer(_device_of(peerCtx), flags)


@api()
def hipCtxDisablePeerAccess(peerCtx: Any) -> None:
    """Refuse that again, see `hipDeviceDisablePeerAccess`; ``(hipError_t,)``.

    `peerCtx` is a context of the other device; hipErrorInvalidContext for anything else.
    """
    disable_peer(_device_of(peerCtx))


@api(outputs=1)
def hipDevicePrimaryCtxRetain(dev: int) -> ihipCtx_t:
    """Open a device, and return ``(hipError_t, context)``; hipErrorInvalidDevice for an unknown device.

    `dev` is a device's number.
    """
    number = device_number(dev)
    device_of(number)
    return _context(number)


@api()
def hipDevicePrimaryCtxRelease(dev: int) -> None:
    """Do nothing but check; ``(hipError_t,)``: a device stays open until `hipDeviceReset`, as on AMD's devices.

    `dev` is a device's number; hipErrorInvalidDevice for an unknown one.
    """
    device_number(dev)


@api()
def hipDevicePrimaryCtxReset(dev: int) -> None:
    """Do what `hipDeviceReset` does, to this device; ``(hipError_t,)``. Blocks.

    `dev` is a device's number; hipErrorInvalidDevice for an unknown one.
    """
    reset(device_number(dev))


@api(outputs=2)
def hipDevicePrimaryCtxGetState(dev: int) -> tuple[int, int]:
    """Return ``(hipError_t, flags, active)``: 1 when the device was used and not reset since.

    `dev` is a device's number; hipErrorInvalidDevice for an unknown one.
    """
    number = device_number(dev)
    return _flags.get(number, 0), int(is_open(number))


@api()
def hipDevicePrimaryCtxSetFlags(dev: int, flags: int) -> None:
    """Set the flags of a device that was not used yet; ``(hipError_t,)``.

    `dev` is a device's number; hipErrorInvalidDevice for an unknown one.

    hipErrorContextAlreadyInUse when it was, hipErrorInvalidValue for flags other than those of `hipSetDeviceFlags`,
    which make no difference.
    """
    number = device_number(dev)
    check_schedule(flags)
    if is_open(number):
        raise HipError(hipError_t.hipErrorContextAlreadyInUse, f"device {number} was used already")
    _flags[number] = flags
