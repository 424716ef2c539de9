"""The last step of every launch: the plan, the arguments that changed, the driver call."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from cython.operator cimport dereference

from forebay.queues.memory.buffer cimport Buffer, note_write
from forebay.core.driver cimport Geometry, Status, Waits
from forebay.queues.kernels.kernel cimport Kernel
from forebay.core.plan cimport Plan, are_unchanged, set_changed_arguments
from forebay.core.state cimport QueueState

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    bint Py_IS_TYPE(PyObject*, PyTypeObject*)


cdef enum:
    NO_ARGUMENT = 0xFFFFFFFF

cdef inline Waits no_waits() noexcept nogil:
    return Waits(0, NULL)


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


cdef inline void note_writes(QueueState* state, vector[Py_ssize_t]& written, PyObject* const* arguments) noexcept:
    """After a launch: it may write to every buffer that it takes through a pointer that is not const."""
    cdef PyObject* value
    for index in written:
        value = arguments[index]
        if Py_IS_TYPE(value, <PyTypeObject*> Buffer):
            note_write(<Buffer> value, state)


cdef int refuse_kernel(object queue, Kernel kernel) except -1
cdef int capture_launch(
    object queue, Kernel kernel, object grid, object block, PyObject* const* arguments
) except -1
cdef object raise_launch_error(object queue, Kernel kernel, Status status, uint32_t failed_at)
cdef Plan* create_plan(QueueState* state, Kernel kernel) except NULL
cdef int add_plan(object queue, QueueState* state, Kernel kernel) except -1
