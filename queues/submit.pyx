"""What a launch needs when it is the first one, or fails."""

from libc.stdint cimport uint32_t, uintptr_t

from penstock.events.anchors cimport collect_device
from penstock.queues.driver cimport Status
from penstock.queues.kernel cimport Kernel
from penstock.queues.plan cimport Plan, delete_plan, new_plan
from penstock.queues.state cimport QueueState

from penstock.queues.errors import ClosedError, InvalidArgumentError


cdef int refuse_kernel(object queue, Kernel kernel) except -1:
    if kernel.closed:
        raise ClosedError(f"kernel {kernel.name!r} is closed")
    raise InvalidArgumentError(f"kernel {kernel.name!r} belongs to {kernel.device.name}, {queue!r} does not")


cdef object raise_launch_error(object queue, Kernel kernel, Status status, uint32_t failed_at):
    what = f"kernel {kernel.name!r}"
    if failed_at != NO_ARGUMENT:
        parameter = kernel.parameters[failed_at]
        what += f", argument {failed_at} ({parameter.type_name} {parameter.name})"
    queue._raise(status, what)


cdef Plan* create_plan(QueueState* state, Kernel kernel) except NULL:
    cdef uintptr_t handle = kernel._create()
    return new_plan(state.driver, <void*> handle, kernel.id, kernel.layout, kernel.count, kernel.packed_size)


cdef int add_plan(object queue, QueueState* state, Kernel kernel) except -1:
    """The first launch of this kernel on this queue."""
    cdef Plan* plan
    cdef bint closed
    queue._check_open()
    collect_device(state.device)  # plans of kernels that are gone, before there is one more
    plan = create_plan(state, kernel)
    with nogil:
        state.lock.lock()
        closed = state.closed
        if not closed and find_plan(state, kernel.id) == NULL:
            state.plans[kernel.id] = plan
            plan = NULL
        state.lock.unlock()
        if plan != NULL:  # another thread was faster
            delete_plan(plan)
    if closed:
        queue._check_open()
    return 0
