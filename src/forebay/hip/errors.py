"""Error codes: what a call returns first, and what is remembered of it for its thread."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from forebay.c_string import CString
from forebay.core import errors
from forebay.hip.compiled import calls
from forebay.hip.compiled.calls import last_returned, note_returned
from forebay.hip.enums import hipError_t

__all__ = [
    "hipDrvGetErrorName",
    "hipDrvGetErrorString",
    "hipExtGetLastError",
    "hipGetErrorName",
    "hipGetErrorString",
    "hipGetLastError",
    "hipPeekAtLastError",
    "last_exception",
]

Result = tuple[Any, ...]
OK = hipError_t.hipSuccess  # looked up once: an attribute of an enum costs as much as the rest of `api`
SUCCESS: Result = (OK,)

# The exceptions of forebay, most special first.
CODES: tuple[tuple[type[Exception], hipError_t], ...] = (
    (errors.OutOfMemoryError, hipError_t.hipErrorOutOfMemory),
    (errors.ClosedError, hipError_t.hipErrorContextIsDestroyed),
    (errors.InvalidArgumentError, hipError_t.hipErrorInvalidValue),
    (errors.ArgumentTypeError, hipError_t.hipErrorInvalidValue),
    (errors.DeviceNotFoundError, hipError_t.hipErrorNoDevice),
    (errors.BuildError, hipError_t.hipErrorInvalidImage),
    (errors.NotSupportedError, hipError_t.hipErrorNotSupported),
    (errors.TimeoutError, hipError_t.hipErrorNotReady),
    (errors.DriverError, hipError_t.hipErrorLaunchFailure),
    (errors.Error, hipError_t.hipErrorNotSupported),
)

# AMD's words, which programs print and compare; what they do not name is an unknown error.
TEXTS = {
    hipError_t.hipSuccess: "no error",
    hipError_t.hipErrorInvalidValue: "invalid argument",
    hipError_t.hipErrorOutOfMemory: "out of memory",
    hipError_t.hipErrorNotInitialized: "initialization error",
    hipError_t.hipErrorDeinitialized: "driver shutting down",
    hipError_t.hipErrorProfilerDisabled: "profiler disabled while using external profiling tool",
    hipError_t.hipErrorProfilerNotInitialized: "profiler is not initialized",
    hipError_t.hipErrorProfilerAlreadyStarted: "profiler already started",
    hipError_t.hipErrorProfilerAlreadyStopped: "profiler already stopped",
    hipError_t.hipErrorInvalidConfiguration: "invalid configuration argument",
    hipError_t.hipErrorInvalidPitchValue: "invalid pitch argument",
    hipError_t.hipErrorInvalidSymbol: "invalid device symbol",
    hipError_t.hipErrorInvalidDevicePointer: "invalid device pointer",
    hipError_t.hipErrorInvalidMemcpyDirection: "invalid copy direction for memcpy",
    hipError_t.hipErrorInsufficientDriver: "driver version is insufficient for runtime version",
    hipError_t.hipErrorMissingConfiguration: "__global__ function call is not configured",
    hipError_t.hipErrorPriorLaunchFailure: "unspecified launch failure in prior launch",
    hipError_t.hipErrorInvalidDeviceFunction: "invalid device function",
    hipError_t.hipErrorNoDevice: "no ROCm-capable device is detected",
    hipError_t.hipErrorInvalidDevice: "invalid device ordinal",
    hipError_t.hipErrorInvalidImage: "device kernel image is invalid",
    hipError_t.hipErrorInvalidContext: "invalid device context",
    hipError_t.hipErrorContextAlreadyCurrent: "context is already current context",
    hipError_t.hipErrorMapFailed: "mapping of buffer object failed",
    hipError_t.hipErrorUnmapFailed: "unmapping of buffer object failed",
    hipError_t.hipErrorArrayIsMapped: "array is mapped",
    hipError_t.hipErrorAlreadyMapped: "resource already mapped",
    hipError_t.hipErrorNoBinaryForGpu: "no kernel image is available for execution on the device",
    hipError_t.hipErrorAlreadyAcquired: "resource already acquired",
    hipError_t.hipErrorNotMapped: "resource not mapped",
    hipError_t.hipErrorNotMappedAsArray: "resource not mapped as array",
    hipError_t.hipErrorNotMappedAsPointer: "resource not mapped as pointer",
    hipError_t.hipErrorECCNotCorrectable: "uncorrectable ECC error encountered",
    hipError_t.hipErrorUnsupportedLimit: "limit is not supported on this architecture",
    hipError_t.hipErrorContextAlreadyInUse: "exclusive-thread device already in use by a different thread",
    hipError_t.hipErrorPeerAccessUnsupported: "peer access is not supported between these two devices",
    hipError_t.hipErrorInvalidKernelFile: "invalid kernel file",
    hipError_t.hipErrorInvalidGraphicsContext: "invalid OpenGL or DirectX context",
    hipError_t.hipErrorInvalidSource: "device kernel image is invalid",
    hipError_t.hipErrorFileNotFound: "file not found",
    hipError_t.hipErrorSharedObjectSymbolNotFound: "shared object symbol not found",
    hipError_t.hipErrorSharedObjectInitFailed: "shared object initialization failed",
    hipError_t.hipErrorOperatingSystem: "OS call failed or operation not supported on this OS",
    hipError_t.hipErrorInvalidHandle: "invalid resource handle",
    hipError_t.hipErrorIllegalState: "the operation cannot be performed in the present state",
    hipError_t.hipErrorNotFound: "named symbol not found",
    hipError_t.hipErrorNotReady: "device not ready",
    hipError_t.hipErrorIllegalAddress: "an illegal memory access was encountered",
    hipError_t.hipErrorLaunchOutOfResources: "too many resources requested for launch",
    hipError_t.hipErrorLaunchTimeOut: "the launch timed out and was terminated",
    hipError_t.hipErrorPeerAccessAlreadyEnabled: "peer access is already enabled",
    hipError_t.hipErrorPeerAccessNotEnabled: "peer access has not been enabled",
    hipError_t.hipErrorSetOnActiveProcess: "cannot set while device is active in this process",
    hipError_t.hipErrorContextIsDestroyed: "context is destroyed",
    hipError_t.hipErrorAssert: "device-side assert triggered",
    hipError_t.hipErrorHostMemoryAlreadyRegistered: "part or all of the requested memory range is already mapped",
    hipError_t.hipErrorHostMemoryNotRegistered: "pointer does not correspond to a registered memory region",
    hipError_t.hipErrorLaunchFailure: "unspecified launch failure",
    hipError_t.hipErrorCooperativeLaunchTooLarge: "too many blocks in cooperative launch",
    hipError_t.hipErrorNotSupported: "operation not supported",
    hipError_t.hipErrorStreamCaptureUnsupported: "operation not permitted when stream is capturing",
    hipError_t.hipErrorStreamCaptureInvalidated: "operation failed due to a previous error during capture",
    hipError_t.hipErrorStreamCaptureMerge: "operation would result in a merge of separate capture sequences",
    hipError_t.hipErrorStreamCaptureUnmatched: "capture was not ended in the same stream as it began",
    hipError_t.hipErrorStreamCaptureUnjoined: "capturing stream has unjoined work",
    hipError_t.hipErrorStreamCaptureIsolation: "dependency created on uncaptured work in another stream",
    hipError_t.hipErrorStreamCaptureImplicit: (
        "operation would make the legacy stream depend on a capturing blocking stream"
    ),
    hipError_t.hipErrorCapturedEvent: "operation not permitted on an event last recorded in a capturing stream",
    hipError_t.hipErrorStreamCaptureWrongThread: (
        "attempt to terminate a thread-local capture sequence from another thread"
    ),
    hipError_t.hipErrorGraphExecUpdateFailure: (
        "the graph update was not performed because it included changes which violated "
        "constraints specific to instantiated graph update"
    ),
    hipError_t.hipErrorRuntimeMemory: "runtime memory call returned error",
    hipError_t.hipErrorRuntimeOther: "runtime call other than memory returned error",
    hipError_t.hipErrorUnknown: "unknown error",
}
UNKNOWN = "unknown error"


class HipError(Exception):
    """Ends a call with this code."""

    def __init__(self, code: hipError_t, message: str = "") -> None:
        super().__init__(message or TEXTS.get(code, code.name))
        self.code = code


class RaisedInCallback(Exception):
    """Carries what a callback raised to the next synchronize, where it is raised in place of this."""

    def __init__(self, original: BaseException) -> None:
        super().__init__(str(original))
        self.original = original


class _State(threading.local):
    """Of each thread: the last error, and why it came. What the last call returned, compiled calls note, too."""

    def __init__(self) -> None:
        self.error = hipError_t.hipSuccess
        self.exception: Exception | None = None


_state = _State()


def code_of(error: Exception) -> hipError_t:
    """Return the code for an exception of this package or of forebay.

    Raises
    ------
    Exception
        The given one when it is neither: a program's own, raised in a callback or while it computed an argument.
    """
    if isinstance(error, HipError):
        return error.code
    if isinstance(error, RaisedInCallback):
        raise error.original
    own_name = getattr(error, "hip_name", "")  # errors of capture know HIP's name for themselves
    if own_name:
        return hipError_t[own_name]
    for kind, code in CODES:
        if isinstance(error, kind):
            return code
    raise error


def record(code: hipError_t, error: Exception) -> None:
    """Remember what a call returned. hipErrorNotReady does not stick (HIP 7)."""
    note_returned(code)
    if code != hipError_t.hipErrorNotReady:
        _state.error = code
        _state.exception = error


def failed(error: Exception, outputs: int) -> Result:
    """Return what a call returns that has this many outputs and ended with this; remember it.

    Raises
    ------
    Exception
        The given one when it stands for no code.
    """
    if isinstance(error, errors.ArgumentTypeError):
        raise error
    code = code_of(error)
    record(code, error)
    return (code, *[None] * outputs)


def _ordinary_failed(error: Exception, definition: Any) -> Result:
    outputs: int = definition.outputs
    return failed(error, outputs)


calls.connect(SUCCESS, (hipError_t.hipErrorNotReady,), _ordinary_failed)


def api(outputs: int = 0) -> Callable[[Callable[..., Any]], Callable[..., Result]]:
    """Make a function that returns its outputs, or raises, one that returns a tuple with the code first.

    A failed call returns None for each output. A Python exception that stands for no code is raised. The function gets
    None for every null pointer, see `NullsAsNone`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Result]:
        definition = calls.NullsAsNone(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Result:
            try:
                result = definition(*args, **kwargs)
            except Exception as error:
                return failed(error, outputs)
            note_returned(0)
            if outputs == 0:
                return SUCCESS
            return (OK, *result) if outputs > 1 else (OK, result)

        call.__annotations__ = {}
        call.outputs = outputs  # type: ignore[attr-defined]
        return call

    return decorate


asserting: dict[object, tuple[object, Callable[[], bool]]] = {}
"""By module that has assertions: its device, and what tells whether one of them has failed."""


def check_assertions(device: object) -> None:
    """Look at the modules in `asserting` after waiting for their device, if there are any.

    Raises
    ------
    HipError
        hipErrorAssert, each time until the module is unloaded or the device reset.
    """
    for owner, has_failed in list(asserting.values()):
        if owner is device and has_failed():
            raise HipError(hipError_t.hipErrorAssert, "an assertion in a kernel failed; standard output says which")


def hipGetLastError() -> Result:
    """Return the last error of this thread's calls, and forget it; ``(code,)``.

    A success does not clear it, and hipErrorNotReady does not count as an error (HIP 7).
    """
    code, _state.error, _state.exception = _state.error, hipError_t.hipSuccess, None
    return (code,)


def hipPeekAtLastError() -> Result:
    """Return the last error of this thread's calls without forgetting it; ``(code,)``."""
    return (_state.error,)


def hipExtGetLastError() -> Result:
    """Return what this thread's last call returned; ``(code,)``."""
    return (hipError_t(last_returned()),)


def last_exception() -> Exception | None:
    """Return the exception behind `hipPeekAtLastError`: its message says what was wrong. Not part of HIP."""
    return _state.exception


def _code(code: Any) -> hipError_t | None:
    try:
        return hipError_t(code)
    except ValueError:
        return None


def hipGetErrorName(hip_error: int) -> Result:
    """Return ``(hipSuccess, name)``, the name as a `CString`.

    `hip_error` is a `hipError_t` or its number, of which the name is hipErrorUnknown if there is no such code.
    """
    code = _code(hip_error)
    return (hipError_t.hipSuccess, CString(b"hipErrorUnknown" if code is None else code.name.encode()))


def hipGetErrorString(hipError: int) -> Result:
    """Return ``(hipSuccess, text)``, a `CString`; `last_exception` says what was wrong with this call.

    `hipError` is a `hipError_t` or its number.
    """
    code = _code(hipError)
    text = UNKNOWN if code is None else TEXTS.get(code, UNKNOWN)
    return (hipError_t.hipSuccess, CString(text.encode()))


def hipDrvGetErrorName(hipError: int) -> Result:
    """Return ``(hipError_t, name)``; hipErrorInvalidValue and None for a number that is not an error code.

    `hipError` is a `hipError_t` or its number.
    """
    return hipGetErrorName(hipError) if _code(hipError) is not None else (hipError_t.hipErrorInvalidValue, None)


def hipDrvGetErrorString(hipError: int) -> Result:
    """Return ``(hipError_t, text)``; hipErrorInvalidValue and None for a number that is not an error code.

    `hipError` is a `hipError_t` or its number.
    """
    return hipGetErrorString(hipError) if _code(hipError) is not None else (hipError_t.hipErrorInvalidValue, None)
