// What a texture object points to, and how one of its elements is read.
#pragma once

#include <hip/device/spirv.h>
#include <hip/hip_vector_types.h>

namespace __forebay::textures {

// As in forebay.hip.textures.descriptors, which fills it in.
enum texel_type { texel_u8, texel_s8, texel_u16, texel_s16, texel_u32, texel_s32, texel_f16, texel_f32 };
enum address_mode { address_wrap, address_clamp, address_mirror, address_border };

#ifdef __CUDACC_RTC__
#define FOREBAY_GLOBAL
#else
#define FOREBAY_GLOBAL __attribute__((address_space(1)))
#endif

struct texture_descriptor {
    const FOREBAY_GLOBAL char* base;
    unsigned long row, slice;  // bytes from one row to the next, and from one plane or layer to the next
    int extent[3];             // elements; 1 where there are fewer dimensions
    int layers;
    int type, channels;
    int format;  // as `format_of` has it when elements are read as they are, otherwise -1
    int plain;   // the same when besides nothing is filtered and all dimensions clamp, otherwise -1
    int nbytes;  // of an element
    int mode[3];
    int linear;      // whether it filters
    float scale[3];  // from coordinates to elements
    float divisor;   // of integers that are read as floats
    float border[4];
};
using texture_pointer = const FOREBAY_GLOBAL texture_descriptor*;

// What a function takes for an object: HIP's is a pointer, CUDA's a number.
struct handle {
    texture_pointer to;
    template <class Opaque>
    __DEVICE__ handle(Opaque* object) : to((texture_pointer)(void*)object) {}
    __DEVICE__ handle(unsigned long long object) : to((texture_pointer)object) {}
};

template <class T, class = void>
struct texel_of {
    using element = T;
    enum { channels = 1 };
};
#ifdef __CUDACC_RTC__
template <class V>
struct texel_of<V, std::void_t<typename vector_of<V>::type>> {
    using element = typename vector_of<V>::type;
    enum { channels = vector_of<V>::lanes };
};
#else
template <class T, unsigned N>
struct texel_of<HIP_vector_type<T, N>> {
    using element = T;
    enum { channels = N };
};
#endif
template <class T>
using element_of = typename texel_of<T>::element;

template <class T>
inline constexpr bool is_floating_texel = std::is_same_v<element_of<T>, float> || std::is_same_v<element_of<T>, _Float16>;

template <class T>
inline constexpr texel_type type_of =
    std::is_same_v<T, float> ? texel_f32
    : std::is_same_v<T, _Float16>
        ? texel_f16
        : texel_type((sizeof(T) == 1 ? texel_u8 : sizeof(T) == 2 ? texel_u16 : texel_u32) + std::is_signed_v<T>);

template <class T>
inline constexpr int format_of = type_of<element_of<T>> * 8 + texel_of<T>::channels;

// The bits of a number of 16 bits as a float; a device need not have such numbers for it.
__DEVICE__ float float_of_half(unsigned bits) {
    unsigned magnitude = (bits & 0x7fff) << 13;
    float value = bits_as<float>(magnitude) * 0x1p112f;
    if (magnitude >= 0x0f800000)
        value = bits_as<float>(magnitude | 0x7f800000);
    return bits & 0x8000 ? -value : value;
}

// One channel of the element that begins there, of whatever type, as a float or an int.
template <class R>
__DEVICE__ R channel_at(texture_pointer t, const FOREBAY_GLOBAL char* at, int channel) {
    int type = t->type;
    if (type >= texel_u32 && type != texel_f16) {
        unsigned bits = ((const FOREBAY_GLOBAL unsigned*)at)[channel];
        if constexpr (std::is_same_v<R, float>)
            return type == texel_f32 ? bits_as<float>(bits) : type == texel_s32 ? (float)(int)bits : (float)bits;
        return (R)bits;
    }
    unsigned bits;
    int unused;  // bits of 32
    if (type <= texel_s8) {
        bits = ((const FOREBAY_GLOBAL unsigned char*)at)[channel];
        unused = 24;
    } else {
        bits = ((const FOREBAY_GLOBAL unsigned short*)at)[channel];
        unused = 16;
    }
    int value = (type & 1) ? (int)(bits << unused) >> unused : (int)bits;
    if constexpr (std::is_same_v<R, float>) {
        if (type == texel_f16)
            return float_of_half(bits);
        float scaled = (float)value / t->divisor;
        return t->divisor > 1.0f && scaled < -1.0f ? -1.0f : scaled;
    }
    return (R)value;
}

template <class T>
using texel_result = std::conditional_t<is_floating_texel<T>, float, int>;

#ifdef __CUDACC_RTC__
template <class T>
struct alignas(sizeof(T)) native_texel {
    element_of<T> lanes[texel_of<T>::channels];
    __DEVICE__ element_of<T>& operator[](int i) { return lanes[i]; }
};
#else
template <class T>
using native_texel = element_of<T> __attribute__((ext_vector_type(texel_of<T>::channels)));
#endif

// The element that begins there, as it is.
template <class T>
__DEVICE__ T loaded(const FOREBAY_GLOBAL char* at) {
    if constexpr (texel_of<T>::channels == 1)
        return __builtin_bit_cast(T, *(const FOREBAY_GLOBAL element_of<T>*)at);
    else
        return __builtin_bit_cast(T, *(const FOREBAY_GLOBAL native_texel<T>*)at);
}

// The element that begins at this byte of a texture.
template <class T>
__DEVICE__ T texel_at(texture_pointer t, unsigned long offset) {
    using E = element_of<T>;
    constexpr int N = texel_of<T>::channels;
    static_assert(std::is_arithmetic_v<E> || std::is_same_v<E, _Float16>, "a texture has numbers in it, or vectors of them");
    static_assert(sizeof(E) <= 4 && N != 3, "a texture has 1, 2 or 4 channels of at most 32 bits");
    const FOREBAY_GLOBAL char* at = t->base + offset;
    if (t->format == format_of<T>)
        return loaded<T>(at);
    native_texel<T> result;
    for (int i = 0; i < N; i++)
        result[i] = i < t->channels ? (E)channel_at<texel_result<T>>(t, at, i) : (E)(i == 3);
    return __builtin_bit_cast(T, result);
}

// The colour outside.
template <class T>
__DEVICE__ T border_of(texture_pointer t) {
    native_texel<T> result;
    for (int i = 0; i < texel_of<T>::channels; i++)
        result[i] = (element_of<T>)t->border[i];
    return __builtin_bit_cast(T, result);
}

}  // namespace __forebay::textures
