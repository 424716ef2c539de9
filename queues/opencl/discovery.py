"""Finds the OpenCL devices of this machine, and says why one that was found cannot be used.

Two things are done that pyopencl leaves to its user. Intel's runtime for CPUs, when it was installed by pip, is shown
to the OpenCL loader: the ICD file in its wheel names a path that does not exist. And a trivial kernel is built on each
device, because there are drivers that list a device and then cannot compile anything for it.

GPUs come first, then Intel's CPU runtime, which is the one forebay is measured on, then other CPUs and custom devices,
and accelerators last, because on most machines that have one it is Intel's FPGA emulator. Within each the order is the
loader's. Names follow this order, so ``opencl:cpu:0`` does not depend on how a folder of ICD files happens to be read.

This module is plain Python and needs none of forebay's compiled ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import site
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forebay.core.discovery import Discovery, Found, numbered
from forebay.core.driver import DeviceInfo

__all__ = ["absence", "discover", "intel_cpu_runtime", "shown_to_loader", "why_unusable"]

PROBE = "kernel void probe(global int *a) { a[0] = 1; }"

GET_CPU_RUNTIME = "pip install 'forebay[cpu]' for a driver that runs on any x86-64 CPU and needs no root"
POCL = "Portable Computing Language"
INTEL_CPU = "Intel(R) OpenCL"  # its GPU platform is "Intel(R) OpenCL Graphics", so compare, do not search
INTEL_LIBRARY = "intelocl.dll" if sys.platform == "win32" else "libintelocl.so"
PLATFORM_NOT_FOUND_KHR = -1001

# A folder or a file in one of these *replaces* the loader's own search: whoever sets it means exactly that.
REPLACES_SEARCH = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")
# Libraries named here are added to the search. The Khronos loader reads it; ocl-icd, bundled by pyopencl's wheels, does
# not.
ADDS_TO_SEARCH = "OCL_ICD_FILENAMES"


_environment = threading.Lock()  # held while it is not what the user left


def _look_once() -> Found:
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
        chosen = _chosen_by_user()
        where = f" where {chosen} says ({os.environ[chosen]})" if chosen else ""
        return Found([], f"no OpenCL driver was found{where}: {GET_CPU_RUNTIME}")
    return Found(numbered(sorted(devices, key=_preference)), "")


def _devices_of(cl: Any, platform: Any) -> list[Any]:
    """Return the devices of one platform; a driver whose hardware is absent says so by an error."""
    try:
        return list(platform.get_devices())
    except cl.Error:
        return []


def _describe(cl: Any, platform: Any, device: Any) -> DeviceInfo:
    bits = cl.device_type
    kinds = {"gpu": bits.GPU, "cpu": bits.CPU, "accelerator": bits.ACCELERATOR}
    kind = next((kind for kind, bit in kinds.items() if device.type & bit), "custom")
    reason = why_unusable(device)
    return DeviceInfo(
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
        usable=not reason,
        reason=reason,
        advice=_advice(platform.name.strip(), kind) if reason else "",
        native=device,
    )


def why_unusable(device: Any, source: str = PROBE) -> str:
    """Build `source` on a `pyopencl.Device`; return "" if that worked, else the reason in one line."""
    import pyopencl as cl

    try:
        if not device.available:
            return "the driver says it is not available"
        if not device.compiler_available:
            return "its driver has no compiler"
        context = cl.Context([device])
        # Not cl.Program: that one saves the source of a failed build in a file, warns of every word that a compiler
        # says, and looks into a cache, which would say nothing about the compiler.
        program = cl._cl._Program(context, source)
    except (cl.Error, RuntimeError) as error:
        return first_line(str(error))
    try:
        program._build(b"", [device])
    except (cl.Error, RuntimeError) as error:
        try:
            log = str(program.get_build_info(device, cl.program_build_info.LOG))
        except cl.Error:
            log = ""
        return f"it cannot build a kernel: {first_line(log) or first_line(str(error))}"
    return ""


def first_line(text: str) -> str:
    """Return the first line with something on it: drivers begin their logs with blank ones."""
    return next((line.strip() for line in text.splitlines() if line.strip(" \t\0")), "")


def _advice(platform: str, kind: str) -> str:
    if platform == POCL and kind == "cpu":
        return f"PoCL, above all the old one that pip installs, fails on CPUs newer than itself; {GET_CPU_RUNTIME}"
    if platform == INTEL_CPU:
        return "pip install --upgrade intel-opencl-rt intel-cmplr-lib-rt"
    if kind == "cpu":
        return f"update this driver, or {GET_CPU_RUNTIME}"
    return "update this driver"


def _preference(device: DeviceInfo) -> int:
    """The key to sort by; equals stay in the loader's order."""
    if device.kind == "gpu":
        return 0
    if device.kind == "accelerator":
        return 3
    return 1 if device.platform == INTEL_CPU else 2


