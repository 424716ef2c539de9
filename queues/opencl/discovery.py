"""Finds the OpenCL devices, and the reason why one of them cannot be used. Needs none of forebay's compiled modules.

It does two things that pyopencl leaves to its user. If pip installed Intel's CPU runtime, it shows that to the OpenCL
loader. And it builds a trivial kernel on each device, as some drivers list devices that they cannot compile for.

The order is: GPUs; Intel's CPU runtime, on which forebay is measured; other CPUs and custom devices; accelerators,
which on most machines means Intel's FPGA emulator. Within a group the order is the loader's. Names follow it, so
``opencl:cpu:0`` does not depend on the order of ICD files in a folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import importlib.metadata
import os
import platform as host
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from forebay.compiler.cache import BinaryCache, key_of, without_waiting
from forebay.core.driver import PROBE, DeviceInfo, Found, first_line, numbered
from forebay.core.errors import how_to_install
from forebay.core.intel_cpu import INTEL_CPU, chosen_by_user, intel_cpu_runtime, platform_of, shown_to_loader

POCL = "Portable Computing Language"
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
    is_seen = any(platform.name.strip() == INTEL_CPU for platform in platforms)
    if runtime is not None and not is_seen and not chosen_by_user():  # OpenCL was used in this process before
        with contextlib.suppress(OSError):
            platforms.append(cl.Platform.from_int_ptr(platform_of(runtime), retain=False))

    natives: list[Any] = []
    for platform in platforms:
        with contextlib.suppress(cl.Error):  # the driver's hardware may be missing
            natives += platform.get_devices()
    devices = [describe(native) for native in natives]
    if runtime is not None and not any(platform.name.strip() == INTEL_CPU for platform in platforms):
        devices.append(_missing(runtime))
    if not devices:
        chosen = chosen_by_user()
        where = f" where {chosen} says ({os.environ[chosen]})" if chosen else ""
        return Found([], f"no OpenCL driver was found{where}: {GET_CPU_RUNTIME}")
    return Found(numbered(sorted(devices, key=_preference)), "")


def describe(device: Any) -> DeviceInfo:
    """Describe a device, which may be a part of another. Its name is empty."""
    import pyopencl as cl

    bits = cl.device_type
    kinds = {"gpu": bits.GPU, "cpu": bits.CPU, "accelerator": bits.ACCELERATOR}
    kind = next((kind for kind, bit in kinds.items() if device.type & bit), "custom")
    info = DeviceInfo(
        backend="opencl",
        kind=kind,
        description=device.name.strip(),
        platform=device.platform.name.strip(),
        version=device.version.strip(),
        driver_version=device.driver_version.strip(),
        compute_units=device.max_compute_units,
        memory=device.global_mem_size,
        native=device,
    )
    reason = why_unusable(device, info=info)
    if not reason:
        return info
    return dataclasses.replace(info, usable=False, reason=reason, advice=_advice(info.platform, kind))


def why_unusable(device: Any, source: str = PROBE, info: DeviceInfo | None = None) -> str:
    """Build `source` on a `pyopencl.Device`. Return "" if that works, otherwise the reason in one line.

    With `info`, the binary is kept on disk: a driver loads it in a tenth of the time that its compiler takes to start.
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
    try:
        # Not cl.Program, which saves the source of a failed build in a file, warns about any compiler output, and may
        # use a cache, which would not test the compiler.
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
    """The sort key. Equal devices stay in the loader's order."""
    if device.kind == "gpu":
        return 0
    if device.kind == "accelerator":
        return 3
    return 1 if device.platform == INTEL_CPU else 2


def _missing(runtime: Path) -> DeviceInfo:
    """Describe Intel's runtime if its library exists but the loader did not list it."""
    chosen = chosen_by_user()
    if chosen:
        reason = f"{chosen} is set and does not name {runtime}"
        advice = f"unset {chosen}, or set it to {runtime}"
    else:
        try:
            platform_of(runtime)
            reason, advice = "the loader cannot use it", "import forebay.icd before anything else uses OpenCL"
        except OSError as error:
            reason = f"its library cannot be loaded: {first_line(str(error))}"
            advice = "pip install intel-cmplr-lib-rt, which has the libraries that intel-opencl-rt needs"
    try:
        version = importlib.metadata.version("intel-opencl-rt")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    info = DeviceInfo(backend="opencl", kind="cpu", description="CPU", platform=INTEL_CPU, driver_version=version)
    return dataclasses.replace(info, usable=False, reason=reason, advice=advice)


# -- whether a driver's compiled code runs on a device


# The fields of /proc/cpuinfo, on x86 and ARM, that decide which code runs on a processor.
DECISIVE = {"vendor_id", "cpu family", "model", "model name", "stepping", "flags",
            "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"}  # fmt: skip


def identity_of(info: DeviceInfo) -> list[str]:
    """Return the device, its driver and the driver's settings, for a cache key."""
    native = info.native
    # Intel's CPU runtime reads these settings, such as the processor to compile for.
    orders = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("CL_CONFIG_")]
    return [
        info.platform, native.platform.version, info.driver_version, info.version, info.description,
        f"{native.vendor_id:x}", processor() if info.kind == "cpu" else "", str(len(orders)), *orders,
    ]  # fmt: skip


@functools.cache
def processor() -> str:
    """The facts that decide which code this processor runs: machines may share a cache."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return host.processor() or host.machine()
    return "\n".join(line for line in first.splitlines() if line.partition(":")[0].strip() in DECISIVE)


# -- turns: PoCL's disk cache does not support concurrent builds of one program. PoCL 3.1, if another process has built
# the program meanwhile, removes the file, writes it anew and waits for the disk. A third process that has just seen the
# file reads nothing: its build fails, or an assertion ends it.

SLOTS = 64  # different programs rarely wait for each other


@contextlib.contextmanager
def turn(platform: str, source: str | bytes) -> Iterator[None]:
    """Build this source in the block. On PoCL, blocks until no other thread or process of this user builds it. If files
    cannot be locked, it does not wait.
    """
    slot = open_slot(source) if platform == POCL else None
    if slot is None:
        yield
        return
    with slot:
        with contextlib.suppress(OSError):
            fcntl.flock(slot, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(slot, fcntl.LOCK_UN)  # closing is not enough: a forked child also has the file open


def open_slot(source: str | bytes) -> IO[bytes] | None:
    """Open the lock file of this source in PoCL's cache folder; None if that fails."""
    data = source.encode(errors="replace") if isinstance(source, str) else source
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME") or "/tmp", ".cache")
    folder = Path(os.environ.get("POCL_CACHE_DIR") or os.path.join(home, "pocl", "kcache"))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(folder / f"forebay-{zlib.crc32(data) % SLOTS}.lock", "ab", opener=without_waiting)
    except OSError:
        return None
