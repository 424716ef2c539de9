"""Structures that describe textures: what they read from, and how. HIP's, with its members."""

from __future__ import annotations

from typing import Any, ClassVar

from forebay.hip.enums import (
    HIPfilter_mode,
    HIPresourcetype,
    HIPresourceViewFormat,
    hipResourceType,
    hipResourceViewFormat,
    hipTextureFilterMode,
    hipTextureReadMode,
)
from forebay.hip.transfers.formats import hipChannelFormatDesc
from forebay.hip.transfers.params import Record

__all__ = [
    "HIP_RESOURCE_DESC",
    "HIP_RESOURCE_VIEW_DESC",
    "HIP_TEXTURE_DESC",
    "HIP_TRSF_NORMALIZED_COORDINATES",
    "HIP_TRSF_READ_AS_INTEGER",
    "HIP_TRSF_SRGB",
    "hipResourceDesc",
    "hipResourceViewDesc",
    "hipTextureDesc",
]

HIP_TRSF_READ_AS_INTEGER = 1
HIP_TRSF_NORMALIZED_COORDINATES = 2
HIP_TRSF_SRGB = 16


def _zeros(count: int, zero: Any = 0) -> Any:
    return lambda: [zero] * count


class _Array(Record):
    _members: ClassVar[dict[str, Any]] = {"array": None}


class _Mipmap(Record):
    _members: ClassVar[dict[str, Any]] = {"mipmap": None}


class _Linear(Record):
    _members: ClassVar[dict[str, Any]] = {"devPtr": None, "desc": hipChannelFormatDesc, "sizeInBytes": 0}


class _Pitch2D(Record):
    _members: ClassVar[dict[str, Any]] = {
        "devPtr": None, "desc": hipChannelFormatDesc, "width": 0, "height": 0, "pitchInBytes": 0,
    }  # fmt: skip


class _Resource(Record):
    _members: ClassVar[dict[str, Any]] = {"array": _Array, "mipmap": _Mipmap, "linear": _Linear, "pitch2D": _Pitch2D}


class hipResourceDesc(Record):
    """What a texture or a surface reads from.

    Attributes
    ----------
    resType : hipResourceType
    res
        ``res.array.array``: a hipArray. ``res.linear``: devPtr, desc (a hipChannelFormatDesc), sizeInBytes.
        ``res.pitch2D``: devPtr, desc, width and height in elements, pitchInBytes.
    """

    _members: ClassVar[dict[str, Any]] = {"resType": hipResourceType.hipResourceTypeArray, "res": _Resource}
    resType: Any
    res: Any


class hipTextureDesc(Record):
    """How a texture is read.

    Attributes
    ----------
    addressMode : list of hipTextureAddressMode
        For each dimension. Wrap and mirror need normalized coordinates; without these they clamp.
    filterMode : hipTextureFilterMode
    readMode : hipTextureReadMode
    normalizedCoords : int
        Whether coordinates go from 0 to 1.
    borderColor : list of float
    sRGB, maxAnisotropy, mipmapFilterMode, mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp
        sRGB has to be 0; the others make no difference.
    """

    _members: ClassVar[dict[str, Any]] = {
        "addressMode": _zeros(3),
        "filterMode": hipTextureFilterMode.hipFilterModePoint,
        "readMode": hipTextureReadMode.hipReadModeElementType,
        "sRGB": 0,
        "borderColor": _zeros(4, 0.0),
        "normalizedCoords": 0,
        "maxAnisotropy": 0,
        "mipmapFilterMode": hipTextureFilterMode.hipFilterModePoint,
        "mipmapLevelBias": 0.0,
        "minMipmapLevelClamp": 0.0,
        "maxMipmapLevelClamp": 0.0,
    }
    addressMode: list[Any]
    filterMode: Any
    readMode: Any
    sRGB: int
    borderColor: list[float]
    normalizedCoords: int


class hipResourceViewDesc(Record):
    """Elements of an array as others of the same size: `format` is a hipResourceViewFormat."""

    _members: ClassVar[dict[str, Any]] = {
        "format": hipResourceViewFormat.hipResViewFormatNone, "width": 0, "height": 0, "depth": 0,
        "firstMipmapLevel": 0, "lastMipmapLevel": 0, "firstLayer": 0, "lastLayer": 0,
    }  # fmt: skip
    format: Any


class _DriverArray(Record):
    _members: ClassVar[dict[str, Any]] = {"hArray": None}


class _DriverMipmap(Record):
    _members: ClassVar[dict[str, Any]] = {"hMipmappedArray": None}


class _DriverLinear(Record):
    _members: ClassVar[dict[str, Any]] = {"devPtr": None, "format": 0, "numChannels": 0, "sizeInBytes": 0}


class _DriverPitch2D(Record):
    _members: ClassVar[dict[str, Any]] = {
        "devPtr": None, "format": 0, "numChannels": 0, "width": 0, "height": 0, "pitchInBytes": 0,
    }  # fmt: skip


class _DriverResource(Record):
    _members: ClassVar[dict[str, Any]] = {
        "array": _DriverArray, "mipmap": _DriverMipmap, "linear": _DriverLinear, "pitch2D": _DriverPitch2D,
    }  # fmt: skip


class HIP_RESOURCE_DESC(Record):
    """`hipResourceDesc` for the driver's functions: resType, and res with array.hArray; linear and pitch2D with format
    (a hipArray_Format) and numChannels in place of desc."""

    _members: ClassVar[dict[str, Any]] = {
        "resType": HIPresourcetype.HIP_RESOURCE_TYPE_ARRAY, "res": _DriverResource, "flags": 0,
    }  # fmt: skip
    resType: Any
    res: Any


class HIP_TEXTURE_DESC(Record):
    """`hipTextureDesc` for the driver's functions: `flags` of HIP_TRSF_… say how elements and coordinates are read."""

    _members: ClassVar[dict[str, Any]] = {
        "addressMode": _zeros(3),
        "filterMode": HIPfilter_mode.HIP_TR_FILTER_MODE_POINT,
        "flags": 0,
        "maxAnisotropy": 0,
        "mipmapFilterMode": HIPfilter_mode.HIP_TR_FILTER_MODE_POINT,
        "mipmapLevelBias": 0.0,
        "minMipmapLevelClamp": 0.0,
        "maxMipmapLevelClamp": 0.0,
        "borderColor": _zeros(4, 0.0),
    }
    flags: int


class HIP_RESOURCE_VIEW_DESC(Record):
    """`hipResourceViewDesc` for the driver's functions."""

    _members: ClassVar[dict[str, Any]] = {
        **hipResourceViewDesc._members, "format": HIPresourceViewFormat.HIP_RES_VIEW_FORMAT_NONE,
    }  # fmt: skip
    format: Any
