"""Lines of the program have numbers: a command remembers one, and no frame; text is made of it when a race is told."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uint32_t

from forebay.races import reports

cdef extern from "Python.h":
    ctypedef struct PyFrameObject:
        pass
    ctypedef struct PyCodeObject:
        pass
    PyFrameObject* PyEval_GetFrame()
    PyFrameObject* PyFrame_GetBack(PyFrameObject* frame)  # a new reference, or NULL
    PyCodeObject* PyFrame_GetCode(PyFrameObject* frame)  # a new reference
    int PyFrame_GetLineNumber(PyFrameObject* frame)

cdef dict lines = {}  # by file, line and function: a number
known_lines = [("", 0, "")]


cdef inline bint is_own(object frame) except -1:
    """Return whether a frame is forebay's."""
    name = str(frame.f_globals.get("__name__", ""))
    return name == "forebay" or name.startswith("forebay.")


cdef uint32_t line_of_program() except? 0:
    """Return the number of the innermost line of this thread that is not forebay's own; 0 when there is none."""
    cdef PyFrameObject* current = PyEval_GetFrame()
    if current == NULL:
        return 0
    frame = <object> <PyObject*> current
    while is_own(frame):
        current = PyFrame_GetBack(<PyFrameObject*> <PyObject*> frame)
        if current == NULL:
            return 0
        frame = <object> <PyObject*> current
        Py_DECREF(frame)
    code = <object> <PyObject*> PyFrame_GetCode(<PyFrameObject*> <PyObject*> frame)
    Py_DECREF(code)
    # Not by the code object: those of two files are equal when the functions are, wherever they lie.
    key = (code.co_filename, PyFrame_GetLineNumber(<PyFrameObject*> <PyObject*> frame), code.co_name)
    number = lines.get(key)
    if number is None:
        number = lines[key] = len(known_lines)
        known_lines.append(key)
    return number


def place() -> str:
    """Return the innermost line of this thread that is not forebay's own, as ``file:line``."""
    return place_at(line_of_program())


cdef str place_at(uint32_t line):
    """Return ``file:line`` for a number that `line_of_program` gave."""
    return reports.place_of(known_lines[line])
