#include <hip/hip_runtime.h>

// One step of heat in a plane; the border stays.
extern "C" __global__ void stencil(const float* before, float* after, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int at = y * width + x;
    float here = before[at];
    if (x > 0 && y > 0 && x < width - 1 && y < height - 1)
        here += 0.2f * (before[at - 1] + before[at + 1] + before[at - width] + before[at + width] - 4 * here);
    after[at] = here;
}
