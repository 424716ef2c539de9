"""Capture: what streams are given becomes a graph instead of running, see `forebay.Queue.capture`.

During a capture hipMemcpyAsync, hipMemsetAsync, hipLaunchHostFunc, hipModuleLaunchKernel, hipGraphLaunch and their like
become nodes, hipEventRecord and hipStreamWaitEvent dependencies. What would wait for a captured stream is refused, and
invalidates the capture.
"""

from __future__ import annotations

import ctypes
from typing import Any

from forebay.core.errors import ArgumentTypeError
from forebay.hip.errors import HipError, api
from forebay.hip.facts import hipError_t, hipStreamCaptureMode, hipStreamCaptureStatus
from forebay.hip.graphs import handle_of_graph, ihipGraph
from forebay.hip.streams import queue_of
from forebay.queues.capture_rules import captures_that_bar_null, exchange_thread_mode, thread_mode
from forebay.queues.queue import Queue

MODES = {
    hipStreamCaptureMode.hipStreamCaptureModeGlobal: "global",
    hipStreamCaptureMode.hipStreamCaptureModeThreadLocal: "thread_local",
    hipStreamCaptureMode.hipStreamCaptureModeRelaxed: "relaxed",
}
MODE_CODES = {name: mode for mode, name in MODES.items()}
KEEP = object()
STATUS = {
    "none": hipStreamCaptureStatus.hipStreamCaptureStatusNone,
    "active": hipStreamCaptureStatus.hipStreamCaptureStatusActive,
    "invalidated": hipStreamCaptureStatus.hipStreamCaptureStatusInvalidated,
}


def _mode(mode: Any) -> str:
    try:
        return MODES[hipStreamCaptureMode(mode)]
    except ValueError:
        raise HipError(hipError_t.hipErrorInvalidValue, f"no mode of capture: {mode!r}") from None


@api()
def hipStreamBeginCapture(stream: Any, mode: int = hipStreamCaptureMode.hipStreamCaptureModeGlobal) -> None:
    """Let what the stream is given become a graph, until `hipStreamEndCapture`; ``(hipError_t,)``.

    Parameters
    ----------
    mode : hipStreamCaptureMode
        Whether what might wait for a captured stream (hipMalloc, hipFree, synchronizing and querying other streams) is
        an error in every thread, in this one, or in none.

    hipErrorStreamCaptureUnsupported for the null stream, hipErrorIllegalState when it is captured already,
    hipErrorInvalidValue for another mode.
    """
    name = _mode(mode)
    queue_of(stream).begin_capture(name)


@api(outputs=1)
def hipStreamEndCapture(stream: Any) -> ihipGraph:
    """End a capture; ``(hipError_t, graph)``.

    hipErrorIllegalState when the stream is not captured, hipErrorStreamCaptureUnmatched when it is but the capture
    began on another, hipErrorStreamCaptureWrongThread in another thread than it began in, unless its mode is relaxed:
    after these the capture goes on. After hipErrorStreamCaptureInvalidated, when something was refused in it, and
    hipErrorStreamCaptureUnjoined, when it forked and does not come after all of that, it has ended without a graph.
    """
    return handle_of_graph(queue_of(stream).end_capture())


def _observed(stream: Any) -> Queue:
    """Return the stream to ask about. The null stream has no capture; asking it is an error while one concerns it."""
    queue = queue_of(stream)
    if queue.is_null and captures_that_bar_null(queue.device):
        raise HipError(hipError_t.hipErrorStreamCaptureImplicit, "a blocking stream is captured")
    return queue


@api(outputs=1)
def hipStreamIsCapturing(stream: Any) -> hipStreamCaptureStatus:
    """Return ``(hipError_t, hipStreamCaptureStatus)``.

    hipErrorStreamCaptureImplicit for the null stream while a blocking stream is captured, which goes on.
    """
    capture = _observed(stream)._capture
    return STATUS["none" if capture is None else capture.status]


@api(outputs=2)
def hipStreamGetCaptureInfo(stream: Any) -> tuple[hipStreamCaptureStatus, int]:
    """Return ``(hipError_t, hipStreamCaptureStatus, id)``; the id is 0 when the stream is not captured.

    Errors as for `hipStreamIsCapturing`.
    """
    capture = _observed(stream)._capture
    return (STATUS["none"], 0) if capture is None else (STATUS[capture.status], capture.id)


@api(outputs=4)
def hipStreamGetCaptureInfo_v2(
    stream: Any, dependencies_out: Any = None
) -> tuple[hipStreamCaptureStatus, int, ihipGraph | None, int]:
    """Return ``(hipError_t, hipStreamCaptureStatus, id, graph, count)``.

    Parameters
    ----------
    dependencies_out : list, optional
        Gets the nodes that the next command of the stream will come after; `count` is how many these are.

    The graph is None when the stream is not captured. Errors as for `hipStreamIsCapturing`.
    """
    if dependencies_out is not None and not isinstance(dependencies_out, list):
        raise ArgumentTypeError(f"dependencies_out is a list, not {type(dependencies_out).__name__}")
    queue = _observed(stream)
    capture = queue._capture
    if capture is None:
        return STATUS["none"], 0, None, 0
    graph = handle_of_graph(capture.graph)
    nodes = [graph.handle_of(node) for node in capture.dependencies(queue)]
    if dependencies_out is not None:
        dependencies_out[:] = nodes
    return STATUS[capture.status], capture.id, graph, len(nodes)


@api(outputs=1)
def hipThreadExchangeStreamCaptureMode(mode: object = KEEP) -> hipStreamCaptureMode:
    """Set how careful this thread has to be while streams are captured; ``(hipError_t, mode)`` before.

    Parameters
    ----------
    mode : hipStreamCaptureMode, or ctypes integer
        Global, at first: what might wait for a captured stream is an error while any thread has a global capture under
        way. Thread-local: only while this thread has one that is not relaxed. Relaxed: never. A ctypes integer gets the
        mode of before, as in HIP. hip-python's own function takes none; then nothing changes.

    hipErrorInvalidValue for another mode, and for None.
    """
    if mode is KEEP:
        return MODE_CODES[thread_mode()]
    given = mode.value if isinstance(mode, ctypes._SimpleCData) else mode
    before = MODE_CODES[exchange_thread_mode(_mode(given))]
    if isinstance(mode, ctypes._SimpleCData):
        mode.value = int(before)
    return before
