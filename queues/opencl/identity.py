"""What decides whether the code that a driver has compiled runs on a device."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from forebay.core.driver import DeviceInfo

__all__ = ["identity_of"]

# The fields of /proc/cpuinfo that decide which code runs on a processor, on x86 and on ARM.
DECISIVE = {"vendor_id", "cpu family", "model", "model name", "stepping", "flags",
            "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"}  # fmt: skip


def identity_of(info: DeviceInfo) -> list[str]:
    """Return the device, its driver, and the settings that this one reads, for the key of a cache."""
    native = info.native
    # Intel's CPU runtime reads settings, such as the processor to compile for, from these environment variables.
    orders = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("CL_CONFIG_")]
    return [
        info.platform, native.platform.version, info.driver_version, info.version, info.description,
        f"{native.vendor_id:x}", processor() if info.kind == "cpu" else "", str(len(orders)), *orders,
    ]  # fmt: skip


@functools.cache
def processor() -> str:
    """The facts about this machine's processor that decide which code runs on it: machines may share a cache."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return platform.processor() or platform.machine()
    return "\n".join(line for line in first.splitlines() if line.partition(":")[0].strip() in DECISIVE)
