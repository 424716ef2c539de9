"""The launch cache: the scratch of a plan, and the values from which its sizes were computed.

A plan remembers its scratch and the buffers that determined the sizes: which part of which allocation, at which
generation. A launch with the same buffers, to which nothing may have written since, uses the scratch as it is. That
costs one integer comparison per buffer. Otherwise the sizes are computed again.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint64_t
from libc.string cimport memcmp
from libcpp.vector cimport vector

from forebay.core.plan cimport PackedPointer, Parameter, Plan
from forebay.core.state cimport QueueState, release_device_state
from forebay.events.anchors cimport anchor_on_device
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.arguments cimport Views, pack_arguments, release_views
from forebay.queues.launch.launch cimport add_plan, find_plan, launch_packed, list_of, refuse_kernel
from forebay.queues.memory.buffer cimport Allocation, Buffer, Writer, new_allocation, new_buffer, new_pointer
from forebay.sync.ordering cimport wait_for_epoch

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError, ScratchOverflowError
from forebay.core.host_thread import refuse_on_host_thread
from forebay.queues.kernels.scratch_size import Argument
from forebay.queues.launch.arrays import launch_with_arrays

cdef extern from "<alloca.h>":
    void* alloca(size_t size) nogil

cdef enum:
    GUARD = 4096  # bytes behind scratch that a debugging device checks after each launch
    GUARD_BYTE = 0xC5


@cython.no_gc_clear
cdef class Snapshot:
    """Immutable once a plan has it, so a launch may go on using it while another launch replaces it."""

    def __dealloc__(self):
        if self.state != NULL:
            if self.natives:
                anchor_on_device(self.state, self.natives)
            release_device_state(self.state)


cdef inline bint is_same_buffer(const KnownBuffer* known, Buffer buffer):
    return (
        buffer.allocation.generation == known.generation and buffer.allocation.id == known.allocation
        and buffer.start == known.start and buffer.nbytes == known.nbytes and <PyObject*> buffer.dtype == known.dtype
    )


cdef bint holds(Snapshot snapshot, Kernel kernel, PyObject* const* arguments, const char* packed):
    """Return whether the sizes would come out the same. The arguments are already checked."""
    cdef size_t i
    cdef Parameter* parameter
    if snapshot.declared is not kernel.scratch_sizes or snapshot.unseen_writes != kernel.state.unseen_writes:
        return False
    for i in range(snapshot.buffers.size()):
        argument = <object> arguments[snapshot.buffers[i].index]
        if type(argument) is not Buffer or not is_same_buffer(&snapshot.buffers[i], <Buffer> argument):
            return False
    for i in range(snapshot.scalars.size()):
        parameter = &kernel.layout[snapshot.scalars[i]]
        if memcmp(&snapshot.packed[parameter.offset], packed + parameter.offset, parameter.width) != 0:
            return False
    return True


cdef Snapshot find_snapshot(QueueState* state, uint64_t kernel_id):
    cdef Plan* plan
    cdef Snapshot found = None
    while not state.lock.try_lock():
        with nogil:  # unlock before taking the GIL again: waiting for it with the lock held would block everybody
            state.lock.lock()
            state.lock.unlock()
    plan = find_plan(state, kernel_id)
    if plan != NULL and plan.snapshot != NULL:
        found = <Snapshot> plan.snapshot
    state.lock.unlock()
    return found


cdef int keep_snapshot(object queue, QueueState* state, Kernel kernel, Snapshot snapshot) except -1:
    cdef Plan* plan
    cdef PyObject* old = NULL
    cdef bint kept = False
    while not kept:
        while not state.lock.try_lock():
            with nogil:
                state.lock.lock()
                state.lock.unlock()
        plan = find_plan(state, kernel.id)
        if plan != NULL:
            Py_INCREF(snapshot)
            old, plan.snapshot = plan.snapshot, <PyObject*> snapshot
            kept = True
        state.lock.unlock()
        if not kept:
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
    cdef Snapshot snapshot
    cdef Py_ssize_t i, given = 0
    if kernel.closed or kernel.state != state.device:
        refuse_kernel(queue, kernel)
    check_count(kernel, count)
    if kernel.follows:
        kernel._keep_up_with_memory()
    all_arguments = <PyObject**> alloca(kernel.count * sizeof(PyObject*))
    for i in range(kernel.count):
        all_arguments[i] = <PyObject*> None
        if not kernel.left_out[i]:
            all_arguments[i] = arguments[given]
            given += 1
    packed = <char*> alloca(kernel.packed_size)
    pack_arguments(kernel, all_arguments, kernel.count, packed, &views)
    if views.arrays:
        release_views(&views)
        launch_with_arrays(queue, kernel, grid, block, list_of(arguments, count))
        return 0
    if not kernel.scratch_sizes:
        launch_packed(queue, state, kernel, grid, block, all_arguments, packed, &views)
        kernel.state.unseen_writes += kernel.follows
        return 0
    try:
        snapshot = find_snapshot(state, kernel.id)
        if snapshot is None or not holds(snapshot, kernel, all_arguments, packed):
            queue._check_open()
            snapshot = take_snapshot(queue, state, kernel, all_arguments, packed, snapshot)
            keep_snapshot(queue, state, kernel, snapshot)
    except BaseException:
        release_views(&views)
        raise
    use_scratch(snapshot, kernel, packed)
    if kernel.device.debug:
        launch_guarded(queue, state, kernel, grid, block, all_arguments, packed, &views, snapshot)
    else:
        launch_packed(queue, state, kernel, grid, block, all_arguments, packed, &views)
    kernel.state.unseen_writes += kernel.follows
    return 0


cdef void use_scratch(Snapshot snapshot, Kernel kernel, char* packed):
    cdef Py_ssize_t i, index
    for i in range(<Py_ssize_t> snapshot.scratch.size()):
        index = snapshot.declared[i][0]
        (<PackedPointer*> (packed + kernel.layout[index].offset))[0] = snapshot.scratch[i]


cdef int check_count(Kernel kernel, Py_ssize_t count) except -1:
    if count != kernel.count - len(kernel.scratch_sizes):
        raise ArgumentTypeError(
            f"kernel {kernel.name!r} takes {kernel.count - len(kernel.scratch_sizes)} arguments besides its scratch "
            f"({count} given): {kernel.signature}")
    return 0


# -- computing the sizes


cdef Snapshot take_snapshot(
    object queue, QueueState* state, Kernel kernel, PyObject* const* arguments, const char* packed, Snapshot last
):
    cdef Snapshot snapshot = Snapshot.__new__(Snapshot)
    cdef Py_ssize_t index
    cdef dict known = {}, buffers = {}
    state.device.references.fetch_add(1)
    snapshot.state = state.device
    snapshot.declared = kernel.scratch_sizes
    snapshot.unseen_writes = state.device.unseen_writes
    snapshot.packed.assign(packed, packed + kernel.packed_size)
    snapshot.dtypes = []
    snapshot.natives = []
    leaves = sorted({leaf for _, size in snapshot.declared for leaf in size.leaves()}, key=repr)
    for leaf in leaves:
        index = kernel._index_of(leaf.name)
        if isinstance(leaf, Argument):
            known[leaf] = int(<object> arguments[index])
            snapshot.scalars.push_back(index)
        elif index not in buffers:
            buffers[index] = checked_buffer(kernel, leaf, <object> arguments[index])
            note_buffer(snapshot, index, buffers[index])
    reduced = reductions_of(queue, state, list(buffers.values()))
    for leaf in leaves:
        if not isinstance(leaf, Argument):
            known[leaf] = reduced[<Py_ssize_t> list(buffers).index(kernel._index_of(leaf.name))][leaf.index]
    allocate_scratch(queue, kernel, snapshot, known, last)
    return snapshot


cdef object checked_buffer(Kernel kernel, leaf, argument):
    if type(argument) is not Buffer:
        raise ArgumentTypeError(
            f"kernel {kernel.name!r}: {leaf!r} needs a Buffer for {leaf.name!r}, not {type(argument).__name__}")
    if argument.dtype.kind not in "iu" or not argument.dtype.isnative:
        raise ArgumentTypeError(
            f"kernel {kernel.name!r}: {leaf!r} needs a Buffer of integers for {leaf.name!r}, not of {argument.dtype}")
    return argument


cdef void note_buffer(Snapshot snapshot, Py_ssize_t index, Buffer buffer):
    cdef KnownBuffer known
    known.index = index
    known.generation = 0 if buffer.allocation.exposed else buffer.allocation.generation
    known.allocation = buffer.allocation.id
    known.start = buffer.start
    known.nbytes = buffer.nbytes
    known.dtype = <PyObject*> buffer.dtype
    snapshot.dtypes.append(buffer.dtype)
    snapshot.buffers.push_back(known)


cdef list reductions_of(object queue, QueueState* state, list buffers):
    """Return (minimum, maximum, sum) of each buffer. Unknown ones are computed on `queue`, with one host synchronize.
    """
    cdef Allocation allocation
    cdef Buffer buffer
    cdef dict found = {}, stale = {}
    for buffer in buffers:
        allocation = buffer.allocation
        key = (allocation.id, buffer.start, buffer.nbytes, buffer.dtype)
        known = None if allocation.reductions is None else allocation.reductions.get(key[1:])
        if buffer.nbytes == 0:
            found[key] = (0, 0, 0)
        elif known is not None and known[0] == (allocation.generation, state.device.unseen_writes):
            found[key] = known[1]
        else:
            # Note the generation before measuring: a write from now on makes the result stale.
            stale[key] = buffer, (0 if allocation.exposed else allocation.generation, state.device.unseen_writes)
    if stale:
        queue._refuse_in_capture("launch with scratch that has to be measured (launch it before the capture, too)")
        refuse_on_host_thread("A launch whose scratch has to be measured")
        for buffer, _ in stale.values():
            wait_for_writers(queue, state, buffer.allocation)
        results = queue.device._reductions.run(queue, [entry[0] for entry in stale.values()])
        count_reductions(state, len(stale))
        for (key, (buffer, generation)), result in zip(stale.items(), results, strict=True):
            if buffer.allocation.reductions is None:
                buffer.allocation.reductions = {}
            buffer.allocation.reductions[key[1:]] = generation, result
            found[key] = result
    return [
        found[((<Buffer> each).allocation.id, (<Buffer> each).start, (<Buffer> each).nbytes, each.dtype)]
        for each in buffers
    ]


cdef void count_reductions(QueueState* state, uint64_t count):
    with nogil:
        state.lock.lock()
        state.counts.reductions += count
        state.lock.unlock()


cdef int wait_for_writers(object queue, QueueState* state, Allocation allocation) except -1:
    """Order the queue after all known writes to the allocation."""
    cdef vector[Writer] writers = allocation.others
    cdef size_t i
    writers.push_back(allocation.writer)
    for i in range(writers.size()):
        if writers[i].queue == 0:
            continue
        with nogil:
            status = wait_for_epoch(state, writers[i].queue, writers[i].epoch)
        if status != 0:
            queue._raise(status, "wait")
    return 0


cdef int allocate_scratch(object queue, Kernel kernel, Snapshot snapshot, dict known, Snapshot last) except -1:
    """Allocate the scratch. Scratch of the last snapshot is used again where it is large enough."""
    cdef PackedPointer pointer
    cdef size_t i, nbytes
    cdef size_t guard = GUARD if kernel.device.debug else 0
    device = queue.device
    for i in range(<size_t> len(snapshot.declared)):
        index, size = snapshot.declared[i]
        wanted = size.evaluate(known)
        if wanted < 0:
            raise InvalidArgumentError(
                f"kernel {kernel.name!r}: scratch {kernel.parameters[index].name!r} of {wanted} bytes, from {size!r}")
        nbytes = max(wanted, 1)
        snapshot.sizes.push_back(nbytes)
        if last is not None and i < last.scratch.size() and last.declared[i] == snapshot.declared[i]:
            native = last.natives[i]
            pointer = last.scratch[i]
        else:
            native = None
        if native is None or native.nbytes < nbytes + guard:
            # an eighth more, so that scratch that grows slowly is not allocated at every launch
            native = device._allocate(nbytes + (nbytes // 8 if last is not None else 0) + guard, "device")
            pointer = new_pointer(native)
        snapshot.natives.append(native)
        snapshot.scratch.push_back(pointer)
    return 0


# -- debugging


cdef int launch_guarded(
    object queue, QueueState* state, Kernel kernel, object grid, object block, PyObject* const* arguments,
    char* packed, Views* views, Snapshot snapshot
) except -1:
    """Launch, wait for the kernel, and raise ScratchOverflowError if it wrote behind its scratch."""
    guards = []
    try:
        refuse_on_host_thread("A launch of a debugging device")
        for i, native in enumerate(snapshot.natives):
            allocation = new_allocation(queue.device, state.device, native)
            guards.append(new_buffer(allocation, snapshot.sizes[<size_t> i], (GUARD,), np.dtype(np.uint8)))
            queue.fill(guards[-1], GUARD_BYTE)
    except BaseException:
        release_views(views)
        raise
    launch_packed(queue, state, kernel, grid, block, arguments, packed, views)
    for (index, size), guard in zip(snapshot.declared, guards, strict=True):
        written = np.flatnonzero(guard.get(queue=queue) != GUARD_BYTE)
        if written.size:
            name = kernel.parameters[index].name
            raise ScratchOverflowError(
                f"kernel {kernel.name!r} (id {kernel.content_id:08x}) wrote behind its scratch {name!r} (id "
                f"{kernel.scratch_id(name):08x}): it has {snapshot.sizes[<size_t> guards.index(guard)]} bytes, from "
                f"{size!r}, and at least {written[-1] + 1} more were written to")
    return 0
