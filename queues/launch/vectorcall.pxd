"""PEP 590: an object that is called without a tuple made of its arguments first. Cython has no word for it."""

from cpython.object cimport PyObject, Py_TYPE

cdef extern from "Python.h":
    ctypedef object (*vectorcallfunc)(object, PyObject* const*, size_t, PyObject*)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    ctypedef struct PyTypeObject:
        unsigned long tp_flags
        Py_ssize_t tp_vectorcall_offset
    void PyType_Modified(PyTypeObject*)


cdef inline void enable_vectorcall(object probe, const vectorcallfunc* called):
    """Have CPython call objects of the probe's type by what is in `called`, a member of the probe.

    Patching the type is safe as long as nobody has used it: when its module is imported.
    """
    cdef PyTypeObject* patched = <PyTypeObject*> Py_TYPE(probe)
    patched.tp_vectorcall_offset = <const char*> called - <const char*> <void*> probe
    patched.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    PyType_Modified(patched)
