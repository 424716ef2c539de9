"""The floor that all are compared with: the driver's own calls in a compiled C loop, of the driver that is in use."""

from __future__ import annotations

from . import Ground, Layer
from .c import CLoop, CLoopAgain
from .cuda import CudaLoop, CudaLoopAgain


def floor(ground: Ground) -> Layer:
    """The calls that forebay has to make."""
    return CudaLoop(ground) if ground.device.info.backend == "cuda" else CLoop(ground)


def floor_again(ground: Ground) -> Layer:
    """The same once more."""
    return CudaLoopAgain(ground) if ground.device.info.backend == "cuda" else CLoopAgain(ground)
