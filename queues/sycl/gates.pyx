"""Keeps back commands that are submitted behind a gate, and gives them to SYCL when the gate opens.

One lock guards the lists of all held queues, because opening one gate may free several queues. Take it while holding
the lock of a forebay queue, never the other way round. It stays locked while commands go to SYCL, to keep their order.
"""

from cython.operator cimport dereference
from libcpp.atomic cimport (
    atomic, memory_order_acq_rel, memory_order_acquire, memory_order_relaxed, memory_order_release
)
from libcpp.memory cimport make_shared
from libcpp.vector cimport vector

from forebay.core.driver cimport Status, Waits, Wake
from forebay.queues.sycl.calls cimport COMPLETE, HOLDS_ADOPTED, OUT_OF_MEMORY, WAITS_FOR_HELD, failure, sycl
from forebay.queues.sycl.kernels cimport copy_kernel, delete_kernel
from forebay.queues.sycl.submission cimport submit_barrier, submit_copy, submit_fill, submit_kernel

cdef extern from "<mutex>" namespace "std" nogil:
    cdef cppclass mutex:
        void lock()
        void unlock()

cdef extern from "<condition_variable>" namespace "std" nogil:
    cdef cppclass condition_variable_any:
        void wait(mutex& lock)
        void notify_all()

cdef extern from *:
    """
    #include <thread>

    static bool forebay_start_thread(void (*run)(void*), void* data) {
        try {
            std::thread(run, data).detach();
            return true;
        } catch (...) {  // no more threads
            return false;
        }
    }
    """
    bint start_thread "forebay_start_thread"(void (*run)(void*) noexcept nogil, void* data) nogil


# On the heap, and never deleted: threads may wait for it when the process ends, or have been when it was forked.
cdef mutex* lock = new mutex()
cdef condition_variable_any* handed_on = new condition_variable_any()


# -- events


cdef SyclEvent* new_event(int state, void* event) noexcept nogil:
    """A new event with one reference, the caller's. It takes ownership of SYCL's event."""
    cdef SyclEvent* made = new SyclEvent()
    made.references.store(1, memory_order_relaxed)
    made.event = event
    made.state.store(state, memory_order_release)
    return made


cdef void retain_event(SyclEvent* event) noexcept nogil:
    event.references.fetch_add(1, memory_order_relaxed)


cdef void drop_event(SyclEvent* event) noexcept nogil:
    if event.references.fetch_sub(1, memory_order_acq_rel) == 1:
        if event.event != NULL:
            sycl.Event_Delete(event.event)
        del event


cdef void settle(SyclEvent* event, int state, void* made, vector[SyclQueue*]& free_again) noexcept nogil:
    """End the event's pending state. The caller holds the lock."""
    cdef size_t i
    event.event = made
    event.state.store(state, memory_order_release)
    for i in range(event.waiters.size()):
        free_again.push_back(event.waiters[i])
    event.waiters.clear()


cdef bint has_failed(SyclEvent* event) noexcept nogil:
    if event.state.load(memory_order_acquire) != ENDED_BADLY:
        return False  # what came later is done when it is: memory that waits for a marker of its own goes back
    return event.failure.get() == NULL or dereference(event.failure).load(memory_order_acquire)


cdef bint tell_failure_of(SyclEvent* event) noexcept nogil:
    cdef bint refused = event.state.load(memory_order_acquire) == ENDED_BADLY
    return refused if event.failure.get() == NULL else dereference(event.failure).exchange(False)


cdef bint read_waits(Waits* waits) noexcept nogil:
    cdef size_t i
    cdef unsigned int kept = 0
    cdef SyclEvent* event
    for i in range(waits.count):
        if (<SyclEvent*> waits.events[i]).state.load(memory_order_acquire) == PENDING:
            return False
    for i in range(waits.count):
        event = <SyclEvent*> waits.events[i]
        if event.event != NULL:  # NULL for what was refused: nothing is left to wait for
            waits.events[kept] = event.event
            kept += 1
    waits.count = kept
    return True


# -- queues


cdef SyclQueue* new_queue(void* handle, bint adopted) noexcept nogil:
    """A new queue. It takes ownership of SYCL's queue."""
    cdef SyclQueue* queue = new SyclQueue()
    queue.queue = handle
    queue.adopted = adopted
    queue.held.store(False)
    queue.failing = False
    queue.failed = make_shared[atomic[bint]](<bint> False)
    return queue


cdef void forget_failure(SyclQueue* queue) noexcept nogil:
    lock.lock()  # another thread may still be emptying the list
    queue.failed = make_shared[atomic[bint]](<bint> False)  # the old one is the markers'
    lock.unlock()


cdef void delete_queue(SyclQueue* queue) noexcept nogil:
    lock.lock()  # another thread may still be emptying the list
    while not queue.deferred.empty():
        delete_command(queue.deferred.front())
        queue.deferred.pop_front()
    lock.unlock()
    sycl.Queue_Delete(queue.queue)
    del queue


