"""What nodes of graphs are made from: HIP's structures, as in hip-python with values by position or by name."""

from __future__ import annotations

from typing import Any, ClassVar

from forebay.core.errors import ArgumentTypeError
from forebay.hip.enums import hipError_t, hipMemAllocationType, hipMemcpyKind, hipMemLocationType
from forebay.hip.errors import HipError
from forebay.hip.modules import dim3

__all__ = [
    "hipExtent",
    "hipHostNodeParams",
    "hipKernelNodeParams",
    "hipMemAccessDesc",
    "hipMemAllocNodeParams",
    "hipMemLocation",
    "hipMemPoolProps",
    "hipMemcpy3DParms",
    "hipMemsetParams",
    "hipPitchedPtr",
    "hipPos",
]


class Record:
    """Members that are 0, None or empty until they are set."""

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
            setattr(self, member, given.get(member, default() if callable(default) else default))

    @classmethod
    def PROPERTIES(cls) -> list[str]:
        """Return the names of the members."""
        return list(cls._members)

    def copy(self) -> Any:
        """Return a copy, of members that are structures too."""
        members = {name: self[name] for name in self._members}
        return type(self)(
            **{name: member.copy() if isinstance(member, Record) else member for name, member in members.items()}
        )

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self[name]!r}' for name in self._members)})"


class hipKernelNodeParams(Record):
    """A launch.

    Attributes
    ----------
    blockDim, gridDim : dim3
        Or an int, or a tuple of up to three.
    func : ihipModuleSymbol_t
    kernelParams, extra
        As for `hipModuleLaunchKernel`.
    sharedMemBytes : int
    """

    _members: ClassVar[dict[str, Any]] = {
        "blockDim": dim3,
        "extra": None,
        "func": None,
        "gridDim": dim3,
        "kernelParams": None,
        "sharedMemBytes": 0,
    }
    blockDim: Any
    extra: Any
    func: Any
    gridDim: Any
    kernelParams: Any
    sharedMemBytes: int


class hipMemsetParams(Record):
    """Setting rows of memory to a value.

    Attributes
    ----------
    dst : pointer
    elementSize : int
        1, 2 or 4 bytes.
    height : int
        Rows.
    pitch : int
        Bytes from one row to the next; only looked at when there are several.
    value : int
    width : int
        Elements in a row.
    """

    _members: ClassVar[dict[str, Any]] = {
        "dst": None,
        "elementSize": 0,
        "height": 0,
        "pitch": 0,
        "value": 0,
        "width": 0,
    }
    dst: Any
    elementSize: int
    height: int
    pitch: int
    value: int
    width: int


class hipHostNodeParams(Record):
    """A host function.

    Attributes
    ----------
    fn : callable, ctypes function pointer, or the address of a C function
    userData : object
        See `hipLaunchHostFunc`.
    """

    _members: ClassVar[dict[str, Any]] = {"fn": None, "userData": None}
    fn: Any
    userData: Any


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
        For arrays in texture memory. They have to be None: forebay has no such arrays.
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


class hipMemAllocNodeParams(Record):
    """Memory that a graph allocates.

    Attributes
    ----------
    poolProps : hipMemPoolProps
    accessDescs : list of hipMemAccessDesc
        Makes no difference.
    accessDescCount : int
        How many of them there are.
    bytesize : int
    dptr : DeviceArray
        Set by `hipGraphAddMemAllocNode`: the pointer to the memory.
    """

    _members: ClassVar[dict[str, Any]] = {
        "poolProps": hipMemPoolProps,
        "accessDescs": None,
        "accessDescCount": 0,
        "bytesize": 0,
        "dptr": None,
    }
    poolProps: hipMemPoolProps
    accessDescs: Any
    accessDescCount: int
    bytesize: int
    dptr: Any


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


def extents_of(given: Any) -> tuple[int, ...]:
    """Return three extents of a grid or a block."""
    values = (given,) if isinstance(given, int) or not hasattr(given, "__iter__") else tuple(given)
    return tuple(dim3(*values))
