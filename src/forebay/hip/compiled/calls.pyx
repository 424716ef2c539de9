"""How programs call what is compiled of HIP's functions, what such a call returns, and pointers and streams.

Each such function has a definition in Python, which does all of it. In front of it is what CPython calls without making
a tuple first: it does the ordinary call, and leaves any other one to the definition before anything has happened.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint64_t

from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.queue cimport Queue
from forebay.queues.device cimport changes

import ctypes
import inspect
from typing import TYPE_CHECKING

import numpy as np

from forebay.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from forebay.hip.facts import hipError_t

cdef extern from "Python.h":
    ctypedef void (*PyCFunction)()
    ctypedef struct PyMethodDef:
        const char* ml_name
        PyCFunction ml_meth
        int ml_flags
        const char* ml_doc
    int METH_FASTCALL
    int METH_KEYWORDS
    object PyCFunction_NewEx(PyMethodDef*, object, object)
    object PyObject_Vectorcall(object, PyObject* const*, size_t, PyObject*)
    void Py_DECREF(PyObject*)

cdef extern from *:
    """
    static thread_local int forebay_returned = 0;
    """
    int returned "forebay_returned"  # by this thread's last call: the number of its code

# `Ordinary`, for a caller who looks at NULL itself: a `try` costs as much as half of reading the arguments.
ctypedef PyObject* (*Raw)(PyObject* const* words) noexcept

cdef enum:
    MOST_PARAMETERS = 11

cdef tuple success = None
cdef tuple not_ready = None
ok = None
cdef object on_failure = None


def connect(
    result: tuple[hipError_t], unready: tuple[hipError_t], failure: Callable[[Exception, object], tuple[Any, ...]]
) -> None:
    """Set what a success returns, and a question whose answer is no, and who says what a call returns that ended with
    an error: `forebay.hip.errors`.
    """
    global success, not_ready, ok, on_failure
    success, not_ready, ok, on_failure = result, unready, result[0], failure


def note_returned(int code) -> None:
    """Note the number of the code that a call of this thread returns."""
    global returned
    returned = code


def last_returned() -> int:
    """Return the number of the code that this thread's last call returned."""
    return returned


cdef object succeed():
    global returned
    returned = 0
    return success


cdef object answer(bint ready):
    global returned
    if ready:
        return succeed()
    returned = not_ready[0]
    return not_ready


cdef class NullsAsNone:
    """A function that gets None for every null pointer, however the program spells it, see `is_null`.

    Its parameters of type Any are pointers, handles and structures. Numbers are int, and what is passed on as it is
    is object.
    """

    cdef object function
    cdef tuple names

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        given = function.__code__.co_varnames[:function.__code__.co_argcount]
        self.names = tuple([name if function.__annotations__.get(name) == "Any" else None for name in given])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        cdef Py_ssize_t i
        cdef list changed = None
        for i in range(min(len(args), len(self.names))):
            if self.names[i] is not None and args[i] is not None and is_null(args[i]):
                if changed is None:
                    changed = list(args)
                changed[i] = None
        for name, value in kwargs.items():
            if name in self.names and is_null(value):
                kwargs[name] = None
        return self.function(*(args if changed is None else changed), **kwargs)


cdef class Front:
    """What CPython hands to the compiled function: the definition, and what to do with its ordinary calls.

    Attributes
    ----------
    definition : function
    """

    cdef Ordinary ordinary
    cdef tuple names
    cdef tuple defaults  # of the last parameters
    cdef readonly object definition
    cdef object failure
    cdef PyMethodDef method
    cdef bytes name  # CPython copies neither of these
    cdef bytes doc


