"""Devices by number, and each thread's current one.

The devices are those of the driver that has the default device, in forebay's order; FOREBAY_DEVICE restricts them to
what it names, as HIP_VISIBLE_DEVICES does for HIP. Each is opened when it is first used.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from forebay.c_string import CString
from forebay.core.driver import DeviceInfo
from forebay.core.errors import ArgumentTypeError
from forebay.core.process import refuse_on_host_thread
from forebay.hip.compiled.calls import forget_own, set_null_queue
from forebay.hip.errors import HipError, HipFunction, alias, api, asserting, check_assertions, invalid
from forebay.hip.facts import HIP_VERSION, hipError_t
from forebay.hiprtc.front_end import compile_for
from forebay.queues import selection
from forebay.queues.device import Device

_lock = threading.RLock()
_infos: list[DeviceInfo] | None = None
_devices: dict[int, Device] = {}
Forget = TypeVar("Forget", bound=Callable[[int], None])
_on_reset: list[Callable[[int], None]] = []


class _Current(threading.local):
    """The number of this thread's current device."""

    def __init__(self) -> None:
        self.number = 0


_current = _Current()
_only_first = True  # no thread has ever chosen another device than the first


def on_reset(forget: Forget) -> Forget:
    """Have this called with the number of each device that is reset."""
    _on_reset.append(forget)
    return forget


def infos() -> list[DeviceInfo]:
    """Return the devices there are, by number. Raises `DeviceNotFoundError`, which says why there is none."""
    global _infos
    with _lock:
        if _infos is None:
            default = selection.select()
            _, kind, index = selection.parse(os.environ.get(selection.VARIABLE, ""))
            same = [d for d in selection.DRIVERS[default.backend].discover() if d.usable and kind in (None, d.kind)]
            _infos = [default] if index is not None else sorted(same, key=lambda device: device != default)
        return _infos


def device_number(device: Any) -> int:
    """Check the number of a device.

    hipErrorInvalidDevice when no device has this number.
    """
    try:
        number = operator.index(device)
    except TypeError:
        raise ArgumentTypeError(f"a device is an int, not {type(device).__name__}") from None
    if not 0 <= number < len(infos()):
        raise HipError(hipError_t.hipErrorInvalidDevice, f"device {number}: there are {len(infos())}")
    return number


def device_of(number: int) -> Device:
    """Return the Device of this number, opened when it is not yet."""
    device = _devices.get(number)
    if device is None or device.closed:
        with _lock:
            device = _devices.get(number)
            if device is None or device.closed:
                device = Device(infos()[number].name, timing=True)
                _devices[number] = device
                _note_null_queue()
    return device


def number_of(device: Device) -> int:
    """Return the number of a Device; that of its name when it was opened otherwise than here."""
    for number, known in list(_devices.items()):
        if known is device:
            return number
    return next((number for number, info in enumerate(infos()) if info.name == device.name), -1)


def current_number() -> int:
    """Return the number of this thread's current device."""
    return _current.number


def current_device() -> Device:
    """Return the `forebay.Device` that is this thread's current one. Not part of HIP.

    Raises
    ------
    DeviceNotFoundError
        When no device can be used; its message says why.
    """
    return device_of(_current.number)


compile_for(current_device)


def _note_null_queue() -> None:
    """Spare launches on stream 0 the look-up, as long as it is the same queue for all threads."""
    first = _devices.get(0)
    set_null_queue(first.null_queue if _only_first and first is not None and not first.closed else None)


def set_current(number: int) -> None:
    """Make the device of this number the thread's current one."""
    global _only_first
    if number != _current.number:
        _current.number = number
        forget_own()
    if number and _only_first:
        _only_first = False
        _note_null_queue()


def check_schedule(flags: Any) -> None:
    """Raise for flags that HIP does not have, or that do not go together; hipErrorInvalidValue."""
    if operator.index(flags) & ~0x1F or bin(flags & 7).count("1") > 1:
        raise invalid(f"a device has no flags {flags!r}")


