"""CUDA's side of the table of operations (`forebay.core.driver`), and the objects that it works on: what is behind the
handles, and devices, programs and memory as objects of Python. The driver's functions are found at run time.

Measured on an H100 (driver 580, CUDA 13.0), and what follows from it:

- Launches, copies, records, waits and queries need no current context, and none to be the right one. What makes things
  does, and to add or change a node of a graph without one ends the process: `enter` and `leave`.
- cuMemFree, cuMemFreeHost, cuModuleLoadData and cuModuleUnload wait for all that runs on the device, a stream behind a
  closed gate too. All but the last let no other thread launch meanwhile. So memory comes from pools and is given back
  by cuMemFreeAsync, which waits for nobody; a module is loaded while no gate is closed (`begin_without_gates`), and
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
from libcpp.algorithm cimport find
from libcpp.atomic cimport atomic, memory_order_acq_rel, memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    CHANGED_GROUPS, CHANGED_POINTER, COPY_COMMAND, DONE, INTERRUPTED, LAUNCH_COMMAND, NOT_NOW, NOT_YET, TIMED, Answer,
    Arrival, Change, RecordedCommand, Driver, Geometry, Interrupted, Memory, Status, Waits, HostCallback
)
from forebay.core.locks cimport Lock
from forebay.core.process cimport is_forked
from forebay.queues.memory.allocation cimport ForeignMemory, NativeMemory

from forebay.core.driver import fill_table
from forebay.core.errors import BuildError, DriverError, InvalidArgumentError, OutOfMemoryError

cdef enum:
    # error codes
    OUT_OF_MEMORY = 2
    NOT_FOUND = 500
    NOT_READY = 600
    ALREADY_ENABLED = 704  # access to a peer
    EQUAL = 1  # CU_STREAM_WAIT_VALUE_EQ
    LARGEST_PATTERN = 128
    FILL_BLOCK = 256
    FILL_GROUPS = 1024
    NON_BLOCKING = 1  # of a stream: forebay's own rules say what the null queue waits for
    AHEAD = 256  # streams, 6 ms
    NO_TIMING = 2  # of an event
    FIRST = 4096  # bytes of a pool's first memory
    CHUNK = 1 << 20  # bytes of the host that blocks are cut from, a multiple of the largest
    MOST_ASKED = 4  # gates, for each that is made
    # CUmemAllocationType, CUmemLocationType, CUmemAccess_flags, CUmemPool_attribute
    PINNED = 1
    MANAGED = 2
    ON_DEVICE = 1
    ON_HOST = 2
    READ_WRITE = 3
    RELEASE_THRESHOLD = 4
    # CUfunction_attribute
    THREADS = 0
    STATIC_SHARED = 1
    DYNAMIC_SHARED = 8
    # CUjit_option
    ERROR_LOG = 5
    ERROR_SIZE = 6
    LOG_SIZE = 1 << 14
    SMALLEST_BLOCK = 256  # bytes, which all are multiples of: no type wants more
    BLOCK_CLASSES = 9
    LARGEST_BLOCK = 1 << 16
    KEPT = 64 << 20  # bytes of a pool: mapping memory takes a hundred microseconds, of the host some milliseconds
    PORTABLE_MAPPED = 3  # host memory of all contexts, with an address for the device

ctypedef Status (*Function)(...) noexcept nogil


# `calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
cdef extern from "queues/cuda/calls.hpp" namespace "forebay_cuda":
    cdef struct Location:
        uint32_t type
        int32_t id
    cdef struct PoolProps:
        uint32_t allocation
        Location location
    cdef struct AccessDesc:
        Location location
        uint32_t flags
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
        Function StreamWaitEvent, StreamWaitValue32_v2, StreamQuery, StreamSynchronize, StreamCreateWithPriority
        Function StreamDestroy_v2, StreamGetCtx
        Function EventRecord, EventQuery, EventCreate, EventDestroy_v2, EventElapsedTime_v2
        Function GraphCreate, GraphAddKernelNode_v2, GraphAddMemcpyNode, GraphAddMemsetNode
        Function GraphInstantiateWithFlags, GraphExecKernelNodeSetParams_v2, GraphLaunch, GraphExecDestroy, GraphDestroy
        Function MemPoolCreate, MemPoolDestroy, MemPoolSetAttribute, MemPoolSetAccess, MemPoolTrimTo
        Function MemAllocFromPoolAsync, MemFreeAsync, MemHostAlloc, MemHostRegister_v2, MemHostUnregister
        Function MemAlloc_v2, MemFree_v2, MemGetAddressRange_v2
        Function IpcGetMemHandle, IpcOpenMemHandle_v2, IpcCloseMemHandle, IpcGetEventHandle, IpcOpenEventHandle
        Function ModuleLoadDataEx, ModuleUnload, ModuleGetFunction, ModuleGetGlobal_v2
        Function FuncGetAttribute, FuncSetAttribute, OccupancyMaxActiveBlocksPerMultiprocessor
        Function DeviceCanAccessPeer, CtxEnablePeerAccess
        Function DevicePrimaryCtxRetain, CtxPushCurrent_v2, CtxPopCurrent_v2, CtxGetStreamPriorityRange
        Function GetErrorName

    const char* const* call_names
    Status within(const Calls& cuda, void* context, ...) noexcept nogil


cdef Calls cuda

CALLS: int = <uintptr_t> &cuda
CALL_NAMES: tuple[str, ...] = tuple([(b"cu" + call_names[i]).decode() for i in range(N_CALLS)])


cdef enum EventKind:
    PLAIN_EVENT
    TIMED_EVENT
    GATE_EVENT  # recorded behind a wait for a word that the host writes
    EVENT_KINDS
    IPC_EVENT  # which other processes know, and which is never recorded for anything else


cdef enum MemoryKind:
    DEVICE_POOL
    SHARED_POOL
    HOST_POOL
    POOLS


cdef enum EndedKind:
    """What is destroyed later: the driver would wait until nothing runs, or until all gates are open."""
    ENDED_MODULES
    ENDED_EXECUTABLES
    ENDED_REGISTRATIONS  # memory of the host that was registered
    ENDED_EXPORTS  # memory that other processes could open
    ENDED_IMPORTS  # memory of other processes
    ENDED_KINDS


cdef cppclass CuContext:
    """The primary context of one GPU. It lives as long as the process, as with CUDA's runtime: making one takes half a
    second, and other packages use it.
    """
    void* handle
    int32_t device
    cbool migrates  # shared memory, on request
    void* pools[POOLS]  # NULL until needed
    void* memory_stream  # on which memory is taken from the pools and given back; it has no other work
    CuModule* kernels  # forebay's own; and the one that fills
    void* fill
    atomic[uint32_t] streams  # that are alive
    atomic[uint32_t] stream_capacity  # for how many the driver has memory
    atomic[uint32_t] printing  # programs that call printf
    atomic[uint32_t] printed  # of these, how many have ended
    atomic[uint32_t] written  # how many had before the driver last wrote what kernels had printed
    Lock lock  # guards all below
    vector[int32_t] reached  # devices whose memory this one uses
    vector[CuEvent*] idle[EVENT_KINDS]
    vector[CuEvent*] passing  # gates that are open and given back, which their queue may not have passed yet
    size_t asked_for  # which of these is asked for next
    vector[uint64_t] ended[ENDED_KINDS]  # handles, or addresses of memory
    vector[CuQueue*] joins  # private streams for host waits on many events, each one wait's at a time; these are idle
    vector[uint64_t] blocks[BLOCK_CLASSES]  # small memory of the host that is idle, by size
    uint64_t chunk  # of which more is cut from the end
    size_t chunk_left  # bytes


cdef cppclass CuEvent:
    void* handle
    atomic[int32_t] references
    CuContext* context
    uint32_t* word  # gates only: what the host writes, in pinned memory
    EventKind kind


cdef cppclass CuQueue:
    void* stream
    CuContext* context
    PyObject* owner  # of a stream of another package: the object that was adopted, retained; else NULL


cdef cppclass CuModule:
    atomic[int32_t] references  # the owner's, and one for each kernel
    void* handle
    CuContext* context
    cbool prints


cdef Lock importing  # two threads that open and close the same memory get CUDA_ERROR_ALREADY_MAPPED

cdef extern from *:
    """
    #include <atomic>
    #include <chrono>
    #include <thread>
    static inline std::int64_t forebay_now() {
        return std::chrono::duration_cast<std::chrono::microseconds>(
            std::chrono::steady_clock::now().time_since_epoch()).count();
    }
    static inline void forebay_rest(int time) { std::this_thread::sleep_for(std::chrono::microseconds(time)); }
    static inline void forebay_store(std::uint32_t *word, std::uint32_t value) {
        reinterpret_cast<std::atomic<std::uint32_t> *>(word)->store(value, std::memory_order_release);
    }
    """
    int64_t now "forebay_now" () noexcept nogil  # microseconds
    void rest "forebay_rest" (int microseconds) noexcept nogil
    void store "forebay_store" (uint32_t* word, uint32_t value) noexcept nogil


cdef cppclass CuKernel:
    """A function and the values of its parameters, which a launch copies."""
    void* function
    CuModule* module  # retained
    vector[uint64_t] words  # the values, each at a whole word
    vector[void*] values  # where each of the driver's parameters is, as cuLaunchKernel takes them
    vector[uint32_t] locals  # by parameter: bytes of local memory
    vector[uint32_t] alignments  # of these; 0 for a parameter that is no local memory
    uint32_t shared  # bytes of dynamic shared memory


cdef cppclass CuNode:
    """A launch in a recording, as it is now."""
    void* node
    CuKernel* kernel  # a copy, so that it can change; NULL for another command
    KernelNode params


cdef cppclass CuRecording:
    void* graph
    void* executable
    CuContext* context
    vector[CuNode*] nodes
    vector[void*] after  # room for the nodes that one comes after


# -- the launch path


cdef Status come_after(void* stream, Waits waits) noexcept nogil:
    """Let the stream wait for these events. If a later call is refused the waits before it stay, and harm nobody."""
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
        place_locals(changed)
    else:
        memcpy(changed.values[index], value, size)
    return 0


# -- other commands


cdef Status copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Status status = come_after((<CuQueue*> queue).stream, waits)
    cdef CuEvent* made = NULL
    if status == 0 and event != NULL:  # before the copy, which cannot be taken back
        made = take_event((<CuQueue*> queue).context, PLAIN_EVENT, &status)
    if status == 0:
        status = cuda.MemcpyAsync(to.address, source.address, nbytes, (<CuQueue*> queue).stream)
    return conclude(<CuQueue*> queue, status, made, event)


cdef Status conclude(CuQueue* queue, Status status, CuEvent* made, void** event) noexcept nogil:
    """Record the event of a command that was submitted, or was not."""
    if made == NULL:
        return status
    if status == 0:
        status = cuda.EventRecord(made.handle, queue.stream)
    if status == 0:
        event[0] = made
    else:
        release_event(made)
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
    cdef Status status = come_after(filled.stream, waits)
    cdef CuEvent* made = NULL
    if status == 0 and event != NULL:
        made = take_event(filled.context, PLAIN_EVENT, &status)
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
    cdef Status status = come_after((<CuQueue*> queue).stream, waits)
    cdef CuEvent* made = NULL
    if status == 0:
        made = take_event((<CuQueue*> queue).context, TIMED_EVENT if use & TIMED else PLAIN_EVENT, &status)
    return conclude(<CuQueue*> queue, status, made, event)


cdef Status barrier(void* queue, Waits waits) noexcept nogil:
    return come_after((<CuQueue*> queue).stream, waits)


cdef Status record_shared(void* queue, void* event) noexcept nogil:
    return cuda.EventRecord((<CuEvent*> event).handle, (<CuQueue*> queue).stream)


cdef Status hold(void* queue, void* context, Waits waits, HostCallback wake, void* data, void** gate) noexcept nogil:
    cdef CuQueue* held = <CuQueue*> queue
    cdef Status status = 0
    cdef Arrival* arrival = NULL
    cdef bint waits_for_word = False
    cdef CuEvent* made = take_event(held.context, GATE_EVENT, &status)
    if made == NULL:
        return status
    without_gates.lock()  # blocks while a module is loaded or a graph instantiated: that waits for nothing but kernels
    closed_gates.fetch_add(1)
    without_gates.unlock()
    gate[0] = made  # before `wake` can be called
    status = come_after(held.stream, waits)
    if status == 0 and wake != NULL:
        arrival = new Arrival(wake, data)
        status = cuda.LaunchHostFunc(held.stream, Arrival.arrive, arrival)
        if status != 0:
            del arrival
            arrival = NULL
    if status == 0:
        status = cuda.StreamWaitValue32_v2(held.stream, <uint64_t> <uintptr_t> made.word, 1, EQUAL)
        waits_for_word = status == 0
    if status == 0:
        status = cuda.EventRecord(made.handle, held.stream)
    if status != 0:
        gate[0] = NULL
        closed_gates.fetch_sub(1)
        if waits_for_word:
            store(made.word, 1)  # and nobody knows when the stream has read it, so it is not used again
        else:
            release_event(made)
    if arrival != NULL:
        arrival.settle(status == 0)
    return status


cdef Status open_gate(void* gate, bint failed) noexcept nogil:
    """Open a gate. CUDA cannot fail the commands behind it: they run even if `failed`."""
    store((<CuEvent*> gate).word, 1)
    closed_gates.fetch_sub(1)
    return 0


# -- graphs


cdef Status new_recording(void* queue, bint changeable, void** recording) noexcept nogil:
    cdef void* graph = NULL
    cdef CuRecording* made
    cdef Status status
    if closed_gates.load() != 0:
        return NOT_NOW
    status = cuda.GraphCreate(&graph, 0)
    if status != 0:
        return status
    made = new CuRecording()
    made.graph = graph
    made.context = (<CuQueue*> queue).context
    recording[0] = made
    return 0


cdef Status add_command(
    void* recording, const RecordedCommand* command, const uint32_t* after, uint32_t count
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
        memcpy(node.params.groups, command.geometry.groups, sizeof(command.geometry.groups))
        memcpy(node.params.block, command.geometry.block, sizeof(command.geometry.block))
        node.params.function = node.kernel.function
        node.params.shared = node.kernel.shared
        node.params.values = node.kernel.values.data()
        node.params.context = context.handle
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
            release_kernel(node.kernel)
        del node
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
    cdef Status status
    if not begin_without_gates():
        return NOT_NOW
    status = enter(closed.context)
    if status == 0:
        destroy_ended(closed.context, ENDED_EXECUTABLES)
        status = cuda.GraphInstantiateWithFlags(&closed.executable, closed.graph, 0)
        leave()
    without_gates.unlock()
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
            status = cuda.GraphExecKernelNodeSetParams_v2(changed.executable, node.node, &node.params)
            if status != 0:
                break
    leave()
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
    cdef CuQueue* join
    cdef void* joined = NULL
    cdef Status status = 0
    cdef uint32_t i
    if events.count < JOINED_FROM or closed_gates.load() != 0:
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
        release_event(joined)
    if status == 0:
        on.lock.lock()
        on.joins.push_back(join)
        on.lock.unlock()
    else:
        release_queue(join)  # it may wait still, for nobody
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
    (<CuEvent*> event).references.fetch_add(1, memory_order_relaxed)
    bridged[0] = event
    return 0


# -- contexts

cdef Lock contexts_lock
cdef vector[CuContext*] contexts


cdef CuContext* open_context(int32_t device, const char* kernels, Status* status) noexcept nogil:
    """The primary context of a GPU; `kernels` is PTX of forebay's own."""
    cdef CuContext* context = NULL
    cdef size_t i
    contexts_lock.lock()
    for i in range(contexts.size()):
        if contexts[i].device == device:
            context = contexts[i]
    if context == NULL:
        context = new CuContext()
        context.device = device
        status[0] = begin_context(context, kernels)
        if status[0] != 0:
            del context  # what it has is the primary context's, and little; nobody will ask for it again
            context = NULL
        else:
            # GPUs copy to and from each other's memory of the host; without access the driver ends the process then.
            # If it refuses, only copies between the two are concerned.
            for i in range(contexts.size()):
                allow_access(context.pools[<int> HOST_POOL], contexts[i].device)
                allow_access(contexts[i].pools[<int> HOST_POOL], context.device)
            contexts.push_back(context)
    contexts_lock.unlock()
    return context


