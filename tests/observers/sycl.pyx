"""Records forebay's calls of dpctl's C interface, and makes chosen calls fail.

While the observer is on, the pointers in the table of calls and in the table of operations lead to its wrappers. While
it is off it costs nothing. It does not see calls of SYCL and its backends, nor calls that dpctl makes itself.

A call is recorded when forebay asks for it. SYCL is called at the same time, except for commands that a gate keeps
back. Those are recorded at once too, as the calls that they will become. When such a command is handed on, the real
call is compared with the record and not recorded again; a difference is a violation. So the record shows SYCL's order,
and its readers need not know that forebay holds queues itself. For the same reason a marker, a barrier and a copy have
one name each, with or without waits. Arguments, which SYCL takes with the launch, are recorded when they are set. The
event that dpctl makes for each command is not recorded if it is dropped at once.

A call that fails returns nothing: dpctl has no error codes, and those given to `fail` are only recorded.
"""

from libc.stdint cimport uint32_t
from libcpp.atomic cimport memory_order_acquire

from forebay.core.driver cimport Answer, Driver, Geometry, Interrupted, Memory, Status, Waits, Wake
from forebay.queues.queue cimport Queue
from forebay.queues.drivers.sycl.calls cimport (
    FAILED, OUT_OF_MEMORY as NO_MEMORY, CALL_Event_GetCommandExecutionStatus, CALL_Event_Wait, CALL_Queue_Fill128,
    CALL_Queue_Fill16, CALL_Queue_Fill32, CALL_Queue_Fill64, CALL_Queue_Memcpy, CALL_Queue_Memset,
    CALL_Queue_SubmitBarrier, CALL_Queue_SubmitBarrierForEvents, CALL_Queue_SubmitNDRange,
    CALL_RawKernelArg_Create, Calls, failure, sycl
)
from forebay.queues.drivers.sycl.gates cimport PENDING, SyclEvent as Event, SyclQueue

from forebay.queues.drivers.sycl import calls, operations
from forebay.queues.drivers.sycl.device import NO_REASON

include "recorder.pxi"

cdef extern from "tests/observers/sycl_calls.hpp" namespace "forebay_observer" nogil:
    cdef enum:
        MAKE_GATE, HOLD_QUEUE, OPEN_GATE, THROWN_WAIT

    void begin_calls(Calls& table)
    void end_calls(Calls& table)
    int64_t serial_of_pending(uintptr_t event)
    int64_t serial_of_sycl(uintptr_t event)
    int64_t new_serial()
    void enter(cbool keeps, int record_as, cbool silent)
    cbool leave()
    size_t note(
        int function, uintptr_t object, uintptr_t kernel, const vector[int64_t]& waits, int64_t event, int64_t detail
    )
    cbool refuse(int function, uintptr_t object)
    void keep(
        uintptr_t queue, int function, const vector[int64_t]& waits, int64_t event, size_t calls, cbool lasts
    )
    void keep_not(uintptr_t queue, size_t at)
    void made(uintptr_t event, int64_t serial, cbool is_pending)
    void made_again(uintptr_t event)
    void release(uintptr_t event)
    void begin_hold()
    void end_hold()
    void gate_fails()
    vector[int64_t] alive()


# -- forebay's operations. A queue and its events are described before the operation, because it changes them.

cdef Driver real  # the table without the observer


cdef int64_t serial_of(Event* event) noexcept nogil:
    if event.state.load(memory_order_acquire) == PENDING or event.event == NULL:
        return serial_of_pending(<uintptr_t> event)
    return serial_of_sycl(<uintptr_t> event.event)


cdef cbool is_pending(Event* event) noexcept nogil:
    return event.state.load(memory_order_acquire) == PENDING


cdef vector[int64_t] serials_of(Waits waits) noexcept nogil:
    cdef vector[int64_t] found
    cdef size_t i
    for i in range(waits.count):
        found.push_back(serial_of(<Event*> waits.events[i]))
    return found


