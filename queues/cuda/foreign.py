"""Streams and memory of other packages of CUDA, by the protocols that they have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.core.errors import InvalidArgumentError

__all__ = ["INTERFACE", "described_memory", "stream_of"]

INTERFACE = "__cuda_array_interface__"


def stream_of(thing: Any) -> int | None:
    """Return the driver's handle of a stream of CUDA; None for what is none.

    Known are ``__cuda_stream__`` (cuda.core, CuPy 14 and newer), ``cuda_stream`` (PyTorch), and ``ptr`` and ``handle``
    of the streams of CuPy and numba.
    """
    protocol = getattr(type(thing), "__cuda_stream__", None)
    if protocol is not None:
        described = protocol(thing) if callable(protocol) else thing.__cuda_stream__
        return int(described[1])
    package = type(thing).__module__.partition(".")[0]
    name = {"torch": "cuda_stream", "cupy": "ptr", "numba": "handle"}.get(package)
    if name is None or "Stream" not in type(thing).__name__ or not hasattr(thing, name):
        return None
    handle = getattr(thing, name)
    return int(getattr(handle, "value", handle) or 0)


def described_memory(thing: Any) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
    """Return where the memory of an array of CUDA begins, its shape and its dtype; None for what is none.

    Raises
    ------
    InvalidArgumentError
        When it is read-only, masked or not C-contiguous.
    """
    described = getattr(thing, INTERFACE, None)
    if not isinstance(described, dict):
        return None
    shape, dtype = tuple(described["shape"]), np.dtype(described["typestr"])
    if described.get("descr") and dtype.kind == "V":
        dtype = np.dtype(described["descr"])
    address, read_only = described["data"]
    if read_only:
        raise InvalidArgumentError(f"adopt: this {type(thing).__name__} is read-only")
    if described.get("mask") is not None:
        raise InvalidArgumentError(f"adopt: this {type(thing).__name__} has a mask")
    strides = described.get("strides")
    if strides is not None and 0 not in shape and tuple(strides) != _contiguous(shape, dtype.itemsize):
        raise InvalidArgumentError(f"adopt: this {type(thing).__name__} is not C-contiguous")
    return int(address or 0), shape, dtype


def _contiguous(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    for size in reversed(shape):
        strides.append(itemsize)
        itemsize *= size
    return tuple(reversed(strides))
