"""Checks of the repository. Each module has `findings()`, which yields what is wrong, one line each."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DRIVERS = ("queues/opencl", "queues/levelzero", "queues/sycl", "queues/cuda")
FOLDERS = ("core", "sync", "lifetimes", "events", "races", "queues")


def cython_sources(*more):
    """Return the .pyx and .pxd files of the engine, and of these folders."""
    return sorted(path for folder in (*FOLDERS, *more) for path in (ROOT / folder).rglob("*.p[yx][xd]"))