cdef Status allow_access(void* pool, int32_t device) noexcept nogil:
    """Let a GPU use what is and will be taken from a pool."""
    cdef AccessDesc access
    access.location.type = ON_DEVICE
    access.location.id = device
    access.flags = READ_WRITE
    return cuda.MemPoolSetAccess(pool, &access, 1)


cdef Status begin_context(CuContext* context, const char* kernels) noexcept nogil:
    """Make what the context has. All of it is made here, because some of these calls wait behind closed gates."""
    cdef int kind
    cdef void* module = NULL
    cdef Status status = cuda.DevicePrimaryCtxRetain(&context.handle, context.device)
    if status == 0:
        status = enter(context)
    if status != 0:
        return status
    status = cuda.StreamCreateWithPriority(&context.memory_stream, NON_BLOCKING, 0)
    if status == 0:
        status = cuda.ModuleLoadDataEx(&module, kernels, 0, NULL, NULL)
    if status == 0:
        context.kernels = new_module(context, module, False)
        status = cuda.ModuleGetFunction(&context.fill, module, b"fill")
    if status == 0:
        make_streams_ahead(context, 0)
    leave()
    for kind in range(POOLS):
        if status == 0:
            status = open_pool(context, <MemoryKind> kind)
            if kind == SHARED_POOL:
                status = 0  # a GPU may have none, which is said when it is asked for
    return status


