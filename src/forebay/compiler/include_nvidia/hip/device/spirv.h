// What the textures of ../../../include/hip need of this header.
#pragma once

#include <type_traits>

// CUDA has no such type without <cuda_fp16.h>: a texture of halves is read as floats.
struct __forebay_no_half;
#define _Float16 __forebay_no_half

namespace __forebay {

template <class To, class From>
__DEVICE__ To bits_as(From value) {
    return __builtin_bit_cast(To, value);
}

}  // namespace __forebay
