"""Converts grid and block from Python values to the drivers' geometry."""

from forebay.core.driver cimport Geometry
from forebay.queues.kernels.kernel cimport Kernel


cdef int work_out_geometry(Kernel kernel, object grid, object block) except -1


cdef inline const Geometry* read_geometry(Kernel kernel, object grid, object block) except NULL:
    """Return the geometry of a launch, cached by the identity of grid and block.

    Most launches of a kernel pass the same objects as the launch before: small ints and constant tuples. The result is
    valid only while the GIL is kept: a launch of the kernel from another thread may change it.
    """
    if grid is not kernel.last_grid or block is not kernel.last_block or grid is None or block is None:
        work_out_geometry(kernel, grid, block)
    return &kernel.geometry