cdef object call(Front front, PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    cdef PyObject* room[MOST_PARAMETERS]
    cdef PyObject* const* words = given
    cdef PyObject* result
    if keywords != NULL or count != PyTuple_GET_SIZE(front.names):
        words = sort(front, given, count, keywords, room)
        if words == NULL:
            return PyObject_Vectorcall(front.definition, given, count, keywords)
    result = (<Raw> front.ordinary)(words)
    if result == NULL:
        return fail(front, given, count, keywords)
    returned_object = <object> result
    Py_DECREF(result)
    if returned_object is None:
        return PyObject_Vectorcall(front.definition, given, count, keywords)
    return returned_object


cdef object fail(Front front, PyObject* const* given, Py_ssize_t count, PyObject* keywords):
    """Return what the ordinary call returns, which has raised."""
    cdef Py_ssize_t i
    try:
        raise_pending()
    except Exception as error:
        if front.failure is None:
            return on_failure(error, front.definition)
        named = <tuple> keywords if keywords != NULL else ()
        arguments = [<object> given[i] for i in range(count + len(named))]
        return front.failure(error, *arguments[:count], **dict(zip(named, arguments[count:])))


cdef object front(object definition, Ordinary ordinary, object failure=None):
    cdef Front made = Front.__new__(Front)
    signature = inspect.signature(definition)
    plain = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    shown = signature.replace(parameters=plain, return_annotation=signature.empty)
    assert len(plain) <= MOST_PARAMETERS
    made.names = tuple(signature.parameters)
    made.defaults = tuple([each.default for each in plain if each.default is not each.empty])
    made.ordinary, made.definition, made.failure = ordinary, definition, failure
    made.name = definition.__name__.encode()
    made.doc = f"{definition.__name__}{shown}\n--\n\n{inspect.cleandoc(definition.__doc__)}".encode()
    made.method.ml_name = made.name
    made.method.ml_meth = <PyCFunction> call
    made.method.ml_flags = METH_FASTCALL | METH_KEYWORDS
    made.method.ml_doc = made.doc
    return PyCFunction_NewEx(&made.method, made, definition.__module__)


cdef PyObject* const* sort(
    Front front, PyObject* const* given, Py_ssize_t count, PyObject* keywords, PyObject** room
) noexcept:
    """Put the arguments of a call into `room`, in the order of their names. NULL when the definition has to read them,
    or to refuse them.
    """
    cdef tuple names = front.names
    cdef Py_ssize_t total = PyTuple_GET_SIZE(names)
    cdef Py_ssize_t required = total - PyTuple_GET_SIZE(front.defaults)
    cdef Py_ssize_t named = 0 if keywords == NULL else PyTuple_GET_SIZE(<tuple> keywords)
    cdef Py_ssize_t i, at = count
    if count + named > total:
        return NULL
    for i in range(count):
        room[i] = given[i]
    for i in range(count, total):
        room[i] = NULL
    for i in range(named):
        name = PyTuple_GET_ITEM(<tuple> keywords, i)
        if at == total or PyTuple_GET_ITEM(names, at) != name:  # names of keywords are interned
            at = count
            while at < total and PyTuple_GET_ITEM(names, at) != name:
                at += 1
            if at == total:
                return NULL
        room[at] = given[count + i]
        at += 1
    for i in range(count, total):
        if room[i] == NULL:
            if i < required:
                return NULL
            room[i] = PyTuple_GET_ITEM(front.defaults, i - required)
    return room


# -- the objects that stand for pointers and streams, and the queue of a stream

cdef enum:
    LEGACY = 1
    PER_THREAD = 2

cdef extern from *:
    """
    // The queue of this thread's hipStreamPerThread. It is borrowed: what has it counts a change before it lets go.
    static thread_local struct { uint64_t as_of; PyObject *queue; } forebay_own = {0, nullptr};
    """
    struct Own "":
        uint64_t as_of
        PyObject* queue
    Own own "forebay_own"

stream_class = None
pointer_class = None
find_queue = None
find_buffer = None
cdef Queue null_queue = None
cdef object guard = object()  # whose critical section guards it
cdef frozenset never_null = frozenset([tuple, list, str, bytes, bytearray, np.ndarray])  # what most programs pass
cdef tuple numbers = (int, np.integer)
cdef tuple ctypes_pointers = (ctypes.c_void_p, ctypes._Pointer)
cdef object number_class = ()  # of handles and pointers


cdef class Address:
    """A number that stands for a place in memory, and the Buffer that begins there, once it was looked for."""

    def __forebay_buffer__(self) -> Buffer:
        """Return the Buffer that begins there, for launches of forebay's own Queues and `Device.as_buffer`.

        Raises
        ------
        InvalidArgumentError
            When it points into no allocation that kernels can use.
        """
        try:
            buffer = find_buffer(self)
        except Exception as error:  # a HipError, of a floor above
            raise InvalidArgumentError(f"as_buffer: {error}") from None
        if buffer is None:
            raise InvalidArgumentError("as_buffer: this is a null pointer; a launch takes forebay.NULL for it")
        return buffer


cdef class Handle(Address):
    """What stands for a stream: its queue, None when that has to be looked up for each use."""

    queue: Queue | None


def connect_streams(kind: type[Handle], queue: Callable[[Any], Queue]) -> None:
    """Set the class of streams, and who looks for the queue of one: `forebay.hip.streams`."""
    global stream_class, find_queue
    stream_class, find_queue = kind, queue


def connect_pointers(kind: type[Address], base: type, buffer: Callable[[Any], Any]) -> None:
    """Set the class of pointers to a device's memory, the class of all that has an address as a pointer or a handle,
    and who looks for the Buffer there: `forebay.hip.allocations`.
    """
    global pointer_class, number_class, find_buffer
    pointer_class, number_class, find_buffer = kind, base, buffer


def set_null_queue(queue: Queue | None) -> None:
    """The queue of stream 0 while it is the same for all threads, else None."""
    global null_queue
    with cython.critical_section(guard):
        _before, null_queue = null_queue, queue


cdef Queue queue_of_null():
    with cython.critical_section(guard):
        return null_queue


def count_changes() -> int:
    """Return how often a thread's own queue may have become another one; before it is looked up, see `note_own`."""
    return changes.load()


def note_own(Queue queue not None, uint64_t as_of) -> None:
    """Note this thread's own queue, as it was looked up when there had been this many changes."""
    own.as_of = as_of
    own.queue = <PyObject*> queue


def forget_own() -> None:
    """This thread's current device is another one now."""
    own.as_of = 0


cdef Queue other_queue_of(object stream):
    cdef Queue queue
    if stream is None:
        queue = queue_of_null()
    elif type(stream) is stream_class or isinstance(stream, Handle):
        queue = (<Handle> stream).queue
        if queue is None:
            if (<Handle> stream).address == PER_THREAD:
                if own.as_of != changes.load():
                    return None
                queue = <Queue> own.queue
            elif (<Handle> stream).address <= LEGACY:
                queue = queue_of_null()
    elif type(stream) is Queue:
        queue = stream
    else:
        return None
    return None if queue is None or is_closed(queue.state) else queue


cpdef bint is_null(object thing) except -1:
    """Return whether this is a null pointer: None, 0, a null pointer of ctypes, or an object that stands for one."""
    if thing is None:
        return True
    if isinstance(thing, Address):
        return (<Address> thing).address == 0
    if type(thing) in never_null:
        return False
    if isinstance(thing, number_class):
        return thing.address == 0
    if isinstance(thing, numbers):
        return thing == 0
    if isinstance(thing, ctypes_pointers):
        return not thing
    return hasattr(type(thing), "as_c_void_p") and not thing.as_c_void_p()
