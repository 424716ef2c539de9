"""What the folder offers: one device."""

from forebay.core.driver import DeviceInfo
from forebay.queues.drivers.folder import DriverFolder, Found, numbered

from .device import LIMITS, SIZE, Device


class Nothing(DriverFolder):
    """See `DriverFolder`."""

    def look(self):
        device = DeviceInfo(
            "", "nothing", "custom", 0, "Nothing", "a model that executes nothing", "1.0", "1.0", 1, SIZE, native=LIMITS
        )
        return Found(numbered([device]), "")

    def open_device(self, info):
        return Device(info)
