import threading

import pytest

import forebay as fb
from forebay import hip
from forebay.hip.functions.unavailable import SUBJECTS
from forebay.hip.table import CHAPTERS, DRIVERS, chapter_of, table

from .conftest import ok
from .helpers import E, code


def test_an_error_sticks_until_it_is_asked_for(device):
    assert hip.hipGetLastError() == hip.hipPeekAtLastError() == (E.hipSuccess,)
    assert code(hip.hipMalloc(-1)) == E.hipErrorInvalidValue
    ok(hip.hipFree(None))  # does not clear it
    assert hip.hipExtGetLastError() == (E.hipSuccess,)
    assert hip.hipPeekAtLastError() == hip.hipPeekAtLastError() == (E.hipErrorInvalidValue,)
    assert "-1" in str(hip.last_exception())
    assert hip.hipGetLastError() == (E.hipErrorInvalidValue,)
    assert hip.hipGetLastError() == (E.hipSuccess,)
    assert hip.last_exception() is None


def test_the_last_one_counts(device):
    code(hip.hipMalloc(-1))
    code(hip.hipMalloc(1 << 50))
    assert hip.hipGetLastError() == (E.hipErrorOutOfMemory,)


@pytest.mark.executes(run=False)
def test_not_ready_is_no_error(device, hold):
    hold(None)
    assert code(hip.hipStreamQuery(None)) == E.hipErrorNotReady
    assert hip.hipExtGetLastError() == (E.hipErrorNotReady,)
    assert hip.hipPeekAtLastError() == (E.hipSuccess,)


def test_each_thread_has_its_own(device):
    code(hip.hipMalloc(-1))
    found = []
    thread = threading.Thread(target=lambda: found.append(hip.hipGetLastError()))
    thread.start()
    thread.join()
    assert found == [(E.hipSuccess,)]
    assert hip.hipGetLastError() == (E.hipErrorInvalidValue,)


def test_a_launch_that_fails_sticks_too(device):
    hip.hipModuleLaunchKernel(None, 1, 1, 1, 1, 1, 1)
    assert hip.hipGetLastError() == (E.hipErrorInvalidHandle,)


@pytest.mark.parametrize("flags", ["x", 1.5, None, b"1"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("hipExtMallocWithFlags", (64,)), ("hipMallocManaged", (64,)), ("hipHostMalloc", (64,)),
        ("hipStreamCreateWithFlags", ()), ("hipEventCreateWithFlags", ()),
    ],
)  # fmt: skip
def test_flags_that_are_no_number(device, name, arguments, flags):
    """An error code, or a TypeError that HIP's function cannot give; no complaint about how a message is written."""
    try:
        code = getattr(hip, name)(*arguments, flags)[0]
    except TypeError:
        return
    assert code == E.hipErrorInvalidValue


@pytest.mark.parametrize("extent", [float("nan"), float("inf"), 2.5, "3", (1, 2, 3, 4)])
def test_extents_that_are_none_are_named(device, extent):
    with pytest.raises(fb.ArgumentTypeError, match=r"extents?"):
        hip.hipLaunchKernel(None, extent, 1, (), 0, None)


