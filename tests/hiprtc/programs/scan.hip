#include <hip/hip_runtime.h>

// Sums of all numbers up to each, within a block; its total goes to `totals`.
extern "C" __global__ void scan(const int* x, int* out, int* totals) {
    extern __shared__ int both[];
    int t = threadIdx.x, n = blockDim.x, from = 0;
    int i = blockIdx.x * n + t;
    both[t] = x[i];
    __syncthreads();
    for (int delta = 1; delta < n; delta *= 2) {
        int to = n - from;
        both[to + t] = both[from + t] + (t >= delta ? both[from + t - delta] : 0);
        from = to;
        __syncthreads();
    }
    out[i] = both[from + t];
    if (t == n - 1)
        totals[blockIdx.x] = both[from + t];
}
