"""Arrays, textures and surfaces.

Arrays are memory of the device as any other, of one, two or three dimensions, with layers or faces of cubes, in rows
without gaps. An element is up to four channels of one type.

Kernels read and write textures and surfaces in software: an object is a descriptor in memory of the device. The bytes
of a descriptor are those of `texture_descriptor` in hip/textures/texels.h. The driver's functions, hipTexObject…, make
the same objects from other structures.
"""

from __future__ import annotations

import re
import struct
import threading
import weakref
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from forebay.hip import allocations, facts
from forebay.hip.allocations import Allocation, find
from forebay.hip.compiled.calls import is_null
from forebay.hip.devices import (
    MOST_1D,
    MOST_2D,
    MOST_3D,
    MOST_LAYERS,
    MOST_LINEAR,
    Handles,
    current_device,
    current_number,
    device_number,
    device_of,
    has_textures,
    on_reset,
)
from forebay.hip.errors import (
    HipError,
    HipFunction,
    alias,
    api,
    check_params,
    define,
    enumerator,
    invalid,
    outputs_of,
    size_of,
)
from forebay.hip.facts import (
    HIP_ARRAY3D_DESCRIPTOR,
    HIP_ARRAY_DESCRIPTOR,
    HIP_RESOURCE_DESC,
    HIP_RESOURCE_VIEW_DESC,
    HIP_TEXTURE_DESC,
    Record,
    flags_of,
    hipArray_Format,
    hipChannelFormatDesc,
    hipError_t,
    hipExtent,
    hipResourceDesc,
    hipResourceType,
    hipResourceViewDesc,
    hipTextureAddressMode,
    hipTextureDesc,
    hipTextureReadMode,
)
from forebay.hip.modules import hipModuleGetGlobal, module_of, text_of
from forebay.hip.pointers import Number, Pointer, address_of, handle_number
from forebay.queues.capture_rules import refuse_synchronous, refuse_unsafe
from forebay.queues.device import Device, finish_all
from forebay.queues.memory.buffer import Buffer
from forebay.queues.queue import Queue

# By the number that the kernels' headers have for a type (hip/textures/texels.h).
ARRAY_FORMATS = tuple(facts.words(hipArray_Format).values())
TYPES = tuple(facts.words(hipArray_Format))
CHANNEL_KINDS = facts.words(facts.hipChannelFormatKind)
CHANNELS = (1, 2, 4)
FIRST_VIEW = facts.hipResourceViewFormat.hipResViewFormatUnsignedChar1


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
        return hipChannelFormatDesc(*(bits * (i < self.channels) for i in range(4)), CHANNEL_KINDS[TYPES[self.type][0]])

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
        letter = next((letter for letter, kind in CHANNEL_KINDS.items() if kind == desc.f), "")
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
ARRAY_FLAGS = flags_of("hipMalloc3DArray")

_arrays: Handles[hipArray] = Handles("an array", hipError_t.hipErrorContextIsDestroyed)


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
        self.device: int = current_number()
        self.allocation = Allocation(memory, facts.hipMemoryType.hipMemoryTypeArray, self.device)
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


def need_textures(what: str) -> None:
    """Raise hipErrorNotSupported where kernels cannot have textures."""
    if not has_textures(current_device()):
        raise HipError(
            hipError_t.hipErrorNotSupported,
            f"{what}: this device has no textures, because it takes no HIP C++ or has no addresses; instead: "
            "hipMalloc or hipMallocPitch",
        )


def array_of(array: Any, freed: hipError_t | None = None) -> hipArray:
    """Return the array of this handle; hipErrorInvalidHandle for None, and `freed` for one that was freed."""
    if is_null(array):
        raise HipError(hipError_t.hipErrorInvalidHandle, "the array is null")
    return _arrays.find(array, freed)


def _check_extent(width: int, height: int, depth: int, flags: int) -> None:
    layered = bool(flags & (facts.hipArrayLayered | facts.hipArrayCubemap))
    if width == 0 or flags & ~ARRAY_FLAGS or (depth and not height and not layered):
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
    """Allocate the array that a `HIP_ARRAY_DESCRIPTOR` describes; ``(hipError_t, array)``. See `hipMallocArray`."""
    given = pAllocateArray
    check_params(given, HIP_ARRAY_DESCRIPTOR)
    format = Format.of_array_format(given["Format"], given["NumChannels"])
    return _make("hipArrayCreate", format, given["Width"], given["Height"], 0, 0)


@api(outputs=1)
def hipArray3DCreate(pAllocateArray: Any) -> hipArray:
    """Allocate the array that a `HIP_ARRAY3D_DESCRIPTOR` describes; ``(hipError_t, array)``. See `hipMalloc3DArray`."""
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
    finish_all(device_of(known.device))
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


# -- memory with elements in it


LAYOUT = struct.Struct("<QQQ3i6i3ii3ff4f4x")
NO_FORMAT = -1
CLAMP = hipTextureAddressMode.hipAddressModeClamp


