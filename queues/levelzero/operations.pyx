"""The Level Zero side of the table of operations (`forebay.core.driver`), and what is behind its handles.

The functions come first, with the names of calls and results for errors; then the operations; then contexts, queues,
events and modules; then devices, programs and memory as Python objects.
"""

import ctypes

cimport cython
from libc.stdint cimport UINT64_MAX, uint8_t, uint32_t, uint64_t, uintptr_t
from libcpp.algorithm cimport find
from libcpp.atomic cimport atomic, memory_order_acq_rel, memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    CHANGED_GROUPS, CHANGED_POINTER, COPY_COMMAND, DONE, FOR_HOST, INTERRUPTED, LAUNCH_COMMAND, NOT_YET, TIMED, Answer,
    Arrival, Change, RecordedCommand, Driver, Geometry, Interrupted, Memory, Status, Waits, HostCallback
)
from forebay.core.process cimport is_forked
from forebay.core.vector_clock cimport Lock
from forebay.queues.memory.allocation cimport ForeignMemory, NativeMemory

from forebay.core.driver import fill_table
from forebay.core.errors import BuildError, DriverError, NotSupportedError, OutOfMemoryError

cdef enum:
    NOT_READY = 1
    WAIT_SLICE = 50000000  # nanoseconds, after which a signal handler gets its turn
    CHANGES_ARGUMENTS = 1 << 0
    CHANGES_GROUPS = 1 << 1
    UNSUPPORTED_FEATURE = 0x78000003
    INVALID_GLOBAL_NAME = 0x78000010
    DEVICE_LOST = 0x70000001
    IN_ORDER = 1 << 1  # of a queue's descriptor
    LIST_IN_ORDER = 1 << 3  # of a list's
    ASYNCHRONOUS = 2
    POOL_HOST_VISIBLE = 1 << 0
    POOL_TIMESTAMPS = 1 << 2
    COUNTER_IMMEDIATE = 1 << 0
    COUNTER_HOST_VISIBLE = 1 << 2
    COUNTER_TIMESTAMPS = 1 << 4
    SCOPE_DEVICE = 1 << 1
    SCOPE_HOST = 1 << 2
    POOL_SIZE = 64
    HELD_AT_MOST = 64
    ALL_MEMORY = 7  # ze_kernel_indirect_access_flags_t: of the host, of devices, and shared
    FORMAT_SPIRV = 0
    FORMAT_NATIVE = 1
    ALIGNMENT = 128  # of memory: that of the largest element type, double16

MODES: dict[str, int] = {"create": COUNTER_BASED, "pool": COUNTER_BASED_POOL, "": RESET}

LIBRARY = "libze_loader.so.1"
GET_DRIVER = (
    "for an Intel GPU, install the loader and the driver: apt install libze1 libze-intel-gpu1 (Debian, Ubuntu), or "
    "elsewhere the packages level-zero and intel-compute-runtime"
)
OUT_OF_MEMORY = (0x70000002, 0x70000003, 0x78000009)  # host memory, device memory, unsupported size

CALLS: int = <uintptr_t> &ze
CALL_NAMES: tuple[str, ...] = tuple([(b"ze" + call_names[i]).decode() for i in range(N_CALLS)])

# Newer than forebay requires. Without them forebay uses something else, or raises an error when they are needed.
_NEWER = {
    "zeInitDrivers", "zeCommandListImmediateGetFlags", "zeCommandListAppendHostFunction",
    "zeCommandListImmediateAppendCommandListsExp", "zeEventCounterBasedCreate", "zeCommandListGetNextCommandIdExp",
    "zeCommandListUpdateMutableCommandsExp",
}

# The names of every ze_result_t, without what all begin with: runs of numbers that follow each other, by the first
_RESULTS = {
    0: "SUCCESS NOT_READY",
    0x70000001: (
        "ERROR_DEVICE_LOST ERROR_OUT_OF_HOST_MEMORY ERROR_OUT_OF_DEVICE_MEMORY ERROR_MODULE_BUILD_FAILURE "
        "ERROR_MODULE_LINK_FAILURE ERROR_DEVICE_REQUIRES_RESET ERROR_DEVICE_IN_LOW_POWER_STATE"
    ),
    0x70010000: "ERROR_INSUFFICIENT_PERMISSIONS ERROR_NOT_AVAILABLE",
    0x70020000: "ERROR_DEPENDENCY_UNAVAILABLE WARNING_DROPPED_DATA",
    0x78000001: (
        "ERROR_UNINITIALIZED ERROR_UNSUPPORTED_VERSION ERROR_UNSUPPORTED_FEATURE ERROR_INVALID_ARGUMENT "
        "ERROR_INVALID_NULL_HANDLE ERROR_HANDLE_OBJECT_IN_USE ERROR_INVALID_NULL_POINTER ERROR_INVALID_SIZE "
        "ERROR_UNSUPPORTED_SIZE ERROR_UNSUPPORTED_ALIGNMENT ERROR_INVALID_SYNCHRONIZATION_OBJECT "
        "ERROR_INVALID_ENUMERATION ERROR_UNSUPPORTED_ENUMERATION ERROR_UNSUPPORTED_IMAGE_FORMAT "
        "ERROR_INVALID_NATIVE_BINARY ERROR_INVALID_GLOBAL_NAME ERROR_INVALID_KERNEL_NAME ERROR_INVALID_FUNCTION_NAME "
        "ERROR_INVALID_GROUP_SIZE_DIMENSION ERROR_INVALID_GLOBAL_WIDTH_DIMENSION ERROR_INVALID_KERNEL_ARGUMENT_INDEX "
        "ERROR_INVALID_KERNEL_ARGUMENT_SIZE ERROR_INVALID_KERNEL_ATTRIBUTE_VALUE ERROR_INVALID_MODULE_UNLINKED "
        "ERROR_INVALID_COMMAND_LIST_TYPE ERROR_OVERLAPPING_REGIONS WARNING_ACTION_REQUIRED "
        "ERROR_INVALID_KERNEL_HANDLE EXT_RTAS_BUILD_RETRY EXT_RTAS_BUILD_DEFERRED EXT_ERROR_OPERANDS_INCOMPATIBLE "
        "ERROR_SURVIVABILITY_MODE_DETECTED ERROR_ADDRESS_NOT_FOUND QUERY_TRUE QUERY_FALSE ERROR_INVALID_GRAPH "
        "ERROR_GRAPH_CAPTURE_UNSUPPORTED ERROR_GRAPH_CAPTURE_INVALIDATED ERROR_GRAPH_CAPTURE_MERGE_ATTEMPT "
        "ERROR_COMMAND_LIST_NOT_CAPTURING ERROR_GRAPH_UNJOINED_FORKS ERROR_GRAPH_INTERNAL_EVENT"
    ),
    0x7FF00001: (
        "EXP_ERROR_DEVICE_IS_NOT_VERTEX EXP_ERROR_VERTEX_IS_NOT_DEVICE EXP_ERROR_REMOTE_DEVICE "
        "EXP_ERROR_OPERANDS_INCOMPATIBLE EXP_RTAS_BUILD_RETRY EXP_RTAS_BUILD_DEFERRED"
    ),
    0x7FFFFFFE: "ERROR_UNKNOWN",
}
RESULT_NAMES: dict[int, str] = {
    code: f"ZE_RESULT_{name}" for first, names in _RESULTS.items() for code, name in enumerate(names.split(), first)
}


