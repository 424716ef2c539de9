// CuPy's name of CUDA's constants.
#pragma once
#include <math_constants.h>
