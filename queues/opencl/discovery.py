"""Finds the OpenCL devices of this machine, and gives the reason when one of them cannot be used.

This module does two things that pyopencl leaves to its user. If pip installed Intel's runtime for CPUs, it makes that
runtime visible to the OpenCL loader. And it builds a trivial kernel on each device, because some drivers list a device
for which they cannot compile anything.

The order is: GPUs; Intel's CPU runtime, on which forebay is measured; other CPUs and custom devices; accelerators,
because on most machines the accelerator is Intel's FPGA emulator. Within each group the order is the loader's. Names
follow this order, so ``opencl:cpu:0`` does not depend on the order in which the ICD files of a folder are read.

This module is plain Python and needs none of forebay's compiled modules.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import importlib.metadata
import os
from pathlib import Path
from typing import Any

from forebay.core.driver import PROBE, DeviceInfo, Found, first_line, numbered
from forebay.core.errors import how_to_install
from forebay.queues.kernels.cache import BinaryCache, key_of
from forebay.queues.opencl.identity import identity_of
from forebay.queues.opencl.turns import POCL, turn
from forebay.spirv.intel_cpu.runtime import INTEL_CPU, chosen_by_user, intel_cpu_runtime, shown_to_loader

__all__ = ["describe", "look", "why_unusable"]

GET_CPU_RUNTIME = f"{how_to_install('cpu')} for a driver that runs on any x86-64 CPU and needs no root"
PLATFORM_NOT_FOUND_KHR = -1001


def look() -> Found:
    """As `DriverFolder.look`."""
    try:
        import pyopencl as cl
    except ImportError as error:
        return Found([], f"pyopencl cannot be imported ({error}): pip install --upgrade pyopencl")

    runtime = intel_cpu_runtime()
    try:
        with shown_to_loader(runtime):
            platforms = cl.get_platforms()
    except cl.Error as error:
        if getattr(error, "code", None) != PLATFORM_NOT_FOUND_KHR:
            return Found([], f"the OpenCL loader failed: {first_line(str(error))}")
        platforms = []

    devices = [_describe(cl, platform, device) for platform in platforms for device in _devices_of(cl, platform)]
    if runtime is not None and not any(platform.name.strip() == INTEL_CPU for platform in platforms):
        devices.append(_missing(runtime))
    if not devices:
        chosen = chosen_by_user()
        where = f" where {chosen} says ({os.environ[chosen]})" if chosen else ""
        return Found([], f"no OpenCL driver was found{where}: {GET_CPU_RUNTIME}")
    return Found(numbered(sorted(devices, key=_preference)), "")


def _devices_of(cl: Any, platform: Any) -> list[Any]:
    """Return the devices of one platform. A driver without its hardware raises an error, which counts as none."""
    try:
        return list(platform.get_devices())
    except cl.Error:
        return []


def _describe(cl: Any, platform: Any, device: Any) -> DeviceInfo:
    bits = cl.device_type
    kinds = {"gpu": bits.GPU, "cpu": bits.CPU, "accelerator": bits.ACCELERATOR}
    kind = next((kind for kind, bit in kinds.items() if device.type & bit), "custom")
    info = DeviceInfo(
        name="",  # until all are known
        backend="opencl",
        kind=kind,
        index=0,
        description=device.name.strip(),
        platform=platform.name.strip(),
        version=device.version.strip(),
        driver_version=device.driver_version.strip(),
        compute_units=device.max_compute_units,
        memory=device.global_mem_size,
        usable=True,
        reason="",
        advice="",
        native=device,
    )
    reason = why_unusable(device, info=info)
    if not reason:
        return info
    return dataclasses.replace(info, usable=False, reason=reason, advice=_advice(info.platform, kind))


def describe(device: Any) -> DeviceInfo:
    """Describe a device that `discover` does not list, such as a part of another. Its name is empty."""
    import pyopencl as cl

    return _describe(cl, device.platform, device)


def why_unusable(device: Any, source: str = PROBE, info: DeviceInfo | None = None) -> str:
    """Build `source` on a `pyopencl.Device`. Return "" if that works, otherwise the reason in one line.

    With `info`, what it built is kept on disk: loading that takes a driver a tenth of what its compiler takes to start.
    """
    import pyopencl as cl

    try:
        if not device.available:
            return "the driver says it is not available"
        if not device.compiler_available:
            return "its driver has no compiler"
        context = cl.Context([device])
    except (cl.Error, RuntimeError) as error:
        return first_line(str(error))
    cache, key = BinaryCache(), key_of("probe", *identity_of(info), source) if info else None
    binary = cache.get(key) if key else None
    with turn(device.platform.name.strip(), source):
        if binary and not _build(cl, device, context, [device], [binary])[1]:
            return ""
        program, reason = _build(cl, device, context, source)
    if key and not reason:
        with contextlib.suppress(cl.Error):
            cache.put(key, program.get_info(cl.program_info.BINARIES)[0])
    return reason


def _build(cl: Any, device: Any, context: Any, *made_of: Any) -> tuple[Any, str]:
    """Return the program, and why it does not build."""
    try:
        # Not cl.Program: it saves the source of a failed build in a file, warns about any compiler output, and may
        # take the result from a cache, which would not test the compiler.
        program = cl._cl._Program(context, *made_of)
    except (cl.Error, RuntimeError) as error:
        return None, first_line(str(error))
    try:
        program._build(b"", [device])
    except (cl.Error, RuntimeError) as error:
        try:
            log = str(program.get_build_info(device, cl.program_build_info.LOG))
        except cl.Error:
            log = ""
        return program, f"it cannot build a kernel: {first_line(log) or first_line(str(error))}"
    return program, ""


def _advice(platform: str, kind: str) -> str:
    if platform == POCL and kind == "cpu":
        return f"PoCL, above all the old one that pip installs, fails on CPUs newer than itself; {GET_CPU_RUNTIME}"
    if platform == INTEL_CPU:
        return "pip install --upgrade intel-opencl-rt intel-cmplr-lib-rt"
    if kind == "cpu":
        return f"update this driver, or {GET_CPU_RUNTIME}"
    return "update this driver"


def _preference(device: DeviceInfo) -> int:
    """The sort key. Devices with the same key stay in the loader's order."""
    if device.kind == "gpu":
        return 0
    if device.kind == "accelerator":
        return 3
    return 1 if device.platform == INTEL_CPU else 2


def _missing(runtime: Path) -> DeviceInfo:
    """Describe Intel's runtime when its library is there but the loader did not list it."""
    chosen = chosen_by_user()
    if chosen:
        reason = f"{chosen} is set and does not name {runtime}"
        advice = f"unset {chosen}, or set it to {runtime}"
    else:
        try:
            ctypes.CDLL(str(runtime))
        except OSError as error:
            reason = f"its library cannot be loaded: {first_line(str(error))}"
            advice = "pip install intel-cmplr-lib-rt, which has the libraries that intel-opencl-rt needs"
        else:
            reason = "OpenCL was used in this process before forebay could show this driver to the loader"
            advice = "import forebay.icd before anything else uses OpenCL"
    try:
        version = importlib.metadata.version("intel-opencl-rt")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    return DeviceInfo(
        name="",
        backend="opencl",
        kind="cpu",
        index=0,
        description="CPU",
        platform=INTEL_CPU,
        driver_version=version,
        usable=False,
        reason=reason,
        advice=advice,
    )
