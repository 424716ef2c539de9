"""Heat in a rod that is hot at one end."""

import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
from pycuda import gpuarray
from pycuda.compiler import SourceModule

SOURCE = """
__global__ void heat(float* to, const float* from, float rate, int last)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float change = from[max(i - 1, 0)] - 2 * from[i] + from[min(i + 1, last)];
    to[i] = i == 0 || i == last ? from[i] : from[i] + rate * change;
}
"""
COUNT = 1024
RATE, LAST = np.float32(0.25), np.int32(COUNT - 1)
rod = np.zeros(COUNT, "f4")
rod[0] = 100

heat = SourceModule(SOURCE).get_function("heat")
stream = cuda.Stream()
old, new = gpuarray.to_gpu(rod), gpuarray.to_gpu(rod)
for _ in range(500):
    heat(new, old, RATE, LAST, grid=(16, 1), block=(64, 1, 1), stream=stream)
    old, new = new, old
stream.synchronize()
print(old.get()[:64:16].round(3))
