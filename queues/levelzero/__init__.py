"""The Level Zero driver. Only this package deals with `ze_command_list_handle_t` and the like."""

from collections.abc import Iterable

from forebay.core.driver import DeviceInfo, DriverDevice
from forebay.queues.levelzero.discovery import absence, discover

__all__ = [
    "ADOPTS_DEVICES",
    "ADOPTS_QUEUES",
    "absence",
    "adopt_device",
    "adopt_queue",
    "discover",
    "open_device",
]

ADOPTS_QUEUES = ADOPTS_DEVICES = ""  # no package of Python has queues of Level Zero


def open_device(info: DeviceInfo) -> DriverDevice:
    """As `DriverFolder.open_device`."""
    from forebay.queues.levelzero.device import LevelZeroDevice  # imported late: only users of this driver pay for it

    return LevelZeroDevice(info)


def adopt_queue(thing: object, opened: Iterable[DriverDevice]) -> None:
    """As `DriverFolder.adopt_queue`."""


def adopt_device(thing: object, opened: Iterable[DriverDevice]) -> None:
    """As `DriverFolder.adopt_device`."""