cdef void make_streams_ahead(CuContext* context, uint32_t before) noexcept nogil:
    """Have the driver take the memory for `AHEAD` more streams, which it keeps. It takes it for some 43 at a time, and
    waits behind closed gates before. No gate is closed, and the context is current.
    """
    cdef void* made[AHEAD]
    cdef int count = 0
    cdef Status status = 0
    while status == 0 and count < AHEAD:
        status = cuda.StreamCreateWithPriority(&made[count], NON_BLOCKING, 0)
        count += status == 0
    context.stream_capacity.store(max(context.stream_capacity.load(), before + count))  # it keeps what it took
    while count:
        count -= 1
        cuda.StreamDestroy_v2(made[count])


cdef int reserve_stream(CuContext* context) except -1 nogil:
    """Count a stream that is about to be made, with memory of the driver for it. If it has none, this blocks until no
    gate is closed.
    """
    cdef uint32_t count = context.streams.fetch_add(1) + 1
    cdef uint32_t capacity = context.stream_capacity.load()
    if count + AHEAD // 2 <= capacity:
        return 0
    if count <= capacity:  # there is memory for this one, so nothing is waited for
        if not without_gates.try_lock():
            return 0
        if closed_gates.load() != 0:
            without_gates.unlock()
            return 0
    else:
        context.streams.fetch_sub(1)
        wait_without_gates()
        count = context.streams.fetch_add(1) + 1
    if count + AHEAD // 2 > context.stream_capacity.load() and enter(context) == 0:
        make_streams_ahead(context, context.streams.load() - 1)  # the one that is counted is not made yet
        leave()
    without_gates.unlock()
    return 0