cdef cbool is_kept(void* queue, Waits waits) noexcept nogil:
    """Whether forebay may keep this back. If True it may still be handed on at once; if False it is never kept."""
    cdef size_t i
    if (<SyclQueue*> queue).held.load(memory_order_acquire):
        return True
    for i in range(waits.count):
        if is_pending(<Event*> waits.events[i]):
            return True
    return False


cdef cppclass Asked:
    uintptr_t queue
    cbool kept
    int64_t event
    size_t at


cdef Status begin_command(
    Asked* asked, void* queue, void* kernel, Waits waits, int function, int record_as, size_t n_calls,
    cbool makes_event
) noexcept nogil:
    cdef vector[int64_t] serials
    asked.queue = <uintptr_t> (<SyclQueue*> queue).queue
    asked.kept = is_kept(queue, waits)
    if asked.kept:
        if refuse(function, asked.queue):
            return failure(function)
        serials = serials_of(waits)
        asked.event = new_serial() if makes_event else 0
        keep(asked.queue, function, serials, asked.event, n_calls, False)
        asked.at = note(function, asked.queue, <uintptr_t> kernel, serials, asked.event, 0)
    enter(asked.kept, record_as, False)
    return 0


cdef void end_command(Asked* asked, Status status, void** event) noexcept nogil:
    leave()
    if asked.kept and status != 0:
        keep_not(asked.queue, asked.at)
    elif status == 0 and event != NULL:
        if asked.kept:
            made(<uintptr_t> event[0], asked.event, True)
        else:
            made(<uintptr_t> event[0], serial_of(<Event*> event[0]), False)


cdef Status see_launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil:
    cdef Asked asked
    cdef Status status = begin_command(&asked, queue, kernel, waits, CALL_Queue_SubmitNDRange, -1, 1, False)
    if status == 0:
        status = real.launch(queue, kernel, geometry, waits)
        end_command(&asked, status, NULL)
    return status


cdef Status see_copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Asked asked
    cdef Status status = begin_command(
        &asked, queue, NULL, waits, CALL_Queue_Memcpy, CALL_Queue_Memcpy, 1, event != NULL)
    if status == 0:
        status = real.copy(queue, to, source, nbytes, waits, event)
        end_command(&asked, status, event)
    return status


cdef int filled_by(size_t pattern_size) noexcept nogil:
    if pattern_size == 1:
        return CALL_Queue_Memset
    if pattern_size == 2:
        return CALL_Queue_Fill16
    if pattern_size == 4:
        return CALL_Queue_Fill32
    return CALL_Queue_Fill64 if pattern_size == 8 else CALL_Queue_Fill128


cdef size_t calls_of_fill(size_t pattern_size, size_t nbytes) noexcept nogil:
    cdef size_t n_calls = pattern_size // 16
    cdef size_t done = pattern_size
    if pattern_size <= 16:
        return 1
    while done < nbytes:
        n_calls += 1
        done *= 2
    return n_calls


cdef Status see_fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Asked asked
    cdef Status status = begin_command(
        &asked, queue, NULL, waits, filled_by(pattern_size), -1, calls_of_fill(pattern_size, nbytes), event != NULL)
    if status == 0:
        status = real.fill(queue, to, pattern, pattern_size, nbytes, waits, event)
        end_command(&asked, status, event)
    return status


cdef Status see_marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    cdef Asked asked
    cdef Status status = begin_command(
        &asked, queue, NULL, waits, CALL_Queue_SubmitBarrier, CALL_Queue_SubmitBarrier, 1, True)
    if status == 0:
        status = real.marker(queue, waits, use, event)
        end_command(&asked, status, event)
    return status


cdef Status see_barrier(void* queue, Waits waits) noexcept nogil:
    cdef Asked asked
    cdef Status status = begin_command(
        &asked, queue, NULL, waits, CALL_Queue_SubmitBarrierForEvents, CALL_Queue_SubmitBarrierForEvents, 1, False)
    if status == 0:
        status = real.barrier(queue, waits)
        end_command(&asked, status, NULL)
    return status


