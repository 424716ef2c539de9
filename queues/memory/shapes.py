"""Reads shapes, element types and values; strided views of Buffers."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import operator
import re
import reprlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeAlias

import numpy as np

from forebay.core.driver import AnyBuffer
from forebay.core.errors import ArgumentTypeError, InvalidArgumentError, OutOfRangeError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from forebay.core.driver import DriverDevice
    from forebay.queues.device import Device
    from forebay.queues.kernels.kernel import Kernel
    from forebay.queues.memory.buffer import Buffer
    from forebay.queues.queue import Queue

ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
Grid: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...]  # or a block; dim3 in HIP


# For numbers larger than a byte, by the character of their dtype. A complex number counts as its two halves.
_CODES = {
    **{kind: 2 * np.dtype(kind).itemsize for kind in "hHiIlLqQ"},
    **{kind: 2 * np.dtype(kind).itemsize + 1 for kind in "efdg"},
    **{kind: np.dtype(kind).itemsize + 1 for kind in "FDG"},
}


def element_code(dtype: np.dtype[Any] | None) -> int:
    """Return a code that memory and a pointer to it must share: twice the bytes, plus 1 for floating point; 0 for what
    fits everything: bytes, structures, unknown types (None).
    """
    return 0 if dtype is None else _CODES.get(dtype.base.char, 0)


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:  # CPython prints not more than some thousand digits
        return super().repr_int(x, level) if x.bit_length() < 2000 else f"<int of {x.bit_length()} bits>"


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def shortened(value: Any, most: int = 80) -> str:
    """Return the value's repr for a message, in one line and cut if it is long."""
    text = " ".join(_SHORT.repr(value).split())
    return text if len(text) <= most else f"{text[: most - 8]}…{text[-7:]}"


@functools.lru_cache(maxsize=256)
def type_problem(dtype: np.dtype[Any]) -> str:
    """Return why a device cannot use this dtype, and what to do; "" for plain bytes in the machine's order."""
    if dtype.hasobject:
        return _objects(str(dtype))
    return "" if dtype == dtype.newbyteorder("=") else _swapped(str(dtype))


def _objects(kind: str) -> str:
    return f"its elements are Python objects ({kind}), which are no bytes that a device could use"


def _swapped(kind: str) -> str:
    return (
        f"its elements ({kind}) are in the other byte order, and devices compute in the machine's own: "
        'x.astype(x.dtype.newbyteorder("=")) converts an array x'
    )


def format_problem(text: str) -> str:
    """Return the `type_problem` of a PEP 3118 format that has one."""
    has_objects = "O" in re.sub(":[^:]*:", "", text)  # without the names of fields
    return _objects(text) if has_objects else _swapped(text)


@functools.lru_cache(maxsize=256)
def ctypes_problem(kind: type) -> str:
    """Return the `type_problem` of a ctypes type: the format of ctypes unions shows only bytes."""
    return _swapped(kind.__name__) if _has_swapped(kind) else ""


def _has_swapped(kind: Any) -> bool:
    big, little = getattr(kind, "__ctype_be__", None), getattr(kind, "__ctype_le__", None)
    if hasattr(kind, "_swappedbytes_") or (big is not little and kind is (little if sys.byteorder == "big" else big)):
        return True
    if issubclass(kind, ctypes.Array):
        return _has_swapped(kind._type_)
    return any(_has_swapped(field[1]) for field in getattr(kind, "_fields_", ()))


def check_copied(to: Any, source: Any) -> None:
    """Raise ArgumentTypeError for a copy between two number types, by `element_code`, of any memory with a buffer."""
    into, out_of = _dtype_of(to), _dtype_of(source)
    if into is out_of or element_code(into) in (0, element_code(out_of)) or not element_code(out_of):
        return
    raise ArgumentTypeError(
        f"copy of {out_of} to {into}: a copy converts nothing; if the bytes are meant, copy .view({into.str[1:]!r}) of "
        "the source"
    )


def _dtype_of(memory: Any) -> Any:
    """Return the dtype of the numbers in memory; None if they are not known to be numbers."""
    if hasattr(memory, "dtype"):
        return memory.dtype
    view = memoryview(memory)
    kind = (view.format or "").lstrip("@=<>!^")
    # The view's own size, because those of `struct` and NumPy differ.
    return np.dtype(f"{np.dtype(kind).kind}{view.itemsize}") if kind in _CODES else None