cdef void delete_command(SyclCommand* command) noexcept nogil:
    cdef size_t i
    if command.kind == LAUNCH and command.kernel != NULL:
        delete_kernel(command.kernel)
    for i in range(command.waits.size()):
        drop_event(command.waits[i])
    if command.event != NULL:
        drop_event(command.event)
    del command


cdef Status submit(SyclQueue* queue, SyclCommand* command, Waits waits, void** made) noexcept nogil:
    if command.kind == LAUNCH:
        return submit_kernel(queue.queue, command.kernel, &command.geometry, waits, made)
    if command.kind == COPY:
        return submit_copy(queue.queue, command.to, command.source, command.nbytes, waits, made)
    if command.kind == FILL:
        return submit_fill(
            queue.queue, command.to, command.pattern, command.pattern_size, command.nbytes, waits, made)
    return submit_barrier(queue.queue, waits, made)


cdef Status give(SyclQueue* queue, SyclCommand* command, Waits waits, void** event) noexcept nogil:
    """Submit a command, at once if nothing holds it. The caller keeps the command and the list; `event` may be NULL.

    If a command is held back, its error comes later, like an error of the device.
    """
    cdef void* made = NULL
    cdef Status status
    if queue.held.load(memory_order_acquire) or not read_waits(&waits):
        return defer(queue, command, waits, event)
    status = submit(queue, command, waits, &made)
    if status != 0:
        return status
    if event == NULL:
        sycl.Event_Delete(made)
    else:
        event[0] = new_event(SUBMITTED, made)
        note_failure(queue, command, <SyclEvent*> event[0])
    return 0


cdef void note_failure(SyclQueue* queue, SyclCommand* command, SyclEvent* event) noexcept nogil:
    if command.kind == BARRIER and dereference(queue.failed).load(memory_order_acquire):
        event.failure = queue.failed


cdef Status defer(SyclQueue* queue, SyclCommand* command, Waits waits, void** event) noexcept nogil:
    cdef SyclCommand* kept
    cdef size_t i
    if queue.adopted:
        return failure(WAITS_FOR_HELD)
    kept = new SyclCommand()
    kept[0] = command[0]
    kept.event = NULL
    kept.waits.clear()
    if command.kind == LAUNCH:
        kept.kernel = copy_kernel(command.kernel)
        if kept.kernel == NULL:
            delete_command(kept)
            return failure(OUT_OF_MEMORY)
    for i in range(waits.count):
        retain_event(<SyclEvent*> waits.events[i])
        kept.waits.push_back(<SyclEvent*> waits.events[i])
    if event != NULL:
        kept.event = new_event(PENDING, NULL)
        retain_event(kept.event)
        event[0] = kept.event
    append(queue, kept)
    return 0


cdef void append(SyclQueue* queue, SyclCommand* command) noexcept nogil:
    """Add the command to the list, which takes ownership, and hand on at once what nothing holds."""
    cdef vector[SyclQueue*] free_again
    lock.lock()
    queue.held.store(True, memory_order_release)
    queue.deferred.push_back(command)
    if queue.deferred.size() == 1:  # otherwise the front of the list already waits for something
        free_again.push_back(queue)
        hand_on_all(free_again)
    lock.unlock()


cdef SyclEvent* what_holds(SyclCommand* command) noexcept nogil:
    cdef size_t i
    if command.kind == GATE:
        return command.event if command.event.state.load(memory_order_relaxed) == PENDING else NULL
    for i in range(command.waits.size()):
        if command.waits[i].state.load(memory_order_relaxed) == PENDING:
            return command.waits[i]
    return NULL


cdef bint waits_for_failed(SyclCommand* command) noexcept nogil:
    cdef size_t i
    for i in range(command.waits.size()):
        if command.waits[i].state.load(memory_order_relaxed) == ENDED_BADLY:
            return True
    return False


cdef void hand_on_all(vector[SyclQueue*]& free_again) noexcept nogil:
    """Hand on for all these queues, and for those that become free meanwhile. The caller holds the lock."""
    cdef SyclQueue* queue
    while not free_again.empty():
        queue = free_again.back()
        free_again.pop_back()
        hand_on(queue, free_again)
    handed_on.notify_all()


cdef void hand_on(SyclQueue* queue, vector[SyclQueue*]& free_again) noexcept nogil:
    """Hand on the queue's list, up to the first command that is still held."""
    cdef SyclCommand* command
    cdef SyclEvent* holder
    while not queue.deferred.empty():
        command = queue.deferred.front()
        holder = what_holds(command)
        if holder != NULL:
            holder.waiters.push_back(queue)
            return
        hand_on_one(queue, command, free_again)
        queue.deferred.pop_front()
        delete_command(command)
    queue.failing = False
    queue.held.store(False, memory_order_release)


