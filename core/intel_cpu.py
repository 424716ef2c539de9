"""Finds Intel's OpenCL runtime for CPUs where pip installed it, and shows it to the OpenCL loader.

The ICD file in the wheel names a path that does not exist, so loaders do not find the runtime by themselves.

This module is plain Python and needs none of forebay's compiled modules.
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

__all__ = ["INTEL_CPU", "chosen_by_user", "intel_cpu_runtime", "platform_of", "shown_to_loader"]

INTEL_CPU = "Intel(R) OpenCL"  # its GPU platform is "Intel(R) OpenCL Graphics", so compare, do not search
INTEL_LIBRARY = "intelocl.dll" if sys.platform == "win32" else "libintelocl.so"
# A folder or a file in one of these *replaces* the loader's own search. If a user sets one, forebay adds nothing.
REPLACES_SEARCH = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")
# Libraries named here are added to the search. The Khronos loader reads this variable; ocl-icd, which pyopencl's wheels
# contain, does not.
ADDS_TO_SEARCH = "OCL_ICD_FILENAMES"

_environment = threading.Lock()  # held while the environment differs from the user's


def intel_cpu_runtime() -> Path | None:
    """Return the library of Intel's OpenCL runtime for CPUs if pip installed it for this Python, else None."""
    candidates = [Path(base, folder) for base in (sys.prefix, site.getuserbase()) for folder in ("lib", "Library/bin")]
    paths = [folder / INTEL_LIBRARY for folder in candidates]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        # Elsewhere with pip --target, and where Python's prefix is not pip's.
        files = importlib.metadata.files("intel-opencl-rt") or []
        paths += [Path(file.locate()) for file in files if file.name == INTEL_LIBRARY]
    return next((path.resolve().parent / INTEL_LIBRARY for path in paths if path.exists()), None)


def chosen_by_user() -> str:
    """Name the environment variable by which the user chose the drivers; empty if none is set."""
    return next((name for name in REPLACES_SEARCH if os.environ.get(name)), "")


@contextlib.contextmanager
def shown_to_loader(runtime: Path | None) -> Iterator[None]:
    """Let the loader find `runtime` as well as its other drivers. The loader enumerates drivers only once.

    The environment is restored at once, so that child processes look for drivers as usual.
    """
    if runtime is None or chosen_by_user():
        yield
        return
    with _environment, tempfile.TemporaryDirectory(prefix="forebay-icd-") as folder, contextlib.ExitStack() as restore:
        Path(folder, "intel-cpu-from-pip.icd").write_text(f"{runtime}\n")
        for number, icd in enumerate(_system_icds()):
            # The number separates files of the same name from different folders.
            Path(folder, f"{number}-{icd.name}").write_text(icd.read_text())
        already = os.environ.get(ADDS_TO_SEARCH)
        restore.callback(_set, ADDS_TO_SEARCH, already)
        _set(ADDS_TO_SEARCH, os.pathsep.join([already, str(runtime)]) if already else str(runtime))
        if sys.platform != "win32":  # on Windows the loader always finds the drivers in the registry
            restore.callback(_set, "OCL_ICD_VENDORS", os.environ.get("OCL_ICD_VENDORS"))
            _set("OCL_ICD_VENDORS", folder)
        yield


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _system_icds() -> Iterator[Path]:
    """Yield the ICD files that the loader would have read, except those of another copy of Intel's CPU runtime.

    pyopencl's wheel itself adds the files of its own folder. Two copies of one runtime in one process are dangerous,
    and the copy that pip installed for this Python is the one the user wants.
    """
    for folder in dict.fromkeys([Path("/etc/OpenCL/vendors"), Path(sys.prefix, "etc/OpenCL/vendors")]):
        for icd in sorted(folder.glob("*.icd")):
            try:
                library = "".join(icd.read_text().strip().splitlines()[:1]).strip()
            except (OSError, UnicodeDecodeError):
                continue
            broken = os.path.isabs(library) and not os.path.exists(library)
            if library and not broken and not os.path.basename(library).startswith(INTEL_LIBRARY):
                yield icd


def platform_of(runtime: Path) -> int:
    """Return the runtime's cl_platform_id, which its library itself gives as it does to a loader.

    For a loader that has looked for drivers before: it calls the driver of any object that it is given.

    Raises
    ------
    OSError
        When the library cannot be loaded, or is no OpenCL driver.
    """
    library, platform = ctypes.CDLL(str(runtime)), ctypes.c_void_p()
    try:
        find = library.clGetExtensionFunctionAddress
    except AttributeError as error:
        raise OSError(str(error)) from None
    find.restype, find.argtypes = ctypes.c_void_p, (ctypes.c_char_p,)
    address = find(b"clIcdGetPlatformIDsKHR")
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)
    if not address or prototype(address)(1, ctypes.byref(platform), None) or not platform.value:
        raise OSError(f"{runtime} has no platform")
    return platform.value
