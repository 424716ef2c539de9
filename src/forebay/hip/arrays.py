"""Arrays: memory for textures and surfaces, of one, two or three dimensions, with layers or the faces of cubes.

They are memory of the device as any other, in rows without gaps. An element is up to four channels of one type.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from forebay.hip import allocations, facts
from forebay.hip.allocations import Allocation
from forebay.hip.devices import current_device, current_number, device_of, on_reset
from forebay.hip.errors import HipError, HipFunction, alias, api, check_params, invalid
from forebay.hip.facts import (
    HIP_ARRAY3D_DESCRIPTOR,
    HIP_ARRAY_DESCRIPTOR,
    hipArray_Format,
    hipChannelFormatDesc,
    hipChannelFormatKind,
    hipError_t,
    hipExtent,
    hipMemoryType,
    hipResourceViewFormat,
    words,
)
from forebay.hip.hardware import MOST_1D, MOST_2D, MOST_3D, MOST_LAYERS, has_textures
from forebay.hip.memory import size_of
from forebay.hip.pointers import Number, Pointer, handle_number
from forebay.queues.capture_rules import refuse_unsafe
from forebay.queues.device import finish_all

# By the number that the kernels' headers have for a type (hip/textures/texels.h).
ARRAY_FORMATS = tuple(words(hipArray_Format).values())
TYPES = tuple(words(hipArray_Format))
KINDS = words(hipChannelFormatKind)
CHANNELS = (1, 2, 4)
FIRST_VIEW = hipResourceViewFormat.hipResViewFormatUnsignedChar1


class Format(NamedTuple):
    """The type of the channels, a number into `TYPES`, and how many there are."""

    type: int
    channels: int

    @property
    def nbytes(self) -> int:
        """Bytes of an element."""
        return self.channels * np.dtype(TYPES[self.type]).itemsize

    @property
    def largest(self) -> int:
        """The number that a read as a normalized float makes 1; 0 for types that are not read so."""
        dtype = np.dtype(TYPES[self.type])
        return int(np.iinfo(dtype).max) if dtype.kind != "f" and dtype.itemsize < 4 else 0

    @property
    def is_floating(self) -> bool:
        """Whether the channels are floating numbers."""
        return TYPES[self.type].startswith("f")

    @property
    def description(self) -> hipChannelFormatDesc:
        """HIP's structure for it."""
        bits = np.dtype(TYPES[self.type]).itemsize * 8
        return hipChannelFormatDesc(*(bits * (i < self.channels) for i in range(4)), KINDS[TYPES[self.type][0]])

    @property
    def array_format(self) -> hipArray_Format:
        """HIP's number for the type."""
        return ARRAY_FORMATS[self.type]

    @classmethod
    def of_description(cls, desc: Any) -> Format:
        """Return the format of a hipChannelFormatDesc; hipErrorInvalidValue for one that HIP does not have."""
        check_params(desc, hipChannelFormatDesc)
        bits = [desc.x, desc.y, desc.z, desc.w]
        channels = 4 - bits.count(0)
        letter = next((letter for letter, kind in KINDS.items() if kind == desc.f), "")
        type = f"{letter}{bits[0] // 8}"
        if channels not in CHANNELS or bits != [bits[0]] * channels + [0] * (4 - channels) or type not in TYPES:
            raise invalid(f"no element of an array has these channels: {desc!r}")
        if bits[0] % 8:
            raise invalid(f"channels of {bits[0]} bits")
        return cls(TYPES.index(type), channels)

    @classmethod
    def of_array_format(cls, format: Any, channels: Any) -> Format:
        """Return the format of a hipArray_Format with 1, 2 or 4 channels; hipErrorInvalidValue for any other."""
        if format not in ARRAY_FORMATS or channels not in CHANNELS:
            raise invalid(f"no element has {channels!r} channels of {format!r}")
        return cls(ARRAY_FORMATS.index(format), int(channels))

    @classmethod
    def of_view(cls, format: Any) -> Format:
        """Return the format of a hipResourceViewFormat; hipErrorNotSupported for compressed ones."""
        place, channels = divmod(int(format) - FIRST_VIEW, len(CHANNELS))
        if not 0 <= place < len(TYPES):
            raise HipError(hipError_t.hipErrorNotSupported, f"a view of elements as {format!r}")
        return cls(place, CHANNELS[channels])


@api(outputs=1)
def hipCreateChannelDesc(x: int, y: int, z: int, w: int, f: int) -> hipChannelFormatDesc:
    """Return ``(hipError_t, hipChannelFormatDesc)`` of the bits of four channels and a hipChannelFormatKind.

    `x`, `y`, `z` and `w` are bits of a channel, 0 for none, and `f` is the kind. What HIP does not have is refused
    where it is used.
    """
    return hipChannelFormatDesc(int(x), int(y), int(z), int(w), f)


# -- arrays


FACES = 6
FLAGS = facts.hipArrayLayered | facts.hipArrayCubemap | facts.hipArraySurfaceLoadStore | facts.hipArrayTextureGather

_arrays: dict[int, hipArray] = {}


