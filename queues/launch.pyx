"""From Python arguments to the driver call.

In order: everything is checked and packed before the lock is taken; under the lock the arguments that changed are set,
the driver is called, and the epoch advances. When nothing has to be gathered and the driver cannot block, all of that
is `launch_ready`, with the GIL kept. Otherwise `launch_gathered` does it without the GIL. Neither allocates anything or
makes an event once the plan is there.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from penstock.queues.by_value cimport launch_by_value
from penstock.queues.driver cimport NO_PLAN, QUEUE_CAPTURED, Geometry, Status
from penstock.queues.geometry cimport read_geometry
from penstock.queues.kernel cimport Kernel
from penstock.queues.packing cimport Views, pack_arguments, release_views
from penstock.queues.plan cimport Plan
from penstock.queues.state cimport QueueState, refusal
from penstock.queues.submit cimport (
    NO_ARGUMENT, add_plan, capture_launch, find_plan, no_waits, note_writes, raise_launch_error, refuse_kernel, submit
)
from penstock.sync.ordering cimport (
    Order, abort_command, begin_command, commit_command, count_command, is_ready_to_launch, waits_of
)

from penstock.queues.host_arrays import launch_with_arrays

cdef extern from "<alloca.h>":
    void* alloca(size_t size) nogil


cdef list list_of(PyObject* const* arguments, Py_ssize_t count):
    cdef Py_ssize_t i
    return [<object> arguments[i] for i in range(count)]


cdef inline Status launch_ready(
    QueueState* state, uint64_t kernel_id, const Geometry* geometry, const char* packed, uint32_t* failed_at
) noexcept nogil:
    """The common launch; NO_PLAN when it is not one. The queue is locked."""
    cdef Plan* plan
    cdef Status status
    if not is_ready_to_launch(state):
        return NO_PLAN
    plan = find_plan(state, kernel_id)
    if plan == NULL:
        return NO_PLAN
    status = submit(state, plan, geometry, packed, no_waits(), failed_at)
    if status == 0:
        count_command(state)
    return status


cdef Status launch_gathered(
    QueueState* state, uint64_t kernel_id, const Geometry* geometry, const char* packed, uint32_t* failed_at
) noexcept nogil:
    """Any launch whose plan is there, waits and all."""
    cdef Order order
    cdef Plan* plan
    cdef Status status
    state.lock.lock()
    status = refusal(state)
    plan = find_plan(state, kernel_id)
    state.lock.unlock()
    if status != 0:
        return status
    if plan == NULL:
        return NO_PLAN
    status = begin_command(state, &order)
    if status != 0:
        return status
    plan = find_plan(state, kernel_id)  # the kernel may have been closed in between
    if plan == NULL:
        status = NO_PLAN
    else:
        status = submit(state, plan, geometry, packed, waits_of(&order), failed_at)
    if status == 0:
        commit_command(state, &order)
    else:
        abort_command(state, &order)
    return status


cdef inline int launch_checked(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, Views* views
) except -1:
    cdef const Geometry* geometry
    cdef Geometry kept
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef Status status = NO_PLAN
    if views.spilled:
        if launch_by_value(queue, state, kernel, grid, block, packed, views) == QUEUE_CAPTURED:
            return capture_launch(queue, kernel, grid, block, arguments)
        note_writes(state, kernel, arguments)
        return 0
    geometry = read_geometry(kernel, grid, block)
    if state.lock.try_lock():
        status = launch_ready(state, kernel.id, geometry, packed, &failed_at)
        state.lock.unlock()
    if status == NO_PLAN:
        kept = geometry[0]
    while status == NO_PLAN:
        with nogil:
            status = launch_gathered(state, kernel.id, &kept, packed, &failed_at)
        if status == NO_PLAN:
            add_plan(queue, state, kernel)
    if status != 0:
        if status == QUEUE_CAPTURED:
            return capture_launch(queue, kernel, grid, block, arguments)
        raise_launch_error(queue, kernel, status, failed_at)
    note_writes(state, kernel, arguments)
    return 0


cdef int launch_packed(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, Views* views
) except -1:
    return launch_checked(queue, state, kernel, grid, block, arguments, packed, views)


cdef int launch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1:
    cdef char* packed
    cdef Views views
    if kernel.state != state.device:
        refuse_kernel(queue, kernel)
    packed = <char*> alloca(kernel.packed_size)
    views.count = views.spilled = views.arrays = 0
    pack_arguments(kernel, arguments, count, packed, &views)  # may run Python code, so before the geometry is read
    if views.spilled and views.arrays:
        release_views(&views)
        launch_with_arrays(queue, kernel, grid, block, list_of(arguments, count))
        return 0
    return launch_checked(queue, state, kernel, grid, block, arguments, packed, &views)
