// hipCUB is CUB.
#pragma once
#include <cub/cub.cuh>

namespace hipcub = cub;
