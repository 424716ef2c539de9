"""Arrays: memory for textures and surfaces, of one, two or three dimensions, with layers or the faces of cubes.

They are memory of the device as any other, in rows without gaps.
"""

from __future__ import annotations

from typing import Any

from forebay.hip import allocations
from forebay.hip.allocations import Allocation
from forebay.hip.devices import _on_reset, current_device, current_number, device_of
from forebay.hip.errors import HipError, api, check_params
from forebay.hip.facts import (
    HIP_ARRAY3D_DESCRIPTOR,
    HIP_ARRAY_DESCRIPTOR,
    hipArrayCubemap,
    hipArrayLayered,
    hipArraySurfaceLoadStore,
    hipArrayTextureGather,
    hipChannelFormatDesc,
    hipError_t,
    hipExtent,
    hipMemoryType,
)
from forebay.hip.hardware import (
    MOST_1D,
    MOST_2D,
    MOST_3D,
    MOST_LAYERS,
    has_textures,
)
from forebay.hip.memory import size_of
from forebay.hip.pointers import Number, Pointer, handle_number
from forebay.hip.transfers_formats import Format
from forebay.queues.capture_rules import refuse_unsafe
from forebay.queues.device import finish_all

FACES = 6
FLAGS = hipArrayLayered | hipArrayCubemap | hipArraySurfaceLoadStore | hipArrayTextureGather
Invalid = hipError_t.hipErrorInvalidValue

_arrays: dict[int, hipArray] = {}


class hipArray(Number):
    """An array; compares, hashes and converts like its number.

    Attributes
    ----------
    format : Format
    width, height, depth : int
        In elements, as they were given: 0 for a dimension that there is not. The depth counts layers or faces, too.
    flags : int
    row, rows, slices : int
        Bytes of a row, rows of a plane or layer, and planes or layers.
    objects : set of int
        The texture and surface objects made of it.
    """

    def __init__(self, format: Format, width: int, height: int, depth: int, flags: int) -> None:
        self.format, self.width, self.height, self.depth, self.flags = format, width, height, depth, flags
        self.row, self.rows, self.slices = width * format.nbytes, max(height, 1), max(depth, 1)
        self.objects: set[int] = set()
        memory = current_device().empty(self.row * self.rows * self.slices, "u1")
        self.allocation = Allocation(memory, hipMemoryType.hipMemoryTypeArray, current_number())
        self.address = self.allocation.base
        allocations.enter(self.allocation)
        _arrays[self.address] = self

    @property
    def layered(self) -> bool:
        """Whether the depth counts layers."""
        return bool(self.flags & (hipArrayLayered | hipArrayCubemap))

    def pointer(self) -> Pointer:
        """Return where it begins, for copies."""
        pointer = Pointer(self.address)
        pointer.buffer, pointer._owner = self.allocation.memory, self.allocation
        return pointer

    def check_part(self, position: tuple[int, int, int], extent: tuple[int, int, int]) -> None:
        """Raise when bytes, rows and planes from a position on are not all in it; hipErrorInvalidValue."""
        there = self.row, self.rows, self.slices
        if any(at + count > most for at, count, most in zip(position, extent, there, strict=True)):
            raise HipError(Invalid, f"{extent} bytes, rows and planes from {position} on: the array has {there}")


def _forget(number: int) -> None:
    for array in list(_arrays.values()):
        if array.allocation.device == number:
            _arrays.pop(array.address, None)


_on_reset.append(_forget)


def need_textures(what: str) -> None:
    """Raise hipErrorNotSupported where kernels cannot have textures."""
    if not has_textures(current_device()):
        raise HipError(
            hipError_t.hipErrorNotSupported,
            f"{what}: this device has no textures, because it takes no HIP C++ or has no addresses; instead: "
            "hipMalloc or hipMallocPitch",
        )


