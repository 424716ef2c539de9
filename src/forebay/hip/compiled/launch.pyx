"""`hipModuleLaunchKernel`: HIP's calling convention on the launch path.

What `forebay.hip` needs of the path of a launch is here: the objects that stand for pointers, streams and functions
there, and the call. What may go wrong, and what is looked up by number, is Python's business, see `connect`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from forebay.core.driver cimport element_of
from forebay.core.plan cimport LOCAL, POINTER, Parameter
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.launch cimport launch
from forebay.queues.launch.scratch cimport launch_with_scratch
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.queue cimport Queue

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.queues.launch.arguments import local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from forebay.hip.enums import hipError_t
    from forebay.hip.modules import ihipModule_t

cdef enum:
    MOST_ARGUMENTS = 256
    BUFFER_POINTER = 1  # the words of `extra`: HIP_LAUNCH_PARAM_BUFFER_POINTER, …
    BUFFER_SIZE = 2
    END = 3

# Their `.value` is what a scalar parameter takes. A structure goes as it is.
cdef frozenset scalars = frozenset([
    ctypes.c_bool, ctypes.c_byte, ctypes.c_ubyte, ctypes.c_short, ctypes.c_ushort, ctypes.c_int, ctypes.c_uint,
    ctypes.c_long, ctypes.c_ulong, ctypes.c_longlong, ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_ssize_t,
    ctypes.c_float, ctypes.c_double])

cdef object ctypes_array = ctypes.Array
cdef tuple floating = (float, np.floating)
cdef object success = None
cdef object on_failure = None
cdef object find_function = None
cdef object find_queue = None
cdef object find_buffer = None
cdef object read_params = None
cdef object read_extra = None
null_queue = None


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
            raise InvalidArgumentError("as_buffer: this is a null pointer; a launch takes None for it")
        return buffer


cdef class Handle(Address):
    """What stands for a stream: its queue, None when that has to be looked up for each use."""

    queue: Queue | None


cdef extent_of(value):
    if isinstance(value, floating) and value.is_integer():
        return int(value)  # n / block.x
    try:
        extent = value.__index__()
    except AttributeError:
        raise ArgumentTypeError(f"dim3: an extent is an int, not {value!r}") from None
    if not 0 <= extent < 1 << 32:
        raise InvalidArgumentError(f"dim3: {extent} does not fit 32 bits")
    return int(extent)


cdef class dim3:
    """Three extents, 1 where none is given; also a sequence of three ints, so that ``*grid`` works."""

    cdef public object x
    cdef public object y
    cdef public object z

    x: int
    y: int
    z: int

    def __init__(self, x: Any = 1, y: Any = 1, z: Any = 1) -> None:
        self.x, self.y, self.z = extent_of(x), extent_of(y), extent_of(z)

    @staticmethod
    def PROPERTIES() -> list[str]:
        """Return the names of the members."""
        return ["x", "y", "z"]

    def __iter__(self) -> Iterator[int]:
        return iter((self.x, self.y, self.z))

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: Any, /) -> int:
        return getattr(self, key) if isinstance(key, str) else (self.x, self.y, self.z)[key]

    def __eq__(self, other: object, /) -> bool:
        return isinstance(other, dim3) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

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
    result: tuple[Any, ...],
    failure: Callable[[Exception, Any, Any], tuple[Any, ...]],
    function: Callable[[Any], Function],
    queue: Callable[[Any], Queue],
    buffer: Callable[[Any], Any],
    params: Callable[[Function, Any], tuple[Any, ...]],
    extra: Callable[[Function, Any], tuple[Any, ...]],
) -> None:
    """Set what a success returns, and who does what is off the path of a launch: `forebay.hip.modules`."""
    global success, on_failure, find_function, find_queue, find_buffer, read_params, read_extra
    success, on_failure, find_function, find_queue = result, failure, function, queue
    find_buffer, read_params, read_extra = buffer, params, extra


def set_null_queue(queue: Queue | None) -> None:
    """The queue of stream 0 while it is the same for all threads, else None."""
    global null_queue
    null_queue = queue


cdef inline tuple same(tuple last, object x, object y, object z):
    """The tuple of the launch before if it is the same, because the kernel knows it by identity."""
    if (
        PyTuple_GET_ITEM(last, 0) == <PyObject*> x and PyTuple_GET_ITEM(last, 1) == <PyObject*> y
        and PyTuple_GET_ITEM(last, 2) == <PyObject*> z
    ):
        return last
    return (x, y, z)


cdef inline object argument(int kind, object item):
    """What the kernel takes for it."""
    cdef Buffer buffer
    if isinstance(item, Address):
        if kind != POINTER:
            return (<Address> item).address
        buffer = (<Address> item).buffer
        # memory that was freed may have been handed out again at the same address
        return buffer if buffer is not None and not buffer.allocation.closed else find_buffer(item)
    if kind == POINTER:
        # a Buffer knows the type of its elements, and HIP's pointers have none: then `find_buffer` gives its bytes
        if item is None or type(item) is Buffer and element_of((<Buffer> item).memory.kind) == 0:
            return item
        return find_buffer(item)
    return item.value if type(item) in scalars else item


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
            count < 5 or <uint64_t> words[0] != BUFFER_POINTER or <uint64_t> words[2] != BUFFER_SIZE
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


cdef inline tuple given_items(Function function, object params, object extra):
    """The values in `kernelParams` or `extra`."""
    cdef tuple items
    if params is not None:
        if extra is not None:
            raise InvalidArgumentError("a launch: give either kernelParams or extra, not both")
        items = items_at(function, params, False)
        return read_params(function, params) if items is None else items
    if type(extra) is list:
        return tuple(extra)
    if type(extra) is tuple:
        return extra
    if extra is None:
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


cdef int refuse_local(Kernel kernel, object shared) except -1:
    raise InvalidArgumentError(
        f"sharedMemBytes: {shared} bytes of local memory; {kernel.device.name} has {kernel.local_bytes}")


cdef int submit(
    object f, object grid_x, object grid_y, object grid_z, object block_x, object block_y, object block_z,
    object shared, object stream, object params, object extra
) except -1:
    cdef PyObject* given[MOST_ARGUMENTS]
    cdef Function function
    cdef Kernel kernel
    cdef Queue queue
    cdef tuple items
    cdef Py_ssize_t i, taken = 0, count, needed
    cdef bint adds_local
    cdef object item
    function = f if isinstance(f, Function) else find_function(f)
    kernel = function.kernel
    if stream is None and null_queue is not None:
        queue = null_queue
    elif isinstance(stream, Handle) and (<Handle> stream).queue is not None:
        queue = (<Handle> stream).queue
    else:
        queue = find_queue(stream)
    items = given_items(function, params, extra)
    needed = kernel.count
    count = PyTuple_GET_SIZE(items)
    adds_local = check_items(function, count)
    if shared and queue.state.device == kernel.state and (<size_t> shared) > kernel.local_bytes:
        refuse_local(kernel, shared)
    function.last_grid = same(function.last_grid, grid_x, grid_y, grid_z)
    function.last_block = same(function.last_block, block_x, block_y, block_z)
    grid, block = function.last_grid, function.last_block
    try:
        for i in range(needed):
            if adds_local and i == function.local_at:
                if function.last_local is None or function.last_local.nbytes != (shared or 1):
                    function.last_local = local(shared or 1)  # no driver takes an argument of 0 bytes
                item = function.last_local
            else:
                item = argument(kernel.layout[i].kind, <object> PyTuple_GET_ITEM(items, i - (
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
    return tuple([argument(kernel.layout[i].kind, item) for i, item in enumerate(items)])


def hipModuleLaunchKernel(
    f: Any,
    gridDimX: int,
    gridDimY: int,
    gridDimZ: int,
    blockDimX: int,
    blockDimY: int,
    blockDimZ: int,
    sharedMemBytes: int = 0,
    stream: Any = None,
    kernelParams: Any = None,
    extra: Any = None,
) -> tuple[hipError_t]:
    """Launch a kernel (HIP, hipModuleLaunchKernel).

    Parameters
    ----------
    f : ihipModuleSymbol_t
        From `hipModuleGetFunction`.
    gridDimX, gridDimY, gridDimZ : int
        Groups.
    blockDimX, blockDimY, blockDimZ : int
        Work-items per group.
    sharedMemBytes : int
        Dynamic local memory: the size of the one ``local`` pointer parameter of a kernel in OpenCL C, for which no
        argument is given.
    stream : ihipStream_t
        Or None or 0 for the null stream.
    kernelParams : list or tuple
        Where the arguments are, in memory of the host, as in hip-python: for each parameter an address (int or
        ctypes.c_void_p), a ctypes pointer or ``byref``, or what has its bytes there: a ctypes value, a NumPy array or
        scalar, anything with a buffer. A kernel's pointer is an argument too: give where it is stored, such as
        ``ctypes.addressof(ctypes.c_void_p(int(memory)))``, not the pointer. Or HIP's array of addresses as a ctypes
        array.
    extra : tuple or list
        The arguments themselves: one ctypes value for each parameter, and a pointer object, an address, a
        `forebay.Buffer` or None for each pointer; or HIP's five words (HIP_LAUNCH_PARAM_BUFFER_POINTER, …) as a ctypes
        array.

    Returns
    -------
    tuple
        ``(hipError_t,)``: hipErrorInvalidValue for dimensions, arguments or memory that cannot be,
        hipErrorNotSupported for memory of the host that the device cannot map, hipErrorInvalidHandle without a function
        or when the stream is another device's, hipErrorContextIsDestroyed for what is no stream (any more).

    Does not wait for the kernel, see `forebay.Queue.launch`.
    """
    try:
        submit(
            f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, stream, kernelParams,
            extra)
    except Exception as error:
        return on_failure(error, f, stream)
    return success
