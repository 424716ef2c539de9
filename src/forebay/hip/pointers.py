"""Pointer objects: an address that can be computed with, and what is known of the array behind it; HIP's vectors."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.hip.compiled.calls import Address, is_null
from forebay.hip.compiled.known import Located
from forebay.queues.memory.shapes import are_contiguous, read_int, read_shape

if TYPE_CHECKING:
    from forebay.queues.memory.buffer import Buffer

ThisPointer = TypeVar("ThisPointer", bound="Pointer")
Shape: TypeAlias = tuple[int, ...]


def _dlpack_address(capsule: Any) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    # A DLTensor: its address, device, number of dimensions and type, shape, strides, offset in bytes.
    address, _, _, _, _, offset = (ctypes.c_uint64 * 6).from_address(pointer(capsule, b"dltensor"))
    return address + offset


def host_view(thing: Any) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
    """Return the bytes of an object with the buffer protocol as an array on them; None for anything else.

    Raises InvalidArgumentError when its memory is not contiguous.
    """
    if isinstance(thing, np.ndarray):
        array = thing
    else:
        try:
            view = memoryview(thing)
        except TypeError:
            return None
        if not view.c_contiguous:
            raise InvalidArgumentError(f"this {type(thing).__name__} is not contiguous")
        array = np.frombuffer(view.cast("B"), np.uint8) if view.nbytes else np.empty(0, np.uint8)
    if not array.flags.c_contiguous or array.dtype.hasobject:
        raise InvalidArgumentError("an array in host memory has to be contiguous, and its elements have to be bytes")
    return array.reshape(-1).view(np.uint8)


def address_of(thing: Any) -> tuple[int, Any]:
    """Return where the memory of an object is, and what keeps it there; the order of the cases is hip-python's.

    Raises ArgumentTypeError when it is none of these: None, a ctypes.c_void_p, something with the buffer protocol, with
    ``__cuda_array_interface__``, ``__sycl_usm_array_interface__`` or ``__dlpack__``, a pointer object, an int,
    something with ``as_c_void_p()``.
    """
    if thing is None:
        return 0, None
    if isinstance(thing, Address):
        return thing.address, getattr(thing, "_owner", thing)
    if isinstance(thing, ctypes.c_void_p):
        return thing.value or 0, None
    if isinstance(thing, (int, np.integer)):
        return int(thing), None
    if isinstance(thing, ctypes._Pointer) or type(thing).__name__ == "CArgObject":  # ctypes.byref
        return ctypes.cast(thing, ctypes.c_void_p).value or 0, thing
    for interface in ("__cuda_array_interface__", "__sycl_usm_array_interface__"):
        described = getattr(thing, interface, None)
        if described is not None:
            return int(described["data"][0]), thing
    view = host_view(thing)
    if view is not None:
        return view.ctypes.data, view
    if hasattr(thing, "__dlpack__"):
        capsule = thing.__dlpack__()
        return _dlpack_address(capsule), capsule
    if hasattr(thing, "as_c_void_p"):
        return thing.as_c_void_p().value or 0, thing
    raise ArgumentTypeError(f"{type(thing).__name__} is not a pointer and cannot be converted to one")


def handle_number(thing: Any, what: str) -> int:
    """Return the number of a stream, an event, a module and so on; 0 for a null pointer, see `is_null`.

    Raises ArgumentTypeError when it is none of these: a handle object, an int, a ctypes.c_void_p, something with
    ``as_c_void_p()``.
    """
    if isinstance(thing, (Address, Number)):
        return thing.address
    if is_null(thing):
        return 0
    if isinstance(thing, (int, np.integer)):
        return int(thing)
    pointer = thing.as_c_void_p() if hasattr(thing, "as_c_void_p") else thing
    if isinstance(pointer, ctypes.c_void_p):
        return pointer.value or 0
    raise ArgumentTypeError(f"{what} is a handle or its number, not {type(thing).__name__}")


@functools.total_ordering
class Number:
    """What pointers and handles have in common: they compare, hash and convert like their address."""

    __slots__ = ()
    address: int

    def __init__(self, address: Any = 0) -> None:
        self.address = int(address)  # type: ignore[misc]

    def __int__(self) -> int:
        return self.address

    __index__ = __int__

    def __bool__(self) -> bool:
        return self.address != 0

    @property
    def is_ptr_null(self) -> bool:
        """Whether it points nowhere."""
        return self.address == 0

    def as_c_void_p(self) -> ctypes.c_void_p:
        """Return it as a ctypes.c_void_p."""
        return ctypes.c_void_p(self.address)

    def createRef(self) -> Pointer:
        """Return a pointer to a place in host memory that holds this address."""
        return Pointer(ctypes.c_uint64(self.address))

    def __eq__(self, other: object) -> Any:
        value = _value(other)
        return NotImplemented if value is None else self.address == value

    def __lt__(self, other: object) -> Any:
        value = _value(other)
        return NotImplemented if value is None else self.address < value

    def __hash__(self) -> int:
        return hash(self.address)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address:#x}>"


class Pointer(Number, Located):
    """An address. Made from anything that has one, see `address_of`; compares, hashes and adds like it.

    ``pointer + n`` is n bytes further on, ``pointer - other`` the distance in bytes. What it was made from is kept
    alive; memory of the device is not: `hipFree` gives that back.
    """

    __slots__ = ()

    def __init__(self, pyobj: Any = None) -> None:
        self.address: int
        self.address, self._owner = address_of(pyobj)
        if isinstance(pyobj, Address):
            self.buffer: Buffer = pyobj.buffer

    @classmethod
    def fromObj(cls: type[ThisPointer], pyobj: Any) -> ThisPointer:
        """Return it when it is one already, else make one of it."""
        return pyobj if type(pyobj) is cls else cls(pyobj)

    def __add__(self, nbytes: Any) -> Pointer:
        if not isinstance(nbytes, (int, np.integer)):
            return NotImplemented
        moved = Pointer(self.address + int(nbytes))
        moved._owner = self._owner
        return moved

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Address):
            return self.address - other.address
        return self + -int(other) if isinstance(other, (int, np.integer)) else NotImplemented


def _value(other: object) -> int | None:
    if isinstance(other, (Address, Number)):
        return other.address
    if other is None:
        return 0
    return other if isinstance(other, int) else None


def _check_layout(described: dict[str, Any], shape: Shape, itemsize: int) -> None:
    """Refuse what a shape and an address do not say of memory. Each element would be looked for elsewhere."""
    strides, mask, offset = described.get("strides"), described.get("mask"), described.get("offset")
    if mask is not None or offset:
        raise InvalidArgumentError("NDBuffer: __cuda_array_interface__ has a mask or an offset: pass a copy of it")
    if strides is not None and not are_contiguous(shape, tuple(strides), itemsize):
        raise InvalidArgumentError(
            f"NDBuffer: __cuda_array_interface__ is not C-contiguous (shape {shape}, strides {tuple(strides)} bytes): "
            "pass a contiguous copy of it"
        )


class NDBuffer(Pointer):
    """A pointer that knows the shape and the element type of the contiguous array there; bytes at first."""

    __slots__ = ()

    def __init__(self, pyobj: Any = None, shape: Shape = (1,), typestr: str = "|u1", itemsize: int = 1) -> None:
        super().__init__(pyobj)
        self._shape, self._typestr, self._itemsize = shape, typestr, itemsize
        described = getattr(pyobj, "__cuda_array_interface__", None)
        if described is not None:
            self._shape, self._typestr = read_shape(described["shape"]), described["typestr"]
            self._itemsize = np.dtype(self._typestr).itemsize
            _check_layout(described, self._shape, self._itemsize)
            self._read_only, self._stream = bool(described["data"][1]), described.get("stream")

    @property
    def shape(self) -> Shape:
        """Extents of the array."""
        shape: Shape = self._shape
        return shape

    @property
    def rank(self) -> int:
        """Number of its dimensions."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of its elements."""
        return math.prod(self._shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._itemsize

    @property
    def typestr(self) -> str:
        """NumPy's string for the type of its elements, or a name that NumPy knows."""
        return self._typestr

    @property
    def is_read_only(self) -> bool:
        """What ``__cuda_array_interface__`` says of it."""
        return self._read_only

    @property
    def stream_as_int(self) -> int:
        """The stream to synchronize with before the array is used, 0 for none."""
        return self._stream or 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self._shape,
            "typestr": np.dtype(self._typestr).str,
            "data": (self.address, self._read_only),
            "strides": None,
            "version": 3,
            "stream": self._stream,
        }

    def configure(
        self: ThisArray,
        *,
        shape: Any = None,
        typestr: str | None = None,
        stream: int | None = None,
        itemsize: int | None = None,
        read_only: bool | None = None,
        _force: bool = False,
    ) -> ThisArray:
        """Say what is there, and return it; whatever is not given stays as it is.

        Raises
        ------
        InvalidArgumentError
            When that would be another number of bytes; ``_force=True`` allows it.
        """
        old = self.size * self._itemsize
        new_type = self._typestr if typestr is None else typestr
        new_itemsize = self._itemsize if itemsize is None and typestr is None else itemsize
        if new_itemsize is None:
            try:
                new_itemsize = np.dtype(new_type).itemsize
            except TypeError as error:
                raise ArgumentTypeError(f"configure: typestr: {error}") from None
        if shape is None:
            new_shape = self._shape if new_itemsize == self._itemsize else (old // new_itemsize,)
        else:
            new_shape = read_shape(shape)
        new = math.prod(new_shape) * new_itemsize
        if new != old and not _force:
            raise InvalidArgumentError(f"configure: {new} bytes instead of {old}; _force=True allows that")
        self._shape, self._typestr, self._itemsize = new_shape, new_type, new_itemsize
        self._stream = self._stream if stream is None else stream
        self._read_only = self._read_only if read_only is None else read_only
        return self

    def __forebay_buffer__(self) -> Buffer:
        """Return the Buffer that begins there, with this shape and element type."""
        known: Buffer = super().__forebay_buffer__()[: self.size * self._itemsize]
        return known.view(np.dtype(self._typestr)).reshape(self._shape)

    def __getitem__(self, key: Any) -> NDBuffer:
        """Return a contiguous part: ints, and slices with step 1, as in NumPy; what is left out is whole."""
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > len(self._shape):
            raise InvalidArgumentError(f"{len(keys)} subscripts for {len(self._shape)} dimensions")
        shape: list[int] = []
        offset, whole = 0, True
        for axis in reversed(range(len(self._shape))):
            extent, stride = self._shape[axis], math.prod(self._shape[axis + 1 :])
            subscript = keys[axis] if axis < len(keys) else slice(None)
            if isinstance(subscript, slice):
                start, stop, step = subscript.indices(extent)
                if step != 1:
                    raise InvalidArgumentError(f"subscript {subscript} is not contiguous: its step is {step}")
                length = max(stop - start, 0)
                if not whole and length > 1:
                    raise InvalidArgumentError(f"{key} is not contiguous")
                shape.insert(0, length)
            else:
                start, length = range(extent)[read_int(subscript, "an NDBuffer is indexed by ints and slices")], 1
            whole = whole and length == extent
            offset += start * stride
        part = NDBuffer(self.address + offset * self._itemsize, tuple(shape), self._typestr, self._itemsize)
        part._owner = self._owner
        return part

    def __len__(self) -> int:
        return self._shape[0] if self._shape else 0

    def _host_array(self) -> np.ndarray[Any, Any]:
        """Return the array there, for a `memoryview`, or raise TypeError for a null pointer."""
        if not self:
            raise TypeError("a null pointer is no buffer")
        memory: Any = (ctypes.c_ubyte * (self.size * self._itemsize)).from_address(self.address)
        memory.owner = self
        array: np.ndarray[Any, Any] = np.ndarray(self._shape, self._typestr, memory)
        array.flags.writeable = not self._read_only
        return array


ThisArray = TypeVar("ThisArray", bound=NDBuffer)


class DeviceArray(NDBuffer):
    """What `hipMalloc` and its kin return."""

    __slots__ = ()


class HostArray(DeviceArray):
    """What `hipHostMalloc` and `hipMallocManaged` return: ``numpy.asarray`` of it is an array on this memory."""

    __slots__ = ()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.__cuda_array_interface__


hipDeviceptr_t = Pointer
