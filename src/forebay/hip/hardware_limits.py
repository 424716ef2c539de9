"""Limits and caches of a device. No driver of forebay lets them be set, so what HIP may ignore is ignored."""

from __future__ import annotations

from typing import Any

from forebay.hip.devices import _on_reset, current_device, current_number
from forebay.hip.errors import HipError, api
from forebay.hip.facts import (
    hipError_t,
    hipFuncCache_t,
    hipLimit_t,
    hipSharedMemConfig,
)
from forebay.hip.memory import size_of

# HIP's own sizes at first, in bytes. Only the device's compiler knows the real ones.
LIMITS = {
    hipLimit_t.hipLimitStackSize: 1024,
    hipLimit_t.hipLimitPrintfFifoSize: 1 << 20,
    hipLimit_t.hipLimitMallocHeapSize: 8 << 20,
}
_set: dict[tuple[int, hipLimit_t], int] = {}  # by device


def _forget(number: int) -> None:
    for limit in LIMITS:
        _set.pop((number, limit), None)


_on_reset.append(_forget)


def _limit(limit: Any) -> hipLimit_t:
    try:
        known = hipLimit_t(limit)
    except ValueError:
        raise HipError(hipError_t.hipErrorUnsupportedLimit, f"no limit: {limit!r}") from None
    if known not in LIMITS:
        raise HipError(hipError_t.hipErrorUnsupportedLimit, f"no device here has {known.name}")
    return known


@api(outputs=1)
def hipDeviceGetLimit(limit: int) -> int:
    """Return ``(hipError_t, bytes)`` of a limit of the current device: what was set last, or HIP's own value.

    There are those of the stack, of printf's memory and of the kernels' heap; hipErrorUnsupportedLimit for others.
    """
    current_device()
    known = _limit(limit)
    return _set.get((current_number(), known), LIMITS[known])


@api()
def hipDeviceSetLimit(limit: int, value: int) -> None:
    """Set a limit of the current device, which changes what `hipDeviceGetLimit` returns and nothing else.

    `limit` is a hipLimit_t, and `value` bytes.

    Returns ``(hipError_t,)``. Drivers make room for the stack of a kernel and for printf by themselves.
    hipErrorNotSupported for a larger heap: each program has one of 8 MiB; hipErrorUnsupportedLimit for other limits.
    """
    current_device()
    known, nbytes = _limit(limit), size_of(value)
    if known == hipLimit_t.hipLimitMallocHeapSize and nbytes > LIMITS[known]:
        raise HipError(hipError_t.hipErrorNotSupported, "the kernels of a program have a heap of 8 MiB")
    _set[current_number(), known] = nbytes


def check_cache_config(config: Any) -> None:
    """Raise for anything but a hipFuncCache_t; hipErrorInvalidValue."""
    try:
        hipFuncCache_t(config)
    except ValueError:
        raise HipError(hipError_t.hipErrorInvalidValue, f"no configuration of the cache: {config!r}") from None


def check_bank_config(config: Any) -> None:
    """Raise for anything but a hipSharedMemConfig; hipErrorInvalidValue."""
    try:
        hipSharedMemConfig(config)
    except ValueError:
        raise HipError(hipError_t.hipErrorInvalidValue, f"no configuration of shared memory: {config!r}") from None


@api(outputs=1)
def hipDeviceGetCacheConfig() -> hipFuncCache_t:
    """Return ``(hipError_t, hipFuncCachePreferNone)``: drivers divide the cache as they like."""
    current_device()
    return hipFuncCache_t.hipFuncCachePreferNone


@api()
def hipDeviceSetCacheConfig(cacheConfig: int) -> None:
    """Accept how the cache is to be divided, and ignore it, as on AMD's devices; ``(hipError_t,)``.

    `cacheConfig` is what would be preferred.

    hipErrorInvalidValue for anything but a hipFuncCache_t.
    """
    current_device()
    check_cache_config(cacheConfig)


@api(outputs=1)
def hipDeviceGetSharedMemConfig() -> hipSharedMemConfig:
    """Return ``(hipError_t, hipSharedMemBankSizeFourByte)``, as on AMD's devices."""
    current_device()
    return hipSharedMemConfig.hipSharedMemBankSizeFourByte


@api()
def hipDeviceSetSharedMemConfig(config: int) -> None:
    """Accept how wide the banks of shared memory are to be, and ignore it, as on AMD's devices; ``(hipError_t,)``.

    `config` is the width.

    hipErrorInvalidValue for anything but a hipSharedMemConfig.
    """
    current_device()
    check_bank_config(config)