cdef Status enter(CuContext* context) noexcept nogil:
    """Make the context current in this thread, until `leave`."""
    return cuda.CtxPushCurrent_v2(context.handle)


cdef void leave() noexcept nogil:
    cdef void* popped = NULL
    cuda.CtxPopCurrent_v2(&popped)


cdef Status open_pool(CuContext* context, MemoryKind kind) noexcept nogil:
    """Have a pool of this kind, with its first memory."""
    cdef PoolProps props
    cdef uint64_t kept = KEPT
    cdef uint64_t first = 0
    cdef void* pool = NULL
    cdef Status status
    props.allocation = MANAGED if kind == SHARED_POOL else PINNED
    props.location.type = ON_HOST if kind == HOST_POOL else ON_DEVICE
    props.location.id = 0 if kind == HOST_POOL else context.device
    status = enter(context)
    if status != 0:
        return status
    status = cuda.MemPoolCreate(&pool, &props)
    if status == 0 and kind == HOST_POOL:
        status = allow_access(pool, context.device)
    if status == 0:
        status = cuda.MemPoolSetAttribute(pool, RELEASE_THRESHOLD, &kept)
    if status == 0:
        status = cuda.MemAllocFromPoolAsync(&first, FIRST, pool, context.memory_stream)
        if status == 0:
            cuda.MemFreeAsync(first, context.memory_stream)
    leave()
    context.lock.lock()
    if status == 0 and context.pools[<int> kind] == NULL:
        context.pools[<int> kind] = pool
        pool = NULL
    context.lock.unlock()
    if pool != NULL:  # refused, or another thread was first
        cuda.MemPoolDestroy(pool)
    return status


# -- small memory of the host: pinned, and never given back to the driver, whose cuMemFreeHost waits for the whole
# device. A copy of 4 bytes from its pool's memory, which can be given back, takes 1.6 µs more; from 64 KiB on there is
# no difference.


cdef inline int class_of(size_t nbytes) noexcept nogil:
    """Which of the lists has blocks for so many bytes: their sizes are powers of two."""
    cdef int found = 0
    while SMALLEST_BLOCK << found < <int64_t> nbytes:
        found += 1
    return found


cdef Status take_block(CuContext* context, size_t nbytes, uint64_t* address) noexcept nogil:
    """Take pinned memory, of at most LARGEST_BLOCK bytes."""
    cdef int smaller, at = class_of(nbytes)
    cdef size_t size = SMALLEST_BLOCK << at
    cdef void* chunk = NULL
    cdef Status status
    while True:
        context.lock.lock()
        if not context.blocks[at].empty():
            address[0] = context.blocks[at].back()
            context.blocks[at].pop_back()
        elif context.chunk_left >= size:
            context.chunk_left -= size
            address[0] = context.chunk + context.chunk_left
        context.lock.unlock()
        if address[0]:
            return 0
        status = within(cuda, context.handle, cuda.MemHostAlloc, &chunk, <size_t> CHUNK, <uint32_t> PORTABLE_MAPPED)
        if status != 0:
            return status
        context.lock.lock()
        for smaller in range(BLOCK_CLASSES - 1, -1, -1):  # what is left of the chunk before goes to the lists
            while context.chunk_left >= <size_t> SMALLEST_BLOCK << smaller:
                context.chunk_left -= SMALLEST_BLOCK << smaller
                context.blocks[smaller].push_back(context.chunk + context.chunk_left)
        context.chunk = <uint64_t> <uintptr_t> chunk
        context.chunk_left = CHUNK
        context.lock.unlock()


cdef void give_back_block(CuContext* context, size_t nbytes, uint64_t address) noexcept nogil:
    context.lock.lock()
    context.blocks[class_of(nbytes)].push_back(address)
    context.lock.unlock()


