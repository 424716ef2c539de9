"""The launch path, from Python arguments to the driver call, top to bottom.

Grid, block and arguments are read before the lock is taken. Reading them may run Python code, which may close a Buffer
that was checked, so the last check comes after all such code. Under the lock, the changed arguments are set, the driver
is called, and the epoch advances. When nothing must be gathered and the driver cannot block, `launch_ready` does all
that and keeps the GIL. It is inline, because function calls around it took a tenth of a launch. Otherwise
`launch_gathered` does it without the GIL. Once the plan exists, neither allocates anything or makes an event.
"""

from cpython.object cimport PyObject
from cython.operator cimport dereference
from libc.stdint cimport uint32_t, uint64_t
from libcpp.atomic cimport memory_order_relaxed, memory_order_release
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.driver cimport NO_PLAN, Geometry, Status, Waits, no_waits
from forebay.core.plan cimport Plan, are_unchanged, set_changed_arguments
from forebay.core.state cimport Collecting, QueueState, begin_following, end_following, renew_followed
from forebay.core.uses cimport Basis, Uses, still_holds
from forebay.core.vector_clock cimport submitted_epoch
from forebay.queues.kernels.kernel cimport MOST_PACKED, Kernel
from forebay.queues.launch.arguments cimport Views, pack_arguments, upload_spills, use_spills
from forebay.queues.launch.vectorcall cimport vectorcallfunc
from forebay.queues.memory.buffer cimport Buffer, note_launch_write
from forebay.sync.ordering cimport count_command, is_ready_to_launch

cdef object plain_extents(Kernel kernel, str what, object value)  # may run Python code; nothing below does

