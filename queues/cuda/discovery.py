"""Finds the GPUs of CUDA's driver, and gives the reason when one of them cannot be used.

No context is made: that takes half a second and half a gigabyte for each GPU. So a device that is listed as usable may
still fail when it is opened, with the driver's own error.
"""

from __future__ import annotations

import os
from dataclasses import replace

from forebay.core.driver import DeviceInfo, Found, numbered
from forebay.core.errors import DriverError, NotSupportedError
from forebay.queues.cuda import library
from forebay.queues.cuda.library import CuNative

__all__ = ["look"]


def look() -> Found:
    """As `DriverFolder.look`."""
    chosen = library.CONNECTIONS in os.environ
    try:
        driver, count = library.start()
        devices = [_info(library.described(driver, ordinal, chosen)) for ordinal in range(count)]
    except (NotSupportedError, DriverError) as error:
        return Found([], str(error))
    if not devices:
        hidden = " (CUDA_VISIBLE_DEVICES may hide it)" if "CUDA_VISIBLE_DEVICES" in os.environ else ""
        return Found([], f"CUDA's driver is there and finds no GPU{hidden}: {library.GET_DRIVER}")
    return Found(numbered(devices), "")


def _info(native: CuNative) -> DeviceInfo:
    reason, advice = _why_unusable(native)
    info = DeviceInfo(
        name="",  # until all are known
        backend="cuda",
        kind="gpu",
        index=0,
        description=native.name,
        platform="NVIDIA CUDA",
        version=f"compute capability {native.architecture[0]}.{native.architecture[1]}",
        driver_version=f"CUDA {native.driver_version // 1000}.{native.driver_version % 1000 // 10}",
        compute_units=native.multiprocessors,
        memory=native.memory,
        native=native,
    )
    return replace(info, usable=False, reason=reason, advice=advice) if reason else info


def _why_unusable(native: CuNative) -> tuple[str, str]:
    if native.compute_mode == library.PROHIBITED:
        return "its compute mode is PROHIBITED", "nvidia-smi --compute-mode=DEFAULT, as root"
    if not native.has_pools:
        return "it has no memory pools", "it is too old for CUDA's stream-ordered memory; use OpenCL on it"
    return "", ""
