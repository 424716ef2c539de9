"""The launch path with arguments by value."""

from penstock.queues.kernel cimport Kernel
from penstock.queues.packing cimport Views
from penstock.queues.plan cimport Plan
from penstock.queues.state cimport QueueState


# 0, or QUEUE_CAPTURED when the launch is to become a node of a graph
cdef int launch_by_value(
    object queue, QueueState* state, Kernel kernel, object grid, object block, char* packed, Views* views
) except -1
cdef int bind_by_value(
    object queue, QueueState* state, Kernel kernel, Plan* plan, char* packed, Views* views
) except -1
