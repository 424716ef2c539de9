"""The common launch: `launch`, at the end, and above it what it calls, but for `pack_arguments`, in the .pyx.

Grid, block and arguments are read before the lock is taken. Reading them may run Python code, which may close a Buffer
that was checked, so the last check comes after all such code. Under the lock, the changed arguments are set, the driver
is called, and the epoch advances. If nothing must be gathered and the driver cannot block, `launch_ready` does all that
and keeps the GIL. It is inline, because function calls around it took a tenth of a launch. Any other launch is a
`Command`, and keeps the GIL if it can. Once the plan exists, `launch_ready` allocates nothing and makes no event.
"""

from cpython.object cimport PyObject, Py_TYPE
from cython.operator cimport dereference
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp
from libcpp.atomic cimport memory_order, memory_order_relaxed, memory_order_release, memory_order_seq_cst
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.driver cimport NOT_NOW, Driver, Geometry, Status, Waits, no_waits
from forebay.core.ownership cimport FREE_THREADED, Ref, relaxed_uint64
from forebay.core.plan cimport Plan, set_changed_arguments, withdraw
from forebay.core.state cimport DeviceState, QueueState
from forebay.core.usage cimport Moment, Versions
from forebay.core.vector_clock cimport Clock, Epochs
from forebay.queues.kernels.kernel cimport MOST_PACKED, Kernel, LastGeometry
from forebay.sync.ordering cimport gathers_nothing, moment_of


# PEP 590: an object is called without a tuple of its arguments. Cython has no syntax for it.
cdef extern from "Python.h":
    ctypedef object (*vectorcallfunc)(object, PyObject* const*, size_t, PyObject*)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    ctypedef struct PyTypeObject:
        unsigned long tp_flags
        Py_ssize_t tp_vectorcall_offset
    void PyType_Modified(PyTypeObject*)
    bint Py_IS_TYPE(PyObject*, PyTypeObject*)


cdef inline void enable_vectorcall(object probe, const vectorcallfunc* called):
    """Make CPython call the probe's type by `called`, a member. Safe before the type's first use, on import."""
    cdef PyTypeObject* patched = <PyTypeObject*> Py_TYPE(probe)
    patched.tp_vectorcall_offset = <const char*> called - <const char*> <void*> probe
    patched.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    PyType_Modified(patched)


cdef enum:
    NO_ARGUMENT = 0xFFFFFFFF
    MOST_VIEWS = 16
    GUARD = 4096  # bytes behind memory that a debugging device checks after each launch
    LARGE_SCRATCH = 64 << 10  # bytes; less than that is never too much


cdef enum:
    # flags: what is unusual about the arguments of a launch
    RAN_PYTHON = 1  # an argument was converted by Python code, which may have closed a Buffer that was packed before
    HAS_BYTES = 2  # bytes by value
    HAS_ARRAYS = 4  # arrays of the host and memory of other packages, for which nothing is packed
    HAS_MUCH = 8  # large by value: compared and copied without the GIL


cdef struct Views:
    int unusual  # these flags, or 0
    int count  # how many of `views` are held; `release_views` releases them
    Py_buffer views[MOST_VIEWS]


cdef PyObject* the_null  # fb.NULL


cdef extern from "<atomic>" namespace "std" nogil:
    void atomic_thread_fence(memory_order order) noexcept


cdef PyObject* geometry_of_thread(Kernel kernel) except NULL


cdef inline PyObject* last_geometry(Kernel kernel) except NULL:
    """Return the kernel's LastGeometry; without a GIL the thread's. It is valid while no Python code runs."""
    return geometry_of_thread(kernel) if FREE_THREADED else <PyObject*> kernel.last


cdef inline bint has_geometry(Kernel kernel, object grid, object block) except -1:
    """Return whether grid and block are the last launch's objects, as small ints and constant tuples mostly are."""
    cdef PyObject* last = last_geometry(kernel)
    return grid is (<LastGeometry> last).grid and block is (<LastGeometry> last).block and (
        not FREE_THREADED or (<LastGeometry> last).kernel_id == kernel.id)


