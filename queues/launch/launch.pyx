"""The uncommon launches: with waits, with bytes by value, the first launch of a kernel, and launches that fail.

Then what all launches share: grid and block, what a Python value becomes, bytes by value; and bound launches.
"""

import ctypes
import logging
import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLong, PyLong_AsSsize_t, PyLong_AsUnsignedLongLong
from cpython.number cimport PyNumber_Long
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, Py_XINCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cython.operator cimport dereference
from libc.math cimport isinf
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy, memset
from libcpp.atomic cimport atomic, memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    ELEMENT_AT, NO_PLAN, NO_ROOM, NOT_CREATED, NOT_NOW, NULL_FORBIDDEN, QUEUE_CAPTURED, QUEUE_CLOSED, STALE,
    WRONG_TYPE, Driver, Geometry, Memory, Status, Waits, element_of, no_waits
)
from forebay.core.ownership cimport FREE_THREADED, Guard, Ref
from forebay.core.plan cimport (
    LOCAL, POINTER, SPILLED, PackedBytes, PackedPointer, Parameter, Plan, Spill, Staging, check_types, delete_plan,
    set_changed_arguments, usage_of, withdraw
)
from forebay.core.process cimport check_memory, is_forked
from forebay.core.state cimport (
    BY_STEP, COLLECTED, NOT_COLLECTED, OUT_OF_TURN, OWES_WAITS, TO_BE_RECORDED, AnyQueue, Collecting, DeviceState,
    OpenStep, QueueState, begin_following, closed_gates, end_following, refusal
)
from forebay.core.usage cimport (
    Moment, Usage, Versions, generation_of, is_created, is_known_created, note_use, still_holds, version_of
)
from forebay.core.vector_clock cimport Clock, Epochs, completed_epoch, submitted_epoch
from forebay.lifetimes.deferred cimport collect_device, reach_point, retire_after, retire_plan, retire_plans
from forebay.queues.kernels.kernel cimport Kernel, LastGeometry
from forebay.queues.memory.allocation cimport (
    Allocation, OwnedMemory, memory_if_open, new_allocation, own_memory, pointer_to
)
from forebay.queues.memory.buffer cimport Buffer, new_buffer
from forebay.queues.memory.pool cimport NO_MORE_THAN
from forebay.queues.memory.transfers cimport LARGE, copy_bytes, host_memory_of, structure_bytes, view_bytes
from forebay.races.checker cimport Announcement, is_observed, settle
from forebay.races.launches cimport announce_launch
from forebay.sync.finish cimport order_after_uses
from forebay.sync.ordering cimport (
    Command, commit, init_command, moment_of, submit, submit_ready, wait_for_creation, wait_for_marker
)

