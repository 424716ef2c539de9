"""What the folder offers: SYCL's devices, and what they adopt from dpctl.

dpctl's packages have no CPU driver. If pip installed Intel's, the search shows it to SYCL's OpenCL loader.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from forebay.core import errors
from forebay.core.driver import PROBE, AdoptedQueue, DeviceInfo, DriverDevice, DriverFolder, Found, first_line, numbered

INSTALL = f"{errors.how_to_install('sycl')} for dpctl and a driver that runs on any x86-64 CPU"
# What SYCL compiles, for each backend that compiles anything.
LANGUAGES = {"opencl": "OpenCL C or SPIR-V", "level_zero": "SPIR-V"}


class Sycl(DriverFolder):
    """See `DriverFolder`. The rest of the folder is imported late, because `import forebay` looks for no device.

    It gets all drivers, by filter word: SYCL drives devices of others, whose compilers report more.
    """

    adopts_queues = "a dpctl.SyclQueue"

    def __init__(self, drivers: Mapping[str, DriverFolder]) -> None:
        super().__init__()
        self.drivers = drivers

    def look(self) -> Found:
        """Order: Level Zero GPUs, OpenCL GPUs, Intel's CPU runtime, other CPUs, accelerators; then dpctl's order."""
        try:
            import dpctl
        except (ImportError, OSError) as error:
            if isinstance(error, ModuleNotFoundError) and error.name == "dpctl":
                return Found([], f"dpctl, which drives SYCL, is not installed: {INSTALL}")
            return Found([], f"dpctl cannot be imported ({first_line(str(error))}): {INSTALL}")
        from forebay.core.intel_cpu import INTEL_CPU, intel_cpu_runtime, shown_to_loader

        runtime = intel_cpu_runtime()
        with shown_to_loader(runtime):
            natives = dpctl.get_devices()
        devices = [describe(native) for native in natives]
        if runtime is not None and not any(device.platform == INTEL_CPU for device in devices):
            info = DeviceInfo(backend="sycl", kind="cpu", description="CPU", platform=INTEL_CPU, usable=False)
            reason = "SYCL was used in this process before forebay could show this driver to its OpenCL loader"
            advice = "call forebay.devices() before anything else uses SYCL, or put OCL_ICD_FILENAMES="
            devices.append(replace(info, reason=reason, advice=f"{advice}{runtime} into the environment"))
        if not devices:
            return Found([], f"dpctl {dpctl.__version__} finds no device: {INSTALL}")
        return Found(numbered(sorted(devices, key=_preference)), "")

    def open_device(self, info: DeviceInfo) -> DriverDevice:
        from forebay.queues.sycl.device import SyclDevice

        return SyclDevice(info, self.drivers)

    def adopt_queue(self, thing: Any, opened: Iterable[DriverDevice]) -> AdoptedQueue | None:
        dpctl = sys.modules.get("dpctl")
        if dpctl is None or not isinstance(thing, dpctl.SyclQueue):
            return None
        if not thing.is_in_order:
            raise errors.InvalidArgumentError(
                "adopt_queue: this dpctl.SyclQueue runs out of order, and forebay's rules are about queues that do "
                "not; make it with dpctl.SyclQueue(…, property='in_order')"
            )
        from forebay.queues.sycl.operations import create_queue

        device = self._device_of(thing, opened)
        return AdoptedQueue(device, create_queue(thing.addressof_ref(), True), thing.has_enable_profiling)

    def _device_of(self, queue: Any, opened: Iterable[DriverDevice]) -> DriverDevice:
        from forebay.queues.sycl.device import SyclDevice

        context, native = queue.sycl_context, queue.sycl_device
        for device in opened:  # the oldest first
            if isinstance(device, SyclDevice) and (device.context, device.native) == (context, native):
                return device
        info = next((each for each in self.discover() if each.native == native), None)
        info = info or describe(native)  # a part of a device, which no list contains
        if not info.usable:
            raise errors.NotSupportedError(f"adopt_queue: {info.description}: {info.reason}; {info.advice}")
        return SyclDevice(info, self.drivers, queue)


def describe(native: Any) -> DeviceInfo:
    """Describe a `dpctl.SyclDevice`. Its index is not known yet."""
    reason, advice = why_unusable(native)
    kind = native.device_type.name
    kind = kind if kind in ("cpu", "gpu", "accelerator") else "custom"
    return DeviceInfo(
        name=f"sycl:{kind}",
        backend="sycl",
        kind=kind,
        description=native.name.strip(),
        platform=str(native.sycl_platform.name).strip(),
        version="SYCL 2020",
        driver_version=native.driver_version.strip(),
        compute_units=native.max_compute_units,
        memory=native.global_mem_size,
        usable=not reason,
        reason=reason,
        advice=advice,
        native=native,
    )


def why_unusable(native: Any) -> tuple[str, str]:
    """Return the reason why a device cannot be used, and advice; both are empty for a usable one."""
    backend = native.backend.name
    if backend not in LANGUAGES:
        return f"SYCL takes neither OpenCL C nor SPIR-V for {backend}", "use its own driver, if forebay has that"
    if not native.has_aspect_usm_device_allocations:
        return "its driver has no unified shared memory (USM)", f"update this driver, or {INSTALL}"
    import dpctl
    from dpctl import program

    # dpctl is renaming this function.
    build = getattr(program, "create_kernel_bundle_from_source", None) or program.create_program_from_source
    try:
        queue = dpctl.SyclQueue(native, property="in_order")
        if backend == "opencl":  # no other backend takes the probe, which is OpenCL C
            build(queue, PROBE)
    except Exception as error:  # SYCL may raise anything
        return f"it cannot build a kernel: {first_line(str(error))}", f"update this driver, or {INSTALL}"
    return "", ""


def _preference(device: DeviceInfo) -> int:
    """The sort key. Equal devices stay in dpctl's order."""
    from forebay.core.intel_cpu import INTEL_CPU

    if device.kind == "gpu":
        return 0 if device.native.backend.name == "level_zero" else 1
    if device.kind == "accelerator":
        return 4
    return 2 if device.platform == INTEL_CPU else 3
