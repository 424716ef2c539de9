"""The launch path with arguments by value."""

from libc.stdint cimport uint32_t, uint64_t

from penstock.queues.driver cimport NO_PLAN, NO_ROOM, QUEUE_CAPTURED, Geometry, Status
from penstock.queues.geometry cimport read_geometry
from penstock.queues.kernel cimport Kernel
from penstock.queues.packing cimport Views, release_views
from penstock.queues.plan cimport Plan
from penstock.queues.spills cimport make_room, upload_spills, use_spills
from penstock.queues.state cimport QueueState, refusal
from penstock.queues.submit cimport NO_ARGUMENT, add_plan, find_plan, no_waits, raise_launch_error, submit
from penstock.sync.ordering cimport (
    Order, abort_command, begin_command, commit_command, count_command, end_order, is_ready_to_launch, waits_of
)


cdef inline Status launch_spilled_ready(
    QueueState* state, uint64_t kernel_id, const Geometry* geometry, char* packed, uint32_t* failed_at
) noexcept nogil:
    """The common one: nothing to gather. The queue is locked."""
    cdef Plan* plan
    cdef Status status
    cdef bint uploaded
    if not is_ready_to_launch(state):
        return NO_PLAN
    plan = find_plan(state, kernel_id)
    if plan == NULL:
        return NO_PLAN
    status = upload_spills(state, plan, packed, NULL, &uploaded, failed_at)
    if status != 0:
        return status
    use_spills(plan, packed)
    status = submit(state, plan, geometry, packed, no_waits(), failed_at)
    if status == 0:
        count_command(state)
    return status


cdef Status launch_spilled_gathered(
    QueueState* state, uint64_t kernel_id, const Geometry* geometry, char* packed, uint32_t* failed_at
) noexcept nogil:
    """Any other whose plan is there. Uploads are commands before the launch; the first carries the waits."""
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
    plan = find_plan(state, kernel_id)
    if plan == NULL:
        status = NO_PLAN
    else:
        status = upload_spills(state, plan, packed, &order, &began, failed_at)
    if status == 0:
        use_spills(plan, packed)
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


cdef int launch_by_value(
    object queue, QueueState* state, Kernel kernel, object grid, object block, char* packed, Views* views
) except -1:
    cdef Geometry geometry
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef Status status = NO_PLAN
    try:
        geometry = read_geometry(kernel, grid, block)[0]
        if state.lock.try_lock():
            status = launch_spilled_ready(state, kernel.id, &geometry, packed, &failed_at)
            state.lock.unlock()
        while status == NO_PLAN or status == NO_ROOM:
            with nogil:
                status = launch_spilled_gathered(state, kernel.id, &geometry, packed, &failed_at)
            if status == NO_PLAN:
                add_plan(queue, state, kernel)
            elif status == NO_ROOM:
                make_room(queue, state, kernel.id, NULL, packed)
    finally:
        release_views(views)
    if status != 0 and status != QUEUE_CAPTURED:
        raise_launch_error(queue, kernel, status, failed_at)
    return <int> status


cdef Status upload_bound(QueueState* state, Plan* plan, const char* packed, uint32_t* failed_at) noexcept nogil:
    cdef Order order
    cdef bint began
    cdef Status status = begin_command(state, &order)
    if status != 0:
        return status
    status = upload_spills(state, plan, packed, &order, &began, failed_at)
    if began:
        state.lock.unlock()
        end_order(&order)
    else:
        abort_command(state, &order)
    return status


cdef int bind_by_value(
    object queue, QueueState* state, Kernel kernel, Plan* plan, char* packed, Views* views
) except -1:
    """The bytes are those of now: they are uploaded once, before the first launch."""
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef Status status = NO_ROOM
    try:
        while status == NO_ROOM:
            make_room(queue, state, kernel.id, plan, packed)
            with nogil:
                status = upload_bound(state, plan, packed, &failed_at)
    finally:
        release_views(views)
    if status != 0:
        raise_launch_error(queue, kernel, status, failed_at)
    use_spills(plan, packed)
    return 0
