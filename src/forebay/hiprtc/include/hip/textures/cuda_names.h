// CUDA's names of textures and surfaces. Their functions have the same names in both.
#pragma once

#include <hip/hip_texture_types.h>

// Numbers, as in CUDA: programs take them apart and put them together.
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef cudaTextureObject_t CUtexObject;
typedef cudaSurfaceObject_t CUsurfObject;
using cudaArray_t = hipArray_t;
using cudaArray = hipArray;
using cudaMipmappedArray_t = hipMipmappedArray_t;
using cudaTextureReadMode = hipTextureReadMode;
using cudaTextureAddressMode = hipTextureAddressMode;
using cudaTextureFilterMode = hipTextureFilterMode;
using cudaSurfaceBoundaryMode = hipSurfaceBoundaryMode;
using cudaChannelFormatKind = hipChannelFormatKind;
using cudaChannelFormatDesc = hipChannelFormatDesc;
using cudaResourceType = hipResourceType;
using cudaResourceDesc = hipResourceDesc;
using cudaTextureDesc = hipTextureDesc;

inline constexpr hipTextureReadMode cudaReadModeElementType = hipReadModeElementType;
inline constexpr hipTextureReadMode cudaReadModeNormalizedFloat = hipReadModeNormalizedFloat;
inline constexpr hipTextureAddressMode cudaAddressModeWrap = hipAddressModeWrap;
inline constexpr hipTextureAddressMode cudaAddressModeClamp = hipAddressModeClamp;
inline constexpr hipTextureAddressMode cudaAddressModeMirror = hipAddressModeMirror;
inline constexpr hipTextureAddressMode cudaAddressModeBorder = hipAddressModeBorder;
inline constexpr hipTextureFilterMode cudaFilterModePoint = hipFilterModePoint;
inline constexpr hipTextureFilterMode cudaFilterModeLinear = hipFilterModeLinear;
inline constexpr hipSurfaceBoundaryMode cudaBoundaryModeZero = hipBoundaryModeZero;
inline constexpr hipSurfaceBoundaryMode cudaBoundaryModeTrap = hipBoundaryModeTrap;
inline constexpr hipSurfaceBoundaryMode cudaBoundaryModeClamp = hipBoundaryModeClamp;
inline constexpr hipChannelFormatKind cudaChannelFormatKindSigned = hipChannelFormatKindSigned;
inline constexpr hipChannelFormatKind cudaChannelFormatKindUnsigned = hipChannelFormatKindUnsigned;
inline constexpr hipChannelFormatKind cudaChannelFormatKindFloat = hipChannelFormatKindFloat;
inline constexpr int cudaTextureType1D = hipTextureType1D;
inline constexpr int cudaTextureType2D = hipTextureType2D;
inline constexpr int cudaTextureType3D = hipTextureType3D;
inline constexpr int cudaTextureTypeCubemap = hipTextureTypeCubemap;
inline constexpr int cudaTextureType1DLayered = hipTextureType1DLayered;
inline constexpr int cudaTextureType2DLayered = hipTextureType2DLayered;
inline constexpr int cudaTextureTypeCubemapLayered = hipTextureTypeCubemapLayered;
