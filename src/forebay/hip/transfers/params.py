"""Structures for copies and for memory: HIP's, as in hip-python with values by position or by name."""

from __future__ import annotations

from typing import Any, ClassVar

from forebay.core.errors import ArgumentTypeError
from forebay.hip.compiled.handles import is_null
from forebay.hip.enums import hipError_t, hipMemAllocationType, hipMemcpyKind, hipMemLocationType, hipMemoryType
from forebay.hip.errors import HipError

__all__ = [
    "HIP_MEMCPY3D",
    "hipExtent",
    "hipMemAccessDesc",
    "hipMemLocation",
    "hipMemPoolProps",
    "hipMemcpy3DParms",
    "hipMemcpy3DPeerParms",
    "hipPitchedPtr",
    "hipPos",
    "hip_Memcpy2D",
]


class Record:
    """Members that are 0, None or empty until they are set. None is for pointers: it stands for every null pointer."""

    _members: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        if len(args) > len(self._members):
            raise ArgumentTypeError(f"{name} has {len(self._members)} members ({len(args)} given)")
        given = dict(zip(self._members, args, strict=False))
        for member, value in kwargs.items():
            if member not in self._members or member in given:
                raise ArgumentTypeError(f"{name}: {member!r} is {'given twice' if member in given else 'no member'}")
            given[member] = value
        for member, default in self._members.items():
            if member in given:
                setattr(self, member, given[member])
            else:
                setattr(self, member, default() if callable(default) else default)

    def __setattr__(self, name: str, value: Any) -> None:
        is_pointer = self._members.get(name, 0) is None
        super().__setattr__(name, None if is_pointer and is_null(value) else value)

    @classmethod
    def PROPERTIES(cls) -> list[str]:
        """Return the names of the members."""
        return list(cls._members)

    def copy(self) -> Any:
        """Return a copy, of members that are structures too."""
        made = type(self).__new__(type(self))
        for name in self._members:
            member = self[name]
            setattr(made, name, member.copy() if isinstance(member, (Record, list)) else member)
        return made

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self[name]!r}' for name in self._members)})"


class hipExtent(Record):
    """How much is copied: `width` bytes, `height` rows, `depth` planes."""

    _members: ClassVar[dict[str, Any]] = {"width": 0, "height": 0, "depth": 0}
    width: int
    height: int
    depth: int


class hipPos(Record):
    """Where in memory a copy begins: byte `x` of row `y` of plane `z`."""

    _members: ClassVar[dict[str, Any]] = {"x": 0, "y": 0, "z": 0}
    x: int
    y: int
    z: int


class hipPitchedPtr(Record):
    """Memory in rows: rows are `pitch` bytes apart, planes `ysize` rows."""

    _members: ClassVar[dict[str, Any]] = {"ptr": None, "pitch": 0, "xsize": 0, "ysize": 0}
    ptr: Any
    pitch: int
    xsize: int
    ysize: int


class hipMemcpy3DParms(Record):
    """A copy of rows and planes between two places in memory.

    Attributes
    ----------
    srcPos, dstPos : hipPos
    srcPtr, dstPtr : hipPitchedPtr
    extent : hipExtent
    kind : hipMemcpyKind
    srcArray, dstArray
        An array in place of the pointer of that side. The extent is in its elements then, and its position, too.
    """

    _members: ClassVar[dict[str, Any]] = {
        "srcArray": None,
        "srcPos": hipPos,
        "srcPtr": hipPitchedPtr,
        "dstArray": None,
        "dstPos": hipPos,
        "dstPtr": hipPitchedPtr,
        "extent": hipExtent,
        "kind": hipMemcpyKind.hipMemcpyDefault,
    }
    srcArray: Any
    srcPos: hipPos
    srcPtr: hipPitchedPtr
    dstArray: Any
    dstPos: hipPos
    dstPtr: hipPitchedPtr
    extent: hipExtent
    kind: Any


