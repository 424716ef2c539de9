// What every header of HIP has.
#pragma once
#include <hip/device/qualifiers.h>
