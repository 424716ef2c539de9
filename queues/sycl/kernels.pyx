"""Stores arguments in the form that a submission takes, so that a launch only passes pointers."""

from libc.stdint cimport uint32_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from libcpp.vector cimport vector

from forebay.core.driver cimport Memory, Status
from forebay.queues.sycl.calls cimport (
    OUT_OF_MEMORY, RAW_ARGUMENT, WORK_GROUP_MEMORY, CALL_RawKernelArg_Create, CALL_WorkGroupMemory_Create, failure, sycl
)


cdef SyclKernel* new_kernel(void* handle, const vector[int]& types) noexcept nogil:
    cdef SyclKernel* kernel = new SyclKernel()
    cdef Argument nothing
    nothing.value = NULL
    nothing.size = 0
    nothing.object = NULL
    kernel.kernel = handle
    kernel.types = types
    kernel.values.resize(types.size(), NULL)
    kernel.arguments.resize(types.size(), nothing)
    return kernel


cdef SyclKernel* copy_kernel(SyclKernel* kernel) noexcept nogil:
    """A copy with its own arguments; changing the original's does not affect it. NULL if memory runs out."""
    cdef SyclKernel* copied = new_kernel(sycl.Kernel_Copy(kernel.kernel), kernel.types)
    cdef Argument* argument
    cdef size_t i
    if copied.kernel == NULL:
        delete_kernel(copied)
        return NULL
    for i in range(kernel.types.size()):
        argument = &kernel.arguments[i]
        if argument.size == 0:
            copied.values[i] = kernel.values[i]
        elif set_bytes(copied, <uint32_t> i, argument.size, argument.value) != 0:
            delete_kernel(copied)
            return NULL
    return copied


cdef void drop_object(SyclKernel* kernel, size_t index) noexcept nogil:
    if kernel.arguments[index].object != NULL:
        if kernel.types[index] == WORK_GROUP_MEMORY:
            sycl.WorkGroupMemory_Delete(kernel.arguments[index].object)
        else:
            sycl.RawKernelArg_Delete(kernel.arguments[index].object)
    kernel.arguments[index].object = NULL


cdef void delete_kernel(SyclKernel* kernel) noexcept nogil:
    cdef size_t i
    for i in range(kernel.types.size()):
        drop_object(kernel, i)
        free(kernel.arguments[i].value)
    if kernel.kernel != NULL:
        sycl.Kernel_Delete(kernel.kernel)
    del kernel


cdef void set_address(SyclKernel* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    kernel.values[index] = <void*> <uintptr_t> memory.address


cdef Status set_local(SyclKernel* kernel, uint32_t index, size_t size) noexcept nogil:
    cdef Argument* argument = &kernel.arguments[index]
    if argument.size == size:
        return 0
    drop_object(kernel, index)
    argument.size = 0
    argument.object = sycl.WorkGroupMemory_Create(size)
    if argument.object == NULL:
        return failure(CALL_WorkGroupMemory_Create)
    argument.size = size
    kernel.values[index] = argument.object
    return 0


cdef Status set_bytes(SyclKernel* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    """Set a by-value argument, or the size of local memory for a parameter of that type."""
    cdef Argument* argument = &kernel.arguments[index]
    cdef void* made
    if kernel.types[index] == WORK_GROUP_MEMORY:
        return set_local(kernel, index, size)
    if argument.value == NULL:  # allocated once: the size of a parameter never changes
        argument.value = <char*> malloc(size)
        if argument.value == NULL:
            return failure(OUT_OF_MEMORY)
        argument.size = size
    memcpy(argument.value, value, size)
    if kernel.types[index] != RAW_ARGUMENT:
        kernel.values[index] = argument.value
        return 0
    made = sycl.RawKernelArg_Create(argument.value, size)  # it copies the bytes: a new object per value
    if made == NULL:
        return failure(CALL_RawKernelArg_Create)
    drop_object(kernel, index)
    argument.object = made
    kernel.values[index] = made
    return 0
