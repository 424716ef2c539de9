"""How fast the points of the plane escape: the Mandelbrot set."""

import cupy
import numpy as np
from cupy import RawKernel

SOURCE = r"""
extern "C" __global__ void escape(int* counts, int width, int height,
                                  float left, float top, float step) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    float a = left + step * column, b = top + step * row, x = 0, y = 0;
    int n = 0;
    while (n < 100 && x * x + y * y < 4) {
        float next = x * x - y * y + a;
        y = 2 * x * y + b;
        x = next;
        n++;
    }
    counts[row * width + column] = n;
}"""
WIDTH, HEIGHT = np.int32(96), np.int32(64)
LEFT, TOP, STEP = np.float32(-2), np.float32(-1), np.float32(1 / 32)

escape = RawKernel(SOURCE, "escape")
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    counts = cupy.zeros((HEIGHT, WIDTH), "i4")
    escape((6, 4), (16, 16), (counts, WIDTH, HEIGHT, LEFT, TOP, STEP))
stream.synchronize()
print((cupy.asnumpy(counts) == 100).sum())