@dataclass(frozen=True)
class TextureMemory:
    """Memory with elements in it, from an address of the device on.

    The extent is in elements, 1 for an absent dimension; `row` and `slice` are the bytes from one row to the next, and
    from one plane or layer to the next.
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
        return self.array is not None and bool(self.array.flags & facts.hipArrayCubemap)

    def as_format(self, format: Format) -> TextureMemory:
        """Return the same memory with other elements; hipErrorInvalidValue for those of another size."""
        if format.nbytes != self.format.nbytes:
            raise invalid(f"a view of elements of {self.format.nbytes} bytes as {format.nbytes}")
        return replace(self, format=format)


def place_of(resource: hipResourceDesc) -> TextureMemory:
    """Return the memory that a resource is.

    hipErrorInvalidValue for null, for memory that is not there or not aligned, and for a pitch below the width;
    hipErrorInvalidHandle and hipErrorContextIsDestroyed as for `array_of`; hipErrorNotSupported for mipmaps.
    """
    kind = enumerator(hipResourceType, resource.resType, "no type of resource")
    if kind == hipResourceType.hipResourceTypeArray:
        return of_array(array_of(resource.res.array.array))
    if kind == hipResourceType.hipResourceTypeMipmappedArray:
        if resource.res.mipmap.mipmap is None:
            raise invalid("the mipmapped array is null")
        raise HipError(
            hipError_t.hipErrorNotSupported, "textures have one level here, so there are no mipmapped arrays"
        )
    if kind == hipResourceType.hipResourceTypeLinear:
        linear = resource.res.linear
        return of_linear(linear.devPtr, Format.of_description(linear.desc), size_of(linear.sizeInBytes))
    pitched = resource.res.pitch2D
    size = size_of(pitched.width), size_of(pitched.height)
    return of_rows(pitched.devPtr, Format.of_description(pitched.desc), *size, size_of(pitched.pitchInBytes))


def of_array(array: hipArray) -> TextureMemory:
    """Return an array's memory."""
    depth, layers = (1, array.slices) if array.layered else (array.slices, 1)
    address = array.allocation.memory.address
    extent = array.width, array.rows, depth
    return TextureMemory(array.format, address, extent, layers, array.row, array.row * array.rows, array)


def of_linear(pointer: Any, format: Format, nbytes: int) -> TextureMemory:
    """Return elements one after another; errors as `place_of`."""
    count = nbytes // format.nbytes
    if not 0 < count <= MOST_LINEAR:
        raise invalid(f"a texture of {nbytes} bytes: at most {MOST_LINEAR} elements of {format.nbytes}")
    return TextureMemory(format, _checked_address(pointer, nbytes, format), (count, 1, 1), 1, nbytes, nbytes)


def of_rows(pointer: Any, format: Format, width: int, height: int, pitch: int) -> TextureMemory:
    """Return rows of elements; errors as `place_of`."""
    row = width * format.nbytes
    if not (0 < width <= MOST_2D[0] and 0 < height <= MOST_2D[1]):
        raise invalid(f"a texture of {width} x {height} elements: at most {MOST_2D}")
    if pitch < row or pitch % format.nbytes:
        raise invalid(f"rows of {row} bytes in elements of {format.nbytes}, {pitch} apart")
    nbytes = pitch * (height - 1) + row
    return TextureMemory(
        format, _checked_address(pointer, nbytes, format), (width, height, 1), 1, pitch, pitch * height
    )


def _checked_address(pointer: Any, nbytes: int, format: Format) -> int:
    """Where memory is that has this many bytes from there on."""
    if isinstance(pointer, Buffer):
        address, there = pointer.address, pointer.nbytes
    else:
        address, _ = address_of(pointer)
        found = find(address) if address else None
        if found is None or not isinstance(found[0].memory, Buffer):
            raise invalid(f"{address:#x} is in no allocation that kernels can use")
        there = found[0].nbytes - found[1]
    if nbytes > there:
        raise invalid(f"a texture of {nbytes} bytes: the memory has {there} from {address:#x} on")
    if address % format.nbytes:
        raise invalid(f"{address:#x} is not a multiple of an element's {format.nbytes} bytes")
    return int(address)


