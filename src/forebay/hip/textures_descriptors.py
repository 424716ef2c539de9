"""What kernels know of a texture or a surface: the bytes of `texture_descriptor` in hip/textures/texels.h."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

from forebay.hip.allocations import find
from forebay.hip.arrays import array_of, hipArray
from forebay.hip.errors import HipError
from forebay.hip.facts import (
    hipArrayCubemap,
    hipError_t,
    hipResourceDesc,
    hipResourceType,
    hipTextureAddressMode,
    hipTextureDesc,
    hipTextureFilterMode,
    hipTextureReadMode,
)
from forebay.hip.hardware import MOST_2D, MOST_LINEAR
from forebay.hip.memory import size_of
from forebay.hip.pointers import address_of
from forebay.hip.transfers_formats import Format
from forebay.queues.memory.buffer import Buffer

Invalid = hipError_t.hipErrorInvalidValue
LAYOUT = struct.Struct("<QQQ3i6i3ii3ff4f4x")
NO_FORMAT = -1


@dataclass(frozen=True)
class Place:
    """Memory with elements in it.

    Attributes
    ----------
    format : Format
    address : int
        In the device's memory.
    extent : (int, int, int)
        In elements, 1 for a dimension that there is not.
    layers : int
    row, slice : int
        Bytes from one row to the next, and from one plane or layer to the next.
    array : hipArray or None
    """

    format: Format
    address: int
    extent: tuple[int, int, int]
    layers: int
    row: int
    slice: int
    array: hipArray | None = None

    @property
    def is_cube(self) -> bool:
        """Whether the layers are faces of cubes."""
        return self.array is not None and bool(self.array.flags & hipArrayCubemap)

    def as_format(self, format: Format) -> Place:
        """Return the same memory with other elements; hipErrorInvalidValue for those of another size."""
        if format.nbytes != self.format.nbytes:
            raise HipError(Invalid, f"a view of elements of {self.format.nbytes} bytes as {format.nbytes}")
        return replace(self, format=format)


def place_of(resource: hipResourceDesc) -> Place:
    """Return the memory that a resource is.

    Raises
    ------
    HipError
        hipErrorInvalidValue for null, for memory that is not there or not aligned, and for a pitch below the width;
        hipErrorInvalidHandle and hipErrorContextIsDestroyed as for `array_of`; hipErrorNotSupported for mipmaps.
    """
    try:
        kind = hipResourceType(resource.resType)
    except ValueError:
        raise HipError(Invalid, f"no type of resource: {resource.resType!r}") from None
    if kind == hipResourceType.hipResourceTypeArray:
        return of_array(array_of(resource.res.array.array))
    if kind == hipResourceType.hipResourceTypeMipmappedArray:
        if resource.res.mipmap.mipmap is None:
            raise HipError(Invalid, "the mipmapped array is null")
        raise HipError(
            hipError_t.hipErrorNotSupported, "textures have one level here, so there are no mipmapped arrays"
        )
    if kind == hipResourceType.hipResourceTypeLinear:
        linear = resource.res.linear
        return of_linear(linear.devPtr, Format.of_description(linear.desc), size_of(linear.sizeInBytes))
    pitched = resource.res.pitch2D
    size = size_of(pitched.width), size_of(pitched.height)
    return of_rows(pitched.devPtr, Format.of_description(pitched.desc), *size, size_of(pitched.pitchInBytes))


def of_array(array: hipArray) -> Place:
    """Return an array's memory."""
    depth, layers = (1, array.slices) if array.layered else (array.slices, 1)
    address = array.allocation.memory.address
    extent = array.width, array.rows, depth
    return Place(array.format, address, extent, layers, array.row, array.row * array.rows, array)


def of_linear(pointer: Any, format: Format, nbytes: int) -> Place:
    """Return elements one after another; errors as `place_of`."""
    count = nbytes // format.nbytes
    if not 0 < count <= MOST_LINEAR:
        raise HipError(Invalid, f"a texture of {nbytes} bytes: at most {MOST_LINEAR} elements of {format.nbytes}")
    return Place(format, _checked(pointer, nbytes, format), (count, 1, 1), 1, nbytes, nbytes)


