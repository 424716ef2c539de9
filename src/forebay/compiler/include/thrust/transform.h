// What Thrust has in this header, for kernels.
#pragma once
#include <thrust/execution_policy.h>
