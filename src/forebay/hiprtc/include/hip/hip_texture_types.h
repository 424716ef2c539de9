// Textures and surfaces: their types exist, and what reads or writes them says why it cannot.
#pragma once

#include <hip/hip_vector_types.h>

typedef struct __hip_texture* hipTextureObject_t;
typedef struct __hip_surface* hipSurfaceObject_t;
typedef struct hipArray* hipArray_t;
typedef const struct hipArray* hipArray_const_t;

enum hipTextureReadMode { hipReadModeElementType = 0, hipReadModeNormalizedFloat = 1 };
enum { hipTextureType1D = 1, hipTextureType2D = 2, hipTextureType3D = 3 };

#define FOREBAY_NO_TEXTURES \
    __attribute__((unavailable("textures and surfaces: kernels have none here; pass a buffer and its width")))

template <class T, int dimensions = 1, hipTextureReadMode mode = hipReadModeElementType>
struct FOREBAY_NO_TEXTURES texture {};

#define FOREBAY_TEXTURE(name)                                                       \
    template <class T, class... Arguments>                                          \
    __device__ T name(hipTextureObject_t, Arguments...) FOREBAY_NO_TEXTURES;        \
    template <class T, class... Arguments>                                          \
    __device__ void name(T*, hipTextureObject_t, Arguments...) FOREBAY_NO_TEXTURES;
FOREBAY_TEXTURE(tex1Dfetch)
FOREBAY_TEXTURE(tex1D)
FOREBAY_TEXTURE(tex2D)
FOREBAY_TEXTURE(tex3D)
FOREBAY_TEXTURE(tex1DLod)
FOREBAY_TEXTURE(tex2DLod)
FOREBAY_TEXTURE(tex3DLod)
FOREBAY_TEXTURE(tex1DGrad)
FOREBAY_TEXTURE(tex2DGrad)
FOREBAY_TEXTURE(tex3DGrad)
FOREBAY_TEXTURE(tex1DLayered)
FOREBAY_TEXTURE(tex2DLayered)
FOREBAY_TEXTURE(tex2Dgather)
FOREBAY_TEXTURE(texCubemap)
FOREBAY_TEXTURE(texCubemapLayered)
#undef FOREBAY_TEXTURE

#define FOREBAY_SURFACE(name)                                                       \
    template <class T, class... Arguments>                                          \
    __device__ T name(hipSurfaceObject_t, Arguments...) FOREBAY_NO_TEXTURES;        \
    template <class T, class... Arguments>                                          \
    __device__ void name(T, hipSurfaceObject_t, Arguments...) FOREBAY_NO_TEXTURES;
FOREBAY_SURFACE(surf1Dread)
FOREBAY_SURFACE(surf1Dwrite)
FOREBAY_SURFACE(surf2Dread)
FOREBAY_SURFACE(surf2Dwrite)
FOREBAY_SURFACE(surf3Dread)
FOREBAY_SURFACE(surf3Dwrite)
#undef FOREBAY_SURFACE
