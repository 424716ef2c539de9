#include <hip/hip_runtime.h>
#include <hipcub/hipcub.hpp>
#include <hiprand/hiprand_kernel.h>

// How many of random points in a square are in its circle: one sum a block of what CUB's reduction gives.
extern "C" __global__ void monte_carlo(unsigned* inside, unsigned long long seed, int points) {
    using Reduce = hipcub::BlockReduce<unsigned, 128>;
    __shared__ Reduce::TempStorage room;
    hiprandStatePhilox4_32_10_t state;
    hiprand_init(seed, blockIdx.x * blockDim.x + threadIdx.x, 0, &state);
    unsigned mine = 0;
    for (int i = 0; i < points; i++) {
        unsigned x = hiprand(&state) >> 16, y = hiprand(&state) >> 16;
        mine += (unsigned long long)x * x + (unsigned long long)y * y < 1ull << 32;
    }
    unsigned sum = Reduce(room).Sum(mine);
    if (threadIdx.x == 0)
        inside[blockIdx.x] = sum;
}
