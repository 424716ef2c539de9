"""A plan's spill buffers, and the uploads to them.

Bytes that the kernel only reads are uploaded when they differ from those of its last launch. They are compared, unless
they are the same `bytes` in one ByValue, which cannot change. Bytes that it may write to are uploaded for each launch.

A buffer belongs to one parameter of one plan, so only launches of one kernel on one queue use it, and these run in
order. A command before the launch therefore writes it in place, even if earlier launches have not read it yet. The
other hazards of shared argument buffers (two queues, two threads, a graph) cannot occur.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from cython.operator cimport dereference

from forebay.core.driver cimport DONE, NO_ROOM, WRONG_TYPE, Memory, Status, Waits, element_of, no_waits
from forebay.core.epochs cimport completed_epoch, submitted_epoch
from forebay.core.plan cimport POINTER, SPILLED, PackedBytes, PackedPointer, Plan, Spill, Staging, check_types
from forebay.core.state cimport QueueState
from forebay.lifetimes.retired cimport retire_after
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.memory.allocation cimport pointer_to
from forebay.queues.memory.copies cimport copy_bytes, host_memory_of
from forebay.sync.ordering cimport Order, apply_command, count_command, end_command, end_order

# Each upload has a slot of its own, because earlier ones may not have been read yet. An event for each costs more than
# the copy does, so a piece of memory has several slots and one event.
cdef enum:
    SLOTS = 16
    ALIGNMENT = 64
    SMALLEST_PIECE = 4 << 10
    LARGEST_PIECE = 1 << 20  # unless one slot is larger


cdef inline PackedBytes* spilled_at(Plan* plan, const char* packed, size_t index) noexcept nogil:
    """Return the slot of an argument by value. NULL for any other argument."""
    cdef PackedBytes* slot = <PackedBytes*> (packed + plan.parameters[index].offset)
    return slot if plan.parameters[index].kind == POINTER and slot.allocation == SPILLED else NULL


cdef inline bint is_uploaded(Plan* plan, size_t index, const PackedBytes* given) noexcept nogil:
    """Return whether the kernel finds these bytes without an upload. Where it may write to them, it has: then never."""
    cdef Spill* spill = &plan.spills[index]
    return (
        not plan.parameters[index].writes and spill.known and spill.nbytes == given.nbytes
        and (given.stamp != 0 and given.stamp == spill.stamp or memcmp(spill.last, given.data, spill.nbytes) == 0)
    )


cdef list spilled_bytes(Kernel kernel, const char* packed):
    cdef const PackedBytes* given
    cdef Py_ssize_t i
    cdef list found = []
    cdef bytes copied
    for i in range(kernel.count):
        given = <const PackedBytes*> (packed + kernel.layout[i].offset)
        if kernel.layout[i].kind == POINTER and given.allocation == SPILLED:
            copied = PyBytes_FromStringAndSize(NULL, given.nbytes)
            copy_bytes(<void*> PyBytes_AS_STRING(copied), given.data, given.nbytes)
            found.append((i, copied))
    return found


cdef void use_spills(Plan* plan, char* packed) noexcept nogil:
    """Replace the addresses of the bytes by those of the buffers to which the bytes were uploaded."""
    cdef PackedBytes* slot
    cdef size_t i
    for i in range(plan.parameters.size()):
        slot = spilled_at(plan, packed, i)
        if slot != NULL:
            (<PackedPointer*> slot)[0] = plan.spills[i].device


cdef bint is_free(QueueState* state, const Staging* piece) noexcept nogil:
    """Return whether the device has read all of a piece. Uploads end in order, unless they fail."""
    if piece.epoch <= completed_epoch(state.epochs):
        return True
    return piece.used == 0 and (piece.event == NULL or state.driver.event_status(piece.event) == DONE)


cdef bint has_staging(QueueState* state, Spill* spill, size_t nbytes) noexcept nogil:
    """Return whether the first piece of staging memory has room."""
    cdef Staging* piece
    if spill.staging.empty():
        return False
    piece = &spill.staging.front()
    if piece.used != 0 and piece.used + nbytes <= piece.capacity:
        return True
    return piece.capacity >= nbytes and is_free(state, piece)


cdef bint has_wrong_type(const Plan* plan, size_t index, const PackedBytes* given) noexcept nogil:
    """Return what `check_types` says of bytes by value."""
    return (
        given.kind != 0 and plan.parameters[index].element != 0
        and element_of(given.kind) != plan.parameters[index].element
    )


cdef Status choose_uploads(QueueState* state, Plan* plan, const char* packed, bint* any_chosen) noexcept nogil:
    """Mark the spill buffers that do not hold the given bytes. NO_ROOM when one is too small or in use.

    This is decided once, because another thread may change the bytes meanwhile. Then it is unspecified which of them
    the kernel sees, but the upload still fits, and the uploaded bytes are the ones remembered.
    """
    cdef PackedBytes* given
    cdef Spill* spill
    cdef uint64_t skipped = 0
    cdef size_t i
    any_chosen[0] = False
    if plan.spills.empty():
        return NO_ROOM
    for i in range(plan.parameters.size()):
        given = spilled_at(plan, packed, i)
        if given == NULL:
            continue
        if has_wrong_type(plan, i, given):
            return WRONG_TYPE
        if is_uploaded(plan, i, given):
            skipped += given.nbytes
            continue
        spill = &plan.spills[i]
        if spill.capacity < given.nbytes or not has_staging(state, spill, given.nbytes):
            return NO_ROOM
        spill.known = False
        any_chosen[0] = True
    state.counts.arg_bytes_skipped += skipped
    return 0


cdef Status upload(
    QueueState* state, Spill* spill, const PackedBytes* given, Waits waits, uint64_t epoch
) noexcept nogil:
    cdef Status status
    cdef Staging* piece = &spill.staging.front()
    cdef Memory slot = piece.memory
    cdef size_t end
    cdef bint fills_up
    if piece.used + given.nbytes > piece.capacity or piece.epoch <= completed_epoch(state.epochs):
        piece.used = 0
    if piece.event != NULL:
        state.driver.release_event(piece.event)
        piece.event = NULL
    end = piece.used + (given.nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    fills_up = end + spill.capacity > piece.capacity
    slot.address += piece.used
    memcpy(<void*> <uintptr_t> slot.address, given.data, given.nbytes)
    status = state.driver.copy(
        state.handle, &spill.device.memory, &slot, given.nbytes, waits, &piece.event if fills_up else NULL)
    if status != 0:
        return status
    piece.epoch = epoch
    piece.used = end
    spill.last = <const void*> <uintptr_t> slot.address
    spill.nbytes = given.nbytes
    spill.stamp = given.stamp
    spill.known = True
    state.counts.arg_bytes_set += given.nbytes
    if fills_up:
        piece.used = 0
        state.counts.events_made += 1
        spill.staging.push_back(dereference(piece))
        spill.staging.pop_front()
    return 0


cdef Status upload_spills(
    QueueState* state, Plan* plan, const char* packed, Waits waits, uint64_t* uploads, uint32_t* failed_at
) noexcept nogil:
    """Upload the given bytes to the plan's buffers. The queue is locked and stays locked.

    Returns NO_ROOM, before anything is submitted, when a buffer or the staging memory is too small or still in use, and
    WRONG_TYPE when memory has other elements than its parameter points to: nobody need have looked before.
    `uploads` is the number of commands that the driver took, also after a failure. The first carried the waits. The
    caller counts them in the epoch.
    """
    cdef PackedBytes* given
    cdef size_t i
    cdef bint any_chosen
    cdef Status status = choose_uploads(state, plan, packed, &any_chosen)
    uploads[0] = 0
    if status != 0 or not any_chosen:
        return status
    status = check_types(plan.parameters.data(), plan.parameters.size(), packed, failed_at)
    for i in range(plan.parameters.size()):
        if status != 0:
            break
        given = spilled_at(plan, packed, i)
        if given == NULL or plan.spills[i].known:
            continue
        status = upload(
            state, &plan.spills[i], given, waits if uploads[0] == 0 else no_waits(),
            submitted_epoch(state.epochs) + uploads[0] + 1)
        if status == 0:
            uploads[0] += 1
            # The launch may never come: it may fail, and a bound one may be dropped.
            plan.epoch = submitted_epoch(state.epochs) + uploads[0]
        else:
            failed_at[0] = <uint32_t> i
    return status


cdef void apply_uploads(QueueState* state, Order* order, uint64_t uploads) noexcept nogil:
    """Count the uploads. The first has carried the waits of the order."""
    cdef uint64_t i
    for i in range(uploads):
        if i == 0:
            apply_command(state, order)
        else:
            count_command(state)


cdef Status end_uploads(QueueState* state, Order* order, uint64_t uploads, Status status) noexcept nogil:
    """End a launch like `end_command`, after its uploads were applied."""
    if uploads == 0:
        return end_command(state, order, status)
    if status == 0:
        count_command(state)
    state.lock.unlock()
    end_order(order)
    return status


# -- bound launches


cdef bint needs_uploads(Plan* plan) noexcept nogil:
    """Return whether the kernel may write to bytes by value that were bound, so that each call must upload them."""
    cdef size_t i
    for i in range(plan.spills.size()):
        if plan.parameters[i].writes and plan.spills[i].capacity != 0:
            return True
    return False


cdef Status upload_again(
    QueueState* state, Plan* plan, Waits waits, uint64_t* uploads, uint32_t* failed_at
) noexcept nogil:
    """Upload the bound bytes that the kernel may have written to. The queue is locked and stays locked.

    They still are in the staging memory of the first upload, which nobody else fills. `uploads` is as in
    `upload_spills`.
    """
    cdef Spill* spill
    cdef Memory source
    cdef Status status
    cdef size_t i
    uploads[0] = 0
    for i in range(plan.spills.size()):
        spill = &plan.spills[i]
        if not plan.parameters[i].writes or spill.capacity == 0:
            continue
        source = spill.staging.front().memory
        source.address = <uint64_t> <uintptr_t> spill.last
        status = state.driver.copy(
            state.handle, &spill.device.memory, &source, spill.nbytes, waits if uploads[0] == 0 else no_waits(), NULL)
        if status != 0:
            failed_at[0] = <uint32_t> i
            return status
        uploads[0] += 1
        plan.epoch = submitted_epoch(state.epochs) + uploads[0]  # the launch may fail
        state.counts.arg_bytes_set += spill.nbytes
    return 0


# -- memory, allocated with the GIL and put in place without it


cdef struct Room:
    size_t parameter
    size_t nbytes  # of the argument
    size_t capacity  # of the new buffer; 0 when the present one is large enough
    PackedPointer device
    PyObject* buffer
    Staging staging  # capacity 0 when none is needed


cdef Plan* plan_of(QueueState* state, uint64_t kernel_id, Plan* bound) noexcept nogil:
    cdef unordered_map[uint64_t, Plan*].iterator found
    if bound != NULL:
        return bound
    found = state.plans.find(kernel_id)
    if found == state.plans.end():
        return NULL
    return dereference(found).second


cdef size_t piece_size(const Spill* spill, size_t nbytes) noexcept nogil:
    """Return how much staging memory to make at once. It doubles while the device does not keep up."""
    cdef size_t size = max(<size_t> SMALLEST_PIECE, SLOTS * nbytes)
    if not spill.staging.empty():
        size = max(size, 2 * spill.staging.back().capacity)
    return max(nbytes, min(size, <size_t> LARGEST_PIECE))


cdef void look_for_needs(
    QueueState* state, uint64_t kernel_id, Plan* bound, const char* packed, vector[Room]& rooms
) noexcept nogil:
    cdef PackedBytes* given
    cdef Plan* plan
    cdef Spill* spill
    cdef Room room
    cdef size_t i
    state.lock.lock()
    plan = plan_of(state, kernel_id, bound)
    if plan != NULL:
        plan.spills.resize(plan.parameters.size())  # zeroed
        for i in range(plan.parameters.size()):
            given = spilled_at(plan, packed, i)
            spill = &plan.spills[i]
            if given == NULL or is_uploaded(plan, i, given):
                continue
            room.parameter = i
            room.nbytes = given.nbytes
            room.capacity = given.nbytes if spill.capacity < given.nbytes else 0
            room.staging.capacity = 0 if has_staging(state, spill, given.nbytes) else piece_size(spill, given.nbytes)
            rooms.push_back(room)
    state.lock.unlock()


cdef void put_in_place(
    QueueState* state, uint64_t kernel_id, Plan* bound, vector[Room]& rooms, vector[PyObject*]& dropped
) noexcept nogil:
    cdef Plan* plan
    cdef Room* room
    cdef Spill* spill
    cdef size_t i
    state.lock.lock()
    plan = plan_of(state, kernel_id, bound)
    for i in range(rooms.size()):
        room = &rooms[i]
        if plan == NULL:
            dropped.push_back(room.buffer)
            dropped.push_back(room.staging.array)
            continue
        spill = &plan.spills[room.parameter]
        if spill.capacity < room.capacity:
            dropped.push_back(spill.buffer)
            spill.buffer = room.buffer
            spill.device = room.device
            spill.capacity = room.capacity
            spill.known = False
        else:
            dropped.push_back(room.buffer)  # another thread was faster
        if room.staging.array != NULL:
            drop_smaller(state, spill, room.nbytes, dropped)
            spill.staging.push_front(room.staging)
            state.staged += 1
    state.lock.unlock()


cdef void drop_smaller(QueueState* state, Spill* spill, size_t capacity, vector[PyObject*]& dropped) noexcept nogil:
    """Drop staging memory that is too small, or it would be met again and new memory made each time."""
    cdef Staging* oldest
    while not spill.staging.empty() and spill.staging.front().capacity < capacity:
        oldest = &spill.staging.front()
        if oldest.event != NULL:
            state.driver.release_event(oldest.event)
        dropped.push_back(oldest.array)
        spill.staging.pop_front()
        spill.known = False  # the bytes to compare with may have been there


cdef int make_room(object queue, QueueState* state, uint64_t kernel_id, Plan* bound, const char* packed) except -1:
    """Make the buffers and staging memory that the plan's uploads need. If an allocation fails, nothing has changed.

    A replaced buffer is given back when the launches that read it are done.
    """
    cdef vector[Room] rooms
    cdef vector[PyObject*] dropped
    cdef Room* room
    cdef size_t i
    with nogil:
        look_for_needs(state, kernel_id, bound, packed, rooms)
    device = queue.device
    made = []  # put in place only once all allocations have succeeded
    for i in range(rooms.size()):
        room = &rooms[i]
        native = staged = None
        if room.capacity:
            room.capacity = 1 << (<object> room.capacity - 1).bit_length()
            native = device._allocate(room.capacity, "device")
        if room.staging.capacity:
            staged = device.driver.stage(room.staging.capacity)
        made.append((native, staged))
    for i in range(rooms.size()):
        room = &rooms[i]
        native, staged = made[<Py_ssize_t> i]
        room.buffer = room.staging.array = NULL
        if native is not None:
            room.device = pointer_to(native)
            room.buffer = <PyObject*> native
            Py_INCREF(native)
        if staged is not None:
            room.staging.memory = host_memory_of(staged)
            room.staging.capacity = len(staged)
            room.staging.event = NULL
            room.staging.epoch = room.staging.used = 0
            room.staging.array = <PyObject*> staged
            Py_INCREF(staged)
    with nogil:
        put_in_place(state, kernel_id, bound, rooms, dropped)
    for i in range(dropped.size()):
        if dropped[i] != NULL:
            retire_after(state.device, <object> dropped[i], state.epochs, submitted_epoch(state.epochs))
            Py_DECREF(<object> dropped[i])
    return 0