def texture_bytes(place: TextureMemory, texture: hipTextureDesc) -> bytes:
    """Return the descriptor of a texture.

    hipErrorInvalidValue for modes that HIP does not have, and for linear filtering of integers that are not read
    as floats; hipErrorNotSupported for sRGB.
    """
    try:
        modes = [hipTextureAddressMode(mode) for mode in list(texture.addressMode)[:3]]
        linear = facts.hipTextureFilterMode(texture.filterMode) == facts.hipTextureFilterMode.hipFilterModeLinear
        normalized = hipTextureReadMode(texture.readMode) == hipTextureReadMode.hipReadModeNormalizedFloat
        border = [float(value) for value in list(texture.borderColor)[:4]]
    except (ValueError, TypeError) as error:
        raise invalid(f"hipTextureDesc: {error}") from None
    if len(modes) < 3 or len(border) < 4:
        raise invalid("hipTextureDesc: three address modes, and four numbers of the border's colour")
    if texture.sRGB:
        raise HipError(hipError_t.hipErrorNotSupported, "textures are not converted from sRGB")
    format = place.format
    as_float = normalized and format.largest > 0
    is_linear_memory = place.array is None and place.extent[1] == 1
    if linear and not (format.is_floating or as_float) and not is_linear_memory:
        raise invalid("integers are filtered only when they are read as normalized floats")
    coordinates = bool(texture.normalizedCoords) or place.is_cube
    if place.is_cube:
        modes = [CLAMP] * 3
    elif not coordinates:  # as on GPUs: the others need normalized ones
        others = (hipTextureAddressMode.hipAddressModeWrap, hipTextureAddressMode.hipAddressModeMirror)
        modes = [CLAMP if mode in others else mode for mode in modes]
    scale = place.extent if coordinates else (1, 1, 1)
    divisor = format.largest if as_float else 1
    known = NO_FORMAT if as_float else format.type * 8 + format.channels
    return _packed(place, known, modes, linear, scale, divisor, border)


def _packed(
    place: TextureMemory, known: int, modes: list[Any], linear: bool, scale: tuple[int, ...], divisor: int, border: Any
) -> bytes:
    format = place.format
    plain = known if not linear and modes == [CLAMP] * 3 else NO_FORMAT
    return LAYOUT.pack(
        place.address, place.row, place.slice, *place.extent, place.layers, format.type, format.channels, known, plain,
        format.nbytes, *modes, linear, *scale, divisor, *border,
    )  # fmt: skip


# -- objects


Arrays = (hipResourceType.hipResourceTypeArray, hipResourceType.hipResourceTypeMipmappedArray)

_lock = threading.Lock()
_uploads: weakref.WeakKeyDictionary[Device, Queue] = weakref.WeakKeyDictionary()
_objects: Handles[_Object] = Handles("an object", hipError_t.hipErrorInvalidValue)


class _Object(Pointer):
    """What kernels take: the address of a descriptor in memory of the device."""

    def __init__(self, place: TextureMemory, data: bytes) -> None:
        device = current_device()
        memory = device.empty(len(data), "u1")
        try:
            upload(device, memory, data)
        except BaseException:
            memory.close()
            raise
        self.device: int = current_number()
        self.allocation = Allocation(memory, facts.hipMemoryType.hipMemoryTypeArray, self.device)
        self.address, self._owner, self.buffer = self.allocation.base, self.allocation, memory
        self.place = place
        allocations.enter(self.allocation)
        _objects[self.address] = self
        if place.array is not None:
            place.array.objects.add(self.address)


ThisObject = TypeVar("ThisObject", bound=_Object)


class hipTextureObject_t(_Object):
    """A texture object; compares, hashes and converts like its number."""

    def __init__(
        self, place: TextureMemory, resource: hipResourceDesc, texture: hipTextureDesc, view: hipResourceViewDesc | None
    ) -> None:
        super().__init__(place, texture_bytes(place, texture))
        self.resource, self.texture = resource.copy(), texture.copy()
        self.view = None if view is None else view.copy()


class hipSurfaceObject_t(_Object):
    """A surface object; compares, hashes and converts like its number."""

    def __init__(self, place: TextureMemory) -> None:
        super().__init__(place, _packed(place, NO_FORMAT, [CLAMP] * 3, False, (1, 1, 1), 1, [0.0] * 4))


def upload(device: Device, memory: Any, data: bytes) -> None:
    """Copy bytes to memory that no command uses yet. Waits for nothing else, whatever the streams are busy with."""
    with _lock:
        queue = _uploads.get(device)
        if queue is None:
            queue = _uploads[device] = device.queue(blocking=False)
        queue.copy(memory, data)
        queue.finish()


@on_reset
def _forget_uploads(_: int) -> None:
    with _lock:
        _uploads.clear()


def _known(object: Any, kind: type[ThisObject]) -> ThisObject:
    """Return the object of this kind and handle; hipErrorInvalidValue for any other."""
    known = _objects.find(object)
    # An object that was destroyed may have had the number of another one.
    if not isinstance(known, kind) or (isinstance(object, _Object) and object is not known):
        raise invalid(f"{object!r} is no {kind.__name__}, or was destroyed")
    return known


def destroy(object: Any, kind: type[_Object]) -> None:
    """End an object; launches that were submitted complete."""
    known = _known(object, kind)
    if _objects.pop(known.address, None) is not known:
        raise invalid("another thread has just destroyed it")
    if known.place.array is not None:
        known.place.array.objects.discard(known.address)
    allocations.take(known.address)
    known.allocation.close()


