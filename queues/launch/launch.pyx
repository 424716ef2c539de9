"""Launches that are not the common one."""

from forebay.core.driver cimport NO_ROOM, QUEUE_CAPTURED
from forebay.queues.launch.arguments cimport release_views
from forebay.queues.launch.by_value cimport make_room
from forebay.core.state cimport refusal
from forebay.queues.launch.submit cimport add_plan, capture_launch, raise_launch_error
from forebay.sync.ordering cimport Order, abort_command, begin_command, commit_command, end_order, waits_of

from forebay.queues.launch.arrays import launch_with_arrays


cdef list list_of(PyObject* const* arguments, Py_ssize_t count):
    cdef Py_ssize_t i
    return [<object> arguments[i] for i in range(count)]


cdef Status launch_gathered(
    QueueState* state, uint64_t kernel_id, const Geometry* geometry, char* packed, bint spilled, uint32_t* failed_at
) noexcept nogil:
    """Any launch whose plan is there, waits and all. Uploads are commands before it; the first carries the waits."""
    cdef Order order
    cdef Plan* plan
    cdef Status status
    cdef bint began = False
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
    elif spilled:
        status = upload_spills(state, plan, packed, &order, &began, failed_at)
        if status == 0:
            use_spills(plan, packed)
    if status == 0:
        status = submit(state, plan, geometry, packed, no_waits() if began else waits_of(&order), failed_at)
    if began:
        if status == 0:
            count_command(state)
        state.lock.unlock()
        end_order(&order)
    elif status == 0:
        commit_command(state, &order)
    else:
        abort_command(state, &order)
    return status


cdef int launch_otherwise(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, Views* views, Status status, uint32_t failed_at
) except -1:
    cdef Geometry geometry
    cdef bint spilled = views.spilled != 0
    try:
        if views.arrays:
            launch_with_arrays(queue, kernel, grid, block, list_of(arguments, kernel.count))
            return 0
        geometry = read_geometry(kernel, grid, block)[0]
        if spilled and state.lock.try_lock():
            status = launch_ready(state, kernel.id, &geometry, packed, True, &failed_at)
            state.lock.unlock()
        while status == NO_PLAN or status == NO_ROOM:
            with nogil:
                status = launch_gathered(state, kernel.id, &geometry, packed, spilled, &failed_at)
            if status == NO_PLAN:
                add_plan(queue, state, kernel)
            elif status == NO_ROOM:
                make_room(queue, state, kernel.id, NULL, packed)
    finally:
        release_views(views)
    if status == QUEUE_CAPTURED:
        return capture_launch(queue, kernel, grid, block, arguments)
    if status != 0:
        raise_launch_error(queue, kernel, status, failed_at)
    note_writes(state, kernel.written, arguments)
    return 0
