"""Submits blocks of several dimensions as rows, for kernels that Intel's CPU runtime gives warps along x only.

See `forebay.spirv.intel_cpu.block_shapes`, which compiles the kernels for it.
"""

from libc.stdint cimport uintptr_t

from forebay.core.driver cimport Geometry

cdef size_t WARP = 32  # rows of whole warps are what they are in HIP


cdef void flatten(Geometry* geometry) noexcept nogil:
    """Submit (x, y, z) as (x * y * z, 1, 1) with the shape as the offset."""
    cdef size_t x = geometry.block[0], y = geometry.block[1], z = geometry.block[2]
    if y * z == 1 or x % WARP == 0:
        return
    geometry.local_size[0] = x * y * z
    geometry.local_size[1] = geometry.local_size[2] = 1
    geometry.offset[0], geometry.offset[1] = x, y
    # A launch of two dimensions has no offset in the third, which is 0 to the kernel.
    geometry.offset[2] = z - 1


def reshape_address() -> int:
    """The address of the `Reshape` that does it."""
    return <uintptr_t> &flatten
