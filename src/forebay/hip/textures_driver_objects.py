"""Texture objects by the driver's functions, hipTexObject…: the same objects, described by other structures."""

from __future__ import annotations

from typing import Any

from forebay.hip.errors import HipError, api, check_params
from forebay.hip.facts import (
    HIP_RESOURCE_DESC,
    HIP_RESOURCE_VIEW_DESC,
    HIP_TEXTURE_DESC,
    HIP_TRSF_NORMALIZED_COORDINATES,
    HIP_TRSF_READ_AS_INTEGER,
    HIP_TRSF_SRGB,
    hipError_t,
    hipResourceDesc,
    hipResourceType,
    hipResourceViewDesc,
    hipTextureDesc,
    hipTextureReadMode,
)
from forebay.hip.pointers import handle_number
from forebay.hip.textures import (
    destroy,
    hipTextureObject_t,
    make_texture,
    texture_object,
)
from forebay.hip.transfers_formats import Format

SHARED = ("addressMode", "filterMode", "borderColor", "maxAnisotropy", "mipmapFilterMode", "mipmapLevelBias",
          "minMipmapLevelClamp", "maxMipmapLevelClamp")  # fmt: skip
READ = hipTextureReadMode
KINDS = {
    hipResourceType.hipResourceTypeLinear: ("linear", ("devPtr", "sizeInBytes")),
    hipResourceType.hipResourceTypePitch2D: ("pitch2D", ("devPtr", "width", "height", "pitchInBytes")),
}


def _resource(given: Any) -> hipResourceDesc:
    check_params(given, HIP_RESOURCE_DESC)
    made = hipResourceDesc(given.resType)
    made.res.array.array, made.res.mipmap.mipmap = given.res.array.hArray, given.res.mipmap.hMipmappedArray
    if given.resType in KINDS:
        name, members = KINDS[given.resType]
        there, here = given.res[name], made.res[name]
        for member in members:
            setattr(here, member, there[member])
        here.desc = Format.of_array_format(there.format, there.numChannels).description
    return made


def texture_of_flags(given: Any) -> hipTextureDesc:
    """Return the structure of the runtime's functions for one of the driver's."""
    made = hipTextureDesc(**{name: given[name] for name in SHARED}).copy()
    flags = given["flags"]
    made.readMode = READ(int(not flags & HIP_TRSF_READ_AS_INTEGER))
    made.normalizedCoords = int(bool(flags & HIP_TRSF_NORMALIZED_COORDINATES))
    made.sRGB = int(bool(flags & HIP_TRSF_SRGB))
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


@api()
def hipTexObjectDestroy(texObject: Any) -> None:
    """Do what `hipDestroyTextureObject` does; ``(hipError_t,)``.

    `texObject` is what `hipTexObjectCreate` returned.
    """
    if handle_number(texObject, "a texture object"):
        destroy(texObject, hipTextureObject_t)


@api(outputs=1)
def hipTexObjectGetResourceDesc(texObject: Any) -> HIP_RESOURCE_DESC:
    """Return ``(hipError_t, HIP_RESOURCE_DESC)`` of an object; hipErrorInvalidValue for no object.

    `texObject` is what `hipTexObjectCreate` returned.
    """
    found = texture_object(texObject)
    made, resource = HIP_RESOURCE_DESC(found.resource.resType), found.resource
    made.res.array.hArray = resource.res.array.array
    if resource.resType in KINDS:
        name, members = KINDS[resource.resType]
        there, here = made.res[name], resource.res[name]
        for member in members:
            setattr(there, member, here[member])
        format = Format.of_description(here.desc)
        there.format, there.numChannels = format.array_format, format.channels
    return made


@api(outputs=1)
def hipTexObjectGetTextureDesc(texObject: Any) -> HIP_TEXTURE_DESC:
    """Return ``(hipError_t, HIP_TEXTURE_DESC)`` of an object; hipErrorInvalidValue for no object.

    `texObject` is what `hipTexObjectCreate` returned.
    """
    given = texture_object(texObject).texture.copy()
    flags = 0 if given.readMode == READ.hipReadModeNormalizedFloat else HIP_TRSF_READ_AS_INTEGER
    flags |= HIP_TRSF_NORMALIZED_COORDINATES if given.normalizedCoords else 0
    return HIP_TEXTURE_DESC(**{name: given[name] for name in SHARED}, flags=flags)


@api(outputs=1)
def hipTexObjectGetResourceViewDesc(texObject: Any) -> HIP_RESOURCE_VIEW_DESC:
    """Return ``(hipError_t, HIP_RESOURCE_VIEW_DESC)`` of an object; hipErrorInvalidValue for one without a view.

    `texObject` is what `hipTexObjectCreate` returned.
    """
    view = texture_object(texObject).view
    if view is None:
        raise HipError(hipError_t.hipErrorInvalidValue, "the texture object was made without a view")
    return HIP_RESOURCE_VIEW_DESC(**{name: view[name] for name in view.PROPERTIES()})
