// CUB's names of hipcub/hipcub.hpp.
#pragma once
#include <hipcub/hipcub.hpp>

namespace cub = hipcub;

#define CUB_PTX_ARCH 700
#define CUB_VERSION 200200
#define CUB_RUNTIME_FUNCTION __host__ __device__
#define CUB_LOG_WARP_THREADS(...) 5
#define CUB_PTX_LOG_WARP_THREADS 5
#define CUB_PTX_WARP_THREADS 32
#define CUB_WARP_THREADS(...) 32
#define CUB_QUOTIENT_FLOOR(x, y) ((x) / (y))
#define CUB_QUOTIENT_CEILING(x, y) (((x) + (y) - 1) / (y))
#define CUB_ROUND_UP_NEAREST(x, y) (CUB_QUOTIENT_CEILING(x, y) * (y))
#define CUB_ROUND_DOWN_NEAREST(x, y) (((x) / (y)) * (y))
