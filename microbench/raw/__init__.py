"""The compiled C loops: for each driver a module with the same driver calls as forebay makes, and a C file."""

from __future__ import annotations

import ctypes
import importlib
import os
import shlex
import subprocess
import sysconfig
from hashlib import sha256
from pathlib import Path
from typing import Any

import forebay as ps


def library(source: Path) -> ctypes.CDLL:
    """A C file, compiled into ``build/`` when it has changed."""
    digest = sha256(source.read_bytes()).hexdigest()[:16]
    root = Path(__file__).resolve().parent.parent.parent
    target = root / "build" / "microbench" / f"{source.stem}-{digest}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
        partial = target.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(partial)], check=True)
        partial.rename(target)  # another process may be at the same
    return ctypes.CDLL(str(target))


def loops(source: Path) -> ctypes.CDLL:
    """The library of a driver's C loops."""
    loaded = library(source)
    for loop in (loaded.launches, loaded.changing_launches, loaded.uploading_launches, loaded.replays):
        loop.restype = ctypes.c_double
    return loaded


def checked(seconds: float) -> float:
    """The seconds that a loop took.

    Raises
    ------
    RuntimeError
        When one of its calls failed.
    """
    if seconds < 0:
        raise RuntimeError("a driver call of the raw loop failed")
    return seconds


def open_raw(device: ps.Device, source: str) -> Any:
    """The `Raw` of the device's driver: its loops, and what else there is to compare with."""
    module = importlib.import_module(f"microbench.raw.{device.info.backend.replace('_', '')}")
    return module.Raw(device, source)