def make_texture(resource: Any, texture: Any, view: Any) -> hipTextureObject_t:
    """Return a new texture object of the current device."""
    for given, kind in ((resource, hipResourceDesc), (texture, hipTextureDesc)):
        check_params(given, kind)
    need_textures("hipCreateTextureObject")
    place = place_of(resource)
    if view is not None:
        check_params(view, hipResourceViewDesc)
        if resource.resType not in Arrays:
            raise invalid("a view is for arrays")
        if view.format != facts.hipResourceViewFormat.hipResViewFormatNone:
            place = place.as_format(Format.of_view(view.format))
    return hipTextureObject_t(place, resource, texture, view)


@api(outputs=1)
def hipCreateTextureObject(pResDesc: Any, pTexDesc: Any, pResViewDesc: Any = None) -> hipTextureObject_t:
    """Make a texture object of the current device; ``(hipError_t, object)``.

    Parameters
    ----------
    pResDesc : hipResourceDesc
        An array, linear memory (for `tex1Dfetch`), or rows. The memory is not kept alive.
    pTexDesc : hipTextureDesc
    pResViewDesc : hipResourceViewDesc, optional
        Of an array: its elements as others of the same size.

    A kernel takes it as an argument, as it takes a pointer. Blocks for the copy of its description to the device, and
    for nothing else.

    hipErrorInvalidValue for None, for memory that is not there or not aligned to its elements, for a pitch below the
    width, for linear filtering of integers, and for a view of other memory than an array; hipErrorInvalidHandle for a
    null array, hipErrorContextIsDestroyed for one that was freed; hipErrorNotSupported for mipmaps, for sRGB, and where
    hipDeviceAttributeImageSupport is 0.
    """
    return make_texture(pResDesc, pTexDesc, pResViewDesc)


@api()
def hipDestroyTextureObject(textureObject: Any) -> None:
    """End a texture object; ``(hipError_t,)``. Does not block: launches that were submitted complete.

    None is accepted; hipErrorInvalidValue for one that was destroyed before. A launch with it gets that too.
    """
    if handle_number(textureObject, "a texture object"):
        destroy(textureObject, hipTextureObject_t)


def _asked(member: str, kind: type[Record], without: str = "no object") -> HipFunction:
    def get(textureObject: Any) -> Any:
        return copy_of_member(textureObject, member)

    name = f"hipGetTextureObject{kind.__name__[3:]}"
    doc = f"Return ``(hipError_t, {kind.__name__})`` that an object was made with; hipErrorInvalidValue for {without}."
    get.__annotations__["return"] = kind.__name__
    return define(name, get, doc, outputs=1)


def copy_of_member(textureObject: Any, member: str) -> Any:
    """Return a copy of a structure that a texture object was made with; hipErrorInvalidValue when there is none."""
    found = getattr(_known(textureObject, hipTextureObject_t), member)
    if found is None:
        raise invalid(f"the texture object was made without a {member}")
    return found.copy()


hipGetTextureObjectResourceDesc: HipFunction = _asked("resource", hipResourceDesc)
hipGetTextureObjectTextureDesc: HipFunction = _asked("texture", hipTextureDesc)
hipGetTextureObjectResourceViewDesc: HipFunction = _asked("view", hipResourceViewDesc, "one without a view")


@api(outputs=1)
def hipCreateSurfaceObject(pResDesc: Any) -> hipSurfaceObject_t:
    """Make a surface object, through which kernels read and write an array; ``(hipError_t, object)``.

    `pResDesc` is a hipResourceDesc: of type hipResourceTypeArray.

    Otherwise as `hipCreateTextureObject`. hipErrorInvalidValue for None and for other resources, hipErrorInvalidHandle
    for a null array, hipErrorContextIsDestroyed for one that was freed.
    """
    check_params(pResDesc, hipResourceDesc)
    need_textures("hipCreateSurfaceObject")
    if pResDesc.resType != hipResourceType.hipResourceTypeArray:
        raise invalid(f"a surface of {pResDesc.resType!r}: surfaces are for arrays")
    return hipSurfaceObject_t(place_of(pResDesc))


@api()
def hipDestroySurfaceObject(surfaceObject: Any) -> None:
    """End a surface object; ``(hipError_t,)``. See `hipDestroyTextureObject`; None is hipErrorInvalidValue."""
    destroy(surfaceObject, hipSurfaceObject_t)


# -- the driver's functions


SHARED = ("addressMode", "filterMode", "borderColor", "maxAnisotropy", "mipmapFilterMode", "mipmapLevelBias",
          "minMipmapLevelClamp", "maxMipmapLevelClamp")  # fmt: skip
READ = hipTextureReadMode
RESOURCE_MEMBERS = {
    hipResourceType.hipResourceTypeLinear: ("linear", ("devPtr", "sizeInBytes")),
    hipResourceType.hipResourceTypePitch2D: ("pitch2D", ("devPtr", "width", "height", "pitchInBytes")),
}


