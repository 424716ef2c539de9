"""The counters of all devices from some time on, also of those that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.queues import device as devices

if TYPE_CHECKING:
    from forebay.core.stats import Stats
    from forebay.queues.device import Device
    from forebay.tracing.watching import Call


class Counters:
    """What each Device did since this was made. Its owner passes on the calls that it hears of."""

    def __init__(self) -> None:
        self._earlier = {id(device): device.stats for device in list(devices._live) if not device.closed}
        self._gone: list[tuple[str, Stats]] = []

    def began(self, call: Call) -> None:
        """Keep the counters of a device that is about to go."""
        if call.name == "Device._disband":
            self._gone.append(self._of(call.arguments[0]))
            self._earlier.pop(id(call.arguments[0]), None)

    def all(self) -> list[tuple[str, Stats]]:
        """The name of each Device, and what it did."""
        return self._gone + [self._of(device) for device in list(devices._live) if not device.closed]

    def _of(self, device: Device) -> tuple[str, Stats]:
        stats = device.stats
        earlier = self._earlier.get(id(device))
        return device.name, stats if earlier is None else stats - earlier