class hipMemLocation(Record):
    """Where memory is: `type` is a hipMemLocationType, and `id` the number of the device."""

    _members: ClassVar[dict[str, Any]] = {"type": hipMemLocationType.hipMemLocationTypeInvalid, "id": 0}
    type: Any
    id: int


class hipMemPoolProps(Record):
    """What kind of memory a pool has, or a graph allocates.

    Attributes
    ----------
    allocType : hipMemAllocationType
    handleTypes, win32SecurityAttributes, maxSize
        Make no difference.
    location : hipMemLocation
    """

    _members: ClassVar[dict[str, Any]] = {
        "allocType": hipMemAllocationType.hipMemAllocationTypeInvalid,
        "handleTypes": 0,
        "location": hipMemLocation,
        "win32SecurityAttributes": None,
        "maxSize": 0,
    }
    allocType: Any
    handleTypes: Any
    location: hipMemLocation
    win32SecurityAttributes: Any
    maxSize: int


class hipMemAccessDesc(Record):
    """Who may use memory: a hipMemLocation, and `flags`."""

    _members: ClassVar[dict[str, Any]] = {"location": hipMemLocation, "flags": 0}
    location: hipMemLocation
    flags: Any


def check_params(params: Any, kind: type[Record]) -> None:
    """Raise for anything but a structure of this kind.

    Raises
    ------
    HipError
        hipErrorInvalidValue for None.
    ArgumentTypeError
    """
    if params is None:
        raise HipError(hipError_t.hipErrorInvalidValue, f"there is no {kind.__name__}: None")
    if not isinstance(params, kind):
        raise ArgumentTypeError(f"this takes a {kind.__name__}, not {type(params).__name__}")


class hipMemcpy3DPeerParms(Record):
    """A copy of rows and planes between the memory of two devices, given by number; else as `hipMemcpy3DParms`."""

    _members: ClassVar[dict[str, Any]] = {
        "srcArray": None,
        "srcPos": hipPos,
        "srcPtr": hipPitchedPtr,
        "srcDevice": 0,
        "dstArray": None,
        "dstPos": hipPos,
        "dstPtr": hipPitchedPtr,
        "dstDevice": 0,
        "extent": hipExtent,
    }
    srcArray: Any
    srcPos: hipPos
    srcPtr: hipPitchedPtr
    srcDevice: int
    dstArray: Any
    dstPos: hipPos
    dstPtr: hipPitchedPtr
    dstDevice: int
    extent: hipExtent


def _sides(*names: str) -> dict[str, Any]:
    """Return the members of either side of a copy, each None or 0 at first."""
    own = {"MemoryType": hipMemoryType.hipMemoryTypeUnregistered, "Host": None, "Device": None, "Array": None}
    return {side + name: own.get(name, 0) for side in ("src", "dst") for name in names}


class hip_Memcpy2D(Record):
    """A copy of rows, for `hipMemcpyParam2D`.

    For either side, ``src`` and ``dst``: XInBytes and Y, where it begins; MemoryType, a hipMemoryType that says which
    of Host, Device and Array has the pointer; Pitch. WidthInBytes and Height are the extent.
    """

    _members: ClassVar[dict[str, Any]] = {
        **_sides("XInBytes", "Y", "MemoryType", "Host", "Device", "Array", "Pitch"),
        "WidthInBytes": 0,
        "Height": 0,
    }


class HIP_MEMCPY3D(Record):
    """A copy of rows and planes, for `hipDrvMemcpy3D`: `hip_Memcpy2D` with Z, LOD and Height for either side."""

    _members: ClassVar[dict[str, Any]] = {
        **_sides("XInBytes", "Y", "Z", "LOD", "MemoryType", "Host", "Device", "Array", "Pitch", "Height"),
        "WidthInBytes": 0,
        "Height": 0,
        "Depth": 0,
    }
