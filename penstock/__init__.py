"""HIP-style streams on in-order queues of OpenCL, Level Zero and SYCL devices, at the cost of the driver call."""

from penstock.events.event import Event
from penstock.queues.bound import BoundLaunch
from penstock.queues.buffer import Buffer
from penstock.queues.device import Device
from penstock.queues.errors import (
    ArgumentTypeError,
    BuildError,
    CapturedEventError,
    CaptureError,
    CaptureImplicitError,
    CaptureInvalidatedError,
    CaptureIsolationError,
    CaptureMergeError,
    CaptureUnjoinedError,
    CaptureUnmatchedError,
    CaptureUnsupportedError,
    CaptureWrongThreadError,
    ClosedError,
    DeviceNotFoundError,
    DriverError,
    Error,
    GraphUpdateError,
    InvalidArgumentError,
    NotSupportedError,
    OutOfMemoryError,
    OutOfRangeError,
    ScratchOverflowError,
    TimeoutError,
)
from penstock.queues.executable import ExecutableGraph
from penstock.queues.graph import Graph, Node
from penstock.queues.host_memory import host_empty
from penstock.queues.kernel import Kernel
from penstock.queues.packing import by_value, local
from penstock.queues.pool import MemoryPool
from penstock.queues.program import Program
from penstock.queues.queue import Queue
from penstock.queues.results import Result, results
from penstock.queues.sizes import Argument, MaxOver, MinOver, SumOver
from penstock.queues.stats import Stats
from penstock.selection import devices

__all__ = [
    "Argument",
    "ArgumentTypeError",
    "BoundLaunch",
    "Buffer",
    "BuildError",
    "CaptureError",
    "CaptureImplicitError",
    "CaptureInvalidatedError",
    "CaptureIsolationError",
    "CaptureMergeError",
    "CaptureUnjoinedError",
    "CaptureUnmatchedError",
    "CaptureUnsupportedError",
    "CaptureWrongThreadError",
    "CapturedEventError",
    "ClosedError",
    "Device",
    "DeviceNotFoundError",
    "DriverError",
    "Error",
    "Event",
    "ExecutableGraph",
    "Graph",
    "GraphUpdateError",
    "InvalidArgumentError",
    "Kernel",
    "MaxOver",
    "MemoryPool",
    "MinOver",
    "Node",
    "NotSupportedError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Program",
    "Queue",
    "Result",
    "ScratchOverflowError",
    "Stats",
    "SumOver",
    "TimeoutError",
    "by_value",
    "devices",
    "host_empty",
    "local",
    "results",
]