cdef void hand_on_one(SyclQueue* queue, SyclCommand* command, vector[SyclQueue*]& free_again) noexcept nogil:
    cdef vector[void*] events
    cdef Waits waits
    cdef void* made = NULL
    cdef Status status
    cdef bint fails
    cdef size_t i
    if command.kind == GATE:
        if command.event.state.load(memory_order_relaxed) == ENDED_BADLY:
            queue.failing = True
            dereference(queue.failed).store(True)
        return
    for i in range(command.waits.size()):
        events.push_back(command.waits[i])
    waits.count = <unsigned int> events.size()
    waits.events = events.data()
    if command.kind == ARRIVAL:
        read_waits(&waits)
        status = submit_barrier(queue.queue, waits, &made)
        if status != 0 or not watch(made, command.wake, command.data):
            command.wake(command.data)  # waking too early is better than never
        return
    fails = queue.failing or waits_for_failed(command)
    if not fails or command.kind == BARRIER:  # who waits for a marker waits for what runs, too
        read_waits(&waits)
        fails = submit(queue, command, waits, &made) != 0 or fails
    if fails:
        dereference(queue.failed).store(True)
    if command.event != NULL:
        if made != NULL:
            note_failure(queue, command, command.event)
        settle(command.event, ENDED_BADLY if fails else SUBMITTED, made, free_again)
    elif made != NULL:
        sycl.Event_Delete(made)


# -- gates


cdef cppclass Watched:
    void* event
    Wake wake
    void* data


cdef bint is_over(void* event) noexcept nogil:
    """Whether SYCL's event is done, or nobody can say."""
    cdef int state = sycl.Event_GetCommandExecutionStatus(event)
    return state == COMPLETE or state == 0


cdef void wait_and_wake(void* data) noexcept nogil:
    """Runs on its own thread, because SYCL has no callbacks. It never needs the GIL."""
    cdef Watched* watched = <Watched*> data
    while not is_over(watched.event):
        sycl.Event_Wait(watched.event)  # returns too early when it has thrown
    sycl.Event_Delete(watched.event)
    watched.wake(watched.data)
    del watched


cdef bint watch(void* event, Wake wake, void* data) noexcept nogil:
    """Call `wake` once SYCL's event is done. Takes ownership of the event, also on failure."""
    cdef Watched* watched = new Watched()
    watched.event = event
    watched.wake = wake
    watched.data = data
    if start_thread(wait_and_wake, watched):
        return True
    sycl.Event_Delete(event)
    del watched
    return False


cdef SyclCommand* new_command(CommandKind kind, Waits waits) noexcept nogil:
    cdef SyclCommand* command = new SyclCommand()
    cdef size_t i
    command.kind = kind
    command.kernel = NULL
    command.event = NULL
    for i in range(waits.count):
        retain_event(<SyclEvent*> waits.events[i])
        command.waits.push_back(<SyclEvent*> waits.events[i])
    return command


cdef Status arrive(SyclQueue* queue, Waits waits, Wake wake, void* data) noexcept nogil:
    """Order the queue after the waits, and call `wake` when it gets there. SYCL must have all the waits already."""
    cdef void* made = NULL
    cdef Status status
    if wake == NULL and waits.count == 0:
        return 0
    status = submit_barrier(queue.queue, waits, &made)
    if status != 0:
        return status
    if wake == NULL:
        sycl.Event_Delete(made)
    elif not watch(made, wake, data):
        return failure(OUT_OF_MEMORY)
    return 0


cdef Status hold_queue(SyclQueue* queue, Waits waits, Wake wake, void* data, SyclEvent** gate) noexcept nogil:
    """Keep later commands in the list until the gate is opened. Calls `wake` when the queue reaches the gate.

    Do not read through `gate` once `wake` may have been called: the woken thread may open the gate and be gone.
    """
    cdef SyclCommand* command
    cdef Waits none
    cdef SyclEvent* made
    cdef Status status
    none.count = 0
    none.events = NULL
    if queue.adopted:
        return failure(HOLDS_ADOPTED)
    made = new_event(PENDING, NULL)
    retain_event(made)  # the list's reference
    gate[0] = made
    if not queue.held.load(memory_order_acquire) and read_waits(&waits):
        status = arrive(queue, waits, wake, data)
        if status != 0:
            drop_event(made)
            drop_event(made)
            gate[0] = NULL
            return status
    elif wake != NULL or waits.count != 0:
        command = new_command(ARRIVAL if wake != NULL else BARRIER, waits)
        command.wake = wake
        command.data = data
        append(queue, command)
    command = new_command(GATE, none)
    command.event = made
    append(queue, command)
    return 0


cdef void open_event(SyclEvent* gate, bint failed) noexcept nogil:
    cdef vector[SyclQueue*] free_again
    lock.lock()
    if gate.state.load(memory_order_relaxed) == PENDING:
        settle(gate, ENDED_BADLY if failed else SUBMITTED, NULL, free_again)
        hand_on_all(free_again)
    lock.unlock()


# -- the host's side


cdef int await_submitted(SyclEvent* event) noexcept nogil:
    """Block until the event is no longer pending, and return its state."""
    cdef int state = event.state.load(memory_order_acquire)
    if state != PENDING:
        return state
    lock.lock()
    while event.state.load(memory_order_acquire) == PENDING:
        handed_on.wait(lock[0])
    lock.unlock()
    return event.state.load(memory_order_acquire)
