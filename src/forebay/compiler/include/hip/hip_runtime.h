// All that HIP's kernels have without a further header: hip/device, one subject a file.
#pragma once

#include <hip/device/qualifiers.h>
#include <hip/device/spirv.h>
#include <hip/hip_runtime_api.h>
#include <hip/hip_vector_types.h>
#include <hip/device/indices.h>
#include <hip/device/barriers.h>
#include <hip/math_functions.h>
#include <hip/device_functions.h>
#include <hip/device/atomics.h>
#include <hip/device/warps.h>
#include <hip/device/memory.h>
#include <hip/device/heap.h>
#include <hip/device/printing.h>
#include <hip/device/clocks.h>
#include <hip/device/amdgcn.h>
#include <hip/device/cuda_names.h>
#include <hip/device/assembly.h>
#include <hip/device/assembly_warps.h>
#include <hip/device/wide_integers.h>
#include <hip/hip_texture_types.h>
