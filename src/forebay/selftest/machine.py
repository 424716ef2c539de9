"""What is known of this machine, for a file that goes to an issue: no names of hosts, people or folders."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

PACKAGES = (
    "forebay", "numpy", "pyopencl", "dpctl", "intel-opencl-rt", "intel-cmplr-lib-rt", "nvidia-cuda-nvrtc", "ziglang",
)  # fmt: skip
VARIABLES = re.compile(r"(FOREBAY|ZE|ZES|ZEL|NEO|OCL|OPENCL|CL|SYCL|ONEAPI|UR|IGC|CUDA|POCL|TBB)_|NEO[A-Z]|Set[A-Z]")
"""Environment variables that drivers and forebay look at."""
LIBRARIES = re.compile(r"libze_|libigc|libigd|libocloc|OpenCL|libintelocl|libcuda|nvidia|libpocl|libsycl|libur_|amdocl")


def processor() -> str:
    """The processor's name."""
    try:
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def system() -> dict[str, object]:
    """The machine and its system."""
    try:
        distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        distribution = ""
    return {
        "processor": processor(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "distribution": distribution,
    }


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """The versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def libraries() -> list[str]:
    """The names of the drivers' libraries that this process has loaded; most have a version in it."""
    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    names = {line.rpartition("/")[2] for line in mapped.splitlines() if "/" in line and ".so" in line}
    return sorted(name for name in names if LIBRARIES.search(name))


def environment() -> dict[str, str]:
    """The variables that drivers look at, without the name of the home folder."""
    home = os.path.expanduser("~")
    return {
        name: value.replace(home, "~") if len(home) > 1 else value
        for name, value in sorted(os.environ.items())
        if VARIABLES.match(name)
    }