def load() -> None:
    """Fill the table from the Level Zero loader, which must be installed where the system looks for libraries. One call
    is enough. Raises `NotSupportedError` if it cannot be loaded, saying what to install, and `ImportError` if it is too
    old to have one of the functions that forebay requires.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NotSupportedError(f"no Level Zero loader ({error}): {GET_DRIVER}") from None
    fill_table(CALLS, CALL_NAMES, library, _NEWER, "the Level Zero loader",
               "upgrade it (Debian, Ubuntu: libze1)")


def result_name(code: int) -> str:
    """The specification's name of a result, signed or unsigned; "error 0x…" for a number that it does not have."""
    code &= 0xFFFFFFFF
    return RESULT_NAMES.get(code, f"error {code:#x}")


def explain(Status status) -> tuple[str, int, str]:
    """(call, code, name of the code) of a failed operation."""
    code = status & 0xFFFFFFFF
    return CALL_NAMES[status >> 32], code, result_name(code)


cdef int check(Status status, str what="") except -1:
    """Raise for a failed call. The message ends with `what`."""
    if status == 0:
        return 0
    call, code, name = explain(status)
    message = f"{call} failed: {name}" + (f" ({what})" if what else "")
    if code in OUT_OF_MEMORY:
        raise OutOfMemoryError(message)
    raise DriverError(message, call=call, code=code, name=name)


# -- what is behind the handles, beside what `operations.pxd` has


cdef cppclass ZeRecording:
    void* list
    ZeDevice* device  # retained
    bint changeable
    vector[uint64_t] ids  # by command, if it is changeable: what the driver calls a launch, 0 for others
    vector[ArgumentChange] arguments  # room for the next change's descriptors, so that it allocates nothing
    vector[GroupsChange] groups


cdef cppclass ZeModule:
    atomic[int32_t] references  # the owner's, and one for each kernel
    void* handle
    ZeDevice* device  # retained


cdef cppclass ZeKernel:
    void* handle
    ZeModule* module  # retained: the driver does not keep a module alive for its kernels
    uint32_t group[3]


# -- the launch path


cdef inline uint32_t to_handles(void* queue, Waits waits) noexcept nogil:
    """Replace forebay's events in the wait list by the driver's handles, and return their number."""
    cdef uint32_t i
    if waits.count and (<ZeQueue*> queue).device.mode == RESET:
        for i in range(waits.count):
            (<ZeQueue*> queue).held.push_back(retain_event(<ZeEvent*> waits.events[i]))
    for i in range(waits.count):
        waits.events[i] = (<ZeEvent*> waits.events[i]).handle
    return waits.count


cdef Status set_group(ZeKernel* kernel, const Geometry* geometry) noexcept nogil:
    cdef Status status = ze.KernelSetGroupSize(kernel.handle, geometry.block[0], geometry.block[1], geometry.block[2])
    cdef int i
    for i in range(3):
        kernel.group[i] = geometry.block[i] if status == 0 else 0
    return status


cdef Status launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil:
    cdef ZeKernel* launched = <ZeKernel*> kernel
    cdef Status status
    cdef uint32_t count
    if (
        launched.group[0] != geometry.block[0] or launched.group[1] != geometry.block[1]
        or launched.group[2] != geometry.block[2]
    ):
        status = set_group(launched, geometry)
        if status != 0:
            return status
    count = to_handles(queue, waits)
    return ze.CommandListAppendLaunchKernel(
        (<ZeQueue*> queue).list, launched.handle, geometry.groups, NULL, count, waits.events)


