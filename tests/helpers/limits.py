"""The limits of a device, in the same terms for every driver."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Bytes of one allocation and of local memory, work-items of a group in one dimension, and optional features."""

    allocation: int
    local_memory: int
    block_axis: int
    doubles: bool
    halves: bool
    images: bool
    long_atomics: bool
    spirv: bool


def most_held(device):
    """How many queues a test may hold or let wait while others have to get on: see `DriverDevice.most_held`."""
    most = device.driver.most_held
    return 1 << 16 if most is None else most


def limits(info):
    native = info.native
    if info.backend == "level_zero":
        sizes = native.limits.allocation, native.limits.local_bytes, native.limits.group_size[0]
        # the compiler refuses images for the product of `null_levelzero`
        return Limits(*sizes, doubles=True, halves=True, images=False, long_atomics=True, spirv=True)
    if info.backend == "sycl":
        return Limits(
            native.max_mem_alloc_size,
            native.local_mem_size,
            native.max_work_item_sizes3d[-1],  # the last dimension of a SYCL range is the first here
            native.has_aspect_fp64,
            native.has_aspect_fp16,
            native.has_aspect_image,
            native.has_aspect_atomic64,
            True,
        )
    if info.backend == "cuda":
        sizes = native.limits.allocation, native.limits.local_bytes, native.limits.group_size[0]
        return Limits(*sizes, doubles=True, halves=True, images=False, long_atomics=True, spirv=False)
    extensions = native.extensions.split()
    return Limits(
        native.max_mem_alloc_size,
        native.local_mem_size,
        native.max_work_item_sizes[0],
        "cl_khr_fp64" in extensions,
        "cl_khr_fp16" in extensions,
        bool(native.image_support),
        "cl_khr_int64_base_atomics" in extensions,
        bool("cl_khr_il_program" in extensions or native.il_version),
    )
