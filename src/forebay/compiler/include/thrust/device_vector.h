// The vectors are for the host; this is what their header brings along for kernels.
#pragma once
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
