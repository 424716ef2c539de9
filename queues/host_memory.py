"""Pinned host memory: the device copies to and from it without staging."""

from __future__ import annotations

import math
import weakref

import numpy as np

from penstock.queues.errors import ArgumentTypeError, InvalidArgumentError
from penstock.queues.layout import read_dtype, read_shape


class PinnedMemory:
    """One allocation, seen by NumPy through the array interface; the arrays made from it keep it alive."""

    def __init__(self, device, nbytes: int):
        self.device = device
        address, self._owner = device.driver.pinned(nbytes)  # last, because __del__ looks for it
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}

    def __del__(self) -> None:
        if hasattr(self, "_owner"):
            self.device._keep_until_done(self._owner)


def host_empty(shape, dtype="f4", device=None) -> np.ndarray:
    """A NumPy array in pinned host memory, contents unspecified.

    `Queue.copy` to and from it, or a C-contiguous part of it, is truly asynchronous and not staged: neither read nor
    write it before the copy is done. The array and its views keep the memory alive.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : numpy dtype
    device : Device, optional
        Whose driver pins it; the Device made last and not closed when not given.

    Raises
    ------
    InvalidArgumentError
        Without a device, or for elements that hold Python objects.
    OutOfMemoryError
    """
    if device is None:
        device = _latest() if _latest is not None else None
        if device is None or device.closed:
            raise InvalidArgumentError("host_empty: make a Device first, or pass device=")
    elif not hasattr(type(device), "null_queue"):
        raise ArgumentTypeError(f"host_empty: device is a Device, not {type(device).__name__}")
    device._check_open()
    dtype = read_dtype(dtype)
    extents = read_shape(shape)
    count = math.prod(extents)
    return np.asarray(PinnedMemory(device, count * dtype.itemsize)).view(dtype).reshape(extents)


_latest = None


def remember(device) -> None:
    """The Device that `host_empty` uses without being told."""
    global _latest
    _latest = weakref.ref(device)


def is_pinned(host: object, device) -> bool:
    """Whether this is an array in pinned memory of the device, or a view of one."""
    while isinstance(host, np.ndarray):
        host = host.base
    return isinstance(host, PinnedMemory) and host.device is device
