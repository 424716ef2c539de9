"""The Level Zero side of the table of operations (`forebay.core.driver`)."""

from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t, uintptr_t
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    CHANGED_GROUPS, CHANGED_POINTER, COPY_COMMAND, DONE, FOR_HOST, INTERRUPTED, LAUNCH_COMMAND, NOT_YET, TIMED, Answer,
    Change, Command, Driver, Geometry, Interrupted, Memory, Status, Waits, Wake
)
from forebay.core.arrivals cimport Arrival, drop_arrival, new_arrival, on_arrival, settle
from forebay.queues.levelzero.calls cimport (
    CALL_CommandListAppendHostFunction, CALL_CommandListAppendLaunchKernel, CALL_CommandListAppendMemoryCopy,
    CALL_CommandListAppendMemoryFill, CALL_CommandListAppendSignalEvent, CALL_CommandListAppendWaitOnEvents,
    CALL_CommandListClose, CALL_CommandListGetNextCommandIdExp, CALL_CommandListHostSynchronize,
    CALL_CommandListImmediateAppendCommandListsExp, CALL_CommandListUpdateMutableCommandsExp,
    CALL_EventHostSignal, CALL_EventHostSynchronize, CALL_EventQueryKernelTimestamp, CALL_EventQueryStatus,
    CALL_KernelSetArgumentValue, CALL_KernelSetGroupSize, ArgumentChange, ChangesDesc, CommandIdDesc, GroupsChange,
    KernelTimestamps, ze, ze_result_t
)
from forebay.queues.levelzero.handles cimport (
    DEVICE_EVENT, GATE_EVENT, HOST_EVENT, RESET, TIMED_EVENT, EventKind, ZeDevice, ZeEvent, ZeKernel, ZeQueue,
    ZeRecording, end_queue, give_back_join, hold_events, leave_join, new_recording as open_recording, outcome,
    recycle_gates, release_event as end_event, release_kernel as end_kernel, release_recording as end_recording,
    retain_event, retire_gate, set_passed, set_queue, take_event, take_join
)

cdef enum:
    NOT_READY = 1
    WAIT_SLICE = 50000000  # nanoseconds, after which a signal handler gets its turn
    CHANGES_ARGUMENTS = 1 << 0
    CHANGES_GROUPS = 1 << 1
    UNSUPPORTED_FEATURE = 0x78000003
    DEVICE_LOST = 0x70000001


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
    cdef Status status = outcome(CALL_KernelSetGroupSize, ze.KernelSetGroupSize(
        kernel.handle, geometry.block[0], geometry.block[1], geometry.block[2]))
    cdef int i
    for i in range(3):
        kernel.group[i] = geometry.block[i] if status == 0 else 0
    return status


cdef Status launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil:
    cdef ZeKernel* launched = <ZeKernel*> kernel
    cdef Status status
    if (
        launched.group[0] != geometry.block[0] or launched.group[1] != geometry.block[1]
        or launched.group[2] != geometry.block[2]
    ):
        status = set_group(launched, geometry)
        if status != 0:
            return status
    return outcome(CALL_CommandListAppendLaunchKernel, ze.CommandListAppendLaunchKernel(
        (<ZeQueue*> queue).list, launched.handle, geometry.groups, NULL, to_handles(queue, waits), waits.events))


