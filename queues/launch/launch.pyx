"""The uncommon launches: with waits, with bytes by value, the first launch of a kernel, and launches that fail."""

from typing import TYPE_CHECKING

import numpy as np

cimport cython
from cpython.long cimport PyLong_AsSsize_t
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    NO_PLAN, NO_ROOM, QUEUE_CAPTURED, QUEUE_CLOSED, STALE, Geometry, Status, Waits, no_waits
)
from forebay.core.plan cimport Plan, delete_plan, new_plan, set_changed_arguments
from forebay.core.process cimport check_memory
from forebay.core.state cimport (
    BY_STEP, COLLECTED, NOT_COLLECTED, OUT_OF_TURN, OWES_WAITS, TO_BE_RECORDED, Collecting, OpenStep, QueueState,
    begin_following, end_following, refusal, release_queue_state, renew_followed, retain_queue_state
)
from forebay.core.uses cimport Uses
from forebay.core.vector_clock cimport submitted_epoch
from forebay.lifetimes.deferred cimport collect_device, retire_after
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.arguments cimport (
    HAS_ARRAYS, HAS_BYTES, HAS_MUCH, RAN_PYTHON, Views, apply_uploads, argument_error, check_elements, end_uploads,
    make_room, needs_uploads, pack_arguments, refuse_count, release_views, spilled_bytes, upload_again, upload_spills,
    use_spills
)
from forebay.queues.launch.vectorcall cimport PyVectorcall_NARGS, enable_vectorcall, vectorcallfunc
from forebay.queues.memory.buffer cimport Buffer
from forebay.races.checker cimport Announcement, Use, command, is_told, on_host, withdraw
from forebay.races.launches cimport add_by_value, add_launch
from forebay.sync.ordering cimport (
    Order, abort_command, begin_command, drop_pending, end_order, gather_ahead, gathers_nothing, is_ready_to_launch,
    waits_of, waits_of_pending
)

from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, NotSupportedError
from forebay.queues.launch.arguments import launch_with_arrays
from forebay.queues.memory.shapes import read_int, shortened

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
    from typing_extensions import Never
    from forebay.queues.queue import Queue

cdef extern from "Python.h":
    bint PyLong_CheckExact(object)

UNITS: str = "; grid counts groups, as in HIP, and block the work-items of each"
cdef size_t MOST_GROUPS = 0xFFFFFFFF  # as in HIP, where they are of type uint32_t


cdef Py_ssize_t extent(Kernel kernel, str what, object value) except -1:
    cdef Py_ssize_t number
    if not PyLong_CheckExact(value):
        value = read_int(
            value, f"kernel {kernel.name!r}: {what} is an int or a tuple of 1 to 3 ints", way_out(value))
    try:
        number = PyLong_AsSsize_t(value)
    except OverflowError:
        raise InvalidArgumentError(
            f"kernel {kernel.name!r}: {what} of {shortened(value)} is too large{UNITS}") from None
    if number < 1:
        raise InvalidArgumentError(f"kernel {kernel.name!r}: {what} of {value}: at least 1 is needed{UNITS}")
    return number


cdef str way_out(object value):
    """Return what to write instead, for the end of a message."""
    if isinstance(value, (float, np.floating)):
        return f" ({value:.8g}): n // block is an int, and -(-n // block) rounds up"
    return ": tuple(…) makes one of it" if isinstance(value, (list, np.ndarray)) else ""


cdef int extents(Kernel kernel, str what, object value, size_t* into) except -1:
    """Fill three sizes from an int or a tuple, and return how many were given."""
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
                f"{kernel.device.name} allows {kernel.max_block_axis[i]}{UNITS}")
        items *= block[i]
    if items > kernel.max_block:
        raise InvalidArgumentError(
            f"kernel {kernel.name!r}: block has {items} work-items, this kernel can have {kernel.max_block} on "
            f"{kernel.device.name}{UNITS}")
    if kernel.required_block[0] and not (
        block[0] == kernel.required_block[0] and block[1] == kernel.required_block[1]
        and block[2] == kernel.required_block[2]
    ):
        raise InvalidArgumentError(
            f"kernel {kernel.name!r} was compiled for a block of {tuple(kernel.required_block)}, "
            f"not {(block[0], block[1], block[2])}")
    return 0