# As ROCm's runtime says them.
AMD = {
    "hipSuccess": "no error",
    "hipErrorInvalidValue": "invalid argument",
    "hipErrorOutOfMemory": "out of memory",
    "hipErrorNotInitialized": "initialization error",
    "hipErrorDeinitialized": "driver shutting down",
    "hipErrorProfilerDisabled": "profiler disabled while using external profiling tool",
    "hipErrorProfilerNotInitialized": "profiler is not initialized",
    "hipErrorProfilerAlreadyStarted": "profiler already started",
    "hipErrorProfilerAlreadyStopped": "profiler already stopped",
    "hipErrorInvalidConfiguration": "invalid configuration argument",
    "hipErrorInvalidPitchValue": "invalid pitch argument",
    "hipErrorInvalidSymbol": "invalid device symbol",
    "hipErrorInvalidDevicePointer": "invalid device pointer",
    "hipErrorInvalidMemcpyDirection": "invalid copy direction for memcpy",
    "hipErrorInsufficientDriver": "driver version is insufficient for runtime version",
    "hipErrorMissingConfiguration": "__global__ function call is not configured",
    "hipErrorPriorLaunchFailure": "unspecified launch failure in prior launch",
    "hipErrorInvalidDeviceFunction": "invalid device function",
    "hipErrorNoDevice": "no ROCm-capable device is detected",
    "hipErrorInvalidDevice": "invalid device ordinal",
    "hipErrorInvalidImage": "device kernel image is invalid",
    "hipErrorInvalidContext": "invalid device context",
    "hipErrorContextAlreadyCurrent": "context is already current context",
    "hipErrorMapFailed": "mapping of buffer object failed",
    "hipErrorUnmapFailed": "unmapping of buffer object failed",
    "hipErrorArrayIsMapped": "array is mapped",
    "hipErrorAlreadyMapped": "resource already mapped",
    "hipErrorNoBinaryForGpu": "no kernel image is available for execution on the device",
    "hipErrorAlreadyAcquired": "resource already acquired",
    "hipErrorNotMapped": "resource not mapped",
    "hipErrorNotMappedAsArray": "resource not mapped as array",
    "hipErrorNotMappedAsPointer": "resource not mapped as pointer",
    "hipErrorECCNotCorrectable": "uncorrectable ECC error encountered",
    "hipErrorUnsupportedLimit": "limit is not supported on this architecture",
    "hipErrorContextAlreadyInUse": "exclusive-thread device already in use by a different thread",
    "hipErrorPeerAccessUnsupported": "peer access is not supported between these two devices",
    "hipErrorInvalidKernelFile": "invalid kernel file",
    "hipErrorInvalidGraphicsContext": "invalid OpenGL or DirectX context",
    "hipErrorInvalidSource": "device kernel image is invalid",
    "hipErrorFileNotFound": "file not found",
    "hipErrorSharedObjectSymbolNotFound": "shared object symbol not found",
    "hipErrorSharedObjectInitFailed": "shared object initialization failed",
    "hipErrorOperatingSystem": "OS call failed or operation not supported on this OS",
    "hipErrorInvalidHandle": "invalid resource handle",
    "hipErrorIllegalState": "the operation cannot be performed in the present state",
    "hipErrorNotFound": "named symbol not found",
    "hipErrorNotReady": "device not ready",
    "hipErrorIllegalAddress": "an illegal memory access was encountered",
    "hipErrorLaunchOutOfResources": "too many resources requested for launch",
    "hipErrorLaunchTimeOut": "the launch timed out and was terminated",
    "hipErrorPeerAccessAlreadyEnabled": "peer access is already enabled",
    "hipErrorPeerAccessNotEnabled": "peer access has not been enabled",
    "hipErrorSetOnActiveProcess": "cannot set while device is active in this process",
    "hipErrorContextIsDestroyed": "context is destroyed",
    "hipErrorAssert": "device-side assert triggered",
    "hipErrorHostMemoryAlreadyRegistered": "part or all of the requested memory range is already mapped",
    "hipErrorHostMemoryNotRegistered": "pointer does not correspond to a registered memory region",
    "hipErrorLaunchFailure": "unspecified launch failure",
    "hipErrorCooperativeLaunchTooLarge": "too many blocks in cooperative launch",
    "hipErrorNotSupported": "operation not supported",
    "hipErrorStreamCaptureUnsupported": "operation not permitted when stream is capturing",
    "hipErrorStreamCaptureInvalidated": "operation failed due to a previous error during capture",
    "hipErrorStreamCaptureMerge": "operation would result in a merge of separate capture sequences",
    "hipErrorStreamCaptureUnmatched": "capture was not ended in the same stream as it began",
    "hipErrorStreamCaptureUnjoined": "capturing stream has unjoined work",
    "hipErrorStreamCaptureIsolation": "dependency created on uncaptured work in another stream",
    "hipErrorStreamCaptureImplicit": "operation would make the legacy stream depend on a capturing blocking stream",
    "hipErrorCapturedEvent": "operation not permitted on an event last recorded in a capturing stream",
    "hipErrorStreamCaptureWrongThread": "attempt to terminate a thread-local capture sequence from another thread",
    "hipErrorGraphExecUpdateFailure": "the graph update was not performed because it included changes which violated "
    "constraints specific to instantiated graph update",
    "hipErrorRuntimeMemory": "runtime memory call returned error",
    "hipErrorRuntimeOther": "runtime call other than memory returned error",
    "hipErrorUnknown": "unknown error",
}


@pytest.mark.parametrize("name", [each.name for each in E])
def test_texts_are_those_of_amd(name):
    assert ok(hip.hipGetErrorString(E[name])) == AMD.get(name, "unknown error").encode()


def test_a_number_that_is_no_error_has_a_text():
    assert ok(hip.hipGetErrorString(123456)) == b"unknown error"


def test_names(device):
    for each in hip.hipError_t:
        assert ok(hip.hipGetErrorName(each)) == each.name.encode()
        assert ok(hip.hipGetErrorString(each))
        assert ok(hip.hipDrvGetErrorName(int(each))) == each.name.encode()
        assert ok(hip.hipDrvGetErrorString(each))
        assert str(each) == f"hipError_t.{each.name}"
        assert "HIP: " + ok(hip.hipGetErrorName(each)) == f"HIP: {each.name}"  # as hip-python 10 has it
    assert ok(hip.hipGetErrorString(E.hipSuccess)) == b"no error"
    assert ok(hip.hipGetErrorName(123456)) == b"hipErrorUnknown"
    assert code(hip.hipDrvGetErrorName(123456)) == E.hipErrorInvalidValue
    assert E.hipErrorInvalidResourceHandle is E.hipErrorInvalidHandle


# What is not there


@pytest.mark.parametrize("name", ["hipNoSuchThing", "hipbogus", "HIP_NOTHING"])
def test_a_function_that_is_not_there_says_so(name):
    with pytest.raises(AttributeError, match=f"has no {name}"):
        getattr(hip, name)
    with pytest.raises(NotImplementedError):
        getattr(hip, name)
    assert not hasattr(hip, name)


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match="no attribute 'anything'"):
        hip.anything  # noqa: B018


def test_the_table():
    rows = {row.name: row for row in table(hip.__all__)}
    assert set(rows) == {name for names in CHAPTERS.values() for name in names}
    for name, row in rows.items():
        assert chapter_of(name) == row.chapter
        assert callable(getattr(hip, name))
        assert getattr(hip, name).__doc__
    assert rows["hipMalloc"].drivers == ("yes",) * len(DRIVERS)
    assert rows["hipModuleGetGlobal"].drivers[0] == "yes"
    refused = {name for subject in SUBJECTS for name, _ in subject.outputs()}
    assert {name for name, row in rows.items() if not row.there} == refused
    assert chapter_of("hipNoSuchThing") is None


def test_every_function_of_hip_is_in_the_table():
    known = {name for names in CHAPTERS.values() for name in names}
    functions = {name for name in hip.__all__ if name.startswith("hip") and callable(getattr(hip, name))
                 and not isinstance(getattr(hip, name), type)}  # fmt: skip
    assert functions - known == set()
