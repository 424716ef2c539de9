"""The Level Zero side of the table of operations (`forebay.core.driver`), and what is behind its handles.

The functions come first, with the names of calls and results for errors; then the operations; then devices, programs
and memory as Python objects.
"""

import ctypes

cimport cython
from libc.stdint cimport UINT64_MAX, uint8_t, uint32_t, uint64_t, uintptr_t
from libcpp.memory cimport unique_ptr

from forebay.core.driver cimport (
    CHANGED_GROUPS, CHANGED_POINTER, COPY_COMMAND, DONE, FOR_HOST, INTERRUPTED, LAUNCH_COMMAND, NOT_YET, TIMED, Answer,
    Arrival, Change, RecordedCommand, Driver, Geometry, Interrupted, Memory, Status, Waits, HostCallback
)
from forebay.core.ownership cimport Ref
from forebay.core.process cimport is_forked
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
    LIST_IN_ORDER = 1 << 3  # of a list's
    ALL_MEMORY = 7  # ze_kernel_indirect_access_flags_t: of the host, of devices, and shared
    FORMAT_SPIRV = 0
    FORMAT_NATIVE = 1
    ALIGNMENT = 128  # of memory: that of the largest element type, double16

cdef extern from *:
    """
    namespace forebay_ze { Calls ze; }
    """

cdef extern from "queues/levelzero/objects.hpp" namespace "forebay_ze":
    Calls ze

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


# -- the launch path


cdef inline uint32_t to_handles(void* queue, Waits waits) noexcept nogil:
    """Replace forebay's events in the wait list by the driver's handles, and return their number."""
    cdef uint32_t i
    if waits.count and (<ZeQueue*> queue).device.get().mode == RESET:
        for i in range(waits.count):
            (<ZeQueue*> queue).held.share(<ZeEvent*> waits.events[i])
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


cdef Status begin(ZeQueue* queue, Ref[ZeEvent]& made, void** event, void** handle) noexcept nogil:
    """Make the event that the next command signals, and give its handle too; none where `event` is NULL."""
    cdef Status status = queue.event_to_signal(HOST_EVENT, made) if event != NULL else 0
    handle[0] = made.get().handle if made.get() != NULL else NULL
    return status


cdef inline Status conclude(Status status, Ref[ZeEvent]& made, void** event) noexcept nogil:
    """Give the caller the event, unless the command that signals it was refused."""
    if status == 0 and event != NULL:
        event[0] = made.take()
    return status


cdef Status copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Ref[ZeEvent] made
    cdef void* handle
    cdef Status status = begin(<ZeQueue*> queue, made, event, &handle)
    if status == 0:
        status = ze.CommandListAppendMemoryCopy(
            (<ZeQueue*> queue).list, <void*> <uintptr_t> to.address, <const void*> <uintptr_t> source.address, nbytes,
            handle, to_handles(queue, waits), waits.events)
    return conclude(status, made, event)


cdef Status fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Ref[ZeEvent] made
    cdef void* handle
    cdef Status status = begin(<ZeQueue*> queue, made, event, &handle)
    if status == 0:
        status = ze.CommandListAppendMemoryFill(
            (<ZeQueue*> queue).list, <void*> <uintptr_t> to.address, pattern, pattern_size, nbytes, handle,
            to_handles(queue, waits), waits.events)
    return conclude(status, made, event)


cdef Status marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    # An immediate list submits at once, so there is nothing to flush.
    cdef EventKind kind = TIMED_EVENT if use & TIMED else HOST_EVENT if use & FOR_HOST else DEVICE_EVENT
    cdef Ref[ZeEvent] made
    cdef Status status = barrier(queue, waits) if waits.count else 0
    if status == 0:
        status = (<ZeQueue*> queue).signal(kind, made)
    return conclude(status, made, event)


cdef Status barrier(void* queue, Waits waits) noexcept nogil:
    return ze.CommandListAppendWaitOnEvents((<ZeQueue*> queue).list, to_handles(queue, waits), waits.events)


cdef Status hold(void* queue, void* context, Waits waits, HostCallback wake, void* data, void** gate) noexcept nogil:
    cdef ZeQueue* held = <ZeQueue*> queue
    cdef Ref[ZeEvent] made
    cdef ZeEvent* event
    cdef Arrival* arrival = NULL
    cdef bint waited_for = False
    cdef Status status
    if wake != NULL and ze.CommandListAppendHostFunction == NULL:
        return (<Status> CALL_CommandListAppendHostFunction << 32) | UNSUPPORTED_FEATURE
    status = held.device.get().take_event(GATE_EVENT, made)
    if status != 0:
        return status
    gate[0] = event = made.get()  # before `wake` can be called
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
        status = held.signal(HOST_EVENT, event.passed)
    if status == 0:
        made.take()
    else:
        gate[0] = NULL
        if waited_for:
            ze.EventHostSignal(event.handle)  # or the wait that was submitted holds the queue for ever
            held.device.get().retire_gate(made)
    if arrival != NULL:
        arrival.settle(status == 0)
    return status


