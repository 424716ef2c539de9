"""Enumerations of arrays, textures, surfaces and graphics. HIP's own names and values (HIP 7.2)."""

from __future__ import annotations

import enum


class hipChannelFormatKind(enum.IntEnum):
    """What the channels of an element are."""

    hipChannelFormatKindSigned = 0
    hipChannelFormatKindUnsigned = 1
    hipChannelFormatKindFloat = 2
    hipChannelFormatKindNone = 3


class hipArray_Format(enum.IntEnum):
    """What an element of an array is."""

    HIP_AD_FORMAT_UNSIGNED_INT8 = 1
    HIP_AD_FORMAT_UNSIGNED_INT16 = 2
    HIP_AD_FORMAT_UNSIGNED_INT32 = 3
    HIP_AD_FORMAT_SIGNED_INT8 = 8
    HIP_AD_FORMAT_SIGNED_INT16 = 9
    HIP_AD_FORMAT_SIGNED_INT32 = 10
    HIP_AD_FORMAT_HALF = 16
    HIP_AD_FORMAT_FLOAT = 32


class hipResourceType(enum.IntEnum):
    """What a texture reads from."""

    hipResourceTypeArray = 0
    hipResourceTypeMipmappedArray = 1
    hipResourceTypeLinear = 2
    hipResourceTypePitch2D = 3


class hipResourceViewFormat(enum.IntEnum):
    """How a texture sees its elements."""

    hipResViewFormatNone = 0
    hipResViewFormatUnsignedChar1 = 1
    hipResViewFormatUnsignedChar2 = 2
    hipResViewFormatUnsignedChar4 = 3
    hipResViewFormatSignedChar1 = 4
    hipResViewFormatSignedChar2 = 5
    hipResViewFormatSignedChar4 = 6
    hipResViewFormatUnsignedShort1 = 7
    hipResViewFormatUnsignedShort2 = 8
    hipResViewFormatUnsignedShort4 = 9
    hipResViewFormatSignedShort1 = 10
    hipResViewFormatSignedShort2 = 11
    hipResViewFormatSignedShort4 = 12
    hipResViewFormatUnsignedInt1 = 13
    hipResViewFormatUnsignedInt2 = 14
    hipResViewFormatUnsignedInt4 = 15
    hipResViewFormatSignedInt1 = 16
    hipResViewFormatSignedInt2 = 17
    hipResViewFormatSignedInt4 = 18
    hipResViewFormatHalf1 = 19
    hipResViewFormatHalf2 = 20
    hipResViewFormatHalf4 = 21
    hipResViewFormatFloat1 = 22
    hipResViewFormatFloat2 = 23
    hipResViewFormatFloat4 = 24
    hipResViewFormatUnsignedBlockCompressed1 = 25
    hipResViewFormatUnsignedBlockCompressed2 = 26
    hipResViewFormatUnsignedBlockCompressed3 = 27
    hipResViewFormatUnsignedBlockCompressed4 = 28
    hipResViewFormatSignedBlockCompressed4 = 29
    hipResViewFormatUnsignedBlockCompressed5 = 30
    hipResViewFormatSignedBlockCompressed5 = 31
    hipResViewFormatUnsignedBlockCompressed6H = 32
    hipResViewFormatSignedBlockCompressed6H = 33
    hipResViewFormatUnsignedBlockCompressed7 = 34


class hipTextureAddressMode(enum.IntEnum):
    """What a texture reads outside its bounds."""

    hipAddressModeWrap = 0
    hipAddressModeClamp = 1
    hipAddressModeMirror = 2
    hipAddressModeBorder = 3


class hipTextureFilterMode(enum.IntEnum):
    """How a texture reads between elements."""

    hipFilterModePoint = 0
    hipFilterModeLinear = 1


class hipTextureReadMode(enum.IntEnum):
    """Whether a texture converts elements."""

    hipReadModeElementType = 0
    hipReadModeNormalizedFloat = 1


class hipSurfaceBoundaryMode(enum.IntEnum):
    """What a surface does outside its bounds."""

    hipBoundaryModeZero = 0
    hipBoundaryModeTrap = 1
    hipBoundaryModeClamp = 2


class hipGraphicsRegisterFlags(enum.IntEnum):
    """How a resource of a graphics interface is used."""

    hipGraphicsRegisterFlagsNone = 0
    hipGraphicsRegisterFlagsReadOnly = 1
    hipGraphicsRegisterFlagsWriteDiscard = 2
    hipGraphicsRegisterFlagsSurfaceLoadStore = 4
    hipGraphicsRegisterFlagsTextureGather = 8


class HIPaddress_mode(enum.IntEnum):
    """What a texture reads outside its bounds, for the driver's functions."""

    HIP_TR_ADDRESS_MODE_WRAP = 0
    HIP_TR_ADDRESS_MODE_CLAMP = 1
    HIP_TR_ADDRESS_MODE_MIRROR = 2
    HIP_TR_ADDRESS_MODE_BORDER = 3


class HIPfilter_mode(enum.IntEnum):
    """How a texture reads between elements, for the driver's functions."""

    HIP_TR_FILTER_MODE_POINT = 0
    HIP_TR_FILTER_MODE_LINEAR = 1


