"""Guards: bytes behind each buffer of a debugging device. A kernel that writes there is found out after its launch."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from forebay.core.driver cimport Geometry
from forebay.core.epochs cimport submitted_epoch
from forebay.core.state cimport QueueState, closed_gates
from forebay.core.uses cimport note_use
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.memory.allocation cimport Allocation, OwnedMemory, new_allocation, own_memory
from forebay.queues.memory.buffer cimport Buffer, new_buffer

import logging

import numpy as np

from forebay.core.errors import OutOfBoundsError
from forebay.core.process import on_host_thread

log = logging.getLogger("forebay.launch")


cdef int warn_of_grid(Kernel kernel, const Geometry* geometry, PyObject* const* arguments) except -1:
    """Warn of work-items a block or more beyond every Buffer: a grid that was given in work-items ends a process.

    Never refused, because a block may work on each element. Told once for each number of work-items.
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


cdef list guard_buffers(object queue, QueueState* state, Kernel kernel, PyObject* const* arguments):
    cdef Allocation allocation, own
    cdef OwnedMemory memory
    cdef list guards = []
    cdef Py_ssize_t i
    # A check waits for the launch: for ever, if that waits for a gate or a host function that this thread is to end.
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
        memory = allocation.memory
        if not allocation.guarded or memory is None or any([memory is known for _, _, _, known in guards]):
            continue
        # An allocation of its own, because a fill of the guard is no write to the buffer. It is a use of its memory.
        own = new_allocation(argument.device, own_memory(kernel.state, memory.native, False))
        own.memory.freed = True
        guard = new_buffer(own, allocation.guard_at, (GUARD,), np.dtype(np.uint8))
        queue.fill(guard, GUARD_BYTE)
        note_use(memory.uses, state.epochs, submitted_epoch(state.epochs), False)
        guards.append((i, argument, guard, memory))
    return guards


cdef int check_buffers(object queue, Kernel kernel, list guards) except -1:
    cdef Buffer buffer
    for i, buffer, guard, _ in guards:
        written = np.flatnonzero(guard.get(queue=queue) != GUARD_BYTE)
        if written.size:
            parameter = kernel.parameters[i]
            at = buffer.allocation.guard_at
            raise OutOfBoundsError(
                f"kernel {kernel.name!r} wrote out of bounds, behind argument {i} ({parameter.type_name} "
                f"{parameter.name}), a Buffer of shape {buffer.shape} and {buffer.dtype}: its memory has {at} bytes, "
                f"and byte {at + written[0]} was written to")
    return 0