cdef Status open_gate(void* gate, bint failed) noexcept nogil:
    """Open a gate. Level Zero cannot fail the commands behind it: they run even if `failed`."""
    return ze.EventHostSignal((<ZeEvent*> gate).handle)


# -- graphs


cdef Status new_recording(void* queue, bint changeable, void** recording) noexcept nogil:
    """Make a list that can be appended to any immediate list of its ordinal, and again while it still runs."""
    cdef ZeDevice* device = (<ZeQueue*> queue).device.get()
    cdef ListDesc desc
    cdef MutableListDesc mutable
    cdef unique_ptr[ZeRecording] made
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
    made.reset(new ZeRecording((<ZeQueue*> queue).device, changeable))
    status = ze.CommandListCreate(device.context.get().handle, device.handle, &desc, &made.get().list)
    if status == 0:
        recording[0] = made.release()
    return status


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
    # Synchronize with an event, not with the list: nothing is appended during a list's host synchronize, and forebay
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
    cdef ZeJoin join
    cdef ZeQueue* list
    cdef Status status = device.take_join(join)
    cdef uint32_t i
    if status != 0:
        return status
    list = join.list.get()
    for i in range(events.count):  # before the driver overwrites the list
        join.awaited.share((<ZeEvent*> events.events[i]).queue.get())
    status = barrier(list, events)
    if status == 0:
        status = list.signal(HOST_EVENT, join.joined)
        if status == 0:
            status = wait_for_event(join.joined.get(), interrupted)
        # It must not still wait for other lists when those end, nor hold up the next wait.
        if status == INTERRUPTED or status != 0 and ze.CommandListHostSynchronize(list.list, UINT64_MAX) != 0:
            device.leave_join(join)
            return status
    device.keep_join(join)
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
    cdef ZeDevice* device = (<ZeEvent*> first).device.get()
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
    if of_other.device.get().context != (<ZeDevice*> context).context:
        return (<Status> CALL_CommandListAppendWaitOnEvents << 32) | UNSUPPORTED_FEATURE
    bridged[0] = Ref[ZeEvent].share(of_other).take()
    return 0


cdef void destroy_event(void* event) noexcept nogil:
    cdef Ref[ZeEvent] released = Ref[ZeEvent].adopt(<ZeEvent*> event)
    if released.get().kind == GATE_EVENT:
        released.get().device.get().retire_gate(released)


cdef void destroy_kernel(void* kernel) noexcept nogil:
    cdef ZeKernel* released = <ZeKernel*> kernel
    del released


cdef void destroy_recording(void* recording) noexcept nogil:
    cdef ZeRecording* released = <ZeRecording*> recording
    del released


cdef void destroy_queue(void* queue) noexcept nogil:
    cdef Ref[ZeQueue] released = Ref[ZeQueue].adopt(<ZeQueue*> queue)
    released.get().device.get().recycle_gates(False)
    released.get().end()


cdef Driver table = Driver(
    scopes_matter=True, waits_read_queues=True, gates_forbid_releases=False, copies_have_events=False,
    changes_spare_running=False, recordings_branch=False, room_of_host_function=0, room_of_recorded_copy=0,
    asks_of_finish=0, launch=launch, set_pointer=set_pointer, set_value=set_value, follow=NULL, copy=copy, fill=fill,
    prefetch=NULL, marker=marker, barrier=barrier, record_shared=NULL, hold=hold, open_gate=open_gate,
    new_recording=new_recording, add_command=add_command, end_recording=end_recording, change=change, replay=replay,
    poll=poll, wait_events=wait_events, tell_failure=NULL, renew_queue=NULL, write_printed=NULL,
    event_status=event_status, elapsed=elapsed, bridge=bridge, destroy_event=destroy_event,
    destroy_kernel=destroy_kernel, destroy_recording=destroy_recording, destroy_queue=destroy_queue)

TABLE: int = <uintptr_t> &table


# -- devices and programs as Python objects: each is destroyed with its last reference


