#include <hip/hip_runtime.h>

// Accelerations of bodies (x, y, z, mass) by gravity, with a block's share of them in shared memory at a time.
extern "C" __global__ void nbody(const float4* bodies, float4* accelerations, int n, float softening) {
    __shared__ float4 near[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 own = bodies[i];
    float3 sum = make_float3(0, 0, 0);
    for (int start = 0; start < n; start += blockDim.x) {
        near[threadIdx.x] = bodies[start + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < blockDim.x; j++) {
            float4 other = near[j];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            float pull = other.w * inverse * inverse * inverse;
            sum.x += dx * pull;
            sum.y += dy * pull;
            sum.z += dz * pull;
        }
        __syncthreads();
    }
    accelerations[i] = make_float4(sum.x, sum.y, sum.z, 0);
}