def array_of(array: Any, freed: hipError_t = hipError_t.hipErrorContextIsDestroyed) -> hipArray:
    """Return the array of this handle; hipErrorInvalidHandle for None, and `freed` for one that was freed."""
    number = handle_number(array, "an array")
    if number == 0:
        raise HipError(hipError_t.hipErrorInvalidHandle, "the array is null")
    known = _arrays.get(number)
    if known is None:
        raise HipError(freed, f"array {number:#x} was freed, or never was one")
    return known


def _check_extent(width: int, height: int, depth: int, flags: int) -> None:
    layered = bool(flags & (hipArrayLayered | hipArrayCubemap))
    if width == 0 or flags & ~FLAGS or (depth and not height and not layered):
        raise HipError(Invalid, f"no array has {width} x {height} x {depth} elements and flags {flags!r}")
    if layered and depth == 0:
        raise HipError(Invalid, "an array of no layers")
    if flags & hipArrayCubemap and (
        width != height or depth % FACES or (depth != FACES and not flags & hipArrayLayered)
    ):
        raise HipError(Invalid, f"{width} x {height} x {depth} elements are no faces of cubes")
    if flags & hipArrayTextureGather and (height == 0 or depth):
        raise HipError(Invalid, "hipArrayTextureGather is for arrays of two dimensions")
    if layered:
        most = (*(MOST_2D if height else (MOST_1D, 0)), MOST_LAYERS)
    elif depth:
        most = MOST_3D
    else:
        most = (*(MOST_2D if height else (MOST_1D, 0)), 0)
    if any(extent > limit for extent, limit in zip((width, height, depth), most, strict=True)):
        raise HipError(Invalid, f"{width} x {height} x {depth} elements: an array has at most {most}")


def _make(what: str, format: Format, width: Any, height: Any, depth: Any, flags: Any) -> hipArray:
    need_textures(what)
    extent = size_of(width), size_of(height), size_of(depth)
    _check_extent(*extent, flags)
    return hipArray(format, *extent, flags)


@api(outputs=1)
def hipMallocArray(desc: Any, width: int, height: int = 0, flags: int = 0) -> hipArray:
    """Allocate an array of one or two dimensions on the current device; ``(hipError_t, array)``.

    Parameters
    ----------
    desc : hipChannelFormatDesc
    width, height : int
        In elements; a height of 0 for one dimension.
    flags : int
        hipArraySurfaceLoadStore and hipArrayTextureGather make no difference.

    hipErrorInvalidValue for elements that HIP does not have, an empty or too large array and other flags;
    hipErrorOutOfMemory; hipErrorNotSupported where hipDeviceAttributeImageSupport is 0.
    """
    if flags & (hipArrayLayered | hipArrayCubemap):
        raise HipError(Invalid, "layers and faces are made by hipMalloc3DArray")
    return _make("hipMallocArray", Format.of_description(desc), width, height, 0, flags)


@api(outputs=1)
def hipMalloc3DArray(desc: Any, extent: Any, flags: int = 0) -> hipArray:
    """Allocate an array of up to three dimensions; ``(hipError_t, array)``. Errors as `hipMallocArray`.

    `desc` is a hipChannelFormatDesc, and `flags` hipArrayLayered, hipArrayCubemap and those of `hipMallocArray`.

    Parameters
    ----------
    extent : hipExtent
        In elements. With hipArrayLayered the depth counts layers, with hipArrayCubemap the faces of cubes.
    """
    check_params(extent, hipExtent)
    return _make("hipMalloc3DArray", Format.of_description(desc), extent.width, extent.height, extent.depth, flags)


@api(outputs=1)
def hipArrayCreate(pAllocateArray: Any) -> hipArray:
    """Allocate the array that a `HIP_ARRAY_DESCRIPTOR` describes; ``(hipError_t, array)``. See `hipMallocArray`.

    `pAllocateArray` is that descriptor: width and height in elements. hipErrorInvalidValue for None.
    """
    given = pAllocateArray
    check_params(given, HIP_ARRAY_DESCRIPTOR)
    format = Format.of_array_format(given["Format"], given["NumChannels"])
    return _make("hipArrayCreate", format, given["Width"], given["Height"], 0, 0)


