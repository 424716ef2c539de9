"""The layers there are, in the order of the tables. The first is what the others are compared with."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from . import AbsentError, Ground, Layer


class LayerClass(NamedTuple):
    """A layer that may not be there: its module needs a package that may not be installed.

    Attributes
    ----------
    name, module, class_name : str
    ours : bool
        Whether an error of it is one of forebay.
    """

    name: str
    module: str
    class_name: str
    ours: bool = False

    def open(self, ground: Ground) -> Layer:
        """Make the layer.

        Raises
        ------
        AbsentError
            When it is not there.
        """
        try:
            made: Layer = getattr(importlib.import_module(f".{self.module}", __package__), self.class_name)(ground)
        except AbsentError:
            raise
        except ImportError as error:
            raise AbsentError(f"not installed ({error})") from error
        except Exception as error:
            if self.ours:
                raise
            raise AbsentError(f"{type(error).__name__}: {error}") from error
        made.name, made.ours = self.name, self.ours
        return made


FLOOR, AGAIN = "C", "C again"
LAYERS = (
    LayerClass(FLOOR, "floor", "floor", ours=True),
    LayerClass(AGAIN, "floor", "floor_again", ours=True),
    LayerClass("C recording", "c", "Recorded", ours=True),
    LayerClass("forebay bound", "forebay", "Bound", ours=True),
    LayerClass("forebay", "forebay", "Queues", ours=True),
    LayerClass("forebay step", "forebay", "Steps", ours=True),
    LayerClass("forebay.hip", "hip", "Hip", ours=True),
    LayerClass("pyopencl", "pyopencl", "PyOpenCL"),
    LayerClass("pyopencl call", "pyopencl", "PyOpenCLCall"),
    LayerClass("dpctl", "dpctl", "Dpctl"),
    LayerClass("CUDA C", "cuda", "CudaLoop"),
    LayerClass("CuPy", "cupy", "CuPy"),
    LayerClass("cuda.core", "cuda_core", "CudaCore"),
    LayerClass("PyTorch", "pytorch", "PyTorch"),
)