def _resource(given: Any) -> hipResourceDesc:
    check_params(given, HIP_RESOURCE_DESC)
    made = hipResourceDesc(given.resType)
    made.res.array.array, made.res.mipmap.mipmap = given.res.array.hArray, given.res.mipmap.hMipmappedArray
    if given.resType in RESOURCE_MEMBERS:
        name, members = RESOURCE_MEMBERS[given.resType]
        there, here = given.res[name], made.res[name]
        for member in members:
            setattr(here, member, there[member])
        here.desc = Format.of_array_format(there.format, there.numChannels).description
    return made


def texture_of_flags(given: Any) -> hipTextureDesc:
    """Return the structure of the runtime's functions for one of the driver's."""
    made = hipTextureDesc(**{name: given[name] for name in SHARED}).copy()
    flags = given["flags"]
    made.readMode = READ(int(not flags & facts.HIP_TRSF_READ_AS_INTEGER))
    made.normalizedCoords = int(bool(flags & facts.HIP_TRSF_NORMALIZED_COORDINATES))
    made.sRGB = int(bool(flags & facts.HIP_TRSF_SRGB))
    return made  # type: ignore[no-any-return]


@api(outputs=1)
def hipTexObjectCreate(pResDesc: Any, pTexDesc: Any, pResViewDesc: Any = None) -> hipTextureObject_t:
    """Make a texture object; ``(hipError_t, object)``. As `hipCreateTextureObject`, with the driver's structures.

    Parameters
    ----------
    pResDesc : HIP_RESOURCE_DESC
    pTexDesc : HIP_TEXTURE_DESC
        Integers are read as normalized floats, unless its flags have HIP_TRSF_READ_AS_INTEGER.
    pResViewDesc : HIP_RESOURCE_VIEW_DESC, optional
    """
    check_params(pTexDesc, HIP_TEXTURE_DESC)
    view = None
    if pResViewDesc is not None:
        check_params(pResViewDesc, HIP_RESOURCE_VIEW_DESC)
        view = hipResourceViewDesc(**{name: pResViewDesc[name] for name in pResViewDesc.PROPERTIES()})
    return make_texture(_resource(pResDesc), texture_of_flags(pTexDesc), view)


hipTexObjectDestroy: HipFunction = alias(hipDestroyTextureObject, "hipTexObjectDestroy", textureObject="texObject")


@api(outputs=1)
def hipTexObjectGetResourceDesc(texObject: Any) -> HIP_RESOURCE_DESC:
    """Return ``(hipError_t, HIP_RESOURCE_DESC)`` of an object; hipErrorInvalidValue for no object."""
    found = _known(texObject, hipTextureObject_t)
    made, resource = HIP_RESOURCE_DESC(found.resource.resType), found.resource
    made.res.array.hArray = resource.res.array.array
    if resource.resType in RESOURCE_MEMBERS:
        name, members = RESOURCE_MEMBERS[resource.resType]
        there, here = made.res[name], resource.res[name]
        for member in members:
            setattr(there, member, here[member])
        format = Format.of_description(here.desc)
        there.format, there.numChannels = format.array_format, format.channels
    return made


@api(outputs=1)
def hipTexObjectGetTextureDesc(texObject: Any) -> HIP_TEXTURE_DESC:
    """Return ``(hipError_t, HIP_TEXTURE_DESC)`` of an object; hipErrorInvalidValue for no object."""
    given = _known(texObject, hipTextureObject_t).texture.copy()
    flags = 0 if given.readMode == READ.hipReadModeNormalizedFloat else facts.HIP_TRSF_READ_AS_INTEGER
    flags |= facts.HIP_TRSF_NORMALIZED_COORDINATES if given.normalizedCoords else 0
    return HIP_TEXTURE_DESC(**{name: given[name] for name in SHARED}, flags=flags)


@api(outputs=1)
def hipTexObjectGetResourceViewDesc(texObject: Any) -> HIP_RESOURCE_VIEW_DESC:
    """Return ``(hipError_t, HIP_RESOURCE_VIEW_DESC)`` of an object; hipErrorInvalidValue for one without a view."""
    view = copy_of_member(texObject, "view")
    return HIP_RESOURCE_VIEW_DESC(**{name: view[name] for name in view.PROPERTIES()})


# -- texture references, which HIP has from before objects: variables of a module that the host binds to memory


# Clang's name of the type, and of its elements in the order of `TYPES`.
DECLARED = re.compile(r"texture<(?:HIP_vector_type<)?([\w ]+)(?:, (\d)U?>)?, \d+, \(hipTextureReadMode\)(\d)>")
# The same as NVRTC says it.
SHORT = re.compile(
    r"texture<(signed |u|unsigned )?(char|short|int|float)(\d?),(\d+),hipReadMode(ElementType|NormalizedFloat)>"
)
ELEMENTS = ("unsigned char", "signed char", "unsigned short", "short", "unsigned int", "int", "_Float16", "float")

_references: Handles[textureReference] = Handles("a texture reference", hipError_t.hipErrorInvalidTexture)


