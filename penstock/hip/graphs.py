"""Capture and graphs: the names, which are not there yet."""

from __future__ import annotations

from typing import Any

from penstock.hip.errors import Result
from penstock.queues.errors import NotSupportedError

NAMES = tuple(
    f"hip{name}"
    for name in [
        "GraphAddDependencies",
        "GraphAddEmptyNode",
        "GraphAddHostNode",
        "GraphAddKernelNode",
        "GraphAddMemcpyNode",
        "GraphAddMemsetNode",
        "GraphCreate",
        "GraphDestroy",
        "GraphExecDestroy",
        "GraphExecKernelNodeSetParams",
        "GraphExecUpdate",
        "GraphGetNodes",
        "GraphInstantiate",
        "GraphLaunch",
        "StreamBeginCapture",
        "StreamEndCapture",
        "StreamGetCaptureInfo",
        "StreamIsCapturing",
    ]
)
__all__ = list(NAMES)


def _absent(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Result:
        raise NotSupportedError(f"{name} is not there yet: this version of penstock.hip has no graphs")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raise NotSupportedError: not there yet."
    return function


globals().update((name, _absent(name)) for name in NAMES)
