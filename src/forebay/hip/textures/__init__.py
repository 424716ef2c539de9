"""Textures and surfaces. Kernels read and write them in software: an object is a descriptor in memory of the device."""

from forebay.hip.textures import driver_objects, objects, params, references
from forebay.hip.textures.driver_objects import *  # noqa: F403
from forebay.hip.textures.objects import *  # noqa: F403
from forebay.hip.textures.params import *  # noqa: F403
from forebay.hip.textures.references import *  # noqa: F403

_PARTS = (driver_objects, objects, params, references)
__all__ = sorted({name for part in _PARTS for name in part.__all__})
