"""The functions whose null stream is the thread's own, `hipStreamPerThread`: those that end in ``_spt``.

C's compiler option -fgpu-default-stream=per-thread puts them in the place of the others.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from forebay.hip import callbacks, capture, events, graphs, streams, transfers
from forebay.hip.compiled.handles import is_null
from forebay.hip.errors import OK, Result
from forebay.hip.functions import launches
from forebay.hip.streams import hipStreamPerThread, hipStreamSynchronize

__all__: list[str] = []

_PARTS = (callbacks, capture, events, graphs, launches, streams, transfers)
# With a stream as one of their parameters.
_WITH_STREAM = """
    EventRecord GraphLaunch LaunchCooperativeKernel LaunchHostFunc LaunchKernel Memcpy2DAsync Memcpy2DFromArrayAsync
    Memcpy2DToArrayAsync Memcpy3DAsync
    MemcpyAsync MemcpyFromSymbolAsync MemcpyToSymbolAsync Memset2DAsync Memset3DAsync MemsetAsync StreamAddCallback
    StreamBeginCapture StreamEndCapture StreamGetCaptureInfo StreamGetCaptureInfo_v2 StreamGetFlags StreamGetPriority
    StreamIsCapturing StreamQuery StreamSynchronize StreamWaitEvent
"""
# They block: each does what its Async variant does, and waits.
_BLOCKING = """
    Memcpy Memcpy2D Memcpy2DFromArray Memcpy2DToArray Memcpy3D MemcpyFromSymbol MemcpyToSymbol Memset Memset2D Memset3D
"""


def _find(name: str) -> Callable[..., Result]:
    function: Callable[..., Result] = next(getattr(part, name) for part in _PARTS if name in part.__all__)
    return function


def _with_stream(function: Callable[..., Result]) -> Callable[..., Result]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Result:
        bound = signature.bind(*args, **kwargs)
        if is_null(bound.arguments.get("stream")):
            bound.arguments["stream"] = hipStreamPerThread
        return function(*bound.args, **bound.kwargs)

    return call


def _blocking(function: Callable[..., Result], does: Callable[..., Result]) -> Callable[..., Result]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Result:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        result = does(*bound.args, stream=hipStreamPerThread)
        return hipStreamSynchronize(hipStreamPerThread) if result[0] == OK else result

    return call


def _add(name: str, base: str, made: Callable[..., Result], blocks: str) -> None:
    made.__name__ = made.__qualname__ = name
    given = ", ".join(f"`{each}`" for each in inspect.signature(made).parameters)
    made.__doc__ = f"""Do what `{base}` does, with `hipStreamPerThread` for the null stream.{blocks}

    {given} and the codes as there."""
    globals()[name] = made
    __all__.append(name)


for _name in _WITH_STREAM.split():
    _add(f"hip{_name}_spt", f"hip{_name}", _with_stream(_find(f"hip{_name}")), "")
for _name in _BLOCKING.split():
    _add(
        f"hip{_name}_spt",
        f"hip{_name}",
        _blocking(_find(f"hip{_name}"), _find(f"hip{_name}Async")),
        " Blocks until it is done.",
    )
