"""How Python calls a launch: ``queue.launch(kernel, grid, block, …)`` and ``kernel[grid, block, queue](…)``.

Both take what CPython passes as it is: a Cython method would first put the arguments into a tuple, 40 ns a launch.
"""

from typing import TYPE_CHECKING

import numpy as np
cimport cython
from cpython.object cimport PyObject

from forebay.core.plan cimport POINTER
from forebay.queues.kernels.kernel cimport Kernel, set_configure
from forebay.queues.launch.launch cimport PyVectorcall_NARGS, enable_vectorcall, launch, list_of, vectorcallfunc
from forebay.queues.launch.scratch cimport launch_with_scratch
from forebay.queues.queue cimport Queue

from forebay.core.errors import ArgumentTypeError
from forebay.queues.kernels.kernel import check_queue
from forebay.queues.launch.results import launch_for_result
from forebay.queues.memory.foreign import is_foreign

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Never

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


# -- queue.launch(…)


cdef bint captured_launch(
    Queue queue, Kernel kernel, object grid, object block, PyObject* const* arguments, Py_ssize_t count
) except -1:
    """Capture the launch of a kernel that is not plain. Returns whether it became part of a graph."""
    cdef Py_ssize_t i
    capture = queue._capture
    if capture is None or kernel.closed:
        return False
    given = list_of(arguments, count)
    taking = [i for i in range(kernel.count) if not kernel.left_out[i]]
    for i, argument in zip(taking, given):
        if kernel.layout[i].kind == POINTER and (
            isinstance(argument, np.ndarray) or is_foreign(argument, kernel.device.driver)
        ):
            return False  # the caller then launches again with Buffers, and comes here again
    return capture.launch(queue, kernel, grid, block, tuple(given))


cdef int refuse_without_grid(list given, tuple keywords) except -1:
    name, parameters = "kernel", "*args"
    if given and isinstance(given[0], Kernel):
        kernel = given[0]
        name = f"program[{kernel.name!r}]"
        parameters = ", ".join([each.name for each in kernel.parameters if each.name not in kernel.scratch_names])
    named = f", and by name, which it does not take, {', '.join(keywords)}" if keywords else ""
    raise ArgumentTypeError(
        f"launch needs a kernel, grid and block, and then the kernel's arguments ({len(given)} given{named}): "
        f"queue.launch({name}, grid, block, {parameters}), where grid counts groups and block the work-items of each")


cdef object launch_special(
    Queue queue, Kernel kernel, object grid, object block, PyObject* const* arguments, Py_ssize_t count,
    PyObject* keywords
):
    """Launch a kernel that is not plain, or one with keywords, whose values come after the arguments."""
    if keywords != NULL:
        if <tuple> keywords != ("result",):
            raise ArgumentTypeError(
                f"launch takes the keyword result only, not {', '.join(<tuple> keywords)}: a kernel's arguments go by "
                "their order, and the queue is the one whose launch is called")
        if <object> arguments[count] is not None:
            queue._refuse_in_capture(
                "launch with result= (pass a Buffer, and copy it to an array, to read after each run)")
            return launch_for_result(queue, kernel, grid, block, list_of(arguments, count), <object> arguments[count])
    if kernel.plain:
        launch(queue, queue.state, kernel, grid, block, arguments, count)
    elif not captured_launch(queue, kernel, grid, block, arguments, count):
        launch_with_scratch(queue, queue.state, kernel, grid, block, arguments, count)
    return None