cdef inline const Geometry* read_geometry(Kernel kernel, object grid, object block) except NULL:
    """Return the geometry of a launch, as of `last_geometry`. `plain_extents` has made grid and block, so earlier
    checks stay valid.
    """
    if not has_geometry(kernel, grid, block):
        work_out_geometry(kernel, grid, block)
    return &(<LastGeometry> last_geometry(kernel)).geometry


cdef object plain_extents(Kernel kernel, str what, object value)  # may run Python code; nothing below does
cdef int work_out_geometry(Kernel kernel, object grid, object block) except -1
# After success the caller must call `release_views` if anything is unusual.
cdef int pack_arguments(
    Kernel kernel, PyObject* const* arguments, Py_ssize_t count, char* packed, Views* views
) except -1
cdef void release_views(Views* views)
cdef Status renew_resident_list(
    DeviceState* device, Plan* plan, bint pending, Epochs* queue, uint64_t epoch
) noexcept nogil
cdef Status launch_locked(
    QueueState* state, Kernel kernel, const Geometry* geometry, char* packed, bint spilled, const Versions* versions,
    uint32_t* failed_at
) noexcept
cdef bint offer_and_unlock(QueueState* state, Kernel kernel, const char* packed, const uint64_t* closings) noexcept
cdef int launch_elsewhere(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1
cdef Status launch_at_once(
    QueueState* state, Kernel kernel, const Geometry* geometry, char* packed, bint spilled, const Versions* versions,
    uint32_t* failed_at
) noexcept
cdef int launch_uncommon(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, Views* views, const Versions* versions, BoundLaunch bound, Status status, uint32_t failed_at
) except -1
cdef list list_of(PyObject* const* arguments, Py_ssize_t count)
# For kernels that are not `plain`.
cdef int launch_with_scratch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1
cdef int check_elements(Kernel kernel, const char* packed) except -1
cdef int check_count(Kernel kernel, Py_ssize_t count) except -1
cdef tuple read_leaves(Kernel kernel, tuple declared, PyObject* const* arguments)
cdef list reductions_of(object queue, QueueState* state, list buffers)
cdef list spilled_bytes(Kernel kernel, char* packed)
cdef int refuse_kernel(object queue, Kernel kernel) except -1
cdef Plan* create_plan(const Driver* driver, Kernel kernel, Epochs* queue) except NULL
cdef BoundLaunch bind(object queue, QueueState* state, Kernel kernel, object grid, object block, tuple arguments)


cdef inline Plan* find_plan(QueueState* state, uint64_t kernel_id) noexcept nogil:  # the queue is locked
    cdef unordered_map[uint64_t, Plan*].iterator found
    if state.plans.last != NULL and state.plans.last.kernel_id == kernel_id:
        return state.plans.last
    found = state.plans.by_kernel.find(kernel_id)
    if found == state.plans.by_kernel.end():
        return NULL
    state.plans.last = dereference(found).second
    return state.plans.last


cdef inline bint is_same_block(const char* known, const char* packed, size_t size) noexcept nogil:
    """Compare packed arguments: the block is small, and a whole number of word pairs."""
    cdef const char* end = known + size
    while known != end:
        if memcmp(known, packed, 16) != 0:  # in line
            return False
        known += 16
        packed += 16
    return True


cdef inline bint is_ready_to_launch(QueueState* queue) noexcept nogil:
    """Return whether a launch carries no wait, and the driver cannot block. The queue is locked."""
    return queue.order.pending.empty() and gathers_nothing(queue)


cdef inline bint is_closed_since(QueueState* state, relaxed_uint64* epoch, uint64_t closings) noexcept nogil:
    """Return whether any memory was closed since the arguments of a launch were checked, which a GIL rules out. They
    are set: a thread that closes some from now on finds the use of it, by `epoch`, that of this launch from now on.
    """
    epoch[0] = state.epochs.submitted.load(memory_order_relaxed) + 1
    atomic_thread_fence(memory_order_seq_cst)
    return state.device.resident.closings.load() != closings


cdef inline Status submit_launch(
    QueueState* state, Plan* plan, const Geometry* geometry, const char* packed, const Clock* clock, Waits waits,
    uint32_t* failed_at, const uint64_t* closings=NULL
) noexcept nogil:
    """Set changed arguments and call the driver, after `clock`. The queue is locked; its epoch has not advanced. Unless
    the caller holds the memory, it gives the device's count of closings from before it checked the arguments.
    """
    cdef Moment moment
    cdef Status status
    cdef uint64_t before = plan.epoch
    if plan.all_known and is_same_block(plan.values.data(), packed, plan.values.size()):
        state.counts.arg_bytes_skipped += plan.argument_bytes
    else:
        moment = moment_of(state, clock)
        status = set_changed_arguments(
            plan, packed, &moment, &state.counts.arg_bytes_set, &state.counts.arg_bytes_skipped, failed_at)
        if status != 0:
            return status
    if FREE_THREADED and closings != NULL and is_closed_since(state, &plan.epoch, closings[0]):
        status = NOT_NOW
    else:
        status = state.driver.launch(state.handle, plan.kernel, geometry, waits)
    if status == 0:
        state.counts.launches += 1
    elif FREE_THREADED:
        withdraw(&plan.epoch, before, plan.uses, plan.parameters)
    return status


cdef inline void count_launch(QueueState* state, Plan* plan) noexcept nogil:
    """Count a launch that carried no wait. The queue is locked."""
    cdef uint64_t epoch = state.epochs.submitted.load(memory_order_relaxed) + 1
    state.epochs.submitted.store(epoch, memory_order_release)
    plan.epoch = epoch  # all that an unchanged launch notes about the memory it uses


cdef inline Status launch_ready(
    QueueState* state, uint64_t kernel_id, const Geometry* geometry, const char* packed, uint32_t* failed_at,
    const uint64_t* closings
) noexcept nogil:
    """Submit a launch in the common case; NOT_NOW in any other. The queue is locked."""
    cdef Plan* plan
    cdef Status status
    if not is_ready_to_launch(state):
        return NOT_NOW
    plan = find_plan(state, kernel_id)
    if plan == NULL:
        return NOT_NOW
    status = submit_launch(state, plan, geometry, packed, state.order.clock, no_waits(), failed_at, closings)
    if status == 0:
        count_launch(state, plan)
    return status


cdef inline int launch(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    Py_ssize_t count
) except -1:
    """Launch a kernel that is `plain`."""
    cdef char packed[MOST_PACKED]
    cdef const Geometry* geometry
    cdef uint32_t failed_at = NO_ARGUMENT
    cdef uint64_t closings = 0
    cdef Status status = NOT_NOW
    cdef Views views
    if kernel.state != state.device:
        refuse_kernel(queue, kernel)
    if not has_geometry(kernel, grid, block):
        return launch_elsewhere(queue, state, kernel, grid, block, arguments, count)
    geometry = &(<LastGeometry> last_geometry(kernel)).geometry
    if FREE_THREADED:
        closings = state.device.resident.closings.load()
    pack_arguments(kernel, arguments, count, packed, &views)  # `views.unusual` says whether it ran Python code
    if not views.unusual:
        if state.lock.try_lock():
            status = launch_ready(state, kernel.id, geometry, packed, &failed_at, &closings)
            if status == NOT_NOW and not state.order.pending.empty() and not FREE_THREADED:
                status = launch_locked(state, kernel, geometry, packed, False, NULL, &failed_at)
            if status == 0:
                state.lock.unlock()
                return 0
            # one call does both, to save instructions of a launch
            if offer_and_unlock(state, kernel, packed, &closings if FREE_THREADED else NULL):
                return 0
    elif views.unusual == HAS_BYTES and not FREE_THREADED:  # without a GIL the memory is held first
        status = launch_at_once(state, kernel, geometry, packed, True, NULL, &failed_at)
        if status == 0:
            if views.count:
                release_views(&views)
            return 0
    return launch_uncommon(
        queue, state, kernel, grid, block, arguments, packed, &views, NULL, None, status, failed_at)


cdef class BoundLaunch:
    cdef vectorcallfunc vectorcall
    cdef Ref[QueueState] state
    cdef Plan* plan  # owned
    cdef Geometry geometry
    cdef bint follows  # as the kernel did when it was bound
    cdef relaxed_uint64 closings  # the device's count when the arguments were last seen open
    cdef readonly object queue
    cdef readonly Kernel kernel
    cdef readonly tuple arguments
    cdef list by_value  # (index of the parameter, copy) of bytes by value
    cdef vector[char] packed  # with bytes by value that each call uploads; else empty
    cdef int check_arguments(self) except -1