# -- queues


cdef CuQueue* new_queue(CuContext* context, int32_t priority, Status* status) noexcept nogil:
    """Its stream is counted already."""
    cdef void* stream = NULL
    cdef CuQueue* queue
    status[0] = within(
        cuda, context.handle, cuda.StreamCreateWithPriority, &stream, <uint32_t> NON_BLOCKING, priority)
    if status[0] != 0:
        context.streams.fetch_sub(1)
        return NULL
    queue = new CuQueue()
    queue.stream = stream
    queue.context = context
    return queue


cdef void release_queue(void* handle) noexcept nogil:
    """Nobody asks the stream for anything any more. No lock is held: whoever owned an adopted one may go with it."""
    cdef CuQueue* queue = <CuQueue*> handle
    if queue.owner == NULL:
        cuda.StreamDestroy_v2(queue.stream)
        queue.context.streams.fetch_sub(1)
    else:
        with gil:
            Py_DECREF(<object> queue.owner)
    del queue


cdef CuQueue* take_join(CuContext* context, Status* status) noexcept nogil:
    """An idle private stream, or a new one. NULL on failure."""
    cdef CuQueue* join = NULL
    context.lock.lock()
    if not context.joins.empty():
        join = context.joins.back()
        context.joins.pop_back()
    context.lock.unlock()
    if join == NULL:
        context.streams.fetch_add(1)
        join = new_queue(context, 0, status)
    return join


# -- events


cdef CuEvent* take_event(CuContext* context, EventKind kind, Status* status) noexcept nogil:
    """An idle event, or a new one, with one reference. NULL on failure.

    One that others still wait for may be recorded again: a stream waits for what was recorded when it was told to.
    """
    cdef CuEvent* event = NULL
    if kind == GATE_EVENT:
        recycle_gates(context)
    context.lock.lock()
    if not context.idle[<int> kind].empty():
        event = context.idle[<int> kind].back()
        context.idle[<int> kind].pop_back()
    context.lock.unlock()
    if event == NULL:
        event = create_event(context, kind, status)
    if event != NULL:
        event.references.store(1, memory_order_relaxed)
        if event.word != NULL:
            store(event.word, 0)
    return event


cdef CuEvent* create_event(CuContext* context, EventKind kind, Status* status) noexcept nogil:
    cdef void* handle = NULL
    cdef uint64_t word = 0
    status[0] = take_block(context, sizeof(uint32_t), &word) if kind == GATE_EVENT else 0
    if status[0] == 0:
        status[0] = within(
            cuda, context.handle, cuda.EventCreate, &handle, <uint32_t> (0 if kind == TIMED_EVENT else NO_TIMING))
    if status[0] != 0:
        if word:
            give_back_block(context, sizeof(uint32_t), word)
        return NULL
    return new_event(context, kind, handle, word)


cdef CuEvent* new_event(CuContext* context, EventKind kind, void* handle, uint64_t word) noexcept nogil:
    """An event over this one of the driver's, with one reference."""
    cdef CuEvent* event = new CuEvent()
    event.references.store(1, memory_order_relaxed)
    event.handle = handle
    event.context = context
    event.word = <uint32_t*> <uintptr_t> word
    event.kind = kind
    return event


cdef void release_event(void* handle) noexcept nogil:
    cdef CuEvent* event = <CuEvent*> handle
    cdef CuContext* context = event.context
    if event.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    if event.kind == IPC_EVENT:
        cuda.EventDestroy_v2(event.handle)
        del event
        return
    context.lock.lock()
    if event.kind == GATE_EVENT:
        context.passing.push_back(event)  # its stream may not have read the word yet
    else:
        context.idle[<int> event.kind].push_back(event)
    context.lock.unlock()


cdef void recycle_gates(CuContext* context) noexcept nogil:
    """Find gates that can be used again, because their stream has passed them. It asks for a few in turn: many may be
    open behind one that is closed.
    """
    cdef size_t left, i
    context.lock.lock()
    left = context.passing.size()
    if left > MOST_ASKED:
        left = MOST_ASKED
    while left:
        left -= 1
        i = context.asked_for if context.asked_for < context.passing.size() else 0
        if cuda.EventQuery(context.passing[i].handle) == 0:
            context.idle[<int> GATE_EVENT].push_back(context.passing[i])
            context.passing[i] = context.passing.back()
            context.passing.pop_back()
            context.asked_for = i
        else:
            context.asked_for = i + 1
    context.lock.unlock()


# -- gates, and what must not run while one is closed

cdef Lock without_gates  # a gate is closed, a module loaded and a graph instantiated with it
cdef atomic[uint32_t] closed_gates  # of all devices of the process


cdef bint begin_without_gates() noexcept nogil:
    """Begin something for which the driver would wait until all gates are open, and let no other thread launch. Returns
    False, and nothing is begun, if one is closed. If it returns True, the caller unlocks `without_gates` afterwards.
    """
    without_gates.lock()
    if closed_gates.load() == 0:
        return True
    without_gates.unlock()
    return False


cdef int wait_without_gates() except -1 nogil:
    """Block until something begins for which `begin_without_gates` returned True."""
    while not begin_without_gates():
        rest(1000)
        with gil:
            PyErr_CheckSignals()
    return 0


# -- what is destroyed later


cdef void destroy_later(CuContext* context, EndedKind kind, uint64_t handle) noexcept nogil:
    context.lock.lock()
    context.ended[<int> kind].push_back(handle)
    context.lock.unlock()


