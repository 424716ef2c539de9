// Clocks.
#pragma once

#include <hip/device/atomics.h>

