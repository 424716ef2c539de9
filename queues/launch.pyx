"""From Python arguments to the driver call.

In order: everything is checked and packed before the lock is taken; under the lock the arguments that changed are set,
the driver is called, and the epoch advances. When nothing has to be gathered and the driver cannot block, all of that
is `launch_ready`, with the GIL kept. Otherwise `launch_gathered` does it without the GIL. Neither allocates anything or
makes an event once the plan is there.
"""

import operator

cimport cython
from cpython.long cimport PyLong_AsSsize_t
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.atomic cimport memory_order_relaxed
from libcpp.unordered_map cimport unordered_map
from cython.operator cimport dereference

from penstock.events.anchors cimport anchor_on_device, collect_device
from penstock.queues.buffer cimport Buffer
from penstock.queues.driver cimport NO_PLAN, NO_ROOM, Geometry, Status, Waits
from penstock.queues.kernel cimport Kernel, Views, pack_arguments, release_views
from penstock.queues.plan cimport Plan, are_unchanged, delete_plan, new_plan, set_changed_arguments
from penstock.queues.spills cimport are_uploaded, make_room, upload_spills, use_spills
from penstock.queues.state cimport QueueState, release_queue_state, retain_queue_state
from penstock.sync.ordering cimport (
    Order, abort_command, begin_command, commit_command, count_command, end_order, is_ready_to_launch, waits_of
)

from penstock.queues.errors import ArgumentTypeError, ClosedError, InvalidArgumentError

cdef extern from "<alloca.h>":
    void* alloca(size_t size) nogil

cdef extern from "Python.h":
    bint PyLong_CheckExact(object)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    ctypedef struct PyTupleObject:
        PyObject** ob_item
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    ctypedef struct PyTypeObject:
        unsigned long tp_flags
        Py_ssize_t tp_vectorcall_offset
    void PyType_Modified(PyTypeObject*)

cdef uint32_t NO_ARGUMENT = 0xFFFFFFFF
cdef size_t MOST_GROUPS = 0xFFFFFFFF  # as in HIP, where they are of type uint32_t
cdef Waits no_waits
no_waits.count = 0
no_waits.events = NULL


# -- geometry


cdef Py_ssize_t extent(Kernel kernel, str what, object value) except -1:
    cdef Py_ssize_t number
    if not PyLong_CheckExact(value):
        try:
            if isinstance(value, bool):
                raise TypeError
            value = operator.index(value)
        except TypeError:
            raise ArgumentTypeError(
                f"kernel {kernel.name!r}: {what} is an int or a tuple of 1 to 3 ints, not of {type(value).__name__}"
            ) from None
    try:
        number = PyLong_AsSsize_t(value)
    except OverflowError:
        raise InvalidArgumentError(f"kernel {kernel.name!r}: {what} of {value} is too large") from None
    if number < 1:
        raise InvalidArgumentError(f"kernel {kernel.name!r}: {what} of {value}: at least 1 is needed")
    return number


cdef int extents(Kernel kernel, str what, object value, size_t* into) except -1:
    """Fill three sizes from an int or a tuple; returns how many were given."""
    cdef Py_ssize_t i, count
    into[1] = into[2] = 1
    if type(value) is not tuple:
        into[0] = extent(kernel, what, value)
        return 1
    count = PyTuple_GET_SIZE(value)
    if not 1 <= count <= 3:
        raise InvalidArgumentError(f"kernel {kernel.name!r}: {what} has 1 to 3 dimensions, not {count}")
    for i in range(count):
        into[i] = extent(kernel, what, <object> PyTuple_GET_ITEM(value, i))
    return <int> count


cdef int check_block(Kernel kernel, const size_t* block) except -1:
    cdef size_t items = 1
    cdef int i
    for i in range(3):
        if block[i] > kernel.max_block_axis[i]:
            raise InvalidArgumentError(
                f"kernel {kernel.name!r}: block has {block[i]} work-items in dimension {i}, "
                f"{kernel.device.name} allows {kernel.max_block_axis[i]}")
        items *= block[i]
    if items > kernel.max_block:
        raise InvalidArgumentError(
            f"kernel {kernel.name!r}: block has {items} work-items, this kernel can have {kernel.max_block} on "
            f"{kernel.device.name}")
    if kernel.required_block[0] and not (
        block[0] == kernel.required_block[0] and block[1] == kernel.required_block[1]
        and block[2] == kernel.required_block[2]
    ):
        raise InvalidArgumentError(
            f"kernel {kernel.name!r} was compiled for a block of {tuple(kernel.required_block)}, "
            f"not {(block[0], block[1], block[2])}")
    return 0


cdef bint is_plain(object value):
    """An int, or a tuple of ints: the same object always means the same sizes."""
    return type(value) is int or type(value) is tuple and all([type(extent) is int for extent in value])


