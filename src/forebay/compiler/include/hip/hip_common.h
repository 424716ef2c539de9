// What every header of HIP has.
#pragma once
#include <hip/hip_version.h>
#include <hip/device/qualifiers.h>