class textureReference(hipTextureDesc):
    """A texture variable of a module, and how it is read; made by `hipModuleGetTexRef`.

    Its members are those of `hipTextureDesc`, `normalized` (normalizedCoords) and `channelDesc`. They count when it is
    bound.
    """

    def __init__(self, variable: Allocation, format: Format, read: hipTextureReadMode) -> None:
        super().__init__(readMode=read)
        self.variable, self.device, self.format = variable, variable.device, format
        self.place: TextureMemory | None = None
        self.pointer: Any = None

    @property
    def normalized(self) -> int:
        """Whether coordinates go from 0 to 1."""
        return self.normalizedCoords

    @normalized.setter
    def normalized(self, value: int) -> None:
        self.normalizedCoords = value

    @property
    def channelDesc(self) -> hipChannelFormatDesc:
        """What its elements are."""
        return self.format.description

    def copy(self) -> hipTextureDesc:
        """Return how it is read."""
        made: hipTextureDesc = hipTextureDesc(**{name: self[name] for name in self._members}).copy()
        return made

    def bind(self, place: TextureMemory | None, pointer: Any = None) -> None:
        """Let it read from there from now on, or from nowhere; on the null stream. Blocks."""
        if allocations.peek(self.variable.base) is not self.variable:
            raise HipError(hipError_t.hipErrorInvalidHandle, "the module of this texture reference is unloaded")
        refuse_synchronous("binding a texture reference")
        data = bytes(LAYOUT.size) if place is None else texture_bytes(place, self)
        queue = device_of(self.device).null_queue
        queue.copy(self.variable.memory, data)
        queue.finish()
        self.place, self.pointer = place, pointer

    def changed(self) -> None:
        """Let a change of its members count, if it is bound."""
        if self.place is not None:
            self.bind(self.place, self.pointer)


def _reference_of(variable: Allocation, declared: re.Match[str]) -> textureReference:
    """The reference that a variable is."""
    known = _references.get(variable.base)
    if known is None or known.variable is not variable:
        element, channels, read = declared.groups()
        known = textureReference(variable, Format(ELEMENTS.index(element), int(channels or 1)), READ(int(read)))
        _references[variable.base] = known
    return known


def _checked(reference: Any) -> textureReference:
    if not isinstance(reference, textureReference):
        raise invalid(f"a texture reference is what hipModuleGetTexRef returns, not {reference!r}")
    return reference


@api(outputs=1)
def hipModuleGetTexRef(hmod: Any, name: Any) -> textureReference:
    """Return ``(hipError_t, textureReference)`` of a module's variable such as ``texture<float, 2> name``.

    Errors as `hipModuleGetGlobal`; hipErrorNotFound for other variables, too. Blocks the first time.
    """
    pointer, _ = outputs_of(hipModuleGetGlobal(hmod, name))
    code, text = module_of(hmod).code, text_of(name)
    variable = code.find_variable(text) if code is not None else None
    declared = DECLARED.fullmatch(_as_clang_says(variable.type_name)) if variable is not None else None
    if declared is None:
        raise HipError(hipError_t.hipErrorNotFound, f"the variable {text!r} is no texture reference")
    return _reference_of(pointer._owner, declared)


def _as_clang_says(type_name: str) -> str:
    """The type of a reference in one form, whatever compiler said it."""
    if found := SHORT.fullmatch(type_name):
        element = ("unsigned " if found[1] and found[1].startswith("u") else "") + found[2]
        whole = f"HIP_vector_type<{element}, {found[3]}>" if found[3] else element
        type_name = f"texture<{whole}, {found[4]}, (hipTextureReadMode){int(found[5] != 'ElementType')}>"
    return type_name.replace("<char,", "<signed char,")


@api(outputs=1)
def hipGetTextureReference(symbol: Any) -> textureReference:
    """Return ``(hipError_t, textureReference)`` of the variable at this address.

    hipErrorInvalidTexture unless `hipModuleGetTexRef` returned it before.
    """
    address, _ = address_of(symbol)
    known = _references.find(address)
    if allocations.peek(address) is not known.variable:
        raise HipError(hipError_t.hipErrorInvalidTexture, f"no texture reference is at {address:#x}")
    return known


# -- binding


def _there(pointer: Any, nbytes: Any) -> int:
    """How many of this many bytes there are from there on."""
    found = allocations.find(address_of(pointer)[0])
    return min(size_of(nbytes), found[0].nbytes - found[1]) if found is not None else size_of(nbytes)


def _format(reference: textureReference, desc: Any) -> Format:
    return reference.format if desc is None else Format.of_description(desc)


@api(outputs=1)
def hipBindTexture(tex: Any, devPtr: Any, desc: Any, size: int = 0xFFFFFFFF) -> int:
    """Let a texture reference read `size` bytes of linear memory, or what there is; ``(hipError_t, offset)``.

    `devPtr` is memory of the device, and `desc` a hipChannelFormatDesc, or None for the reference's own.

    The offset is 0. Blocks until everything before on the null stream is done. Errors as `hipCreateTextureObject`.
    """
    reference = _checked(tex)
    reference.bind(of_linear(devPtr, _format(reference, desc), _there(devPtr, size)), devPtr)
    return 0


