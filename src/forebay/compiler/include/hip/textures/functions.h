// Reading textures through texture objects: tex2D<float>(object, x, y), and tex2D(&value, object, x, y).
#pragma once

#include <hip/hip_texture_types.h>
#include <hip/textures/filtering.h>

// Both forms of a function: `parameters` after the object, and what they give.
#define FOREBAY_TEXTURE(name, parameters, ...)                                     \
    template <class T>                                                             \
    __DEVICE__ T name(__forebay::textures::handle object, FOREBAY_ARGUMENTS parameters) {   \
        using namespace __forebay::textures;                                                 \
        texture_pointer t = object.to;                                            \
        return __VA_ARGS__;                                                        \
    }                                                                              \
    template <class T>                                                             \
    __DEVICE__ void name(T* value, __forebay::textures::handle object, FOREBAY_ARGUMENTS parameters) { \
        using namespace __forebay::textures;                                                 \
        texture_pointer t = object.to;                                            \
        *value = __VA_ARGS__;                                                      \
    }
#define FOREBAY_ARGUMENTS(...) __VA_ARGS__

// No filtering and no address modes: 0 outside.
FOREBAY_TEXTURE(tex1Dfetch, (int x),
                (unsigned)x < (unsigned)t->extent[0] ? texel_at<T>(t, (unsigned long)x * t->nbytes) : T{})
FOREBAY_TEXTURE(tex1D, (float x), sampled<T, 1>(t, x))
FOREBAY_TEXTURE(tex2D, (float x, float y), sampled<T, 2>(t, x, y))
FOREBAY_TEXTURE(tex3D, (float x, float y, float z), sampled<T, 3>(t, x, y, z))
FOREBAY_TEXTURE(tex1DLayered, (float x, int layer), sampled<T, 1>(t, x, 0, 0, layer_offset(t, layer)))
FOREBAY_TEXTURE(tex2DLayered, (float x, float y, int layer), sampled<T, 2>(t, x, y, 0, layer_offset(t, layer)))
FOREBAY_TEXTURE(texCubemap, (float x, float y, float z), sampled_cube<T>(t, x, y, z, 0))
FOREBAY_TEXTURE(texCubemapLayered, (float x, float y, float z, int layer), sampled_cube<T>(t, x, y, z, layer))
FOREBAY_TEXTURE(tex2Dgather, (float x, float y, int channel = 0), gathered<T>(t, x, y, channel))

// Textures have one level here, so the level and what it follows from make no difference.
FOREBAY_TEXTURE(tex1DLod, (float x, float), sampled<T, 1>(t, x))
FOREBAY_TEXTURE(tex2DLod, (float x, float y, float), sampled<T, 2>(t, x, y))
FOREBAY_TEXTURE(tex3DLod, (float x, float y, float z, float), sampled<T, 3>(t, x, y, z))
FOREBAY_TEXTURE(tex1DLayeredLod, (float x, int layer, float), sampled<T, 1>(t, x, 0, 0, layer_offset(t, layer)))
FOREBAY_TEXTURE(tex2DLayeredLod, (float x, float y, int layer, float),
                sampled<T, 2>(t, x, y, 0, layer_offset(t, layer)))
FOREBAY_TEXTURE(texCubemapLod, (float x, float y, float z, float), sampled_cube<T>(t, x, y, z, 0))
FOREBAY_TEXTURE(texCubemapLayeredLod, (float x, float y, float z, int layer, float),
                sampled_cube<T>(t, x, y, z, layer))
FOREBAY_TEXTURE(tex1DGrad, (float x, float, float), sampled<T, 1>(t, x))
FOREBAY_TEXTURE(tex2DGrad, (float x, float y, float2, float2), sampled<T, 2>(t, x, y))
FOREBAY_TEXTURE(tex3DGrad, (float x, float y, float z, float4, float4), sampled<T, 3>(t, x, y, z))
FOREBAY_TEXTURE(tex1DLayeredGrad, (float x, int layer, float, float), sampled<T, 1>(t, x, 0, 0, layer_offset(t, layer)))
FOREBAY_TEXTURE(tex2DLayeredGrad, (float x, float y, int layer, float2, float2),
                sampled<T, 2>(t, x, y, 0, layer_offset(t, layer)))
FOREBAY_TEXTURE(texCubemapGrad, (float x, float y, float z, float4, float4), sampled_cube<T>(t, x, y, z, 0))
FOREBAY_TEXTURE(texCubemapLayeredGrad, (float x, float y, float z, int layer, float4, float4),
                sampled_cube<T>(t, x, y, z, layer))
#undef FOREBAY_TEXTURE
#undef FOREBAY_ARGUMENTS
