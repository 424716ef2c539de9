// Texture references, which HIP and CUDA had before objects: `texture<float, 2> name;` at file scope, `tex2D(name, x, y)`.
// The host binds them by name: hipModuleGetTexRef. The variable holds the descriptor itself.
#pragma once

#include <hip/hip_texture_types.h>
#include <hip/textures/filtering.h>

struct textureReference {
    __forebay::textures::texture_descriptor descriptor;
};

// The attribute makes it a variable of the device without its saying so. Until it is bound it is all zeros: no elements,
// so reads give 0. The host reads from the name of the type how it is declared.
template <class T, int dimensions = hipTextureType1D, hipTextureReadMode mode = hipReadModeElementType>
struct
#ifndef __CUDACC_RTC__
    __attribute__((device_builtin_texture_type))
#endif
    texture : textureReference {};

namespace __forebay::textures {

#ifdef __CUDACC_RTC__
template <int N>
using float_vector = std::conditional_t<N == 1, float1, std::conditional_t<N == 2, float2, float4>>;
#else
template <unsigned N>
using float_vector = HIP_vector_type<float, N>;
#endif

// What a read gives: floats when integers are read so.
template <class T, hipTextureReadMode mode>
struct texture_result {
    using type = T;
};
template <class T>
struct texture_result<T, hipReadModeNormalizedFloat> {
    using type = std::conditional_t<std::is_arithmetic_v<T>, float, float_vector<texel_of<T>::channels>>;
};

}  // namespace __forebay::textures

#define FOREBAY_ARGUMENTS(...) __VA_ARGS__
#define FOREBAY_TEXTURE(name, dimensions, parameters, ...)                                                      \
    template <class U, hipTextureReadMode mode>                                                                 \
    __DEVICE__ typename __forebay::textures::texture_result<U, mode>::type name(const texture<U, dimensions, mode>& from, \
                                                                      FOREBAY_ARGUMENTS parameters) {           \
        using namespace __forebay::textures;                                                                              \
        using T = typename texture_result<U, mode>::type;                                                       \
        texture_pointer t = (texture_pointer)(void*)&from;                                                      \
        return __VA_ARGS__;                                                                                     \
    }
FOREBAY_TEXTURE(tex1Dfetch, hipTextureType1D, (int x),
                (unsigned)x < (unsigned)t->extent[0] ? texel_at<T>(t, (unsigned long)x * t->nbytes) : T{})
FOREBAY_TEXTURE(tex1D, hipTextureType1D, (float x), sampled<T, 1>(t, x))
FOREBAY_TEXTURE(tex2D, hipTextureType2D, (float x, float y), sampled<T, 2>(t, x, y))
FOREBAY_TEXTURE(tex3D, hipTextureType3D, (float x, float y, float z), sampled<T, 3>(t, x, y, z))
FOREBAY_TEXTURE(tex1DLayered, hipTextureType1DLayered, (float x, int layer),
                sampled<T, 1>(t, x, 0, 0, layer_offset(t, layer)))
FOREBAY_TEXTURE(tex2DLayered, hipTextureType2DLayered, (float x, float y, int layer),
                sampled<T, 2>(t, x, y, 0, layer_offset(t, layer)))
FOREBAY_TEXTURE(texCubemap, hipTextureTypeCubemap, (float x, float y, float z), sampled_cube<T>(t, x, y, z, 0))
FOREBAY_TEXTURE(texCubemapLayered, hipTextureTypeCubemapLayered, (float x, float y, float z, int layer),
                sampled_cube<T>(t, x, y, z, layer))
#undef FOREBAY_TEXTURE
#undef FOREBAY_ARGUMENTS