cdef Status see_hold(void* queue, void* context, Waits waits, Wake wake, void* data, void** gate) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(waits)
    cdef vector[int64_t] nothing
    cdef uintptr_t native = <uintptr_t> (<SyclQueue*> queue).queue
    cdef cbool kept = is_kept(queue, waits)
    cdef cbool arrives = wake != NULL or waits.count != 0  # arrival is a barrier, which carries the waits
    cdef Status status
    cdef int64_t serial
    if refuse(MAKE_GATE, native) or refuse(HOLD_QUEUE, native):
        return failure(NO_MEMORY)
    serial = new_serial()
    note(MAKE_GATE, 0, 0, nothing, serial, 0)
    if kept and arrives:
        keep(native, CALL_Queue_SubmitBarrier, serials, 0, 1, True)
    begin_hold()
    enter(kept, -1, False)
    status = real.hold(queue, context, waits, wake, data, gate)
    leave()
    if status == 0:
        made(<uintptr_t> gate[0], serial, True)
        if not kept:
            serials.clear()
        serials.push_back(serial)
        note(HOLD_QUEUE, native, 0, serials, 0, 0)
    elif kept and arrives:
        keep_not(native, <size_t> -1)
    end_hold()
    return status


cdef Status see_open_gate(void* gate, bint failed) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef Status status
    note(OPEN_GATE, <uintptr_t> gate, 0, nothing, serial_of(<Event*> gate), failed)
    if failed:
        gate_fails()
    enter(True, -1, False)
    status = real.open_gate(gate, failed)
    leave()
    return status


