"""What functions are like, and what may be said about them."""

from __future__ import annotations

from typing import Any

from forebay.hip.compiled.launch import Function
from forebay.hip.errors import HipError, api
from forebay.hip.facts import (
    HIP_VERSION_MAJOR,
    HIP_VERSION_MINOR,
    hipError_t,
    hipFuncAttribute,
    hipFuncAttributes,
    hipFunction_attribute,
)
from forebay.hip.hardware_limits import check_bank_config, check_cache_config
from forebay.hip.memory import size_of
from forebay.hip.modules import function_of
from forebay.queues.kernels.kernel import Kernel

Attribute = hipFunction_attribute
VERSION = 10 * HIP_VERSION_MAJOR + HIP_VERSION_MINOR


NAMES = {
    Attribute.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: "maxThreadsPerBlock",
    Attribute.HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: "sharedSizeBytes",
    Attribute.HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: "constSizeBytes",
    Attribute.HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: "localSizeBytes",
    Attribute.HIP_FUNC_ATTRIBUTE_NUM_REGS: "numRegs",
    Attribute.HIP_FUNC_ATTRIBUTE_PTX_VERSION: "ptxVersion",
    Attribute.HIP_FUNC_ATTRIBUTE_BINARY_VERSION: "binaryVersion",
    Attribute.HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA: "cacheModeCA",
    Attribute.HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: "maxDynamicSharedSizeBytes",
    Attribute.HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: "preferredShmemCarveout",
}


def kernel_of(func: Any) -> Kernel:
    """Return the kernel of a function; hipErrorInvalidDeviceFunction for anything else."""
    if func is None:
        raise HipError(hipError_t.hipErrorInvalidDeviceFunction, "the function is None")
    try:
        function: Function = function_of(func)
    except HipError as error:
        raise HipError(hipError_t.hipErrorInvalidDeviceFunction, str(error)) from error
    return function.kernel


def _attributes(kernel: Kernel) -> hipFuncAttributes:
    static = kernel.static_local_bytes
    return hipFuncAttributes(
        binaryVersion=VERSION,
        ptxVersion=VERSION,
        sharedSizeBytes=static,
        maxDynamicSharedSizeBytes=max(kernel.device.driver.limits.local_bytes - static, 0),
        maxThreadsPerBlock=kernel.max_block_size,
    )


@api(outputs=1)
def hipFuncGetAttributes(func: Any) -> hipFuncAttributes:
    """Return ``(hipError_t, hipFuncAttributes)``; hipErrorInvalidDeviceFunction for anything but a function.

    `func` is what `hipModuleGetFunction` returned.
    """
    return _attributes(kernel_of(func))


@api(outputs=1)
def hipFuncGetAttribute(attrib: int, hfunc: Any) -> int:
    """Return ``(hipError_t, value)`` of one member of `hipFuncAttributes`, which says what each is.

    `attrib` is a hipFunction_attribute, and `hfunc` what `hipModuleGetFunction` returned.

    hipErrorInvalidHandle without a function, hipErrorInvalidValue for an unknown attribute.
    """
    kernel = function_of(hfunc).kernel
    try:
        name = NAMES[Attribute(attrib)]
    except (KeyError, ValueError):
        raise HipError(hipError_t.hipErrorInvalidValue, f"a function has no attribute {attrib!r}") from None
    return int(_attributes(kernel)[name])


@api()
def hipFuncSetAttribute(func: Any, attr: int, value: int) -> None:
    """Check a hipFuncAttribute; ``(hipError_t,)``. A launch may use all the shared memory there is without it.

    `func` is what `hipModuleGetFunction` returned, `attr` the attribute, and `value` bytes or percent.

    hipErrorInvalidDeviceFunction for anything but a function; hipErrorInvalidValue for other attributes than
    MaxDynamicSharedMemorySize and PreferredSharedMemoryCarveout (a percentage, or -1), for more shared memory than a
    launch can have, and for a negative size.
    """
    kernel = kernel_of(func)
    if attr == hipFuncAttribute.hipFuncAttributeMaxDynamicSharedMemorySize:
        most = _attributes(kernel)["maxDynamicSharedSizeBytes"]
        if size_of(value) > most:
            raise HipError(hipError_t.hipErrorInvalidValue, f"{value} bytes of shared memory: there are {most}")
    elif attr == hipFuncAttribute.hipFuncAttributePreferredSharedMemoryCarveout:
        if not -1 <= value <= 100:
            raise HipError(hipError_t.hipErrorInvalidValue, f"{value} percent")
    else:
        raise HipError(hipError_t.hipErrorInvalidValue, f"the attribute {attr!r} of a function cannot be set")


@api()
def hipFuncSetCacheConfig(func: Any, config: int) -> None:
    """Accept how a function would like the cache to be divided, and ignore it, as on AMD's devices; ``(hipError_t,)``.

    `func` is what `hipModuleGetFunction` returned, and `config` what would be preferred.

    hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for anything but a hipFuncCache_t.
    """
    kernel_of(func)
    check_cache_config(config)


@api()
def hipFuncSetSharedMemConfig(func: Any, config: int) -> None:
    """Accept how wide the banks of shared memory are to be, and ignore it, as on AMD's devices; ``(hipError_t,)``.

    `func` is what `hipModuleGetFunction` returned, and `config` the width.

    hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for anything but a
    hipSharedMemConfig.
    """
    kernel_of(func)
    check_bank_config(config)
