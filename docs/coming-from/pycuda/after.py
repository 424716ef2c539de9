"""Heat in a rod that is hot at one end."""

import numpy as np
import forebay as fb

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

device = fb.Device()
heat = device.program(SOURCE)["heat"]
stream = device.queue()
old, new = device.array(rod), device.array(rod)
for _ in range(500):
    stream.launch(heat, 16, 64, new, old, RATE, LAST)
    old, new = new, old
stream.finish()
print(old.get()[:64:16].round(3))
