"""The launch cache: the scratch of a plan, and the values from which its sizes were computed.

A plan remembers its scratch and the buffers that determined the sizes: which part of which allocation, at which
generation. A launch with the same buffers, to which nothing may have written since, uses the scratch as it is. That
costs a sum over the plans that have the buffer. Otherwise the sizes are computed again.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp
from libcpp.vector cimport vector

from forebay.core.driver cimport NO_PLAN, STALE, Geometry, Status
from forebay.core.ownership cimport Guard, Ref
from forebay.core.plan cimport POINTER, PackedPointer, Parameter, Plan
from forebay.core.state cimport DeviceState, QueueState, closed_gates
from forebay.core.usage cimport Versions, generation_of, note_use, still_holds, version_of
from forebay.core.vector_clock cimport submitted_epoch
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.launch cimport (
    HAS_ARRAYS, HAS_BYTES, NO_ARGUMENT, RAN_PYTHON, Views, add_plan, check_elements, find_plan, launch_at_once,
    launch_uncommon, list_of, pack_arguments, plain_extents, read_geometry, refuse_kernel, release_views, the_null
)
from forebay.queues.memory.allocation cimport Allocation, OwnedMemory, new_allocation, own_memory, pointer_to
from forebay.queues.memory.buffer cimport Buffer, new_buffer
from forebay.queues.memory.pool cimport NO_MORE_THAN
from forebay.sync.finish cimport order_after_uses

from forebay.core.errors import (
    ArgumentTypeError, InvalidArgumentError, OutOfBoundsError, OutOfMemoryError, ScratchOverflowError
)
from forebay.core.process import on_host_thread, refuse_on_host_thread
from forebay.queues.kernels.parameters import Argument
from forebay.queues.launch.launch import launch_with_arrays

if TYPE_CHECKING:
    from typing import Any
    from forebay.queues.device import Device
    from forebay.queues.queue import Queue

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


cdef extern from "<alloca.h>":
    void* alloca(size_t size) nogil

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
    """The scratch of a plan, and the values from which its sizes were computed. Immutable once a plan has it, so a
    launch may go on using it while another launch replaces it.
    """

    cdef Ref[DeviceState] state
    cdef tuple declared  # the kernel's scratch declarations at that time
    cdef vector[Known] known
    cdef Versions versions  # the writes to the buffers among them
    cdef vector[char] packed
    cdef vector[PackedPointer] scratch  # by position in `declared`
    cdef vector[size_t] sizes
    cdef list memory  # OwnedMemory of each, which does not keep the Device
    cdef list dtypes


cdef bint holds(Snapshot snapshot, Kernel kernel, PyObject* const* arguments, const char* packed):
    """Return whether the sizes would come out the same. The arguments are already checked."""
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
        with nogil:  # unlock before taking the GIL again: waiting for it with the lock held would block everybody
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
        read_geometry(kernel, grid, block)
        pack_arguments(kernel, all_arguments, kernel.count, packed, &views)
        guards, status = None, NO_PLAN
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
                    views.unusual |= RAN_PYTHON  # and other threads ran, while it was measured
                for i in range(<Py_ssize_t> snapshot.scratch.size()):
                    parameter = &kernel.layout[<Py_ssize_t> snapshot.declared[i][0]]
                    (<PackedPointer*> (packed + parameter.offset))[0] = snapshot.scratch[i]
                versions = &snapshot.versions
            if kernel.device.debug:
                warn_of_grid(kernel, read_geometry(kernel, grid, block), all_arguments)
                guards = guard_memory(queue, state, kernel, all_arguments, snapshot)
                views.unusual |= RAN_PYTHON  # the fills of the guards let other threads run
            if views.unusual & ~HAS_BYTES == 0:
                status = launch_at_once(
                    state, kernel, &kernel.geometry, packed, views.unusual & HAS_BYTES, versions, &failed_at)
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
        snapshot.known.push_back(Known(index, buffer.allocation.exposed != 0, buffer.nbytes, <PyObject*> buffer.dtype))
    reduced = reductions_of(queue, state, list(buffers.values()))
    snapshot.sizes = sizes_of(kernel, snapshot.declared, known_of(scalars, buffers, reduced))
    allocate_scratch(queue, kernel, snapshot, last)
    return snapshot


cdef tuple read_leaves(Kernel kernel, tuple declared, PyObject* const* arguments):
    """Return what the sizes are computed from: the values of scalar arguments, and buffers, by leaf."""
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
    """Return (minimum, maximum, sum) of each buffer. Unknown ones are computed on `queue`, with one host synchronize.

    If `queue` is None, the result is None when one is unknown.
    """
    cdef Allocation allocation
    cdef Buffer buffer
    cdef list keys = []
    cdef dict found = {}, stale = {}
    cdef Guard guard
    for buffer in buffers:
        allocation = buffer.allocation
        values = None  # they may change without forebay's knowledge
        if not allocation.exposed:  # noted before measuring: a write from now on makes the result stale
            values = generation_of(allocation.usage), allocation.state.resident.unseen_writes.load()
        key = (<uintptr_t> allocation.usage, buffer.start, buffer.nbytes, buffer.dtype)
        known = (0, 0, 0) if buffer.nbytes == 0 else None
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
            if values is not None:  # what is known of earlier values is dropped, and all when it becomes much
                if allocation.reductions is None or allocation.reductions_at != values or (
                        len(allocation.reductions) >= MANY):
                    allocation.reductions, allocation.reductions_at = {}, values
                allocation.reductions[key[1:]] = result
    return [found[key] for key in keys]


cdef int allocate_scratch(object queue, Kernel kernel, Snapshot snapshot, Snapshot last) except -1:
    """Allocate the scratch. That of the last snapshot is used again where it is large enough, and not far too large.

    It is free in the order of the queue when no snapshot has it any more, so a smaller one costs little. On a debugging
    device only if the size is the same: another thread may be about to check the guard behind it.
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
            or memory.native.nbytes > LARGE and memory.native.nbytes // 4 > nbytes
        ):
            # an eighth more, so that scratch that grows slowly is not allocated at every launch
            memory = device._lease_scratch(queue, nbytes + (nbytes // 8 if last is not None else 0) + guard)
        snapshot.memory.append(memory)
        snapshot.scratch.push_back(pointer_to(memory))
    return 0


# -- debugging


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
        if not allocation.guarded or memory is None or any([memory is known for _, known, _ in guards]):
            continue
        # An allocation of its own, because a fill of the guard is no write to the buffer. It is a use of its memory.
        own = new_allocation(argument.device, own_memory(kernel.state, memory.native, False))
        own.memory.freed = True
        guard = new_buffer(own, allocation.guard_at, (GUARD,), np.dtype(np.uint8))
        queue.fill(guard, GUARD_BYTE)
        note_use(memory.usage, state.epochs, submitted_epoch(state.epochs), False)
        guards.append((guard, memory, partial(out_of_bounds, kernel, i, argument)))
    return guards


def new_guard(device: Device, Kernel kernel, OwnedMemory memory, tuple declared, size_t nbytes) -> tuple:
    """Return a guard of scratch of this size: its bytes, the memory, and what makes the error."""
    guard = new_buffer(new_allocation(device, memory), nbytes, (GUARD,), np.dtype(np.uint8))
    return guard, memory, partial(overflow, kernel, declared, nbytes)


def fill_guards(queue: Queue, list guards) -> None:
    """Fill the guards on the queue."""
    refuse_on_host_thread("A launch of a debugging device")
    for guard, _, _ in guards:
        queue.fill(guard, GUARD_BYTE)


def check_guards(queue: Queue, list guards) -> None:
    """Wait for the queue, and raise the error of the first guard that a kernel wrote to."""
    for guard, _, error in guards:
        written = np.flatnonzero(guard.get(queue=queue) != GUARD_BYTE)
        if written.size:
            raise error(written)
