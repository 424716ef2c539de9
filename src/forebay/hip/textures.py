"""Texture and surface objects: made, looked up and destroyed."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from forebay.hip import allocations
from forebay.hip.allocations import Allocation
from forebay.hip.arrays import need_textures
from forebay.hip.devices import _on_reset, current_device, current_number
from forebay.hip.errors import HipError, api, check_params
from forebay.hip.facts import (
    hipError_t,
    hipMemoryType,
    hipResourceDesc,
    hipResourceType,
    hipResourceViewDesc,
    hipResourceViewFormat,
    hipTextureDesc,
)
from forebay.hip.pointers import Pointer, handle_number
from forebay.hip.textures_descriptors import (
    Place,
    place_of,
    surface_bytes,
    texture_bytes,
)
from forebay.hip.transfers_formats import Format
from forebay.queues.device import Device
from forebay.queues.queue import Queue

Invalid = hipError_t.hipErrorInvalidValue
Arrays = (hipResourceType.hipResourceTypeArray, hipResourceType.hipResourceTypeMipmappedArray)

_lock = threading.Lock()
_uploads: weakref.WeakKeyDictionary[Device, Queue] = weakref.WeakKeyDictionary()
_objects: dict[int, _Object] = {}


class _Object(Pointer):
    """What kernels take: the address of a descriptor in memory of the device."""

    def __init__(self, place: Place, data: bytes) -> None:
        device = current_device()
        memory = device.empty(len(data), "u1")
        try:
            upload(device, memory, data)
        except BaseException:
            memory.close()
            raise
        self.allocation = Allocation(memory, hipMemoryType.hipMemoryTypeArray, current_number())
        self.address, self._owner, self.buffer = self.allocation.base, self.allocation, memory
        self.place = place
        allocations.enter(self.allocation)
        _objects[self.address] = self
        if place.array is not None:
            place.array.objects.add(self.address)


class hipTextureObject_t(_Object):
    """A texture object; compares, hashes and converts like its number."""

    def __init__(
        self, place: Place, resource: hipResourceDesc, texture: hipTextureDesc, view: hipResourceViewDesc | None
    ) -> None:
        super().__init__(place, texture_bytes(place, texture))
        self.resource, self.texture = resource.copy(), texture.copy()
        self.view = None if view is None else view.copy()


class hipSurfaceObject_t(_Object):
    """A surface object; compares, hashes and converts like its number."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, surface_bytes(place))


def upload(device: Device, memory: Any, data: bytes) -> None:
    """Copy bytes to memory that no command uses yet. Waits for nothing else, whatever the streams are busy with."""
    with _lock:
        queue = _uploads.get(device)
        if queue is None:
            queue = _uploads[device] = device.queue(blocking=False)
        queue.copy(memory, data)
        queue.finish()


def _forget(number: int) -> None:
    for made in list(_objects.values()):
        if made.allocation.device == number:
            _objects.pop(made.address, None)
    with _lock:
        _uploads.clear()


_on_reset.append(_forget)


def _is_older(object: Any, known: _Object) -> bool:
    """Whether this is an object that was destroyed, and another has its number now."""
    return isinstance(object, _Object) and object is not known


def texture_object(object: Any) -> hipTextureObject_t:
    """Return the texture object of this handle; hipErrorInvalidValue for any other."""
    known = _objects.get(handle_number(object, "a texture object"))
    if not isinstance(known, hipTextureObject_t) or _is_older(object, known):
        raise HipError(Invalid, f"no texture object: {object!r}")
    return known


def destroy(object: Any, kind: type[_Object]) -> None:
    """End an object; launches that were submitted complete."""
    number = handle_number(object, "an object")
    known = _objects.get(number)
    if not isinstance(known, kind) or _is_older(object, known) or _objects.pop(number, None) is not known:
        raise HipError(Invalid, f"{number:#x} is no {kind.__name__}, or was destroyed")
    if known.place.array is not None:
        known.place.array.objects.discard(number)
    allocations.take(number)
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
            raise HipError(Invalid, "a view is for arrays")
        if view.format != hipResourceViewFormat.hipResViewFormatNone:
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

    `textureObject` is what `hipCreateTextureObject` returned.

    None is accepted; hipErrorInvalidValue for one that was destroyed before. A launch with it gets that too.
    """
    if handle_number(textureObject, "a texture object"):
        destroy(textureObject, hipTextureObject_t)


@api(outputs=1)
def hipGetTextureObjectResourceDesc(textureObject: Any) -> hipResourceDesc:
    """Return ``(hipError_t, hipResourceDesc)`` that an object was made with; hipErrorInvalidValue for no object.

    `textureObject` is what `hipCreateTextureObject` returned.
    """
    found: hipResourceDesc = texture_object(textureObject).resource.copy()
    return found


@api(outputs=1)
def hipGetTextureObjectTextureDesc(textureObject: Any) -> hipTextureDesc:
    """Return ``(hipError_t, hipTextureDesc)`` that an object was made with; hipErrorInvalidValue for no object.

    `textureObject` is what `hipCreateTextureObject` returned.
    """
    found: hipTextureDesc = texture_object(textureObject).texture.copy()
    return found


@api(outputs=1)
def hipGetTextureObjectResourceViewDesc(textureObject: Any) -> hipResourceViewDesc:
    """Return ``(hipError_t, hipResourceViewDesc)`` of an object; hipErrorInvalidValue for one without a view.

    `textureObject` is what `hipCreateTextureObject` returned.
    """
    view = texture_object(textureObject).view
    if view is None:
        raise HipError(Invalid, "the texture object was made without a view")
    found: hipResourceViewDesc = view.copy()
    return found


@api(outputs=1)
def hipCreateSurfaceObject(pResDesc: Any) -> hipSurfaceObject_t:
    """Make a surface object, through which kernels read and write an array; ``(hipError_t, object)``.

    Parameters
    ----------
    pResDesc : hipResourceDesc
        Of type hipResourceTypeArray.

    Otherwise as `hipCreateTextureObject`. hipErrorInvalidValue for None and for other resources, hipErrorInvalidHandle
    for a null array, hipErrorContextIsDestroyed for one that was freed.
    """
    check_params(pResDesc, hipResourceDesc)
    need_textures("hipCreateSurfaceObject")
    if pResDesc.resType != hipResourceType.hipResourceTypeArray:
        raise HipError(Invalid, f"a surface of {pResDesc.resType!r}: surfaces are for arrays")
    return hipSurfaceObject_t(place_of(pResDesc))


@api()
def hipDestroySurfaceObject(surfaceObject: Any) -> None:
    """End a surface object; ``(hipError_t,)``. See `hipDestroyTextureObject`; None is hipErrorInvalidValue.

    `surfaceObject` is what `hipCreateSurfaceObject` returned.
    """
    destroy(surfaceObject, hipSurfaceObject_t)
