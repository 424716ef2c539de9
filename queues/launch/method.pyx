"""`Queue.launch`, as CPython calls it."""

import numpy as np
from cpython.object cimport PyObject

from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.launch cimport launch, list_of
from forebay.core.plan cimport POINTER
from forebay.queues.queue cimport Queue
from forebay.queues.launch.scratch cimport launch_with_scratch, launch_work
from forebay.core.state cimport QueueState

from forebay.core.errors import ArgumentTypeError
from forebay.queues.launch.results import launch_for_result

cdef extern from "Python.h":
    ctypedef void (*PyCFunction)()
    ctypedef struct PyMethodDef:
        const char* ml_name
        PyCFunction ml_meth
        int ml_flags
        const char* ml_doc
    ctypedef struct PyTypeObject:
        PyObject* tp_dict
    int METH_FASTCALL
    int METH_KEYWORDS
    object PyDescr_NewMethod(PyTypeObject*, PyMethodDef*)
    void PyType_Modified(PyTypeObject*)


cdef bint captured_launch(object queue, Kernel kernel, PyObject* const* arguments, Py_ssize_t count) except -1:
    """Whether the launch of a kernel that is not plain became part of a graph."""
    cdef Py_ssize_t i
    capture = queue._capture
    if capture is None or kernel.closed:
        return False
    given = list_of(arguments + 3, count - 3)
    taking = [i for i in range(kernel.count) if not kernel.left_out[i]]
    for i, argument in zip(taking, given):
        if isinstance(argument, np.ndarray) and kernel.layout[i].kind == POINTER:
            return False  # what is done instead copies around a launch, which comes here
    work = launch_work(queue, (<Queue> queue).state, kernel, <object> arguments[1], <object> arguments[2], given)
    return capture.add(queue, work) is not None


cdef object launch_method(object self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords):
    cdef QueueState* state = (<Queue> self).state
    cdef PyObject* kernel  # borrowed, as the next two are: the caller keeps them
    cdef PyObject* grid
    cdef PyObject* block
    if count < 3:
        raise ArgumentTypeError(f"launch(kernel, grid, block, *args) takes at least 3 arguments ({count} given)")
    kernel, grid, block = arguments[0], arguments[1], arguments[2]
    if type(<object> kernel) is not Kernel:
        raise ArgumentTypeError(f"launch needs a Kernel, not {type(<object> kernel).__name__}")
    if keywords != NULL:
        if <tuple> keywords != ("result",):
            raise ArgumentTypeError(f"launch takes the keyword result only, not {', '.join(<tuple> keywords)}")
        self._refuse_in_capture("launch with result= (pass a Buffer, and copy it to an array, to read after each run)")
        return launch_for_result(
            self, <object> kernel, <object> grid, <object> block, list_of(arguments + 3, count - 3),
            <object> arguments[count])
    if (<Kernel> kernel).plain:
        launch(self, state, <Kernel> kernel, <object> grid, <object> block, arguments + 3, count - 3)
    elif not captured_launch(self, <Kernel> kernel, arguments, count):
        launch_with_scratch(self, state, <Kernel> kernel, <object> grid, <object> block, arguments + 3, count - 3)
    return None


cdef PyMethodDef launch_definition
launch_definition.ml_name = "launch"
launch_definition.ml_meth = <PyCFunction> launch_method
launch_definition.ml_flags = METH_FASTCALL | METH_KEYWORDS
launch_definition.ml_doc = b"""launch($self, kernel, grid, block, /, *args, result=None)
--

Launch `kernel` on `grid` groups of `block` work-items each.

Parameters
----------
kernel : Kernel
grid, block : int or tuple of 1 to 3 int
    Groups, and work-items per group, as in HIP; not OpenCL's global size.
*args
    One for each parameter that is not scratch (`Kernel.scratch`): a `Buffer` or None for a pointer, a number for a
    scalar, anything with the buffer protocol and the right size (NumPy values, bytes, ctypes structures) for a vector
    or structure, ``ps.local(nbytes)`` for local memory. A pointer also takes bytes by value (``ps.by_value``), and a
    NumPy array: copied in on this queue, and out again when it is writable and the pointer is not const.
result : numpy dtype, optional
    Of what the last parameter points to, which is left out of the arguments: the kernel writes one such value there.

Returns
-------
Result or None
    With `result`, the value on its way to the host.

Captured, it becomes part of the graph: arrays are read, and written, each time that runs, and scratch has the size that
it has to have now. What that follows from has to be known, from a launch before.

Does not wait for the kernel, except when an array has to be copied out, and when scratch has to be measured. It blocks
only while the device's own queue is full, without the GIL.

Raises
------
ArgumentTypeError, InvalidArgumentError, ClosedError
    Before the driver sees anything; the queue is as it was.
OutOfMemoryError
    When there is no memory for scratch, arguments or results; nothing was submitted.
DriverError
    When the driver refuses; nothing was submitted.
"""


cdef void add_launch_method():
    # By hand, because a Cython method would put the arguments into a tuple first: 40 ns of a launch.
    cdef PyTypeObject* queue_type = <PyTypeObject*> Queue
    (<dict> queue_type.tp_dict)["launch"] = PyDescr_NewMethod(queue_type, &launch_definition)
    PyType_Modified(queue_type)


add_launch_method()
