"""Grid and block, from what Python gives to what the drivers want."""

from forebay.core.driver cimport Geometry
from forebay.queues.kernels.kernel cimport Kernel


cdef int work_out_geometry(Kernel kernel, object grid, object block) except -1


cdef inline const Geometry* read_geometry(Kernel kernel, object grid, object block) except NULL:
    """Most launches of a kernel come with the very objects of the launch before: small ints and constant tuples.

    Valid while the GIL is kept: a launch of the kernel from another thread may change it.
    """
    if grid is not kernel.last_grid or block is not kernel.last_block or grid is None or block is None:
        work_out_geometry(kernel, grid, block)
    return &kernel.geometry
