// Mathematics of kernels.
#pragma once
#include <cmath>
#include <hip/device/math_special.h>
#include <hip/device/math_fast.h>
#include <hip/device/min_max.h>
