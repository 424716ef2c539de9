// Reading and writing arrays through surface objects. The first coordinate counts bytes.
#pragma once

#ifndef __CUDACC_RTC__
#include <hip/device/printing.h>
#endif
#include <hip/hip_texture_types.h>
#include <hip/textures/filtering.h>

namespace __forebay::textures {

template <int nbytes>
struct bytes_of_surface;
#define FOREBAY_BYTES(size, ...)          \
    template <>                           \
    struct bytes_of_surface<size> {       \
        using type = __VA_ARGS__;         \
    };
FOREBAY_BYTES(1, unsigned char)
FOREBAY_BYTES(2, unsigned short)
FOREBAY_BYTES(4, unsigned)
#ifdef __CUDACC_RTC__
FOREBAY_BYTES(8, uint2)
FOREBAY_BYTES(16, uint4)
#else
FOREBAY_BYTES(8, unsigned __attribute__((ext_vector_type(2))))
FOREBAY_BYTES(16, unsigned __attribute__((ext_vector_type(4))))
#endif
#undef FOREBAY_BYTES

// Where an element is; null when it is outside and nothing is to be read or written.
template <class T>
__DEVICE__ FOREBAY_GLOBAL char* surface_at(handle object, int x, int y, int z, int layer, int mode) {
    texture_pointer t = object.to;
    int last = t->extent[0] * t->nbytes - (int)sizeof(T), planes = t->extent[2];
    if (mode == hipBoundaryModeClamp) {
        x = clamped(x, last + 1);
        y = clamped(y, t->extent[1]);
        z = clamped(z, planes);
        layer = clamped(layer, t->layers);
    } else if (x < 0 || x > last || (unsigned)y >= (unsigned)t->extent[1] || (unsigned)z >= (unsigned)planes ||
               (unsigned)layer >= (unsigned)t->layers) {
        if (mode == hipBoundaryModeTrap)
            __trap();
        return nullptr;
    }
    return (FOREBAY_GLOBAL char*)t->base + ((unsigned long)(z + layer) * t->slice + y * t->row + x);
}

template <class T>
__DEVICE__ T surface_read(handle object, int x, int y, int z, int layer, int mode) {
    using B = typename bytes_of_surface<sizeof(T)>::type;
    FOREBAY_GLOBAL char* at = surface_at<T>(object, x, y, z, layer, mode);
    B value = {};
    if (at)
        value = *(FOREBAY_GLOBAL B*)at;
    return __builtin_bit_cast(T, value);
}

template <class T>
__DEVICE__ void surface_write(T value, handle object, int x, int y, int z, int layer, int mode) {
    using B = typename bytes_of_surface<sizeof(T)>::type;
    FOREBAY_GLOBAL char* at = surface_at<T>(object, x, y, z, layer, mode);
    if (at)
        *(FOREBAY_GLOBAL B*)at = __builtin_bit_cast(B, value);
}

}  // namespace __forebay::textures

// Both forms of reading, and writing.
#define FOREBAY_ARGUMENTS(...) __VA_ARGS__
#define FOREBAY_SURFACE(name, parameters, ...)                                                          \
    template <class T>                                                                                  \
    __DEVICE__ T name##read(__forebay::textures::handle surface, FOREBAY_ARGUMENTS parameters) {                 \
        return __forebay::textures::surface_read<T>(surface, __VA_ARGS__);                                        \
    }                                                                                                   \
    template <class T>                                                                                  \
    __DEVICE__ void name##read(T* value, __forebay::textures::handle surface, FOREBAY_ARGUMENTS parameters) {    \
        *value = __forebay::textures::surface_read<T>(surface, __VA_ARGS__);                                      \
    }                                                                                                   \
    template <class T>                                                                                  \
    __DEVICE__ void name##write(T value, __forebay::textures::handle surface, FOREBAY_ARGUMENTS parameters) {    \
        __forebay::textures::surface_write(value, surface, __VA_ARGS__);                                          \
    }
FOREBAY_SURFACE(surf1D, (int x, int mode = hipBoundaryModeZero), x, 0, 0, 0, mode)
FOREBAY_SURFACE(surf2D, (int x, int y, int mode = hipBoundaryModeZero), x, y, 0, 0, mode)
FOREBAY_SURFACE(surf3D, (int x, int y, int z, int mode = hipBoundaryModeZero), x, y, z, 0, mode)
FOREBAY_SURFACE(surf1DLayered, (int x, int layer, int mode = hipBoundaryModeZero), x, 0, 0, layer, mode)
FOREBAY_SURFACE(surf2DLayered, (int x, int y, int layer, int mode = hipBoundaryModeZero), x, y, 0, layer, mode)
FOREBAY_SURFACE(surfCubemap, (int x, int y, int face, int mode = hipBoundaryModeZero), x, y, 0, face, mode)
// CUDA's has the layer times six plus the face, HIP's has both.
FOREBAY_SURFACE(surfCubemapLayered, (int x, int y, int layer_face), x, y, 0, layer_face, hipBoundaryModeZero)
FOREBAY_SURFACE(surfCubemapLayered, (int x, int y, int face, int layer), x, y, 0, layer * 6 + face, hipBoundaryModeZero)
#undef FOREBAY_SURFACE
#undef FOREBAY_ARGUMENTS
