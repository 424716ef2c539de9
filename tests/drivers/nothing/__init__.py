"""A driver that executes nothing: written from docs/driver.md, and the shortest that is complete.

Its device accepts every command, and memory never changes; but what is asked of events and queues is answered by a
model of what comes after what, so that a closed gate holds up all that is behind it. It tests the page, and that
forebay knows nothing of a driver but the contract. Tests name it in `forebay.queues.selection.DRIVERS`, as "nothing".
"""

from .device import adopt_device, adopt_queue, discovery, open_device

__all__ = ["ADOPTS_DEVICES", "ADOPTS_QUEUES", "absence", "adopt_device", "adopt_queue", "discover", "open_device"]

ADOPTS_QUEUES = ""
ADOPTS_DEVICES = ""
discover, absence = discovery.discover, discovery.absence
