"""Heat in a rod that is hot at one end."""

import forebay as fb
import numpy as np

SOURCE = """
kernel void heat(global float* to, global const float* from, float rate,
                 int last)
{
    int i = get_global_id(0);
    float change = from[max(i - 1, 0)] - 2 * from[i] + from[min(i + 1, last)];
    to[i] = i == 0 || i == last ? from[i] : from[i] + rate * change;
}
"""
COUNT = 1024
LAST = COUNT - 1
rod = np.zeros(COUNT, "f4")
rod[0] = 100

device = fb.Device()
queue = device.queue()
heat = device.program(SOURCE)["heat"]
old, new = (device.empty(COUNT, "f4") for _ in range(2))
queue.copy(old, rod)
for _ in range(500):
    queue.launch(heat, COUNT // 64, 64, new, old, 0.25, LAST)
    old, new = new, old
queue.copy(rod, old)
queue.finish()
print(rod[:64:16].round(3))
