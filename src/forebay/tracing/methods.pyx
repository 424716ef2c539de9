"""Replaces methods of compiled classes while somebody watches them, so that nothing is added to them for that."""

from cpython.object cimport PyObject
from libc.stdint cimport uintptr_t

from forebay.queues.memory.buffer cimport Buffer

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject* tp_dict
    void PyType_Modified(PyTypeObject*)


def replace(owner: type, name: str, method: object) -> object:
    """Put a method in the place of one that the class defines itself, and return that one.

    A method with two underscores at either end must not be replaced: CPython would go on to call the old one.
    """
    cdef PyTypeObject* kind = <PyTypeObject*> owner
    old = (<dict> kind.tp_dict)[name]
    (<dict> kind.tp_dict)[name] = method
    PyType_Modified(kind)
    return old


def place_of(Buffer buffer) -> tuple[int, int, int]:
    """Where the bytes of a buffer lie, for as long as its memory is open: allocation, offset, number of bytes."""
    return <uintptr_t> buffer.allocation.uses, buffer.start, buffer.nbytes
