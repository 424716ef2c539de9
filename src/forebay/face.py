"""What ``import forebay`` offers: imported with the first use of a name, because NumPy and the rest take a while.

It also has Devices take HIP C++, and types say what other packages' names are called here.
"""

from forebay.core.driver import Language as _Language
from forebay.core.errors import (
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
    DeviceLostError,
    DeviceNotFoundError,
    DriverError,
    Error,
    GraphUpdateError,
    InvalidArgumentError,
    NotSupportedError,
    OutOfBoundsError,
    OutOfMemoryError,
    OutOfRangeError,
    RaceError,
    ScratchOverflowError,
    StepError,
    TimeoutError,
)
from forebay.core.stats import Stats
from forebay.events.event import Event
from forebay.events.ipc_event import IpcEvent
from forebay.expressions.elementwise import elementwise
from forebay.expressions.reduction import reduction
from forebay.queues import interop as _interop  # noqa: F401 - it adds names
from forebay.queues.device import Device
from forebay.queues.graphs.executable import ExecutableGraph
from forebay.queues.graphs.graph import Graph, Node
from forebay.queues.graphs.step import Step
from forebay.queues.host_functions import Gate
from forebay.queues.kernels import program as _program
from forebay.queues.kernels.kernel import Kernel
from forebay.queues.kernels.program import Program
from forebay.queues.kernels.scratch_size import Argument, MaxOver, MinOver, SumOver
from forebay.queues.launch.launch import BoundLaunch, by_value, local, null
from forebay.queues.launch.results import Result, results
from forebay.queues.launcher import Launcher
from forebay.queues.memory.allocation import host_empty
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.pool import MemoryPool
from forebay.queues.memory.shapes import StridedView
from forebay.queues.queue import Queue
from forebay.queues.selection import devices
from forebay.races.reports import Race
from forebay.tracing import trace

__all__ = [
    "NULL",
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
    "DeviceLostError",
    "DeviceNotFoundError",
    "DriverError",
    "Error",
    "Event",
    "ExecutableGraph",
    "Gate",
    "Graph",
    "GraphUpdateError",
    "InvalidArgumentError",
    "IpcEvent",
    "Kernel",
    "Launcher",
    "MaxOver",
    "MemoryPool",
    "MinOver",
    "Node",
    "NotSupportedError",
    "OutOfBoundsError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Program",
    "Queue",
    "Race",
    "RaceError",
    "Result",
    "ScratchOverflowError",
    "Stats",
    "Step",
    "StepError",
    "StridedView",
    "SumOver",
    "TimeoutError",
    "by_value",
    "devices",
    "elementwise",
    "host_empty",
    "local",
    "reduction",
    "results",
    "trace",
]


NULL = null


def _compile_hip(device: Device, source: str, options: tuple[str, ...]) -> _program.Compiled:
    from forebay.hiprtc.front_end import compile_for_device  # imported late: most programs need no clang

    return compile_for_device(device, source, options)


_program.add_front_end(_Language.HIP_CPP, _compile_hip)