def of_rows(pointer: Any, format: Format, width: int, height: int, pitch: int) -> Place:
    """Return rows of elements; errors as `place_of`."""
    row = width * format.nbytes
    if not (0 < width <= MOST_2D[0] and 0 < height <= MOST_2D[1]):
        raise HipError(Invalid, f"a texture of {width} x {height} elements: at most {MOST_2D}")
    if pitch < row or pitch % format.nbytes:
        raise HipError(Invalid, f"rows of {row} bytes in elements of {format.nbytes}, {pitch} apart")
    nbytes = pitch * (height - 1) + row
    return Place(format, _checked(pointer, nbytes, format), (width, height, 1), 1, pitch, pitch * height)


def _checked(pointer: Any, nbytes: int, format: Format) -> int:
    """Where memory is that has this many bytes from there on."""
    if isinstance(pointer, Buffer):
        address, there = pointer.address, pointer.nbytes
    else:
        address, _ = address_of(pointer)
        found = find(address) if address else None
        if found is None or not isinstance(found[0].memory, Buffer):
            raise HipError(Invalid, f"{address:#x} is in no allocation that kernels can use")
        there = found[0].nbytes - found[1]
    if nbytes > there:
        raise HipError(Invalid, f"a texture of {nbytes} bytes: the memory has {there} from {address:#x} on")
    if address % format.nbytes:
        raise HipError(Invalid, f"{address:#x} is not a multiple of an element's {format.nbytes} bytes")
    return int(address)


def texture_bytes(place: Place, texture: hipTextureDesc) -> bytes:
    """Return the descriptor of a texture.

    Raises
    ------
    HipError
        hipErrorInvalidValue for modes that HIP does not have, and for linear filtering of integers that are not read
        as floats; hipErrorNotSupported for sRGB.
    """
    try:
        modes = [hipTextureAddressMode(mode) for mode in list(texture.addressMode)[:3]]
        linear = hipTextureFilterMode(texture.filterMode) == hipTextureFilterMode.hipFilterModeLinear
        normalized = hipTextureReadMode(texture.readMode) == hipTextureReadMode.hipReadModeNormalizedFloat
        border = [float(value) for value in list(texture.borderColor)[:4]]
    except (ValueError, TypeError) as error:
        raise HipError(Invalid, f"hipTextureDesc: {error}") from None
    if len(modes) < 3 or len(border) < 4:
        raise HipError(Invalid, "hipTextureDesc: three address modes, and four numbers of the border's colour")
    if texture.sRGB:
        raise HipError(hipError_t.hipErrorNotSupported, "textures are not converted from sRGB")
    format = place.format
    as_float = normalized and format.largest > 0
    is_linear_memory = place.array is None and place.extent[1] == 1
    if linear and not (format.is_floating or as_float) and not is_linear_memory:
        raise HipError(Invalid, "integers are filtered only when they are read as normalized floats")
    coordinates = bool(texture.normalizedCoords) or place.is_cube
    if place.is_cube:
        modes = [hipTextureAddressMode.hipAddressModeClamp] * 3
    elif not coordinates:  # as on GPUs: the others need normalized ones
        others = (hipTextureAddressMode.hipAddressModeWrap, hipTextureAddressMode.hipAddressModeMirror)
        modes = [hipTextureAddressMode.hipAddressModeClamp if mode in others else mode for mode in modes]
    scale = place.extent if coordinates else (1, 1, 1)
    divisor = format.largest if as_float else 1
    known = NO_FORMAT if as_float else format.type * 8 + format.channels
    return _packed(place, known, modes, linear, scale, divisor, border)


def surface_bytes(place: Place) -> bytes:
    """Return the descriptor of a surface."""
    return _packed(place, NO_FORMAT, [hipTextureAddressMode.hipAddressModeClamp] * 3, False, (1, 1, 1), 1, [0.0] * 4)


def _packed(
    place: Place,
    known: int,
    modes: list[hipTextureAddressMode],
    linear: bool,
    scale: tuple[int, ...],
    divisor: int,
    border: list[float],
) -> bytes:
    format = place.format
    plain = (
        known if not linear and all(mode == hipTextureAddressMode.hipAddressModeClamp for mode in modes) else NO_FORMAT
    )
    return LAYOUT.pack(
        place.address, place.row, place.slice, *place.extent, place.layers, format.type, format.channels, known, plain,
        format.nbytes, *modes, linear, *scale, divisor, *border,
    )  # fmt: skip
