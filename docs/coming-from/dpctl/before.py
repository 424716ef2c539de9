"""Heat in a rod that is hot at one end."""

import ctypes
import dpctl.memory
import dpctl.program
import numpy as np

SOURCE = """
kernel void heat(global float* to, global const float* from, float rate, int last)
{
    int i = get_global_id(0);
    to[i] = i == 0 || i == last ? from[i] : from[i] + rate * (from[i - 1] - 2 * from[i] + from[i + 1]);
}
"""
COUNT = 1024
rod = np.zeros(COUNT, "f4")
rod[0] = 100

queue = dpctl.SyclQueue(property="in_order")
heat = dpctl.program.create_program_from_source(queue, SOURCE).get_sycl_kernel("heat")
old, new = (dpctl.memory.MemoryUSMDevice(rod.nbytes, queue=queue) for _ in range(2))
queue.memcpy(old, rod.view("u1"), rod.nbytes)
for _ in range(500):
    queue.submit(heat, [new, old, ctypes.c_float(0.25), ctypes.c_int(COUNT - 1)], [COUNT], [64])
    old, new = new, old
queue.memcpy(rod.view("u1"), old, rod.nbytes)
queue.wait()
print(rod[:64:16].round(3))
