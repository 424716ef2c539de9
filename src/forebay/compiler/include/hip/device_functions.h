// Intrinsics of kernels.
#pragma once
#include <hip/device/integers.h>
#include <hip/device/conversions.h>
#include <hip/device/packed_integers.h>
