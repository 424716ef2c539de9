// What CUDA has in this header.
#pragma once
#include <cuda_pipeline_primitives.h>
