#include <cfloat>
#include <hip/hip_runtime.h>

constexpr int CLUSTERS = 5;
__constant__ float2 centres[CLUSTERS] = {{0.1f, 0.2f}, {0.9f, 0.3f}, {0.5f, 0.6f}, {0.2f, 0.8f}, {0.7f, 0.9f}};

// The nearest centre of each point, and for each centre the sum and the number of its points.
extern "C" __global__ void kmeans(const float2* points, int* nearest, float* sums, int* counts, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int best = 0;
        float least = FLT_MAX;
        for (int c = 0; c < CLUSTERS; c++) {
            float2 d = points[i] - centres[c];
            float distance = d.x * d.x + d.y * d.y;
            if (distance < least) {
                least = distance;
                best = c;
            }
        }
        nearest[i] = best;
        atomicAdd(&sums[2 * best], points[i].x);
        atomicAdd(&sums[2 * best + 1], points[i].y);
        atomicAdd(&counts[best], 1);
    }
}
