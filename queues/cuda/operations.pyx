"""CUDA's side of the table of operations (`forebay.core.driver`), and the objects that it works on: what is behind the
handles, and devices, programs and memory as objects of Python. The driver's functions are found at run time.

Measured on an H100 (driver 580, CUDA 13.0), and what follows from it:

- Launches, copies, records, waits and queries need no current context, and none to be the right one. What makes things
  does, and to add or change a node of a graph without one ends the process: `enter` and `leave`.
- cuMemFree, cuMemFreeHost, cuModuleLoadData and cuModuleUnload wait for all that runs on the device, a stream behind a
  closed gate too. All but the last let no other thread launch meanwhile. So memory comes from pools and is given back
  by cuMemFreeAsync, which does not block; a module is loaded while no gate is closed (`WithoutGates`), and
  unloaded when the next one is loaded.
- cuGraphInstantiate was seen to wait for a closed gate, for a graph of three launches side by side; most did not. So
  was the destruction of an executable.
- A channel of the hardware has room for 1,020 commands, and many streams share one.
"""

import ctypes
from collections.abc import Sequence

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.atomic cimport atomic
from libcpp.memory cimport unique_ptr
from libcpp.utility cimport move
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    CHANGED_GROUPS, CHANGED_POINTER, COPY_COMMAND, DONE, INTERRUPTED, LAUNCH_COMMAND, NOT_NOW, NOT_YET, TIMED, Answer,
    Arrival, Change, RecordedCommand, Driver, Geometry, Interrupted, Memory, Status, Waits, HostCallback
)
from forebay.core.ownership cimport Ref
from forebay.core.process cimport is_forked
from forebay.queues.memory.allocation cimport ForeignMemory, NativeMemory

from forebay.core.driver import fill_table
from forebay.core.errors import BuildError, DriverError, InvalidArgumentError, OutOfMemoryError

cdef enum:
    # error codes
    NOT_FOUND = 500
    NOT_READY = 600
    EQUAL = 1  # CU_STREAM_WAIT_VALUE_EQ
    LARGEST_PATTERN = 128
    FILL_BLOCK = 256
    FILL_GROUPS = 1024
    # CUfunction_attribute
    THREADS = 0
    STATIC_SHARED = 1
    DYNAMIC_SHARED = 8
    LOG_SIZE = 1 << 14

ctypedef Status (*Function)(...) noexcept nogil


# `calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
cdef extern from "queues/cuda/calls.hpp" namespace "forebay_cuda":
    cdef struct Location:
        uint32_t type
        int32_t id
    cdef struct KernelNode:
        void* function
        uint32_t* groups
        uint32_t* block
        uint32_t shared
        void** values
        void* context
    cdef struct CopyEnd:
        uint64_t address
        size_t pitch
    cdef struct CopyNode:
        CopyEnd source, to
        size_t width
    cdef struct IpcHandle:
        char* bytes
    cdef struct FillNode:
        uint64_t to
        size_t pitch
        uint32_t value, size
        size_t width

    cdef enum:
        N_CALLS

    cdef struct Calls:
        Function LaunchKernel, LaunchHostFunc, MemcpyAsync, MemsetD8Async, MemsetD16Async, MemsetD32Async
        Function MemPrefetchAsync_v2
        Function StreamWaitEvent, StreamWaitValue32_v2, StreamQuery, StreamSynchronize, StreamGetCtx
        Function EventRecord, EventQuery, EventElapsedTime_v2
        Function GraphCreate, GraphAddKernelNode_v2, GraphAddMemcpyNode, GraphAddMemsetNode
        Function GraphInstantiateWithFlags, GraphExecKernelNodeSetParams_v2, GraphLaunch
        Function IpcGetMemHandle, IpcOpenEventHandle
        Function ModuleGetFunction, ModuleGetGlobal_v2
        Function FuncGetAttribute, FuncSetAttribute, OccupancyMaxActiveBlocksPerMultiprocessor
        Function DeviceCanAccessPeer, CtxPushCurrent_v2, CtxPopCurrent_v2, CtxGetStreamPriorityRange
        Function GetErrorName

    const char* const* call_names
    Status within(const Calls& cuda, void* context, ...) noexcept nogil


cdef extern from *:
    """
    namespace forebay_cuda { Calls cuda; }
    """

