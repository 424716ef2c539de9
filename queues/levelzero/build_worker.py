"""What the process for building does for a Level Zero device; `queues/kernels/build.py` starts it."""

from __future__ import annotations

import os
import sys

from forebay.core import errors
from forebay.core.driver import DeviceInfo
from forebay.queues.levelzero.device import LevelZeroDevice
from forebay.queues.levelzero.driver import LevelZero
from forebay.queues.levelzero.programs import translated

__all__ = ["build"]

# What the compiler says when it has caught a fault of its own. It catches none where Python's faulthandler is on.
CAUGHT = "Internal Compiler Error"

_devices: dict[str, LevelZeroDevice] = {}


def build(info: DeviceInfo, code: bytes, options: tuple[str, ...]) -> bytes:
    """The native binary of SPIR-V.

    Raises
    ------
    BuildError
        If the program does not build; with the compiler's log.
    DeviceNotFoundError
        If this process does not find the device.

    Blocks while it compiles. Ends this process where the compiler has left off in the middle of its work.
    """
    if info.name not in _devices:
        _devices[info.name] = _opened(info)
    device = _devices[info.name]
    try:
        return translated(device.handle, device.info, code, options).native_binary()
    except errors.BuildError as error:
        if CAUGHT in error.log:  # it may hold locks, and nobody knows what it has written
            print(error.log, file=sys.stderr, flush=True)
            os._exit(1)
        raise


def _opened(info: DeviceInfo) -> LevelZeroDevice:
    for each in LevelZero().look().devices:
        if each.usable and (each.name, each.description, each.driver_version) == (
            info.name, info.description, info.driver_version
        ):  # fmt: skip
            return LevelZeroDevice(each)
    raise errors.DeviceNotFoundError(f"the process for building does not find {info.name}")
