"""The uncommon launches: with waits, with bytes by value, the first launch of a kernel, and launches that fail."""

from typing import TYPE_CHECKING

import numpy as np

from cpython.long cimport PyLong_AsSsize_t
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint32_t, uintptr_t

from forebay.core.driver cimport NO_ROOM, QUEUE_CAPTURED, QUEUE_CLOSED, STALE, Geometry
from forebay.core.plan cimport delete_plan, new_plan
from forebay.core.process cimport check_memory
from forebay.core.state cimport (
    BY_STEP, COLLECTED, NOT_COLLECTED, OUT_OF_TURN, OWES_WAITS, TO_BE_RECORDED, Collecting, OpenStep, note_planned,
    refusal
)
from forebay.core.uses cimport Uses
from forebay.lifetimes.deferred cimport collect_device
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.arguments cimport (
    HAS_ARRAYS, HAS_BYTES, HAS_MUCH, RAN_PYTHON, apply_uploads, argument_error, check_elements, end_uploads, make_room,
    refuse_count, release_views
)
from forebay.races.checker cimport command, is_told, on_host, withdraw
from forebay.races.engine cimport Announcement, Use
from forebay.races.launches cimport add_by_value, add_launch
from forebay.sync.ordering cimport Order, begin_command, gather_ahead, gathers_nothing, waits_of
from forebay.sync.points cimport drop_pending, waits_of_pending

from forebay.core.errors import ClosedError, InvalidArgumentError
from forebay.queues.launch.arrays import launch_with_arrays
from forebay.queues.memory.shapes import read_int, shortened

if TYPE_CHECKING:
    from collections.abc import Callable
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
            state.plans[kernel.id] = plan
            plan = NULL
            note_planned(state.device, kernel.id, state.epochs.queue_id)
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
    elif basis != NULL and not still_holds(basis, state.device.unseen_writes.load()):
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
    if plan == NULL or state.pending.empty() or not gathers_nothing(state):
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


cdef bint unlock_and_offer(QueueState* state, Kernel kernel, const char* packed, const Basis* basis) noexcept:
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
