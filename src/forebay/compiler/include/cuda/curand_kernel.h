// CUDA's names of hiprand/hiprand_kernel.h.
#pragma once
#include <hip/device/own_names.h>
#include <hiprand/hiprand_kernel.h>

FOREBAY_RANDOM(curand)
#include <hip/device/program_names.h>