# The header says what each is, and what holds what.
cdef extern from "queues/cuda/objects.hpp" namespace "forebay_cuda" nogil:
    Calls cuda

    cdef enum:
        OUT_OF_MEMORY, ON_HOST, ON_DEVICE, AHEAD

    cdef enum EventKind:
        PLAIN_EVENT, TIMED_EVENT, GATE_EVENT, IPC_EVENT

    cdef enum MemoryKind:
        DEVICE_POOL, SHARED_POOL, HOST_POOL

    cdef enum EndedKind:
        ENDED_EXECUTABLES, ENDED_REGISTRATIONS, ENDED_EXPORTS, ENDED_IMPORTS, ENDED_KINDS

    int64_t now() noexcept  # microseconds
    void rest(int microseconds) noexcept
    void store(uint32_t* word, uint32_t value) noexcept

    cdef cppclass WithoutGates:
        bint begin() noexcept
        bint try_begin() noexcept

        @staticmethod
        bint gates_are_closed() noexcept

        @staticmethod
        void note_closed() noexcept

        @staticmethod
        void note_open() noexcept

    cdef cppclass Current:
        Status enter(void* context) noexcept

    cdef cppclass CuEvent:
        CuEvent(EventKind kind, CuContext* context, void* handle) noexcept
        void* handle
        uint32_t* word

    cdef cppclass CuContext:
        void* handle
        int32_t device
        cbool migrates
        void* memory_stream
        Ref[CuModule] kernels
        void* fill
        atomic[uint32_t] streams, stream_capacity, printing, printed, written

        @staticmethod
        Status open(int32_t device, const char* kernels, CuContext*& context) noexcept
        bint reach(CuContext* other, Status& status) noexcept
        Status order(void* later, void* earlier) noexcept
        Status take_event(EventKind kind, Ref[CuEvent]& taken) noexcept
        Status create_ipc_event(CuEvent*& made, IpcHandle& opener) noexcept
        Status take_join(unique_ptr[CuQueue]& join) noexcept
        void keep_join(unique_ptr[CuQueue]& join) noexcept
        void make_streams_ahead(uint32_t before) noexcept
        Status load_module(const char* image, char* log, size_t log_size, void** module) noexcept
        Status take_memory(MemoryKind kind, size_t nbytes, uint64_t& address) noexcept
        void give_back_memory(MemoryKind kind, size_t nbytes, uint64_t address) noexcept
        Status register_memory(uint64_t address, size_t nbytes) noexcept
        Status export_memory(size_t nbytes, uint64_t& address) noexcept
        Status import_memory(const IpcHandle& opener, uint64_t& address, size_t& nbytes) noexcept
        Status give_back_shared(cbool& done) noexcept
        void destroy_later(EndedKind kind, uint64_t handle) noexcept
        void destroy_ended(EndedKind kind) noexcept
        bint try_destroy_ended(EndedKind first, EndedKind last) noexcept

    cdef cppclass CuQueue:
        CuQueue(CuContext* context, PyObject* owner) noexcept
        void* stream
        CuContext* context
        PyObject* owner

        @staticmethod
        Status create(CuContext* context, int32_t priority, unique_ptr[CuQueue]& made) noexcept

    cdef cppclass CuModule:
        CuModule(CuContext* context, void* handle, bint prints) noexcept
        void* handle

    cdef cppclass CuKernel:
        void* function
        Ref[CuModule] module
        vector[uint64_t] words
        vector[void*] values
        vector[uint32_t] locals
        vector[uint32_t] alignments
        uint32_t shared
        unique_ptr[CuKernel] copy() noexcept
        void place_locals() noexcept

    cdef cppclass CuNode:
        void* node
        unique_ptr[CuKernel] kernel
        KernelNode params

    cdef cppclass CuRecording:
        CuRecording(CuContext* context) noexcept
        CuContext* context
        void* graph
        void* executable
        vector[CuNode] nodes
        vector[void*] after

CALLS: int = <uintptr_t> &cuda
CALL_NAMES: tuple[str, ...] = tuple([(b"cu" + call_names[i]).decode() for i in range(N_CALLS)])


# -- the launch path


cdef Status come_after(void* stream, Waits waits) noexcept nogil:
    """Let the stream wait for these events. If a later call is refused, the waits before it stay and do no harm."""
    cdef Status status = 0
    cdef uint32_t i
    for i in range(waits.count):
        status = cuda.StreamWaitEvent(stream, (<CuEvent*> waits.events[i]).handle, 0)
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
    return cuda.LaunchKernel(
        launched.function, geometry.groups[0], geometry.groups[1], geometry.groups[2], geometry.block[0],
        geometry.block[1], geometry.block[2], launched.shared, (<CuQueue*> queue).stream, launched.values.data(), NULL)


