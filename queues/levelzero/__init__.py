"""The Level Zero driver. Only this package deals with `ze_command_list_handle_t` and the like."""

from forebay.core.driver import DeviceInfo, DriverDevice
from forebay.queues.levelzero.discovery import absence, discover

__all__ = ["absence", "discover", "open_device"]


def open_device(info: DeviceInfo) -> DriverDevice:
    """As `DriverFolder.open_device`."""
    from forebay.queues.levelzero.device import LevelZeroDevice  # imported late: only users of this driver pay for it

    return LevelZeroDevice(info)
