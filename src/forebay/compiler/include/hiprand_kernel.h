// What HIP has in this header, too.
#pragma once
#include <hiprand/hiprand_kernel.h>
