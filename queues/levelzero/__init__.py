"""The Level Zero driver: everything that knows what a `ze_command_list_handle_t` is."""

from forebay.core.driver import DeviceInfo, DriverDevice
from forebay.queues.levelzero.discovery import absence, discover

__all__ = ["absence", "discover", "open_device"]


def open_device(info: DeviceInfo) -> DriverDevice:
    """As `DriverFolder.open_device`."""
    from forebay.queues.levelzero.device import LevelZeroDevice  # only for those who use this driver

    return LevelZeroDevice(info)