from forebay.core.errors import (
    ArgumentTypeError, ClosedError, Error, InvalidArgumentError, NotSupportedError, OutOfBoundsError, OutOfMemoryError,
    ScratchOverflowError
)
from forebay.core.process import on_host_thread, refuse_on_host_thread
from forebay.queues.kernels.parameters import UNTYPED, Argument
from forebay.queues.memory.shapes import (
    StridedView, convert, element_code, is_foreign, name_of, read_int, read_only_array, shortened, whole_number,
    why_unfit
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, SupportsIndex
    from typing_extensions import Buffer as HostBuffer, Never
    from forebay.queues.device import Device
    from forebay.queues.queue import Queue

log = logging.getLogger("forebay.launch")


cdef extern from "Python.h":
    bint PyLong_CheckExact(object)
    void* PyThreadState_Get()
    PyObject* PyThreadState_GetDict()
    ctypedef struct PyTupleObject:
        PyObject** ob_item

cdef extern from "<alloca.h>":
    void* alloca(size_t size) nogil


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


cdef int refuse_kernel(object queue, Kernel kernel) except -1:
    if kernel.closed:
        raise ClosedError(f"kernel {kernel.name!r} is closed")
    raise InvalidArgumentError(f"kernel {kernel.name!r} belongs to {kernel.device.name}, {queue!r} does not")


cdef cppclass Launch(Command):
    uint64_t kernel_id
    Plan* bound  # of a bound launch; NULL for any other, whose plan is looked up
    Plan* plan
    const Geometry* geometry  # NULL: only the uploads before it
    char* packed
    bint spilled  # bytes by value are uploaded before it
    bint follows
    const Versions* versions  # that must still hold; NULL for none
    uint32_t* failed_at  # receives which argument the driver refused


cdef inline void init_launch(
    Launch* launch, uint64_t kernel_id, Plan* bound, const Geometry* geometry, char* packed, bint spilled, bint follows,
    const Versions* versions, uint32_t* failed_at
) noexcept nogil:
    init_command(launch, call_launch)
    launch.kernel_id, launch.bound, launch.geometry, launch.packed = kernel_id, bound, geometry, packed
    launch.spilled, launch.follows, launch.versions, launch.failed_at = spilled, follows, versions, failed_at


cdef Status call_launch(QueueState* state, Command* command, Waits waits) noexcept nogil:
    cdef Launch* launch = <Launch*> command
    cdef const Clock* clock
    cdef Status status
    launch.plan = launch.bound if launch.bound != NULL else find_plan(state, launch.kernel_id)
    if launch.plan == NULL:
        return NO_PLAN
    if launch.versions != NULL and not still_holds(launch.versions, state.device.resident.unseen_writes.load()):
        return STALE
    clock = <Clock*> state.order.clock if command.order == NULL else <Clock*> command.order.clock
    if launch.spilled:
        status = upload_spills(state, launch, clock, waits)
        if status != 0 or launch.geometry == NULL:
            return status
        use_spills(launch.plan, launch.packed)
        if command.began:
            waits = no_waits()
            clock = <Clock*> state.order.clock  # the first upload has joined the waits
    status = 0
    if launch.follows:
        begin_following(state)
        status = renew_resident_list(
            state.device, launch.plan, launch.plan.epoch > completed_epoch(launch.plan.queue), launch.plan.queue,
            launch.plan.epoch)
    if status == 0:
        status = submit_launch(state, launch.plan, launch.geometry, launch.packed, clock, waits, launch.failed_at)
    if launch.follows:
        end_following(state, submitted_epoch(state.epochs) + 1 if status == 0 else 0)
    if status == 0:
        commit(state, command)
        launch.plan.epoch = submitted_epoch(state.epochs)
    return status


cdef Status renew_resident_list(
    DeviceState* device, Plan* plan, bint pending, Epochs* queue, uint64_t epoch
) noexcept nogil:
    """Give the plan's kernel object the list of memory, if it has an older one. Call after `begin_following`, and take
    the kernel object from the plan afterwards: one with a launch that may be pending is replaced. It is released when
    the queue has reached the epoch.
    """
    cdef vector[uint64_t] addresses
    cdef uint64_t version
    cdef void* copy = NULL
    cdef Plan* replaced
    cdef Status status
    cdef Guard guard
    if device.driver.follow == NULL or plan.resident_version == device.resident.listed.version.load():
        return 0
    guard.take(device.resident.listed.lock)
    for each in device.resident.listed.addresses:
        addresses.push_back(each.first)
    version = device.resident.listed.version.load()
    guard.leave()
    pending = pending and plan.resident_version != 0
    status = device.driver.follow(plan.kernel, addresses.data(), addresses.size(), &copy if pending else NULL)
    if copy != NULL:  # even if it got no list
        replaced = new_plan(plan.driver, plan.kernel, 0, NULL, 0, 0, queue)
        replaced.epoch = epoch
        plan.kernel = copy
        plan.resident_version = 0
        retire_plan(device, replaced)
    if status == 0:
        plan.resident_version = version
    return status


cdef Status launch_locked(
    QueueState* state, Kernel kernel, const Geometry* geometry, char* packed, bint spilled, const Versions* versions,
    uint32_t* failed_at
) noexcept:
    """Submit a launch by `submit_ready`, or return NO_PLAN, or STALE if `versions` do not hold. The queue is locked."""
    cdef Launch launch
    init_launch(&launch, kernel.id, NULL, geometry, packed, spilled, kernel.follows, versions, failed_at)
    return submit_ready(state, &launch)


cdef Status launch_at_once(
    QueueState* state, Kernel kernel, const Geometry* geometry, char* packed, bint spilled, const Versions* versions,
    uint32_t* failed_at
) noexcept:
    """Take the lock if it is free and launch. No Python code has run since the arguments were checked."""
    cdef Guard guard
    if not guard.try_take(state.lock):
        return NOT_NOW
    return launch_locked(state, kernel, geometry, packed, spilled, versions, failed_at)


cdef int launch_uncommon(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, Views* views, const Versions* versions, BoundLaunch bound, Status status, uint32_t failed_at
) except -1:
    """Submit any other launch or raise. Releases the views. Returns 1 if `versions` are stale: nothing is submitted."""
    cdef Announcement announced = None
    cdef Launch launch
    cdef Geometry geometry
    cdef Plan* plan = NULL
    cdef Collecting answer = NOT_COLLECTED
    cdef int unusual = views.unusual
    cdef bint spilled = unusual & HAS_BYTES != 0
    cdef uint64_t waits = state.counts.waits_made  # the program's own were counted when it made them
    try:
        check_elements(kernel, packed)
        if unusual & HAS_ARRAYS:  # it launches again, with Buffers
            launch_with_arrays(queue, kernel, grid, block, list_of(arguments, kernel.count))
            return 0
        if bound is None:
            geometry = read_geometry(kernel, grid, block)[0]
        else:
            geometry, plan = bound.geometry, bound.plan
        if is_observed(state):
            announced = announce_launch(queue, kernel, arguments, packed, &geometry)
            unusual |= RAN_PYTHON
        # The GIL may be released from here on, and other code has run if an argument was converted.
        _held = hold_arguments(kernel, arguments)
        if state.slow_path & BY_STEP and versions == NULL and unusual & ~RAN_PYTHON == 0:
            answer = ask_step(state, kernel, &geometry, packed)
        if answer == COLLECTED:
            status = 0
        elif versions == NULL and status == NOT_NOW and not unusual & HAS_MUCH and (
            FREE_THREADED or unusual & RAN_PYTHON
        ):
            status = launch_at_once(state, kernel, &geometry, packed, spilled, NULL, &failed_at)
        while status in (NOT_NOW, NO_PLAN, NO_ROOM, NOT_CREATED):
            init_launch(
                &launch, kernel.id, plan, &geometry, packed, spilled,
                kernel.follows if bound is None else bound.follows, versions, &failed_at)
            with nogil:
                status = wait_for_creations(state, kernel.layout, kernel.count, packed) if status == NOT_CREATED else 0
                if status == 0:
                    status = launch_gathered(state, &launch)
            if status == NO_PLAN:
                add_plan(queue, state, kernel)
            elif status == NO_ROOM:
                make_room(queue, kernel, &launch)
        if status == QUEUE_CAPTURED:
            capture_launch(queue, kernel, grid, block, arguments, bound)
        elif status == 0:
            settle(announced)
            if answer == TO_BE_RECORDED or answer == OUT_OF_TURN:
                tell_step(state, answer, kernel, &geometry, packed)
            if waits_watcher is not None and bound is None and state.counts.waits_made != waits:
                waits_watcher(queue, kernel, state.counts.waits_made - waits)
        elif status != STALE:
            raise_launch_error(queue, kernel, status, failed_at)
        return status == STALE
    finally:
        release_views(views)


cdef Status wait_for_creations(
    QueueState* state, const Parameter* parameter, size_t count, const char* packed
) noexcept nogil:
    """Order the queue's next command after the creation of a launch's argument memory, which the caller pins."""
    cdef const Usage* usage
    cdef Status status = 0
    for _ in range(count):
        if parameter.kind == POINTER and status == 0:
            usage = usage_of(<const PackedPointer*> (packed + parameter.offset))
            if usage != NULL:
                status = wait_for_creation(state, usage)
        parameter += 1
    return status


cdef list hold_arguments(Kernel kernel, PyObject* const* arguments):
    """Return the memory of all Buffers. The caller keeps it until the launch is submitted."""
    cdef list held = []
    cdef Py_ssize_t i
    for i in range(kernel.count):
        if type(<object> arguments[i]) is Buffer:
            memory = memory_if_open((<Buffer> arguments[i]).allocation)
            if memory is None:
                raise argument_error(
                    kernel, i, str((<Buffer> arguments[i])._closed_error("this Buffer")), ClosedError)
            held.append(memory)
    return held


cdef inline Status launch_gathered(QueueState* state, Launch* launch) noexcept nogil:
    """Submit a launch with its waits. Without a plan it gathers none."""
    cdef Status status = 0
    cdef Guard guard
    if launch.bound == NULL:
        guard.take(state.lock)
        status = refusal(state)
        if status == 0 and find_plan(state, launch.kernel_id) == NULL:
            status = NO_PLAN
        guard.leave()
    return submit(state, launch) if status == 0 else status


cdef int capture_launch(
    object queue, Kernel kernel, object grid, object block, PyObject* const* arguments, BoundLaunch bound
) except -1:
    """Add a launch of a captured queue to its graph. If the capture has ended meanwhile, launch again."""
    cdef Py_ssize_t i
    capture = queue._capture
    if bound is not None:
        if capture is None or not capture.launch_bound(bound):
            bound()
        return 0
    given = tuple([<object> arguments[i] for i in range(kernel.count) if not kernel.left_out[i]])
    if capture is None or not capture.launch(queue, kernel, grid, block, given):
        queue.launch(kernel, grid, block, *given)
    return 0


cdef object raise_launch_error(object queue, Kernel kernel, Status status, uint32_t failed_at):
    what = f"kernel {kernel.name!r}"
    if failed_at != NO_ARGUMENT:
        parameter = kernel.parameters[failed_at]
        what += f", argument {failed_at} ({parameter.type_name} {parameter.name})"
    queue._raise(status, what)


cdef Plan* new_plan(
    const Driver* driver, void* kernel, uint64_t kernel_id, const Parameter* parameters, size_t count,
    size_t packed_size, Epochs* queue
) noexcept nogil:
    cdef Plan* plan = new Plan()
    cdef size_t i
    plan.driver = driver
    plan.kernel = kernel
    plan.kernel_id = kernel_id
    plan.queue = queue
    plan.uses.resize(count)
    plan.parameters.assign(parameters, parameters + count)
    plan.values.resize(packed_size)
    plan.known.resize(count)
    plan.all_known = count == 0
    for i in range(count):
        plan.argument_bytes += parameters[i].size
        plan.has_local |= parameters[i].kind == LOCAL
    return plan


cdef Plan* create_plan(const Driver* driver, Kernel kernel, Epochs* queue) except NULL:
    """Make a plan with its own kernel object. `queue` is NULL for a graph or a step."""
    cdef uintptr_t handle
    check_memory()
    handle = kernel._create()
    return new_plan(
        driver, <void*> handle, kernel.id, kernel.layout, kernel.count, kernel.packed_size, queue)


cdef int add_plan(object queue, QueueState* state, Kernel kernel) except -1:
    """Add a plan before the first launch of this kernel on this queue."""
    cdef Plan* plan
    cdef Status refused
    cdef Guard guard
    queue._check_open()
    collect_device(state.device)  # first discard the plans of closed kernels
    plan = create_plan(state.driver, kernel, state.epochs)
    with nogil:
        guard.take(state.lock)
        refused = refusal(state)
        # `Kernel.follow_pointers` may have changed the id since. Then another kernel object is needed.
        if refused == 0 and plan.kernel_id == kernel.id and find_plan(state, plan.kernel_id) == NULL:
            state.plans.by_kernel[plan.kernel_id] = plan
            plan = NULL
        guard.leave()
        if plan != NULL:  # or another thread was faster
            delete_plan(plan)
    if kernel.closed:  # meanwhile, and a collection may have looked for its plans already
        retire_plans(state.device, kernel.id)
    if refused == QUEUE_CLOSED:  # the launch checks again and raises the other refusals
        queue._check_open()
    return 0


cdef list list_of(PyObject* const* arguments, Py_ssize_t count):
    cdef Py_ssize_t i
    return [<object> arguments[i] for i in range(count)]


# -- open steps, which may collect a launch


cdef Collecting ask_step(
    QueueState* state, Kernel kernel, const Geometry* geometry, const char* packed
) noexcept:
    """Offer a launch to any open step, after the waits that it owes. Arguments are pinned, and types checked."""
    cdef OpenStep* step
    cdef Collecting answer
    cdef uint32_t failed_at
    cdef Status status = 0
    for _ in range(5):
        step = step_of_thread(state)  # it may be left while the GIL is released
        if step == NULL or kernel.follows:
            return NOT_COLLECTED
        answer = step.collect(state, False, <PyObject*> kernel, geometry, packed, NULL, &status, &failed_at)
        if answer != OWES_WAITS:
            return answer
        with nogil:
            status = wait_for_marker(state, NULL)
            if status == 0:
                status = wait_for_creations(state, kernel.layout, kernel.count, packed)
        if status != 0:
            return NOT_COLLECTED  # the launch will raise the error
    return OUT_OF_TURN


cdef OpenStep* step_of_thread(QueueState* state) noexcept:
    """Return the open step that collects this thread's launches; NULL for none. The thread keeps it until it leaves its
    block; the step of another thread may be gone at once.
    """
    cdef OpenStep* step = <OpenStep*> state.open_step.lane
    return step if state.open_step.thread == PyThreadState_Get() else NULL


cdef int tell_step(
    QueueState* state, Collecting answer, Kernel kernel, const Geometry* geometry, const char* packed
) except -1:
    cdef OpenStep* step = step_of_thread(state)
    return 0 if step == NULL else step.submitted(state, answer, <PyObject*> kernel, geometry, packed)


cdef bint offer_and_unlock(QueueState* state, Kernel kernel, const char* packed, const uint64_t* closings) noexcept:
    """Offer the launch to any open step, unlock the queue, and return whether the step took it. If not,
    `launch_uncommon` offers it again, or raises what is wrong with its arguments.
    """
    cdef OpenStep* step = <OpenStep*> state.open_step.lane
    cdef uint32_t failed_at
    cdef Status status = 0
    cdef bint taken = False
    if state.slow_path == BY_STEP and step != NULL:
        taken = COLLECTED == step.collect(
            state, True, <PyObject*> kernel, &(<LastGeometry> last_geometry(kernel)).geometry, packed, closings,
            &status, &failed_at)
    state.lock.unlock()
    return taken and status == 0


cdef object waits_watcher = None


def watch_waits(watcher: Callable[[Queue, Kernel, int], None] | None) -> None:
    """Call ``watcher(queue, kernel, waits)`` after each launch with waits of the null queue's rules. None ends that.
    Bound launches and launches of graphs are not reported.
    """
    global waits_watcher
    waits_watcher = watcher


# -- grid and block


UNITS: str = "; grid counts groups, as in HIP, and block the work-items of each"
cdef size_t MOST_GROUPS = 0xFFFFFFFF  # as in HIP, where they are of type uint32_t


cdef object plain_extents(Kernel kernel, str what, object value):
    """Return grid or block as an int or a tuple of ints, which always mean the same sizes. This may run Python code."""
    given = value if type(value) is tuple else (value,)
    for each in <tuple> given:
        if type(each) is not int:
            break
    else:
        return value
    wanted = f"kernel {kernel.name!r}: {what} is an int or a tuple of 1 to 3 ints"
    return tuple([read_int(each, wanted, way_out(each)) for each in given])


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


cdef Py_ssize_t extent(Kernel kernel, str what, object value) except -1:
    cdef Py_ssize_t number
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


cdef int work_out_geometry(Kernel kernel, object grid, object block) except -1:
    """Set the geometry from groups and work-items per group, as in HIP. Runs no Python code or garbage collection."""
    cdef Geometry geometry
    cdef size_t groups[3]
    cdef size_t shape[3]
    cdef int i, dimensions, block_dimensions
    cdef LastGeometry last
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
    last = <LastGeometry> last_geometry(kernel)
    last.grid, last.block = grid, block  # kept, otherwise new objects could get their addresses
    last.kernel_id, last.geometry = kernel.id, geometry
    return 0


cdef extern from *:
    "static thread_local PyObject *forebay_geometries[16] = {};"
    PyObject** geometries "forebay_geometries"  # a GeometryOfThread or NULL, by the kernel's id


cdef class GeometryOfThread(LastGeometry):
    """The last geometry of a thread without a GIL, kept by the thread's state."""

    cdef int place  # in `geometries`

    def __dealloc__(self):
        if geometries[self.place] == <PyObject*> self:
            geometries[self.place] = NULL


cdef PyObject* geometry_of_thread(Kernel kernel) except NULL:
    cdef int place = kernel.id % 16
    cdef GeometryOfThread last
    if geometries[place] == NULL:
        last = GeometryOfThread.__new__(GeometryOfThread)
        last.place = place
        (<dict> PyThreadState_GetDict())[f"forebay.geometry.{place}"] = last
        geometries[place] = <PyObject*> last
    return geometries[place]


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


# -- what a Python value becomes


cdef extern from *:
    """
    // Whether an exact int has one digit, of 30 bits, and its value. CPython's own function is a call, and its result
    // must be looked at for errors: half of what an argument takes.
    static inline bool read_small(PyObject *integer, std::int64_t *number) {
    #if PY_VERSION_HEX >= 0x030C0000
        auto *object = reinterpret_cast<PyLongObject *>(integer);
        bool is_small = PyUnstable_Long_IsCompact(object);
        *number = is_small ? PyUnstable_Long_CompactValue(object) : 0;
        return is_small;
    #else
        Py_ssize_t digits = Py_SIZE(integer);  // negative for a negative number
        *number = digits * static_cast<std::int64_t>(reinterpret_cast<PyLongObject *>(integer)->ob_digit[0]);
        return -1 <= digits && digits <= 1;
    #endif
    }
    """
    bint read_small(PyObject* integer, int64_t* number)


cdef class Local:
    """An argument for a parameter in local memory: ``fb.local(nbytes)`` bytes for each group.

    Attributes
    ----------
    nbytes : int
    """

    cdef readonly size_t nbytes

    def __init__(self, nbytes: SupportsIndex) -> None:
        nbytes = read_int(nbytes, "local(nbytes) needs an int")
        if not 1 <= nbytes < 1 << 63:
            raise InvalidArgumentError(f"local memory of {nbytes} bytes: at least 1 is needed, and no more than fits")
        self.nbytes = nbytes

    def __repr__(self) -> str:
        return f"forebay.local({self.nbytes})"


local = Local  # fb.local(nbytes)


cdef class Null:
    """A null pointer, for a pointer parameter: ``fb.NULL``, of which there is one.

    A kernel that reads or writes through it may end the process. So it is never passed by accident: a launch refuses
    None, which a function without a ``return`` returns.
    """

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("there is one null pointer: forebay.NULL")

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "null"  # the same object, also in another process

    def __repr__(self) -> str:
        return "forebay.NULL"


null: Null = Null.__new__(Null)  # fb.NULL
the_null = <PyObject*> null


cdef object structure = ctypes.Structure
cdef object structure_of_numpy = np.void

# Types of Python's and NumPy's own numbers: no Python code runs when one is converted
cdef frozenset whole_numbers = frozenset({
    int, bool, np.bool_, np.int8, np.int16, np.int32, np.int64, np.intc, np.longlong, np.uint8, np.uint16, np.uint32,
    np.uint64, np.uintc, np.ulonglong
})
cdef frozenset numbers = whole_numbers | {float, np.float16, np.float32, np.float64}


cdef object argument_error(Kernel kernel, Py_ssize_t index, str problem, object kind):
    parameter = kernel.parameters[index]
    return kind(
        f"kernel {kernel.name!r}, argument {index} ({parameter.type_name} {parameter.name}): {problem}")


cdef uint64_t kind_of(object value):
    """Return the part of `Memory.kind` for the elements of an array; 0 for other bytes."""
    return <uint64_t> element_code(value.dtype) << ELEMENT_AT if isinstance(value, np.ndarray) else 0


cdef int check_elements(Kernel kernel, const char* packed) except -1:
    """Refuse memory whose elements are not of the type that its parameter points to. All launches call this before they
    submit anything, but for the common one: there `set_changed_arguments` checks what has changed.
    """
    cdef uint32_t i = 0
    cdef uint64_t given
    if check_types(kernel.layout, kernel.count, packed, &i) == 0:
        return 0
    given = element_of((<const PackedPointer*> (packed + kernel.layout[i].offset)).memory.kind)
    wanted = kernel.parameters[i].dtype
    kind = "floating-point numbers" if given & 1 else "integers"
    raise argument_error(
        kernel, i, f"needs elements of {wanted}, not {kind} of {given >> 1} bytes; if their bytes are meant, pass "
        f".view({wanted.str[1:]!r})", ArgumentTypeError)


cdef uint64_t integer_value(Kernel kernel, Py_ssize_t i, object value) except? 0:
    """Return the bytes of any integer."""
    cdef const Parameter* parameter = &kernel.layout[i]
    cdef uint64_t number
    if not PyLong_CheckExact(value):
        value = whole_value(kernel, i, value)
    try:
        number = <uint64_t> PyLong_AsLongLong(value) if parameter.bias else PyLong_AsUnsignedLongLong(value)
    except OverflowError:
        raise out_of_range(kernel, i, value) from None
    if number + parameter.bias > parameter.mask:
        raise out_of_range(kernel, i, value)
    return number & parameter.mask


cdef str value_of(object value):
    """Return what to write instead of memory where a number is needed, for the end of a message."""
    if isinstance(value, (Buffer, StridedView)):
        return ": x.item() is what one element holds"
    return ""


cdef object out_of_range(Kernel kernel, Py_ssize_t i, object value):
    return argument_error(kernel, i, f"{shortened(value)} is out of its range", InvalidArgumentError)


cdef object whole_value(Kernel kernel, Py_ssize_t i, object value):
    if type(value) in whole_numbers:
        return PyNumber_Long(value)
    try:
        return whole_number(value)
    except TypeError:
        raise argument_error(
            kernel, i, f"needs an integer, not {type(value).__name__}{value_of(value)}", ArgumentTypeError) from None


cdef double real_value(Kernel kernel, Py_ssize_t i, object value) except? -1.0:
    if PyFloat_CheckExact(value):
        return PyFloat_AS_DOUBLE(value)
    # `float` of a complex number raises, or discards a part: NumPy only warns then, and the process may hide warnings
    if type(value) not in numbers and (
        isinstance(value, (Buffer, str, bytes, complex)) or "complex" in str(getattr(value, "dtype", ""))
        or not hasattr(value, "__float__")
    ):
        raise argument_error(
            kernel, i, f"needs a number, not {type(value).__name__}{value_of(value)}", ArgumentTypeError)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise argument_error(kernel, i, f"needs a number, not {shortened(value)}", ArgumentTypeError) from None
    except OverflowError:
        raise out_of_range(kernel, i, value) from None


cdef atomic[uint64_t] stamps  # how many were given


cdef class ByValue:
    """An argument for a pointer parameter whose bytes are passed by value: ``fb.by_value(array)``.

    The kernel gets a pointer to a copy of the bytes on the device. The copy is updated before the kernel runs; if the
    pointer is const, only if the bytes have changed since the last launch of this kernel on this queue. What the kernel
    writes there is lost. A launch reads the bytes when it is called, and they may be changed as soon as it returns. The
    ByValue may be used again. ``bytes``, NumPy structured scalars and ctypes structures need not be wrapped.

    Parameters
    ----------
    value : anything with a C-contiguous buffer, such as a NumPy array
        An array of numbers goes where a Buffer of its dtype would.
    """

    cdef Py_buffer view  # kept for the life of this object, so that the memory is neither moved nor resized
    cdef uint64_t kind  # of its elements, as in Memory
    cdef uint64_t stamp  # as in PackedBytes
    cdef readonly object value

    value: HostBuffer

    def __init__(self, value: HostBuffer) -> None:
        if self.view.buf != NULL:
            raise ArgumentTypeError("this by_value is made already")
        try:
            problem = view_bytes(value, &self.view, 0)
        except (TypeError, ValueError, BufferError) as error:
            raise ArgumentTypeError(
                f"by_value needs C-contiguous bytes, such as an array of NumPy, not this {type(value).__name__}: "
                f"numbers and Buffers are passed as they are ({error})") from None
        if problem:
            raise ArgumentTypeError(f"by_value: {problem}")
        self.value = value
        self.kind = kind_of(value)
        if type(value) is bytes:
            self.stamp = stamps.fetch_add(1) + 1
        if self.view.len == 0:
            raise InvalidArgumentError("by_value: no bytes to pass")

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    def __repr__(self) -> str:
        return f"forebay.by_value({self.value!r})"


by_value = ByValue  # fb.by_value(array)


cdef inline void pack_bytes_at(
    PackedPointer* slot, const void* data, size_t nbytes, uint64_t kind, uint64_t stamp, Views* views
) noexcept:
    (<PackedBytes*> slot)[0] = PackedBytes(SPILLED, stamp, data, nbytes, kind)
    views.unusual |= HAS_BYTES if nbytes < LARGE else HAS_BYTES | HAS_MUCH


cdef int pack_spilled(Kernel kernel, Py_ssize_t i, object value, PackedPointer* slot, Views* views) except -1:
    """Pack bytes by value that are not wrapped in a ByValue."""
    cdef Py_buffer* view = &views.views[views.count]
    if views.count == MOST_VIEWS:
        raise argument_error(kernel, i, f"more than {MOST_VIEWS} structures by value", InvalidArgumentError)
    try:
        problem = view_bytes(value, view, 0)
    except (TypeError, ValueError, BufferError) as error:
        problem = f"these are no plain bytes ({error})"
    if problem:
        raise argument_error(kernel, i, problem, ArgumentTypeError)
    views.count += 1
    if view.len == 0:
        raise argument_error(kernel, i, "no bytes to pass by value", InvalidArgumentError)
    pack_bytes_at(slot, view.buf, view.len, 0, 0, views)
    return 0


cdef void release_views(Views* views):
    cdef int i
    for i in range(views.count):
        PyBuffer_Release(&views.views[i])
    views.count = 0


cdef int pack_other_pointer(Kernel kernel, Py_ssize_t i, object value, PackedPointer* slot, Views* views) except -1:
    """Pass bytes by value, note an array to be copied in and out, and refuse everything else."""
    if isinstance(value, (bytes, np.void, ctypes.Structure, ctypes.Union)):
        return pack_spilled(kernel, i, value, slot, views)
    memset(slot, 0, sizeof(PackedPointer))
    if isinstance(value, (int, np.integer)) and kernel.parameters[i].type_name == UNTYPED:
        value = int(value)
        if not -1 << 63 <= value < 1 << 64:
            raise out_of_range(kernel, i, value)
        slot.memory.address = value & 0xFFFFFFFFFFFFFFFF
        return 0
    if isinstance(value, StridedView):
        raise argument_error(
            kernel, i, f"these elements do not lie one after another (shape {value.shape}, strides {value.strides} "
            "bytes): pass view.copy(), a Buffer", InvalidArgumentError)
    if type(value) is Buffer:
        if value.closed:
            raise argument_error(kernel, i, str(value._closed_error("this Buffer")), ClosedError)
        if value.device.driver not in kernel.device._peers:
            raise argument_error(
                kernel, i, f"this Buffer belongs to {value.device.name}, the kernel to {kernel.device.name}",
                InvalidArgumentError)
    elif not isinstance(value, np.ndarray) and not is_foreign(value, kernel.device.driver):
        instead = ""
        if value is None or isinstance(value, (int, np.integer)):
            instead = "; a null pointer is forebay.NULL"
            if value:
                instead += ", and an address goes to a parameter of 64 bits, see Kernel.follow_pointers"
        raise argument_error(
            kernel, i, "needs a Buffer, an array, or bytes by value (forebay.by_value), not "
            f"{name_of(value)}{instead}", ArgumentTypeError)
    views.unusual |= HAS_ARRAYS
    slot.memory.kind = kind_of(value)
    return 0


cdef int pack_bytes(Kernel kernel, Py_ssize_t i, object value, char* slot) except -1:
    """Pack a vector, half or struct: its bytes (also a ctypes.Structure: `hip.float4`), or a vector's numbers."""
    cdef Parameter* parameter = &kernel.layout[i]
    cdef Py_buffer view
    dtype = kernel.parameters[i].dtype
    if dtype is not None and not isinstance(value, (bytes, bytearray, memoryview, structure)):
        lanes = dtype.shape[0] if dtype.shape else 1
        try:
            value = np.ascontiguousarray(convert(value, dtype.base))
        except TypeError as error:
            raise argument_error(
                kernel, i, f"needs {dtype.base} values, not {shortened(value)} ({error})", ArgumentTypeError) from None
        except ValueError as error:
            raise argument_error(kernel, i, str(error), InvalidArgumentError) from None
        if value.size != lanes:
            raise argument_error(kernel, i, f"needs {lanes} values, not {value.size}", InvalidArgumentError)
    try:
        problem = view_bytes(value, &view, 0)
    except (TypeError, ValueError, BufferError):
        problem = (
            f"needs {parameter.size} bytes (a NumPy value, bytes or a ctypes structure), not {type(value).__name__}")
    if problem:
        raise argument_error(kernel, i, problem, ArgumentTypeError)
    try:
        # a vector of three is as large as one of four; its last element is never used
        if view.len != parameter.size and not (dtype is not None and view.len == dtype.itemsize):
            raise argument_error(
                kernel, i, f"needs {parameter.size} bytes, not {view.len}", InvalidArgumentError)
        memset(slot, 0, parameter.width)
        memcpy(slot, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int pack_local(Kernel kernel, Py_ssize_t i, object value, char* slot) except -1:
    if type(value) is not Local:
        raise argument_error(kernel, i, f"needs forebay.local(nbytes), not {type(value).__name__}", ArgumentTypeError)
    if (<Local> value).nbytes > kernel.local_bytes:
        raise argument_error(
            kernel, i, f"{(<Local> value).nbytes} bytes of local memory: the device has {kernel.local_bytes}",
            InvalidArgumentError)
    (<uint64_t*> slot)[0] = (<Local> value).nbytes
    return 0


cdef int pack_special_pointer(
    Kernel kernel, Py_ssize_t i, PyObject* value, PackedPointer* slot, Views* views
) except -1:
    """Pack what a pointer takes besides an open Buffer. The caller keeps a NumPy structure or bytes alive."""
    cdef void* data
    cdef Py_ssize_t nbytes = 0
    if Py_IS_TYPE(value, <PyTypeObject*> ByValue):
        pack_bytes_at(
            slot, (<ByValue> value).view.buf, (<ByValue> value).view.len, (<ByValue> value).kind,
            (<ByValue> value).stamp, views)
        return 0
    if PyBytes_CheckExact(<object> value) and PyBytes_GET_SIZE(<object> value):
        pack_bytes_at(slot, PyBytes_AS_STRING(<object> value), PyBytes_GET_SIZE(<object> value), 0, 0, views)
        return 0
    if value == the_null:
        memset(slot, 0, sizeof(PackedPointer))
        return 0
    if isinstance(<object> value, structure_of_numpy):
        data = structure_bytes(<object> value, &nbytes)
        if nbytes:
            pack_bytes_at(slot, data, nbytes, 0, 0, views)
            return 0
    return pack_other(kernel, i, <object> value, <char*> slot, views)


cdef int refuse_count(Kernel kernel, PyObject* const* arguments, Py_ssize_t count) except -1:
    given = f"{count} given"
    if count == 1 and isinstance(<object> arguments[0], (tuple, list)):
        given += f": a {type(<object> arguments[0]).__name__}, pass *args"
    raise ArgumentTypeError(
        f"kernel {kernel.name!r} takes {kernel.count} arguments after grid and block ({given}): {kernel.signature}")


cdef int pack_arguments(
    Kernel kernel, PyObject* const* arguments, Py_ssize_t count, char* packed, Views* views
) except -1:
    """Check the arguments and pack their bytes into their slots, without the driver. Unused bytes are zero. The usual
    kinds are read here, and borrowed from the caller. Other kinds, and errors, are left to `pack_other`.
    """
    cdef Py_ssize_t i
    cdef const Parameter* layout = kernel.layout
    cdef const Parameter* parameter
    cdef PyObject* value
    cdef char* slot
    cdef int64_t number
    views.count = views.unusual = 0
    if count != kernel.count:
        refuse_count(kernel, arguments, count)
    memset(packed + kernel.packed_size - 16, 0, 16)  # the last word may belong to no argument
    for i in range(count):
        parameter = &layout[i]
        slot = packed + parameter.offset
        value = arguments[i]
        if parameter.code == 0:
            if (
                Py_IS_TYPE(value, <PyTypeObject*> Buffer) and not (<Buffer> value).allocation.closed
                and (<Buffer> value).allocation.state == kernel.state
            ):
                (<PackedPointer*> slot).allocation = <uint64_t> (<Buffer> value).allocation.usage
                (<PackedPointer*> slot).memory = (<Buffer> value).memory
            else:
                pack_special_pointer(kernel, i, value, <PackedPointer*> slot, views)
            continue
        if PyLong_CheckExact(<object> value):
            if read_small(value, &number) and <uint64_t> number + parameter.bias <= parameter.most:
                (<uint64_t*> slot)[0] = <uint64_t> number & parameter.mask
                continue
        elif PyFloat_CheckExact(<object> value):
            if parameter.code == c"f":
                (<uint64_t*> slot)[0] = 0
                (<float*> slot)[0] = <float> PyFloat_AS_DOUBLE(<object> value)
                if not isinf((<float*> slot)[0]):
                    continue
            elif parameter.code == c"d":
                (<double*> slot)[0] = PyFloat_AS_DOUBLE(<object> value)
                continue
        pack_other(kernel, i, <object> value, slot, views)
    return 0


cdef int pack_other(Kernel kernel, Py_ssize_t i, object value, char* slot, Views* views) except -1:
    cdef const Parameter* parameter = &kernel.layout[i]
    cdef char code = parameter.code
    cdef double real
    if type(value) not in numbers or not (parameter.mask or code == c"f" or code == c"d"):
        views.unusual |= RAN_PYTHON  # any code, or the garbage collector, may have closed a packed Buffer
    try:
        if code == 0:
            pack_other_pointer(kernel, i, value, <PackedPointer*> slot, views)
        elif parameter.mask:
            (<uint64_t*> slot)[0] = integer_value(kernel, i, value)
        elif code == c"f":
            real = real_value(kernel, i, value)
            (<uint64_t*> slot)[0] = 0
            (<float*> slot)[0] = <float> real
            if isinf((<float*> slot)[0]) and not isinf(real):
                raise out_of_range(kernel, i, value)
        elif code == c"d":
            (<double*> slot)[0] = real_value(kernel, i, value)
        elif code == c"L":
            pack_local(kernel, i, value, slot)
        else:
            pack_bytes(kernel, i, value, slot)
    except BaseException:
        release_views(views)
        raise
    return 0


# -- a plan's spill buffers, and the uploads to them
#
# Bytes that the kernel only reads are uploaded if they differ from those of its last launch. They are compared, unless
# they are the same `bytes` in one ByValue, which cannot change. Bytes that it may write to are uploaded each time.
#
# A buffer belongs to one parameter of one plan, so only launches of one kernel on one queue use it, and these run in
# order. A command before the launch therefore writes it in place, even if earlier launches have not read it yet. The
# other hazards of shared argument buffers (two queues, two threads, a graph) cannot occur.


# Each upload has its own slot of staging memory, because earlier ones may not have been read yet.
cdef enum:
    SLOTS = 16
    ALIGNMENT = 64
    SMALLEST_PIECE = 4 << 10
    LARGEST_PIECE = 1 << 20  # unless one slot is larger


cdef inline PackedBytes* spilled_at(const Parameter* parameter, const char* packed) noexcept nogil:
    """Return the slot of an argument by value. NULL for any other argument."""
    cdef PackedBytes* slot = <PackedBytes*> (packed + parameter.offset)
    return slot if parameter.kind == POINTER and slot.allocation == SPILLED else NULL


cdef inline bint is_uploaded(
    const Parameter* parameter, const Spill* spill, const PackedBytes* given
) noexcept nogil:
    """Return whether the buffer has these bytes already. If the kernel may write to it, it counts as changed."""
    return (
        not parameter.writes and spill.known and spill.nbytes == given.nbytes
        and (given.stamp != 0 and given.stamp == spill.stamp or memcmp(spill.last, given.data, spill.nbytes) == 0)
    )


cdef list spilled_bytes(Kernel kernel, char* packed):
    """Copy the bytes by value, and point the packed arguments there. Return (index of the parameter, bytes)."""
    cdef PackedBytes* given
    cdef Py_ssize_t i
    cdef list found = []
    cdef bytes copied
    for i in range(kernel.count):
        given = spilled_at(&kernel.layout[i], packed)
        if given != NULL:
            copied = PyBytes_FromStringAndSize(NULL, given.nbytes)
            copy_bytes(<void*> PyBytes_AS_STRING(copied), given.data, given.nbytes)
            given.data = <const void*> PyBytes_AS_STRING(copied)
            found.append((i, copied))
    return found


cdef void use_spills(Plan* plan, char* packed) noexcept nogil:
    """Replace the addresses of the bytes by those of the buffers that they were uploaded to."""
    cdef const Parameter* parameter = plan.parameters.data()
    cdef const Spill* spill = plan.spills.data()
    cdef PackedBytes* slot
    for _ in range(plan.spills.size()):
        slot = spilled_at(parameter, packed)
        if slot != NULL:
            (<PackedPointer*> slot)[0] = spill.device
        parameter += 1
        spill += 1


cdef bint has_staging(QueueState* state, Spill* spill, size_t nbytes) noexcept nogil:
    """Return whether the first piece of staging memory has space, or the device is known to have read all of it."""
    cdef Staging* piece
    if spill.staging.empty():
        return False
    piece = &spill.staging.front()
    if piece.used != 0 and piece.used + nbytes <= piece.capacity:
        return True
    return piece.capacity >= nbytes and piece.epoch <= completed_epoch(state.epochs)


cdef inline bint is_staged(const Launch* launch, const Spill* spill, const PackedBytes* given) noexcept nogil:
    """Return whether staging memory has these bytes from the last upload: those of a bound launch do not change."""
    return launch.bound != NULL and spill.last != NULL and spill.nbytes == given.nbytes


cdef Status choose_uploads(QueueState* state, Launch* launch, const Clock* clock, bint* any_chosen) noexcept nogil:
    """Clear `known` of the spill buffers to upload to. NO_ROOM: one is too small or in use. NOT_CREATED: the launch
    must wait first, because the next launch may overwrite what is uploaded before the wait. This is decided once: if
    another thread changes the bytes meanwhile, it is unspecified which of them the kernel sees, but the upload still
    fits, and the next launch is compared with the uploaded bytes.
    """
    cdef Plan* plan = launch.plan
    cdef const char* packed = launch.packed
    cdef const Parameter* parameter = plan.parameters.data()
    cdef const Parameter* end = parameter + plan.parameters.size()
    cdef Spill* spill = plan.spills.data()
    cdef PackedBytes* given
    cdef const Usage* usage
    cdef Moment moment
    cdef uint64_t skipped = 0
    any_chosen[0] = False
    if plan.spills.empty():
        return NO_ROOM
    while parameter != end:
        given = spilled_at(parameter, packed)
        if given != NULL:
            if given.kind != 0 and parameter.element not in (0, element_of(given.kind)):
                return WRONG_TYPE  # as `check_types` says of memory
            if is_uploaded(parameter, spill, given):
                skipped += given.nbytes
            elif spill.capacity < given.nbytes or not (
                is_staged(launch, spill, given) or has_staging(state, spill, given.nbytes)
            ):
                return NO_ROOM
            else:
                spill.known = False
                any_chosen[0] = True
        elif parameter.kind == POINTER:
            usage = usage_of(<const PackedPointer*> (packed + parameter.offset))
            if usage != NULL and not is_known_created(usage):
                moment = moment_of(state, clock)
                if not is_created(usage, &moment):
                    return NOT_CREATED
        parameter += 1
        spill += 1
    state.counts.arg_bytes_skipped += skipped
    return 0


cdef Status upload_spills(QueueState* state, Launch* launch, const Clock* clock, Waits waits) noexcept nogil:
    """Upload the given bytes to the plan's buffers. Each upload is counted; the first carries the waits. Before that,
    returns a failure of `choose_uploads`, or WRONG_TYPE if memory has other elements than its parameter points to,
    which the caller need not have checked. The queue is locked.
    """
    cdef Plan* plan = launch.plan
    cdef PackedBytes* given
    cdef Spill* spill
    cdef Staging* piece
    cdef Memory slot
    cdef size_t i
    cdef bint any_chosen, is_again
    cdef Status status = choose_uploads(state, launch, clock, &any_chosen)
    if status == 0 and any_chosen:
        status = check_types(plan.parameters.data(), plan.parameters.size(), launch.packed, launch.failed_at)
    if status != 0 or not any_chosen:
        return status
    for i in range(plan.parameters.size()):
        given = spilled_at(&plan.parameters[i], launch.packed)
        spill = &plan.spills[i]
        if given == NULL or spill.known:
            continue
        piece = &spill.staging.front()
        slot = piece.memory
        is_again = is_staged(launch, spill, given)
        if is_again:
            slot.address = <uint64_t> <uintptr_t> spill.last
        else:
            if piece.used + given.nbytes > piece.capacity or piece.epoch <= completed_epoch(state.epochs):
                piece.used = 0
            slot.address += piece.used
            memcpy(<void*> <uintptr_t> slot.address, given.data, given.nbytes)
        status = state.driver.copy(state.handle, &spill.device.memory, &slot, given.nbytes, waits, NULL)
        if status != 0:
            launch.failed_at[0] = <uint32_t> i
            return status
        commit(state, launch)
        waits = no_waits()
        plan.epoch = submitted_epoch(state.epochs)  # the launch itself may fail
        state.counts.arg_bytes_set += given.nbytes
        if is_again:
            spill.known = True
            continue
        piece.epoch = plan.epoch
        piece.used += (given.nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        spill.last = <const void*> <uintptr_t> slot.address
        spill.nbytes, spill.stamp, spill.known = given.nbytes, given.stamp, True
        if piece.used + spill.capacity > piece.capacity:  # it is full
            piece.used = 0
            spill.staging.push_back(dereference(piece))
            spill.staging.pop_front()
    return 0


# -- memory for them, allocated with the GIL and put in place without it


cdef size_t piece_size(const Spill* spill, size_t nbytes) noexcept nogil:
    """Return the size of the next piece of staging memory. It doubles while the device does not keep up."""
    cdef size_t size = max(<size_t> SMALLEST_PIECE, SLOTS * nbytes)
    if not spill.staging.empty():
        size = max(size, 2 * spill.staging.back().capacity)
    return max(nbytes, min(size, <size_t> LARGEST_PIECE))


cdef Spill* find_spill(QueueState* state, const Launch* launch, size_t index) noexcept nogil:
    """Return the Spill of a parameter of the launch, or NULL if the plan is gone. The queue is locked."""
    cdef Plan* plan = launch.bound if launch.bound != NULL else find_plan(state, launch.kernel_id)
    if plan == NULL:
        return NULL
    plan.spills.resize(plan.parameters.size())  # zeroed
    return &plan.spills[index]


cdef int make_room_for(object queue, Launch* launch, const Parameter* parameter, size_t index) except -1:
    """Allocate the buffer and staging memory for the upload of an argument. If that fails, nothing has changed. A
    replaced buffer is released once the launches that read it are done.
    """
    cdef QueueState* state = (<AnyQueue> queue).state
    cdef const PackedBytes* given = spilled_at(parameter, launch.packed)
    cdef size_t nbytes = given.nbytes, capacity = 0
    cdef uint64_t uploaded = 0
    cdef PackedPointer pointer
    cdef PyObject* buffer = NULL
    cdef Staging piece
    cdef Spill* spill
    cdef vector[PyObject*] dropped
    cdef Guard guard
    piece.array = NULL
    piece.capacity = piece.used = piece.epoch = 0
    with nogil:
        guard.take(state.lock)
        spill = find_spill(state, launch, index)
        if spill != NULL and not spill.staging.empty() and not has_staging(state, spill, nbytes):
            uploaded = spill.staging.front().epoch
        guard.leave()
        reach_point(state.device, state.epochs, uploaded)  # else it stays unknown that the piece is free
        guard.take(state.lock)
        spill = find_spill(state, launch, index)
        if spill != NULL and not is_uploaded(parameter, spill, given):
            capacity = nbytes if spill.capacity < nbytes else 0
            if not (is_staged(launch, spill, given) or has_staging(state, spill, nbytes)):
                piece.capacity = piece_size(spill, nbytes)
        guard.leave()
    if capacity:
        capacity = 1 << (<object> capacity - 1).bit_length()
        memory = queue.device._allocate(capacity, "device")
        pointer, buffer = pointer_to(memory), <PyObject*> memory
    if piece.capacity:
        staged = queue.device.driver.stage(piece.capacity)
        piece.memory, piece.capacity, piece.array = host_memory_of(staged), len(staged), <PyObject*> staged
    Py_XINCREF(buffer)
    Py_XINCREF(piece.array)
    with nogil:
        guard.take(state.lock)
        spill = find_spill(state, launch, index)
        if spill != NULL and spill.capacity < capacity:  # else another thread was faster
            dropped.push_back(spill.buffer)
            spill.buffer, spill.device, spill.capacity, spill.known = buffer, pointer, capacity, False
            buffer = NULL
        if spill != NULL and piece.array != NULL:
            while not spill.staging.empty() and spill.staging.front().capacity < nbytes:
                # a piece that is too small would come round again, and more would be allocated each time
                dropped.push_back(spill.staging.front().array)
                spill.staging.pop_front()
                spill.known = False  # the bytes to compare with may have been there
            spill.staging.push_front(piece)
            state.plans.staged += 1
            piece.array = NULL
        guard.leave()
    dropped.push_back(buffer)
    dropped.push_back(piece.array)
    for thing in dropped:
        if thing != NULL:
            retire_after(state.device, <object> thing, state.epochs, submitted_epoch(state.epochs))
            Py_DECREF(<object> thing)
    return 0


cdef int make_room(object queue, Kernel kernel, Launch* launch) except -1:
    cdef Py_ssize_t i
    for i in range(kernel.count):
        if spilled_at(&kernel.layout[i], launch.packed) != NULL:
            make_room_for(queue, launch, &kernel.layout[i], i)
    return 0


# -- NumPy arrays as arguments, copied in before the launch and out after it; and memory of other packages


def launch_with_arrays(queue: Queue, kernel: Kernel, grid: Any, block: Any, arguments: list[Any]) -> None:
    """Launch with arrays, and copy them on `queue`. Blocks until the results are there, if any array is written to. A
    captured launch does not block: launch and copies become part of the graph, with their own memory.
    """
    captured = queue.capturing
    places = [i for i, each in enumerate(kernel.parameters) if each.name not in kernel.scratch_names]
    given = [kernel.parameters[i] for i in places]
    arguments = [
        _taken_over(kernel, queue, places[i], each) if given[i].kind == "pointer" else each
        for i, each in enumerate(arguments)
    ]
    arrays: list[tuple[int, Any]] = [(i, each) for i, each in enumerate(arguments) if isinstance(each, np.ndarray)]
    written = [(i, array) for i, array in arrays if not given[i].read_only]
    for i, array in arrays:
        problem = why_unfit(array) or ("" if array.size else f"it is empty (shape {array.shape})")
        if not array.flags.writeable and not given[i].read_only:
            raise argument_error(
                kernel, places[i], "this array is read-only, and the parameter is not const: declare it const if the "
                "kernel only reads it, else pass a copy", InvalidArgumentError)
        if problem:
            raise argument_error(
                kernel, places[i], f"this array cannot be copied to the device: {problem}", InvalidArgumentError)
        if captured and given[i].name in kernel._measured:
            raise argument_error(
                kernel, places[i], "the size of scratch is read from it before the graph runs, but only the graph "
                "copies the array: pass a Buffer", InvalidArgumentError)
        for j, other in written:
            if i != j and _place(array) != _place(other) and np.may_share_memory(array, other):
                raise InvalidArgumentError(
                    f"kernel {kernel.name!r}: the arrays of arguments {places[i]} and {places[j]} overlap, and one is "
                    "written to")
    if written and not captured:
        refuse_on_host_thread("A launch that writes to arrays of the host")
    buffers: dict[tuple[int, int], Buffer] = {}
    replaced = list(arguments)
    try:
        for i, array in arrays:
            if _place(array) not in buffers:
                lend = _of_a_graph if captured else queue.device._lend
                buffers[_place(array)] = lend(queue, array.shape, array.dtype)
                queue.copy(buffers[_place(array)], array)
            replaced[i] = buffers[_place(array)]
        queue.launch(kernel, grid, block, *replaced)
        for _, array in written:
            queue.copy(array, buffers[_place(array)])
    finally:
        for buffer in () if captured else buffers.values():
            queue.free(buffer)
    if written and not captured:
        queue.record().wait()


def _taken_over(kernel: Kernel, queue: Queue, i: int, value: Any) -> Any:
    """Return a Buffer over memory of another package or device. Other values are returned unchanged."""
    if isinstance(value, Buffer):
        return queue.device._over_peer(value) if value.device.driver in queue.device._peers else value
    if isinstance(value, np.ndarray) or not is_foreign(value, queue.device.driver):
        return value
    try:
        array = read_only_array(value, queue.device.driver) if kernel.parameters[i].read_only else None
        return queue.device._as_buffer(value, queue) if array is None else array
    except Error as error:
        raise argument_error(kernel, i, str(error), type(error)) from None


def _of_a_graph(queue: Queue, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
    """Make memory that lives as long as the nodes that use it."""
    device = queue.device
    memory = device._allocate(math.prod(shape) * dtype.itemsize, "device")
    return device.pool._buffer_on(device, memory, shape, dtype)


def _place(array: np.ndarray[Any, np.dtype[Any]]) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes


# -- bound launches: everything is checked and packed once, and each call is just the driver call


cdef BoundLaunch bind(object queue, QueueState* state, Kernel kernel, object grid, object block, tuple arguments):
    cdef BoundLaunch bound = BoundLaunch.__new__(BoundLaunch)
    cdef Launch uploads
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef char* packed
    cdef Views views
    cdef Status status
    cdef Guard guard
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
        held = hold_arguments(kernel, (<PyTupleObject*> arguments).ob_item)
        bound.by_value = spilled_bytes(kernel, packed)
    finally:
        release_views(&views)
    bound.state = Ref[QueueState].share(state)
    bound.plan = create_plan(state.driver, kernel, state.epochs)
    bound.follows = kernel.follows
    bound.queue = queue
    bound.kernel = kernel
    bound.arguments = arguments
    for index, _ in bound.by_value:
        if kernel.layout[<Py_ssize_t> index].writes:  # each call uploads them again
            bound.packed.assign(packed, packed + kernel.packed_size)
    with nogil:
        status = wait_for_creations(state, kernel.layout, kernel.count, packed)
    bound.vectorcall = <vectorcallfunc> call_bound
    if kernel.follows or not bound.packed.empty() or status == QUEUE_CAPTURED or status == NULL_FORBIDDEN:
        bound.vectorcall = <vectorcallfunc> call_uncommon  # after a refused wait, each call waits if it must
    if status == QUEUE_CAPTURED or status == NULL_FORBIDDEN:
        status = 0
    if bound.by_value and status == 0:
        init_launch(&uploads, kernel.id, bound.plan, NULL, packed, True, False, NULL, &failed_at)
        status = NO_ROOM
        while status == NO_ROOM:
            make_room(queue, kernel, &uploads)
            with nogil:
                status = submit(state, &uploads)
        use_spills(bound.plan, packed)
    if status == 0:
        with nogil:
            guard.take(state.lock)
            status = set_changed_arguments(
                bound.plan, packed, NULL, &state.counts.arg_bytes_set, &state.counts.arg_bytes_skipped, &failed_at)
            guard.leave()
    if status != 0:
        raise_launch_error(queue, kernel, status, failed_at)
    del held
    return bound


cdef int launch_bound(BoundLaunch bound, Status status) except -1:
    """Submit an uncommon bound launch, or raise why it failed."""
    cdef char* packed = bound.plan.values.data()
    cdef Views views
    views.count = views.unusual = 0
    if not bound.packed.empty():
        views.unusual = HAS_BYTES
        packed = <char*> alloca(bound.packed.size())
        memcpy(packed, bound.packed.data(), bound.packed.size())
    return launch_uncommon(
        bound.queue, bound.state.get(), bound.kernel, None, None, (<PyTupleObject*> bound.arguments).ob_item, packed,
        &views, NULL, bound, NOT_CREATED if status == NOT_NOW else status, NO_ARGUMENT)


cdef object call_bound(BoundLaunch bound, PyObject* const* arguments, size_t flags, PyObject* keywords):
    cdef QueueState* state = bound.state.get()
    cdef Plan* plan
    cdef uint64_t closings, before
    cdef Status status = NOT_NOW
    if PyVectorcall_NARGS(flags) or keywords != NULL:
        raise ArgumentTypeError("a bound launch takes no arguments: they were bound")
    closings = state.device.resident.closings.load(memory_order_relaxed)
    if closings != bound.closings:
        bound.check_arguments()
    if state.lock.try_lock():
        plan = bound.plan
        before = plan.epoch
        if is_ready_to_launch(state):
            if not (FREE_THREADED and is_closed_since(state, &plan.epoch, closings)):
                status = state.driver.launch(state.handle, plan.kernel, &bound.geometry, no_waits())
            if status == 0:
                state.counts.launches += 1
                state.counts.arg_bytes_skipped += plan.argument_bytes
                count_launch(state, plan)
            elif FREE_THREADED:
                withdraw(&plan.epoch, before, plan.uses, plan.parameters)
        state.lock.unlock()
    if status != 0:
        launch_bound(bound, status)
    return None


cdef object call_uncommon(BoundLaunch bound, PyObject* const* arguments, size_t flags, PyObject* keywords):
    """Call a bound launch with indirect access, or one that may write to bytes by value and uploads them each time."""
    if PyVectorcall_NARGS(flags) or keywords != NULL:
        raise ArgumentTypeError("a bound launch takes no arguments: they were bound")
    launch_bound(bound, NOT_NOW)
    return None


@cython.no_gc_clear
cdef class BoundLaunch:
    """A launch with its queue, geometry and arguments checked and packed once; calling it only makes the driver call.

    `Kernel.bind` makes it. A call still takes the queue's lock, obeys the null-queue rules and counts as a command. Any
    thread may call it. It keeps its queue, kernel and buffers alive. Bytes by value are copied when it is bound; a call
    uploads them again if the pointer is not const.

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
        If the driver refuses the launch; nothing was submitted then.
    """

    queue: Queue
    arguments: tuple[Any, ...]

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a BoundLaunch is made by Kernel.bind")

    def __dealloc__(self):
        if self.plan != NULL and not is_forked():
            retire_plan(self.state.get().device, self.plan)

    def __call__(self) -> None:
        self.vectorcall(self, NULL, 0, NULL)

    cdef int check_arguments(self) except -1:
        """Raise ClosedError if a buffer was closed. Runs no Python code otherwise."""
        cdef uint64_t closings = self.state.get().device.resident.closings.load()
        if closings != self.closings:
            hold_arguments(self.kernel, (<PyTupleObject*> self.arguments).ob_item)
            self.closings = closings
        return 0

    def __repr__(self) -> str:
        return f"<forebay.BoundLaunch of {self.kernel.name!r} on {self.queue}>"


cdef BoundLaunch probe = BoundLaunch.__new__(BoundLaunch)
enable_vectorcall(probe, &probe.vectorcall)
probe = None


# -- scratch whose sizes are computed from arguments, or measured in buffers
#
# A plan remembers its scratch and the buffers that determined the sizes: which part of which allocation, at which
# generation. If a launch has the same buffers, and nothing may have written to them since, it uses the same scratch.
# That check costs a sum over the plans that have the buffer. Otherwise the sizes are computed again.


cdef enum:
    MANY = 1024
    GUARD_BYTE = 0xC5


cdef struct Known:
    # An argument from which a size was computed. Its slot has its value, or the place of a Buffer in an allocation
    Py_ssize_t index
    bint exposed  # others may write there without forebay's knowledge, so it must be measured in each launch
    size_t nbytes  # of a Buffer
    PyObject* dtype  # borrowed from the snapshot's `dtypes`


@cython.no_gc_clear
cdef class Snapshot:
    """A plan's scratch and the inputs of its sizes. Immutable then: a launch may use it while another replaces it."""

    cdef Ref[DeviceState] state
    cdef tuple declared  # the kernel's scratch declarations at that time
    cdef vector[Known] known
    cdef Versions versions  # of the buffers among them
    cdef vector[char] packed
    cdef vector[PackedPointer] scratch  # by position in `declared`
    cdef vector[size_t] sizes
    cdef list memory  # OwnedMemory of each, which does not keep the Device
    cdef list dtypes


cdef bint holds(Snapshot snapshot, Kernel kernel, PyObject* const* arguments, const char* packed):
    """Return whether the sizes would be the same. The arguments are already checked."""
    cdef const Parameter* parameter
    cdef Buffer buffer
    if snapshot.declared is not kernel.scratch_sizes:
        return False
    if not still_holds(&snapshot.versions, kernel.state.resident.unseen_writes.load()):
        return False
    for known in snapshot.known:
        parameter = &kernel.layout[known.index]
        if known.exposed or memcmp(
            &snapshot.packed[parameter.offset], packed + parameter.offset, parameter.width
        ) != 0:
            return False
        if parameter.kind == POINTER:  # a Buffer of that allocation, then
            buffer = <Buffer> <object> arguments[known.index]
            if buffer.nbytes != known.nbytes or <PyObject*> buffer.dtype != known.dtype:
                return False
    return True


cdef bint lock_queue(QueueState* state, Guard& guard) except -1:
    """Take the queue's lock, and keep the GIL with it. Return whether other threads ran before."""
    cdef bint others_ran = False
    while not guard.try_take(state.lock):
        others_ran = True
        with nogil:  # unlock before taking the GIL: waiting for it under the lock would block other threads
            guard.take(state.lock)
            guard.leave()
    return others_ran


cdef Snapshot find_snapshot(QueueState* state, uint64_t kernel_id, Views* views):
    cdef Plan* plan
    cdef Guard guard
    if lock_queue(state, guard):
        views.unusual |= RAN_PYTHON
    plan = find_plan(state, kernel_id)
    return <Snapshot> plan.snapshot if plan != NULL and plan.snapshot != NULL else None


cdef int keep_snapshot(object queue, QueueState* state, Kernel kernel, Snapshot snapshot) except -1:
    cdef Plan* plan = NULL
    cdef PyObject* old = NULL
    cdef Guard guard
    while plan == NULL:
        lock_queue(state, guard)
        plan = find_plan(state, kernel.id)
        if plan != NULL:
            Py_INCREF(snapshot)
            old, plan.snapshot = plan.snapshot, <PyObject*> snapshot
        guard.leave()
        if plan == NULL:
            add_plan(queue, state, kernel)
    Py_XDECREF(old)
    return 0


cdef int launch_with_scratch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1:
    cdef PyObject** all_arguments
    cdef char* packed
    cdef Views views
    cdef const Versions* versions = NULL
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef Snapshot snapshot = None
    cdef Status status = STALE
    cdef Py_ssize_t i, given = 0
    if kernel.closed or kernel.state != state.device:
        refuse_kernel(queue, kernel)
    check_count(kernel, count)
    all_arguments = <PyObject**> alloca(kernel.count * sizeof(PyObject*))
    for i in range(kernel.count):
        all_arguments[i] = the_null
        if not kernel.left_out[i]:
            all_arguments[i] = arguments[given]
            given += 1
    packed = <char*> alloca(kernel.packed_size)
    grid, block = plain_extents(kernel, "grid", grid), plain_extents(kernel, "block", block)
    while status == STALE:  # nothing was submitted: another thread has written to what a size is computed from
        geometry = read_geometry(kernel, grid, block)[0]
        pack_arguments(kernel, all_arguments, kernel.count, packed, &views)
        guards, status = None, NOT_NOW
        try:
            check_elements(kernel, packed)
            if views.unusual & HAS_ARRAYS:
                launch_with_arrays(queue, kernel, grid, block, list_of(arguments, count))
                return 0
            if kernel.scratch_sizes:
                snapshot = find_snapshot(state, kernel.id, &views)
                if snapshot is None or not holds(snapshot, kernel, all_arguments, packed):
                    queue._check_open()
                    snapshot = take_snapshot(queue, state, kernel, all_arguments, packed, snapshot)
                    keep_snapshot(queue, state, kernel, snapshot)
                    views.unusual |= RAN_PYTHON  # other threads ran while it was measured
                for i in range(<Py_ssize_t> snapshot.scratch.size()):
                    parameter = &kernel.layout[<Py_ssize_t> snapshot.declared[i][0]]
                    (<PackedPointer*> (packed + parameter.offset))[0] = snapshot.scratch[i]
                versions = &snapshot.versions
            if kernel.device.debug:
                warn_of_grid(kernel, &geometry, all_arguments)
                guards = guard_memory(queue, state, kernel, all_arguments, snapshot)
                views.unusual |= RAN_PYTHON  # the fills of the guards let other threads run
            if views.unusual & ~HAS_BYTES == 0:
                status = launch_at_once(
                    state, kernel, &geometry, packed, views.unusual & HAS_BYTES, versions, &failed_at)
            if status != 0 and status != STALE and launch_uncommon(
                queue, state, kernel, grid, block, all_arguments, packed, &views, versions, None, status, failed_at
            ):
                status = STALE
        finally:
            release_views(&views)
    if guards is not None:
        check_guards(queue, guards)
    return 0


cdef int check_count(Kernel kernel, Py_ssize_t count) except -1:
    if count != kernel.count - len(kernel.scratch_sizes):
        raise ArgumentTypeError(
            f"kernel {kernel.name!r} takes {kernel.count - len(kernel.scratch_sizes)} arguments besides its scratch, "
            f"after grid and block ({count} given): {kernel.signature}")
    return 0


# -- computing the sizes


cdef Snapshot take_snapshot(
    object queue, QueueState* state, Kernel kernel, PyObject* const* arguments, const char* packed, Snapshot last
):
    cdef Snapshot snapshot = Snapshot.__new__(Snapshot)
    cdef dict scalars, buffers
    cdef Buffer buffer
    snapshot.state = Ref[DeviceState].share(state.device)
    snapshot.declared = kernel.scratch_sizes
    snapshot.versions.unseen_writes = state.device.resident.unseen_writes.load()
    snapshot.packed.assign(packed, packed + kernel.packed_size)
    snapshot.dtypes = []
    snapshot.memory = []
    scalars, buffers = read_leaves(kernel, snapshot.declared, arguments)
    for leaf in scalars:
        snapshot.known.push_back(Known(kernel._index_of(leaf.name), False, 0, NULL))
    for index in {kernel._index_of(leaf.name) for leaf in buffers}:
        buffer = <object> arguments[<Py_ssize_t> index]
        snapshot.versions.memory.push_back(version_of(buffer.allocation.kept_usage))
        snapshot.dtypes.append(buffer.dtype)
        exposed = buffer.allocation.exposed.load() != 0
        snapshot.known.push_back(Known(index, exposed, buffer.nbytes, <PyObject*> buffer.dtype))
    reduced = reductions_of(queue, state, list(buffers.values()))
    snapshot.sizes = sizes_of(kernel, snapshot.declared, known_of(scalars, buffers, reduced))
    allocate_scratch(queue, kernel, snapshot, last)
    return snapshot


cdef tuple read_leaves(Kernel kernel, tuple declared, PyObject* const* arguments):
    """Return the inputs of the sizes: the values of scalar arguments, and the buffers, by leaf."""
    cdef dict scalars = {}, buffers = {}
    cdef Py_ssize_t index
    for leaf in sorted({leaf for _, size in declared for leaf in size.leaves()}, key=repr):
        index = kernel._index_of(leaf.name)
        if isinstance(leaf, Argument):
            scalars[leaf] = int(<object> arguments[index])
        else:
            argument = <object> arguments[index]
            if type(argument) is not Buffer:
                raise ArgumentTypeError(
                    f"kernel {kernel.name!r}: {leaf!r} needs a Buffer for {leaf.name!r}, not {type(argument).__name__}")
            if argument.dtype.kind not in "iu" or not argument.dtype.isnative:
                raise ArgumentTypeError(
                    f"kernel {kernel.name!r}: {leaf!r} needs a Buffer of integers for {leaf.name!r}, not of "
                    f"{argument.dtype}")
            buffers[leaf] = argument
    return scalars, buffers


def known_of(dict scalars, dict buffers, list reduced) -> dict[Any, int]:
    """Return the value of each leaf, given the reductions of the buffers."""
    return scalars | {leaf: found[leaf.place] for leaf, found in zip(buffers, reduced, strict=True)}


def sizes_of(Kernel kernel, tuple declared, dict known) -> list[int]:
    """Return the bytes of each scratch, at least 1."""
    cdef list sizes = []
    for index, size in declared:
        wanted = size.evaluate(known)
        if not 0 <= wanted < NO_MORE_THAN:
            raise (InvalidArgumentError if wanted < 0 else OutOfMemoryError)(
                f"kernel {kernel.name!r}: scratch {kernel.parameters[index].name!r} of {wanted} bytes, from {size!r}")
        sizes.append(max(wanted, 1))
    return sizes


cdef list reductions_of(object queue, QueueState* state, list buffers):
    """Return (minimum, maximum, sum) of each buffer. Unknown ones are measured on `queue`, with one host synchronize.
    If `queue` is None and one is unknown, returns None.
    """
    cdef Allocation allocation
    cdef Buffer buffer
    cdef list keys = []
    cdef dict found = {}, stale = {}
    cdef Guard guard
    for buffer in buffers:
        allocation = buffer.allocation
        values = None  # they may change without forebay's knowledge
        if not allocation.exposed.load():  # noted before measuring: a write from now on makes the result stale
            values = generation_of(allocation.usage), allocation.state.resident.unseen_writes.load()
        key = (<uintptr_t> allocation.usage, buffer.start, buffer.nbytes, buffer.dtype)
        known = (0, 0, 0) if buffer.nbytes == 0 else None
        with cython.critical_section(allocation):
            if known is None and allocation.reductions is not None and allocation.reductions_at == values:
                known = allocation.reductions.get(key[1:])
        if known is None:
            stale[key] = buffer, values
        found[key] = known
        keys.append(key)
    if stale and queue is None:
        return None
    if stale:
        queue._refuse_in_capture("measuring for scratch")
        refuse_on_host_thread("A launch whose scratch has to be measured")
        for buffer, _ in stale.values():
            order_after_uses(queue, state, buffer.allocation.state, buffer.allocation.usage, True)
        results = queue.device._reductions.run(queue, [entry[0] for entry in stale.values()])
        lock_queue(state, guard)
        state.counts.reductions += len(stale)
        guard.leave()
        for (key, (buffer, values)), result in zip(stale.items(), results, strict=True):
            found[key] = result
            allocation = buffer.allocation
            if values is not None:  # discard the results of earlier values, and all when there are MANY
                with cython.critical_section(allocation):
                    if allocation.reductions is None or allocation.reductions_at != values or (
                            len(allocation.reductions) >= MANY):
                        allocation.reductions, allocation.reductions_at = {}, values
                    allocation.reductions[key[1:]] = result
    return [found[key] for key in keys]


cdef int allocate_scratch(object queue, Kernel kernel, Snapshot snapshot, Snapshot last) except -1:
    """Allocate the scratch. That of the last snapshot is reused if it is large enough, and not far too large: unused
    scratch is freed in the order of the queue, so a smaller one costs little. On a debugging device its size must be
    the same, because another thread may be about to check the guard behind it.
    """
    cdef OwnedMemory memory
    cdef size_t i, nbytes
    cdef size_t guard = GUARD if kernel.device.debug else 0
    device = queue.device
    for i in range(snapshot.sizes.size()):
        nbytes = snapshot.sizes[i]
        memory = None
        if last is not None and i < last.scratch.size() and last.declared[i] == snapshot.declared[i]:
            memory = last.memory[i]
        if (
            memory is None or memory.native.nbytes < nbytes + guard or guard and last.sizes[i] != nbytes
            or memory.native.nbytes > LARGE_SCRATCH and memory.native.nbytes // 4 > nbytes
        ):
            # an eighth more, so that scratch that grows slowly is not allocated at every launch
            memory = device._lease_scratch(queue, nbytes + (nbytes // 8 if last is not None else 0) + guard)
        snapshot.memory.append(memory)
        snapshot.scratch.push_back(pointer_to(memory))
    return 0


# -- debugging


cdef int warn_of_grid(Kernel kernel, const Geometry* geometry, PyObject* const* arguments) except -1:
    """Warn of work-items a block or more beyond every Buffer: a grid that counts work-items may end the process. It is
    no error, because a block may work on each element. Warns once for each number of work-items.
    """
    cdef uint64_t items = 1, block = 1, most = 0
    cdef uint64_t itemsize
    cdef Py_ssize_t i
    for i in range(3):
        block *= geometry.block[i]
        items *= <uint64_t> geometry.groups[i] * geometry.block[i]
    for i in range(kernel.count):
        if type(<object> arguments[i]) is Buffer:
            itemsize = kernel.layout[i].element >> 1
            itemsize = itemsize if itemsize else (<Buffer> <object> arguments[i]).dtype.itemsize
            most = max(most, (<Buffer> <object> arguments[i]).nbytes // itemsize)
    if most == 0 or block == 1 or items < most + block or items == kernel.warned_of:
        return 0
    kernel.warned_of = items
    log.warning(
        "kernel %r is launched with %d groups of %d work-items, %d in all; the largest Buffer that it takes has %d "
        "elements. A grid counts groups, as in HIP: %d are enough for a work-item each", kernel.name, items // block,
        block, items, most, (most + block - 1) // block)
    return 0


def out_of_bounds(Kernel kernel, Py_ssize_t index, Buffer buffer, written: np.ndarray) -> OutOfBoundsError:
    """Return the error for these bytes of the guard behind a Buffer."""
    parameter = kernel.parameters[index]
    at = buffer.allocation.guard_at
    return OutOfBoundsError(
        f"kernel {kernel.name!r} wrote out of bounds, behind argument {index} ({parameter.type_name} "
        f"{parameter.name}), a Buffer of shape {buffer.shape} and {buffer.dtype}: its memory has {at} bytes, "
        f"and byte {at + written[0]} was written to")


def overflow(Kernel kernel, tuple declared, size_t nbytes, written: np.ndarray) -> ScratchOverflowError:
    """Return the error for these bytes of the guard behind scratch. `declared` is (index of the parameter, Size)."""
    name = kernel.parameters[declared[0]].name
    return ScratchOverflowError(
        f"kernel {kernel.name!r} (id {kernel.content_id:08x}) wrote behind its scratch {name!r} "
        f"(id {kernel.scratch_id(name):08x}): it has {nbytes} bytes, from {declared[1]!r}, and at least "
        f"{written[-1] + 1} more were written to")


cdef list guard_memory(
    object queue, QueueState* state, Kernel kernel, PyObject* const* arguments, Snapshot snapshot
):
    """Return the guards behind scratch and the buffers that a launch may write to, filled on the queue."""
    cdef Allocation allocation, own
    cdef OwnedMemory memory
    cdef list guards = []
    cdef Py_ssize_t i
    if snapshot is not None:
        guards = [
            new_guard(queue.device, kernel, memory, declared, nbytes)
            for memory, declared, nbytes in zip(snapshot.memory, snapshot.declared, snapshot.sizes, strict=True)]
        fill_guards(queue, guards)
    # A check waits for the launch. If that waits for a gate or host function that this thread is to end, it hangs.
    if on_host_thread():
        return guards
    if closed_gates(kernel.state) != 0:
        queue.device._wait_for_openings()
        if closed_gates(kernel.state) != 0:
            return guards
    for i in kernel.written:
        argument = <object> arguments[i]
        if type(argument) is not Buffer:
            continue
        allocation = (<Buffer> argument).allocation
        memory = memory_if_open(allocation)
        if not allocation.guarded or memory is None or any([memory is known for _, known, _ in guards]):
            continue
        # Its own allocation, because a fill of the guard does not write to the buffer, but uses its memory.
        own = new_allocation(argument.device, own_memory(kernel.state, memory.native, False))
        own.memory.freed = True
        guard = new_buffer(own, allocation.guard_at, (GUARD,), np.dtype(np.uint8))
        queue.fill(guard, GUARD_BYTE)
        note_use(memory.usage, state.epochs, submitted_epoch(state.epochs), False)
        guards.append((guard, memory, partial(out_of_bounds, kernel, i, argument)))
    return guards


def new_guard(device: Device, Kernel kernel, OwnedMemory memory, tuple declared, size_t nbytes) -> tuple:
    """Return a guard behind scratch of this size: its bytes, the memory, and a function that makes the error."""
    guard = new_buffer(new_allocation(device, memory), nbytes, (GUARD,), np.dtype(np.uint8))
    return guard, memory, partial(overflow, kernel, declared, nbytes)


def fill_guards(queue: Queue, list guards) -> None:
    refuse_on_host_thread("A launch of a debugging device")
    for guard, _, _ in guards:
        queue.fill(guard, GUARD_BYTE)


def check_guards(queue: Queue, list guards) -> None:
    """Wait for the queue, and raise the error of the first guard that a kernel wrote to."""
    for guard, _, error in guards:
        written = np.flatnonzero(guard.get(queue=queue) != GUARD_BYTE)
        if written.size:
            raise error(written)
