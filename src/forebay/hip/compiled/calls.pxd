"""How programs call what is compiled of HIP's functions, and what such a call returns."""

from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE

cdef extern from *:
    """
    static inline int forebay_pending() { return -1; }
    """
    int raise_pending "forebay_pending"() except -1  # the error that is set

# The ordinary call of a function: with what CPython passes, as it is. Returns None for any other call.
ctypedef object (*Ordinary)(PyObject* const* given, Py_ssize_t count, PyObject* keywords)

cdef object ok

# A function that does the ordinary calls itself, with the name, signature and documentation of its definition.
cdef object front(object definition, Ordinary ordinary, object failure=*)
cdef PyObject* const* sort(
    tuple names, Py_ssize_t required, PyObject* const* given, Py_ssize_t count, PyObject* keywords, PyObject** room
) noexcept
cdef void note_success() noexcept
cdef object succeed()  # and return what a function without outputs returns then
cdef object answer(bint ready)  # likewise, of a function that asks; that something is not ready is no error (HIP 7)


cdef inline PyObject* const* read(
    tuple names, Py_ssize_t required, PyObject* const* given, Py_ssize_t count, PyObject* keywords, PyObject** room
) noexcept:
    """Return the arguments of a call in the order of their names, as borrowed references, in `room` where they have to
    be sorted. NULL for what is left out; NULL at all when the definition has to read them, or to refuse them.
    """
    if keywords == NULL and count == PyTuple_GET_SIZE(names):
        return given
    return sort(names, required, given, count, keywords, room)
