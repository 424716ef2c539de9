"""Sets only the arguments whose bytes changed."""

from cpython.ref cimport Py_XDECREF
from libc.stdint cimport uint32_t, uint64_t

from forebay.core.driver cimport NOT_CREATED, WRONG_TYPE, Status
from forebay.core.process cimport is_forked
from forebay.core.ownership cimport relaxed_uint64
from forebay.core.usage cimport Moment, Usage, count_withdrawn, is_created


cdef void delete_plan(Plan* plan) noexcept nogil:
    """Delete a plan. Call it without a lock: it takes the GIL to release Python objects of spilled arguments."""
    cdef size_t i, k
    if is_forked():
        return  # it belongs to the parent
    plan.driver.destroy_kernel(plan.kernel)
    for i in range(plan.uses.size()):
        change_use(plan.uses[i], NULL, plan.queue, &plan.epoch, plan.parameters[i].writes)
    if plan.snapshot != NULL or not plan.spills.empty():
        with gil:
            Py_XDECREF(plan.snapshot)
            for i in range(plan.spills.size()):
                Py_XDECREF(plan.spills[i].buffer)
                for k in range(plan.spills[i].staging.size()):
                    Py_XDECREF(plan.spills[i].staging[k].array)
    del plan


cdef void withdraw(
    relaxed_uint64* epoch, uint64_t before, vector[Ref[Usage]]& uses, vector[Parameter]& parameters
) noexcept nogil:
    cdef uint64_t withdrawn = epoch[0] - before
    cdef size_t i
    epoch[0] = before  # first: a generation that is too low for a moment was that of the same contents
    for i in range(uses.size()):
        if withdrawn and uses[i].get() != NULL and parameters[i].writes:
            count_withdrawn(uses[i].get(), withdrawn)


cdef Status set_argument(Plan* plan, uint32_t index, const char* value) noexcept nogil:
    cdef Parameter* parameter = &plan.parameters[index]
    if parameter.kind == POINTER:
        return plan.driver.set_pointer(plan.kernel, index, &(<const PackedPointer*> value).memory)
    if parameter.kind == LOCAL:
        return plan.driver.set_value(plan.kernel, index, (<const uint64_t*> value)[0], NULL)
    return plan.driver.set_value(plan.kernel, index, parameter.size, value)


cdef Status check_types(
    const Parameter* parameters, size_t count, const char* packed, uint32_t* failed_at
) noexcept nogil:
    """Return WRONG_TYPE, and the argument's index, if memory has other elements than its parameter points to."""
    cdef size_t i
    for i in range(count):
        if not has_right_type(&parameters[i], packed + parameters[i].offset):
            failed_at[0] = <uint32_t> i
            return WRONG_TYPE
    return 0


cdef Status set_changed_arguments(
    Plan* plan, const char* packed, const Moment* moment, relaxed_uint64* bytes_set, relaxed_uint64* bytes_skipped,
    uint32_t* failed_at
) noexcept nogil:
    """Set the arguments of the plan's kernel that changed. The plan's queue is locked. If the driver refuses one,
    `failed_at` is its index, its value is unknown, and those before it are set. WRONG_TYPE is found first and changes
    nothing. NOT_CREATED keeps the value.
    """
    cdef Parameter* parameter
    cdef char* value
    cdef Usage* usage
    cdef uint32_t i
    cdef Status status = check_types(plan.parameters.data(), plan.parameters.size(), packed, failed_at)
    if status != 0:
        return status
    for i in range(<uint32_t> plan.parameters.size()):
        parameter = &plan.parameters[i]
        value = &plan.values[parameter.offset]
        if plan.known[i] and has_value(value, packed + parameter.offset, parameter.width):
            bytes_skipped[0] += parameter.size
            continue
        if parameter.kind == POINTER:
            usage = usage_of(<const PackedPointer*> (packed + parameter.offset))
            if moment != NULL and usage != NULL and not is_created(usage, moment):
                return NOT_CREATED
        plan.known[i] = 0
        plan.all_known = False
        status = set_argument(plan, i, packed + parameter.offset)
        if status != 0:
            failed_at[0] = i
            return status
        take_value(value, packed + parameter.offset, parameter.width)
        plan.known[i] = 1
        bytes_set[0] += parameter.size
        if parameter.kind == POINTER:
            change_use(plan.uses[i], usage, plan.queue, &plan.epoch, parameter.writes)
    plan.all_known = True
    return 0
