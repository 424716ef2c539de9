"""Pinned host memory: the device copies to and from it without staging."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from forebay.core.driver import AnyDevice
from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.queues.memory.allocation import PinnedMemory
from forebay.queues.memory.shapes import ShapeLike, read_dtype, read_shape

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from forebay.queues.device import Device


def host_empty(
    shape: ShapeLike, dtype: DTypeLike = "f4", device: Device | None = None
) -> np.ndarray[Any, np.dtype[Any]]:
    """Make a NumPy array in pinned host memory, with unspecified contents.

    `Queue.copy` to and from it, or a C-contiguous part of it, is truly asynchronous and not staged: do not read or
    write it before the copy is done. The array and its views keep the memory alive.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : numpy dtype
    device : Device, optional
        The device whose driver pins the memory; by default the Device made last that is not closed.

    Raises
    ------
    InvalidArgumentError
        Without a device, or for elements that hold Python objects.
    ArgumentTypeError
    OutOfMemoryError
    """
    if device is None:
        device = _latest()
    elif not isinstance(device, AnyDevice):
        raise ArgumentTypeError(f"host_empty: device is a Device, not {type(device).__name__}")
    device._check_open()
    element = read_dtype(dtype)
    extents = read_shape(shape)
    pinned = np.asarray(PinnedMemory(device, math.prod(extents) * element.itemsize))
    return pinned.view(element).reshape(extents)


_made: list[weakref.ref[Device]] = []


def remember(device: Device) -> None:
    """Remember a device that `host_empty` may use by default."""
    _made[:] = [other for other in _made if (known := other()) is not None and not known.closed]
    _made.append(weakref.ref(device))


def _latest() -> Device:
    for made in reversed(_made):
        device = made()
        if device is not None and not device.closed:
            return device
    raise InvalidArgumentError("host_empty: make a Device first, or pass device=")
