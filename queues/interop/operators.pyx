"""What arrays of NumPy and CuPy do, and Buffers do not: arithmetic, comparison, functions of NumPy.

Each is refused with what to write. Some would otherwise copy the memory to the host unseen, as ``numpy.sum(buffer)``,
or give a wrong answer, as ``buffer == other``. The others would say no more than that it cannot be done.

The refusals are in the slots of the types, as in a type in C, and not among their attributes: so ``dir`` does not list
them, type checkers report ``buffer + 1``, and nobody who asks for ``__float__`` or ``__index__`` takes a Buffer for a
number.
"""

import sys
from opcode import opmap
from typing import TYPE_CHECKING

import numpy as np
from cpython.object cimport Py_EQ, Py_NE, PyObject

from forebay.core.errors import ArgumentTypeError
from forebay.queues.interop.names import add
from forebay.queues.launch.results import Result
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.shapes import StridedView, shortened

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

cdef extern from *:
    """
    typedef PyObject *(*RefuseOperation)(int operation, PyObject *left, PyObject *right);
    static RefuseOperation refuse_operation;

    template <int operation> PyObject *one(PyObject *of) { return refuse_operation(operation, of, nullptr); }
    template <int operation> PyObject *two(PyObject *left, PyObject *right) {
        return refuse_operation(operation, left, right);
    }
    template <int operation> PyObject *power(PyObject *left, PyObject *right, PyObject *) {
        return refuse_operation(operation, left, right);
    }
    template <int operation> int truth(PyObject *of) {
        Py_XDECREF(refuse_operation(operation, of, nullptr));
        return -1;
    }
    template <int operation> int holds(PyObject *of, PyObject *item) {
        Py_XDECREF(refuse_operation(operation, item, of));
        return -1;
    }

    // The numbers are places in OPERATIONS. A CPython with other slots must not be compiled for.
    static_assert(sizeof(PyNumberMethods) == 36 * sizeof(void *), "PyNumberMethods has other slots than are filled");
    static PyNumberMethods refused_numbers = {
        two<0>, two<1>, two<2>, two<3>, two<4>, power<5>, one<6>, one<7>, one<8>, truth<9>, one<10>, two<11>, two<12>,
        two<13>, two<14>, two<15>, one<16>, nullptr, one<17>, two<18>, two<19>, two<20>, two<21>, power<22>, two<23>,
        two<24>, two<25>, two<26>, two<27>, two<28>, two<29>, two<30>, two<31>, one<32>, two<33>, two<34>,
    };

    static int refuse_operators(PyTypeObject *type, RefuseOperation refuse, richcmpfunc compare) {
        refuse_operation = refuse;
        type->tp_richcompare = compare;
        if (type->tp_as_sequence != nullptr) type->tp_as_sequence->sq_contains = holds<35>;
        if (type->tp_as_number == nullptr) type->tp_as_number = &refused_numbers;
        else *type->tp_as_number = refused_numbers;  // of a class in Python, which has its own and has set none
        PyType_Modified(type);
        return 0;
    }
    """
    ctypedef object (*Refuse "RefuseOperation")(int operation, PyObject* left, PyObject* right)
    ctypedef object (*Compare "richcmpfunc")(object one, object other, int operation)
    ctypedef struct PyTypeObject:
        pass
    int refuse_operators(PyTypeObject* kind, Refuse refuse, Compare compare) except -1

# In the order of CPython's PyNumberMethods; then what is no slot there. A call has its parentheses.
OPERATIONS: tuple[str, ...] = (
    "+", "-", "*", "%", "divmod()", "**", "-", "+", "abs()", "bool()", "~", "<<", ">>", "&", "^", "|", "int()",
    "float()", "+=", "-=", "*=", "%=", "**=", "<<=", ">>=", "&=", "^=", "|=", "//", "/", "//=", "/=", "index()", "@",
    "@=", "in")
COMPARISONS: tuple[str, ...] = ("<", "<=", "==", "!=", ">", ">=")
ON_DEVICE = "on the device, a kernel of fb.elementwise or fb.reduction does that"
# Those of NumPy that look at no element.
LOOKING = {np.shape: "shape", np.ndim: "ndim", np.size: "size"}
LIKE = {"zeros_like": "zeros", "empty_like": "empty", "ones_like": "empty", "full_like": "empty"}

cdef tuple ours = (Buffer, StridedView, Result)


cdef bint is_scalar(object thing):
    return thing is None or isinstance(thing, (int, float, complex, str, np.generic))


cdef str named(object thing):
    """Return what stands for an operand in the first half of a message."""
    return shortened(thing, 30) if is_scalar(thing) else type(thing).__name__


cdef str on_host(object thing, str variable="x"):
    """Return what stands for it in the second half, with the values on the host."""
    if isinstance(thing, ours):
        return f"{variable}.item()" if getattr(thing, "size", 0) == 1 else f"{variable}.get()"
    return shortened(thing, 30) if is_scalar(thing) else variable


