"""Converts grid and block from Python values to the drivers' geometry."""

import numpy as np
from cpython.long cimport PyLong_AsSsize_t
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint32_t

from forebay.core.driver cimport Geometry
from forebay.queues.kernels.kernel cimport Kernel

from forebay.core.errors import InvalidArgumentError
from forebay.queues.memory.shapes import read_int, shortened

cdef extern from "Python.h":
    bint PyLong_CheckExact(object)

UNITS: str = "; grid counts groups, as in HIP, and block the work-items of each"
cdef size_t MOST_GROUPS = 0xFFFFFFFF  # as in HIP, where they are of type uint32_t


cdef Py_ssize_t extent(Kernel kernel, str what, object value) except -1:
    cdef Py_ssize_t number
    if not PyLong_CheckExact(value):
        value = read_int(
            value, f"kernel {kernel.name!r}: {what} is an int or a tuple of 1 to 3 ints", way_out(value))
    try:
        number = PyLong_AsSsize_t(value)
    except OverflowError:
        raise InvalidArgumentError(
            f"kernel {kernel.name!r}: {what} of {shortened(value)} is too large{UNITS}") from None
    if number < 1:
        raise InvalidArgumentError(f"kernel {kernel.name!r}: {what} of {value}: at least 1 is needed{UNITS}")
    return number


cdef str way_out(object value):
    """Return what to write instead, for the end of a message."""
    if isinstance(value, (float, np.floating)):
        return f" ({value:.8g}): n // block is an int, and -(-n // block) rounds up"
    return ": tuple(…) makes one of it" if isinstance(value, (list, np.ndarray)) else ""


cdef int extents(Kernel kernel, str what, object value, size_t* into) except -1:
    """Fill three sizes from an int or a tuple, and return how many were given."""
    cdef Py_ssize_t i, count
    into[1] = into[2] = 1
    if type(value) is not tuple:
        into[0] = extent(kernel, what, value)
        return 1
    count = PyTuple_GET_SIZE(value)
    if not 1 <= count <= 3:
        raise InvalidArgumentError(f"kernel {kernel.name!r}: {what} has 1 to 3 dimensions, not {count}")
    for i in range(count):
        into[i] = extent(kernel, what, <object> PyTuple_GET_ITEM(value, i))
    return <int> count


cdef int check_block(Kernel kernel, const size_t* block) except -1:
    cdef size_t items = 1
    cdef int i
    for i in range(3):
        if block[i] > kernel.max_block_axis[i]:
            raise InvalidArgumentError(
                f"kernel {kernel.name!r}: block has {block[i]} work-items in dimension {i}, "
                f"{kernel.device.name} allows {kernel.max_block_axis[i]}{UNITS}")
        items *= block[i]
    if items > kernel.max_block:
        raise InvalidArgumentError(
            f"kernel {kernel.name!r}: block has {items} work-items, this kernel can have {kernel.max_block} on "
            f"{kernel.device.name}{UNITS}")
    if kernel.required_block[0] and not (
        block[0] == kernel.required_block[0] and block[1] == kernel.required_block[1]
        and block[2] == kernel.required_block[2]
    ):
        raise InvalidArgumentError(
            f"kernel {kernel.name!r} was compiled for a block of {tuple(kernel.required_block)}, "
            f"not {(block[0], block[1], block[2])}")
    return 0


cdef object plain_extents(Kernel kernel, str what, object value):
    """Return grid or block as an int or a tuple of ints, which always mean the same sizes. This may run Python code."""
    cdef size_t sizes[3]
    cdef int count
    if type(value) is int:
        return value
    if type(value) is tuple:
        for each in <tuple> value:
            if type(each) is not int:
                break
        else:
            return value
    count = extents(kernel, what, value, sizes)
    return tuple([sizes[i] for i in range(count)])


cdef int work_out_geometry(Kernel kernel, object grid, object block) except -1:
    """Convert groups and work-items per group, as in HIP, to the drivers' geometry, and keep it in the kernel. It runs
    no Python code, not even the garbage collector's: only `plain_extents` does.
    """
    cdef Geometry geometry
    cdef size_t groups[3]
    cdef size_t shape[3]
    cdef int i, dimensions, block_dimensions
    dimensions = extents(kernel, "grid", grid, groups)
    block_dimensions = extents(kernel, "block", block, shape)
    if block_dimensions > dimensions:
        dimensions = block_dimensions
    check_block(kernel, shape)
    geometry.dimensions = dimensions
    for i in range(3):
        geometry.block[i] = <uint32_t> shape[i]
        geometry.local_size[i] = shape[i]
        geometry.offset[i] = 0
    if kernel.reshape != NULL:
        kernel.reshape(&geometry)
    for i in range(3):
        if groups[i] > MOST_GROUPS:
            raise InvalidArgumentError(
                f"kernel {kernel.name!r}: grid of {groups[i]} groups in dimension {i} is too large, {MOST_GROUPS} is "
                f"the most{UNITS}")
        geometry.groups[i] = <uint32_t> groups[i]
        geometry.global_size[i] = groups[i] * geometry.local_size[i]
    # The kernel keeps the objects; otherwise new objects could get their addresses.
    kernel.last_grid = grid
    kernel.last_block = block
    kernel.geometry = geometry
    return 0
