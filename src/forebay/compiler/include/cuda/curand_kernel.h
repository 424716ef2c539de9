// CUDA's names of hiprand/hiprand_kernel.h.
#pragma once
#include <hiprand/hiprand_kernel.h>

FOREBAY_RANDOM(curand)
