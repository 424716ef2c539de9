"""``kernel[grid, block, queue]``: what is called with the arguments of a launch."""

from typing import TYPE_CHECKING

cimport cython
from cpython.object cimport PyObject
from libcpp.vector cimport vector

from forebay.queues.kernels.kernel cimport Kernel, set_configure
from forebay.queues.queue cimport Queue, launch_method

from forebay.core.errors import ArgumentTypeError

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Never

cdef extern from "Python.h":
    ctypedef PyObject* (*vectorcallfunc)(PyObject*, PyObject* const*, size_t, PyObject*)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    ctypedef struct PyTupleObject:
        PyObject** ob_item
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    ctypedef struct PyTypeObject:
        unsigned long tp_flags
        Py_ssize_t tp_vectorcall_offset
    void PyType_Modified(PyTypeObject*)

cdef enum:
    FEW = 32  # arguments that need no memory of their own


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
        kernel.device._check_queue(queue)
    launcher = Launcher.__new__(Launcher)
    launcher.vectorcall = <vectorcallfunc> call_launcher
    launcher.kernel = kernel
    launcher.grid = given[0]
    launcher.block = given[1]
    launcher.queue = queue
    return launcher


cdef object call_launcher(Launcher launcher, PyObject* const* arguments, size_t flags, PyObject* keywords):
    """PEP 590: without this, a call would make a tuple of the arguments, and the launch another one."""
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    cdef Py_ssize_t total = count + (0 if keywords == NULL else len(<tuple> keywords))
    cdef PyObject* few[FEW + 3]
    cdef vector[PyObject*] many
    cdef PyObject** given = few
    cdef Py_ssize_t i
    if total > FEW:
        many.resize(total + 3)
        given = many.data()
    given[0] = <PyObject*> launcher.kernel
    given[1] = <PyObject*> launcher.grid
    given[2] = <PyObject*> launcher.block
    for i in range(total):
        given[i + 3] = arguments[i]
    return launch_method(launcher.queue, given, count + 3, keywords)


cdef void enable_vectorcall():
    # As for `BoundLaunch`: the type is ready and has not been used yet.
    cdef PyTypeObject* launcher_type = <PyTypeObject*> Launcher
    cdef Launcher probe = Launcher.__new__(Launcher)
    launcher_type.tp_vectorcall_offset = <char*> &probe.vectorcall - <char*> <void*> probe
    launcher_type.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    PyType_Modified(launcher_type)


enable_vectorcall()
set_configure(configure)