cdef Status set_pointer(void* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    return ze.KernelSetArgumentValue(
        (<ZeKernel*> kernel).handle, index, sizeof(void*), &memory.address if memory.address else NULL)


cdef Status set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    return ze.KernelSetArgumentValue((<ZeKernel*> kernel).handle, index, size, value)


# -- other commands


cdef ZeEvent* event_to_signal(ZeQueue* queue, EventKind kind, Status* status) noexcept nogil:
    """An event that the next command of the queue signals."""
    cdef ZeEvent* event
    if queue.device.mode == RESET:
        status[0] = hold_events(queue)
        if status[0] != 0:
            return NULL
    event = take_event(queue.device, kind, status)
    if event != NULL:
        if queue.device.mode == RESET:
            queue.held.push_back(retain_event(event))
        set_queue(event, queue)
    return event


cdef Status event_for_host(ZeQueue* queue, void** event, void** handle) noexcept nogil:
    """Make the event that the next command signals, and give its handle too; none where `event` is NULL."""
    cdef Status status = 0
    if event != NULL:
        event[0] = event_to_signal(queue, HOST_EVENT, &status)
        if event[0] != NULL:
            handle[0] = (<ZeEvent*> event[0]).handle
    return status


cdef inline Status conclude(Status status, void** event) noexcept nogil:
    """Give the event back if the command that signals it was refused."""
    if status != 0 and event != NULL and event[0] != NULL:
        release_event_reference(<ZeEvent*> event[0])
        event[0] = NULL
    return status


cdef Status copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef void* signalled = NULL
    cdef Status status = event_for_host(<ZeQueue*> queue, event, &signalled)
    if status != 0:
        return status
    return conclude(ze.CommandListAppendMemoryCopy(
        (<ZeQueue*> queue).list, <void*> <uintptr_t> to.address, <const void*> <uintptr_t> source.address, nbytes,
        signalled, to_handles(queue, waits), waits.events), event)


cdef Status fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef void* signalled = NULL
    cdef Status status = event_for_host(<ZeQueue*> queue, event, &signalled)
    if status != 0:
        return status
    return conclude(ze.CommandListAppendMemoryFill(
        (<ZeQueue*> queue).list, <void*> <uintptr_t> to.address, pattern, pattern_size, nbytes, signalled,
        to_handles(queue, waits), waits.events), event)


cdef Status signal(ZeQueue* queue, EventKind kind, ZeEvent** event) noexcept nogil:
    cdef Status status = 0
    event[0] = event_to_signal(queue, kind, &status)
    if event[0] == NULL:
        return status
    return conclude(ze.CommandListAppendSignalEvent(queue.list, event[0].handle), <void**> event)


cdef Status marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    # An immediate list submits at once, so there is nothing to flush.
    cdef EventKind kind = TIMED_EVENT if use & TIMED else HOST_EVENT if use & FOR_HOST else DEVICE_EVENT
    cdef Status status = barrier(queue, waits) if waits.count else 0
    return signal(<ZeQueue*> queue, kind, <ZeEvent**> event) if status == 0 else status


cdef Status barrier(void* queue, Waits waits) noexcept nogil:
    return ze.CommandListAppendWaitOnEvents((<ZeQueue*> queue).list, to_handles(queue, waits), waits.events)


cdef Status hold(void* queue, void* context, Waits waits, HostCallback wake, void* data, void** gate) noexcept nogil:
    cdef ZeQueue* held = <ZeQueue*> queue
    cdef Status status = 0
    cdef ZeEvent* event
    cdef ZeEvent* passed = NULL
    cdef Arrival* arrival = NULL
    cdef bint waited_for = False
    if wake != NULL and ze.CommandListAppendHostFunction == NULL:
        return (<Status> CALL_CommandListAppendHostFunction << 32) | UNSUPPORTED_FEATURE
    event = take_event(held.device, GATE_EVENT, &status)
    if event == NULL:
        return status
    gate[0] = event  # before `wake` can be called
    if waits.count:
        status = barrier(queue, waits)
    if status == 0 and wake != NULL:
        arrival = new Arrival(wake, data)
        status = ze.CommandListAppendHostFunction(held.list, Arrival.arrive, arrival, NULL, NULL, 0, NULL)
        if status != 0:
            del arrival
            arrival = NULL
    if status == 0:
        status = ze.CommandListAppendWaitOnEvents(held.list, 1, &event.handle)
        waited_for = status == 0
    if status == 0:
        status = signal(held, HOST_EVENT, &passed)
    if status == 0:
        held.device.lock.lock()  # the gate may meanwhile have been opened and retired
        event.passed = passed
        held.device.lock.unlock()
    else:
        gate[0] = NULL
        if waited_for:
            ze.EventHostSignal(event.handle)  # or the wait that was submitted holds the queue for ever
            retire_gate(event)
        else:
            release_event_reference(event)
    if arrival != NULL:
        arrival.settle(status == 0)
    return status


cdef Status open_gate(void* gate, bint failed) noexcept nogil:
    """Open a gate. Level Zero cannot fail the commands behind it: they run even if `failed`."""
    return ze.EventHostSignal((<ZeEvent*> gate).handle)


# -- graphs


cdef Status new_recording(void* queue, bint changeable, void** recording) noexcept nogil:
    """Make a list that can be appended to any immediate list of its ordinal, and again while it still runs."""
    cdef ZeDevice* device = (<ZeQueue*> queue).device
    cdef ListDesc desc
    cdef MutableListDesc mutable
    cdef ZeRecording* made
    cdef void* list = NULL
    cdef Status status
    recording[0] = NULL
    if ze.CommandListImmediateAppendCommandListsExp == NULL:
        return 0
    if changeable and (
        ze.CommandListGetNextCommandIdExp == NULL or ze.CommandListUpdateMutableCommandsExp == NULL
    ):
        return 0
    desc.ordinal = (<ZeQueue*> queue).ordinal
    desc.flags = LIST_IN_ORDER
    if changeable:
        desc.next = &mutable
    status = ze.CommandListCreate(device.context.handle, device.handle, &desc, &list)
    if status != 0:
        return status
    made = new ZeRecording()
    made.list = list
    made.changeable = changeable
    made.device = device
    device.references.fetch_add(1, memory_order_relaxed)
    recording[0] = made
    return 0


cdef Status name_command(ZeRecording* recording) noexcept nogil:
    """Have the driver name the launch that comes next, so that it can be changed."""
    cdef CommandIdDesc desc
    cdef uint64_t name = 0
    cdef Status status
    desc.flags = CHANGES_ARGUMENTS | CHANGES_GROUPS
    status = ze.CommandListGetNextCommandIdExp(recording.list, &desc, &name)
    if status == 0:
        recording.ids.push_back(name)
    return status


cdef Status add_command(
    void* recording, const RecordedCommand* command, const uint32_t* after, uint32_t count
) noexcept nogil:
    """Append to the list, which is in order, and gets copies of the kernel's arguments."""
    cdef void* list = (<ZeRecording*> recording).list
    cdef ZeKernel* kernel
    cdef Status status
    if command.kind == LAUNCH_COMMAND:
        kernel = <ZeKernel*> command.kernel
        status = set_group(kernel, &command.geometry)
        if status == 0 and (<ZeRecording*> recording).changeable:
            status = name_command(<ZeRecording*> recording)
        if status != 0:
            return status
        return ze.CommandListAppendLaunchKernel(list, kernel.handle, command.geometry.groups, NULL, 0, NULL)
    if (<ZeRecording*> recording).changeable:
        (<ZeRecording*> recording).ids.push_back(0)
    if command.kind == COPY_COMMAND:
        return ze.CommandListAppendMemoryCopy(
            list, <void*> <uintptr_t> command.to.address, <const void*> <uintptr_t> command.source.address,
            command.nbytes, NULL, 0, NULL)
    return ze.CommandListAppendMemoryFill(
        list, <void*> <uintptr_t> command.to.address, command.pattern, command.pattern_size, command.nbytes, NULL, 0,
        NULL)


cdef Status end_recording(void* recording) noexcept nogil:
    return ze.CommandListClose((<ZeRecording*> recording).list)


cdef Status change(void* recording, const Change* changes, size_t count) noexcept nogil:
    cdef ZeRecording* changed = <ZeRecording*> recording
    cdef ChangesDesc desc
    cdef ArgumentChange* argument
    cdef GroupsChange* groups
    cdef Status status
    cdef size_t i
    desc.next = NULL
    changed.arguments.resize(count)
    changed.groups.resize(count)
    for i in range(count):
        if changes[i].kind == CHANGED_GROUPS:
            groups = &changed.groups[i]
            groups.next = desc.next
            groups.command = changed.ids[changes[i].command]
            groups.groups = <const uint32_t*> changes[i].value
            desc.next = groups
            continue
        argument = &changed.arguments[i]
        argument.next = desc.next
        argument.command = changed.ids[changes[i].command]
        argument.index = changes[i].index
        if changes[i].kind == CHANGED_POINTER:
            argument.size = sizeof(void*)
            argument.value = &(<const Memory*> changes[i].value).address
            if (<const Memory*> changes[i].value).address == 0:
                argument.value = NULL
        else:
            argument.size = changes[i].size
            argument.value = changes[i].value
        desc.next = argument
    status = ze.CommandListUpdateMutableCommandsExp(changed.list, &desc)
    return end_recording(recording) if status == 0 else status


cdef Status replay(void* queue, void* recording, Waits waits) noexcept nogil:
    return ze.CommandListImmediateAppendCommandListsExp(
        (<ZeQueue*> queue).list, 1, &(<ZeRecording*> recording).list, NULL, to_handles(queue, waits), waits.events)


# -- the host's side


cdef Status poll(void* queue, bint* done) noexcept nogil:
    cdef Status status = ze.CommandListHostSynchronize((<ZeQueue*> queue).list, 0)
    done[0] = status == 0
    return 0 if <uint32_t> status == NOT_READY else status


cdef Status wait_events(void* context, Waits events, Interrupted interrupted) noexcept nogil:
    cdef ZeEvent* event
    cdef uint32_t i, left = 0
    if events.count == 1 and (<ZeEvent*> events.events[0]).kind != DEVICE_EVENT:
        return wait_for_event(<ZeEvent*> events.events[0], interrupted)
    for i in range(events.count):
        event = <ZeEvent*> events.events[i]
        if event.kind == DEVICE_EVENT or event_status(event) != DONE:  # the host cannot ask those for the device alone
            events.events[left] = event
            left += 1
    events.count = left
    return join(<ZeDevice*> context, events, interrupted) if left else 0


cdef Status wait_for_event(ZeEvent* event, Interrupted interrupted) noexcept nogil:
    # Synchronize with an event, not with the list: nobody may append to a list during its host synchronize, and forebay
    # must not hold a lock while the host waits.
    cdef Status status = NOT_READY
    while <uint32_t> status == NOT_READY:
        status = ze.EventHostSynchronize(event.handle, UINT64_MAX if interrupted == NULL else WAIT_SLICE)
        if <uint32_t> status == NOT_READY and interrupted != NULL and interrupted():
            return INTERRUPTED
    return status


cdef Status join(ZeDevice* device, Waits events, Interrupted interrupted) noexcept nogil:
    """Wait for all these, by one event of a private list: on a user's list the waits would block later work there, and
    on a list that two waits share the second would wait for what the first waits for.
    """
    cdef vector[ZeQueue*] awaited
    cdef ZeEvent* joined = NULL
    cdef Status status = 0
    cdef ZeQueue* list = take_join(device, &status)
    cdef uint32_t i
    if list == NULL:
        return status
    for i in range(events.count):  # before the driver overwrites the list
        if (<ZeEvent*> events.events[i]).queue != NULL:
            awaited.push_back((<ZeEvent*> events.events[i]).queue)
    status = barrier(list, events)
    if status == 0:
        status = signal(list, HOST_EVENT, &joined)
        if status == 0:
            status = wait_for_event(joined, interrupted)
        if status == INTERRUPTED:
            leave_join(list, joined, awaited)
            return status
        # It must not still wait for other lists when those end, nor hold up the next wait.
        if status != 0 and ze.CommandListHostSynchronize(list.list, UINT64_MAX) != 0:
            leave_join(list, joined, awaited)
            return status
        if joined != NULL:
            release_event_reference(joined)
    device.lock.lock()
    device.joins.push_back(list)  # it is idle
    device.lock.unlock()
    return status


cdef Answer event_status(void* event) noexcept nogil:
    cdef Status status = ze.EventQueryStatus((<ZeEvent*> event).handle)
    if status == 0:
        return DONE
    if <uint32_t> status == NOT_READY:
        return NOT_YET
    if <uint32_t> status == DEVICE_LOST:  # with all commands
        return -<Answer> DEVICE_LOST
    return status


cpdef double ticks_between(uint64_t first, uint64_t second, uint64_t mask) noexcept nogil:
    """Ticks of a clock with the bits of `mask`, which wraps after minutes: the shorter way round."""
    cdef uint64_t ticks = (second - first) & mask
    return <double> ticks if ticks <= mask >> 1 else -<double> ((first - second) & mask)


cdef Status elapsed(void* first, void* second, double* nanoseconds) noexcept nogil:
    cdef ZeDevice* device = (<ZeEvent*> first).device
    cdef KernelTimestamps begin
    cdef KernelTimestamps end
    cdef Status status = ze.EventQueryKernelTimestamp((<ZeEvent*> first).handle, &begin)
    if status == 0:
        status = ze.EventQueryKernelTimestamp((<ZeEvent*> second).handle, &end)
    if status == 0:
        nanoseconds[0] = device.nanoseconds_per_tick * ticks_between(
            begin.all.end, end.all.end, device.timestamp_mask)
    return status


cdef Status bridge(void* context, void* event, void** bridged) noexcept nogil:
    """Devices of one driver share a context, so their lists can wait for each other's events directly."""
    cdef ZeEvent* of_other = <ZeEvent*> event
    if of_other.device.context != (<ZeDevice*> context).context:
        return (<Status> CALL_CommandListAppendWaitOnEvents << 32) | UNSUPPORTED_FEATURE
    bridged[0] = retain_event(of_other)
    return 0


cdef void release_event(void* event) noexcept nogil:
    if (<ZeEvent*> event).kind == GATE_EVENT:
        retire_gate(<ZeEvent*> event)
    else:
        release_event_reference(<ZeEvent*> event)


cdef void release_kernel(void* kernel) noexcept nogil:
    cdef ZeKernel* released = <ZeKernel*> kernel
    ze.KernelDestroy(released.handle)
    release_module(released.module)
    del released


cdef void release_recording(void* recording) noexcept nogil:
    cdef ZeRecording* released = <ZeRecording*> recording
    ze.CommandListDestroy(released.list)
    release_device(released.device)
    del released


cdef void release_queue(void* queue) noexcept nogil:
    recycle_gates((<ZeQueue*> queue).device, False)
    end_queue(<ZeQueue*> queue)


cdef Driver table = Driver(
    scopes_matter=True, waits_read_queues=True, gates_forbid_releases=False, copies_have_events=False,
    changes_spare_running=False, recordings_branch=False, room_of_host_function=0, room_of_recorded_copy=0,
    asks_of_finish=0, launch=launch, set_pointer=set_pointer, set_value=set_value, follow=NULL, copy=copy, fill=fill,
    prefetch=NULL, marker=marker, barrier=barrier, record_shared=NULL, hold=hold, open_gate=open_gate,
    new_recording=new_recording, add_command=add_command, end_recording=end_recording, change=change, replay=replay,
    poll=poll, wait_events=wait_events, tell_failure=NULL, renew_queue=NULL, write_printed=NULL,
    event_status=event_status, elapsed=elapsed, bridge=bridge, release_event=release_event,
    release_kernel=release_kernel, release_recording=release_recording, release_queue=release_queue)

TABLE: int = <uintptr_t> &table


# -- contexts: one for all devices of a driver, so that they can wait for each other's events

cdef Lock contexts_lock
cdef vector[ZeContext*] contexts


cdef ZeContext* open_context(void* driver, Status* status) noexcept nogil:
    cdef ZeContext* context = NULL
    cdef ContextDesc desc
    cdef size_t i
    contexts_lock.lock()
    for i in range(contexts.size()):
        if contexts[i].driver == driver:
            context = contexts[i]
            context.references.fetch_add(1, memory_order_relaxed)
    if context == NULL:
        context = new ZeContext()
        context.references.store(1, memory_order_relaxed)
        context.driver = driver
        status[0] = ze.ContextCreate(driver, &desc, &context.handle)
        if status[0] != 0:
            del context
            context = NULL
        else:
            contexts.push_back(context)
    contexts_lock.unlock()
    return context


cdef void close_context(ZeContext* context) noexcept nogil:
    contexts_lock.lock()
    if context.references.fetch_sub(1, memory_order_acq_rel) == 1:
        contexts.erase(find(contexts.begin(), contexts.end(), context))
        ze.ContextDestroy(context.handle)
        del context
    contexts_lock.unlock()


# -- devices


cdef ZeDevice* new_device(void* driver, void* handle, EventMode mode, Status* status) noexcept nogil:
    cdef ZeContext* context = open_context(driver, status)
    cdef ZeDevice* device
    if context == NULL:
        return NULL
    device = new ZeDevice()
    device.references.store(1, memory_order_relaxed)
    device.context = context
    device.handle = handle
    device.mode = mode
    return device


cdef void close_device(ZeDevice* device) noexcept nogil:
    """Give back the owner's reference. The owner must have finished all work, and must submit no more."""
    cdef size_t i
    recycle_gates(device, True)
    for i in range(device.joins.size()):
        end_queue(device.joins[i])
    device.joins.clear()
    for i in range(device.left_joins.size()):
        ze.CommandListHostSynchronize(device.left_joins[i].list.list, UINT64_MAX)
        end_queue(end_wait(device.left_joins[i]))
    device.left_joins.clear()
    release_device(device)


cdef void release_device(ZeDevice* device) noexcept nogil:
    """Drop a reference. The last one goes when no queue is left and all events are idle again."""
    cdef size_t i
    cdef int kind
    if device.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    for kind in range(EVENT_KINDS):
        for i in range(device.idle[kind].size()):
            ze.EventDestroy(device.idle[kind][i].handle)
            del device.idle[kind][i]
    for i in range(device.pools.size()):
        ze.EventPoolDestroy(device.pools[i])
    close_context(device.context)
    del device


# -- queues


cdef ZeQueue* new_queue(
    ZeDevice* device, uint32_t ordinal, uint32_t index, uint32_t priority, Status* status
) noexcept nogil:
    cdef QueueDesc desc
    cdef void* list = NULL
    cdef ZeQueue* queue
    desc.ordinal = ordinal
    desc.index = index
    desc.flags = IN_ORDER
    desc.mode = ASYNCHRONOUS
    desc.priority = priority
    status[0] = ze.CommandListCreateImmediate(device.context.handle, device.handle, &desc, &list)
    if status[0] != 0:
        return NULL
    queue = new ZeQueue()
    queue.references.store(1, memory_order_relaxed)
    queue.list = list
    queue.ordinal = ordinal
    queue.device = device
    device.references.fetch_add(1, memory_order_relaxed)
    return queue


cdef ZeQueue* take_join(ZeDevice* device, Status* status) noexcept nogil:
    """An idle private list, or a new one. NULL on failure."""
    cdef ZeQueue* join = NULL
    cdef LeftJoin* left = NULL
    device.lock.lock()
    if not device.joins.empty():
        join = device.joins.back()
        device.joins.pop_back()
    elif not device.left_joins.empty() and device.left_joins.back().joined != NULL and (
        ze.EventQueryStatus(device.left_joins.back().joined.handle) == 0
    ):
        left = device.left_joins.back()
        device.left_joins.pop_back()
    device.lock.unlock()
    if left != NULL:
        join = end_wait(left)
    return join if join != NULL else new_queue(device, 0, 0, 0, status)


cdef void leave_join(ZeQueue* join, ZeEvent* joined, vector[ZeQueue*]& awaited) noexcept nogil:
    """Leave a private list whose wait goes on, though nobody waits for it any more. Takes over the event, NULL when
    there is none: such a list ends with the device.
    """
    cdef LeftJoin* left = new LeftJoin()
    cdef size_t i
    left.list = join
    left.joined = joined
    left.awaited = awaited
    for i in range(awaited.size()):
        retain_queue(awaited[i])
    join.device.lock.lock()
    join.device.left_joins.push_back(left)
    join.device.lock.unlock()


cdef ZeQueue* end_wait(LeftJoin* left) noexcept nogil:
    """Return the private list of a wait that is over."""
    cdef ZeQueue* join = left.list
    cdef size_t i
    if left.joined != NULL:
        release_event_reference(left.joined)
    for i in range(left.awaited.size()):
        release_queue_reference(left.awaited[i])
    del left
    return join


cdef ZeQueue* retain_queue(ZeQueue* queue) noexcept nogil:
    queue.references.fetch_add(1, memory_order_relaxed)
    return queue


cdef void end_queue(ZeQueue* queue) noexcept nogil:
    """Give back the owner's reference. The owner must know that all its commands are done, and must submit no more."""
    cdef vector[Held*] batches
    cdef vector[ZeEvent*] held
    cdef size_t i
    if queue.device.mode == RESET:
        # The signal of a plain event may still be running, and the event is about to be used again.
        ze.CommandListHostSynchronize(queue.list, UINT64_MAX)
        batches.swap(queue.batches)
        held.swap(queue.held)
        for i in range(batches.size()):
            release_all(batches[i].events)
            release_event_reference(batches[i].passed)
            del batches[i]
        release_all(held)
    release_queue_reference(queue)


cdef void release_queue_reference(ZeQueue* queue) noexcept nogil:
    cdef ZeDevice* device
    if queue.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    device = queue.device
    ze.CommandListDestroy(queue.list)
    del queue
    release_device(device)


cdef void release_all(vector[ZeEvent*]& events) noexcept nogil:
    cdef size_t i
    for i in range(events.size()):
        release_event_reference(events[i])
    events.clear()


# -- events


cdef ZeEvent* take_event(ZeDevice* device, EventKind kind, Status* status) noexcept nogil:
    """An idle event, or a new one, with one reference. NULL on failure."""
    cdef ZeEvent* event = NULL
    cdef bint is_new = False
    if kind == GATE_EVENT:
        recycle_gates(device, False)
    device.lock.lock()
    if not device.idle[<int> kind].empty():
        event = device.idle[<int> kind].back()
        device.idle[<int> kind].pop_back()
    else:
        is_new = True
        event = new ZeEvent()
        event.kind = kind
        status[0] = create_event(device, kind, &event.handle)
        if status[0] != 0:
            del event
            event = NULL
    device.lock.unlock()
    if event == NULL:
        return NULL
    # Reset without a query: the host cannot see whether an event for the device alone is signalled.
    if not is_new and (kind == GATE_EVENT or device.mode == RESET):
        status[0] = ze.EventHostReset(event.handle)
        if status[0] != 0:
            recycle_event(device, event)
            return NULL
    event.references.store(1, memory_order_relaxed)
    event.device = device
    device.references.fetch_add(1, memory_order_relaxed)
    return event


cdef void recycle_event(ZeDevice* device, ZeEvent* event) noexcept nogil:
    device.lock.lock()
    device.idle[<int> event.kind].push_back(event)
    device.lock.unlock()


cdef uint32_t signal_scope(EventKind kind) noexcept nogil:
    """The memory scope of the signal. Null hardware shows no difference; a real device does."""
    return SCOPE_DEVICE if kind == DEVICE_EVENT else SCOPE_HOST


cdef uint32_t wait_scope(EventKind kind) noexcept nogil:
    return SCOPE_HOST if kind == GATE_EVENT else SCOPE_DEVICE


cdef Status create_event(ZeDevice* device, EventKind kind, void** handle) noexcept nogil:
    """Make a new event. The caller holds the device's lock."""
    cdef CounterDesc desc
    if kind == GATE_EVENT or device.mode != COUNTER_BASED:
        return create_in_pool(device, kind, handle)
    desc.flags = COUNTER_IMMEDIATE
    if kind != DEVICE_EVENT:
        desc.flags |= COUNTER_HOST_VISIBLE
    if kind == TIMED_EVENT:
        desc.flags |= COUNTER_TIMESTAMPS
    desc.signal = signal_scope(kind)
    desc.wait = wait_scope(kind)
    return ze.EventCounterBasedCreate(device.context.handle, device.handle, &desc, handle)


cdef Status create_in_pool(ZeDevice* device, EventKind kind, void** handle) noexcept nogil:
    cdef EventPoolDesc pool_desc
    cdef CounterPoolDesc counter_desc
    cdef EventDesc desc
    cdef Status status
    cdef void* pool = device.newest_pool[<int> kind]
    if pool == NULL or device.pool_used[<int> kind] == POOL_SIZE:
        pool_desc.count = POOL_SIZE
        if kind != DEVICE_EVENT or device.mode == RESET:  # then the host queries and resets it
            pool_desc.flags = POOL_HOST_VISIBLE
        if kind == TIMED_EVENT:
            pool_desc.flags |= POOL_TIMESTAMPS
        if kind != GATE_EVENT and device.mode == COUNTER_BASED_POOL:
            counter_desc.flags = COUNTER_IMMEDIATE
            pool_desc.next = &counter_desc
        # NULL means all devices of the context: they may wait for each other's events
        status = ze.EventPoolCreate(device.context.handle, &pool_desc, 0, NULL, &pool)
        if status != 0:
            return status
        device.pools.push_back(pool)
        device.newest_pool[<int> kind] = pool
        device.pool_used[<int> kind] = 0
    desc.index = device.pool_used[<int> kind]
    desc.signal = signal_scope(kind)
    desc.wait = wait_scope(kind)
    status = ze.EventCreate(pool, &desc, handle)
    if status == 0:
        device.pool_used[<int> kind] += 1
    return status


cdef ZeEvent* retain_event(ZeEvent* event) noexcept nogil:
    event.references.fetch_add(1, memory_order_relaxed)
    return event


cdef void release_event_reference(ZeEvent* event) noexcept nogil:
    cdef ZeDevice* device
    if event.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    device = event.device
    if device.mode == RESET and event.kind != GATE_EVENT:
        ze.EventHostReset(event.handle)  # a failure here is harmless: take_event resets it again
    set_queue(event, NULL)
    recycle_event(device, event)
    release_device(device)


cdef void set_queue(ZeEvent* event, ZeQueue* queue) noexcept nogil:
    """Retain the queue that signals the event: a query of the event reads that queue's counter.

    Intel's driver (26.27) also refers to the list of a plain event until the event is reset. If the list is destroyed
    earlier, the heap is corrupted.
    """
    cdef ZeQueue* before = event.queue
    if queue != NULL:
        retain_queue(queue)
    event.queue = queue
    if before != NULL:
        release_queue_reference(before)


# -- when events may be used again


cdef void retire_gate(ZeEvent* gate) noexcept nogil:
    """Note that the gate is open. It can be used again once its queue is past it."""
    gate.device.lock.lock()
    gate.device.closing_gates.push_back(gate)
    gate.device.lock.unlock()


cdef void recycle_gates(ZeDevice* device, bint all_done) noexcept nogil:
    cdef vector[ZeEvent*] passed
    cdef size_t i, kept = 0
    device.lock.lock()
    for i in range(device.closing_gates.size()):
        if all_done or device.closing_gates[i].passed != NULL and (
            ze.EventQueryStatus(device.closing_gates[i].passed.handle) == 0
        ):
            passed.push_back(device.closing_gates[i])
        else:
            device.closing_gates[kept] = device.closing_gates[i]
            kept += 1
    device.closing_gates.resize(kept)
    device.lock.unlock()
    for i in range(passed.size()):
        if passed[i].passed != NULL:
            release_event_reference(passed[i].passed)
            passed[i].passed = NULL
        release_event_reference(passed[i])


cdef Status hold_events(ZeQueue* queue) noexcept nogil:
    """RESET mode: release plain events once every command that signals or waits for them has run.

    The queue keeps the events of its commands. From time to time it signals one more event; once that is done, the kept
    ones are too. The core holds the queue's lock.
    """
    cdef Held* batch
    cdef ZeEvent* passed
    cdef Status status = 0
    while not queue.batches.empty() and ze.EventQueryStatus(queue.batches.front().passed.handle) == 0:
        batch = queue.batches.front()
        queue.batches.erase(queue.batches.begin())
        release_all(batch.events)
        release_event_reference(batch.passed)
        del batch
    if queue.held.size() < HELD_AT_MOST:
        return 0
    passed = take_event(queue.device, HOST_EVENT, &status)
    if passed == NULL:
        return status
    status = ze.CommandListAppendSignalEvent(queue.list, passed.handle)
    if status != 0:
        release_event_reference(passed)
        return status
    batch = new Held()
    batch.passed = passed
    batch.events.swap(queue.held)
    queue.batches.push_back(batch)
    return 0


# -- modules and kernels: a plan may keep a kernel for longer than anybody keeps the program


cdef ZeModule* new_module(ZeDevice* device, void* handle) noexcept nogil:
    cdef ZeModule* module = new ZeModule()
    module.references.store(1, memory_order_relaxed)
    module.handle = handle
    module.device = device
    device.references.fetch_add(1, memory_order_relaxed)
    return module


cdef ZeModule* retain_module(ZeModule* module) noexcept nogil:
    module.references.fetch_add(1, memory_order_relaxed)
    return module


cdef void release_module(ZeModule* module) noexcept nogil:
    cdef ZeDevice* device = module.device
    if module.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    ze.ModuleDestroy(module.handle)
    del module
    release_device(device)


# -- devices and programs as Python objects: each is destroyed with its last reference


@cython.no_gc_clear
cdef class DeviceHandle:
    """A device in the context that it shares with others of its driver. It takes the driver's handles, and three facts
    as `ZeNative` has them: `counter_based`, and those of timestamps.
    """

    def __init__(
        self, uintptr_t driver, uintptr_t device, mode: str, double nanoseconds_per_tick, int timestamp_bits
    ) -> None:
        cdef Status status = 0
        self.device = new_device(<void*> driver, <void*> device, MODES[mode], &status)
        check(status, "opening the device")
        self.device.nanoseconds_per_tick = nanoseconds_per_tick
        self.device.timestamp_mask = <uint64_t> -1 if timestamp_bits >= 64 else (<uint64_t> 1 << timestamp_bits) - 1

    def __dealloc__(self):
        if self.device != NULL and not is_forked():
            close_device(self.device)

    @property
    def address(self) -> int:
        """The address of the ZeDevice, which is the context handle for the table of operations."""
        return <uintptr_t> self.device

    def create_queue(self, uint32_t ordinal, uint32_t index, uint32_t priority) -> tuple[int, int]:
        """An in-order immediate command list: (the driver's handle, the operations' handle, which the caller owns)."""
        cdef Status status = 0
        cdef ZeQueue* queue = new_queue(self.device, ordinal, index, priority, &status)
        check(status, "making a queue")
        return <uintptr_t> queue.list, <uintptr_t> queue

    def makes_events(self) -> bool:
        """Whether the driver makes counter-based events."""
        cdef Status status = 0
        cdef ZeEvent* event = NULL
        if ze.EventCounterBasedCreate != NULL:
            event = take_event(self.device, DEVICE_EVENT, &status)
        if event != NULL:
            release_event_reference(event)
        return event != NULL


cdef class ZeProgram:
    """A program, compiled from a native binary or from SPIR-V. Check the header of SPIR-V first: a wrong one makes the
    driver's compiler end the process.

    Raises `BuildError` with the compiler's log if the program does not build. Blocks while it compiles.
    """

    cdef ZeModule* module
    cdef DeviceHandle device

    def __init__(self, DeviceHandle device not None, bytes binary not None, bint native, str options="") -> None:
        cdef ModuleDesc desc
        cdef bytes encoded = options.encode()
        cdef void* handle = NULL
        cdef void* log = NULL
        cdef Status status
        desc.format = FORMAT_NATIVE if native else FORMAT_SPIRV
        desc.size = len(binary)
        desc.input = <const uint8_t*> <const char*> binary
        desc.options = encoded
        self.device = device
        with nogil:
            status = ze.ModuleCreate(device.device.context.handle, device.device.handle, &desc, &handle, &log)
        if status == 0:
            self.module = new_module(device.device, handle)
        text = read_log(log)
        if status != 0:
            call, code, name = explain(status)
            if code in OUT_OF_MEMORY:
                check(status, "building a program")
            raise BuildError(f"{call} failed: {name}\n{text}", log=text)

    def __dealloc__(self):
        if self.module != NULL and not is_forked():
            release_module(self.module)

    def native_binary(self) -> bytes:
        """The machine code that the compiler made."""
        cdef size_t size = 0
        check(ze.ModuleGetNativeBinary(self.module.handle, &size, NULL), "native binary")
        cdef bytearray binary = bytearray(size)
        if size:
            check(ze.ModuleGetNativeBinary(self.module.handle, &size, <uint8_t*> <char*> binary), "native binary")
        return bytes(binary)

    def variable(self, str name) -> ForeignMemory | None:
        """The memory of a variable, which keeps the program; None if no variable has this name."""
        cdef bytes encoded = name.encode()
        cdef size_t nbytes = 0
        cdef void* address = NULL
        cdef Status status = ze.ModuleGetGlobalPointer(self.module.handle, encoded, &nbytes, &address)
        if <uint32_t> status == INVALID_GLOBAL_NAME:
            return None
        check(status, f"variable {name!r}")
        return ForeignMemory(self, <uintptr_t> address, nbytes)

    def limits(self, str name) -> tuple[int, tuple[int, int, int], int]:
        """A kernel's (largest number of work-items in a group, or 0; required group size, or zeros; bytes of its own
        local memory).
        """
        cdef void* kernel = self.new_kernel(name)
        cdef KernelProperties properties
        cdef GroupLimits group
        cdef Status status
        properties.next = &group
        status = ze.KernelGetProperties(kernel, &properties)
        ze.KernelDestroy(kernel)
        check(status, f"properties of kernel {name!r}")
        return group.items, tuple(properties.required_group[i] for i in range(3)), properties.local_bytes

    def cooperative_groups(self, str name, tuple block, list local_parameters, size_t local_bytes) -> int:
        """How many groups of this size a device runs at once, as the driver suggests it. The last of the parameters
        that are local memory has so many bytes.
        """
        cdef void* kernel = self.new_kernel(name)
        cdef uint32_t count = 0
        cdef uint32_t x = block[0], y = block[1], z = block[2]
        cdef Status status = ze.KernelSetGroupSize(kernel, x, y, z)
        cdef uint32_t last
        if status == 0 and local_parameters and local_bytes:
            last = local_parameters[-1]
            status = ze.KernelSetArgumentValue(kernel, last, local_bytes, NULL)
        if status == 0:
            status = ze.KernelSuggestMaxCooperativeGroupCount(kernel, &count)
        ze.KernelDestroy(kernel)
        check(status, f"kernel {name!r} in groups of {block}")
        return count

    cdef void* new_kernel(self, str name) except NULL:
        cdef KernelDesc desc
        cdef bytes encoded = name.encode()
        cdef void* kernel = NULL
        desc.name = encoded
        check(ze.KernelCreate(self.module.handle, &desc, &kernel), f"kernel {name!r}")
        return kernel

    def create_kernel(self, str name, bint follows_pointers) -> int:
        """The operations' handle of a new kernel object, which the caller owns."""
        cdef void* handle = self.new_kernel(name)
        cdef Status status = 0
        cdef ZeKernel* kernel
        if follows_pointers:
            status = ze.KernelSetIndirectAccess(handle, ALL_MEMORY)
            if status != 0:
                ze.KernelDestroy(handle)
                check(status, f"kernel {name!r}")
        kernel = new ZeKernel()
        kernel.handle = handle
        kernel.module = retain_module(self.module)
        return <uintptr_t> kernel


cdef str read_log(void* log):
    cdef size_t size = 0
    if log == NULL:
        return ""
    cdef bytearray text = bytearray()
    if ze.ModuleBuildLogGetString(log, &size, NULL) == 0 and size:
        text = bytearray(size)
        ze.ModuleBuildLogGetString(log, &size, text)
    ze.ModuleBuildLogDestroy(log)
    return bytes(text).rstrip(b"\0").decode(errors="replace").strip()


@cython.no_gc_clear  # freeing needs the device
cdef class ZeMemory(NativeMemory):
    """Unified shared memory, freed with this object. Drop the last reference only when the device is done with it."""

    cdef DeviceHandle device

    def __init__(self, DeviceHandle device not None, size_t nbytes, str usm_type="device") -> None:
        cdef DeviceAllocDesc of_device
        cdef HostAllocDesc of_host
        cdef void* context = device.device.context.handle
        cdef void* address = NULL
        cdef Status status
        cdef bint of_both = usm_type == "shared", on_host = usm_type == "host"
        self.device = device
        self.nbytes = nbytes
        self.usm_type = usm_type
        with nogil:
            if on_host:
                status = ze.MemAllocHost(context, &of_host, nbytes, ALIGNMENT, &address)
            elif of_both:
                status = ze.MemAllocShared(
                    context, &of_device, &of_host, nbytes, ALIGNMENT, device.device.handle, &address)
            else:
                status = ze.MemAllocDevice(context, &of_device, nbytes, ALIGNMENT, device.device.handle, &address)
        check(status, f"{nbytes} bytes of {usm_type} memory")
        self.address = <uintptr_t> address

    def __dealloc__(self):
        if self.address and not is_forked():
            with nogil:
                ze.MemFree(self.device.device.context.handle, <void*> self.address)
