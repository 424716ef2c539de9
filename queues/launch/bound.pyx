"""Bound launches: everything is checked and packed once, and each call is just the driver call."""

from typing import TYPE_CHECKING

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport NO_PLAN, NO_ROOM, QUEUE_CAPTURED, Geometry, Status, Waits, no_waits
from forebay.core.vector_clock cimport submitted_epoch
from forebay.core.plan cimport Plan, delete_plan, set_changed_arguments
from forebay.core.state cimport (
    BY_STEP, COLLECTED, NOT_COLLECTED, Collecting, QueueState, begin_following, end_following, release_queue_state,
    renew_followed, retain_queue_state
)
from forebay.core.uses cimport Uses
from forebay.lifetimes.deferred cimport retire_after
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.arguments cimport (
    HAS_ARRAYS, HAS_BYTES, Views, apply_uploads, check_elements, end_uploads, make_room, needs_uploads, pack_arguments,
    release_views, spilled_bytes, upload_again, upload_spills, use_spills
)
from forebay.queues.launch.launch cimport (
    NO_ARGUMENT, ask_step, ask_step_again, count_launch, create_plan, hold_arguments, note_gathered, note_writes,
    plain_extents, raise_launch_error, read_geometry, refuse_kernel, tell_step
)
from forebay.queues.launch.vectorcall cimport PyVectorcall_NARGS, enable_vectorcall, vectorcallfunc
from forebay.queues.memory.buffer cimport Buffer
from forebay.races.checker cimport command, is_told, withdraw
from forebay.races.engine cimport Announcement
from forebay.races.launches cimport add_launch
from forebay.sync.ordering cimport Order, abort_command, begin_command, end_order, is_ready_to_launch, waits_of

from forebay.core.errors import ArgumentTypeError, ClosedError, NotSupportedError

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Never

    from forebay.queues.queue import Queue

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
    bound.closings = state.device.closings.load()
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


cdef Status submit_following(QueueState* state, Plan* plan, const Geometry* geometry, Waits waits) noexcept nogil:
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
            status = submit_following(state, plan, geometry, waits)
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
    if state.device.closings.load(memory_order_relaxed) != bound.closings:
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
        if self.state.device.closings.load(memory_order_relaxed) == self.closings:
            return 0
        for index in range(self.kernel.count):
            argument = (<PyTupleObject*> self.arguments).ob_item[index]
            if type(<object> argument) is Buffer and (<Buffer> argument).allocation.closed:
                parameter = self.kernel.parameters[index]
                raise ClosedError(
                    f"kernel {self.kernel.name!r}, argument {index} ({parameter.type_name} {parameter.name}): "
                    "this Buffer is closed")
        self.closings = self.state.device.closings.load()
        return 0

    def __repr__(self) -> str:
        return f"<forebay.BoundLaunch of {self.kernel.name!r} on {self.queue}>"


cdef BoundLaunch probe = BoundLaunch.__new__(BoundLaunch)
enable_vectorcall(probe, &probe.vectorcall)
probe = None