def read_int(value: Any, what: str, way_out: str = "") -> int:
    """Convert an index, extent, axis or count to a Python int. Python code may run.

    For the message, `what` says what is wanted ("a shape is an int or a tuple of ints") and `way_out` ends it. Raises
    ArgumentTypeError without ``__index__``, and for what NumPy takes as a mask or as several indices.
    """
    if type(value) is int:
        return value
    try:
        if isinstance(value, bool) or getattr(value, "ndim", False) or "bool" in str(getattr(value, "dtype", "")):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{what}, not {type(value).__name__}{way_out}") from None


_MOST_AXES = 64  # NumPy's limit; 32 before version 2


def read_shape(shape: Any, least: int = 0) -> tuple[int, ...]:
    """Convert a NumPy shape to a tuple of ints, each at least `least`."""
    try:
        extents = (shape,) if type(shape) is int else tuple(shape)
    except TypeError:
        extents = (shape,)
    whole = tuple(
        each if type(each) is int else read_int(each, "a shape is an int or a tuple of ints", f": {shortened(shape)}")
        for each in extents
    )
    if any(extent < least for extent in whole):
        raise InvalidArgumentError(f"a shape has no negative dimension: {shortened(shape)}")
    if len(whole) > _MOST_AXES or (0 in whole and math.prod(filter(None, whole)) > sys.maxsize >> 16):
        raise InvalidArgumentError(
            f"no array has the shape {shortened(shape)}: at most {_MOST_AXES} axes, and extents whose product is a size"
        )
    return whole


def read_dtype(dtype: Any) -> np.dtype[Any]:
    """Return a dtype without `type_problem`. Raises ArgumentTypeError and InvalidArgumentError."""
    try:
        read: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        extents = "; several extents are a tuple: (4, 4)" if isinstance(dtype, (int, np.integer)) else ""
        raise ArgumentTypeError(f"dtype: {error}{extents}") from None
    problem = type_problem(read) or ("" if read.itemsize else f"its elements ({read!r}) are 0 bytes")
    if problem:
        raise InvalidArgumentError(f"memory cannot be of {read!r}: {problem}")
    return read