@cython.no_gc_clear
cdef class DeviceHandle:
    """A device in the context that it shares with others of its driver. It takes the driver's handles, and three facts
    as `ZeNative` has them: `counter_based`, and those of timestamps.
    """

    cdef Ref[ZeDevice] device
    cdef object __weakref__

    def __init__(
        self, uintptr_t driver, uintptr_t device, mode: str, double nanoseconds_per_tick, int timestamp_bits
    ) -> None:
        check(ZeDevice.open(<void*> driver, <void*> device, MODES[mode], self.device), "opening the device")
        self.device.get().nanoseconds_per_tick = nanoseconds_per_tick
        self.device.get().timestamp_mask = (
            <uint64_t> -1 if timestamp_bits >= 64 else (<uint64_t> 1 << timestamp_bits) - 1)

    def __dealloc__(self):
        if is_forked():
            self.device.take()
        elif self.device.get() != NULL:
            self.device.get().close()
            self.device.clear()  # here, or an error of Python that is on its way is set while the driver is called

    @property
    def address(self) -> int:
        """The address of the ZeDevice, which is the context handle for the table of operations."""
        return <uintptr_t> self.device.get()

    def create_queue(self, uint32_t ordinal, uint32_t index, uint32_t priority) -> tuple[int, int]:
        """An in-order immediate command list: (the driver's handle, the operations' handle, which the caller owns)."""
        cdef Ref[ZeQueue] queue
        check(ZeQueue.create(self.device.get(), ordinal, index, priority, queue), "making a queue")
        return <uintptr_t> queue.get().list, <uintptr_t> queue.take()

    def makes_events(self) -> bool:
        """Whether the driver makes counter-based events."""
        cdef Ref[ZeEvent] event
        return ze.EventCounterBasedCreate != NULL and self.device.get().take_event(DEVICE_EVENT, event) == 0

    def list_flags(self, uint32_t ordinal) -> int | None:
        """The flags of an in-order list that is made and ended; None where the driver does not report them."""
        cdef Ref[ZeQueue] queue
        cdef uint32_t flags = 0
        check(ZeQueue.create(self.device.get(), ordinal, 0, 0, queue))
        if ze.CommandListImmediateGetFlags == NULL or ze.CommandListImmediateGetFlags(queue.get().list, &flags) != 0:
            return None
        return flags


cdef class ZeProgram:
    """A program, compiled from a native binary or from SPIR-V. Check the header of SPIR-V first: a wrong one makes the
    driver's compiler end the process.

    Raises `BuildError` with the compiler's log if the program does not build. Blocks while it compiles.
    """

    cdef Ref[ZeModule] module

    def __init__(self, DeviceHandle device not None, bytes binary not None, bint native, str options="") -> None:
        cdef ZeDevice* of = device.device.get()
        cdef ModuleDesc desc
        cdef bytes encoded = options.encode()
        cdef void* handle = NULL
        cdef void* log = NULL
        cdef Status status
        desc.format = FORMAT_NATIVE if native else FORMAT_SPIRV
        desc.size = len(binary)
        desc.input = <const uint8_t*> <const char*> binary
        desc.options = encoded
        with nogil:
            status = ze.ModuleCreate(of.context.get().handle, of.handle, &desc, &handle, &log)
        if status == 0:
            self.module = Ref[ZeModule].adopt(new ZeModule(device.device, handle))
        text = read_log(log)
        if status != 0:
            call, code, name = explain(status)
            if code in OUT_OF_MEMORY:
                check(status, "building a program")
            raise BuildError(f"{call} failed: {name}\n{text}", log=text)

    def __dealloc__(self):
        if is_forked():
            self.module.take()
        self.module.clear()

    def native_binary(self) -> bytes:
        """The machine code that the compiler made."""
        cdef size_t size = 0
        check(ze.ModuleGetNativeBinary(self.module.get().handle, &size, NULL), "native binary")
        cdef bytearray binary = bytearray(size)
        if size:
            check(ze.ModuleGetNativeBinary(self.module.get().handle, &size, <uint8_t*> <char*> binary), "native binary")
        return bytes(binary)

    def variable(self, str name) -> ForeignMemory | None:
        """The memory of a variable, which keeps the program; None if no variable has this name."""
        cdef bytes encoded = name.encode()
        cdef size_t nbytes = 0
        cdef void* address = NULL
        cdef Status status = ze.ModuleGetGlobalPointer(self.module.get().handle, encoded, &nbytes, &address)
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
        check(ze.KernelCreate(self.module.get().handle, &desc, &kernel), f"kernel {name!r}")
        return kernel

    def create_kernel(self, str name, bint follows_pointers) -> int:
        """The operations' handle of a new kernel object, which the caller owns."""
        cdef unique_ptr[ZeKernel] kernel
        kernel.reset(new ZeKernel(self.new_kernel(name), self.module))
        if follows_pointers:
            check(ze.KernelSetIndirectAccess(kernel.get().handle, ALL_MEMORY), f"kernel {name!r}")
        return <uintptr_t> kernel.release()


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
        cdef ZeDevice* of = device.device.get()
        cdef void* context = of.context.get().handle
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
                    context, &of_device, &of_host, nbytes, ALIGNMENT, of.handle, &address)
            else:
                status = ze.MemAllocDevice(context, &of_device, nbytes, ALIGNMENT, of.handle, &address)
        check(status, f"{nbytes} bytes of {usm_type} memory")
        self.address = <uintptr_t> address

    def __dealloc__(self):
        if self.address and not is_forked():
            with nogil:
                ze.MemFree(self.device.device.get().context.get().handle, <void*> self.address)
