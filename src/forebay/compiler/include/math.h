// Instead of the C library's.
#pragma once
#define _LIBCPP_MATH_H
#include <hip/device/math_standard.h>