cdef object plain_extents(Kernel kernel, str what, object value):
    """Return grid or block as an int or a tuple of ints, which always mean the same sizes. This may run Python code."""
    cdef size_t sizes[3]
    cdef int count
    if type(value) is int:
        return value
    if type(value) is tuple:
        for each in <tuple> value:
            if type(each) is not int:
                break
        else:
            return value
    count = extents(kernel, what, value, sizes)
    return tuple([sizes[i] for i in range(count)])


cdef int work_out_geometry(Kernel kernel, object grid, object block) except -1:
    """Convert groups and work-items per group, as in HIP, to the drivers' geometry, and keep it in the kernel. It runs
    no Python code, not even the garbage collector's: only `plain_extents` does.
    """
    cdef Geometry geometry
    cdef size_t groups[3]
    cdef size_t shape[3]
    cdef int i, dimensions, block_dimensions
    dimensions = extents(kernel, "grid", grid, groups)
    block_dimensions = extents(kernel, "block", block, shape)
    if block_dimensions > dimensions:
        dimensions = block_dimensions
    check_block(kernel, shape)
    geometry.dimensions = dimensions
    for i in range(3):
        geometry.block[i] = <uint32_t> shape[i]
        geometry.local_size[i] = shape[i]
        geometry.offset[i] = 0
    if kernel.reshape != NULL:
        kernel.reshape(&geometry)
    for i in range(3):
        if groups[i] > MOST_GROUPS:
            raise InvalidArgumentError(
                f"kernel {kernel.name!r}: grid of {groups[i]} groups in dimension {i} is too large, {MOST_GROUPS} is "
                f"the most{UNITS}")
        geometry.groups[i] = <uint32_t> groups[i]
        geometry.global_size[i] = groups[i] * geometry.local_size[i]
    # The kernel keeps the objects; otherwise new objects could get their addresses.
    kernel.last_grid = grid
    kernel.last_block = block
    kernel.geometry = geometry
    return 0


cdef int refuse_kernel(object queue, Kernel kernel) except -1:
    if kernel.closed:
        raise ClosedError(f"kernel {kernel.name!r} is closed")
    raise InvalidArgumentError(f"kernel {kernel.name!r} belongs to {kernel.device.name}, {queue!r} does not")


