"""What the folder offers: Level Zero's devices. No package of Python has queues of Level Zero to take over."""

from __future__ import annotations

from forebay.core.driver import DeviceInfo, DriverDevice, DriverFolder, Found
from forebay.core.errors import NotSupportedError


class LevelZero(DriverFolder):
    """See `DriverFolder`. The rest of the folder is imported late: `import forebay` looks for no device."""

    def look(self) -> Found:
        """See `DriverFolder`."""
        from forebay.queues.levelzero import calls

        trouble = ""
        try:
            calls.load()
        except NotSupportedError as error:  # without a loader the rest is not even imported
            return Found([], str(error))
        except ImportError as error:
            trouble = str(error)
        from forebay.queues.levelzero import discovery

        found: Found = Found([], discovery.absence(trouble)) if trouble else discovery.look()
        return found

    def open_device(self, info: DeviceInfo) -> DriverDevice:
        """See `DriverFolder`."""
        from forebay.queues.levelzero.device import LevelZeroDevice

        return LevelZeroDevice(info)
