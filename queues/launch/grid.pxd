"""Converts grid and block from Python values to the drivers' geometry."""

from forebay.core.driver cimport Geometry
from forebay.queues.kernels.kernel cimport Kernel


cdef object plain_extents(Kernel kernel, str what, object value)  # may run Python code; nothing below does
cdef int work_out_geometry(Kernel kernel, object grid, object block) except -1


cdef inline bint has_geometry(Kernel kernel, object grid, object block):
    """Return whether grid and block are the objects of the kernel's last launch: small ints and constant tuples mostly
    are.
    """
    return grid is kernel.last_grid and block is kernel.last_block and grid is not None and block is not None


cdef inline const Geometry* read_geometry(Kernel kernel, object grid, object block) except NULL:
    """Return the geometry of a launch. `plain_extents` has made grid and block, so that what was checked before still
    holds afterwards.

    The result is valid only while the GIL is kept: a launch of the kernel from another thread may change it.
    """
    if not has_geometry(kernel, grid, block):
        work_out_geometry(kernel, grid, block)
    return &kernel.geometry
