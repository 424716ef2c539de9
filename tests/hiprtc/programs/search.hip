#include <hip/hip_runtime.h>

__device__ int changed_of_device;

// One step of a breadth-first search: the neighbours of the frontier that nobody has reached.
extern "C" __global__ void search(const int* starts, const int* neighbours, volatile int* distance, int level, int n,
                                  int* changed) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n || distance[node] != level)
        return;
    for (int i = starts[node]; i < starts[node + 1]; i++)
        if (atomicCAS((int*)&distance[neighbours[i]], -1, level + 1) == -1) {
            atomicExch(changed, 1);
            changed_of_device = level;
        }
}
