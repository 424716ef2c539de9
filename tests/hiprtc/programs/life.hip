#include <hip/hip_runtime.h>

// A generation of Conway's game on a torus, the rule as a lambda.
extern "C" __global__ void life(const unsigned char* before, unsigned char* after, int width, int height) {
    auto lives = [](bool alive, int neighbours) { return neighbours == 3 || (alive && neighbours == 2); };
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int count = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy)
                count += before[(y + dy + height) % height * width + (x + dx + width) % width];
    after[y * width + x] = lives(before[y * width + x], count);
}
