// The types of hipFFT, for kernels that stand beside its calls. It has no functions for kernels.
#pragma once
#include <hip/hip_runtime.h>

using hipfftReal = float;
using hipfftDoubleReal = double;
using hipfftComplex = float2;
using hipfftDoubleComplex = double2;
