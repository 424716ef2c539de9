"""Makes, shares and releases the structures of handles.pxd. None of this needs the GIL; one call takes it.

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

from cpython.ref cimport Py_DECREF
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libcpp.atomic cimport atomic, memory_order_acq_rel, memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.core.vector_clock cimport Lock
from forebay.queues.cuda.calls cimport (
    CALL_CtxPushCurrent_v2, CALL_DevicePrimaryCtxRetain, CALL_EventCreate, CALL_MemAllocFromPoolAsync,
    CALL_MemHostAlloc, CALL_MemPoolCreate, CALL_MemPoolSetAccess, CALL_MemPoolSetAttribute, CALL_ModuleGetFunction,
    CALL_ModuleLoadDataEx, CALL_StreamCreateWithPriority, AccessDesc, PoolProps, cuda
)

cdef enum:
    NON_BLOCKING = 1  # of a stream: forebay's own rules say what the null queue waits for
    AHEAD = 256  # streams, 6 ms
    NO_TIMING = 2  # of an event
    PORTABLE_MAPPED = 3  # host memory of all contexts, with an address for the device
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
    KEPT = 64 << 20  # bytes of a pool: mapping memory takes a hundred microseconds, of the host some milliseconds

cdef extern from *:
    """
    #include <atomic>
    static inline void forebay_store(std::uint32_t *word, std::uint32_t value) {
        reinterpret_cast<std::atomic<std::uint32_t> *>(word)->store(value, std::memory_order_release);
    }
    """
    void store "forebay_store" (uint32_t* word, uint32_t value) noexcept nogil


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
            for i in range(contexts.size()):
                share_host_pools(context, contexts[i])
            contexts.push_back(context)
    contexts_lock.unlock()
    return context


cdef void share_host_pools(CuContext* one, CuContext* other) noexcept nogil:
    """Let each GPU copy to and from the other's memory of the host. Without access the driver ends the process then. If
    it refuses, only copies between the two are concerned.
    """
    allow_access(one.pools[<int> HOST_POOL], other.device)
    allow_access(other.pools[<int> HOST_POOL], one.device)


cdef Status allow_access(void* pool, int32_t device) noexcept nogil:
    """Let a GPU use what is and will be taken from a pool."""
    cdef AccessDesc access
    access.location.type = ON_DEVICE
    access.location.id = device
    access.flags = READ_WRITE
    return outcome(CALL_MemPoolSetAccess, cuda.MemPoolSetAccess(pool, &access, 1))


cdef Status begin_context(CuContext* context, const char* kernels) noexcept nogil:
    """Make what the context has. All of it is made here, because some of these calls wait behind closed gates."""
    cdef int kind
    cdef void* module = NULL
    cdef Status status = outcome(CALL_DevicePrimaryCtxRetain, cuda.DevicePrimaryCtxRetain(
        &context.handle, context.device))
    if status == 0:
        status = enter(context)
    if status != 0:
        return status
    status = outcome(CALL_StreamCreateWithPriority, cuda.StreamCreateWithPriority(
        &context.memory_stream, NON_BLOCKING, 0))
    if status == 0:
        status = outcome(CALL_ModuleLoadDataEx, cuda.ModuleLoadDataEx(&module, kernels, 0, NULL, NULL))
    if status == 0:
        context.kernels = new_module(context, module, False)
        status = outcome(CALL_ModuleGetFunction, cuda.ModuleGetFunction(&context.fill, module, b"fill"))
    if status == 0:
        make_streams_ahead()
    leave()
    for kind in range(POOLS):
        if status == 0:
            status = open_pool(context, <MemoryKind> kind)
            if kind == SHARED_POOL:
                status = 0  # a GPU may have none, which is said when it is asked for
    return status


cdef void make_streams_ahead() noexcept nogil:
    """Have the driver take the memory for `AHEAD` streams, which it keeps. It takes it for some 43 at a time, and a
    stream that is made behind a closed gate waits for that. Streams of forebay's own are made there, too.
    """
    cdef void* made[AHEAD]
    cdef int count = 0
    cdef Status status = 0
    while status == 0 and count < AHEAD:
        status = outcome(CALL_StreamCreateWithPriority, cuda.StreamCreateWithPriority(&made[count], NON_BLOCKING, 0))
        count += status == 0
    while count:
        count -= 1
        cuda.StreamDestroy_v2(made[count])


cdef Status enter(CuContext* context) noexcept nogil:
    """Make the context current in this thread, until `leave`."""
    return outcome(CALL_CtxPushCurrent_v2, cuda.CtxPushCurrent_v2(context.handle))


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
    context.lock.lock()
    pool = context.pools[<int> kind]
    context.lock.unlock()
    if pool != NULL:
        return 0
    props.allocation = MANAGED if kind == SHARED_POOL else PINNED
    props.location.type = ON_HOST if kind == HOST_POOL else ON_DEVICE
    props.location.id = 0 if kind == HOST_POOL else context.device
    status = enter(context)
    if status != 0:
        return status
    status = outcome(CALL_MemPoolCreate, cuda.MemPoolCreate(&pool, &props))
    if status == 0 and kind == HOST_POOL:
        status = allow_access(pool, context.device)
    if status == 0:
        status = outcome(CALL_MemPoolSetAttribute, cuda.MemPoolSetAttribute(pool, RELEASE_THRESHOLD, &kept))
    if status == 0:
        status = outcome(CALL_MemAllocFromPoolAsync, cuda.MemAllocFromPoolAsync(
            &first, FIRST, pool, context.memory_stream))
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
    cdef int at = class_of(nbytes)
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
        status = enter(context)
        if status == 0:
            status = outcome(CALL_MemHostAlloc, cuda.MemHostAlloc(&chunk, CHUNK, PORTABLE_MAPPED))
            leave()
        if status != 0:
            return status
        context.lock.lock()
        add_chunk(context, <uint64_t> <uintptr_t> chunk)
        context.lock.unlock()


cdef void add_chunk(CuContext* context, uint64_t chunk) noexcept nogil:
    """Cut blocks from this memory from now on; what is left of the one before goes to the lists."""
    cdef int at
    for at in range(BLOCK_CLASSES - 1, -1, -1):
        while context.chunk_left >= <size_t> SMALLEST_BLOCK << at:
            context.chunk_left -= SMALLEST_BLOCK << at
            context.blocks[at].push_back(context.chunk + context.chunk_left)
    context.chunk = chunk
    context.chunk_left = CHUNK


cdef void give_back_block(CuContext* context, size_t nbytes, uint64_t address) noexcept nogil:
    context.lock.lock()
    context.blocks[class_of(nbytes)].push_back(address)
    context.lock.unlock()


# -- queues


cdef CuQueue* new_queue(CuContext* context, int32_t priority, Status* status) noexcept nogil:
    cdef void* stream = NULL
    cdef CuQueue* queue
    status[0] = enter(context)
    if status[0] != 0:
        return NULL
    status[0] = outcome(CALL_StreamCreateWithPriority, cuda.StreamCreateWithPriority(&stream, NON_BLOCKING, priority))
    leave()
    if status[0] != 0:
        return NULL
    queue = new CuQueue()
    queue.stream = stream
    queue.context = context
    queue.owned = True
    queue.owner = NULL
    context.streams.fetch_add(1)
    return queue


cdef void release_queue(CuQueue* queue) noexcept nogil:
    """Nobody asks the stream for anything any more. No lock is held: whoever owned an adopted one may go with it."""
    if queue.owned:
        cuda.StreamDestroy_v2(queue.stream)
        queue.context.streams.fetch_sub(1)
    if queue.owner != NULL:
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
    return join if join != NULL else new_queue(context, 0, status)


cdef void give_back_join(CuQueue* join) noexcept nogil:
    """Make a private stream, whose wait is over, idle."""
    join.context.lock.lock()
    join.context.joins.push_back(join)
    join.context.lock.unlock()


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
        event = new_event(context, kind, status)
    if event != NULL:
        event.references.store(1, memory_order_relaxed)
        if event.word != NULL:
            store(event.word, 0)
    return event


cdef CuEvent* new_event(CuContext* context, EventKind kind, Status* status) noexcept nogil:
    cdef void* handle = NULL
    cdef uint64_t word = 0
    cdef CuEvent* event
    status[0] = take_block(context, sizeof(uint32_t), &word) if kind == GATE_EVENT else 0
    if status[0] == 0:
        status[0] = enter(context)
    if status[0] == 0:
        status[0] = outcome(CALL_EventCreate, cuda.EventCreate(&handle, 0 if kind == TIMED_EVENT else NO_TIMING))
        leave()
    if status[0] != 0:
        if word:
            give_back_block(context, sizeof(uint32_t), word)
        return NULL
    event = new CuEvent()
    event.handle = handle
    event.context = context
    event.word = <uint32_t*> <uintptr_t> word
    event.kind = kind
    return event


cdef CuEvent* retain_event(CuEvent* event) noexcept nogil:
    event.references.fetch_add(1, memory_order_relaxed)
    return event


cdef void release_event(CuEvent* event) noexcept nogil:
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


cdef bint begin_gate() noexcept nogil:
    """Count a gate that is about to be closed. Blocks while a module is loaded or a graph instantiated: then no gate is
    closed, so that waits for nothing but kernels.
    """
    without_gates.lock()
    closed_gates.fetch_add(1)
    without_gates.unlock()
    return True


cdef void end_gate() noexcept nogil:
    closed_gates.fetch_sub(1)


cdef void open_word(CuEvent* gate) noexcept nogil:
    """Let the stream go on."""
    store(gate.word, 1)


cdef uint32_t gates_closed() noexcept nogil:
    return closed_gates.load()


cdef bint begin_without_gates() noexcept nogil:
    """Begin something for which the driver would wait until all gates are open, and let no other thread launch. Returns
    False, and nothing is begun, if one is closed. `end_without_gates` follows if it returns True.
    """
    without_gates.lock()
    if closed_gates.load() == 0:
        return True
    without_gates.unlock()
    return False


cdef void end_without_gates() noexcept nogil:
    without_gates.unlock()


cdef void destroy_ended(CuContext* context) noexcept nogil:
    """Destroy the executables that nobody uses any more. The context is current, and no gate is closed."""
    cdef vector[void*] ended
    cdef size_t i
    context.lock.lock()
    ended.swap(context.ended_executables)
    context.lock.unlock()
    for i in range(ended.size()):
        cuda.GraphExecDestroy(ended[i])


cdef void unload_ended(CuContext* context) noexcept nogil:
    """Unload the modules that nobody uses any more, which waits until nothing runs. No gate is closed."""
    cdef vector[void*] ended
    cdef size_t i
    context.lock.lock()
    ended.swap(context.ended_modules)
    context.lock.unlock()
    for i in range(ended.size()):
        cuda.ModuleUnload(ended[i])


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
        module.context.ended_printing.fetch_add(1)
        module.context.printing.fetch_sub(1)
    module.context.lock.lock()
    module.context.ended_modules.push_back(module.handle)
    module.context.lock.unlock()
    del module


cdef CuKernel* copy_kernel(const CuKernel* kernel) noexcept nogil:
    """Another kernel object of the same function, with the same values."""
    cdef CuKernel* copy = new CuKernel()
    cdef size_t i
    copy.function = kernel.function
    copy.module = retain_module(kernel.module)
    copy.words = kernel.words
    copy.values = kernel.values
    copy.locals = kernel.locals
    copy.alignments = kernel.alignments
    copy.shared = kernel.shared
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


cdef void release_kernel(CuKernel* kernel) noexcept nogil:
    release_module(kernel.module)
    del kernel


cdef void release_recording(CuRecording* recording) noexcept nogil:
    """To destroy an executable may wait for closed gates, as to make one does; then it is left to who makes the next.
    """
    cdef CuContext* context = recording.context
    cdef size_t i
    cdef bint entered = enter(context) == 0
    if recording.executable != NULL:
        context.lock.lock()
        context.ended_executables.push_back(recording.executable)
        context.lock.unlock()
        if entered and begin_without_gates():
            destroy_ended(context)
            end_without_gates()
    cuda.GraphDestroy(recording.graph)
    if entered:
        leave()
    for i in range(recording.nodes.size()):
        if recording.nodes[i].kernel != NULL:
            release_kernel(recording.nodes[i].kernel)
        del recording.nodes[i]
    del recording
