#include <hip/hip_runtime.h>

// The sum of each block's part: within warps by shuffles, then over the warps.
extern "C" __global__ void reduction(const float* x, float* sums, int n) {
    __shared__ float of_warps[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    for (int delta = warpSize / 2; delta > 0; delta /= 2)
        sum += __shfl_down(sum, delta);
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    if (lane == 0)
        of_warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / warpSize ? of_warps[lane] : 0;
        for (int delta = warpSize / 2; delta > 0; delta /= 2)
            sum += __shfl_down(sum, delta);
        if (lane == 0)
            sums[blockIdx.x] = sum;
    }
}