class HIPresourcetype(enum.IntEnum):
    """What a texture reads from, for the driver's functions."""

    HIP_RESOURCE_TYPE_ARRAY = 0
    HIP_RESOURCE_TYPE_MIPMAPPED_ARRAY = 1
    HIP_RESOURCE_TYPE_LINEAR = 2
    HIP_RESOURCE_TYPE_PITCH2D = 3


class HIPresourceViewFormat(enum.IntEnum):
    """How a texture sees its elements, for the driver's functions."""

    HIP_RES_VIEW_FORMAT_NONE = 0
    HIP_RES_VIEW_FORMAT_UINT_1X8 = 1
    HIP_RES_VIEW_FORMAT_UINT_2X8 = 2
    HIP_RES_VIEW_FORMAT_UINT_4X8 = 3
    HIP_RES_VIEW_FORMAT_SINT_1X8 = 4
    HIP_RES_VIEW_FORMAT_SINT_2X8 = 5
    HIP_RES_VIEW_FORMAT_SINT_4X8 = 6
    HIP_RES_VIEW_FORMAT_UINT_1X16 = 7
    HIP_RES_VIEW_FORMAT_UINT_2X16 = 8
    HIP_RES_VIEW_FORMAT_UINT_4X16 = 9
    HIP_RES_VIEW_FORMAT_SINT_1X16 = 10
    HIP_RES_VIEW_FORMAT_SINT_2X16 = 11
    HIP_RES_VIEW_FORMAT_SINT_4X16 = 12
    HIP_RES_VIEW_FORMAT_UINT_1X32 = 13
    HIP_RES_VIEW_FORMAT_UINT_2X32 = 14
    HIP_RES_VIEW_FORMAT_UINT_4X32 = 15
    HIP_RES_VIEW_FORMAT_SINT_1X32 = 16
    HIP_RES_VIEW_FORMAT_SINT_2X32 = 17
    HIP_RES_VIEW_FORMAT_SINT_4X32 = 18
    HIP_RES_VIEW_FORMAT_FLOAT_1X16 = 19
    HIP_RES_VIEW_FORMAT_FLOAT_2X16 = 20
    HIP_RES_VIEW_FORMAT_FLOAT_4X16 = 21
    HIP_RES_VIEW_FORMAT_FLOAT_1X32 = 22
    HIP_RES_VIEW_FORMAT_FLOAT_2X32 = 23
    HIP_RES_VIEW_FORMAT_FLOAT_4X32 = 24
    HIP_RES_VIEW_FORMAT_UNSIGNED_BC1 = 25
    HIP_RES_VIEW_FORMAT_UNSIGNED_BC2 = 26
    HIP_RES_VIEW_FORMAT_UNSIGNED_BC3 = 27
    HIP_RES_VIEW_FORMAT_UNSIGNED_BC4 = 28
    HIP_RES_VIEW_FORMAT_SIGNED_BC4 = 29
    HIP_RES_VIEW_FORMAT_UNSIGNED_BC5 = 30
    HIP_RES_VIEW_FORMAT_SIGNED_BC5 = 31
    HIP_RES_VIEW_FORMAT_UNSIGNED_BC6H = 32
    HIP_RES_VIEW_FORMAT_SIGNED_BC6H = 33
    HIP_RES_VIEW_FORMAT_UNSIGNED_BC7 = 34


class hipDataType(enum.IntEnum):
    """Types of elements for AMD's libraries."""

    HIP_R_32F = 0
    HIP_R_64F = 1
    HIP_R_16F = 2
    HIP_R_8I = 3
    HIP_C_32F = 4
    HIP_C_64F = 5
    HIP_C_16F = 6
    HIP_C_8I = 7
    HIP_R_8U = 8
    HIP_C_8U = 9
    HIP_R_32I = 10
    HIP_C_32I = 11
    HIP_R_32U = 12
    HIP_C_32U = 13
    HIP_R_16BF = 14
    HIP_C_16BF = 15
    HIP_R_4I = 16
    HIP_C_4I = 17
    HIP_R_4U = 18
    HIP_C_4U = 19
    HIP_R_16I = 20
    HIP_C_16I = 21
    HIP_R_16U = 22
    HIP_C_16U = 23
    HIP_R_64I = 24
    HIP_C_64I = 25
    HIP_R_64U = 26
    HIP_C_64U = 27
    HIP_R_8F_E4M3 = 28
    HIP_R_8F_E5M2 = 29
    HIP_R_8F_UE8M0 = 30
    HIP_R_6F_E2M3 = 31
    HIP_R_6F_E3M2 = 32
    HIP_R_4F_E2M1 = 33
    HIP_R_8F_E4M3_FNUZ = 1000
    HIP_R_8F_E5M2_FNUZ = 1001


HIPaddress_mode_enum = HIPaddress_mode
HIPfilter_mode_enum = HIPfilter_mode
HIPresourcetype_enum = HIPresourcetype
hipResourcetype = HIPresourcetype
HIPresourceViewFormat_enum = HIPresourceViewFormat
