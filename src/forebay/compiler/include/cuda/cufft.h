// CUDA's names of hipfft/hipfft.h.
#pragma once
#include <hipfft/hipfft.h>

using cufftReal = float;
using cufftDoubleReal = double;
using cufftComplex = float2;
using cufftDoubleComplex = double2;