class hipArray(Number):
    """An array; compares, hashes and converts like its number.

    Attributes
    ----------
    format : Format
    width, height, depth : int
        In elements, as they were given: 0 for an absent dimension. The depth counts layers or faces, too.
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
        return bool(self.flags & (facts.hipArrayLayered | facts.hipArrayCubemap))

    def pointer(self) -> Pointer:
        """Return where it begins, for copies."""
        pointer = Pointer(self.address)
        pointer.buffer, pointer._owner = self.allocation.memory, self.allocation
        return pointer

    def check_part(self, position: tuple[int, int, int], extent: tuple[int, int, int]) -> None:
        """Raise when bytes, rows and planes from a position on are not all in it; hipErrorInvalidValue."""
        there = self.row, self.rows, self.slices
        if any(at + count > most for at, count, most in zip(position, extent, there, strict=True)):
            raise invalid(f"{extent} bytes, rows and planes from {position} on: the array has {there}")


hipArray_t: TypeAlias = hipArray
hipArray_const_t: TypeAlias = hipArray


@on_reset
def _forget(number: int) -> None:
    for array in list(_arrays.values()):
        if array.allocation.device == number:
            _arrays.pop(array.address, None)


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
    layered = bool(flags & (facts.hipArrayLayered | facts.hipArrayCubemap))
    if width == 0 or flags & ~FLAGS or (depth and not height and not layered):
        raise invalid(f"no array has {width} x {height} x {depth} elements and flags {flags!r}")
    if layered and depth == 0:
        raise invalid("an array of no layers")
    if flags & facts.hipArrayCubemap and (
        width != height or depth % FACES or (depth != FACES and not flags & facts.hipArrayLayered)
    ):
        raise invalid(f"{width} x {height} x {depth} elements are no faces of cubes")
    if flags & facts.hipArrayTextureGather and (height == 0 or depth):
        raise invalid("hipArrayTextureGather is for arrays of two dimensions")
    if layered:
        most = (*(MOST_2D if height else (MOST_1D, 0)), MOST_LAYERS)
    elif depth:
        most = MOST_3D
    else:
        most = (*(MOST_2D if height else (MOST_1D, 0)), 0)
    if any(extent > limit for extent, limit in zip((width, height, depth), most, strict=True)):
        raise invalid(f"{width} x {height} x {depth} elements: an array has at most {most}")


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
    if flags & (facts.hipArrayLayered | facts.hipArrayCubemap):
        raise invalid("layers and faces are made by hipMalloc3DArray")
    return _make("hipMallocArray", Format.of_description(desc), width, height, 0, flags)


@api(outputs=1)
def hipMalloc3DArray(desc: Any, extent: Any, flags: int = 0) -> hipArray:
    """Allocate an array of up to three dimensions; ``(hipError_t, array)``. Errors as `hipMallocArray`.

    `desc` is a hipChannelFormatDesc, and `flags` hipArrayLayered, hipArrayCubemap and those of `hipMallocArray`.
    `extent` is a hipExtent: in elements. With hipArrayLayered the depth counts layers, with hipArrayCubemap the faces
    of cubes.
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


@api()
def hipFreeArray(array: Any) -> None:
    """Give an array back, after everything submitted to its device is done; ``(hipError_t,)``. Blocks for that.

    Texture and surface objects made of it can only be destroyed then: a launch with one gets hipErrorInvalidValue.
    hipErrorInvalidValue for None, hipErrorContextIsDestroyed for one that was freed before.
    """
    if handle_number(array, "an array") == 0:
        raise invalid("the array is null")
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


hipArrayDestroy: HipFunction = alias(hipFreeArray, "hipArrayDestroy")


@api(outputs=1)
def hipArrayGetDescriptor(array: Any) -> HIP_ARRAY_DESCRIPTOR:
    """Return ``(hipError_t, HIP_ARRAY_DESCRIPTOR)``; hipErrorInvalidHandle for None and for one that was freed.

    `array` is one of one or two dimensions; of another the depth is left out.
    """
    known = array_of(array, hipError_t.hipErrorInvalidHandle)
    return HIP_ARRAY_DESCRIPTOR(known.width, known.height, known.format.array_format, known.format.channels)


@api(outputs=1)
def hipArray3DGetDescriptor(array: Any) -> HIP_ARRAY3D_DESCRIPTOR:
    """Return ``(hipError_t, HIP_ARRAY3D_DESCRIPTOR)``; hipErrorInvalidHandle for None and for one that was freed."""
    known = array_of(array, hipError_t.hipErrorInvalidHandle)
    return HIP_ARRAY3D_DESCRIPTOR(
        known.width, known.height, known.depth, known.format.array_format, known.format.channels, known.flags
    )


@api(outputs=3)
def hipArrayGetInfo(array: Any) -> tuple[hipChannelFormatDesc, hipExtent, int]:
    """Return ``(hipError_t, hipChannelFormatDesc, hipExtent, flags)``; errors as `hipArrayGetDescriptor`."""
    known = array_of(array, hipError_t.hipErrorInvalidHandle)
    return known.format.description, hipExtent(known.width, known.height, known.depth), known.flags


@api(outputs=1)
def hipGetChannelDesc(array: Any) -> hipChannelFormatDesc:
    """Return ``(hipError_t, hipChannelFormatDesc)`` of an array; errors as `hipArrayGetDescriptor`."""
    return array_of(array, hipError_t.hipErrorInvalidHandle).format.description