cdef bint may_answer(object other):
    """Return whether another package's object may know what to do with ours: then Python asks it."""
    return not isinstance(other, ours) and type(other).__module__.partition(".")[0] not in ("builtins", "numpy")


cdef object refuse_operation(int operation, PyObject* first, PyObject* second):
    """Refuse what has no meaning for a Buffer. `second` is NULL where there is one operand."""
    name = OPERATIONS[operation]
    left = <object> first
    if second == NULL:
        if name in ("int()", "float()", "index()"):
            kind = "float" if name == "float()" else "int"
            item = "x.item(i)" if getattr(left, "size", 1) != 1 else on_host(left)
            raise ArgumentTypeError(f"a {named(left)} is no {kind}: {item} has its value on the host")
        if name == "bool()":
            raise ArgumentTypeError(
                f"a {named(left)} is neither true nor false: {on_host(left)} has what is in it; `is not None` asks "
                "whether there is one")
        form = name.replace(")", "{})") if ")" in name else name + "{}"
        raise ArgumentTypeError(
            f"{form.format(named(left))} is not defined: write {form.format(on_host(left))} on the host; {ON_DEVICE}")
    right = <object> second
    if name == "in":
        raise ArgumentTypeError(
            f"{named(left)} in {named(right)} is not defined: write np.isin({on_host(left, 'y')}, {on_host(right)})"
            f".any() on the host; {ON_DEVICE}")
    if may_answer(left) or may_answer(right):
        return NotImplemented
    form = "divmod({}, {})" if name == "divmod()" else f"{{}} {name} {{}}"
    host = form.format(on_host(left), on_host(right, "x" if is_scalar(left) else "y")).replace("=", "")
    raise ArgumentTypeError(
        f"{form.format(named(left), named(right))} is not defined: forebay has no arithmetic of arrays; write {host} "
        f"on the host; {ON_DEVICE}")


def is_written() -> bool:
    """Whether the program has a comparison where it is now, and not something that looks through a container.

    A list compares what is in it with ``==``, as the program does. The instruction tells which of both this is.
    """
    try:
        frame = sys._getframe()
    except ValueError:  # no Python code runs on this thread
        return False
    return frame.f_code.co_code[frame.f_lasti] == opmap["COMPARE_OP"]


cdef bint is_comparable(object other):
    """Return whether somebody may mean its elements."""
    return isinstance(other, (*ours, int, float, complex, np.ndarray, np.generic, list, tuple))


cdef object compare(object one, object other, int operation):
    equality = operation == Py_EQ or operation == Py_NE
    if equality and (one is other or not is_comparable(other) or not is_written()):
        return (one is other) == (operation == Py_EQ) if one is other else NotImplemented
    if may_answer(other):
        return NotImplemented
    left, right = on_host(one), on_host(other, "y")
    written = f"{named(one)} {COMPARISONS[operation]} {named(other)} is not defined: write"
    if equality and not is_scalar(other):
        whole = "not " if operation == Py_NE else ""
        raise ArgumentTypeError(
            f"{written} {whole}np.array_equal({left}, {right}) on the host, or x is {whole}y to ask whether both are "
            f"one; {ON_DEVICE}")
    raise ArgumentTypeError(f"{written} {left} {COMPARISONS[operation]} {right} on the host; {ON_DEVICE}")


def __array_ufunc__(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> NoReturn:
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    refuse_function(f"np.{name}", self)


def __array_function__(
    self: Any, function: Callable[..., Any], types: Any, args: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    if function in LOOKING and len(args) == 1 and not keywords and hasattr(self, LOOKING[function]):
        return getattr(args[0], LOOKING[function])
    refuse_function(f"np.{function.__name__}", self)


def refuse_function(name: str, thing: Any) -> NoReturn:
    """Refuse a function of NumPy."""
    maker = LIKE.get(name.removeprefix("np."))
    if maker is not None:
        raise ArgumentTypeError(
            f"{name} of a {named(thing)} is not defined: write device.{maker}(x.shape, x.dtype) for one on the device, "
            f"or {name}(x.get()) for one on the host")
    raise ArgumentTypeError(
        f"{name} of a {named(thing)} would copy it to the host unseen: pass x.get() for x if that is meant; "
        f"{ON_DEVICE}")


def __format__(self: Any, form: str, /) -> str:
    if not form:
        return str(self)
    raise ArgumentTypeError(f"a {named(self)} has no format {form!r}: {on_host(self)} has the value on the host")


for _kind in ours:
    refuse_operators(<PyTypeObject*> _kind, refuse_operation, compare)
    add(_kind, "__array_ufunc__", __array_ufunc__)
    add(_kind, "__array_function__", __array_function__)
    add(_kind, "__format__", __format__)