@api(outputs=1)
def hipBindTexture2D(tex: Any, devPtr: Any, desc: Any, width: int, height: int, pitch: int) -> int:
    """Let a texture reference read rows of elements; ``(hipError_t, offset)``. See `hipBindTexture`.

    `tex`, `devPtr` and `desc` as there; `width` and `height` in elements, `pitch` in bytes from a row to the next.
    """
    reference = _checked(tex)
    place = of_rows(devPtr, _format(reference, desc), size_of(width), size_of(height), size_of(pitch))
    reference.bind(place, devPtr)
    return 0


@api()
def hipBindTextureToArray(tex: Any, array: Any, desc: Any = None) -> None:
    """Let a texture reference read an array; ``(hipError_t,)``. See `hipBindTexture`.

    `tex` as there; `desc` is a hipChannelFormatDesc of elements of the same size, or None for the array's own.
    """
    reference, known = _checked(tex), array_of(array)
    place = of_array(known)
    reference.bind(place if desc is None else place.as_format(Format.of_description(desc)), known)


@api()
def hipUnbindTexture(tex: Any) -> None:
    """Let a texture reference read nothing: kernels get 0; ``(hipError_t,)``. Blocks."""
    _checked(tex).bind(None)


@api(outputs=1)
def hipGetTextureAlignmentOffset(texref: Any) -> int:
    """Return ``(hipError_t, 0)``: memory is used from where it was bound."""
    _checked(texref)
    return 0


@api(outputs=1)
def hipDeviceGetTexture1DLinearMaxWidth(desc: Any, device: int) -> int:
    """Return ``(hipError_t, count)``: how many elements a texture of linear memory may have.

    `desc` is a hipChannelFormatDesc and `device` a number, which are checked: hipErrorInvalidValue,
    hipErrorInvalidDevice.
    """
    device_number(device)
    Format.of_description(desc)
    return MOST_LINEAR


# -- the driver's functions


@api(outputs=1)
def hipTexRefSetAddress(texRef: Any, dptr: Any, bytes: int) -> int:
    """Let a texture reference read linear memory; ``(hipError_t, offset)``. See `hipBindTexture`.

    `dptr` is memory of the device, of `bytes` bytes.
    """
    reference = _checked(texRef)
    reference.bind(of_linear(dptr, reference.format, _there(dptr, bytes)), dptr)
    return 0


@api()
def hipTexRefSetAddress2D(texRef: Any, desc: Any, dptr: Any, Pitch: int) -> None:
    """Let a texture reference read the rows that a `HIP_ARRAY_DESCRIPTOR` describes; ``(hipError_t,)``.

    `desc` is that descriptor, `dptr` memory of the device, and `Pitch` the bytes from a row to the next. See
    `hipBindTexture2D`, which blocks as this does.
    """
    reference = _checked(texRef)
    check_params(desc, HIP_ARRAY_DESCRIPTOR)
    format = Format.of_array_format(desc["Format"], desc["NumChannels"])
    reference.bind(of_rows(dptr, format, size_of(desc["Width"]), size_of(desc["Height"]), size_of(Pitch)), dptr)


@api()
def hipTexRefSetArray(tex: Any, array: Any, flags: int = facts.HIP_TRSA_OVERRIDE_FORMAT) -> None:
    """Let a texture reference read an array; ``(hipError_t,)``. hipErrorInvalidValue for other flags.

    Blocks as `hipBindTexture`.
    """
    reference, known = _checked(tex), array_of(array)
    if flags not in (0, facts.HIP_TRSA_OVERRIDE_FORMAT):
        raise invalid(f"hipTexRefSetArray has no flags {flags!r}")
    reference.bind(of_array(known), known)


def _set(reference: Any, **members: Any) -> None:
    known = _checked(reference)
    before = {name: known[name] for name in members}
    vars(known).update(members)
    try:
        texture_bytes(TextureMemory(Format(0, 1), 0, (1, 1, 1), 1, 1, 1), known)
        known.changed()
    except BaseException:
        vars(known).update(before)
        raise


@api()
def hipTexRefSetAddressMode(texRef: Any, dim: int, am: int) -> None:
    """Set what it reads outside of its bounds, for a dimension; ``(hipError_t,)``; hipErrorInvalidValue for no mode.

    Blocks if it is bound, as `hipBindTexture` does. `dim` is 0, 1 or 2, and `am` a hipTextureAddressMode.
    """
    modes = list(_checked(texRef).addressMode)
    if dim not in range(3):
        raise invalid(f"a texture has no dimension {dim!r}")
    modes[dim] = am
    _set(texRef, addressMode=modes)


