#include <complex>
#include <hip/hip_runtime.h>

// How many steps each point of the plane takes to leave, at most `limit`.
extern "C" __global__ void mandelbrot(int* steps, int width, int height, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    std::complex<double> c(3. * x / width - 2, 2. * y / height - 1), z = 0;
    int n = 0;
    while (n < limit && std::norm(z) <= 4) {
        z = z * z + c;
        n++;
    }
    steps[y * width + x] = n;
}