def is_open(number: int) -> bool:
    """Whether the device of this number was used, and not reset since."""
    device = _devices.get(number)
    return device is not None and not device.closed


def reset(number: int) -> None:
    """Close the device of this number, and forget what was made on it. Blocks."""
    refuse_on_host_thread("hipDeviceReset()")
    with _lock:
        device = _devices.pop(number, None)
        _note_null_queue()
    if device is not None:
        try:
            device.close()
        finally:
            for forget in _on_reset:
                forget(number)


@api()
def hipInit(flags: int) -> None:
    """Do nothing but check; ``(hipError_t,)``: hipErrorInvalidValue for flags, hipErrorNoDevice without a device."""
    if flags:
        raise invalid(f"hipInit: flags have to be 0, not {flags}")
    infos()


@api(outputs=1)
def hipGetDeviceCount() -> int:
    """Return ``(hipError_t, count)``; hipErrorNoDevice when no device can be used."""
    return len(infos())


@api()
def hipSetDevice(deviceId: int) -> None:
    """Make it this thread's current device; ``(hipError_t,)``: hipErrorInvalidDevice when no device has this number.

    `deviceId` counts devices from 0, as `hipGetDeviceCount` counts them.
    """
    set_current(device_number(deviceId))


@api(outputs=1)
def hipGetDevice() -> int:
    """Return ``(hipError_t, number)`` of this thread's current device; hipErrorNoDevice when no device can be used."""
    infos()
    return _current.number


@api(outputs=1)
def hipDeviceGet(ordinal: int) -> int:
    """Return ``(hipError_t, number)``: the number itself, once it is checked.

    `ordinal` counts devices from 0; hipErrorInvalidDevice when none has this number.
    """
    return device_number(ordinal)


@api()
def hipSetDeviceFlags(flags: int) -> None:
    """Accept scheduling flags, which forebay has no use for; ``(hipError_t,)``: hipErrorInvalidValue for others."""
    check_schedule(flags)


@api(outputs=1)
def hipGetDeviceFlags() -> int:
    """Return ``(hipError_t, 0)``: hipDeviceScheduleAuto."""
    return 0


@api()
def hipDeviceSynchronize() -> None:
    """Block until everything submitted to the current device is done; ``(hipError_t,)``.

    Raises what a callback has raised since the last synchronize. hipErrorAssert when an assertion in a kernel failed.
    """
    device = current_device()
    device.finish()
    if asserting:
        check_assertions(device)


@api()
def hipDeviceReset() -> None:
    """Finish the current device, and destroy its streams, events, memory and modules; ``(hipError_t,)``. Blocks.

    hipErrorNotSupported in a callback, which changes nothing.
    """
    reset(_current.number)


@api(outputs=2)
def hipDeviceGetStreamPriorityRange() -> tuple[int, int]:
    """Return ``(hipError_t, least, greatest)``; the greatest has the lowest number."""
    priorities = current_device().driver.priorities
    return max(priorities), min(priorities)


@api(outputs=1)
def hipDeviceGetName(len: int, device: int) -> bytes:
    """Return ``(hipError_t, name)``, at most `len` - 1 bytes of it; hipErrorInvalidValue for a length below 1."""
    number = device_number(device)
    if len < 1:
        raise invalid(f"hipDeviceGetName: a length of {len}")
    return CString(infos()[number].description.encode()[: len - 1])


@api(outputs=1)
def hipDeviceTotalMem(device: int) -> int:
    """Return ``(hipError_t, bytes)`` of the device's memory."""
    return infos()[device_number(device)].memory


@api(outputs=1)
def hipRuntimeGetVersion() -> int:
    """Return ``(hipError_t, version)`` of HIP's interface that is followed here."""
    return HIP_VERSION


hipDriverGetVersion: HipFunction = alias(hipRuntimeGetVersion, "hipDriverGetVersion")
