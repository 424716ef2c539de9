"""Kernels for arguments of certain types, and the calls that are like the call before: most are."""

import contextlib
from typing import TYPE_CHECKING

import numpy as np
cimport cython
from cpython.object cimport PyObject
from cpython.weakref cimport PyWeakref_NewRef

from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.launch cimport launch
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.queue cimport Queue

from forebay.core.errors import CaptureError
from forebay.expressions.sources import FULL, NUMBER, ONE

if TYPE_CHECKING:
    from typing import Any

    from numpy import dtype

    from forebay.queues.device import Device

cdef extern from "Python.h":
    ctypedef struct PyTupleObject:
        PyObject** ob_item

# Numbers that a launch converts to any type of numbers but complex ones, or refuses
cdef frozenset reals = frozenset({
    int, float, bool, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64
})

cdef enum:
    BLOCK = 256  # work-items of a group of an elementwise kernel


cpdef bint overlaps_elsewhere(Buffer one, Buffer other):
    """Whether both have bytes in common, and begin at different ones."""
    return one.allocation is other.allocation and one.start != other.start and (
        one.start < other.start + other.nbytes and other.start < one.start + one.nbytes)


def give_up(queue: Queue, buffers: tuple[Buffer, ...]) -> None:
    """Give back what was allocated for a launch that was refused, which leaves the queue as it was: in a capture by a
    node, and elsewhere without a command.
    """
    for buffer in buffers:
        if queue.capturing:
            with contextlib.suppress(CaptureError):  # that is invalid now, as the launch says
                queue.free(buffer)
        else:
            buffer.close()


cdef class Variant:
    """What was built for arguments of certain types on a device, which keeps it. It does not refer to its expression.
    """

    cdef object __weakref__

    cdef readonly object built  # a Kernel or Program
    cdef readonly tuple ways  # how each input is read: see `forebay.expressions.sources`
    cdef readonly tuple dtypes  # of each input, then of each output
    cdef readonly tuple counted  # the parameters whose number of elements is passed, too
    cdef bint reduces  # outputs have a shape of their own
    cdef object device
    cdef tuple made  # the names of the outputs' dtypes, and an extent alone: what `Queue.alloc` reads fastest
    cdef Py_ssize_t taken
    cdef Py_ssize_t last_size  # of the launch before, and what was passed for it: a launch compares these by identity
    cdef object last_grid
    cdef object last_number

    built: Any
    ways: tuple[str, ...]
    dtypes: tuple[dtype[Any], ...]
    counted: tuple[int, ...]

    def __init__(
        self, built: Any, device: Device, ways: tuple[str, ...], dtypes: tuple[dtype[Any], ...],
        counted: tuple[int, ...], reduces: bool
    ) -> None:
        self.built = built
        self.device = device
        self.ways = ways
        self.dtypes = dtypes
        self.counted = counted
        self.reduces = reduces
        self.taken = len(ways)
        self.made = tuple([dtype.str for dtype in dtypes[self.taken:]])
        self.last_size = -1

    def launch(
        self, queue: Queue, arguments: tuple[Any, ...], outputs: tuple[Any, ...], shape: tuple[int, ...],
        block: int = 256  # a group of an elementwise kernel
    ) -> tuple[Any, ...]:
        """Launch an elementwise kernel for elements of this shape; return the outputs, which are made if there are none
        yet. Does not block, but for arrays of NumPy, which a launch waits for.
        """
        if outputs or len(self.dtypes) == self.taken:
            self.submit(queue, arguments + outputs, size_of(shape), block)
            return outputs
        extent = shape[0] if len(shape) == 1 else shape
        outputs = tuple([queue.alloc(extent, name) for name in self.made])
        try:
            self.submit(queue, arguments + outputs, size_of(shape), block)
        except BaseException:
            give_up(queue, outputs)
            raise
        return outputs

    cdef int submit(self, Queue queue, tuple passed, Py_ssize_t size, Py_ssize_t block) except -1:
        cdef Kernel kernel = self.built
        cdef object grid, number
        if size == 0:
            return 0
        with cython.critical_section(self):
            if size == self.last_size and block == BLOCK:
                grid, number = self.last_grid, self.last_number
            else:
                grid, number = (size + block - 1) // block, size
                if block == BLOCK:
                    self.last_grid, self.last_number, self.last_size = grid, number, size
        if self.counted:
            passed += (number, *[passed[i].size for i in self.counted])
        else:
            passed += (number,)
        if kernel.plain:
            launch(queue, queue.state, kernel, grid, block, (<PyTupleObject*> passed).ob_item, len(passed))
        else:
            queue.launch(kernel, grid, block, *passed)
        return 0

    cdef tuple read_again(self, tuple args, object queue, object result):
        cdef Py_ssize_t i, given = len(args)
        cdef tuple shape = None, outputs = ()
        cdef Buffer buffer
        cdef object value, device = None
        if given != self.taken:
            if result is not None or given != len(self.dtypes):
                return None
            outputs = args[self.taken:]
            args = args[:self.taken]
        elif result is not None:
            outputs = result if type(result) is tuple else (result,)
            if len(outputs) != len(self.dtypes) - self.taken:
                return None
        for i in range(self.taken):
            value = args[i]
            if type(value) is not Buffer:
                if self.ways[i] is not NUMBER or type(value) not in reals:
                    return None
                continue
            buffer = value
            if self.ways[i] is NUMBER or buffer.dtype is not self.dtypes[i] or buffer.allocation.closed:
                return None
            if device is None:
                device = buffer.allocation.device
            if self.ways[i] is FULL:
                if shape is None:
                    shape = buffer.shape
                elif buffer.shape != shape:
                    return None
        if shape is None or device is not self.device:
            return None
        for i in range(self.taken):
            if self.ways[i] is ONE:
                buffer = args[i]
                if len(buffer.shape) > len(shape) or buffer.nbytes != <size_t> buffer.dtype.itemsize:
                    return None
        for i in range(len(outputs)):
            if type(outputs[i]) is not Buffer:
                return None
            buffer = outputs[i]
            if buffer.dtype is not self.dtypes[self.taken + i] or buffer.allocation.closed:
                return None
            if self.reduces:
                continue
            if buffer.shape != shape:
                return None
            for value in args:
                if type(value) is Buffer and overlaps_elsewhere(value, buffer):
                    return None
        if queue is None:
            queue = device.current_queue
        if type(queue) is not Queue or (<Queue> queue).device._context is not self.device._context:
            return None
        return self, queue, args, outputs, shape


