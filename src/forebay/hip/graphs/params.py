"""What nodes of graphs are made from: HIP's structures, as in hip-python with values by position or by name."""

from __future__ import annotations

from typing import Any, ClassVar

from forebay.core.errors import ArgumentTypeError
from forebay.hip.modules import dim3
from forebay.hip.transfers.params import Record, hipMemPoolProps

__all__ = [
    "hipHostNodeParams",
    "hipKernelNodeParams",
    "hipMemAllocNodeParams",
    "hipMemsetParams",
]


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

    _members: ClassVar[dict[str, Any]] = {"fn": None, "userData": lambda: None}  # no pointer, but any object
    fn: Any
    userData: Any


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


def extents_of(given: Any) -> tuple[int, ...]:
    """Return three extents of a grid or a block."""
    values = (given,) if isinstance(given, int) or not hasattr(given, "__iter__") else tuple(given)
    if len(values) > 3:
        raise ArgumentTypeError(f"a grid or a block has 1 to 3 extents, not {len(values)}")
    return tuple(dim3(*values))
