// What CUDA has in this header.
#pragma once
#include <cuda_runtime.h>
