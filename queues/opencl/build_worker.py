"""What the process for building does for an OpenCL device; `queues/kernels/build.py` starts it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyopencl as cl

from forebay.core import errors
from forebay.core.driver import DeviceInfo
from forebay.queues.opencl.programs import Builder
from forebay.spirv.intel_cpu.runtime import intel_cpu_runtime, shown_to_loader

__all__ = ["build"]

_contexts: dict[str, tuple[Any, DeviceInfo]] = {}


def build(info: DeviceInfo, source: bytes, options: tuple[str, ...]) -> bytes:
    """The driver's binary and the parameters of its kernels, as `programs.Entry` loads them.

    Raises
    ------
    BuildError
        If the program does not build; with the driver's log.
    DeviceNotFoundError
        If this process does not find the device.

    Blocks while it compiles.
    """
    if info.name not in _contexts:
        _contexts[info.name] = _opened(info)
    return Builder(*_contexts[info.name], source, options).compiled_entry().dumps()


def _opened(info: DeviceInfo) -> tuple[Any, DeviceInfo]:
    """A context of the device that the asking process means; it is not tried out again."""
    with shown_to_loader(intel_cpu_runtime()):
        platforms = cl.get_platforms()
    found = [
        device for platform in platforms if platform.name.strip() == info.platform for device in platform.get_devices()
    ]
    same = [
        device for device in found
        if (device.name.strip(), device.driver_version.strip()) == (info.description, info.driver_version)
    ]  # fmt: skip
    if not same:
        raise errors.DeviceNotFoundError(f"the process for building does not find {info.name}")
    return cl.Context([same[0]]), dataclasses.replace(info, native=same[0])
