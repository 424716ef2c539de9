"""What the folder of each driver offers, and what the search for devices is in all of them.

This module is plain Python and needs none of forebay's compiled modules.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from forebay.core.driver import AdoptedQueue, DeviceInfo, DriverDevice

__all__ = ["PROBE", "DriverFolder", "Found", "first_line", "numbered"]

PROBE = "kernel void probe(global int *a) { a[0] = 1; }"
"""OpenCL C that every compiler takes which works at all."""
log: logging.Logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """The result of looking for devices: the devices, and if there are none, the reason and advice in one line."""

    devices: list[DeviceInfo]
    absence: str


class DriverFolder(ABC):
    """What a driver's folder offers: its ``driver.py`` has a subclass, and ``selection.py`` the one object of it.

    It looks for devices when any thread first asks. Drivers that are installed later are not found.

    Attributes
    ----------
    adopts_queues, adopts_devices : str
        What `adopt_queue` and `adopt_device` take, in words; empty for nothing.
    runs_anywhere : bool
        Whether pip can install a driver for any processor, so that this advice comes first where there is no device.
    """

    adopts_queues = ""
    adopts_devices = ""
    runs_anywhere = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: Found | None = None

    @abstractmethod
    def look(self) -> Found:
        """Start the driver and return the devices, unusable ones too, in order of preference. It is called once, may
        block, and raises nothing.
        """

    @abstractmethod
    def open_device(self, info: DeviceInfo) -> DriverDevice:
        """Open a usable device that `discover` listed. Raises `DriverError`."""

    def adopt_queue(self, thing: Any, opened: Iterable[DriverDevice]) -> AdoptedQueue | None:
        """Take over an in-order queue of another package. None when it is no such queue.

        Its device is one of `opened` if there is one of its context, otherwise a new one. Raises
        `InvalidArgumentError` when it runs out of order, and `NotSupportedError` when its device cannot be used.
        """
        return None

    def adopt_device(self, thing: Any, opened: Iterable[DriverDevice]) -> DriverDevice | DeviceInfo | None:
        """Take over a context or device of another package. None when it is no such object.

        A context becomes the device of `opened` that is in it, otherwise a new one. A device without a context is what
        `discover` listed, if it is in that list. Raises as `adopt_queue`.
        """
        return None

    def found(self) -> Found:
        """Return the result of the search. The first call blocks until the driver has started."""
        with self._lock:
            if self._found is not None:
                return self._found
            found = self._found = self.look()
        for device in found.devices:
            log.info("found %s: %s", device.name, device.description if device.usable else device.reason)
        if found.absence:
            log.info("%s", found.absence)
        return found

    def discover(self) -> list[DeviceInfo]:
        """Every device, the unusable ones too; a new list of the same objects each time. Blocks as `found`."""
        return list(self.found().devices)

    def absence(self) -> str:
        """Why there is no device and what to do, in one line; empty if there is one."""
        return self.found().absence


def numbered(devices: Iterable[DeviceInfo]) -> list[DeviceInfo]:
    """Number devices of one backend within their kind, in this order, and name them ``backend:kind:index``."""
    counted: dict[str, int] = {}
    named: list[DeviceInfo] = []
    for device in devices:
        index = counted.setdefault(device.kind, 0)
        counted[device.kind] += 1
        named.append(replace(device, name=f"{device.backend}:{device.kind}:{index}", index=index))
    return named


def first_line(text: str) -> str:
    """Return the first line that is not blank: drivers begin their logs with blank lines."""
    return next((line.strip() for line in text.splitlines() if line.strip(" \t\0")), "")