cdef Status set_pointer(void* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    return outcome(CALL_KernelSetArgumentValue, ze.KernelSetArgumentValue(
        (<ZeKernel*> kernel).handle, index, sizeof(void*), &memory.address if memory.address else NULL))


cdef Status set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    return outcome(CALL_KernelSetArgumentValue, ze.KernelSetArgumentValue(
        (<ZeKernel*> kernel).handle, index, size, value))


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


cdef Status copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef ZeEvent* signalled = NULL
    cdef Status status = 0
    if event != NULL:
        signalled = event_to_signal(<ZeQueue*> queue, HOST_EVENT, &status)
        if signalled == NULL:
            return status
    status = outcome(CALL_CommandListAppendMemoryCopy, ze.CommandListAppendMemoryCopy(
        (<ZeQueue*> queue).list, <void*> <uintptr_t> to.address, <const void*> <uintptr_t> source.address, nbytes,
        signalled.handle if signalled != NULL else NULL, to_handles(queue, waits), waits.events))
    if event != NULL:
        event[0] = conclude(status, signalled)
    return status


cdef inline ZeEvent* conclude(Status status, ZeEvent* event) noexcept nogil:
    """The event; gives it back and returns NULL if the command that signals it was refused."""
    if status != 0:
        end_event(event)
        return NULL
    return event


cdef Status fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef ZeEvent* signalled = NULL
    cdef Status status = 0
    if event != NULL:
        signalled = event_to_signal(<ZeQueue*> queue, HOST_EVENT, &status)
        if signalled == NULL:
            return status
    status = outcome(CALL_CommandListAppendMemoryFill, ze.CommandListAppendMemoryFill(
        (<ZeQueue*> queue).list, <void*> <uintptr_t> to.address, pattern, pattern_size, nbytes,
        signalled.handle if signalled != NULL else NULL, to_handles(queue, waits), waits.events))
    if event != NULL:
        event[0] = conclude(status, signalled)
    return status


cdef Status signal(ZeQueue* queue, EventKind kind, ZeEvent** event) noexcept nogil:
    cdef Status status = 0
    event[0] = event_to_signal(queue, kind, &status)
    if event[0] != NULL:
        status = outcome(CALL_CommandListAppendSignalEvent, ze.CommandListAppendSignalEvent(
            queue.list, event[0].handle))
        event[0] = conclude(status, event[0])
    return status


cdef Status marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    # An immediate list submits at once, so there is nothing to flush.
    cdef EventKind kind = TIMED_EVENT if use & TIMED else HOST_EVENT if use & FOR_HOST else DEVICE_EVENT
    cdef Status status = barrier(queue, waits) if waits.count else 0
    return signal(<ZeQueue*> queue, kind, <ZeEvent**> event) if status == 0 else status


cdef Status barrier(void* queue, Waits waits) noexcept nogil:
    return outcome(CALL_CommandListAppendWaitOnEvents, ze.CommandListAppendWaitOnEvents(
        (<ZeQueue*> queue).list, to_handles(queue, waits), waits.events))


cdef Status hold(void* queue, void* context, Waits waits, Wake wake, void* data, void** gate) noexcept nogil:
    cdef ZeQueue* held = <ZeQueue*> queue
    cdef Status status = 0
    cdef ZeEvent* event
    cdef ZeEvent* passed = NULL
    cdef Arrival* arrival = NULL
    cdef bint waited_for = False
    if wake != NULL and ze.CommandListAppendHostFunction == NULL:
        return outcome(CALL_CommandListAppendHostFunction, UNSUPPORTED_FEATURE)
    event = take_event(held.device, GATE_EVENT, &status)
    if event == NULL:
        return status
    gate[0] = event  # before `wake` can be called
    if waits.count:
        status = barrier(queue, waits)
    if status == 0 and wake != NULL:
        arrival = new_arrival(wake, data)
        status = outcome(CALL_CommandListAppendHostFunction, ze.CommandListAppendHostFunction(
            held.list, on_arrival, arrival, NULL, NULL, 0, NULL))
        if status != 0:
            drop_arrival(arrival)
            arrival = NULL
    if status == 0:
        status = outcome(CALL_CommandListAppendWaitOnEvents, ze.CommandListAppendWaitOnEvents(
            held.list, 1, &event.handle))
        waited_for = status == 0
    if status == 0:
        status = signal(held, HOST_EVENT, &passed)
    if status == 0:
        set_passed(event, passed)
    else:
        gate[0] = NULL
        if waited_for:
            ze.EventHostSignal(event.handle)  # or the wait that was submitted holds the queue for ever
            retire_gate(event)
        else:
            end_event(event)
    if arrival != NULL:
        settle(arrival, status == 0)
    return status


cdef Status open_gate(void* gate, bint failed) noexcept nogil:
    """Open a gate. Level Zero cannot fail the commands behind it: they run even if `failed`."""
    return outcome(CALL_EventHostSignal, ze.EventHostSignal((<ZeEvent*> gate).handle))


# -- graphs


cdef Status new_recording(void* queue, bint changeable, void** recording) noexcept nogil:
    """Make a list that can be appended to any immediate list of its ordinal, and again while it still runs."""
    cdef Status status = 0
    recording[0] = NULL
    if ze.CommandListImmediateAppendCommandListsExp == NULL:
        return 0
    if changeable and (
        ze.CommandListGetNextCommandIdExp == NULL or ze.CommandListUpdateMutableCommandsExp == NULL
    ):
        return 0
    recording[0] = open_recording((<ZeQueue*> queue).device, (<ZeQueue*> queue).ordinal, changeable, &status)
    return status


cdef Status name_command(ZeRecording* recording) noexcept nogil:
    """Have the driver name the launch that comes next, so that it can be changed."""
    cdef CommandIdDesc desc
    cdef uint64_t name = 0
    cdef Status status
    desc.flags = CHANGES_ARGUMENTS | CHANGES_GROUPS
    status = outcome(CALL_CommandListGetNextCommandIdExp, ze.CommandListGetNextCommandIdExp(
        recording.list, &desc, &name))
    if status == 0:
        recording.ids.push_back(name)
    return status


cdef Status add_command(
    void* recording, const Command* command, const uint32_t* after, uint32_t count
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
        return outcome(CALL_CommandListAppendLaunchKernel, ze.CommandListAppendLaunchKernel(
            list, kernel.handle, command.geometry.groups, NULL, 0, NULL))
    if (<ZeRecording*> recording).changeable:
        (<ZeRecording*> recording).ids.push_back(0)
    if command.kind == COPY_COMMAND:
        return outcome(CALL_CommandListAppendMemoryCopy, ze.CommandListAppendMemoryCopy(
            list, <void*> <uintptr_t> command.to.address, <const void*> <uintptr_t> command.source.address,
            command.nbytes, NULL, 0, NULL))
    return outcome(CALL_CommandListAppendMemoryFill, ze.CommandListAppendMemoryFill(
        list, <void*> <uintptr_t> command.to.address, command.pattern, command.pattern_size, command.nbytes, NULL, 0,
        NULL))


cdef Status close_recording(void* recording) noexcept nogil:
    return outcome(CALL_CommandListClose, ze.CommandListClose((<ZeRecording*> recording).list))


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
    status = outcome(CALL_CommandListUpdateMutableCommandsExp, ze.CommandListUpdateMutableCommandsExp(
        changed.list, &desc))
    return close_recording(recording) if status == 0 else status


cdef Status replay(void* queue, void* recording, Waits waits) noexcept nogil:
    return outcome(
        CALL_CommandListImmediateAppendCommandListsExp, ze.CommandListImmediateAppendCommandListsExp(
            (<ZeQueue*> queue).list, 1, &(<ZeRecording*> recording).list, NULL, to_handles(queue, waits), waits.events))


# -- the host's side


cdef Status poll(void* queue, bint* done) noexcept nogil:
    cdef ze_result_t error = ze.CommandListHostSynchronize((<ZeQueue*> queue).list, 0)
    done[0] = error == 0
    return 0 if error == NOT_READY else outcome(CALL_CommandListHostSynchronize, error)


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
    cdef ze_result_t error = NOT_READY
    while error == NOT_READY:
        error = ze.EventHostSynchronize(event.handle, UINT64_MAX if interrupted == NULL else WAIT_SLICE)
        if error == NOT_READY and interrupted != NULL and interrupted():
            return INTERRUPTED
    return outcome(CALL_EventHostSynchronize, error)


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
            end_event(joined)
    give_back_join(list)
    return status


cdef Answer event_status(void* event) noexcept nogil:
    cdef ze_result_t error = ze.EventQueryStatus((<ZeEvent*> event).handle)
    if error == 0:
        return DONE
    if error == NOT_READY:
        return NOT_YET
    if error == DEVICE_LOST:  # with all commands
        return -<Answer> error
    return outcome(CALL_EventQueryStatus, error)


cpdef double ticks_between(uint64_t first, uint64_t second, uint64_t mask) noexcept nogil:
    """Ticks of a clock with the bits of `mask`, which wraps after minutes: the shorter way round."""
    cdef uint64_t ticks = (second - first) & mask
    return <double> ticks if ticks <= mask >> 1 else -<double> ((first - second) & mask)


cdef Status elapsed(void* first, void* second, double* nanoseconds) noexcept nogil:
    cdef ZeDevice* device = (<ZeEvent*> first).device
    cdef KernelTimestamps begin
    cdef KernelTimestamps end
    cdef ze_result_t error = ze.EventQueryKernelTimestamp((<ZeEvent*> first).handle, &begin)
    if error == 0:
        error = ze.EventQueryKernelTimestamp((<ZeEvent*> second).handle, &end)
    if error == 0:
        nanoseconds[0] = device.nanoseconds_per_tick * ticks_between(
            begin.all.end, end.all.end, device.timestamp_mask)
    return outcome(CALL_EventQueryKernelTimestamp, error)


cdef Status bridge(void* context, void* event, void** bridged) noexcept nogil:
    """Devices of one driver share a context, so their lists can wait for each other's events directly."""
    cdef ZeEvent* of_other = <ZeEvent*> event
    if of_other.device.context != (<ZeDevice*> context).context:
        return outcome(CALL_CommandListAppendWaitOnEvents, UNSUPPORTED_FEATURE)
    bridged[0] = retain_event(of_other)
    return 0


cdef void release_event(void* event) noexcept nogil:
    if (<ZeEvent*> event).kind == GATE_EVENT:
        retire_gate(<ZeEvent*> event)
    else:
        end_event(<ZeEvent*> event)


cdef void release_kernel(void* kernel) noexcept nogil:
    end_kernel(<ZeKernel*> kernel)


cdef void release_recording(void* recording) noexcept nogil:
    end_recording(<ZeRecording*> recording)


cdef void release_queue(void* queue) noexcept nogil:
    recycle_gates((<ZeQueue*> queue).device, False)
    end_queue(<ZeQueue*> queue)


cdef Driver table  # entries that are not set are NULL
table.scopes_matter = True
table.waits_read_queues = True
table.launch = launch
table.set_pointer = set_pointer
table.set_value = set_value
table.copy = copy
table.fill = fill
table.marker = marker
table.barrier = barrier
table.hold = hold
table.open_gate = open_gate
table.new_recording = new_recording
table.add_command = add_command
table.end_recording = close_recording
table.change = change
table.replay = replay
table.poll = poll
table.wait_events = wait_events
table.event_status = event_status
table.elapsed = elapsed
table.bridge = bridge
table.release_event = release_event
table.release_kernel = release_kernel
table.release_recording = release_recording
table.release_queue = release_queue


def table_address() -> int:
    """The address of the table of operations. The Device hands it to its queues."""
    return <uintptr_t> &table