cdef bint offer_and_unlock(QueueState* state, Kernel kernel, const char* packed, const Basis* basis) noexcept
cdef int launch_uncommon(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, Views* views, const Basis* basis, Status status, uint32_t failed_at
) except -1
cdef int launch_elsewhere(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1
cdef int work_out_geometry(Kernel kernel, object grid, object block) except -1


cdef inline bint has_geometry(Kernel kernel, object grid, object block):
    """Return whether grid and block are the objects of the kernel's last launch: small ints and constant tuples mostly
    are.
    """
    return grid is kernel.last_grid and block is kernel.last_block and grid is not None and block is not None


cdef inline const Geometry* read_geometry(Kernel kernel, object grid, object block) except NULL:
    """Return the geometry of a launch. `plain_extents` has made grid and block, so that what was checked before still
    holds afterwards.

    The result is valid only while the GIL is kept: a launch of the kernel from another thread may change it.
    """
    if not has_geometry(kernel, grid, block):
        work_out_geometry(kernel, grid, block)
    return &kernel.geometry


cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    bint Py_IS_TYPE(PyObject*, PyTypeObject*)


cdef enum:
    NO_ARGUMENT = 0xFFFFFFFF

cdef inline Plan* find_plan(QueueState* state, uint64_t kernel_id) noexcept nogil:
    cdef unordered_map[uint64_t, Plan*].iterator found
    if state.plans.last != NULL and state.plans.last.kernel_id == kernel_id:
        return state.plans.last
    found = state.plans.by_kernel.find(kernel_id)
    if found == state.plans.by_kernel.end():
        return NULL
    state.plans.last = dereference(found).second
    return state.plans.last


cdef inline Status submit_launch(
    QueueState* state, Plan* plan, const Geometry* geometry, const char* packed, Waits waits, uint32_t* failed_at
) noexcept nogil:
    """Set the changed arguments and call the driver. The queue is locked, and its epoch has not advanced yet."""
    cdef Status status
    if are_unchanged(plan, packed):
        state.counts.arg_bytes_skipped += plan.argument_bytes
    else:
        status = set_changed_arguments(
            plan, packed, &state.counts.arg_bytes_set, &state.counts.arg_bytes_skipped, failed_at)
        if status != 0:
            return status
    status = state.driver.launch(state.handle, plan.kernel, geometry, waits)
    if status == 0:
        state.counts.launches += 1
    return status


cdef inline void count_launch(QueueState* state, Plan* plan) noexcept nogil:
    """Count a launch that carried no wait. The queue is locked."""
    cdef uint64_t epoch = state.epochs.submitted.load(memory_order_relaxed) + 1
    state.epochs.submitted.store(epoch, memory_order_release)
    plan.epoch = epoch  # all that an unchanged launch notes about the memory it uses


cdef inline Status submit_following(
    QueueState* state, Plan* plan, const Geometry* geometry, const char* packed, Waits waits, uint32_t* failed_at
) noexcept nogil:
    """`submit_launch` of a kernel that follows pointers. The launch is counted next."""
    cdef Status status
    begin_following(state)
    status = renew_followed(state.device, plan)
    if status == 0:
        status = submit_launch(state, plan, geometry, packed, waits, failed_at)
    end_following(state, submitted_epoch(state.epochs) + 1 if status == 0 else 0)
    return status


cdef inline void note_gathered(QueueState* state, Plan* plan, vector[Uses*]& written) noexcept nogil:
    """Note the uses of a launch that `end_command` counts next. The queue is locked."""
    cdef size_t i
    plan.epoch = submitted_epoch(state.epochs) + 1
    for i in range(written.size()):
        written[i].other_writes.fetch_add(1)


cdef inline void note_writes(vector[Py_ssize_t]& written, PyObject* const* arguments) noexcept:
    """Note that a launch may write to every buffer that it takes through a pointer that is not const. The queue is
    locked.
    """
    cdef PyObject* value
    for index in written:
        value = arguments[index]
        if Py_IS_TYPE(value, <PyTypeObject*> Buffer):
            note_launch_write(<Buffer> value)


cdef int refuse_kernel(object queue, Kernel kernel) except -1
cdef int add_plan(object queue, QueueState* state, Kernel kernel) except -1
cdef list list_of(PyObject* const* arguments, Py_ssize_t count)


cdef inline Status launch_ready(
    QueueState* state, uint64_t kernel_id, const Geometry* geometry, char* packed, bint spilled, bint follows,
    uint32_t* failed_at
) noexcept nogil:
    """Submit a launch in the common case; return NO_PLAN in any other case. The queue is locked."""
    cdef Plan* plan
    cdef Status status
    cdef uint64_t uploads
    if not is_ready_to_launch(state):
        return NO_PLAN
    plan = find_plan(state, kernel_id)
    if plan == NULL:
        return NO_PLAN
    if spilled:
        status = upload_spills(state, plan, packed, no_waits(), &uploads, failed_at)
        while uploads != 0:
            count_command(state)
            uploads -= 1
        if status != 0:
            return status
        use_spills(plan, packed)
    if follows:
        status = submit_following(state, plan, geometry, packed, no_waits(), failed_at)
    else:
        status = submit_launch(state, plan, geometry, packed, no_waits(), failed_at)
    if status == 0:
        count_launch(state, plan)
    return status


cdef inline int launch_packed(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, Views* views, const Basis* basis, bint follows
) except -1:
    """Launch with packed arguments and the kernel's geometry, which is that of grid and block unless something is
    unusual. Releases the views. Returns 1 when `basis` does not hold any more: then nothing was submitted. It is NULL
    for launches that need none.
    """
    cdef const Geometry* geometry = &kernel.geometry
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef Status status = NO_PLAN
    if not views.unusual:
        if state.lock.try_lock():
            if basis != NULL and not still_holds(basis, state.device.resident.unseen_writes.load()):
                state.lock.unlock()
                return 1
            status = launch_ready(state, kernel.id, geometry, packed, False, follows, &failed_at)
            if status == 0:
                note_writes(kernel.written, arguments)
                state.lock.unlock()
                return 0
            if offer_and_unlock(state, kernel, packed, basis):  # alone, or a launch takes instructions more
                return 0
    return launch_uncommon(queue, state, kernel, grid, block, arguments, packed, views, basis, status, failed_at)


cdef inline int launch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1:
    """Launch a kernel that is `plain`."""
    cdef char packed[MOST_PACKED]
    cdef Views views
    if kernel.state != state.device:
        refuse_kernel(queue, kernel)
    if not has_geometry(kernel, grid, block):
        return launch_elsewhere(queue, state, kernel, grid, block, arguments, count)
    pack_arguments(kernel, arguments, count, packed, &views)  # if it runs Python code, it says so
    return launch_packed(queue, state, kernel, grid, block, arguments, packed, &views, NULL, False)


cdef BoundLaunch bind(object queue, QueueState* state, Kernel kernel, object grid, object block, tuple arguments)


cdef class BoundLaunch:
    cdef vectorcallfunc vectorcall
    cdef QueueState* state  # retained
    cdef Plan* plan
    cdef Geometry geometry
    cdef bint follows  # the kernel did when it was bound
    cdef uint64_t closings  # the device's count when the arguments were last seen open
    cdef readonly object queue
    cdef readonly Kernel kernel
    cdef readonly tuple arguments
    cdef list by_value  # copies of bytes by value, for graphs
    cdef object plan_owner
    cdef int check_arguments(self) except -1
