"""HIP-style streams on in-order queues of OpenCL, Level Zero and SYCL devices, at the cost of the driver call."""

from penstock.events.event import Event
from penstock.queues.bound import BoundLaunch
from penstock.queues.buffer import Buffer
from penstock.queues.device import Device
from penstock.queues.errors import (
    ArgumentTypeError,
    BuildError,
    ClosedError,
    DeviceNotFoundError,
    DriverError,
    Error,
    InvalidArgumentError,
    NotSupportedError,
    OutOfMemoryError,
    OutOfRangeError,
    TimeoutError,
)
from penstock.queues.host_memory import host_empty
from penstock.queues.kernel import Kernel
from penstock.queues.packing import by_value, local
from penstock.queues.program import Program
from penstock.queues.queue import Queue
from penstock.queues.stats import Stats
from penstock.selection import devices

__all__ = [
    "ArgumentTypeError",
    "BoundLaunch",
    "Buffer",
    "BuildError",
    "ClosedError",
    "Device",
    "DeviceNotFoundError",
    "DriverError",
    "Error",
    "Event",
    "InvalidArgumentError",
    "Kernel",
    "NotSupportedError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Program",
    "Queue",
    "Stats",
    "TimeoutError",
    "by_value",
    "devices",
    "host_empty",
    "local",
]
