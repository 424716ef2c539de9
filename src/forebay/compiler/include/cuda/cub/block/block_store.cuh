// What CUB has in this header.
#pragma once
#include <cub/cub.cuh>
