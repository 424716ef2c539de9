// Of Thrust, the complex numbers.
#pragma once
#include <cupy/complex.cuh>