def to_array(host: Any, dtype: np.dtype[Any] | None, call: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return `host` as an array in C order and the machine's byte order, converted to `dtype` if that is given.

    `call` names the call in messages. Raises ArgumentTypeError for what cannot be converted, and imaginary parts.
    """
    again = dtype is not None and isinstance(host, (list, tuple))
    try:
        if again and dtype.kind not in "biuf":  # type: ignore[union-attr]
            return np.asarray(host, dtype, order="C")
        array = np.asarray(host)
        wanted = array.dtype.newbyteorder("=") if dtype is None else dtype
        if _is_imaginary(array, wanted):
            raise TypeError("complex numbers are no real ones: pass x.real or abs(x)")
        # A list is converted directly, so that its integers are exact.
        return np.asarray(host if again else array, wanted, order="C")
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # the last from tensors that need gradients
        what = "" if dtype is None else f"no array of {dtype}: "
        raise ArgumentTypeError(f"{call}: {what}{error}") from None


def _is_imaginary(array: np.ndarray[Any, Any], wanted: np.dtype[Any]) -> bool:
    """Whether a conversion drops an imaginary part, of which NumPy's only warns."""
    if array.dtype.names and wanted.names:
        pairs = zip(array.dtype.names, wanted.names, strict=False)
        return any(_is_imaginary(array[name], wanted[other].base) for name, other in pairs)
    if wanted.kind not in "biuf":
        return False
    if array.dtype.hasobject:
        return any(map(np.iscomplexobj, array.ravel().tolist()))
    return bool(array.dtype.kind == "c")


def whole_number(value: Any) -> int:
    """Convert an integer value: an int, a bool (also NumPy's, which has no ``__index__``), or one with ``__index__``.
    Raises TypeError for floats, even whole ones. Counts and positions are for `read_int`.
    """
    if isinstance(value, (np.bool_, np.ndarray)) and value.dtype == np.bool_ and value.ndim == 0:
        return int(value)
    return operator.index(value)


def convert(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Convert a value or values to an array of `dtype`. Unlike in NumPy nothing wraps, overflows or loses an imaginary
    part. A tuple has the fields of a structure. Raises TypeError for a value of another kind, and ValueError for one
    out of range or of another structure.
    """
    if dtype.names and (isinstance(value, tuple) or np.asarray(value).dtype.names):
        if not isinstance(value, tuple):
            value = np.asarray(value)
        fields = value if isinstance(value, tuple) else tuple(value[name] for name in value.dtype.names)
        if len(fields) != len(dtype.names):
            raise ValueError(f"{len(fields)} fields, not {len(dtype.names)}")
        made = np.zeros(() if isinstance(value, tuple) else value.shape, dtype)
        for name, field in zip(dtype.names, fields, strict=True):
            made[name] = convert(field, dtype[name].base)
        return made
    if dtype.kind in "iu":
        source = value if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value, object)
        if source.dtype.kind not in "iubO":
            raise TypeError(f"not an integer but {source.dtype}")
        numbers = [whole_number(number) for number in source.ravel().tolist()]
        limits = np.iinfo(dtype)
        for number in numbers:
            if not limits.min <= number <= limits.max:
                raise ValueError(f"{shortened(number)} is out of its range")
        return np.array(numbers, dtype).reshape(source.shape)
    if dtype.kind in "fc":
        source = np.asarray(value, float) if isinstance(value, int) else np.asarray(value)
        with np.errstate(over="ignore"):
            converted = source.astype(dtype, casting="same_kind")
        if (np.isinf(converted) & ~np.isinf(source)).any():
            raise ValueError(f"{shortened(value)} is out of its range")
        return converted
    return np.asarray(value).astype(dtype, casting="same_kind")


# -- host memory owned by objects of other packages, and why it cannot be used as it is


def is_foreign(value: object, driver: DriverDevice) -> bool:
    """Whether a pointer argument may be this object because `Device.as_buffer` takes it."""
    kind = type(value)
    if kind.__module__.startswith(("forebay.", "numpy")):
        return hasattr(kind, "__forebay_buffer__")
    return hasattr(kind, "__dlpack__") or driver.can_adopt(value)


def name_of(value: object) -> str:
    """Return the name of the value's type, with its package unless it is built in."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__qualname__ if package == "builtins" else f"{package}.{kind.__qualname__}"


def why_unfit(array: np.ndarray[Any, Any], owner: object = None) -> str:
    """Return why an array cannot be used in place, and what to do, or "". `owner` may be a tensor (own copy method)."""
    problem = type_problem(array.dtype)
    if problem:
        return problem
    if not array.flags.c_contiguous:
        copier = "its .contiguous()" if hasattr(owner, "contiguous") else "np.ascontiguousarray(array)"
        layout = f"shape {array.shape}, strides {array.strides} bytes"
        return f"it is not C-contiguous ({layout}): pass {copier}, which copies it"
    return ""


def read_only_array(thing: object, driver: DriverDevice) -> np.ndarray[Any, Any] | None:
    """Return an array over read-only host memory, which launches that only read it copy; else None, for
    `Device.as_buffer`. Raises as `host_array`.
    """
    if not driver.takes_host or driver.can_adopt(thing) or hasattr(type(thing), "__forebay_buffer__"):
        return None
    array = host_array(thing, writable=False)
    return array if array is not None and not array.flags.writeable else None


def host_array(thing: object, call: str = "as_buffer", *, writable: bool = True) -> np.ndarray[Any, Any] | None:
    """Return an array over the memory of `thing`, which it keeps alive; None when `thing` shows no host memory.

    It is read by ``__dlpack__``, ``__array_interface__`` or the buffer protocol. DLPack's producers finish their work
    on host memory before they export it. `call` names the call in messages. Memory that is only read need not be
    `writable`: NumPy shows all of DLPack 0.x as read-only.

    Raises ArgumentTypeError for memory on another device or of a type that NumPy does not know; InvalidArgumentError
    for read-only memory that must be writable, and by `why_unfit`.
    """
    try:
        if isinstance(thing, np.ndarray):
            array = thing
        elif hasattr(type(thing), "__dlpack__"):
            device: Any = getattr(thing, "__dlpack_device__", None)
            if device is not None and device()[0] != ON_THE_HOST[0]:
                raise ArgumentTypeError(f"{call}: the memory of this {name_of(thing)} is on another device")
            array = np.from_dlpack(thing)  # type: ignore[arg-type]
        else:
            array = np.asarray(thing if hasattr(thing, "__array_interface__") else memoryview(thing))  # type: ignore[arg-type]
    except ArgumentTypeError:
        raise
    except (TypeError, ValueError, BufferError, RuntimeError, AttributeError) as error:
        if not hasattr(type(thing), "__dlpack__") and not hasattr(thing, "__array_interface__"):
            return None
        kind = getattr(thing, "dtype", "unknown type")
        views = "dtype" in str(error) and hasattr(thing, "view")  # NumPy lacks bfloat16 and other new types
        raise ArgumentTypeError(
            f"{call}: this {name_of(thing)} of {kind} cannot be read as an array ({error})"
            + (": pass .view(torch.uint8), which shows its bytes" if views else "")
        ) from None
    problem = why_unfit(array, thing)
    if writable and not problem and not array.flags.writeable:
        problem = "it is read-only: Device.array copies it"
    if problem:
        raise InvalidArgumentError(f"{call}: this {name_of(thing)}: {problem}")
    return array


# -- parts of a Buffer whose elements are not contiguous. A kernel copies them


UNITS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
BLOCK = 64
MOST_ROWS = 4096  # groups; NVIDIA's hardware takes 65535 along y
ON_THE_HOST = (1, 0)  # DLPack's kDLCPU

# x varies fastest; y, z and w are counted by rows; all in units. A group goes on to other rows if groups are fewer.
SOURCE = """
kernel void move_UNIT(
    global UNIT *to, const ulong to_start, global const UNIT *from, const ulong from_start, const ulong rows,
    const ulong nx, const long to_x, const long from_x, const ulong ny, const long to_y, const long from_y,
    const ulong nz, const long to_z, const long from_z, const long to_w, const long from_w)
{
    const long x = get_global_id(0);
    if (x >= nx) return;
    for (ulong row = get_global_id(1); row < rows; row += get_global_size(1)) {
        const long y = row % ny, z = row / ny % nz, w = row / ny / nz;
        global UNIT *there = to + to_start + y * to_y + z * to_z + w * to_w;
        global const UNIT *here = from + from_start + y * from_y + z * from_z + w * from_w;
        if (to_x == 1 && from_x == 1) there[x] = here[x];  // compilers make it a copy of vectors
        else there[x * to_x] = here[x * from_x];
    }
}
"""


def read_index(value: Any) -> int:
    """Convert an index of one axis. Raises ArgumentTypeError."""
    wanted = "a Buffer is indexed by ints, slices, ... and None"
    return read_int(value, wanted, ": no mask, no array of indices; index the array of .get(), or write a kernel")


def part_of(memory: Buffer | StridedView, key: Any) -> Buffer | StridedView:
    """Return what NumPy's basic indexing selects: a Buffer where possible.

    Raises OutOfRangeError, and ArgumentTypeError for other indices: an array of indices, a mask.
    """
    view = _as_view(memory)
    shape = view.shape
    keys = tuple(
        each if each is None or each is Ellipsis or isinstance(each, slice) else read_index(each)
        for each in (key if isinstance(key, tuple) else (key,))
    )
    for each in keys:
        if isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise OutOfRangeError(f"index {shortened(each)} is out of bounds (a Buffer of shape {shape})")
    # NumPy indexes a dummy array. It must not copy, as for masks and arrays of indices: that would read out of bounds.
    whole = np.lib.stride_tricks.as_strided(np.empty(1, f"V{view.dtype.itemsize}"), shape, view.strides)
    try:
        part = whole[keys if Ellipsis in keys else (*keys, ...)]
    except (IndexError, OverflowError) as error:
        if "too many" in str(error) or "ellipsis" in str(error):
            raise ArgumentTypeError(f"a Buffer of {len(shape)} dimensions: {error}") from None
        raise OutOfRangeError(f"{error} (a Buffer of shape {shape})") from None
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"a slice of a Buffer: {error}") from None
    start = view.start
    if part.size:
        start += part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    if part.flags.c_contiguous:
        return view._base._part(start, part.shape, view.dtype)
    return StridedView(view._base, start, part.shape, part.strides)


def strides_of(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of C-contiguous memory, in bytes."""
    return tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def are_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether elements with these strides are C-contiguous."""
    return 0 in shape or all(
        extent == 1 or stride == expected
        for extent, stride, expected in zip(shape, strides, strides_of(shape, itemsize), strict=True)
    )


class Moves:
    """A device's kernels for strided copies. `declare` reports each, with its unit in bytes, to the race checker."""

    def __init__(self, device: Device, declare: Callable[[Kernel, int], None]) -> None:
        source = "".join(SOURCE.replace("UNIT", name) for name in UNITS.values())
        natives = device.driver.moves()
        program = device.program(source) if natives is None else device._program_of(natives, source)
        self._kernels: dict[int, Kernel] = {size: program[f"move_{name}"] for size, name in UNITS.items()}
        for size, kernel in self._kernels.items():
            declare(kernel, size)

    def move(self, queue: Queue, to: StridedView, source: StridedView) -> None:
        """Copy between views of one shape and element size that do not overlap. Does not block. Takes one launch, or
        for more than four axes that cannot be merged, one for each part.
        """
        axes = [(to.dtype.itemsize, 1, 1)]  # fastest first: extent and strides in bytes; merged where possible
        for count, *strides in zip(reversed(to.shape), reversed(to.strides), reversed(source.strides), strict=True):
            before, *steps = axes[-1]
            if strides == [before * step for step in steps]:
                axes[-1] = (before * count, steps[0], steps[1])
            elif count > 1:
                axes.append((count, strides[0], strides[1]))
        if len(axes) > 4:
            for i in range(to.shape[0]):
                parts = [  # as StridedViews, even if they are contiguous
                    StridedView(whole._base, whole.start + i * whole.strides[0], whole.shape[1:], whole.strides[1:])
                    for whole in (to, source)
                ]
                self.move(queue, *parts)
            return
        (run, _, _), *outer = axes
        # GPUs need units aligned to their size, so the start of the memory itself counts.
        into, out_of = to.memory, source.memory
        begins = (into._begins_at, to.start, out_of._begins_at, source.start)
        unit = math.gcd(8, run, *begins, *(stride for _, *strides in outer for stride in strides))
        axes = [(count, at // unit, of // unit) for count, at, of in outer]
        if run > unit or not axes:
            axes.insert(0, (run // unit, 1, 1))
        x, y, z, w = (*axes, *[(1, 0, 0)] * (4 - len(axes)))
        rows = y[0] * z[0] * w[0]
        width = min(BLOCK, 1 << (x[0] - 1).bit_length())
        block = (width, BLOCK // width)
        grid = (-(-x[0] // width), min(-(-rows // block[1]), MOST_ROWS))
        starts = to.start // unit, source.start // unit
        queue.launch(self._kernels[unit], grid, block, into, starts[0], out_of, starts[1], rows, *x, *y, *z, *w[1:])


def item_of(memory: Any, *index: SupportsIndex) -> Any:
    """Implement ``memory.item(*index)`` of Buffers and views."""
    if not index and memory.size != 1:
        raise InvalidArgumentError(f"item: {memory.size} elements need an index")
    whole = tuple(map(read_index, index))
    if len(whole) == 1 and memory.ndim != 1:  # counted in C order
        if not -memory.size <= whole[0] < memory.size:
            raise OutOfRangeError(f"item: index {whole[0]} is out of range for {memory.size} elements")
        whole = tuple(map(int, np.unravel_index(whole[0] % memory.size, memory.shape)))
    if index and len(whole) != memory.ndim:
        raise InvalidArgumentError(f"item: {len(whole)} indices for the shape {memory.shape}")
    return (memory[whole] if index else memory).get().item()


def array_of(memory: Any, dtype: Any, copy: bool | None) -> NDArray[Any]:
    """Implement ``memory.__array__(dtype, copy)`` of Buffers and views."""
    if copy is not False:
        return np.asarray(memory.get(), dtype)
    if dtype is not None and np.dtype(dtype) != memory.dtype:
        raise InvalidArgumentError(
            f"copy=False: elements of {memory.dtype} are not {np.dtype(dtype)}, which takes a copy"
        )
    array: NDArray[Any] | None = memory._in_place()
    if array is None:
        raise InvalidArgumentError(f"copy=False: the host cannot read this memory of {memory.device.name} in place")
    return array


def capsule_of(memory: Any, stream: Any, copy: bool | None, wanted: dict[str, Any]) -> object:
    """Implement ``memory.__dlpack__`` of Buffers and views, for a consumer on the host."""
    if stream is not None:
        raise BufferError("this memory is the host's, which has no stream: stream is None")
    array = None if copy else memory._in_place()
    if array is None and (copy or (copy is None and wanted.get("dl_device") == ON_THE_HOST)):
        array = memory.get()
    if array is None:
        raise BufferError(
            f"the host cannot read this memory of {memory.device.name} in place: copy it with .get(), or with "
            "from_dlpack(…, device='cpu')"
        )
    return array.__dlpack__(**{name: value for name, value in wanted.items() if value is not None})


# NumPy functions that read no elements, and their attributes.
_LOOKING = {np.shape: "shape", np.ndim: "ndim", np.size: "size"}
_LIKE = {"zeros_like": "zeros", "empty_like": "empty", "ones_like": "empty", "full_like": "empty"}


class NotOnHost:
    """What device arrays refuse: Python and NumPy would silently copy them to the host, or give a wrong answer."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        name, way = type(self).__name__, "item" if getattr(self, "size", 0) == 1 else "get"
        raise ArgumentTypeError(
            f"a {name} is neither true nor false: x.{way}() has what is in it; `is not None` asks whether there is one"
        )

    def __contains__(self, item: object, /) -> NoReturn:
        name, what = type(self).__name__, shortened(item, 30)
        raise ArgumentTypeError(f"{what} in {name} is not defined: write np.isin({what}, x.get()).any() on the host")

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        if function in _LOOKING and len(args) == 1 and not keywords and hasattr(self, _LOOKING[function]):
            return getattr(args[0], _LOOKING[function])
        name, kind = function.__name__, type(self).__name__
        if name in _LIKE:
            raise ArgumentTypeError(
                f"np.{name} of a {kind} is not defined: write device.{_LIKE[name]}(x.shape, x.dtype) for one on the "
                f"device, or np.{name}(x.get()) for one on the host"
            )
        _refuse_function(name, kind)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> NoReturn:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        _refuse_function(name, type(self).__name__)


def _refuse_function(name: str, kind: str) -> NoReturn:
    raise ArgumentTypeError(
        f"np.{name} of a {kind} would copy it to the host unseen: pass x.get() for x if that is meant; on the device, "
        "a kernel of fb.elementwise or fb.reduction does that"
    )


class StridedView(NotOnHost):
    """Part of a `Buffer` whose elements are not contiguous: ``buf[::2]``, ``buf[:, 1]``.

    Indexing makes such views; calling the class raises. A view shares the Buffer's memory. It can be read, written and
    indexed like a Buffer, and `Queue.copy` takes it. Kernels do not take it: `copy` makes a Buffer.

    Attributes
    ----------
    device : Device
    shape : tuple of int
    strides : tuple of int
        In bytes, as NumPy's.
    dtype : numpy.dtype
    ndim, size : int
        Numbers of dimensions and of elements.
    nbytes : int
        Bytes of its elements, without gaps.
    start : int
        The byte of `memory` where its first element begins.
    """

    def __init__(
        self, base: Any = None, start: int = 0, shape: tuple[int, ...] = (), strides: tuple[int, ...] = ()
    ) -> None:
        if not isinstance(base, AnyBuffer):
            raise ArgumentTypeError("a StridedView is part of a Buffer: buf[::2]")
        self._base: Buffer = base
        self.device: Device = base.device
        self.start = start
        self.shape = shape
        self.strides = strides
        self.dtype: np.dtype[Any] = base.dtype
        self.ndim: int = len(shape)
        self.size: int = math.prod(shape)
        self.nbytes: int = self.size * self.dtype.itemsize

    @property
    def memory(self) -> Buffer:
        """The bytes that it is part of."""
        return self._base._part(0, (self._base.nbytes,), np.dtype(np.uint8))

    @property
    def closed(self) -> bool:
        """Whether the memory was closed."""
        return self._base.closed

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("len() of a 0-dimensional view")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Buffer | StridedView:
        """Return a view of part of it, by NumPy's basic indexing."""
        return part_of(self, key)

    def __setitem__(self, key: Any, host: ArrayLike) -> None:
        """Implement ``view[key] = host``: `set` that part."""
        self[key].set(host)

    def get(self, out: NDArray[Any] | None = None, queue: Queue | None = None) -> NDArray[Any]:
        """Copy to the host and wait for the copy: `out` and `queue` are as in `Buffer.get`."""
        queue = self._base._queue(queue, True, True)
        queue._refuse_in_capture("a copy of strided memory to the host")
        with lent(queue, self.shape, self.dtype) as packed:
            copy_strided(queue, packed, self)
            return packed.get(out, queue)

    def set(self, host: ArrayLike, queue: Queue | None = None) -> None:
        """Copy `host`, converted and broadcast, or a Buffer, to the device: `queue` is as in `Buffer.set`."""
        on_device = isinstance(host, (AnyBuffer, StridedView))
        if queue is None and on_device:
            getattr(host, "_base", host)._let_follow(self.device.current_queue, True)  # type: ignore[union-attr]
        queue = self._base._queue(queue, False)
        if on_device:
            queue.copy(self, host)  # type: ignore[arg-type]
            return
        queue._refuse_in_capture("a copy of host memory to strided memory")
        with lent(queue, self.shape, self.dtype) as packed:
            packed.set(host, queue)
            copy_strided(queue, self, packed)

    def fill(self, value: Any, queue: Queue | None = None) -> None:
        """Set every element to `value`. `queue` is as in `Buffer.fill`. Does not block."""
        queue = self._base._queue(queue, False)
        queue._refuse_in_capture("a fill of strided memory")
        with lent(queue, 1, self.dtype) as one:
            queue.fill(one, value)
            self.device._moves.move(queue, self, StridedView(one, 0, self.shape, (0,) * self.ndim))

    def copy(self, queue: Queue | None = None) -> Buffer:
        """Return a new Buffer, so contiguous, of the same elements. `queue`: see `Buffer.copy`. Does not block."""
        queue = self._base._queue(queue, True)
        made: Buffer = self.device.empty(self.shape, self.dtype)
        queue.copy(made, self)
        return made

    def item(self, *index: int) -> Any:
        """Return one element as a Python object: `index` is as in `Buffer.item`. Blocks."""
        return item_of(self, *index)

    def _in_place(self) -> NDArray[Any] | None:
        whole = self.memory._in_place()
        return None if whole is None else np.ndarray(self.shape, self.dtype, whole, self.start, self.strides)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Copy to the host and wait: ``numpy.asarray(view)``; with ``copy=False`` as `Buffer.__array__`."""
        return array_of(self, dtype, copy)

    def __dlpack__(self, *, stream: Any = None, copy: bool | None = None, **wanted: Any) -> object:
        """Hand the memory to another package with its strides, without a copy: as `Buffer.__dlpack__`."""
        return capsule_of(self, stream, copy, wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device, as `Buffer.__dlpack_device__`."""
        return self._base.__dlpack_device__()

    def __repr__(self) -> str:
        return f"<forebay.StridedView {self.shape} {self.dtype}, strides {self.strides}, of {self._base!r}>"


def copy_strided(queue: Queue, to: Any, source: Any) -> None:
    """Implement `Queue.copy` where one end is strided, and the other may be host memory.

    Raises InvalidArgumentError and ArgumentTypeError when shapes, element sizes or number types differ.
    """
    if not isinstance(to, (AnyBuffer, StridedView)):
        raise ArgumentTypeError("copy of strided memory to the host: use view.get(out=array), which waits")
    if not isinstance(source, (AnyBuffer, StridedView)):
        to.set(source, queue)
        return
    check_copied(to, source)
    to, source = _as_view(to), _as_view(source)
    if to.shape != source.shape or to.dtype.itemsize != source.dtype.itemsize:
        raise InvalidArgumentError(
            f"copy of {source.shape} elements of {source.dtype} to {to.shape} of {to.dtype}: with strides both must be "
            "the same"
        )
    if source.closed or to.closed:
        queue._check_open()
        closed, what = (source, "src") if source.closed else (to, "dst")
        raise closed._base._closed_error(what)
    if to.size == 0:
        return
    if to._base._overlaps(source._base):
        queue._refuse_in_capture("a copy between strided parts of one Buffer")
        with lent(queue, to.shape, to.dtype) as packed:
            copy_strided(queue, packed, source)
            copy_strided(queue, to, packed)
        return
    to.device._moves.move(queue, to, source)


@contextlib.contextmanager
def lent(queue: Queue, shape: ShapeLike, dtype: np.dtype[Any]) -> Iterator[Buffer]:
    """Yield memory for the commands of the block, which the queue frees at its end."""
    buffer = queue.device._lend(queue, shape, dtype)
    try:
        yield buffer
    finally:
        queue.free(buffer)


def _as_view(memory: Any) -> StridedView:
    if isinstance(memory, StridedView):
        return memory
    return StridedView(memory, 0, memory.shape, strides_of(memory.shape, memory.dtype.itemsize))
