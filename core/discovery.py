"""Looks for devices once per process, and names them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from forebay.core.driver import DeviceInfo

__all__ = ["Discovery", "Found", "numbered"]


class Found(NamedTuple):
    """The result of looking for devices: the devices, and if there are none, the reason and advice in one line."""

    devices: list[DeviceInfo]
    absence: str


class Discovery:
    """Looks for devices when any thread first asks. Drivers that are installed later are not found.

    Parameters
    ----------
    look
        Starts the driver and returns the devices. It is called once.
    """

    def __init__(self, look: Callable[[], Found]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._found: Found | None = None

    def found(self) -> Found:
        """Return the result of the search. The first call blocks until the driver has started."""
        with self._lock:
            if self._found is None:
                self._found = self._look()
            return self._found

    def discover(self) -> list[DeviceInfo]:
        """See `DriverFolder.discover`."""
        return list(self.found().devices)

    def absence(self) -> str:
        """See `DriverFolder.absence`."""
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
