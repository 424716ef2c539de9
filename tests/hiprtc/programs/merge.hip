#include <hip/hip_runtime.h>

// Two sorted lists into one: each thread finds by bisection where the number goes that is its own.
template <class T, class Less = std::less<T>>
__device__ int place(const T* list, int n, T value, bool after_equals, Less less = {}) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (less(list[middle], value) || (after_equals && !less(value, list[middle])))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

extern "C" __global__ void merge(const int* a, int na, const int* b, int nb, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < na)
        out[i + place(b, nb, a[i], false)] = a[i];
    if (i < nb)
        out[i + place(a, na, b[i], true)] = b[i];
}
