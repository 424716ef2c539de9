"""CUDA's side of the table of operations (`forebay.core.driver`)."""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from forebay.core.driver cimport (
    CHANGED_GROUPS, CHANGED_POINTER, COPY_COMMAND, DONE, INTERRUPTED, LAUNCH_COMMAND, NOT_NOW, NOT_YET, TIMED, Answer,
    Arrival, Change, Command, Driver, Geometry, Interrupted, Memory, Status, Waits, Wake
)
from forebay.queues.cuda.calls cimport (
    CALL_EventElapsedTime_v2, CALL_EventQuery, CALL_EventRecord, CALL_GraphAddKernelNode_v2, CALL_GraphAddMemcpyNode,
    CALL_GraphAddMemsetNode, CALL_GraphCreate, CALL_GraphExecKernelNodeSetParams_v2, CALL_GraphInstantiateWithFlags,
    CALL_GraphLaunch, CALL_LaunchHostFunc, CALL_LaunchKernel, CALL_MemcpyAsync, CALL_MemPrefetchAsync_v2,
    CALL_MemsetD8Async, CALL_MemsetD16Async, CALL_MemsetD32Async, CALL_StreamQuery, CALL_StreamWaitEvent,
    CALL_StreamWaitValue32_v2, CopyNode, FillNode, KernelNode, Location, cuda, cuda_result_t
)
from forebay.queues.cuda.handles cimport (
    GATE_EVENT, PLAIN_EVENT, TIMED_EVENT, CuContext, CuEvent, CuKernel, CuNode, CuQueue, CuRecording, begin_gate,
    begin_without_gates, copy_kernel, destroy_ended, end_gate, end_without_gates, enter, gates_closed, give_back_join,
    leave, open_word, outcome, place_locals,
    release_event as end_event, release_kernel as end_kernel, release_queue as end_queue,
    release_recording as end_recording, retain_event, take_event, take_join
)

cdef enum:
    NOT_READY = 600
    EQUAL = 1  # CU_STREAM_WAIT_VALUE_EQ
    UNIFIED = 4  # CU_MEMORYTYPE_UNIFIED: the driver knows where an address is
    LARGEST_PATTERN = 128
    FILL_BLOCK = 256
    FILL_GROUPS = 1024
    INVALID_VALUE = 1
    # CUmemLocationType
    ON_DEVICE = 1
    ON_HOST = 2

cdef extern from *:
    """
    #include <chrono>
    #include <thread>
    static inline std::int64_t forebay_now() {
        return std::chrono::duration_cast<std::chrono::microseconds>(
            std::chrono::steady_clock::now().time_since_epoch()).count();
    }
    static inline void forebay_rest() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }
    """
    int64_t now "forebay_now" () noexcept nogil  # microseconds
    void rest "forebay_rest" () noexcept nogil


# -- the launch path


cdef Status come_after(void* stream, Waits waits) noexcept nogil:
    """Let the stream wait for these events. If a later call is refused the waits before it stay, and harm nobody."""
    cdef Status status = 0
    cdef uint32_t i
    for i in range(waits.count):
        status = outcome(CALL_StreamWaitEvent, cuda.StreamWaitEvent(
            stream, (<CuEvent*> waits.events[i]).handle, 0))
        if status != 0:
            break
    return status


cdef Status launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil:
    cdef CuKernel* launched = <CuKernel*> kernel
    cdef Status status
    if waits.count:
        status = come_after((<CuQueue*> queue).stream, waits)
        if status != 0:
            return status
    return outcome(CALL_LaunchKernel, cuda.LaunchKernel(
        launched.function, geometry.groups[0], geometry.groups[1], geometry.groups[2], geometry.block[0],
        geometry.block[1], geometry.block[2], launched.shared, (<CuQueue*> queue).stream, launched.values.data(), NULL))