cdef object launch_method(object self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords):
    cdef PyObject* kernel  # borrowed, as the next two are: the caller keeps them
    cdef PyObject* grid
    cdef PyObject* block
    if count < 3:
        refuse_without_grid(list_of(arguments, count), <tuple> keywords if keywords != NULL else ())
    kernel, grid, block = arguments[0], arguments[1], arguments[2]
    if type(<object> kernel) is not Kernel:
        raise ArgumentTypeError(
            f"launch needs a Kernel, not {type(<object> kernel).__name__}: queue.launch(program['name'], grid, block, "
            "*args)")
    if keywords != NULL or not (<Kernel> kernel).plain:
        return launch_special(
            self, <Kernel> kernel, <object> grid, <object> block, arguments + 3, count - 3, keywords)
    launch(
        self, (<Queue> self).state, <Kernel> kernel, <object> grid, <object> block, arguments + 3, count - 3)
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
    One for each parameter that is not scratch (`Kernel.scratch`): a `Buffer` or ``fb.NULL`` for a pointer; a number for
    a scalar; anything with the buffer protocol and the right size (NumPy values, bytes, ctypes structures) for a vector
    or structure; ``fb.local(nbytes)`` for local memory. A pointer also takes bytes by value (``fb.by_value``) or a
    NumPy array. An array is copied in on this queue, and out again when it is writable and the pointer is not const.
    The elements of memory are of the size and kind, integer or floating-point, that the pointer points to. Bytes,
    structures and what has no known type go everywhere.
result : numpy dtype, optional
    The type that the last parameter points to. Leave this parameter out of the arguments: the kernel writes one value
    of the type there.

Returns
-------
Result or None
    With `result`, the value on its way to the host.

Notes
-----
In a capture the launch becomes part of the graph. Arrays are read and written each time the graph runs. Scratch has the
size that the data asks for at each launch of the graph.

Does not wait for the kernel, except when an array must be copied out or scratch must be measured. Blocks only while the
device's own queue is full, without the GIL.

Raises
------
ArgumentTypeError, InvalidArgumentError, ClosedError
    Before the driver sees anything; the queue is unchanged. For elements of another type, `Buffer.view` gives the same
    memory as the right one.
OutOfMemoryError
    When there is no memory for scratch, arguments or results. Nothing was submitted.
DriverError
    When the driver refuses the launch. Nothing was submitted.
"""


cdef void add_launch_method():
    """Replace what the class declares for type checkers."""
    cdef PyTypeObject* queue_type = <PyTypeObject*> Queue
    (<dict> queue_type.tp_dict)["launch"] = PyDescr_NewMethod(queue_type, &launch_definition)
    PyType_Modified(queue_type)


add_launch_method()


# -- kernel[grid, block](…)


@cython.freelist(8)
cdef class Launcher:
    """A kernel with grid, block and queue: ``kernel[grid, block]``. Calling it is `Queue.launch` with these."""

    cdef vectorcallfunc vectorcall
    cdef Kernel kernel
    cdef object grid
    cdef object block
    cdef Queue queue

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a Launcher comes from a Kernel: kernel[grid, block]")

    def __call__(self, *args: Any, **keywords: Any) -> object:
        """Launch. See `Queue.launch`."""
        return self.queue.launch(self.kernel, self.grid, self.block, *args, **keywords)

    def __repr__(self) -> str:
        return f"{self.kernel!r}[{self.grid!r}, {self.block!r}, {self.queue!r}]"


cdef object configure(Kernel kernel, tuple given):
    cdef Launcher launcher
    queue = given[2] if len(given) == 3 else kernel.device.current_queue
    if type(queue) is not Queue:
        check_queue(queue)
    launcher = Launcher.__new__(Launcher)
    launcher.vectorcall = <vectorcallfunc> call_launcher
    launcher.kernel = kernel
    launcher.grid = given[0]
    launcher.block = given[1]
    launcher.queue = queue
    return launcher


cdef object call_launcher(Launcher launcher, PyObject* const* arguments, size_t flags, PyObject* keywords):
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    cdef PyObject* kernel = <PyObject*> launcher.kernel  # the caller keeps the Launcher, which keeps this
    if keywords != NULL or not (<Kernel> kernel).plain:
        return launch_special(
            launcher.queue, <Kernel> kernel, launcher.grid, launcher.block, arguments, count, keywords)
    launch(
        launcher.queue, launcher.queue.state, <Kernel> kernel, launcher.grid, launcher.block, arguments, count)
    return None


cdef Launcher probe = Launcher.__new__(Launcher)
enable_vectorcall(probe, &probe.vectorcall)
probe = None
set_configure(configure)
