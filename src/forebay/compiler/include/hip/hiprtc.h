// hiprtc includes what kernels need by itself.
#pragma once
#include <hip/hip_runtime.h>
