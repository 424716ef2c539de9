"""Heat in a rod that is hot at one end."""

import numpy as np
import pyopencl as cl

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

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build()
heat = cl.Kernel(program, "heat")
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
old = cl.Buffer(context, flags, hostbuf=rod)
new = cl.Buffer(context, flags, hostbuf=rod)
for _ in range(500):
    heat(queue, (COUNT,), (64,), new, old, np.float32(0.25), np.int32(LAST))
    old, new = new, old
cl.enqueue_copy(queue, rod, old)
queue.finish()
print(rod[:64:16].round(3))
