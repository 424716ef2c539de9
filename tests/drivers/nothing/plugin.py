"""A plugin of pytest: the whole run knows the driver that executes nothing. It is the one line of a driver.

``FOREBAY_DEVICE=nothing python -m pytest -p tests.drivers.nothing.plugin tests/ordering`` runs those tests on it.
"""

from forebay.queues.drivers.selection import DRIVERS
from tests.drivers.nothing.driver import Nothing

DRIVERS["nothing"] = Nothing()