cdef Status see_set_pointer(void* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    cdef vector[int64_t] nothing
    if refuse(CALL_RawKernelArg_Create, <uintptr_t> kernel):
        return failure(CALL_RawKernelArg_Create)
    note(CALL_RawKernelArg_Create, <uintptr_t> kernel, 0, nothing, 0, index)
    return real.set_pointer(kernel, index, memory)


cdef Status see_set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    cdef vector[int64_t] nothing
    if refuse(CALL_RawKernelArg_Create, <uintptr_t> kernel):
        return failure(CALL_RawKernelArg_Create)
    note(CALL_RawKernelArg_Create, <uintptr_t> kernel, 0, nothing, 0, index)
    return real.set_value(kernel, index, size, value)


cdef Status see_wait_events(void* context, Waits events, Interrupted interrupted) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(events)
    cdef cbool reached
    cdef Status status
    if refuse(CALL_Event_Wait, <uintptr_t> context):
        return failure(CALL_Event_Wait)
    enter(False, -1, True)
    status = real.wait_events(context, events, interrupted)
    reached = leave()
    record().pause_at(CALL_Event_Wait)
    if reached and status == 0:
        note(CALL_Event_Wait, <uintptr_t> context, 0, serials, serials[0] if serials.size() == 1 else 0, 0)
    return status


cdef Answer see_event_status(void* event) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef Answer status
    if is_pending(<Event*> event):
        if refuse(CALL_Event_GetCommandExecutionStatus, <uintptr_t> event):
            return failure(CALL_Event_GetCommandExecutionStatus)
        note(CALL_Event_GetCommandExecutionStatus, <uintptr_t> event, 0, nothing, serial_of(<Event*> event), 1)
    enter(False, -1, False)
    status = real.event_status(event)
    leave()
    return status


cdef Status see_elapsed(void* first, void* second, double* nanoseconds) noexcept nogil:
    cdef Status status
    enter(False, -1, False)
    status = real.elapsed(first, second, nanoseconds)
    leave()
    return status


cdef Status see_bridge(void* context, void* event, void** bridged) noexcept nogil:
    cdef Status status = real.bridge(context, event, bridged)
    if status == 0:
        made_again(<uintptr_t> event)
    return status


cdef void see_release_event(void* event) noexcept nogil:
    release(<uintptr_t> event)
    enter(False, -1, False)
    real.release_event(event)
    leave()


cdef Driver* table() noexcept:
    cdef uintptr_t address = operations.table_address()
    return <Driver*> address


cdef void begin_operations():
    global real
    cdef Driver* current = table()
    real = current[0]
    current.launch = see_launch
    current.copy = see_copy
    current.fill = see_fill
    current.marker = see_marker
    current.barrier = see_barrier
    current.hold = see_hold
    current.open_gate = see_open_gate
    current.set_pointer = see_set_pointer
    current.set_value = see_set_value
    current.wait_events = see_wait_events
    current.event_status = see_event_status
    current.elapsed = see_elapsed
    current.bridge = see_bridge
    current.release_event = see_release_event


NAMES = (*calls.CALL_NAMES, "gate", "hold", "open")

# The kind of each call, for tests that compare the order with the rules. The words are the same for every driver.
KINDS = {
    "DPCTLQueue_SubmitBarrier": "marker",
    "DPCTLQueue_SubmitBarrierForEvents": "barrier",
    "DPCTLEvent_Wait": "wait",
    "DPCTLEvent_GetCommandExecutionStatus": "query",
    "DPCTLRawKernelArg_Create": "argument",
    "DPCTLmalloc_device": "allocate",
    "DPCTLmalloc_shared": "allocate",
    "DPCTLmalloc_host": "allocate",
    "gate": "gate",
    "hold": "barrier",
    "open": "open",
}
COMMANDS = ("DPCTLQueue_SubmitNDRange", "DPCTLQueue_Mem", "DPCTLQueue_Fill")
NEVER_FAIL = tuple(name for name in NAMES if name.endswith("_Delete") or "free" in name)
# The call for each operation, where there is only one.
LAUNCH = "DPCTLQueue_SubmitNDRange"
UPLOAD = DOWNLOAD = "DPCTLQueue_Memcpy"
FILL = "DPCTLQueue_Fill32"  # with elements of four bytes
MARKER = "DPCTLQueue_SubmitBarrier"
BARRIER = "DPCTLQueue_SubmitBarrierForEvents"
HOLD = "hold"  # a gate holds the queue by forebay's own list
HOST_FUNCTION = "hold"
ARGUMENT = "DPCTLRawKernelArg_Create"
REPLAY = None  # a graph is replayed by a loop over its commands
FINISH = WAIT = "DPCTLEvent_Wait"  # for a marker
QUERY = "DPCTLEvent_GetCommandExecutionStatus"
GATE = ("gate",)
FLUSH = None  # this driver has none
OPEN = "open"
NEW_QUEUE = "DPCTLQueue_Copy"
NEW_RECORDING = None
RELEASE_QUEUE = "DPCTLQueue_Delete"
GATE_MARKERS = 0  # markers that a gate makes for itself
POLLS = False  # whether the driver reports that a queue is done, without a marker
FINISH_IS_POLL = False
DONE = 0  # the status of an event that is done
FAILURE = FAILED, NO_REASON  # an error that any call may return
EVENT_FAILURE = NO_REASON  # its name when the query of an event fails
OUT_OF_MEMORY = FAILED


cdef void begin():
    calls.load()
    begin_calls(sycl)
    begin_operations()


cdef void end():
    table()[0] = real
    end_calls(sycl)


def watch(emulate=False):
    """Does nothing. The observer needs no facts from before `start`, and this driver executes, so it needs no answers.

    A violation is a call of SYCL that differs from the command that was kept back.
    """


def unwatch():
    """End what `watch` began."""


def throw_in_wait():
    """Let the next wait end at once, as dpctl lets a wait end that has thrown, and its event say nothing."""
    record().fail(THROWN_WAIT, FAILED, 0)


def events_alive(device):
    """The serials of events made while observed to which forebay still holds references."""
    return sorted(alive())


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return <uintptr_t> (<SyclQueue*> queue.state.handle).queue