cdef Status set_pointer(void* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    (<uint64_t*> (<CuKernel*> kernel).values[index])[0] = memory.address
    return 0


cdef Status set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    cdef CuKernel* changed = <CuKernel*> kernel
    if value == NULL:
        changed.locals[index] = <uint32_t> size
        place_locals(changed)
    else:
        memcpy(changed.values[index], value, size)
    return 0


# -- other commands


cdef Status record(CuQueue* queue, bint timed, void** event) noexcept nogil:
    cdef Status status = 0
    cdef CuEvent* made = take_event(queue.context, TIMED_EVENT if timed else PLAIN_EVENT, &status)
    if made == NULL:
        return status
    status = outcome(CALL_EventRecord, cuda.EventRecord(made.handle, queue.stream))
    if status != 0:
        end_event(made)
        return status
    event[0] = made
    return 0


cdef Status copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Status status = come_after((<CuQueue*> queue).stream, waits)
    cdef CuEvent* made = NULL
    if status == 0 and event != NULL:  # before the copy, which cannot be taken back
        made = take_event((<CuQueue*> queue).context, PLAIN_EVENT, &status)
    if status == 0:
        status = outcome(CALL_MemcpyAsync, cuda.MemcpyAsync(
            to.address, source.address, nbytes, (<CuQueue*> queue).stream))
    return conclude(<CuQueue*> queue, status, made, event)


cdef Status conclude(CuQueue* queue, Status status, CuEvent* made, void** event) noexcept nogil:
    """Record the event of a command that was submitted, or was not."""
    if made == NULL:
        return status
    if status == 0:
        status = outcome(CALL_EventRecord, cuda.EventRecord(made.handle, queue.stream))
    if status == 0:
        event[0] = made
    else:
        end_event(made)
    return status


cdef inline uint32_t repeats(const void* pattern, size_t size) noexcept nogil:
    """The size of a pattern that can be filled with as a whole: 1, 2, 4, or that of this one."""
    cdef const uint32_t* words = <const uint32_t*> pattern
    cdef size_t i
    if size <= 4:
        return <uint32_t> size
    for i in range(1, size // 4):
        if words[i] != words[0]:
            return <uint32_t> size
    return 4


cdef Status fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef CuQueue* filled = <CuQueue*> queue
    cdef uint32_t size
    cdef Status status = come_after(filled.stream, waits)
    cdef CuEvent* made = NULL
    if status == 0 and event != NULL:
        made = take_event(filled.context, PLAIN_EVENT, &status)
    if status == 0:
        size = repeats(pattern, pattern_size)
        if size == 1:
            status = outcome(CALL_MemsetD8Async, cuda.MemsetD8Async(
                to.address, (<const unsigned char*> pattern)[0], nbytes, filled.stream))
        elif size == 2:
            status = outcome(CALL_MemsetD16Async, cuda.MemsetD16Async(
                to.address, (<const uint16_t*> pattern)[0], nbytes // 2, filled.stream))
        elif size == 4:
            status = outcome(CALL_MemsetD32Async, cuda.MemsetD32Async(
                to.address, (<const uint32_t*> pattern)[0], nbytes // 4, filled.stream))
        else:
            status = fill_wide(filled, to.address, pattern, size, nbytes)
    return conclude(filled, status, made, event)


cdef Status prefetch(void* queue, const Memory* memory, size_t nbytes, bint to_host, Waits waits) noexcept nogil:
    cdef CuQueue* on = <CuQueue*> queue
    cdef Location to
    cdef Status status = come_after(on.stream, waits)
    to.type = ON_HOST if to_host else ON_DEVICE
    to.id = 0 if to_host else on.context.device
    if status == 0:
        status = outcome(CALL_MemPrefetchAsync_v2, cuda.MemPrefetchAsync_v2(memory.address, nbytes, to, 0, on.stream))
    return status


cdef cppclass Fill:
    """The values of the kernel that fills with patterns which no call of the driver takes."""
    uint64_t to
    uint64_t count
    uint32_t mask
    unsigned char pattern[LARGEST_PATTERN]
    void* values[4]


cdef void set_fill(Fill* fill, uint64_t to, const void* pattern, size_t size, size_t nbytes) noexcept nogil:
    fill.to = to
    fill.count = nbytes // 4
    fill.mask = <uint32_t> (size // 4 - 1)  # a size is a power of two
    memcpy(fill.pattern, pattern, size)
    fill.values[0] = &fill.to
    fill.values[1] = &fill.count
    fill.values[2] = &fill.mask
    fill.values[3] = &fill.pattern[0]


cdef inline uint32_t groups_to_fill(size_t nbytes) noexcept nogil:
    cdef size_t groups = (nbytes // 4 + FILL_BLOCK - 1) // FILL_BLOCK
    return <uint32_t> groups if groups < FILL_GROUPS else <uint32_t> FILL_GROUPS


cdef Status fill_wide(CuQueue* queue, uint64_t to, const void* pattern, size_t size, size_t nbytes) noexcept nogil:
    cdef Fill fill
    set_fill(&fill, to, pattern, size, nbytes)
    return outcome(CALL_LaunchKernel, cuda.LaunchKernel(
        queue.context.fill, groups_to_fill(nbytes), 1, 1, FILL_BLOCK, 1, 1, 0, queue.stream, &fill.values[0], NULL))


cdef Status marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    cdef Status status = come_after((<CuQueue*> queue).stream, waits)
    return record(<CuQueue*> queue, use & TIMED, event) if status == 0 else status


cdef Status barrier(void* queue, Waits waits) noexcept nogil:
    return come_after((<CuQueue*> queue).stream, waits)


cdef Status record_shared(void* queue, void* event) noexcept nogil:
    return outcome(CALL_EventRecord, cuda.EventRecord((<CuEvent*> event).handle, (<CuQueue*> queue).stream))


cdef Status hold(void* queue, void* context, Waits waits, Wake wake, void* data, void** gate) noexcept nogil:
    cdef CuQueue* held = <CuQueue*> queue
    cdef Status status = 0
    cdef Arrival* arrival = NULL
    cdef bint waits_for_word = False
    cdef CuEvent* made = take_event(held.context, GATE_EVENT, &status)
    if made == NULL:
        return status
    begin_gate()
    gate[0] = made  # before `wake` can be called
    status = come_after(held.stream, waits)
    if status == 0 and wake != NULL:
        arrival = new Arrival(wake, data)
        status = outcome(CALL_LaunchHostFunc, cuda.LaunchHostFunc(held.stream, Arrival.arrive, arrival))
        if status != 0:
            del arrival
            arrival = NULL
    if status == 0:
        status = outcome(CALL_StreamWaitValue32_v2, cuda.StreamWaitValue32_v2(
            held.stream, <uint64_t> <uintptr_t> made.word, 1, EQUAL))
        waits_for_word = status == 0
    if status == 0:
        status = outcome(CALL_EventRecord, cuda.EventRecord(made.handle, held.stream))
    if status != 0:
        gate[0] = NULL
        end_gate()
        if waits_for_word:
            open_word(made)  # and nobody knows when the stream has read it, so it is not used again
        else:
            end_event(made)
    if arrival != NULL:
        arrival.settle(status == 0)
    return status


cdef Status open_gate(void* gate, bint failed) noexcept nogil:
    """Open a gate. CUDA cannot fail the commands behind it: they run even if `failed`."""
    open_word(<CuEvent*> gate)
    end_gate()
    return 0


# -- graphs


cdef Status new_recording(void* queue, bint changeable, void** recording) noexcept nogil:
    cdef void* graph = NULL
    cdef CuRecording* made
    cdef Status status
    if gates_closed() != 0:
        return NOT_NOW
    status = outcome(CALL_GraphCreate, cuda.GraphCreate(&graph, 0))
    if status != 0:
        return status
    made = new CuRecording()
    made.graph = graph
    made.context = (<CuQueue*> queue).context
    recording[0] = made
    return 0


cdef void set_params(CuNode* node, const Geometry* geometry) noexcept nogil:
    cdef int i
    for i in range(3):
        node.params.groups[i] = geometry.groups[i]
        node.params.block[i] = geometry.block[i]


cdef void take_values(CuNode* node, CuContext* context) noexcept nogil:
    node.params.function = node.kernel.function
    node.params.shared = node.kernel.shared
    node.params.values = node.kernel.values.data()
    node.params.context = context.handle


cdef Status add_command(
    void* recording, const Command* command, const uint32_t* after, uint32_t count
) noexcept nogil:
    """Add a node after the nodes of these commands. The driver copies a kernel's arguments; so does the recording."""
    cdef CuRecording* extended = <CuRecording*> recording
    cdef CuContext* context = extended.context
    cdef CuNode* node
    cdef Status status = enter(context)
    cdef uint32_t i
    if status != 0:
        return status
    extended.after.clear()
    for i in range(count):
        extended.after.push_back(extended.nodes[after[i]].node)
    node = new CuNode()
    if command.kind == LAUNCH_COMMAND:
        node.kernel = copy_kernel(<const CuKernel*> command.kernel)
        set_params(node, &command.geometry)
        take_values(node, context)
        status = add_kernel(extended, node, &node.params)
    elif command.kind == COPY_COMMAND:
        status = add_copy(extended, node, command)
    else:
        status = add_fill(extended, node, command)
    leave()
    if status == 0:
        extended.nodes.push_back(node)
    else:
        if node.kernel != NULL:
            end_kernel(node.kernel)
        del node
    return status


cdef Status add_kernel(CuRecording* recording, CuNode* node, const KernelNode* params) noexcept nogil:
    return outcome(CALL_GraphAddKernelNode_v2, cuda.GraphAddKernelNode_v2(
        &node.node, recording.graph, recording.after.data(), recording.after.size(), params))


cdef Status add_copy(CuRecording* recording, CuNode* node, const Command* command) noexcept nogil:
    cdef CopyNode params
    params.source.type = UNIFIED
    params.source.address = command.source.address
    params.to.type = UNIFIED
    params.to.address = command.to.address
    params.source.pitch = command.nbytes
    params.to.pitch = command.nbytes
    params.source.height = 1
    params.to.height = 1
    params.width = command.nbytes
    return outcome(CALL_GraphAddMemcpyNode, cuda.GraphAddMemcpyNode(
        &node.node, recording.graph, recording.after.data(), recording.after.size(), &params, recording.context.handle))


cdef Status add_fill(CuRecording* recording, CuNode* node, const Command* command) noexcept nogil:
    cdef uint32_t size = repeats(command.pattern, command.pattern_size)
    cdef FillNode params
    cdef KernelNode launched
    cdef Fill fill
    if size > 4:
        set_fill(&fill, command.to.address, command.pattern, size, command.nbytes)
        launched.function = recording.context.fill
        launched.groups[0] = groups_to_fill(command.nbytes)
        launched.groups[1] = launched.groups[2] = 1
        launched.block[0] = FILL_BLOCK
        launched.block[1] = launched.block[2] = 1
        launched.values = &fill.values[0]
        launched.context = recording.context.handle
        return add_kernel(recording, node, &launched)
    params.to = command.to.address
    params.size = size
    params.width = command.nbytes // size
    memcpy(&params.value, command.pattern, size)
    return outcome(CALL_GraphAddMemsetNode, cuda.GraphAddMemsetNode(
        &node.node, recording.graph, recording.after.data(), recording.after.size(), &params, recording.context.handle))


cdef Status close_recording(void* recording) noexcept nogil:
    cdef CuRecording* closed = <CuRecording*> recording
    cdef Status status
    if not begin_without_gates():
        return NOT_NOW
    status = enter(closed.context)
    if status == 0:
        destroy_ended(closed.context)
        status = outcome(CALL_GraphInstantiateWithFlags, cuda.GraphInstantiateWithFlags(
            &closed.executable, closed.graph, 0))
        leave()
    end_without_gates()
    return status


cdef Status change(void* recording, const Change* changes, size_t count) noexcept nogil:
    """Change nodes, each by one call of the driver. Launches of the recording that were submitted are not affected."""
    cdef CuRecording* changed = <CuRecording*> recording
    cdef CuNode* node
    cdef Status status = enter(changed.context)  # without a current context the driver ends the process
    cdef size_t i
    if status != 0:
        return status
    for i in range(count):
        node = changed.nodes[changes[i].command]
        if changes[i].kind == CHANGED_GROUPS:
            memcpy(node.params.groups, changes[i].value, 3 * sizeof(uint32_t))
        elif changes[i].kind == CHANGED_POINTER:
            set_pointer(node.kernel, changes[i].index, <const Memory*> changes[i].value)
        else:
            set_value(node.kernel, changes[i].index, changes[i].size, changes[i].value)
        if i + 1 == count or changes[i + 1].command != changes[i].command:
            node.params.shared = node.kernel.shared
            status = outcome(CALL_GraphExecKernelNodeSetParams_v2, cuda.GraphExecKernelNodeSetParams_v2(
                changed.executable, node.node, &node.params))
            if status != 0:
                break
    leave()
    return status


cdef Status replay(void* queue, void* recording, Waits waits) noexcept nogil:
    cdef Status status = come_after((<CuQueue*> queue).stream, waits)
    if status != 0:
        return status
    return outcome(CALL_GraphLaunch, cuda.GraphLaunch((<CuRecording*> recording).executable, (<CuQueue*> queue).stream))


# -- the host's side


cdef Status poll(void* queue, bint* done) noexcept nogil:
    cdef cuda_result_t error = cuda.StreamQuery((<CuQueue*> queue).stream)
    done[0] = error == 0
    return 0 if error == NOT_READY else outcome(CALL_StreamQuery, error)


cdef enum:
    SPIN = 10000  # microseconds: a longer wait rests between two looks, which costs it at most a hundredth
    ASKS_EVERY = 50000  # microseconds, after which a signal handler gets its turn
    JOINED_FROM = 4  # events


cdef Status wait_events(void* context, Waits events, Interrupted interrupted) noexcept nogil:
    """Wait for each event; for many by one of a private stream that waits for all, because to ask for one takes the
    driver a microsecond. Not while a gate is closed: a stream that waits can hold up others, of which one may have to
    go on before the gate is opened.
    """
    cdef CuContext* on = <CuContext*> context
    cdef CuQueue* join
    cdef void* joined = NULL
    cdef Status status = 0
    cdef uint32_t i
    if events.count < JOINED_FROM or gates_closed() != 0:
        for i in range(events.count):
            status = wait_for_event(<CuEvent*> events.events[i], interrupted)
            if status != 0:
                break
        return status
    join = take_join(on, &status)
    if join == NULL:
        return status
    status = marker(join, events, 0, &joined)
    if status == 0:
        status = wait_for_event(<CuEvent*> joined, interrupted)
        end_event(<CuEvent*> joined)
    if status == 0:
        give_back_join(join)
    else:
        end_queue(join)  # it may wait still, for nobody
    return status


cdef Status wait_for_event(CuEvent* event, Interrupted interrupted) noexcept nogil:
    """Ask for the event until it is done. The driver's own wait cannot be interrupted, and asks as well."""
    cdef int64_t begin, asked, current
    cdef cuda_result_t error = cuda.EventQuery(event.handle)
    if error == NOT_READY:
        begin = asked = now()
        while error == NOT_READY:
            current = now()
            if current - begin > SPIN:
                rest()
            if interrupted != NULL and current - asked > ASKS_EVERY:
                asked = current
                if interrupted():
                    return INTERRUPTED
            error = cuda.EventQuery(event.handle)
    return outcome(CALL_EventQuery, error)


cdef void write_printed(void* context) noexcept nogil:
    """The driver does so in a wait for any stream, and this one is idle: 4 µs, so not where no program prints. In none
    it does so some time later, or not at all if the process ends.
    """
    cdef CuContext* on = <CuContext*> context
    cdef uint32_t ended
    if on.printing.load() != 0 or on.ended_printing.load() != on.written.load():
        ended = on.ended_printing.load()
        cuda.StreamSynchronize(on.memory_stream)
        on.written.store(ended)  # afterwards, so that another thread's wait does not return before


cdef inline bint is_lost(cuda_result_t error) noexcept nogil:
    """Whether an error says that the context is of no more use: all its commands are over."""
    return error in (214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999)


def lost(error: int) -> bool:
    """Whether an error says that the context is of no more use."""
    return is_lost(<cuda_result_t> error)


cdef Answer event_status(void* event) noexcept nogil:
    cdef cuda_result_t error = cuda.EventQuery((<CuEvent*> event).handle)
    if error == 0:
        return DONE
    if error == NOT_READY:
        return NOT_YET
    if is_lost(error):
        return -<Answer> error
    return outcome(CALL_EventQuery, error)


cdef Status elapsed(void* first, void* second, double* nanoseconds) noexcept nogil:
    cdef float milliseconds = 0
    cdef Status status = outcome(CALL_EventElapsedTime_v2, cuda.EventElapsedTime_v2(
        &milliseconds, (<CuEvent*> first).handle, (<CuEvent*> second).handle))
    nanoseconds[0] = milliseconds * 1e6
    return status


cdef Status bridge(void* context, void* event, void** bridged) noexcept nogil:
    """Streams wait for events of other devices, too."""
    bridged[0] = retain_event(<CuEvent*> event)
    return 0


cdef void release_event(void* event) noexcept nogil:
    end_event(<CuEvent*> event)


cdef void release_kernel(void* kernel) noexcept nogil:
    end_kernel(<CuKernel*> kernel)


cdef void release_recording(void* recording) noexcept nogil:
    end_recording(<CuRecording*> recording)


cdef void release_queue(void* queue) noexcept nogil:
    end_queue(<CuQueue*> queue)


cdef Driver table  # entries that are not set are NULL
table.room_of_host_function = 11  # a call blocks after 54, or 27 with graphs between, and after 1,020 launches
table.asks_of_finish = 64  # each takes a microsecond or less: for what takes longer a marker's share does not count
table.room_of_recorded_copy = 2  # between a launch and a copy within a graph the hardware changes its engine
table.changes_spare_running = True
table.recordings_branch = True
table.launch = launch
table.set_pointer = set_pointer
table.set_value = set_value
table.copy = copy
table.fill = fill
table.prefetch = prefetch
table.marker = marker
table.barrier = barrier
table.record_shared = record_shared
table.hold = hold
table.open_gate = open_gate
table.new_recording = new_recording
table.add_command = add_command
table.end_recording = close_recording
table.change = change
table.replay = replay
table.poll = poll
table.wait_events = wait_events
table.write_printed = write_printed
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