cdef int work_out_geometry(Kernel kernel, object grid, object block) except -1:
    """Groups and work-items per group, as in HIP, to the global size the drivers want; kept in the kernel."""
    cdef Geometry geometry
    cdef size_t groups[3]
    cdef int i, dimensions, block_dimensions
    dimensions = extents(kernel, "grid", grid, groups)
    block_dimensions = extents(kernel, "block", block, geometry.local_size)
    if block_dimensions > dimensions:
        dimensions = block_dimensions
    check_block(kernel, geometry.local_size)
    geometry.dimensions = dimensions
    for i in range(3):
        if groups[i] > MOST_GROUPS:
            raise InvalidArgumentError(
                f"kernel {kernel.name!r}: grid of {groups[i]} groups in dimension {i} is too large, {MOST_GROUPS} is "
                "the most")
        geometry.groups[i] = <uint32_t> groups[i]
        geometry.global_size[i] = groups[i] * geometry.local_size[i]
    # The kernel keeps the objects, or their addresses could come to be those of others.
    kernel.last_grid = grid if is_plain(grid) else None
    kernel.last_block = block if is_plain(block) else None
    kernel.geometry = geometry
    return 0


cdef inline const Geometry* read_geometry(Kernel kernel, object grid, object block) except NULL:
    """Most launches of a kernel come with the very objects of the launch before: small ints and constant tuples.

    Valid while the GIL is kept: a launch of the kernel from another thread may change it.
    """
    if grid is not kernel.last_grid or block is not kernel.last_block or grid is None or block is None:
        work_out_geometry(kernel, grid, block)
    return &kernel.geometry


# -- the launch path


cdef inline Plan* find_plan(QueueState* state, uint64_t kernel_id) noexcept nogil:
    cdef unordered_map[uint64_t, Plan*].iterator found
    if state.last_plan != NULL and state.last_plan.kernel_id == kernel_id:
        return state.last_plan
    found = state.plans.find(kernel_id)
    if found == state.plans.end():
        return NULL
    state.last_plan = dereference(found).second
    return state.last_plan


cdef inline Status submit(
    QueueState* state, Plan* plan, const Geometry* geometry, const char* packed, Waits waits, uint32_t* failed_at
) noexcept nogil:
    """Set what changed, call the driver. The queue is locked; nothing has advanced yet."""
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
    status = submit(state, plan, geometry, packed, no_waits, failed_at)
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
    plan = find_plan(state, kernel_id)
    state.lock.unlock()
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


cdef int launch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1:
    cdef const Geometry* geometry
    cdef Geometry kept
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef Status status = NO_PLAN
    cdef char* packed
    cdef Views views
    if kernel.state != state.device or kernel.closed:
        refuse_kernel(queue, kernel)
    packed = <char*> alloca(kernel.packed_size)
    views.count = views.spilled = 0
    pack_arguments(kernel, arguments, count, packed, &views)  # may run Python code, so before the geometry is read
    if views.spilled:
        return launch_by_value(queue, state, kernel, grid, block, packed, &views)
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
        raise_launch_error(queue, kernel, status, failed_at)
    return 0


# -- the launch path with arguments by value


cdef inline Status launch_spilled_ready(
    QueueState* state, uint64_t kernel_id, const Geometry* geometry, char* packed, uint32_t* failed_at
) noexcept nogil:
    """The common one: nothing to gather, and the same bytes as before. The queue is locked."""
    cdef Plan* plan
    cdef Status status
    cdef size_t nbytes
    if not is_ready_to_launch(state):
        return NO_PLAN
    plan = find_plan(state, kernel_id)
    if plan == NULL or not are_uploaded(plan, packed, &nbytes):
        return NO_PLAN
    use_spills(plan, packed)
    status = submit(state, plan, geometry, packed, no_waits, failed_at)
    if status == 0:
        state.counts.arg_bytes_skipped += nbytes
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
    plan = find_plan(state, kernel_id)
    state.lock.unlock()
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
        status = submit(state, plan, geometry, packed, no_waits if began else waits_of(&order), failed_at)
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
    if status != 0:
        raise_launch_error(queue, kernel, status, failed_at)
    return 0


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


# -- off the path


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


@cython.no_gc_clear
cdef class PlanOwner:
    """A bound launch's plan, given back when the device is done with it."""

    cdef Plan* plan

    def __dealloc__(self):
        if self.plan != NULL:
            delete_plan(self.plan)


