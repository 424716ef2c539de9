"""What is known about a device before it is used, in the same words for every driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["DeviceInfo"]


@dataclass(frozen=True)
class DeviceInfo:
    """A device that was found, whether or not it can be used.

    Attributes
    ----------
    name
        ``backend:kind:index``, for example ``"opencl:cpu:0"``: dpctl's filter words, and what `select` takes.
    backend
        The driver: ``"level_zero"``, ``"opencl"`` or ``"sycl"``.
    kind
        ``"cpu"``, ``"gpu"``, ``"accelerator"`` or ``"custom"``.
    index
        Position among the devices of this backend and kind, unusable ones included, so that names do not move when a
        driver is repaired.
    description
        The device's own name.
    platform
        The name of the driver that has it.
    version
        What the device implements, for example ``"OpenCL 3.0"`` or ``"Level Zero 1.15"``.
    driver_version
        The driver's own version.
    compute_units
        Number of compute units; 0 if not known.
    memory
        Size of its memory in bytes; 0 if not known.
    usable
        True once a kernel has been built on it.
    reason
        Why it cannot be used; empty if it can.
    advice
        What to do about it; empty if it can be used.
    native
        The driver's object (a `pyopencl.Device`, a `forebay.queues.levelzero.discovery.Native`), or None if there is
        none for a device that cannot be used.
    """

    name: str
    backend: str
    kind: str
    index: int
    description: str
    platform: str
    version: str = ""
    driver_version: str = ""
    compute_units: int = 0
    memory: int = 0
    usable: bool = True
    reason: str = ""
    advice: str = ""
    native: Any = field(default=None, repr=False, compare=False)
