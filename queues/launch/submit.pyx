"""What a launch needs when it is the first one, or fails."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uintptr_t

from forebay.events.anchors cimport collect_device
from forebay.core.driver cimport QUEUE_CLOSED, Status
from forebay.queues.kernels.kernel cimport Kernel
from forebay.core.plan cimport Plan, delete_plan, new_plan
from forebay.core.state cimport QueueState, refusal
from forebay.queues.graphs.work cimport kernel_work

from forebay.core.errors import ClosedError, InvalidArgumentError


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


cdef int capture_launch(
    object queue, Kernel kernel, object grid, object block, PyObject* const* arguments
) except -1:
    """The queue is captured: the launch becomes a node of a graph."""
    cdef Py_ssize_t i
    given = tuple([<object> arguments[i] for i in range(kernel.count)])
    capture = queue._capture
    if capture is None or capture.add(queue, kernel_work(queue.device, kernel, grid, block, given)) is None:
        queue.launch(kernel, grid, block, *given)  # it has ended meanwhile
    return 0


cdef Plan* create_plan(QueueState* state, Kernel kernel) except NULL:
    cdef uintptr_t handle = kernel._create()
    return new_plan(state.driver, <void*> handle, kernel.id, kernel.layout, kernel.count, kernel.packed_size)


cdef int add_plan(object queue, QueueState* state, Kernel kernel) except -1:
    """The first launch of this kernel on this queue."""
    cdef Plan* plan
    cdef Status refused
    queue._check_open()
    collect_device(state.device)  # plans of kernels that are gone, before there is one more
    plan = create_plan(state, kernel)
    with nogil:
        state.lock.lock()
        refused = refusal(state)
        if refused == 0 and find_plan(state, kernel.id) == NULL:
            state.plans[kernel.id] = plan
            plan = NULL
        state.lock.unlock()
        if plan != NULL:  # another thread was faster
            delete_plan(plan)
    if refused == QUEUE_CLOSED:  # anything else is for the launch, which looks again
        queue._check_open()
    return 0
