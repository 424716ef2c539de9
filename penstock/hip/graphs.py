"""Capture and graphs."""

from __future__ import annotations

from typing import Any

from penstock.hip.errors import Result
from penstock.queues.errors import NotSupportedError

__all__ = [
    "hipGraphAddDependencies",
    "hipGraphAddEmptyNode",
    "hipGraphAddHostNode",
    "hipGraphAddKernelNode",
    "hipGraphAddMemcpyNode",
    "hipGraphAddMemsetNode",
    "hipGraphCreate",
    "hipGraphDestroy",
    "hipGraphExecDestroy",
    "hipGraphExecKernelNodeSetParams",
    "hipGraphExecUpdate",
    "hipGraphGetNodes",
    "hipGraphInstantiate",
    "hipGraphLaunch",
    "hipStreamBeginCapture",
    "hipStreamEndCapture",
    "hipStreamGetCaptureInfo",
    "hipStreamIsCapturing",
]
NAMES = tuple(__all__)


def _absent(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Result:
        raise NotSupportedError(f"{name} is not there yet: this version of penstock.hip has no graphs")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raise NotSupportedError: not there yet."
    return function


for _name in NAMES:
    globals()[_name] = _absent(_name)
