"""The layers there are, in the order of the tables. The first is what the others are compared with."""

from __future__ import annotations

import importlib

from . import AbsentError, Ground, Layer

FLOOR, AGAIN = "C", "C again"
LAYERS = {
    FLOOR: ".c:floor",
    AGAIN: ".c:floor_again",
    "C recording": ".c:Recorded",
    "forebay bound": ".forebay:Bound",
    "forebay": ".forebay:Queues",
    "forebay step": ".forebay:Steps",
    "forebay.hip": ".hip:Hip",
    "pyopencl": ".pyopencl:PyOpenCL",
    "pyopencl call": ".pyopencl:PyOpenCLCall",
    "dpctl": ".dpctl:Dpctl",
    "CUDA C": "..raw.cuda:CudaLoop",
    "CuPy": ".cupy:CuPy",
    "cuda.core": ".cuda_core:CudaCore",
    "PyTorch": ".pytorch:PyTorch",
}
"""By name, where what makes a layer is, seen from here. It may need a package that is not installed."""
OURS = tuple(LAYERS)[: list(LAYERS).index("pyopencl")]
"""Those whose errors are errors of forebay."""


def open_layer(name: str, ground: Ground) -> Layer:
    """Make a layer.

    Raises
    ------
    AbsentError
        When it is not there.
    """
    module, maker = LAYERS[name].split(":")
    try:
        made: Layer = getattr(importlib.import_module(module, __package__), maker)(ground)
    except AbsentError:
        raise
    except ImportError as error:
        raise AbsentError(f"not installed ({error})") from error
    except Exception as error:
        if name in OURS:
            raise
        raise AbsentError(f"{type(error).__name__}: {error}") from error
    made.name, made.ours = name, name in OURS
    return made
