"""What an element of an array or a texture is: up to four channels of one type."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from forebay.hip.errors import HipError, api, check_params
from forebay.hip.facts import (
    hipArray_Format,
    hipChannelFormatDesc,
    hipChannelFormatKind,
    hipError_t,
    hipResourceViewFormat,
)

AD = hipArray_Format
View = hipResourceViewFormat
# By the number that the kernels' headers have for a type (hip/textures/texels.h).
TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4")
ARRAY_FORMATS = (
    AD.HIP_AD_FORMAT_UNSIGNED_INT8,
    AD.HIP_AD_FORMAT_SIGNED_INT8,
    AD.HIP_AD_FORMAT_UNSIGNED_INT16,
    AD.HIP_AD_FORMAT_SIGNED_INT16,
    AD.HIP_AD_FORMAT_UNSIGNED_INT32,
    AD.HIP_AD_FORMAT_SIGNED_INT32,
    AD.HIP_AD_FORMAT_HALF,
    AD.HIP_AD_FORMAT_FLOAT,
)
KINDS = {
    "i": hipChannelFormatKind.hipChannelFormatKindSigned,
    "u": hipChannelFormatKind.hipChannelFormatKindUnsigned,
    "f": hipChannelFormatKind.hipChannelFormatKindFloat,
}
CHANNELS = (1, 2, 4)
FIRST_VIEW = View.hipResViewFormatUnsignedChar1


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
            raise HipError(hipError_t.hipErrorInvalidValue, f"no element of an array has these channels: {desc!r}")
        if bits[0] % 8:
            raise HipError(hipError_t.hipErrorInvalidValue, f"channels of {bits[0]} bits")
        return cls(TYPES.index(type), channels)

    @classmethod
    def of_array_format(cls, format: Any, channels: Any) -> Format:
        """Return the format of a hipArray_Format with 1, 2 or 4 channels; hipErrorInvalidValue for any other."""
        if format not in ARRAY_FORMATS or channels not in CHANNELS:
            raise HipError(hipError_t.hipErrorInvalidValue, f"no element has {channels!r} channels of {format!r}")
        return cls(ARRAY_FORMATS.index(format), int(channels))

    @classmethod
    def of_view(cls, format: Any) -> Format:
        """Return the format of a hipResourceViewFormat; hipErrorNotSupported for compressed ones."""
        names = ("u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4")
        place, channels = divmod(int(format) - FIRST_VIEW, len(CHANNELS))
        if not 0 <= place < len(names):
            raise HipError(hipError_t.hipErrorNotSupported, f"a view of elements as {format!r}")
        return cls(TYPES.index(names[place]), CHANNELS[channels])


@api(outputs=1)
def hipCreateChannelDesc(x: int, y: int, z: int, w: int, f: int) -> hipChannelFormatDesc:
    """Return ``(hipError_t, hipChannelFormatDesc)`` of the bits of four channels and a hipChannelFormatKind.

    `x`, `y`, `z` and `w` are bits of a channel, 0 for none, and `f` is the kind. What HIP does not have is refused
    where it is used.
    """
    return hipChannelFormatDesc(int(x), int(y), int(z), int(w), f)