@api()
def hipTexRefSetFilterMode(texRef: Any, fm: int) -> None:
    """Set how it reads between elements, `fm`, a hipTextureFilterMode: else hipErrorInvalidValue; ``(hipError_t,)``.

    Blocks if it is bound, as `hipBindTexture` does.
    """
    _set(texRef, filterMode=fm)


@api()
def hipTexRefSetMaxAnisotropy(texRef: Any, maxAniso: int) -> None:
    """Remember a number that makes no difference, `maxAniso`; ``(hipError_t,)``.

    Blocks if it is bound, as `hipBindTexture` does.
    """
    _set(texRef, maxAnisotropy=maxAniso)


@api()
def hipTexRefSetFlags(texRef: Any, Flags: int) -> None:
    """Set how elements and coordinates are read, HIP_TRSF_…; ``(hipError_t,)``.

    Blocks if it is bound, as `hipBindTexture` does. `Flags` are HIP_TRSF_READ_AS_INTEGER and
    HIP_TRSF_NORMALIZED_COORDINATES.

    Integers are read as normalized floats, unless HIP_TRSF_READ_AS_INTEGER is set, and sRGB is not supported.
    """
    flagged = texture_of_flags(HIP_TEXTURE_DESC(flags=Flags))
    _set(texRef, readMode=flagged.readMode, normalizedCoords=flagged.normalizedCoords, sRGB=flagged.sRGB)


@api()
def hipTexRefSetFormat(texRef: Any, fmt: int, NumPackedComponents: int) -> None:
    """Set what the elements of linear memory are; ``(hipError_t,)``; hipErrorInvalidValue for none of HIP's.

    `fmt` is a hipArray_Format, and `NumPackedComponents` the channels: 1, 2 or 4.
    """
    _checked(texRef).format = Format.of_array_format(fmt, NumPackedComponents)


@api(outputs=1)
def hipTexRefSetBorderColor(texRef: Any, pBorderColor: Any) -> list[float]:
    """Set the colour outside, of four numbers; ``(hipError_t, colour)``.

    Blocks if it is bound, as `hipBindTexture` does. `pBorderColor` has the numbers: red, green, blue, alpha.
    """
    colour = [float(value) for value in list(pBorderColor)[:4]]
    _set(texRef, borderColor=colour)
    return colour


@api(outputs=1)
def hipTexRefGetAddress(texRef: Any) -> Pointer:
    """Return ``(hipError_t, pointer)`` to the memory it reads; hipErrorInvalidValue for an array and for nothing."""
    reference = _checked(texRef)
    if reference.place is None or isinstance(reference.pointer, hipArray):
        raise invalid("the texture reference is bound to no address")
    return Pointer(reference.pointer)


@api(outputs=1)
def hipTexRefGetArray(texRef: Any) -> hipArray:
    """Return ``(hipError_t, array)`` that it reads; hipErrorInvalidValue when it reads none."""
    found = _checked(texRef).pointer
    if not isinstance(found, hipArray):
        raise invalid("the texture reference is bound to no array")
    return found


@api(outputs=1)
def hipTexRefGetAddressMode(texRef: Any, dim: int) -> Any:
    """Return ``(hipError_t, mode)`` of a dimension; hipErrorInvalidValue for none.

    `dim` is 0, 1 or 2.
    """
    modes = _checked(texRef).addressMode
    if dim not in range(3):
        raise invalid(f"a texture has no dimension {dim!r}")
    return modes[dim]


def _getter(name: str, member: str, what: str, convert: Any = lambda value: value) -> HipFunction:
    def get_member(texRef: Any) -> Any:
        return convert(_checked(texRef)[member])

    doc = f"""Return ``(hipError_t, {what})``, as `hipTexRefSet{name}` set it.

    `texRef` is a texture reference, which `hipModuleGetTexRef` returned: hipErrorInvalidValue for anything else."""
    return define(f"hipTexRefGet{name}", get_member, doc, outputs=1)


hipTexRefGetFilterMode: HipFunction = _getter("FilterMode", "filterMode", "mode")
hipTexRefGetBorderColor: HipFunction = _getter("BorderColor", "borderColor", "colour", list)
hipTexRefGetMaxAnisotropy: HipFunction = _getter("MaxAnisotropy", "maxAnisotropy", "number", int)


@api(outputs=1)
def hipTexRefGetFlags(texRef: Any) -> int:
    """Return ``(hipError_t, flags)``, HIP_TRSF_…."""
    reference = _checked(texRef)
    flags = 0 if reference.readMode == READ.hipReadModeNormalizedFloat else facts.HIP_TRSF_READ_AS_INTEGER
    return flags | (facts.HIP_TRSF_NORMALIZED_COORDINATES if reference.normalizedCoords else 0)


@api(outputs=2)
def hipTexRefGetFormat(texRef: Any) -> tuple[hipArray_Format, int]:
    """Return ``(hipError_t, hipArray_Format, channels)`` of its elements."""
    format = _checked(texRef).format
    return format.array_format, format.channels
