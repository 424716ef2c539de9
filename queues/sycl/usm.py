"""Shares memory with dpctl and dpnp: adopts their memory, and describes forebay's memory to them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from forebay.core import errors
from forebay.core.driver import Adopted
from forebay.queues.sycl.operations import AdoptedMemory, ContextHandle

INTERFACE = "__sycl_usm_array_interface__"


class SyclUsm:
    """Memory of one SYCL context.

    Parameters
    ----------
    context
        The context that the memory belongs to.
    queue : dpctl.SyclQueue
        A queue of this context. `interface` names it to users of forebay's memory.
    name
        The device's name, for messages.
    """

    def __init__(self, context: ContextHandle, queue: Any, name: str) -> None:
        self._context = context
        self._queue = queue
        self._name = name

    def adopt_memory(self, thing: object) -> Adopted | None:
        """As `DriverDevice.adopt_memory`."""
        interface = getattr(thing, INTERFACE, None)
        if not isinstance(interface, dict):
            return None
        try:
            address, read_only = interface["data"]
            shape = tuple(int(extent) for extent in interface["shape"])
            dtype = np.dtype(interface["typestr"])
            strides = interface.get("strides")
            address = int(address or 0) + int(interface.get("offset", 0)) * dtype.itemsize
        except (KeyError, TypeError, ValueError) as error:
            raise errors.ArgumentTypeError(
                f"as_buffer: the {INTERFACE} of this {type(thing).__name__} is not one ({error})"
            ) from None
        # dpctl's own memory objects claim to be read-only although they can be written (0.21, 0.22).
        if read_only and not isinstance(thing, _memory_classes()):
            raise errors.InvalidArgumentError(f"as_buffer: this {type(thing).__name__} is read-only")
        if strides is not None and not _are_contiguous(shape, tuple(strides)):
            raise errors.InvalidArgumentError(
                f"as_buffer: this {type(thing).__name__} is not C-contiguous (shape {shape}, strides {tuple(strides)})"
            )
        nbytes = math.prod(shape) * dtype.itemsize
        usm_type = self._context.usm_type_at(address) if nbytes else "device"
        if not usm_type:
            raise errors.InvalidArgumentError(
                f"as_buffer: the memory of this {type(thing).__name__} belongs to another SYCL context than "
                f"{self._name}'s"
            )
        return Adopted(AdoptedMemory(thing, address, nbytes, usm_type), shape, dtype)

    def interface(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, Any]:
        """What forebay's memory has as ``__sycl_usm_array_interface__``."""
        return {
            "data": (address, False),
            "shape": shape,
            "strides": None,
            "typestr": dtype.str,
            "version": 1,
            "syclobj": self._queue,
        }


def _memory_classes() -> tuple[type, ...]:
    from dpctl import memory

    return memory.MemoryUSMDevice, memory.MemoryUSMHost, memory.MemoryUSMShared


def _are_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether strides, counted in elements, are those of C-contiguous memory."""
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 0:
            return True
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True
