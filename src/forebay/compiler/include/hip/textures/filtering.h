// From coordinates to elements: address modes, the nearest element, and linear filtering as in "Texture Fetching" of the
// CUDA C++ Programming Guide, with weights of 8 fractional bits.
#pragma once

#include <hip/textures/texels.h>

namespace __forebay::textures {

#ifdef __CUDACC_RTC__
__DEVICE__ float floor_of(float x) { return floorf(x); }
#else
__DEVICE__ float floor_of(float x) { return __builtin_floorf(x); }
#endif

// A coordinate in elements. Comparisons are such that no number at all becomes the lower end; all fit an int then.
__DEVICE__ float in_elements(texture_pointer t, int axis, float x) {
    int mode = t->mode[axis];
    if (mode == address_wrap)
        x -= floor_of(x);
    else if (mode == address_mirror)
        x -= 2 * floor_of(x * 0.5f);
    x *= t->scale[axis];
    float most = 2.0f * (float)t->extent[axis];
    x = x > -2.0f ? x : -2.0f;
    return x < most ? x : most;
}

__DEVICE__ int clamped(int i, int n) {
    i = i > 0 ? i : 0;
    return i < n ? i : n - 1;
}

// The element that an index stands for in this mode; -1 for the border's colour.
__DEVICE__ int element_index(texture_pointer t, int axis, int i) {
    int n = t->extent[axis], mode = t->mode[axis];
    if (mode == address_border)
        return (unsigned)i < (unsigned)n ? i : -1;
    if (mode == address_wrap)
        i = i < 0 ? i + n : i >= n ? i - n : i;
    else if (mode == address_mirror)
        i = i < 0 ? -1 - i : i >= n ? 2 * n - 1 - i : i;
    return clamped(i, n);
}

__DEVICE__ int nearest_element(texture_pointer t, int axis, float x) {
    return element_index(t, axis, (int)floor_of(in_elements(t, axis, x)));
}

// The same where the mode is to clamp.
__DEVICE__ unsigned long nearest_clamped(texture_pointer t, int axis, float x) {
    x *= t->scale[axis];
    float last = (float)(t->extent[axis] - 1);
    x = x > 0.0f ? x : 0.0f;
    return (unsigned)(int)(x < last ? x : last);
}

struct pair_of_elements {
    int first, second;
    float weight;  // of the second
};

__DEVICE__ pair_of_elements between(texture_pointer t, int axis, float x) {
    x = in_elements(t, axis, x) - 0.5f;
    float below = floor_of(x);
    float weight = floor_of((x - below) * 256.0f + 0.5f) * (1.0f / 256.0f);
    int i = (int)below;
    return {element_index(t, axis, i), element_index(t, axis, i + 1), weight};
}

// The channels of an element as floats, and what is done with them.
#ifdef __CUDACC_RTC__
template <int N>
struct floats {
    float lanes[N];
};
template <class T, int N = texel_of<T>::channels>
__DEVICE__ floats<N> floats_of(T value) {
    native_texel<T> native = __builtin_bit_cast(native_texel<T>, value);
    floats<N> result;
    for (int i = 0; i < N; i++)
        result.lanes[i] = (float)native[i];
    return result;
}
template <class T, int N = texel_of<T>::channels>
__DEVICE__ T of_floats(floats<N> sum) {
    native_texel<T> native;
    for (int i = 0; i < N; i++)
        native[i] = (element_of<T>)sum.lanes[i];
    return __builtin_bit_cast(T, native);
}
template <int N>
__DEVICE__ void add_weighted(floats<N>& sum, float weight, floats<N> value) {
    for (int i = 0; i < N; i++)
        sum.lanes[i] += weight * value.lanes[i];
}
#else
template <int N>
using floats = float __attribute__((ext_vector_type(N)));
template <class T>
__DEVICE__ floats<texel_of<T>::channels> floats_of(T value) {
    constexpr int N = texel_of<T>::channels;
    if constexpr (std::is_same_v<element_of<T>, float>)
        return __builtin_bit_cast(floats<N>, value);
    else
        return __builtin_convertvector(__builtin_bit_cast(native_texel<T>, value), floats<N>);
}
template <class T>
__DEVICE__ T of_floats(floats<texel_of<T>::channels> sum) {
    return __builtin_bit_cast(T, __builtin_convertvector(sum, native_texel<T>));
}
template <class F>
__DEVICE__ void add_weighted(F& sum, float weight, F value) {
    sum += weight * value;
}
#endif

template <class T>
__DEVICE__ floats<texel_of<T>::channels> element_or_border(texture_pointer t, int i, int j, int k, unsigned long slice) {
    T value = (i | j | k) < 0 ? border_of<T>(t)
                              : texel_at<T>(t, slice + k * t->slice + j * t->row + (unsigned long)i * t->nbytes);
    return floats_of<T>(value);
}

// Of one, two or three dimensions; `slice` is where the layer begins. One element after another, not all in one: programs
// stay small.
template <class T, int D>
__DEVICE__ T filtered(texture_pointer t, pair_of_elements x, pair_of_elements y, pair_of_elements z, unsigned long slice) {
    constexpr int N = texel_of<T>::channels;
    floats<N> sum = {};
#ifdef __clang__
#pragma clang loop unroll(disable)
#endif
    for (int corner = 0; corner < 1 << D; corner++) {
        float weight = corner & 1 ? x.weight : 1.0f - x.weight;
        int i = corner & 1 ? x.second : x.first, j = 0, k = 0;
        if constexpr (D > 1) {
            weight *= corner & 2 ? y.weight : 1.0f - y.weight;
            j = corner & 2 ? y.second : y.first;
        }
        if constexpr (D > 2) {
            weight *= corner & 4 ? z.weight : 1.0f - z.weight;
            k = corner & 4 ? z.second : z.first;
        }
        add_weighted(sum, weight, element_or_border<T>(t, i, j, k, slice));
    }
    return of_floats<T>(sum);
}

__DEVICE__ unsigned long layer_offset(texture_pointer t, int layer) {
    return (unsigned long)clamped(layer, t->layers) * t->slice;
}

template <class T, int D>
__DEVICE__ T sampled(texture_pointer t, float x, float y = 0, float z = 0, unsigned long slice = 0) {
    // The common case by itself, so that a compiler can make it short.
    if (t->plain == format_of<T>) {
        unsigned long offset = slice + nearest_clamped(t, 0, x) * sizeof(T);
        if constexpr (D > 1)
            offset += nearest_clamped(t, 1, y) * t->row;
        if constexpr (D > 2)
            offset += nearest_clamped(t, 2, z) * t->slice;
        return loaded<T>(t->base + offset);
    }
    if constexpr (is_floating_texel<T>) {
        if (t->linear) {
            pair_of_elements none = {0, 0, 0};
            return filtered<T, D>(t, between(t, 0, x), D > 1 ? between(t, 1, y) : none,
                                  D > 2 ? between(t, 2, z) : none, slice);
        }
    }
    int i = nearest_element(t, 0, x), j = D > 1 ? nearest_element(t, 1, y) : 0, k = D > 2 ? nearest_element(t, 2, z) : 0;
    if ((i | j | k) < 0)
        return border_of<T>(t);
    unsigned long offset = slice + (unsigned long)i * t->nbytes;
    if constexpr (D > 1)
        offset += j * t->row;
    if constexpr (D > 2)
        offset += k * t->slice;
    return texel_at<T>(t, offset);
}

// The face of a cube that a direction goes through, and where; "Cubemap Textures" of the same guide.
struct on_face {
    int face;
    float s, t;
};

__DEVICE__ on_face face_of(float x, float y, float z) {
    float ax = x < 0 ? -x : x, ay = y < 0 ? -y : y, az = z < 0 ? -z : z;
    on_face at;
    float m;
    if (ax >= ay && ax >= az)
        m = ax, at = {x < 0, x < 0 ? z : -z, -y};
    else if (ay >= az)
        m = ay, at = {2 + (y < 0), x, y < 0 ? -z : z};
    else
        m = az, at = {4 + (z < 0), z < 0 ? -x : x, -y};
    at.s = (at.s / m + 1) * 0.5f;
    at.t = (at.t / m + 1) * 0.5f;
    return at;
}

template <class T>
__DEVICE__ T sampled_cube(texture_pointer t, float x, float y, float z, int layer) {
    on_face at = face_of(x, y, z);
    return sampled<T, 2>(t, at.s, at.t, 0, layer_offset(t, layer * 6 + at.face));
}

// One channel of the four elements that linear filtering would use, counterclockwise from the lower left.
template <class T>
__DEVICE__ T gathered(texture_pointer t, float x, float y, int channel) {
    using E = element_of<T>;
    static_assert(texel_of<T>::channels == 4, "tex2Dgather returns a vector of four");
    pair_of_elements across = between(t, 0, x), down = between(t, 1, y);
    native_texel<T> result;
    channel &= 3;
    for (int corner = 0; corner < 4; corner++) {
        int i = corner == 1 || corner == 2 ? across.second : across.first;
        int j = corner < 2 ? down.second : down.first;
        const FOREBAY_GLOBAL char* at = t->base + j * t->row + (unsigned long)i * t->nbytes;
        if ((i | j) < 0)
            result[corner] = (E)t->border[channel];
        else
            result[corner] =
                channel < t->channels ? (E)channel_at<texel_result<T>>(t, at, channel) : (E)(channel == 3);
    }
    return __builtin_bit_cast(T, result);
}

}  // namespace __forebay::textures