cdef int launch_elsewhere(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1:
    """Launch with another grid or block than the last time."""
    if count != kernel.count:
        refuse_count(kernel, arguments, count)
    grid, block = plain_extents(kernel, "grid", grid), plain_extents(kernel, "block", block)
    read_geometry(kernel, grid, block)
    return launch(queue, state, kernel, grid, block, arguments, count)


cdef object raise_launch_error(object queue, Kernel kernel, Status status, uint32_t failed_at):
    what = f"kernel {kernel.name!r}"
    if failed_at != NO_ARGUMENT:
        parameter = kernel.parameters[failed_at]
        what += f", argument {failed_at} ({parameter.type_name} {parameter.name})"
    queue._raise(status, what)


cdef int capture_launch(
    object queue, Kernel kernel, object grid, object block, PyObject* const* arguments
) except -1:
    """Make the launch a node of a graph, because the queue is captured."""
    cdef Py_ssize_t i
    given = tuple([<object> arguments[i] for i in range(kernel.count) if not kernel.left_out[i]])
    capture = queue._capture
    if capture is None or not capture.launch(queue, kernel, grid, block, given):
        queue.launch(kernel, grid, block, *given)  # the capture has ended meanwhile
    return 0


cdef Plan* create_plan(QueueState* state, Kernel kernel) except NULL:
    cdef uintptr_t handle
    check_memory()
    handle = kernel._create()
    return new_plan(
        state.driver, <void*> handle, kernel.id, kernel.layout, kernel.count, kernel.packed_size, state.epochs)


cdef int add_plan(object queue, QueueState* state, Kernel kernel) except -1:
    """Add a plan before the first launch of this kernel on this queue."""
    cdef Plan* plan
    cdef Status refused
    queue._check_open()
    collect_device(state.device)  # first drop the plans of kernels that are gone
    plan = create_plan(state, kernel)
    with nogil:
        state.lock.lock()
        refused = refusal(state)
        if refused == 0 and find_plan(state, kernel.id) == NULL:
            state.plans.by_kernel[kernel.id] = plan
            plan = NULL
        state.lock.unlock()
        if plan != NULL:  # another thread was faster
            delete_plan(plan)
    if kernel.closed:  # meanwhile, and a collection may have looked for its plans already
        kernel._forget_plans()
    if refused == QUEUE_CLOSED:  # the launch checks again and raises the other refusals
        queue._check_open()
    return 0


cdef list list_of(PyObject* const* arguments, Py_ssize_t count):
    cdef Py_ssize_t i
    return [<object> arguments[i] for i in range(count)]


cdef Status launch_gathered(
    QueueState* state, uint64_t kernel_id, const Geometry* geometry, char* packed, bint spilled, bint follows,
    const Basis* basis, vector[Uses*]& written, uint32_t* failed_at
) noexcept nogil:
    """Submit a launch with its waits. Its plan exists. Uploads are commands before it; the first carries the waits."""
    cdef Order order
    cdef Plan* plan
    cdef Status status
    cdef Waits waits
    cdef uint64_t uploads = 0
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
    elif basis != NULL and not still_holds(basis, state.device.resident.unseen_writes.load()):
        status = STALE
    elif spilled:
        status = upload_spills(state, plan, packed, waits_of(state, &order), &uploads, failed_at)
        apply_uploads(state, &order, uploads)
        if status == 0:
            use_spills(plan, packed)
    if status == 0:
        waits = no_waits() if uploads else waits_of(state, &order)
        if follows:
            status = submit_following(state, plan, geometry, packed, waits, failed_at)
        else:
            status = submit_launch(state, plan, geometry, packed, waits, failed_at)
    if status == 0:
        note_gathered(state, plan, written)
    return end_uploads(state, &order, uploads, status)


cdef Status launch_after_waits(
    QueueState* state, uint64_t kernel_id, const Geometry* geometry, const char* packed, uint32_t* failed_at
) noexcept nogil:
    """Submit a launch that carries pending waits, and gathers none; NO_PLAN in any other case. The queue is locked."""
    cdef Plan* plan = find_plan(state, kernel_id)
    cdef vector[void*] events
    cdef Status status
    if plan == NULL or state.order.pending.empty() or not gathers_nothing(state):
        return NO_PLAN
    status = submit_launch(state, plan, geometry, packed, waits_of_pending(state, events), failed_at)
    if status == 0:
        drop_pending(state)
        count_launch(state, plan)
    return status


cdef Collecting ask_step(
    QueueState* state, Kernel kernel, const Geometry* geometry, const char* packed, uint32_t* failed_at
) except *:
    """Offer a launch to the open step, if there is one. Nothing can have closed its memory since it was packed."""
    cdef OpenStep* step = state.step  # which is given back with the GIL
    cdef Status status = 0
    cdef Collecting answer = NOT_COLLECTED
    if step != NULL and not kernel.follows:
        answer = step.collect(state, False, <PyObject*> kernel, geometry, packed, &status, failed_at)
        if status != 0:
            check_elements(kernel, packed)
    return answer


cdef bint offer_and_unlock(QueueState* state, Kernel kernel, const char* packed, const Basis* basis) noexcept:
    """Whether the open step takes a launch for which the queue was not ready. The queue is locked, and is not any more.

    A launch that is not taken is offered once more by who handles it then, and its error told there.
    """
    cdef OpenStep* step = state.step
    cdef uint32_t failed_at
    cdef Status status = 0
    cdef bint taken = False
    if state.barred == BY_STEP and step != NULL and basis == NULL and not kernel.follows:
        taken = COLLECTED == step.collect(
            state, True, <PyObject*> kernel, &kernel.geometry, packed, &status, &failed_at)  # read for this launch
    state.lock.unlock()
    return taken and status == 0


cdef Collecting ask_step_again(
    QueueState* state, Kernel kernel, const Geometry* geometry, const char* packed, Collecting answer
) except *:
    """Gather the waits that the launch owes and offer it again. The memory of its arguments is held."""
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef Status status
    cdef int tries = 0
    while answer == OWES_WAITS and tries < 4:
        with nogil:
            status = gather_ahead(state)
        if status != 0:
            return NOT_COLLECTED  # the launch will raise it
        answer = ask_step(state, kernel, geometry, packed, &failed_at)
        tries += 1
    return OUT_OF_TURN if answer == OWES_WAITS else answer


cdef int tell_step(
    QueueState* state, Collecting why, Kernel kernel, const Geometry* geometry, const char* packed
) except -1:
    """Tell the open step that a launch was submitted as it is."""
    cdef OpenStep* step = state.step
    if step != NULL and (why == TO_BE_RECORDED or why == OUT_OF_TURN):
        step.submitted(state, why, <PyObject*> kernel, geometry, packed)
    return 0


cdef object waits_watcher = None


def watch_waits(watcher: Callable[[Queue, Kernel, int], None] | None) -> None:
    """Have ``watcher(queue, kernel, waits)`` called after each launch that the null queue's rules made wait.

    None ends that. Bound launches and launches of graphs do not tell.
    """
    global waits_watcher
    waits_watcher = watcher


cdef Status launch_at_once(
    QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments, char* packed,
    uint32_t* failed_at
) except? -1:
    """Launch with bytes by value as the common launch does: no Python code has run since the arguments were checked,
    and the GIL is kept. Returns NO_PLAN in any other case.
    """
    cdef const Geometry* geometry = read_geometry(kernel, grid, block)
    cdef Status status = NO_PLAN
    if state.lock.try_lock():
        status = launch_ready(state, kernel.id, geometry, packed, True, kernel.follows, failed_at)
        if status == 0:
            note_writes(kernel.written, arguments)
        state.lock.unlock()
    return status


# Handles every other launch: with bytes by value, with waits, without a plan yet, or after a failure.
cdef int launch_uncommon(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, Views* views, const Basis* basis, Status status, uint32_t failed_at
) except -1:
    try:
        if is_told(state) and not views.unusual & HAS_ARRAYS:  # these launch again, with Buffers
            return launch_checked(
                queue, state, kernel, grid, block, arguments, packed, views.unusual, basis, status, failed_at)
        if views.unusual == HAS_BYTES and basis == NULL:
            status = launch_at_once(state, kernel, grid, block, arguments, packed, &failed_at)
            if status == 0:
                return 0
        return launch_otherwise(
            queue, state, kernel, grid, block, arguments, packed, views.unusual, basis, status, failed_at)
    finally:
        release_views(views)


cdef int launch_checked(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, int unusual, const Basis* basis, Status status, uint32_t failed_at
) except -1:
    """Launch on a queue that is checked for races."""
    cdef Announcement uses
    cdef vector[Use] read
    cdef int out_of_date
    check_elements(kernel, packed)
    if unusual & HAS_BYTES:
        add_by_value(kernel, arguments, read)
        on_host(state.device, read)
    add_launch(kernel, arguments, packed, read_geometry(kernel, grid, block), uses)
    command(queue, state, uses)
    try:
        out_of_date = launch_otherwise(
            queue, state, kernel, grid, block, arguments, packed, unusual | RAN_PYTHON, basis, status, failed_at)
    except BaseException:
        withdraw(uses)
        raise
    if out_of_date:
        withdraw(uses)
    return out_of_date


cdef int launch_otherwise(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, int unusual, const Basis* basis, Status status, uint32_t failed_at
) except -1:
    cdef Geometry geometry
    cdef vector[Uses*] written
    cdef bint spilled = unusual & HAS_BYTES != 0, keeps_gil
    cdef Collecting answer = NOT_COLLECTED
    cdef uint64_t waits = state.counts.waits_made  # the program's own were counted when it made them
    if state.barred & BY_STEP and basis == NULL and not unusual:
        answer = ask_step(state, kernel, read_geometry(kernel, grid, block), packed, &failed_at)
        if answer == COLLECTED:
            return 0
    check_elements(kernel, packed)
    if unusual & HAS_ARRAYS:
        launch_with_arrays(queue, kernel, grid, block, list_of(arguments, kernel.count))
        return 0
    if status == NO_PLAN and basis == NULL and not (unusual or kernel.follows) and state.lock.try_lock():
        status = launch_after_waits(state, kernel.id, read_geometry(kernel, grid, block), packed, &failed_at)
        if status == 0:
            note_writes(kernel.written, arguments)
        state.lock.unlock()
        if status == 0:
            return 0
    geometry = read_geometry(kernel, grid, block)[0]
    # The GIL may go from here on, and was given to other code where an argument was converted.
    _held = hold_arguments(kernel, arguments, written)
    if state.barred & BY_STEP and basis == NULL and unusual == RAN_PYTHON:
        answer = ask_step(state, kernel, &geometry, packed, &failed_at)
    answer = ask_step_again(state, kernel, &geometry, packed, answer)
    if answer == COLLECTED:
        return 0
    keeps_gil = unusual & (RAN_PYTHON | HAS_MUCH) == RAN_PYTHON
    if basis == NULL and status == NO_PLAN and keeps_gil and state.lock.try_lock():
        status = launch_ready(state, kernel.id, &geometry, packed, spilled, kernel.follows, &failed_at)
        if status == 0:
            note_writes(kernel.written, arguments)
        state.lock.unlock()
        if status == 0:
            return 0
    while status == NO_PLAN or status == NO_ROOM:
        with nogil:
            status = launch_gathered(
                state, kernel.id, &geometry, packed, spilled, kernel.follows, basis, written, &failed_at)
        if status == NO_PLAN:
            add_plan(queue, state, kernel)
        elif status == NO_ROOM:
            make_room(queue, state, kernel.id, NULL, packed)
    if status == QUEUE_CAPTURED:
        return capture_launch(queue, kernel, grid, block, arguments)
    if status == STALE:
        return 1
    if status != 0:
        raise_launch_error(queue, kernel, status, failed_at)
    tell_step(state, answer, kernel, &geometry, packed)
    if waits_watcher is not None and state.counts.waits_made != waits:
        waits_watcher(queue, kernel, state.counts.waits_made - waits)
    return 0


cdef list hold_arguments(Kernel kernel, PyObject* const* arguments, vector[Uses*]& written):
    """Return the memory of all Buffers, to be held until the launch is submitted, and list what it may write to."""
    cdef list held = []
    cdef Py_ssize_t i
    for i in range(kernel.count):
        if type(<object> arguments[i]) is Buffer:
            if (<Buffer> arguments[i]).allocation.closed:
                raise argument_error(
                    kernel, i, str((<Buffer> arguments[i])._closed_error("this Buffer")), ClosedError)
            held.append((<Buffer> arguments[i]).allocation.memory)
    for i in kernel.written:
        if type(<object> arguments[i]) is Buffer:
            written.push_back((<Buffer> arguments[i]).allocation.uses)
    return held


# -- bound launches: everything is checked and packed once, and each call is just the driver call


cdef extern from "<alloca.h>":
    void* alloca(size_t size) nogil

cdef extern from "Python.h":
    ctypedef struct PyTupleObject:
        PyObject** ob_item


@cython.no_gc_clear
cdef class PlanOwner:
    """Owns the plan of a bound launch. The plan is given back when the device is done with it."""

    cdef Plan* plan

    def __dealloc__(self):
        if self.plan != NULL:
            delete_plan(self.plan)


cdef Status upload_bound(QueueState* state, Plan* plan, const char* packed, uint32_t* failed_at) noexcept nogil:
    cdef Order order
    cdef uint64_t uploads
    cdef Status status = begin_command(state, &order)
    if status != 0:
        return status
    status = upload_spills(state, plan, packed, waits_of(state, &order), &uploads, failed_at)
    apply_uploads(state, &order, uploads)
    if uploads:
        state.lock.unlock()
        end_order(&order)
    else:
        abort_command(state, &order)
    return status


cdef int bind_by_value(
    object queue, QueueState* state, Kernel kernel, Plan* plan, char* packed, Views* views
) except -1:
    """Upload the present bytes once, before the first launch."""
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


cdef BoundLaunch bind(object queue, QueueState* state, Kernel kernel, object grid, object block, tuple arguments):
    cdef BoundLaunch bound = BoundLaunch.__new__(BoundLaunch)
    cdef PlanOwner owner = PlanOwner.__new__(PlanOwner)
    cdef uint64_t bytes_set = 0, bytes_skipped = 0
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef vector[Uses*] written
    cdef char* packed
    cdef Views views
    cdef Status status
    if kernel.state != state.device or kernel.closed:
        refuse_kernel(queue, kernel)
    if kernel.scratch_sizes:
        raise NotSupportedError(
            f"kernel {kernel.name!r} has scratch, whose size is looked at in each launch: it cannot be bound")
    bound.closings = state.device.resident.closings.load()
    grid, block = plain_extents(kernel, "grid", grid), plain_extents(kernel, "block", block)
    bound.geometry = read_geometry(kernel, grid, block)[0]
    packed = <char*> alloca(kernel.packed_size)
    pack_arguments(kernel, (<PyTupleObject*> arguments).ob_item, len(arguments), packed, &views)
    try:
        check_elements(kernel, packed)
        if views.unusual & HAS_ARRAYS:
            raise ArgumentTypeError(
                f"kernel {kernel.name!r}: a bound launch takes no arrays of the host nor memory of other "
                "packages; launch it, or bind Buffers (Device.array, Device.as_buffer)")
        held = hold_arguments(kernel, (<PyTupleObject*> arguments).ob_item, written)
        owner.plan = create_plan(state, kernel)
        bound.by_value = spilled_bytes(kernel, packed)
    except BaseException:
        release_views(&views)
        raise
    bound.state = retain_queue_state(state)
    bound.follows = kernel.follows
    bound.vectorcall = <vectorcallfunc> (call_uncommon if kernel.follows else call_bound)
    bound.queue = queue
    bound.kernel = kernel
    bound.arguments = arguments
    bound.plan = owner.plan
    bound.plan_owner = owner
    if views.unusual & HAS_BYTES:
        bind_by_value(queue, state, kernel, bound.plan, packed, &views)
        if needs_uploads(bound.plan):
            bound.vectorcall = <vectorcallfunc> call_uncommon
    status = set_changed_arguments(bound.plan, packed, &bytes_set, &bytes_skipped, &failed_at)
    if status != 0:
        raise_launch_error(queue, kernel, status, failed_at)
    with nogil:
        state.lock.lock()
        state.counts.arg_bytes_set += bytes_set
        state.lock.unlock()
    del held
    return bound


cdef inline Status submit_bound(QueueState* state, Plan* plan, const Geometry* geometry, Waits waits) noexcept nogil:
    cdef Status status = state.driver.launch(state.handle, plan.kernel, geometry, waits)
    if status == 0:
        state.counts.launches += 1
        state.counts.arg_bytes_skipped += plan.argument_bytes
    return status


cdef Status submit_bound_following(QueueState* state, Plan* plan, const Geometry* geometry, Waits waits) noexcept nogil:
    """`submit_bound` of a kernel that follows pointers. The launch is counted next."""
    cdef Status status
    begin_following(state)
    status = renew_followed(state.device, plan)
    if status == 0:
        status = submit_bound(state, plan, geometry, waits)
    end_following(state, submitted_epoch(state.epochs) + 1 if status == 0 else 0)
    return status


cdef Status launch_bound_gathered(
    QueueState* state, Plan* plan, const Geometry* geometry, bint follows, vector[Uses*]& written, uint32_t* failed_at
) noexcept nogil:
    cdef Order order
    cdef Waits waits
    cdef uint64_t uploads
    cdef Status status = begin_command(state, &order)
    if status != 0:
        return status
    status = upload_again(state, plan, waits_of(state, &order), &uploads, failed_at)
    apply_uploads(state, &order, uploads)
    if status == 0:
        waits = no_waits() if uploads else waits_of(state, &order)
        if follows:
            status = submit_bound_following(state, plan, geometry, waits)
        else:
            status = submit_bound(state, plan, geometry, waits)
    if status == 0:
        note_gathered(state, plan, written)
    return end_uploads(state, &order, uploads, status)


cdef int launch_bound_uncommon(BoundLaunch bound, Status status) except -1:
    """Handle a bound launch that is not the common case, or has failed. Returns 1 when it became part of a graph."""
    cdef vector[Uses*] written
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef const char* packed = bound.plan.values.data()
    cdef Collecting answer = NOT_COLLECTED
    if status == NO_PLAN:
        if bound.state.barred & BY_STEP and not needs_uploads(bound.plan):
            answer = ask_step(bound.state, bound.kernel, &bound.geometry, packed, &failed_at)
        held = None
        if answer != COLLECTED:
            held = hold_arguments(bound.kernel, (<PyTupleObject*> bound.arguments).ob_item, written)
            answer = ask_step_again(bound.state, bound.kernel, &bound.geometry, packed, answer)
        if answer == COLLECTED:
            bound.plan.epoch = submitted_epoch(bound.state.epochs)
            return 0
        with nogil:
            status = launch_bound_gathered(
                bound.state, bound.plan, &bound.geometry, bound.follows, written, &failed_at)
        del held
    if status == QUEUE_CAPTURED:
        capture = bound.queue._capture
        if capture is None or not capture.launch_bound(bound):  # it has ended meanwhile
            bound.check_arguments()
            return launch_bound_uncommon(bound, NO_PLAN)
        return 1
    if status != 0:
        raise_launch_error(bound.queue, bound.kernel, status, failed_at)
    tell_step(bound.state, answer, bound.kernel, &bound.geometry, packed)
    return 0


cdef int launch_bound_checked(BoundLaunch bound, Status status) except -1:
    """Launch on a queue that may be checked for races."""
    cdef Announcement uses
    if not is_told(bound.state):
        return launch_bound_uncommon(bound, status)
    add_launch(
        bound.kernel, (<PyTupleObject*> bound.arguments).ob_item, bound.plan.values.data(), &bound.geometry, uses)
    command(bound.queue, bound.state, uses)
    try:
        bound.check_arguments()  # the check may have run any code
        return launch_bound_uncommon(bound, status)
    except BaseException:
        withdraw(uses)
        raise


cdef object call_bound(BoundLaunch bound, PyObject* const* arguments, size_t flags, PyObject* keywords):
    cdef QueueState* state = bound.state
    cdef Status status = NO_PLAN
    if PyVectorcall_NARGS(flags) or keywords != NULL:
        raise ArgumentTypeError("a bound launch takes no arguments: they were bound")
    if state.device.resident.closings.load(memory_order_relaxed) != bound.closings:
        bound.check_arguments()
    if state.lock.try_lock():
        if is_ready_to_launch(state):
            status = submit_bound(state, bound.plan, &bound.geometry, no_waits())
            if status == 0:
                count_launch(state, bound.plan)
                note_writes(bound.kernel.written, (<PyTupleObject*> bound.arguments).ob_item)
        state.lock.unlock()
    if status != 0:
        launch_bound_checked(bound, status)
    return None


cdef object call_uncommon(BoundLaunch bound, PyObject* const* arguments, size_t flags, PyObject* keywords):
    """Call a bound launch whose kernel follows pointers, or may write to bytes by value, which are uploaded before."""
    if PyVectorcall_NARGS(flags) or keywords != NULL:
        raise ArgumentTypeError("a bound launch takes no arguments: they were bound")
    bound.check_arguments()
    launch_bound_checked(bound, NO_PLAN)
    return None


@cython.no_gc_clear
cdef class BoundLaunch:
    """A launch with its queue, geometry and arguments checked and packed once; calling it only makes the driver call.

    `Kernel.bind` makes it. A call still takes the queue's lock, obeys the null-queue rules and counts as a command. Any
    thread may call it. It keeps its queue, kernel and buffers alive. Bytes by value are those of when it was bound; a
    call uploads them again where the pointer is not const.

    Attributes
    ----------
    queue : Queue
    kernel : Kernel
    arguments : tuple
        What it was bound with.

    Raises
    ------
    ClosedError
        On a call after its queue or one of its buffers was closed.
    DriverError
        When the driver refuses the launch; nothing was submitted then.
    """

    queue: Queue
    arguments: tuple[Any, ...]

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a BoundLaunch is made by Kernel.bind")

    def __dealloc__(self):
        if self.state != NULL:
            if self.plan != NULL:
                retire_after(self.state.device, self.plan_owner, self.state.epochs, self.plan.epoch)
            release_queue_state(self.state)

    def __call__(self) -> None:
        self.vectorcall(self, NULL, 0, NULL)

    cdef int check_arguments(self) except -1:
        """Check that the buffers are still open, if any was closed since the last look. This runs no Python code, so
        they are open when it returns.
        """
        cdef Py_ssize_t index
        cdef PyObject* argument
        if self.state.device.resident.closings.load(memory_order_relaxed) == self.closings:
            return 0
        for index in range(self.kernel.count):
            argument = (<PyTupleObject*> self.arguments).ob_item[index]
            if type(<object> argument) is Buffer and (<Buffer> argument).allocation.closed:
                parameter = self.kernel.parameters[index]
                raise ClosedError(
                    f"kernel {self.kernel.name!r}, argument {index} ({parameter.type_name} {parameter.name}): "
                    "this Buffer is closed")
        self.closings = self.state.device.resident.closings.load()
        return 0

    def __repr__(self) -> str:
        return f"<forebay.BoundLaunch of {self.kernel.name!r} on {self.queue}>"


cdef BoundLaunch probe = BoundLaunch.__new__(BoundLaunch)
enable_vectorcall(probe, &probe.vectorcall)
probe = None
