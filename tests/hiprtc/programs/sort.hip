#include <hip/hip_runtime.h>

template <class T>
__device__ void swap_if(T& a, T& b, bool descending) {
    if ((a > b) != descending) {
        T before = a;
        a = b;
        b = before;
    }
}

// A bitonic sort of each block's numbers, twice as many as it has threads.
extern "C" __global__ void sort(float* x) {
    __shared__ float own[512];
    int t = threadIdx.x, n = 2 * blockDim.x;
    float* there = x + blockIdx.x * n;
    own[t] = there[t];
    own[t + blockDim.x] = there[t + blockDim.x];
    for (int size = 2; size <= n; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int at = 2 * t - (t & (stride - 1));
            swap_if(own[at], own[at + stride], (at & size) != 0);
        }
    __syncthreads();
    there[t] = own[t];
    there[t + blockDim.x] = own[t + blockDim.x];
}
