"""hip-python's types for arguments of C: `CStr`, `ListOfPointer`, `PointerToInt` and their like.

Functions here need none of them: each takes what they are made from, too. They are pointers to memory of the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar

from forebay.core.errors import InvalidArgumentError
from forebay.hip.pointers import DeviceArray, NDBuffer, Pointer

__all__ = ["CStr", "DeviceArray", "ListOfBytes", "ListOfPointer", "NDBuffer", "Pointer"]

ThisList = TypeVar("ThisList", bound="_List")


class CStr(NDBuffer):
    """A text of C: made from str or bytes, or from a pointer to one that ends with a zero. `len` counts its bytes."""

    def __init__(self, pyobj: Any = None) -> None:
        data = pyobj.encode() if isinstance(pyobj, str) else pyobj
        super().__init__(ctypes.create_string_buffer(data) if isinstance(data, bytes) else data)
        self._shape = (len(bytes(self)),)

    def malloc(self, content_len: int) -> None:
        """Point to that many zeros, and one that ends them."""
        CStr.__init__(self, bytes(content_len))
        self._shape = (content_len,)

    def free(self) -> None:
        """Point nowhere."""
        CStr.__init__(self)

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the text in this encoding, as str does."""
        return str(self).encode(encoding, errors)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the text, as bytes do."""
        return bytes(self).decode(encoding, errors)

    def __bytes__(self) -> bytes:
        return ctypes.string_at(self.address) if self.address else b""

    def __str__(self) -> str:
        return self.decode(errors="replace")

    def __len__(self) -> int:
        return len(bytes(self))

    def __getitem__(self, key: Any) -> Any:
        return str(self)[key]


class _List(Pointer):
    """An array of C: made from a list or a tuple, or from a pointer to one, whose length is not known."""

    _element: ClassVar[Any] = ctypes.c_void_p
    _kind: ClassVar[Any] = None  # of pointers, what each is made of

    def __init__(self, pyobj: Any = None) -> None:
        self._items: Any = getattr(pyobj, "_items", None)
        if isinstance(pyobj, (list, tuple)):
            self._given = pyobj if self._kind is None else [self._kind(each) for each in pyobj]
            self._items = (self._element * len(pyobj))(*map(int, self._given))
        super().__init__(pyobj if self._items is None else self._items)

    @classmethod
    def allocate(cls: type[ThisList], count: int = 1) -> ThisList:
        """Return an array of `count` zeros, or null pointers."""
        return cls([0 if cls._kind is None else None] * count)

    def to_list(self) -> list[Any]:
        """Return the elements.

        Raises
        ------
        InvalidArgumentError
            When it was made from a pointer.
        """
        if self._items is None:
            raise InvalidArgumentError(f"a {type(self).__name__} that was made from a pointer has no known length")
        kind = self._kind
        return [each if kind is None else kind(ctypes.c_void_p(each)) for each in self._items]

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the elements, as `to_list` does."""
        return tuple(self.to_list())

    def __len__(self) -> int:
        return len(self.to_list())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_list())

    def __getitem__(self, key: Any) -> Any:
        return self.to_list()[key]


class ListOfPointer(_List):
    """An array of addresses, of anything that has one."""

    _kind = Pointer


class ListOfBytes(_List):
    """An array of texts: str, bytes or `CStr`."""

    _kind = CStr


class _One(_List):
    """A pointer to one number."""

    def __init__(self, pyobj: Any = None) -> None:
        if isinstance(pyobj, (list, tuple)) and len(pyobj) != 1:
            raise InvalidArgumentError(f"{type(self).__name__} points to one number ({len(pyobj)} given)")
        super().__init__(pyobj)

    def _number(self) -> Any:
        if not self:
            raise InvalidArgumentError(f"this {type(self).__name__} is a null pointer")
        return self._element.from_address(self.address)

    @property
    def value(self) -> Any:
        """The number; InvalidArgumentError for a null pointer."""
        return self._number().value

    @value.setter
    def value(self, number: int) -> None:
        self._number().value = number


for _name, _element in {
    "Int": ctypes.c_int,
    "Unsigned": ctypes.c_uint,
    "Long": ctypes.c_long,
    "UnsignedLong": ctypes.c_ulong,
    "Int64": ctypes.c_int64,
    "UInt64": ctypes.c_uint64,
}.items():
    _members: dict[str, Any] = {"_element": _element, "__module__": __name__}
    _several = type(f"ListOf{_name}", (_List,), {**_members, "__doc__": f"An array of {_element.__name__}."})
    _one = type(f"PointerTo{_name}", (_One, _several), {**_members, "__doc__": f"A pointer to a {_element.__name__}."})
    globals().update({_several.__name__: _several, _one.__name__: _one})
    __all__ += [_several.__name__, _one.__name__]
