"""What the folder offers: Level Zero's devices. No Python package has Level Zero queues to adopt."""

from __future__ import annotations

import os
import sys
from typing import Any

from forebay.core.driver import DeviceInfo, DriverDevice, DriverFolder, Found
from forebay.core.errors import BuildError, NotSupportedError

# The compiler's log after a fault that it has caught. It catches none if Python's faulthandler is on.
CAUGHT = "Internal Compiler Error"


class LevelZero(DriverFolder):
    """See `DriverFolder`. The rest of the folder is imported late, because `import forebay` looks for no device."""

    def look(self) -> Found:
        from forebay.queues.levelzero import operations

        trouble = ""
        try:
            operations.load()
        except NotSupportedError as error:  # without a loader the rest is not even imported
            return Found([], str(error))
        except ImportError as error:
            trouble = str(error)
        from forebay.queues.levelzero import discovery

        return Found([], discovery.absence(trouble)) if trouble else discovery.look()

    def open_device(self, info: DeviceInfo) -> DriverDevice:
        from forebay.queues.levelzero.device import LevelZeroDevice

        return LevelZeroDevice(info)


# -- the build process for a Level Zero device: see `build_apart`


def open_again(info: DeviceInfo) -> DriverDevice | None:
    """Open the asking process's device; None if it is not there."""
    driver = LevelZero()
    for each in driver.discover():
        if each.usable and (each.name, each.description, each.driver_version) == (
            info.name, info.description, info.driver_version
        ):  # fmt: skip
            return driver.open_device(each)
    return None


def build(device: Any, code: bytes, options: tuple[str, ...]) -> bytes:
    """Return the native binary of SPIR-V. Raises `BuildError`, but ends this process after an internal error."""
    from forebay.queues.levelzero.programs import translated

    try:
        return bytes(translated(device.handle, device.info, code, options).native_binary())
    except BuildError as error:
        if CAUGHT in error.log:  # it may hold locks, and its output is unknown
            print(error.log, file=sys.stderr, flush=True)
            os._exit(1)
        raise