_discovery = Discovery(_look_once)
discover, absence = _discovery.discover, _discovery.absence


# The loader, and the runtime it does not find


def intel_cpu_runtime() -> Path | None:
    """Return the library of Intel's OpenCL runtime for CPUs if pip installed it for this Python, else None."""
    candidates = [Path(base, folder) for base in (sys.prefix, site.getuserbase()) for folder in ("lib", "Library/bin")]
    paths = [folder / INTEL_LIBRARY for folder in candidates]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        # Elsewhere with pip --target, and where Python's prefix is not pip's.
        files = importlib.metadata.files("intel-opencl-rt") or []
        paths += [Path(file.locate()) for file in files if file.name == INTEL_LIBRARY]
    return next((path.resolve().parent / INTEL_LIBRARY for path in paths if path.exists()), None)


def _missing(runtime: Path) -> DeviceInfo:
    """Describe Intel's runtime when its library is there but the loader did not list it."""
    chosen = _chosen_by_user()
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
            advice = "import forebay and call forebay.devices() before anything else uses OpenCL"
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


def _chosen_by_user() -> str:
    """Name the environment variable by which the user chose the drivers; empty if none is set."""
    return next((name for name in REPLACES_SEARCH if os.environ.get(name)), "")


@contextlib.contextmanager
def shown_to_loader(runtime: Path | None) -> Iterator[None]:
    """Let the loader find `runtime` beside what it would find anyway, while it enumerates, which it does only once.

    The environment is put back at once, so that programs started from this one look for drivers as they always did.
    """
    if runtime is None or _chosen_by_user():
        yield
        return
    with _environment, tempfile.TemporaryDirectory(prefix="forebay-icd-") as folder, contextlib.ExitStack() as restore:
        Path(folder, "intel-cpu-from-pip.icd").write_text(f"{runtime}\n")
        for number, icd in enumerate(_system_icds()):
            # The number keeps two files of one name from different folders apart.
            Path(folder, f"{number}-{icd.name}").write_text(icd.read_text())
        already = os.environ.get(ADDS_TO_SEARCH)
        restore.callback(_set, ADDS_TO_SEARCH, already)
        _set(ADDS_TO_SEARCH, os.pathsep.join([already, str(runtime)]) if already else str(runtime))
        if sys.platform != "win32":  # there, drivers are found in the registry, and stay found
            restore.callback(_set, "OCL_ICD_VENDORS", os.environ.get("OCL_ICD_VENDORS"))
            _set("OCL_ICD_VENDORS", folder)
        yield


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _system_icds() -> Iterator[Path]:
    """Yield the ICD files that the loader would have read, but those of another copy of Intel's CPU runtime.

    pyopencl's wheel adds those of its own folder by itself. Two copies of one runtime in one process are asking for
    trouble, and the one that pip installed for this Python is the one that was asked for.
    """
    for folder in dict.fromkeys([Path("/etc/OpenCL/vendors"), Path(sys.prefix, "etc/OpenCL/vendors")]):
        for icd in sorted(folder.glob("*.icd")):
            try:
                library = first_line(icd.read_text())
            except (OSError, UnicodeDecodeError):
                continue
            broken = os.path.isabs(library) and not os.path.exists(library)
            if library and not broken and not os.path.basename(library).startswith(INTEL_LIBRARY):
                yield icd