@api(outputs=1)
def hipArray3DCreate(pAllocateArray: Any) -> hipArray:
    """Allocate the array that a `HIP_ARRAY3D_DESCRIPTOR` describes; ``(hipError_t, array)``. See `hipMalloc3DArray`.

    `pAllocateArray` is that descriptor: width, height and depth in elements. hipErrorInvalidValue for None.
    """
    given = pAllocateArray
    check_params(given, HIP_ARRAY3D_DESCRIPTOR)
    format = Format.of_array_format(given["Format"], given["NumChannels"])
    return _make("hipArray3DCreate", format, given["Width"], given["Height"], given["Depth"], given["Flags"])


def _free(array: Any) -> None:
    known = array_of(array)
    refuse_unsafe("hipFreeArray")
    finish_all(device_of(known.allocation.device))
    if _arrays.pop(known.address, None) is not known:
        raise HipError(hipError_t.hipErrorContextIsDestroyed, "another thread has just freed it")
    allocations.take(known.address)
    # What kernels would find there is not theirs any more: a launch with such an object is an error.
    for address in list(known.objects):
        if (found := allocations.take(address)) is not None:
            found.close()
    known.allocation.close()


@api()
def hipFreeArray(array: Any) -> None:
    """Give an array back, after everything submitted to its device is done; ``(hipError_t,)``. Blocks for that.

    Texture and surface objects made of it can only be destroyed then: a launch with one gets hipErrorInvalidValue.
    hipErrorInvalidValue for None, hipErrorContextIsDestroyed for one that was freed before.
    """
    if handle_number(array, "an array") == 0:
        raise HipError(Invalid, "the array is null")
    _free(array)


@api()
def hipArrayDestroy(array: Any) -> None:
    """Do what `hipFreeArray` does; ``(hipError_t,)``.

    `array` is what `hipArrayCreate` or another function allocated. Blocks and fails as `hipFreeArray`.
    """
    if handle_number(array, "an array") == 0:
        raise HipError(Invalid, "the array is null")
    _free(array)


@api(outputs=1)
def hipArrayGetDescriptor(array: Any) -> HIP_ARRAY_DESCRIPTOR:
    """Return ``(hipError_t, HIP_ARRAY_DESCRIPTOR)``; hipErrorInvalidHandle for None and for one that was freed.

    `array` is one of one or two dimensions; of another the depth is left out.
    """
    known = array_of(array, hipError_t.hipErrorInvalidHandle)
    return HIP_ARRAY_DESCRIPTOR(known.width, known.height, known.format.array_format, known.format.channels)


@api(outputs=1)
def hipArray3DGetDescriptor(array: Any) -> HIP_ARRAY3D_DESCRIPTOR:
    """Return ``(hipError_t, HIP_ARRAY3D_DESCRIPTOR)``; hipErrorInvalidHandle for None and for one that was freed.

    `array` is any array.
    """
    known = array_of(array, hipError_t.hipErrorInvalidHandle)
    return HIP_ARRAY3D_DESCRIPTOR(
        known.width, known.height, known.depth, known.format.array_format, known.format.channels, known.flags
    )


@api(outputs=3)
def hipArrayGetInfo(array: Any) -> tuple[hipChannelFormatDesc, hipExtent, int]:
    """Return ``(hipError_t, hipChannelFormatDesc, hipExtent, flags)``; errors as `hipArrayGetDescriptor`.

    `array` is any array.
    """
    known = array_of(array, hipError_t.hipErrorInvalidHandle)
    return known.format.description, hipExtent(known.width, known.height, known.depth), known.flags


@api(outputs=1)
def hipGetChannelDesc(array: Any) -> hipChannelFormatDesc:
    """Return ``(hipError_t, hipChannelFormatDesc)`` of an array; errors as `hipArrayGetDescriptor`."""
    return array_of(array, hipError_t.hipErrorInvalidHandle).format.description