cdef void destroy_ended(CuContext* context, EndedKind kind) noexcept nogil:
    """Destroy what nobody uses any more, which waits until nothing runs. No gate is closed, and for executables and
    modules the context is current.
    """
    cdef vector[uint64_t] ended
    cdef size_t i
    context.lock.lock()
    ended.swap(context.ended[<int> kind])
    context.lock.unlock()
    for i in range(ended.size()):
        if kind == ENDED_MODULES:
            cuda.ModuleUnload(<void*> <uintptr_t> ended[i])
        elif kind == ENDED_EXECUTABLES:
            cuda.GraphExecDestroy(<void*> <uintptr_t> ended[i])
        elif kind == ENDED_REGISTRATIONS:
            cuda.MemHostUnregister(ended[i])
        elif kind == ENDED_EXPORTS:
            cuda.MemFree_v2(ended[i])
        else:
            importing.lock()
            cuda.IpcCloseMemHandle(ended[i])
            importing.unlock()


cdef bint try_destroy_ended(CuContext* context, EndedKind first, EndedKind last) noexcept nogil:
    """Destroy what nobody uses any more of these kinds. False, and nothing is destroyed, while a gate is closed: then
    it is left to who comes next.
    """
    cdef int kind
    if not begin_without_gates():
        return False
    for kind in range(first, last + 1):
        destroy_ended(context, <EndedKind> kind)
    without_gates.unlock()
    return True


# -- modules, kernels and recordings: a plan may keep a kernel for longer than anybody keeps the program


cdef CuModule* new_module(CuContext* context, void* handle, bint prints) noexcept nogil:
    cdef CuModule* module = new CuModule()
    module.references.store(1, memory_order_relaxed)
    module.handle = handle
    module.context = context
    module.prints = prints
    if prints:
        context.printing.fetch_add(1, memory_order_relaxed)
    return module


cdef CuModule* retain_module(CuModule* module) noexcept nogil:
    module.references.fetch_add(1, memory_order_relaxed)
    return module


cdef void release_module(CuModule* module) noexcept nogil:
    """Unloading waits for all that runs on the device, so it is left to who loads the next module."""
    if module.references.fetch_sub(1, memory_order_acq_rel) != 1:
        return
    if module.prints:  # in this order, so that no wait takes it for ended and written
        module.context.printed.fetch_add(1)
        module.context.printing.fetch_sub(1)
    destroy_later(module.context, ENDED_MODULES, <uintptr_t> module.handle)
    del module


cdef CuKernel* copy_kernel(const CuKernel* kernel) noexcept nogil:
    """Another kernel object of the same function, with the same values."""
    cdef CuKernel* copy = new CuKernel()
    cdef size_t i
    copy[0] = kernel[0]
    retain_module(copy.module)
    for i in range(copy.values.size()):
        copy.values[i] = <void*> (<uintptr_t> kernel.values[i] - <uintptr_t> kernel.words.data()
                                  + <uintptr_t> copy.words.data())
    return copy


cdef void place_locals(CuKernel* kernel) noexcept nogil:
    """Place the parameters in local memory one after the other in dynamic shared memory."""
    cdef uint32_t end = 0
    cdef uint32_t alignment
    cdef size_t i
    for i in range(kernel.alignments.size()):
        alignment = kernel.alignments[i]
        if alignment == 0:
            continue
        end = (end + alignment - 1) // alignment * alignment
        if i < kernel.values.size():
            (<uint64_t*> kernel.values[i])[0] = end
        end += kernel.locals[i]
    kernel.shared = end


cdef void release_kernel(void* handle) noexcept nogil:
    cdef CuKernel* kernel = <CuKernel*> handle
    release_module(kernel.module)
    del kernel


cdef void release_recording(void* handle) noexcept nogil:
    """To destroy an executable may wait for closed gates, as to make one does; then it is left to who makes the next.
    """
    cdef CuRecording* recording = <CuRecording*> handle
    cdef CuContext* context = recording.context
    cdef size_t i
    cdef bint entered = enter(context) == 0
    if recording.executable != NULL:
        destroy_later(context, ENDED_EXECUTABLES, <uintptr_t> recording.executable)
        if entered:
            try_destroy_ended(context, ENDED_EXECUTABLES, ENDED_EXECUTABLES)
    cuda.GraphDestroy(recording.graph)
    if entered:
        leave()
    for i in range(recording.nodes.size()):
        if recording.nodes[i].kernel != NULL:
            release_kernel(recording.nodes[i].kernel)
        del recording.nodes[i]
    del recording


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
            self.context = open_context(device, text, &status)
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
        check(enter(self.context), "making the context current")

    def __exit__(self, *raised: object) -> None:
        leave()

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
        cdef CuContext* context = self.context
        cdef CuContext* other = peer.context
        cdef Status status = 0
        cdef bint reached
        with nogil:
            context.lock.lock()
            reached = find(context.reached.begin(), context.reached.end(), other.device) != context.reached.end()
            context.lock.unlock()
            reached = reached or context == other
            if not reached and begin_without_gates():
                status = reach_memory(context, other)
                without_gates.unlock()
                reached = True
        check(status, "access to another GPU")
        return reached

    def create_queue(self, int32_t priority) -> tuple[int, int]:
        """A stream that the legacy null stream does not wait for: (the driver's handle, the operations' handle, which
        the caller owns).

        Blocks until no gate is closed if there are more streams than the driver has memory for (docs/cuda.md); others
        run meanwhile, and Ctrl-C ends it.
        """
        cdef Status status = 0
        cdef CuQueue* queue
        with nogil:
            reserve_stream(self.context)
            queue = new_queue(self.context, priority, &status)
        check(status, "making a queue")
        return <uintptr_t> queue.stream, <uintptr_t> queue

    def adopt_queue(self, uintptr_t stream, object owner) -> int:
        """The operations' handle, which the caller owns, of a stream of another package. The stream is `owner`'s, which
        is kept as long as the handle: after a close, too, forebay may have to ask the stream how far it is.
        """
        cdef CuQueue* queue = new CuQueue()
        Py_INCREF(owner)
        queue.owner = <PyObject*> owner
        queue.stream = <void*> stream
        queue.context = self.context
        return <uintptr_t> queue

    def order(self, uintptr_t later, uintptr_t earlier) -> None:
        """Let what one stream gets from now on come after what another has got. The other may be a default stream."""
        cdef void* event = NULL
        cdef Status status = enter(self.context)  # which default streams are of
        if status == 0:
            status = cuda.EventCreate(&event, NO_TIMING)
            if status == 0:
                status = cuda.EventRecord(event, <void*> earlier)
                if status == 0:
                    status = cuda.StreamWaitEvent(<void*> later, event, 0)
                cuda.EventDestroy_v2(event)
            leave()
        check(status, "waiting for a stream of another package")


