"""A plan's spill buffers, and the uploads to them.

A buffer belongs to one parameter of one plan, so all that use it are launches of one kernel on one queue, which run in
order: it is written in place, by a command before the launch, while earlier launches may still read it. What else can
go wrong with shared argument buffers (two queues, two threads, a graph) cannot happen to it.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from cython.operator cimport dereference

from penstock.events.anchors cimport anchor_on_device
from penstock.queues.driver cimport NO_ROOM, Status, Waits
from penstock.queues.plan cimport POINTER, SPILLED, PackedPointer, Plan, Spill, Staging
from penstock.queues.state cimport QueueState
from penstock.queues.submit cimport no_waits
from penstock.sync.epochs cimport completed_epoch, submitted_epoch
from penstock.sync.ordering cimport Order, apply_command, count_command, waits_of

from penstock.queues.buffer import _ids


cdef inline PackedPointer* spilled_at(Plan* plan, const char* packed, size_t index) noexcept nogil:
    """The slot of an argument by value; NULL for any other."""
    cdef PackedPointer* slot = <PackedPointer*> (packed + plan.parameters[index].offset)
    return slot if plan.parameters[index].kind == POINTER and slot.allocation == SPILLED else NULL


cdef inline bint is_uploaded(Plan* plan, size_t index, const PackedPointer* given) noexcept nogil:
    cdef Spill* spill
    if plan.spills.empty():
        return False
    spill = &plan.spills[index]
    return (
        spill.known and spill.nbytes == given.memory.offset
        and memcmp(plan.spilled[index].data(), <const void*> <uintptr_t> given.memory.address, spill.nbytes) == 0
    )


cdef void use_spills(Plan* plan, char* packed) noexcept nogil:
    """Put the buffers' addresses where the bytes' were; they were uploaded."""
    cdef PackedPointer* slot
    cdef size_t i
    for i in range(plan.parameters.size()):
        slot = spilled_at(plan, packed, i)
        if slot != NULL:
            slot[0] = plan.spills[i].device


cdef size_t bytes_to_upload(Plan* plan, const char* packed) noexcept nogil:
    """How many bytes have changed."""
    cdef PackedPointer* given
    cdef size_t i, total = 0
    for i in range(plan.parameters.size()):
        given = spilled_at(plan, packed, i)
        if given != NULL and not is_uploaded(plan, i, given):
            total += given.memory.offset
    return total


cdef bint has_staging(QueueState* state, Plan* plan, size_t nbytes) noexcept nogil:
    """Is the memory of the oldest upload large enough, and free? They end in order."""
    cdef Staging* oldest
    if plan.staging.empty():
        return False
    oldest = &plan.staging.front()
    return oldest.capacity >= nbytes and (
        oldest.event == NULL or oldest.epoch <= completed_epoch(state.epochs)
        or plan.driver.event_status(oldest.event) != 0)


cdef Status upload_spills(
    QueueState* state, Plan* plan, const char* packed, Order* order, bint* began, uint32_t* failed_at
) noexcept nogil:
    """Bring the plan's buffers to the bytes that are given; the queue is locked, and stays so.

    NO_ROOM, before anything was submitted, when a buffer or the staging memory is too small or still in use. `began`
    says that the order's waits were carried and its changes applied: by the first upload. Without an order there is
    nothing to wait for.
    """
    cdef PackedPointer* given
    cdef Spill* spill
    cdef Staging staging
    cdef Waits waits
    cdef void** event
    cdef size_t i, at = 0, left = 0
    cdef Status status = 0
    began[0] = False
    if plan.spills.empty():
        return NO_ROOM
    # Decided once, because another thread may write to the bytes meanwhile: then it is not told which of them the
    # kernel sees, but what is uploaded still fits, is what is remembered, and has an event after it.
    for i in range(plan.parameters.size()):
        given = spilled_at(plan, packed, i)
        if given != NULL and not is_uploaded(plan, i, given):
            if plan.spills[i].capacity < given.memory.offset:
                return NO_ROOM
            plan.spills[i].known = False
            left += given.memory.offset
    if left != 0:
        if not has_staging(state, plan, left):
            return NO_ROOM
        staging = plan.staging.front()
        if staging.event != NULL:
            plan.driver.release_event(staging.event)
            staging.event = NULL
        plan.staging.pop_front()
    for i in range(plan.parameters.size()):
        given = spilled_at(plan, packed, i)
        if given == NULL:
            continue
        spill = &plan.spills[i]
        if spill.known:
            state.counts.arg_bytes_skipped += given.memory.offset
            continue
        memcpy(<void*> <uintptr_t> staging.memory.address, <const void*> <uintptr_t> given.memory.address,
               given.memory.offset)
        left -= given.memory.offset
        waits = no_waits() if order == NULL or began[0] else waits_of(order)
        # Only the last needs an event: this memory is free when all uploads from it are done.
        event = NULL
        if left == 0:
            event = &staging.event
        status = plan.driver.copy(
            state.handle, &spill.device.memory, &staging.memory, given.memory.offset, waits, event)
        if status != 0:
            failed_at[0] = <uint32_t> i
            break
        if order == NULL or began[0]:
            count_command(state)
        else:
            apply_command(state, order)
        began[0] = True
        state.counts.arg_bytes_set += given.memory.offset
        spill.nbytes = given.memory.offset
        plan.spilled[i].resize(spill.nbytes)
        memcpy(plan.spilled[i].data(), <const void*> <uintptr_t> staging.memory.address, spill.nbytes)
        spill.known = True
        staging.memory.address += given.memory.offset
        at += given.memory.offset
    if at != 0 or status != 0:
        staging.memory.address -= at
        if status == 0:
            state.counts.events_made += 1
            staging.epoch = submitted_epoch(state.epochs)
            plan.staging.push_back(staging)
        elif began[0]:
            plan.orphaned.push_back(staging)  # an upload from it may be under way, and there is no event that tells
        else:
            plan.staging.push_front(staging)
    return status


# -- memory, made with the GIL and put in place without it


cdef struct Room:
    size_t parameter
    Spill spill


cdef Plan* plan_of(QueueState* state, uint64_t kernel_id, Plan* bound) noexcept nogil:
    cdef unordered_map[uint64_t, Plan*].iterator found
    if bound != NULL:
        return bound
    found = state.plans.find(kernel_id)
    if found == state.plans.end():
        return NULL
    return dereference(found).second


cdef void look_for_needs(
    QueueState* state, uint64_t kernel_id, Plan* bound, const char* packed, vector[Room]& rooms, size_t* staging
) noexcept nogil:
    cdef PackedPointer* given
    cdef Plan* plan
    cdef Room room
    cdef size_t i
    staging[0] = 0
    state.lock.lock()
    plan = plan_of(state, kernel_id, bound)
    if plan != NULL:
        if plan.spills.empty():
            plan.spilled.resize(plan.parameters.size())
            room.spill.capacity = 0
            room.spill.known = False
            room.spill.buffer = NULL
            plan.spills.assign(plan.parameters.size(), room.spill)
        for i in range(plan.parameters.size()):
            given = spilled_at(plan, packed, i)
            if given != NULL and plan.spills[i].capacity < given.memory.offset:
                room.parameter = i
                room.spill.capacity = given.memory.offset
                rooms.push_back(room)
        staging[0] = bytes_to_upload(plan, packed)
        if has_staging(state, plan, staging[0]):
            staging[0] = 0
    state.lock.unlock()


cdef void put_in_place(
    QueueState* state, uint64_t kernel_id, Plan* bound, vector[Room]& rooms, Staging* staging,
    vector[PyObject*]& dropped
) noexcept nogil:
    cdef Plan* plan
    cdef size_t i
    state.lock.lock()
    plan = plan_of(state, kernel_id, bound)
    for i in range(rooms.size()):
        if plan == NULL or plan.spills[rooms[i].parameter].capacity >= rooms[i].spill.capacity:
            dropped.push_back(rooms[i].spill.buffer)  # the plan is gone, or another thread was faster
        else:
            dropped.push_back(plan.spills[rooms[i].parameter].buffer)
            plan.spills[rooms[i].parameter] = rooms[i].spill
    if staging.array != NULL:
        if plan == NULL:
            dropped.push_back(staging.array)
        else:
            plan.staging.push_front(staging[0])
    state.lock.unlock()


cdef int make_room(object queue, QueueState* state, uint64_t kernel_id, Plan* bound, const char* packed) except -1:
    """Buffers and staging memory for what the plan is to upload. When an allocation fails, all is as it was.

    A buffer that is replaced is given back when the launches that read it are done.
    """
    cdef vector[Room] rooms
    cdef vector[PyObject*] dropped
    cdef Staging staging
    cdef unsigned char[::1] view
    cdef size_t i, nbytes
    with nogil:
        look_for_needs(state, kernel_id, bound, packed, rooms, &nbytes)
    device = queue.device
    buffers = []
    for i in range(rooms.size()):
        rooms[i].spill.capacity = 1 << (<object> rooms[i].spill.capacity - 1).bit_length()
        buffers.append(device._allocate(rooms[i].spill.capacity, "device"))
    staging.array = NULL
    if nbytes:
        array = device.driver.stage(max(nbytes, <size_t> 4096))
        view = array
        staging.capacity = view.shape[0]
        staging.event = NULL
        staging.epoch = 0
        staging.memory.handle = NULL
        staging.memory.address = <uintptr_t> &view[0]
        staging.memory.offset = 0
        staging.memory.host = True
        staging.array = <PyObject*> array
        Py_INCREF(array)
    for i in range(rooms.size()):
        native = buffers[i]
        rooms[i].spill.nbytes = 0
        rooms[i].spill.known = False
        rooms[i].spill.device.allocation = next(_ids)
        rooms[i].spill.device.memory.handle = <void*> <uintptr_t> native.handle
        rooms[i].spill.device.memory.address = native.address
        rooms[i].spill.device.memory.offset = 0
        rooms[i].spill.device.memory.host = False
        rooms[i].spill.buffer = <PyObject*> native
        Py_INCREF(native)
    with nogil:
        put_in_place(state, kernel_id, bound, rooms, &staging, dropped)
    for i in range(dropped.size()):
        if dropped[i] != NULL:
            anchor_on_device(state.device, <object> dropped[i])
            Py_DECREF(<object> dropped[i])
    return 0