cdef BoundLaunch bind(object queue, QueueState* state, Kernel kernel, object grid, object block, tuple arguments):
    cdef BoundLaunch bound = BoundLaunch.__new__(BoundLaunch)
    cdef PlanOwner owner = PlanOwner.__new__(PlanOwner)
    cdef uint64_t bytes_set = 0, bytes_skipped = 0
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef char* packed
    cdef Views views
    cdef Status status
    if kernel.state != state.device or kernel.closed:
        refuse_kernel(queue, kernel)
    bound.closings = state.device.closings.load()
    bound.geometry = read_geometry(kernel, grid, block)[0]
    packed = <char*> alloca(kernel.packed_size)
    views.count = views.spilled = 0
    pack_arguments(kernel, (<PyTupleObject*> arguments).ob_item, len(arguments), packed, &views)
    try:
        owner.plan = create_plan(state, kernel)
    except BaseException:
        release_views(&views)
        raise
    bound.state = retain_queue_state(state)
    bound.vectorcall = call_bound
    bound.queue = queue
    bound.kernel = kernel
    bound.arguments = arguments
    bound.plan = owner.plan
    bound.plan_owner = owner
    if views.spilled:
        bind_by_value(queue, state, kernel, bound.plan, packed, &views)
    status = set_changed_arguments(bound.plan, packed, &bytes_set, &bytes_skipped, &failed_at)
    if status != 0:
        raise_launch_error(queue, kernel, status, failed_at)
    with nogil:
        state.lock.lock()
        state.counts.arg_bytes_set += bytes_set
        state.lock.unlock()
    return bound


cdef inline Status submit_bound(QueueState* state, Plan* plan, const Geometry* geometry, Waits waits) noexcept nogil:
    cdef Status status = state.driver.launch(state.handle, plan.kernel, geometry, waits)
    if status == 0:
        state.counts.launches += 1
        state.counts.arg_bytes_skipped += plan.argument_bytes
    return status


cdef Status launch_bound_gathered(QueueState* state, Plan* plan, const Geometry* geometry) noexcept nogil:
    cdef Order order
    cdef Status status = begin_command(state, &order)
    if status != 0:
        return status
    status = submit_bound(state, plan, geometry, waits_of(&order))
    if status == 0:
        commit_command(state, &order)
    else:
        abort_command(state, &order)
    return status


cdef int launch_bound(BoundLaunch bound) except -1:
    cdef QueueState* state = bound.state
    cdef Status status = NO_PLAN
    if state.device.closings.load(memory_order_relaxed) != bound.closings:
        bound._check_arguments()
    if state.lock.try_lock():
        if is_ready_to_launch(state):
            status = submit_bound(state, bound.plan, &bound.geometry, no_waits)
            if status == 0:
                count_command(state)
        state.lock.unlock()
    if status == NO_PLAN:
        with nogil:
            status = launch_bound_gathered(state, bound.plan, &bound.geometry)
    if status != 0:
        raise_launch_error(bound.queue, bound.kernel, status, NO_ARGUMENT)
    return 0


cdef object call_bound(object bound, PyObject* const* arguments, size_t flags, PyObject* keywords):
    """PEP 590: without this a call would make an empty tuple first."""
    if PyVectorcall_NARGS(flags) or keywords != NULL:
        raise ArgumentTypeError("a bound launch takes no arguments: they were bound")
    launch_bound(<BoundLaunch> bound)
    return None


@cython.no_gc_clear
cdef class BoundLaunch:
    """A launch with its queue, geometry and arguments checked and packed once; calling it only makes the driver call.

    Made by `Kernel.bind`. It still takes the queue's lock, obeys the null-queue rules and counts as a command. It may
    be called from any thread, and keeps its queue, kernel and buffers alive.

    Raises
    ------
    ClosedError
        On a call after its queue or one of its buffers was closed.
    DriverError
        When the driver refuses the launch; nothing was submitted then.
    """

    def __init__(self, *args, **kwargs):
        raise ArgumentTypeError("a BoundLaunch is made by Kernel.bind")

    def __dealloc__(self):
        if self.state != NULL:
            anchor_on_device(self.state.device, self.plan_owner)
            release_queue_state(self.state)

    def __call__(self):
        launch_bound(self)

    def _check_arguments(self):
        """Something was closed since the arguments were last looked at."""
        cdef uint64_t closings = self.state.device.closings.load()
        for index, argument in enumerate(self.arguments):
            if type(argument) is Buffer and (<Buffer> argument).allocation.closed:
                parameter = self.kernel.parameters[index]
                raise ClosedError(
                    f"kernel {self.kernel.name!r}, argument {index} ({parameter.type_name} {parameter.name}): "
                    "this Buffer is closed")
        self.closings = closings

    def __repr__(self):
        return f"<penstock.BoundLaunch of {self.kernel.name!r} on {self.queue}>"


cdef void enable_vectorcall():
    # Cython has no word for it; the type is ready and nobody has used it yet.
    cdef PyTypeObject* bound_type = <PyTypeObject*> BoundLaunch
    cdef BoundLaunch probe = BoundLaunch.__new__(BoundLaunch)
    bound_type.tp_vectorcall_offset = <char*> &probe.vectorcall - <char*> <void*> probe
    bound_type.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    PyType_Modified(bound_type)


enable_vectorcall()
