"""`hipModuleLaunchKernel`: HIP's calling convention on the launch path.

What may go wrong, and what is looked up by number, is Python's business, see `connect`.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport Py_TYPE, PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from forebay.core.driver cimport element_of
from forebay.core.plan cimport LOCAL, POINTER, Parameter
from forebay.hip.compiled.calls cimport (
    Address, find_buffer, find_queue, front, is_null, pointer_class, queue_of, succeed,
)
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.launch cimport launch, launch_with_scratch
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.queue cimport Queue

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.queues.launch.launch import local, null
from forebay.queues.memory.shapes import read_int, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from forebay.hip.modules import ihipModule_t

cdef extern from "Python.h":
    ctypedef object (*descrgetfunc)(object descriptor, object thing, object kind)

    ctypedef struct Type "PyTypeObject":
        descrgetfunc tp_descr_get

cdef enum:  # where each of the arguments is among the words
    FUNCTION
    GRID_X
    GRID_Y
    GRID_Z
    BLOCK_X
    BLOCK_Y
    BLOCK_Z
    SHARED
    STREAM
    PARAMS
    EXTRA

cdef enum:
    MOST_ARGUMENTS = 256
    BUFFER_POINTER = 1  # the words of `extra`: HIP_LAUNCH_PARAM_BUFFER_POINTER, …
    BUFFER_SIZE = 2
    END = 3
    WORDS_OF_EXTRA = 5

# Their `.value` is what a scalar parameter takes. A structure goes as it is.
cdef frozenset scalars = frozenset([
    ctypes.c_bool, ctypes.c_byte, ctypes.c_ubyte, ctypes.c_short, ctypes.c_ushort, ctypes.c_int, ctypes.c_uint,
    ctypes.c_long, ctypes.c_ulong, ctypes.c_longlong, ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_ssize_t,
    ctypes.c_float, ctypes.c_double])

cdef object c_int = ctypes.c_int
cdef object c_float = ctypes.c_float
cdef object c_char = ctypes.c_char
cdef object value_of = ctypes.c_int.__mro__[1].__dict__["value"]  # a descriptor: found once, not in each launch
cdef object ctypes_array = ctypes.Array
cdef tuple floating = (float, np.floating)
cdef object no_bytes = 0
cdef object on_failure = None
cdef object function_class = None  # of ordinary functions
cdef object find_function = None
cdef object read_params = None
cdef object read_extra = None


cdef extent_of(value):
    if isinstance(value, floating) and value.is_integer():
        return int(value)  # n / block.x
    extent = read_int(value, "dim3: an extent is an int", f": {shortened(value)}")
    if not 0 <= extent < 1 << 32:
        raise InvalidArgumentError(f"dim3: {extent} does not fit 32 bits")
    return extent


cdef class dim3:
    """Three extents, 1 where none is given; also a sequence of three ints, so that ``*grid`` works."""

    cdef tuple extents  # one object, which unpacking need not make

    def __init__(self, x: Any = 1, y: Any = 1, z: Any = 1) -> None:
        self.extents = (extent_of(x), extent_of(y), extent_of(z))

    @property
    def x(self) -> int:
        return self.extents[0]

    @x.setter
    def x(self, extent: Any) -> None:
        self.extents = (extent, *self.extents[1:])

    @property
    def y(self) -> int:
        return self.extents[1]

    @y.setter
    def y(self, extent: Any) -> None:
        self.extents = (self.extents[0], extent, self.extents[2])

    @property
    def z(self) -> int:
        return self.extents[2]

    @z.setter
    def z(self, extent: Any) -> None:
        self.extents = (*self.extents[:2], extent)

    @staticmethod
    def PROPERTIES() -> list[str]:
        """Return the names of the members."""
        return ["x", "y", "z"]

    @staticmethod
    def fromObj(pyobj: Any) -> Any:
        """Return it when it is one already, else make one of a sequence."""
        return pyobj if isinstance(pyobj, dim3) else dim3(*pyobj)

    def c_sizeof(self) -> int:
        """Return its bytes in C."""
        return 12

    def __iter__(self) -> Iterator[int]:
        return iter(self.extents)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: Any, /) -> int:
        return getattr(self, key) if isinstance(key, str) else self.extents[key]

    def __eq__(self, other: object, /) -> bool:
        return isinstance(other, dim3) and self.extents == (<dim3> other).extents

    def __hash__(self) -> int:
        return hash(self.extents)

    def __repr__(self) -> str:
        return f"dim3(x={self.x}, y={self.y}, z={self.z})"


cdef class Function:
    """A kernel, with what is remembered of its last launch."""

    cdef readonly Kernel kernel
    cdef readonly object module
    cdef Py_ssize_t local_at  # the one parameter in local memory, which `sharedMemBytes` is for; -1: none, or several
    cdef object last_local
    cdef tuple last_grid
    cdef tuple last_block
    cdef bint readable  # its values are all scalars that `value_at` reads
    cdef list last_buffers  # by parameter, for addresses that are read from memory
    cdef object __weakref__

    module: ihipModule_t | None

    def __init__(self, Kernel kernel not None, module: ihipModule_t | None) -> None:
        self.kernel = kernel
        self.module = module
        self.last_buffers = [None] * kernel.count
        self.readable = all([kernel.layout[i].code in b"\0LbBhHiIqQfd" for i in range(kernel.count)])
        self.last_grid = self.last_block = (None, None, None)
        places = [i for i in range(kernel.count) if kernel.layout[i].kind == LOCAL]
        self.local_at = places[0] if len(places) == 1 else -1


def connect(
    failure: Callable[..., tuple[Any, ...]],
    kind: type[Function],
    function: Callable[[Any], Function],
    params: Callable[[Function, Any], tuple[Any, ...]],
    extra: Callable[[Function, Any], tuple[Any, ...]],
) -> None:
    """Set who does what is off the path of a launch: `forebay.hip.modules`."""
    global on_failure, function_class, find_function, read_params, read_extra
    on_failure, function_class, find_function, read_params, read_extra = failure, kind, function, params, extra


cdef inline tuple same(tuple last, PyObject* const* extents):
    """The tuple of the launch before if it is the same, because the kernel knows it by identity."""
    if (
        PyTuple_GET_ITEM(last, 0) == extents[0] and PyTuple_GET_ITEM(last, 1) == extents[1]
        and PyTuple_GET_ITEM(last, 2) == extents[2]
    ):
        return last
    return (<object> extents[0], <object> extents[1], <object> extents[2])


cdef object memory_of(object pointer):
    """What a kernel takes for a pointer of HIP: None is a null pointer there."""
    if pointer is None or pointer is null:
        return null
    buffer = find_buffer(pointer)
    return null if buffer is None else buffer


cdef inline object argument(const Parameter* parameter, object item):
    """What the kernel takes for it."""
    cdef Buffer buffer
    if type(item) is pointer_class or isinstance(item, Address):
        if parameter.kind != POINTER:
            return (<Address> item).address
        buffer = (<Address> item).buffer
        # memory that was freed may have been handed out again at the same address
        return buffer if buffer is not None and not buffer.allocation.closed else memory_of(item)
    if parameter.kind == POINTER:
        # a Buffer knows the type of its elements, and HIP's pointers have none: then `memory_of` gives its bytes
        if type(item) is Buffer and element_of((<Buffer> item).memory.kind) == 0:
            return item
        return memory_of(item)
    if type(item) is c_int or type(item) is c_float or type(item) in scalars:
        return (<Type*> Py_TYPE(value_of)).tp_descr_get(value_of, item, <object> Py_TYPE(item))
    if type(item) is c_char:
        byte = ord(item.value)
        return byte if parameter.code == c"B" else <signed char> <unsigned char> byte
    return item


cdef inline object value_at(Function function, Py_ssize_t i, const char* at):
    """The argument for a parameter whose value is there: memory for an address, a number for a scalar."""
    cdef const Parameter* parameter = &function.kernel.layout[i]
    cdef char code = parameter.code
    cdef uint64_t address
    cdef object known
    if parameter.kind == POINTER:
        address = (<const uint64_t*> at)[0]
        known = function.last_buffers[i]
        if known is None or (<Buffer> known).memory.address != address or (<Buffer> known).allocation.closed:
            known = function.last_buffers[i] = find_buffer(address)
        return known
    if code == c"i":
        return (<const int32_t*> at)[0]
    if code == c"f":
        return (<const float*> at)[0]
    if code == c"d":
        return (<const double*> at)[0]
    if code == c"I":
        return (<const uint32_t*> at)[0]
    if code == c"q":
        return (<const int64_t*> at)[0]
    if code == c"Q":
        return (<const uint64_t*> at)[0]
    if code == c"h":
        return (<const int16_t*> at)[0]
    if code == c"H":
        return (<const uint16_t*> at)[0]
    if code == c"b":
        return (<const int8_t*> at)[0]
    return (<const uint8_t*> at)[0]


cdef tuple items_at(Function function, array, bint packed):
    """The values that a ctypes array of addresses is about; None when `read_params` or `read_extra` is to read it,
    or to refuse it.
    """
    cdef Py_buffer view
    cdef const char** words
    cdef Kernel kernel = function.kernel
    cdef Py_ssize_t i, n = 0, count = 0
    cdef size_t offset = 0, size
    cdef list items
    if not function.readable or not isinstance(array, ctypes_array):
        return None
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
    words = <const char**> view.buf
    count = view.len // <Py_ssize_t> sizeof(void*)
    try:
        if packed and (
            count < WORDS_OF_EXTRA or <uint64_t> words[0] != BUFFER_POINTER or <uint64_t> words[2] != BUFFER_SIZE
            or <uint64_t> words[4] != END or words[1] == NULL or words[3] == NULL
        ):
            return None
        items = []
        for i in range(kernel.count):
            if kernel.layout[i].kind == LOCAL:
                continue
            size = kernel.layout[i].size
            if packed:
                offset = (offset + size - 1) // size * size
                if offset + size > (<const size_t*> words[3])[0]:
                    return None
                items.append(value_at(function, i, words[1] + offset))
                offset += size
            else:
                if n >= count or words[n] == NULL:
                    return None
                items.append(value_at(function, i, words[n]))
                n += 1
        return tuple(items)
    finally:
        PyBuffer_Release(&view)


cdef inline bint is_nothing(object given) except -1:
    """Is there no argument in this `kernelParams` or `extra`?"""
    if type(given) is tuple or type(given) is list:
        return not given
    return given is None or not isinstance(given, ctypes_array) and is_null(given)


cdef inline tuple given_items(Function function, object params, object extra):
    """The values in `kernelParams` or `extra`."""
    cdef tuple items
    if params is not None and not is_nothing(params):
        if extra is not None and not is_nothing(extra):
            raise InvalidArgumentError("a launch: give either kernelParams or extra, not both")
        items = items_at(function, params, False)
        return read_params(function, params) if items is None else items
    if type(extra) is tuple:
        return extra
    if type(extra) is list and (len(extra) != WORDS_OF_EXTRA or function.kernel.count == WORDS_OF_EXTRA):
        return tuple(extra)
    if is_nothing(extra):
        return ()
    items = items_at(function, extra, True)
    return read_extra(function, extra) if items is None else items


cdef inline bint check_items(Function function, Py_ssize_t count) except -1:
    """Is an argument in local memory to be added to this many?"""
    cdef Kernel kernel = function.kernel
    cdef bint adds_local = function.local_at >= 0 and count == kernel.count - 1
    if count + adds_local != kernel.count:
        raise ArgumentTypeError(
            f"kernel {kernel.name!r} takes {kernel.count} arguments ({count} given): {kernel.signature}")
    if kernel.count > MOST_ARGUMENTS:
        raise InvalidArgumentError(f"kernel {kernel.name!r} takes more than {MOST_ARGUMENTS} arguments")
    return adds_local


cdef object local_of(Function function, object nbytes):
    """Local memory of this size, the same as last time if it was that."""
    with cython.critical_section(function):
        last = function.last_local
    if last is None or last.nbytes != nbytes:
        last = local(nbytes)
        with cython.critical_section(function):
            function.last_local = last
    return last


cdef int refuse_local(Kernel kernel, object shared) except -1:
    raise InvalidArgumentError(
        f"sharedMemBytes: {shared} bytes of local memory; {kernel.device.name} has {kernel.local_bytes}")


cdef int submit(PyObject* const* words) except -1:
    """Launch. The caller has the words, so what is borrowed from them stays."""
    cdef PyObject* given[MOST_ARGUMENTS]
    cdef Function function
    cdef Kernel kernel
    cdef Queue queue
    cdef tuple items
    cdef Py_ssize_t i, taken = 0, needed
    cdef bint adds_local
    cdef object item
    if type(<object> words[FUNCTION]) is function_class or isinstance(<object> words[FUNCTION], Function):
        function = <Function> words[FUNCTION]
    else:
        function = find_function(<object> words[FUNCTION])
    kernel = function.kernel
    queue = queue_of(<object> words[STREAM])
    if queue is None:
        queue = find_queue(<object> words[STREAM])
    items = given_items(function, <object> words[PARAMS], <object> words[EXTRA])
    needed = kernel.count
    adds_local = check_items(function, PyTuple_GET_SIZE(items))
    shared = <object> words[SHARED]
    if shared is not no_bytes and shared and queue.state.device == kernel.state:
        if (<size_t> shared) > kernel.local_bytes:
            refuse_local(kernel, shared)
    with cython.critical_section(function):
        function.last_grid = grid = same(function.last_grid, words + GRID_X)
        function.last_block = block = same(function.last_block, words + BLOCK_X)
    try:
        for i in range(needed):
            if adds_local and i == function.local_at:
                item = local_of(function, shared or 1)  # no driver takes an argument of 0 bytes
            else:
                item = argument(&kernel.layout[i], <object> PyTuple_GET_ITEM(items, i - (
                    adds_local and i > function.local_at)))
            Py_INCREF(item)
            given[i] = <PyObject*> item
            taken += 1
        if kernel.plain:
            launch(queue, queue.state, kernel, grid, block, given, needed)
        else:
            launch_with_scratch(queue, queue.state, kernel, grid, block, given, needed)
    finally:
        for i in range(taken):
            Py_DECREF(<object> given[i])
    return 0


def kernel_arguments(Function function not None, shared: int, params: Any, extra: Any) -> tuple[Any, ...]:
    """What a kernel gets in a launch with these `sharedMemBytes`, `kernelParams` and `extra`: for nodes of graphs."""
    cdef Kernel kernel = function.kernel
    cdef list items = list(given_items(function, params, extra))
    if shared and shared > kernel.local_bytes:
        refuse_local(kernel, shared)
    if check_items(function, len(items)):
        items.insert(function.local_at, local(shared or 1))
    return tuple([argument(&kernel.layout[i], item) for i, item in enumerate(items)])


cdef object launch_front(PyObject* const* words):
    submit(words)
    return succeed()


def hipModuleLaunchKernel(definition: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Put the launch in front of `hipModuleLaunchKernel`, which is left with calls that no function can take."""
    return front(definition, launch_front, on_failure)
