"""The exceptions of forebay.

All derive from `Error`. Each also derives from the built-in exception that a caller would expect, so that both
``except forebay.Error`` and ``except ValueError`` work.
"""

from __future__ import annotations

import builtins
from typing import Any

from forebay.compiler.errors import BuildError, Error, InvalidArgumentError, NotSupportedError
from forebay.compiler.errors import NotInstalledError as NotInstalledError
from forebay.compiler.errors import how_to_install as how_to_install

__all__ = [
    "ArgumentTypeError", "BuildError", "CaptureError", "CaptureImplicitError", "CaptureInvalidatedError",
    "CaptureIsolationError", "CaptureMergeError", "CaptureUnjoinedError", "CaptureUnmatchedError",
    "CaptureUnsupportedError", "CaptureWrongThreadError", "CapturedEventError", "ClosedError", "DeviceLostError",
    "DeviceNotFoundError", "DriverError", "Error", "GraphUpdateError", "InvalidArgumentError", "NotSupportedError",
    "OutOfBoundsError", "OutOfMemoryError", "OutOfRangeError", "RaceError", "ScratchOverflowError", "StepError",
    "TimeoutError",
]  # fmt: skip


class DeviceNotFoundError(Error, LookupError):
    """No device matches the filter, or the matching device cannot be used. The message lists the devices."""


class OutOfRangeError(InvalidArgumentError, IndexError):
    """An index is outside of the first axis of a buffer."""


class ArgumentTypeError(Error, TypeError):
    """An argument has the wrong type, or there are too many or too few of them."""


class OutOfMemoryError(Error, MemoryError):
    """The device, or the host on the device's behalf, does not have enough memory for this allocation."""


class ClosedError(Error, RuntimeError):
    """A queue, buffer, event or other object was used after it had been closed."""


class DriverError(Error, RuntimeError):
    """A driver call failed.

    Parameters
    ----------
    message
        Text for the user.
    call
        Name of the driver function, for example ``"clEnqueueNDRangeKernel"``.
    code
        Error code that the driver returned.
    name
        The driver's own name for that code, for example ``"CL_INVALID_WORK_GROUP_SIZE"``.
    """

    # Defaults, and state in __dict__ rather than in args, so that copies and pickles keep all of it.
    def __init__(self, message: str = "", *, call: str = "", code: int = 0, name: str = "") -> None:
        super().__init__(message)
        self.call = call
        self.code = code
        self.name = name


class DeviceLostError(DriverError):
    """The device is lost, and with it all of its commands and memory. The message says what failed first.

    Every later use of the Device, its queues and its events raises this. Closing the Device releases everything. A new
    Device works if the driver has recovered.
    """


class OutOfBoundsError(Error, RuntimeError):
    """A kernel wrote past the end of memory that it was given; found by ``Device(debug=True)``."""


class ScratchOverflowError(OutOfBoundsError):
    """A kernel wrote past the end of its scratch; found by ``Device(debug=True)``."""


class RaceError(Error, RuntimeError):
    """A command of a Device with ``check="races,error"`` would race with an earlier one, and was not submitted.

    Attributes
    ----------
    race : Race
    """

    def __init__(self, message: str, race: Any = None) -> None:
        super().__init__(message)
        self.race = race


class StepError(Error, RuntimeError):
    """A step cannot be opened, or a capture cannot begin, because a step is open.

    Attributes
    ----------
    hip_name : str
        HIP's name for the error.
    """

    hip_name = "hipErrorIllegalState"


class TimeoutError(Error, builtins.TimeoutError):
    """A wait with a timeout ended before the device was done. Nothing was cancelled; waiting again is allowed."""


class CaptureError(Error, RuntimeError):
    """An operation failed because a queue is, or is not, captured.

    Attributes
    ----------
    hip_name : str
        HIP's name for the error.
    """

    hip_name: str = "hipErrorIllegalState"

    def __init_subclass__(cls, hip_name: str = hip_name) -> None:
        cls.hip_name = hip_name


class CaptureUnsupportedError(CaptureError, hip_name="hipErrorStreamCaptureUnsupported"):
    """The operation cannot be captured, or is not allowed during a capture."""


class CaptureInvalidatedError(CaptureError, hip_name="hipErrorStreamCaptureInvalidated"):
    """An earlier error invalidated the capture. It can only be ended, and gives no graph."""


class CaptureMergeError(CaptureError, hip_name="hipErrorStreamCaptureMerge"):
    """A wait would merge two captures."""


class CaptureUnmatchedError(CaptureError, hip_name="hipErrorStreamCaptureUnmatched"):
    """A capture must be ended on the queue on which it began."""


class CaptureUnjoinedError(CaptureError, hip_name="hipErrorStreamCaptureUnjoined"):
    """A queue joined the capture and has work for which the capture's first queue never waited."""


class CaptureIsolationError(CaptureError, hip_name="hipErrorStreamCaptureIsolation"):
    """A captured queue cannot wait for work that is not captured."""


class CaptureImplicitError(CaptureError, hip_name="hipErrorStreamCaptureImplicit"):
    """The null queue would have to be ordered against a blocking queue that is captured."""


class CaptureWrongThreadError(CaptureError, hip_name="hipErrorStreamCaptureWrongThread"):
    """The thread that began a capture must end it, unless its mode is "relaxed"."""


class CapturedEventError(CaptureError, hip_name="hipErrorCapturedEvent"):
    """An event that was recorded in a capture is no point in time, so nothing can wait for it."""


class GraphUpdateError(Error, ValueError):
    """A graph cannot replace another: it has other kinds of nodes, or other dependencies.

    Attributes
    ----------
    reason : "nodes", "dependencies", "kind", "direction", "device" or "memory"
        What differs: the number of nodes, the dependencies of one, what it does, its direction of copying, or the
        device; "memory": there are nodes that allocate or free memory.
    node : Node
        The first node of the other graph that does not fit; None when there is no single one.
    hip_name : str
        HIP's name for the error.
    """

    hip_name = "hipErrorGraphExecUpdateFailure"

    def __init__(self, message: str, reason: str, node: Any = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.node = node