cdef Status set_pointer(void* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    (<uint64_t*> (<CuKernel*> kernel).values[index])[0] = memory.address
    return 0


cdef Status set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    cdef CuKernel* changed = <CuKernel*> kernel
    if value == NULL:
        changed.locals[index] = <uint32_t> size
        changed.place_locals()
    else:
        memcpy(changed.values[index], value, size)
    return 0


# -- other commands


cdef Status copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Ref[CuEvent] made
    cdef Status status = begin(<CuQueue*> queue, waits, made, event)
    if status == 0:
        status = cuda.MemcpyAsync(to.address, source.address, nbytes, (<CuQueue*> queue).stream)
    return conclude(<CuQueue*> queue, status, made, event)


cdef Status begin(CuQueue* queue, Waits waits, Ref[CuEvent]& made, void** event) noexcept nogil:
    """Wait, and take the event of the command that comes next, if one is wanted: that cannot be taken back."""
    cdef Status status = come_after(queue.stream, waits)
    return queue.context.take_event(PLAIN_EVENT, made) if status == 0 and event != NULL else status


cdef Status conclude(CuQueue* queue, Status status, Ref[CuEvent]& made, void** event) noexcept nogil:
    """Record the event of a command that was submitted."""
    if status == 0 and made.get() != NULL:
        status = cuda.EventRecord(made.get().handle, queue.stream)
        if status == 0:
            event[0] = made.take()
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


cdef cppclass Fill:
    """The values of the kernel that fills with patterns which no call of the driver takes."""
    uint64_t to
    uint64_t count
    uint32_t mask
    unsigned char pattern[LARGEST_PATTERN]
    void* values[4]


cdef void set_fill(
    KernelNode* launched, Fill* fill, CuContext* context, uint64_t to, const void* pattern, size_t size, size_t nbytes
) noexcept nogil:
    fill.to = to
    fill.count = nbytes // 4
    fill.mask = <uint32_t> (size // 4 - 1)  # a size is a power of two
    memcpy(fill.pattern, pattern, size)
    fill.values[0] = &fill.to
    fill.values[1] = &fill.count
    fill.values[2] = &fill.mask
    fill.values[3] = &fill.pattern[0]
    launched.function = context.fill
    launched.groups[0] = <uint32_t> min((fill.count + FILL_BLOCK - 1) // FILL_BLOCK, <uint64_t> FILL_GROUPS)
    launched.block[0] = FILL_BLOCK
    launched.values = &fill.values[0]
    launched.context = context.handle


cdef Status fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef CuQueue* filled = <CuQueue*> queue
    cdef KernelNode launched
    cdef Fill wide
    cdef uint32_t size
    cdef Ref[CuEvent] made
    cdef Status status = begin(filled, waits, made, event)
    if status == 0:
        size = repeats(pattern, pattern_size)
        if size == 1:
            status = cuda.MemsetD8Async(to.address, (<const unsigned char*> pattern)[0], nbytes, filled.stream)
        elif size == 2:
            status = cuda.MemsetD16Async(to.address, (<const uint16_t*> pattern)[0], nbytes // 2, filled.stream)
        elif size == 4:
            status = cuda.MemsetD32Async(to.address, (<const uint32_t*> pattern)[0], nbytes // 4, filled.stream)
        else:
            set_fill(&launched, &wide, filled.context, to.address, pattern, size, nbytes)
            status = cuda.LaunchKernel(
                launched.function, launched.groups[0], 1, 1, FILL_BLOCK, 1, 1, 0, filled.stream, launched.values, NULL)
    return conclude(filled, status, made, event)


cdef Status prefetch(void* queue, const Memory* memory, size_t nbytes, bint to_host, Waits waits) noexcept nogil:
    cdef CuQueue* on = <CuQueue*> queue
    cdef Location to
    cdef Status status = come_after(on.stream, waits)
    to.type = ON_HOST if to_host else ON_DEVICE
    to.id = 0 if to_host else on.context.device
    if status == 0 and on.context.migrates:
        status = cuda.MemPrefetchAsync_v2(memory.address, nbytes, to, 0, on.stream)
    return status


cdef Status marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    cdef Ref[CuEvent] made
    cdef Status status = come_after((<CuQueue*> queue).stream, waits)
    if status == 0:
        status = (<CuQueue*> queue).context.take_event(TIMED_EVENT if use & TIMED else PLAIN_EVENT, made)
    return conclude(<CuQueue*> queue, status, made, event)


cdef Status barrier(void* queue, Waits waits) noexcept nogil:
    return come_after((<CuQueue*> queue).stream, waits)


cdef Status record_shared(void* queue, void* event) noexcept nogil:
    return cuda.EventRecord((<CuEvent*> event).handle, (<CuQueue*> queue).stream)


cdef Status hold(void* queue, void* context, Waits waits, HostCallback wake, void* data, void** gate) noexcept nogil:
    cdef CuQueue* held = <CuQueue*> queue
    cdef Ref[CuEvent] made
    cdef CuEvent* event = NULL
    cdef Arrival* arrival = NULL
    cdef Status status = held.context.take_event(GATE_EVENT, made)
    if status != 0:
        return status
    WithoutGates.note_closed()
    gate[0] = made.get()  # before `wake` can be called
    status = come_after(held.stream, waits)
    if status == 0 and wake != NULL:
        arrival = new Arrival(wake, data)
        status = cuda.LaunchHostFunc(held.stream, Arrival.arrive, arrival)
        if status != 0:
            del arrival
            arrival = NULL
    if status == 0:
        status = cuda.StreamWaitValue32_v2(held.stream, <uint64_t> <uintptr_t> made.get().word, 1, EQUAL)
        if status == 0:
            event = made.take()
            status = cuda.EventRecord(event.handle, held.stream)
    if status != 0:
        gate[0] = NULL
        WithoutGates.note_open()
        if event != NULL:  # it is unknown when the stream has read the word, so it is not used again
            store(event.word, 1)
    if arrival != NULL:
        arrival.settle(status == 0)
    return status


cdef Status open_gate(void* gate, bint failed) noexcept nogil:
    """Open a gate. CUDA cannot fail the commands behind it: they run even if `failed`."""
    store((<CuEvent*> gate).word, 1)
    WithoutGates.note_open()
    return 0


# -- graphs


cdef Status new_recording(void* queue, bint changeable, void** recording) noexcept nogil:
    cdef unique_ptr[CuRecording] made
    cdef Status status
    if WithoutGates.gates_are_closed():
        return NOT_NOW
    made.reset(new CuRecording((<CuQueue*> queue).context))
    status = cuda.GraphCreate(&made.get().graph, 0)
    if status == 0:
        recording[0] = made.release()
    return status


cdef Status add_command(
    void* recording, const RecordedCommand* command, const uint32_t* after, uint32_t count
) noexcept nogil:
    """Add a node after the nodes of these commands. The driver copies a kernel's arguments; so does the recording."""
    cdef CuRecording* extended = <CuRecording*> recording
    cdef CuNode node
    cdef Current current
    cdef Status status = current.enter(extended.context.handle)
    cdef uint32_t i
    if status != 0:
        return status
    extended.after.clear()
    for i in range(count):
        extended.after.push_back(extended.nodes[after[i]].node)
    if command.kind == LAUNCH_COMMAND:
        node.kernel = (<CuKernel*> command.kernel).copy()
        memcpy(node.params.groups, command.geometry.groups, sizeof(command.geometry.groups))
        memcpy(node.params.block, command.geometry.block, sizeof(command.geometry.block))
        node.params.function = node.kernel.get().function
        node.params.shared = node.kernel.get().shared
        node.params.values = node.kernel.get().values.data()
        node.params.context = extended.context.handle
        status = add_kernel(extended, &node, &node.params)
    elif command.kind == COPY_COMMAND:
        status = add_copy(extended, &node, command)
    else:
        status = add_fill(extended, &node, command)
    if status == 0:
        extended.nodes.push_back(move(node))
    return status


cdef Status add_kernel(CuRecording* recording, CuNode* node, const KernelNode* params) noexcept nogil:
    return cuda.GraphAddKernelNode_v2(
        &node.node, recording.graph, recording.after.data(), recording.after.size(), params)


cdef Status add_copy(CuRecording* recording, CuNode* node, const RecordedCommand* command) noexcept nogil:
    cdef CopyNode params
    params.source.address = command.source.address
    params.to.address = command.to.address
    params.source.pitch = params.to.pitch = params.width = command.nbytes
    return cuda.GraphAddMemcpyNode(
        &node.node, recording.graph, recording.after.data(), recording.after.size(), &params, recording.context.handle)


cdef Status add_fill(CuRecording* recording, CuNode* node, const RecordedCommand* command) noexcept nogil:
    cdef uint32_t size = repeats(command.pattern, command.pattern_size)
    cdef FillNode params
    cdef KernelNode launched
    cdef Fill fill
    if size > 4:
        set_fill(&launched, &fill, recording.context, command.to.address, command.pattern, size, command.nbytes)
        return add_kernel(recording, node, &launched)
    params.to = command.to.address
    params.size = size
    params.width = command.nbytes // size
    memcpy(&params.value, command.pattern, size)
    return cuda.GraphAddMemsetNode(
        &node.node, recording.graph, recording.after.data(), recording.after.size(), &params, recording.context.handle)


cdef Status close_recording(void* recording) noexcept nogil:
    cdef CuRecording* closed = <CuRecording*> recording
    cdef WithoutGates none
    cdef Current current
    cdef Status status
    if not none.begin():
        return NOT_NOW
    status = current.enter(closed.context.handle)
    if status == 0:
        closed.context.destroy_ended(ENDED_EXECUTABLES)
        status = cuda.GraphInstantiateWithFlags(&closed.executable, closed.graph, 0)
    return status


cdef Status change(void* recording, const Change* changes, size_t count) noexcept nogil:
    """Change nodes, each by one call of the driver. Launches of the recording that were submitted are not affected."""
    cdef CuRecording* changed = <CuRecording*> recording
    cdef CuNode* node
    cdef Current current
    cdef Status status = current.enter(changed.context.handle)  # without a current context the driver ends the process
    cdef size_t i
    if status != 0:
        return status
    for i in range(count):
        node = &changed.nodes[changes[i].command]
        if changes[i].kind == CHANGED_GROUPS:
            memcpy(node.params.groups, changes[i].value, 3 * sizeof(uint32_t))
        elif changes[i].kind == CHANGED_POINTER:
            set_pointer(node.kernel.get(), changes[i].index, <const Memory*> changes[i].value)
        else:
            set_value(node.kernel.get(), changes[i].index, changes[i].size, changes[i].value)
        if i + 1 == count or changes[i + 1].command != changes[i].command:
            node.params.shared = node.kernel.get().shared
            status = cuda.GraphExecKernelNodeSetParams_v2(changed.executable, node.node, &node.params)
            if status != 0:
                break
    return status


cdef Status replay(void* queue, void* recording, Waits waits) noexcept nogil:
    cdef Status status = come_after((<CuQueue*> queue).stream, waits)
    if status != 0:
        return status
    return cuda.GraphLaunch((<CuRecording*> recording).executable, (<CuQueue*> queue).stream)


# -- the host's side


cdef Status poll(void* queue, bint* done) noexcept nogil:
    cdef Status status = cuda.StreamQuery((<CuQueue*> queue).stream)
    done[0] = status == 0
    return 0 if <uint32_t> status == NOT_READY else status


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
    cdef unique_ptr[CuQueue] join  # destroyed here if its wait may still go on
    cdef void* joined = NULL
    cdef Status status = 0
    cdef uint32_t i
    if events.count < JOINED_FROM or WithoutGates.gates_are_closed():
        for i in range(events.count):
            status = wait_for_event(<CuEvent*> events.events[i], interrupted)
            if status != 0:
                break
        return status
    status = on.take_join(join)
    if status == 0:
        status = marker(join.get(), events, 0, &joined)
    if status == 0:
        status = wait_for_event(<CuEvent*> joined, interrupted)
        destroy_event(joined)
        if status == 0:
            on.keep_join(join)
    return status


cdef Status wait_for_event(CuEvent* event, Interrupted interrupted) noexcept nogil:
    """Ask for the event until it is done. The driver's own wait cannot be interrupted, and asks as well."""
    cdef int64_t begin, asked, current
    cdef Status status = cuda.EventQuery(event.handle)
    if <uint32_t> status == NOT_READY:
        begin = asked = now()
        while <uint32_t> status == NOT_READY:
            current = now()
            if current - begin > SPIN:
                rest(50)
            if interrupted != NULL and current - asked > ASKS_EVERY:
                asked = current
                if interrupted():
                    return INTERRUPTED
            status = cuda.EventQuery(event.handle)
    return status


cdef void write_printed(void* context) noexcept nogil:
    """The driver does so in a wait for any stream, and this one is idle: 4 µs, so not where no program prints. In none
    it does so some time later, or not at all if the process ends.
    """
    cdef CuContext* on = <CuContext*> context
    cdef uint32_t ended
    if on.printing.load() != 0 or on.printed.load() != on.written.load():
        ended = on.printed.load()
        cuda.StreamSynchronize(on.memory_stream)
        on.written.store(ended)  # afterwards, so that another thread's wait does not return before


cpdef bint is_lost(uint32_t error) noexcept nogil:
    """Whether an error says that the context is of no more use: all its commands are over."""
    return error in (214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999)


cdef Answer event_status(void* event) noexcept nogil:
    cdef Status status = cuda.EventQuery((<CuEvent*> event).handle)
    cdef uint32_t error = <uint32_t> status
    if error == 0:
        return DONE
    if error == NOT_READY:
        return NOT_YET
    return -<Answer> error if is_lost(error) else status


cdef Status elapsed(void* first, void* second, double* nanoseconds) noexcept nogil:
    cdef float milliseconds = 0
    cdef Status status = cuda.EventElapsedTime_v2(&milliseconds, (<CuEvent*> first).handle, (<CuEvent*> second).handle)
    nanoseconds[0] = milliseconds * 1e6
    return status


cdef Status bridge(void* context, void* event, void** bridged) noexcept nogil:
    """Streams wait for events of other devices, too."""
    bridged[0] = Ref[CuEvent].share(<CuEvent*> event).take()
    return 0


cdef void destroy_event(void* event) noexcept nogil:
    Ref[CuEvent].adopt(<CuEvent*> event)


cdef void destroy_kernel(void* kernel) noexcept nogil:
    cdef CuKernel* released = <CuKernel*> kernel
    del released


cdef void destroy_recording(void* recording) noexcept nogil:
    cdef CuRecording* released = <CuRecording*> recording
    del released


cdef void destroy_queue(void* queue) noexcept nogil:
    """Release the stream, which is no longer used. No lock is held: the owner of an adopted one may go with it."""
    cdef CuQueue* released = <CuQueue*> queue
    if released.owner != NULL:
        with gil:
            Py_DECREF(<object> released.owner)
    del released


# -- what blocks until no gate is closed


cdef int wait_without_gates(WithoutGates& none) except -1 nogil:
    """Block until it has begun."""
    while not none.begin():
        rest(1000)
        with gil:
            PyErr_CheckSignals()
    return 0


cdef int reserve_stream(CuContext* context) except -1 nogil:
    """Count a stream that is about to be made, with memory of the driver for it. If it has none, this blocks until no
    gate is closed.
    """
    cdef WithoutGates none
    cdef uint32_t count = context.streams.fetch_add(1) + 1
    cdef uint32_t capacity = context.stream_capacity.load()
    if count + AHEAD // 2 <= capacity:
        return 0
    if count <= capacity:  # there is memory for this one, so nothing is waited for
        if not none.try_begin():
            return 0
    else:
        context.streams.fetch_sub(1)
        wait_without_gates(none)
        count = context.streams.fetch_add(1) + 1
    if count + AHEAD // 2 > context.stream_capacity.load():
        context.make_streams_ahead(context.streams.load() - 1)  # the one that is counted is not made yet
    return 0


cdef Status load_module(CuContext* context, const char* image, char* errors, void** module) except? -1 nogil:
    """Load it, and write what the driver says of a failure."""
    cdef WithoutGates none
    wait_without_gates(none)
    return context.load_module(image, errors, LOG_SIZE, module)


cdef int end_registrations(CuContext* context) except -1 nogil:
    cdef WithoutGates none
    wait_without_gates(none)
    context.destroy_ended(ENDED_REGISTRATIONS)
    return 0


# -- objects of Python over these. Each is released with its last reference


def load(library: ctypes.CDLL) -> None:
    """Fill the table from the driver's library. One call is enough. Raises `ImportError` if the driver is too old to
    have one of the functions.
    """
    fill_table(CALLS, CALL_NAMES, library, (), "CUDA's driver",
               "install a driver of CUDA 13.0 or newer (580)")


def error_name(code: int) -> str:
    """The CUDA_ERROR_… name of a code; "error CODE" for one that the driver does not know."""
    cdef const char* name = NULL
    if (<void**> &cuda)[0] == NULL or cuda.GetErrorName(<uint32_t> code, &name) != 0 or name == NULL:
        return f"error {code}"
    return name.decode()


def explain(Status status) -> tuple[str, int, str]:
    """(call, code, name of the code) of a failed operation."""
    code = status & 0xFFFFFFFF
    return CALL_NAMES[status >> 32], code, error_name(code)


cdef int check(Status status, str what) except -1:
    """Raise for a failed call."""
    if status == 0:
        return 0
    call, code, name = explain(status)
    message = f"{call} failed: {name} ({what})"
    if code == OUT_OF_MEMORY:
        raise OutOfMemoryError(message)
    raise DriverError(message, call=call, code=code, name=name)


cdef class ContextHandle:
    """The primary context of the GPU of this number, which all Devices of it share and which lives as long as the
    process. `kernels` is PTX of forebay's own, ending with a zero; `migrates` says whether shared memory moves on
    request. Blocks while the context is made, half a second on the first use of the GPU in the process.
    """

    cdef CuContext* context

    def __init__(self, int32_t device, bytes kernels not None, bint migrates=False) -> None:
        cdef Status status = 0
        cdef const char* text = kernels
        with nogil:
            status = CuContext.open(device, text, self.context)
            if migrates and status == 0:
                self.context.migrates = True
        check(status,
              "opening the device; where many processes share it, start them with CUDA_DEVICE_MAX_CONNECTIONS=8")

    @property
    def address(self) -> int:
        """The address of the CuContext, which is the context handle for the table of operations."""
        return <uintptr_t> self.context

    @property
    def handle(self) -> int:
        """The driver's handle of the context."""
        return <uintptr_t> self.context.handle

    def __enter__(self) -> None:
        """Make the context current in this thread until `__exit__`: other packages take the thread's current device for
        the one that is meant when they hand over memory or streams.
        """
        check(cuda.CtxPushCurrent_v2(self.context.handle), "making the context current")

    def __exit__(self, *raised: object) -> None:
        cdef void* popped = NULL
        cuda.CtxPopCurrent_v2(&popped)

    @property
    def streams(self) -> int:
        """How many streams forebay has on the GPU, of all Devices."""
        return self.context.streams.load()

    @property
    def priorities(self) -> tuple[int, ...]:
        """The priorities of streams; lower is more urgent."""
        cdef int32_t least = 0, greatest = 0
        check(within(cuda, self.context.handle, cuda.CtxGetStreamPriorityRange, &least, &greatest),
              "the priorities of streams")
        return tuple(range(greatest, least + 1))

    def can_reach(self, ContextHandle peer not None) -> bool:
        """Whether this GPU has access to the memory of another one. All Devices of a GPU have one context."""
        cdef int32_t can = peer.context.device == self.context.device
        if not can:
            check(cuda.DeviceCanAccessPeer(&can, self.context.device, peer.context.device), "access to another GPU")
        return can != 0

    def reach(self, ContextHandle peer not None) -> bool:
        """Let this GPU use the other's memory: of its pools, and its variables. False while a gate is closed."""
        cdef Status status = 0
        cdef bint reached
        with nogil:
            reached = self.context.reach(peer.context, status)
        check(status, "access to another GPU")
        return reached

    def create_queue(self, int32_t priority) -> tuple[int, int]:
        """A stream that the legacy null stream does not wait for: (the driver's handle, the operations' handle, which
        the caller owns).

        Blocks until no gate is closed if there are more streams than the driver has memory for (docs/cuda.md); others
        run meanwhile, and Ctrl-C ends it.
        """
        cdef Status status
        cdef unique_ptr[CuQueue] queue
        with nogil:
            reserve_stream(self.context)
            status = CuQueue.create(self.context, priority, queue)
        check(status, "making a queue")
        return <uintptr_t> queue.get().stream, <uintptr_t> queue.release()

    def adopt_queue(self, uintptr_t stream, object owner) -> int:
        """The operations' handle, which the caller owns, of a stream of another package. The stream is `owner`'s, which
        is kept as long as the handle: after a close, too, forebay may have to ask the stream how far it is.
        """
        cdef CuQueue* queue = new CuQueue(self.context, <PyObject*> owner)
        Py_INCREF(owner)
        queue.stream = <void*> stream
        return <uintptr_t> queue

    def order(self, uintptr_t later, uintptr_t earlier) -> None:
        """Let what one stream gets from now on come after what another has got. The other may be a default stream."""
        check(self.context.order(<void*> later, <void*> earlier), "waiting for a stream of another package")


def context_of(uintptr_t stream) -> int:
    """The driver's handle of the context that a stream is of. Raises `DriverError`."""
    cdef void* context = NULL
    check(cuda.StreamGetCtx(<void*> stream, &context), f"the context of stream {stream:#x}")
    return <uintptr_t> context


cdef class CuProgram:
    """A module that is loaded: PTX that ends with a zero, or a cubin. `name` is the device's.

    Raises `BuildError` if the driver refuses it, with what it says as the log.

    Blocks while the driver compiles; until nothing runs on the device; and while any gate is closed, of any device of
    CUDA in this process: behind a closed gate the driver would block, and let no other thread launch.
    """

    cdef Ref[CuModule] module
    cdef ContextHandle context

    def __init__(self, ContextHandle context not None, bytes image not None, str name) -> None:
        cdef CuContext* of = context.context
        cdef const char* text = image
        cdef void* handle = NULL
        cdef Status status
        cdef bytearray errors = bytearray(LOG_SIZE)
        cdef char* log_at = errors
        self.context = context
        with nogil:
            status = load_module(of, text, log_at, &handle)
        if status != 0:
            call, code, called = explain(status)
            if code == OUT_OF_MEMORY:
                check(status, "building a program")
            log = bytes(errors).split(b"\0")[0].decode(errors="replace").strip() or called
            raise BuildError(f"the program does not build on {name}: {call} failed: {called}\n{log}", log=log)
        self.module = Ref[CuModule].adopt(new CuModule(of, handle, b"vprintf" in image))

    @staticmethod
    def own(ContextHandle context not None) -> CuProgram:
        """The module of forebay's own kernels, which was loaded with the context and stays. Does not block."""
        cdef CuProgram made = CuProgram.__new__(CuProgram)
        made.context = context
        made.module = context.context.kernels
        return made

    def function(self, str symbol) -> int:
        """The driver's handle of a kernel. It is valid as long as this object."""
        cdef bytes encoded = symbol.encode()
        cdef void* function = NULL
        check(cuda.ModuleGetFunction(&function, self.module.get().handle, encoded),
              f"kernel {symbol!r}")
        return <uintptr_t> function

    def limits(self, uintptr_t function, int32_t most_shared) -> tuple[int, int]:
        """Have a kernel take so many bytes of shared memory in all, and return (work-items that a group can have,
        bytes of its own shared memory).
        """
        cdef int32_t threads = 0, static = 0
        cdef Status status = cuda.FuncGetAttribute(&threads, THREADS, <void*> function)
        if status == 0:
            status = cuda.FuncGetAttribute(&static, STATIC_SHARED, <void*> function)
        if status == 0 and most_shared > static:
            status = cuda.FuncSetAttribute(<void*> function, DYNAMIC_SHARED, most_shared - static)
        check(status, "properties of a kernel")
        return threads, static

    def groups_at_once(self, uintptr_t function, int32_t block, size_t shared) -> int:
        """How many groups of so many work-items a multiprocessor runs at once, each with so many bytes of dynamic
        shared memory.
        """
        cdef int32_t groups = 0
        check(within(
            cuda, self.context.context.handle, cuda.OccupancyMaxActiveBlocksPerMultiprocessor, &groups,
            <void*> function, block, shared), f"groups of {block}")
        return groups

    def create_kernel(self, uintptr_t function, sizes: Sequence[int], alignments: Sequence[int]) -> int:
        """The operations' handle of a new kernel object, which the caller owns. `sizes` are the bytes of the driver's
        parameters; `alignments`, by forebay's parameter, that of its local memory, 0 for one that is none. The last
        ones may have no parameter of the driver's.
        """
        cdef unique_ptr[CuKernel] made
        cdef CuKernel* kernel
        cdef vector[size_t] offsets
        cdef size_t words = 0
        cdef size_t offset
        cdef size_t nbytes
        made.reset(new CuKernel())
        kernel = made.get()
        for nbytes in sizes:
            offsets.push_back(words)
            words += (nbytes + 7) // 8
        kernel.words.resize(words)
        for offset in offsets:
            kernel.values.push_back(kernel.words.data() + offset)
        for alignment in alignments:
            kernel.alignments.push_back(alignment)
        kernel.locals.resize(kernel.alignments.size())
        kernel.function = <void*> function
        kernel.module = self.module
        return <uintptr_t> made.release()

    def variable(self, str symbol) -> ForeignMemory | None:
        """The memory of a variable, which keeps the program loaded; None if no variable has this name."""
        cdef bytes encoded = symbol.encode()
        cdef size_t nbytes = 0
        cdef uint64_t address = 0
        cdef Status status = cuda.ModuleGetGlobal_v2(&address, &nbytes, self.module.get().handle, encoded)
        if <uint32_t> status == NOT_FOUND:
            return None
        check(status, f"variable {symbol!r}")
        return ForeignMemory(self, address, nbytes)


# -- memory of the GPU, and of the host for it; and what processes share. Each is released with its last reference


POOL_KINDS: dict[str, int] = {"device": DEVICE_POOL, "shared": SHARED_POOL, "host": HOST_POOL}


@cython.no_gc_clear  # freeing needs the context
cdef class CuMemory(NativeMemory):
    """Memory of the device, of the host, or shared by both, from a pool of the driver. It goes back with this object.
    Drop the last reference only when the device is done with it.

    Host and shared memory has the buffer protocol.

    Nothing waits until the stream that it was taken on has got there: the pool maps memory in the call, that stream has
    no other work, and what the pool hands out again was given back when the device was done with it.
    """

    cdef ContextHandle context
    cdef MemoryKind kind

    def __init__(self, ContextHandle context not None, size_t nbytes, str usm_type="device") -> None:
        cdef CuContext* of = context.context
        cdef MemoryKind kind = POOL_KINDS[usm_type]
        cdef uint64_t address = 0
        cdef Status status
        self.context = context
        self.nbytes = nbytes
        self.usm_type = usm_type
        self.kind = kind
        with nogil:
            status = of.take_memory(kind, nbytes, address)
        check(status, f"{nbytes} bytes of {usm_type} memory")
        self.address = address

    def __dealloc__(self):
        if self.address and not is_forked():  # else it is the parent's
            with nogil:
                self.context.context.give_back_memory(self.kind, self.nbytes, self.address)


# -- memory and events that processes share (CUDA Programming Guide, "Interprocess Communication")
#
# Memory is of cuMemAlloc: a handle opens nothing of a pool, and a pool whose memory can be shared otherwise gives none
# back to the system. cuMemFree and cuIpcCloseMemHandle wait for the whole device and let no other thread launch
# meanwhile, behind a closed gate for ever. So they are left to who blocks anyway: see `try_destroy_ended`.


OWN_PROCESS = 201  # CUDA_ERROR_INVALID_CONTEXT


def give_back_shared(ContextHandle context not None) -> bool:
    """Release what has no reference left, once nothing runs; False while a gate is closed."""
    cdef cbool done = False
    cdef Status status
    with nogil:
        status = context.context.give_back_shared(done)
    check(status, "giving memory back")
    return done


@cython.no_gc_clear
cdef class CuLateMemory(NativeMemory):
    """Memory that the device reaches until this object goes, and for whose end the driver would wait: memory of the
    program, which that keeps; of the device, which other processes can open, and none uses when this goes; of another
    process, which keeps it for as long.
    """

    cdef ContextHandle context
    cdef EndedKind kind  # ENDED_KINDS once it has ended

    def __dealloc__(self):
        if self.kind != ENDED_KINDS and not is_forked():
            self.context.context.destroy_later(self.kind, self.address)
            if self.kind == ENDED_REGISTRATIONS:
                with nogil:
                    self.context.context.try_destroy_ended(ENDED_REGISTRATIONS, ENDED_REGISTRATIONS)

    def unregister(self) -> None:
        """Have the device reach what was registered no more. Blocks until nothing runs on it, and no gate is closed."""
        if self.kind == ENDED_REGISTRATIONS:
            self.context.context.destroy_later(self.kind, self.address)
            self.kind = ENDED_KINDS
        with nogil:
            end_registrations(self.context.context)

    def ipc_handle(self) -> bytes | None:
        """What opens it in another process; None if others cannot."""
        cdef IpcHandle made
        cdef Status status
        if self.kind != ENDED_EXPORTS:
            return None
        with nogil:
            status = within(cuda, self.context.context.handle, cuda.IpcGetMemHandle, &made, self.address)
        check(status, "a handle for other processes")
        return made.bytes[:sizeof(IpcHandle)]


cdef CuLateMemory new_late_memory(
    ContextHandle context, EndedKind kind, uint64_t address, size_t nbytes, str usm_type="device"
):
    cdef CuLateMemory made = CuLateMemory.__new__(CuLateMemory)
    made.context = context
    made.kind = kind
    made.address = address
    made.nbytes = nbytes
    made.usm_type = usm_type
    return made


def register_memory(ContextHandle context not None, uintptr_t address, size_t nbytes) -> CuLateMemory:
    """Memory of the program, of the host."""
    cdef Status status
    with nogil:
        status = context.context.register_memory(address, nbytes)
    check(status, f"registering {nbytes} bytes of the host")
    return new_late_memory(context, ENDED_REGISTRATIONS, address, nbytes, "host")


def export_memory(ContextHandle context not None, size_t nbytes) -> CuLateMemory:
    """Memory of the device that other processes can open."""
    cdef uint64_t address = 0
    cdef Status status
    with nogil:
        status = context.context.export_memory(nbytes, address)
    check(status, f"{nbytes} bytes that other processes can open")
    return new_late_memory(context, ENDED_EXPORTS, address, nbytes)


def import_memory(ContextHandle context not None, bytes handle not None) -> CuLateMemory:
    """Memory of another process."""
    cdef IpcHandle given = read_handle(handle)
    cdef uint64_t address = 0
    cdef size_t nbytes = 0
    cdef Status status
    with nogil:
        status = context.context.import_memory(given, address, nbytes)
    check_opened(status, "memory")
    return new_late_memory(context, ENDED_IMPORTS, address, nbytes)


def create_ipc_event(ContextHandle context not None) -> tuple[int, bytes]:
    """(handle, which the caller owns; what opens the event in another process)."""
    cdef IpcHandle opener
    cdef CuEvent* event = NULL
    cdef Status status
    with nogil:  # who frees memory of cuMemAlloc in another thread may hold the driver for long
        status = context.context.create_ipc_event(event, opener)
    check(status, "an event for other processes")
    return <uintptr_t> event, opener.bytes[:sizeof(IpcHandle)]


def open_ipc_event(ContextHandle context not None, bytes handle not None) -> int:
    """The handle, which the caller owns, of an event of another process."""
    cdef CuContext* of = context.context
    cdef IpcHandle given = read_handle(handle)
    cdef void* event = NULL
    cdef Status status
    with nogil:
        status = within(cuda, of.handle, cuda.IpcOpenEventHandle, &event, given)
    check_opened(status, "event")
    return <uintptr_t> new CuEvent(IPC_EVENT, of, event)


cdef IpcHandle read_handle(bytes handle):
    cdef IpcHandle read
    if len(handle) != sizeof(IpcHandle):
        raise InvalidArgumentError(f"a handle of another process is {sizeof(IpcHandle)} bytes, not {len(handle)}")
    memcpy(&read, <const char*> handle, sizeof(IpcHandle))
    return read


cdef int check_opened(Status status, str what) except -1:
    """Raise for a handle that opens nothing."""
    if status == 0 or <uint32_t> status == OUT_OF_MEMORY:
        return check(status, f"{what} of another process")
    call, code, name = explain(status)
    if code == OWN_PROCESS:
        raise InvalidArgumentError(f"this handle is of {what} of this process, which only others can open ({name})")
    raise InvalidArgumentError(
        f"this handle opens no {what} here: it may be gone with its process, of another kind, or of a GPU that this "
        f"process does not see ({call}: {name})")


# -- the table


cdef Driver table = Driver(
    # a host function call blocks after 54, or 27 with graphs between, and after 1,020 launches
    room_of_host_function=11,
    # between a launch and a copy within a graph the hardware changes its engine
    room_of_recorded_copy=2,
    # each takes a microsecond or less: for what takes longer a marker's share does not count
    asks_of_finish=64,
    changes_spare_running=True, recordings_branch=True,
    gates_forbid_releases=False, copies_have_events=False, scopes_matter=False, waits_read_queues=False,
    launch=launch, set_pointer=set_pointer, set_value=set_value, follow=NULL, copy=copy, fill=fill, prefetch=prefetch,
    marker=marker, barrier=barrier, record_shared=record_shared, hold=hold, open_gate=open_gate,
    new_recording=new_recording, add_command=add_command, end_recording=close_recording, change=change, replay=replay,
    poll=poll, wait_events=wait_events, tell_failure=NULL, renew_queue=NULL, write_printed=write_printed,
    event_status=event_status, elapsed=elapsed, bridge=bridge, destroy_event=destroy_event,
    destroy_kernel=destroy_kernel, destroy_recording=destroy_recording, destroy_queue=destroy_queue)

TABLE: int = <uintptr_t> &table