def context_of(uintptr_t stream) -> int:
    """The driver's handle of the context that a stream is of. Raises `DriverError`."""
    cdef void* context = NULL
    check(cuda.StreamGetCtx(<void*> stream, &context), f"the context of stream {stream:#x}")
    return <uintptr_t> context


cdef Status reach_memory(CuContext* context, CuContext* other) noexcept nogil:
    """Pools say by themselves who has access to what is taken from them, variables and other packages' memory do not.
    """
    cdef Status status = within(cuda, context.handle, cuda.CtxEnablePeerAccess, other.handle, <uint32_t> 0)
    if <uint32_t> status == ALREADY_ENABLED:  # by another package
        status = 0
    if status == 0:
        status = allow_access(other.pools[<int> DEVICE_POOL], context.device)
    if status == 0:
        context.lock.lock()
        context.reached.push_back(other.device)
        context.lock.unlock()
    return status


cdef class CuProgram:
    """A module that is loaded: PTX that ends with a zero, or a cubin. `name` is the device's.

    Raises `BuildError` if the driver refuses it, with what it says as the log.

    Blocks while the driver compiles; until nothing runs on the device; and while any gate is closed, of any device of
    CUDA in this process: behind a closed gate the driver would block, and let no other thread launch.
    """

    cdef CuModule* module
    cdef ContextHandle context

    def __init__(self, ContextHandle context not None, bytes image not None, str name) -> None:
        cdef CuContext* of = context.context
        cdef const char* text = image
        cdef uint32_t options[4]
        cdef void* values[4]
        cdef void* handle = NULL
        cdef Status status
        cdef bytearray errors = bytearray(LOG_SIZE)
        self.context = context
        options[0] = ERROR_LOG
        values[0] = <char*> errors
        options[1] = ERROR_SIZE
        values[1] = <void*> <uintptr_t> LOG_SIZE
        with nogil:
            wait_without_gates()
            status = enter(of)
            if status == 0:
                destroy_ended(of, ENDED_MODULES)
                status = cuda.ModuleLoadDataEx(&handle, text, 2, options, values)
                leave()
            without_gates.unlock()
        if status != 0:
            call, code, called = explain(status)
            if code == OUT_OF_MEMORY:
                check(status, "building a program")
            log = bytes(errors).split(b"\0")[0].decode(errors="replace").strip() or called
            raise BuildError(f"the program does not build on {name}: {call} failed: {called}\n{log}", log=log)
        self.module = new_module(of, handle, b"vprintf" in image)

    @staticmethod
    def own(ContextHandle context not None) -> CuProgram:
        """The module of forebay's own kernels, which was loaded with the context and stays. Does not block."""
        cdef CuProgram made = CuProgram.__new__(CuProgram)
        made.context = context
        made.module = retain_module(context.context.kernels)
        return made

    def __dealloc__(self):
        if self.module != NULL:
            release_module(self.module)

    def function(self, str symbol) -> int:
        """The driver's handle of a kernel. It is valid as long as this object."""
        cdef bytes encoded = symbol.encode()
        cdef void* function = NULL
        check(cuda.ModuleGetFunction(&function, self.module.handle, encoded),
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
        cdef CuKernel* kernel = new CuKernel()
        cdef vector[size_t] offsets
        cdef size_t words = 0
        cdef size_t offset
        cdef size_t nbytes
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
        kernel.module = retain_module(self.module)
        return <uintptr_t> kernel

    def variable(self, str symbol) -> ForeignMemory | None:
        """The memory of a variable, which keeps the program loaded; None if no variable has this name."""
        cdef bytes encoded = symbol.encode()
        cdef size_t nbytes = 0
        cdef uint64_t address = 0
        cdef Status status = cuda.ModuleGetGlobal_v2(&address, &nbytes, self.module.handle, encoded)
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
            status = take_memory(of, kind, nbytes, &address)
            if <uint32_t> status == OUT_OF_MEMORY and enter(of) == 0:
                trim(of, 0)  # the pools may have kept some, and what others could open may wait for its end
                try_destroy_ended(of, ENDED_EXPORTS, ENDED_IMPORTS)
                leave()
                status = take_memory(of, kind, nbytes, &address)
        check(status, f"{nbytes} bytes of {usm_type} memory")
        self.address = address

    def __dealloc__(self):
        if not self.address or is_forked():  # then it is the parent's
            return
        if is_block(self.kind, self.nbytes):  # POOL_KINDS may be gone: the process may be ending
            give_back_block(self.context.context, self.nbytes, self.address)
        else:
            with nogil:
                cuda.MemFreeAsync(<uint64_t> self.address, self.context.context.memory_stream)
                trim(self.context.context, KEPT)


cdef inline bint is_block(MemoryKind kind, size_t nbytes) noexcept nogil:
    return kind == HOST_POOL and nbytes <= LARGEST_BLOCK


cdef Status take_memory(CuContext* context, MemoryKind kind, size_t nbytes, uint64_t* address) noexcept nogil:
    cdef Status status
    if is_block(kind, nbytes):
        return take_block(context, nbytes, address)
    if context.pools[<int> kind] == NULL:  # the GPU refused it when the context was opened
        status = open_pool(context, kind)
        if status != 0:
            return status
    return cuda.MemAllocFromPoolAsync(address, nbytes, context.pools[<int> kind], context.memory_stream)


cdef void trim(CuContext* context, size_t kept) noexcept nogil:
    """Release memory that the pools keep, but for this many bytes each."""
    cdef int kind
    for kind in range(POOLS):
        if context.pools[kind] != NULL:
            cuda.MemPoolTrimTo(context.pools[kind], kept)


# -- memory and events that processes share (CUDA Programming Guide, "Interprocess Communication")
#
# Memory is of cuMemAlloc: a handle opens nothing of a pool, and a pool whose memory can be shared otherwise gives none
# back to the system. cuMemFree and cuIpcCloseMemHandle wait for the whole device and let no other thread launch
# meanwhile, behind a closed gate for ever. So they are left to who blocks anyway: see `try_destroy_ended`.


cdef enum:
    LAZY_ENABLE_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag there is
    NO_TIMING_INTERPROCESS = 2 | 4  # of an event

OWN_PROCESS = 201  # CUDA_ERROR_INVALID_CONTEXT


def give_back_shared(ContextHandle context not None) -> bool:
    """Release what has no reference left, once nothing runs; False while a gate is closed."""
    cdef CuContext* of = context.context
    cdef bint done = False
    cdef Status status
    with nogil:
        status = enter(of)
        if status == 0:
            done = try_destroy_ended(of, ENDED_EXPORTS, ENDED_IMPORTS)
            leave()
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
            destroy_later(self.context.context, self.kind, self.address)
            if self.kind == ENDED_REGISTRATIONS:
                with nogil:
                    try_destroy_ended(self.context.context, ENDED_REGISTRATIONS, ENDED_REGISTRATIONS)

    def unregister(self) -> None:
        """Have the device reach what was registered no more. Blocks until nothing runs on it, and no gate is closed."""
        if self.kind == ENDED_REGISTRATIONS:
            destroy_later(self.context.context, self.kind, self.address)
            self.kind = ENDED_KINDS
        with nogil:
            wait_without_gates()
            destroy_ended(self.context.context, ENDED_REGISTRATIONS)
            without_gates.unlock()

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
    cdef CuContext* of = context.context
    cdef Status status
    with nogil:
        status = enter(of)
        if status == 0:
            try_destroy_ended(of, ENDED_REGISTRATIONS, ENDED_REGISTRATIONS)
            status = cuda.MemHostRegister_v2(address, nbytes, PORTABLE_MAPPED)
            leave()
    check(status, f"registering {nbytes} bytes of the host")
    return new_late_memory(context, ENDED_REGISTRATIONS, address, nbytes, "host")


def export_memory(ContextHandle context not None, size_t nbytes) -> CuLateMemory:
    """Memory of the device that other processes can open."""
    cdef CuContext* of = context.context
    cdef uint64_t address = 0
    cdef Status status
    with nogil:
        status = enter(of)
        if status == 0:
            try_destroy_ended(of, ENDED_EXPORTS, ENDED_IMPORTS)
            status = cuda.MemAlloc_v2(&address, nbytes)
            if <uint32_t> status == OUT_OF_MEMORY:  # the pools may have kept some
                trim(of, 0)
                status = cuda.MemAlloc_v2(&address, nbytes)
            leave()
    check(status, f"{nbytes} bytes that other processes can open")
    return new_late_memory(context, ENDED_EXPORTS, address, nbytes)


def import_memory(ContextHandle context not None, bytes handle not None) -> CuLateMemory:
    """Memory of another process."""
    cdef CuContext* of = context.context
    cdef IpcHandle given = read_handle(handle)
    cdef uint64_t address = 0, base = 0
    cdef size_t nbytes = 0
    cdef Status status
    with nogil:
        status = enter(of)
        if status == 0:
            try_destroy_ended(of, ENDED_EXPORTS, ENDED_IMPORTS)
            importing.lock()
            status = cuda.IpcOpenMemHandle_v2(&address, given, LAZY_ENABLE_PEER_ACCESS)
            importing.unlock()
            if status == 0:
                status = cuda.MemGetAddressRange_v2(&base, &nbytes, address)
                if status != 0:
                    destroy_later(of, ENDED_IMPORTS, address)
            leave()
    check_opened(status, "memory")
    return new_late_memory(context, ENDED_IMPORTS, address, base + nbytes - address)


def create_ipc_event(ContextHandle context not None) -> tuple[int, bytes]:
    """(handle, which the caller owns; what opens the event in another process)."""
    cdef CuContext* of = context.context
    cdef IpcHandle made
    cdef void* event = NULL
    cdef Status status
    with nogil:  # who frees memory of cuMemAlloc in another thread may hold the driver for long
        status = enter(of)
        if status == 0:
            status = cuda.EventCreate(&event, NO_TIMING_INTERPROCESS)
            if status == 0:
                status = cuda.IpcGetEventHandle(&made, event)
                if status != 0:
                    cuda.EventDestroy_v2(event)
            leave()
    check(status, "an event for other processes")
    return <uintptr_t> new_event(of, IPC_EVENT, event, 0), made.bytes[:sizeof(IpcHandle)]


def open_ipc_event(ContextHandle context not None, bytes handle not None) -> int:
    """The handle, which the caller owns, of an event of another process."""
    cdef CuContext* of = context.context
    cdef IpcHandle given = read_handle(handle)
    cdef void* event = NULL
    cdef Status status
    with nogil:
        status = within(cuda, of.handle, cuda.IpcOpenEventHandle, &event, given)
    check_opened(status, "event")
    return <uintptr_t> new_event(of, IPC_EVENT, event, 0)


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
    event_status=event_status, elapsed=elapsed, bridge=bridge, release_event=release_event,
    release_kernel=release_kernel, release_recording=release_recording, release_queue=release_queue)

TABLE: int = <uintptr_t> &table
