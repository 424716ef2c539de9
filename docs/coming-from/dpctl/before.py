"""Heat in a rod that is hot at one end."""

from ctypes import c_float, c_int
import dpctl.memory
from dpctl.program import create_program_from_source
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

queue = dpctl.SyclQueue(property="in_order")
heat = create_program_from_source(queue, SOURCE).get_sycl_kernel("heat")
old, new = (dpctl.memory.MemoryUSMDevice(4096, queue=queue) for _ in range(2))
queue.memcpy(old, rod.view("u1"), rod.nbytes)
for _ in range(500):
    queue.submit(heat, [new, old, c_float(0.25), c_int(LAST)], [COUNT], [64])
    old, new = new, old
queue.memcpy(rod.view("u1"), old, rod.nbytes)
queue.wait()
print(rod[:64:16].round(3))
