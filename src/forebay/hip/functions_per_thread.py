"""The functions whose null stream is the thread's own, `hipStreamPerThread`: those that end in ``_spt``.

C's compiler option -fgpu-default-stream=per-thread puts them in the place of the others.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from forebay.hip.compiled.handles import is_null
from forebay.hip.errors import OK, Result
from forebay.hip.streams import hipStreamPerThread, hipStreamSynchronize

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


def _named(made: Callable[..., Result], name: str, blocks: str) -> Callable[..., Result]:
    given = ", ".join(f"`{each}`" for each in inspect.signature(made).parameters)
    made.__doc__ = f"""Do what `{name}` does, with `hipStreamPerThread` for the null stream.{blocks}

    {given} and the codes as there."""
    made.__name__ = made.__qualname__ = f"{name}_spt"
    return made


def per_thread(functions: Mapping[str, Callable[..., Result]]) -> dict[str, Callable[..., Result]]:
    """Return these functions by name, made from those of HIP."""
    with_stream = [f"hip{name}" for name in _WITH_STREAM.split()]
    blocking = [f"hip{name}" for name in _BLOCKING.split()]
    made = {name: _named(_with_stream(functions[name]), name, "") for name in with_stream}
    for name in blocking:
        does = _blocking(functions[name], functions[f"{name}Async"])
        made[name] = _named(does, name, " Blocks until it is done.")
    return {f"{name}_spt": function for name, function in made.items()}
