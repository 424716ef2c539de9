// What CUDA has in this header for kernels.
#pragma once
#include <cufft.h>
