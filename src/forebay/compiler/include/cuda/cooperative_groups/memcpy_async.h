// What CUDA has in this header.
#pragma once
#include <hip/hip_cooperative_groups.h>
