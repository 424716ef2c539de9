"""From OpenCL C or SPIR-V to a module of the driver, through a disk cache of native binaries."""

from __future__ import annotations

from penstock.queues import errors, spirv
from penstock.queues.info import DeviceInfo
from penstock.queues.levelzero.objects import DeviceHandle, Module


def compiled(
    handle: DeviceHandle, info: DeviceInfo, source: str | bytes, options: tuple[str, ...]
) -> tuple[Module, dict[str, list[spirv.Declared]]]:
    """The module, and the parameters of its kernels by name.

    Raises
    ------
    BuildError, InvalidArgumentError, NotSupportedError
    """
    if isinstance(source, str):
        raise errors.NotSupportedError("OpenCL C")
    try:
        kernels = spirv.kernels_of(source)
    except ValueError as error:
        raise errors.InvalidArgumentError(
            f"program: these bytes are not SPIR-V ({error}); pass OpenCL C as str"
        ) from None
    return Module(handle, source, False, " ".join(options)), kernels