cdef class Last:
    """Which variant of an expression the call before was for, while there is that variant.

    Expressions outlive Devices, so they refer to no variant: each would keep its Device.
    """

    cdef object variant  # a weak reference; None for none

    def note(self, variant: Variant | None) -> None:
        """Have the next call be compared with the arguments of this variant; with None it is read anew."""
        cdef object reference = None if variant is None else PyWeakref_NewRef(variant, None)
        with cython.critical_section(self):
            self.variant = reference

    cdef Variant find(self):
        with cython.critical_section(self):
            return None if self.variant is None else self.variant()

    def launch_again(self, args: tuple[Any, ...], queue: Any, result: Any) -> tuple[Any, ...] | None:
        """Launch an elementwise kernel for arguments that need no other variant, as `Variant.launch`; None as
        `read_again`.
        """
        cdef Variant variant = self.find()
        cdef tuple read = None if variant is None else variant.read_again(args, queue, result)
        return None if read is None else variant.launch(read[1], read[2], read[3], read[4])

    def read_again(
        self, args: tuple[Any, ...], queue: Any, result: Any
    ) -> tuple[Variant, Queue, tuple[Any, ...], tuple[Any, ...], tuple[int, ...]] | None:
        """Read arguments that need no other variant: return that, the queue, the inputs, the outputs that were given,
        and the shape of the elements.

        None when anything is different or a mistake: then the arguments have to be read anew.
        """
        cdef Variant variant = self.find()
        return None if variant is None else variant.read_again(args, queue, result)


cdef Py_ssize_t size_of(tuple shape) except -1:
    cdef Py_ssize_t size = 1
    for extent in shape:
        size *= extent
    return size
