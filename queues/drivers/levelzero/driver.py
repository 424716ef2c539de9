"""What the folder offers: Level Zero's devices. No package of Python has queues of Level Zero to take over."""

from __future__ import annotations

from forebay.core.driver import DeviceInfo, DriverDevice
from forebay.queues.drivers.folder import DriverFolder, Found
from forebay.queues.drivers.levelzero import discovery


class LevelZero(DriverFolder):
    """See `DriverFolder`. What is compiled is imported late: only users of this driver pay for it."""

    def look(self) -> Found:
        """See `DriverFolder`."""
        return discovery.look()

    def open_device(self, info: DeviceInfo) -> DriverDevice:
        """See `DriverFolder`."""
        from forebay.queues.drivers.levelzero.device import LevelZeroDevice

        return LevelZeroDevice(info)
