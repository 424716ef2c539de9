// What CUDA has in this header.
#pragma once
#include <hip/hip_fp16.h>
