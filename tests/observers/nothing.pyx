"""Records forebay's calls of the driver that executes nothing, makes chosen ones fail, and lets it lie.

While the observer is on, the pointers in the table of operations lead to its wrappers. A hold is recorded as two calls:
"Gate", which makes the gate, and "Hold", which waits for it. A poll is recorded as "Finish", as of a driver that has
one call for both, with the status 1 when it says "not done".
"""

from libc.stdint cimport uint32_t

from forebay.core.driver cimport (
    DONE as IS_DONE, Answer, Driver, Geometry, Interrupted, Memory, Status, Waits, Wake, no_waits
)
from forebay.queues.queue cimport Queue

from tests.drivers.nothing.operations cimport Calls

from tests.drivers.nothing import operations

include "recorder.pxi"

cdef extern from "tests/observers/nothing_calls.hpp" namespace "forebay_observer" nogil:
    cppclass Holding:
        void lock()
        void unlock()

    Holding holding
    void forget_all()
    int64_t serial_of(void* event)
    int64_t made(void* event)
    void forget(void* event)
    void note(int function, void* object, void* kernel, const vector[int64_t]& waits, int64_t event, int64_t detail,
              int64_t status, cbool injected)
    cbool fails(int function, int64_t& code)
    vector[int64_t] alive()

NAMES = (*operations.CALL_NAMES, "Gate")
cdef enum Entry:  # in this order
    _NONE, LAUNCHES, SETS_POINTER, SETS_VALUE, COPIES, FILLS, MARKS, BARS, HOLDS, OPENS, POLLS_QUEUE, WAITS, ASKS
    TIMES, BRIDGES, RELEASES_EVENT, RELEASES_KERNEL, RELEASES_QUEUE, ALLOCATES, FREES, MAKES_QUEUE, MAKES_KERNEL
    MAKES_GATE

KINDS = {
    "Marker": "marker", "Barrier": "barrier", "Hold": "barrier", "Gate": "gate", "OpenGate": "open", "Poll": "finish",
    "WaitEvents": "wait", "EventStatus": "query", "SetPointer": "argument", "SetValue": "argument",
    "Allocate": "allocate",
}  # fmt: skip
COMMANDS = ("Launch", "Copy", "Fill")
NEVER_FAIL = ("None", "Gate", "Bridge", "ReleaseEvent", "ReleaseKernel", "ReleaseQueue", "Free")
# The call for each operation.
LAUNCH = "Launch"
UPLOAD = DOWNLOAD = "Copy"
FILL = "Fill"
MARKER = "Marker"
BARRIER = "Barrier"
HOLD = HOST_FUNCTION = "Hold"
ARGUMENT = "SetValue"
REPLAY = None  # there are no recordings
FINISH = "Poll"  # with the detail 1 when it says "not done"
WAIT = "WaitEvents"
QUERY = "EventStatus"
GATE = ("Hold",)  # makes it, too
FLUSH = None
OPEN = "OpenGate"
NEW_QUEUE = "NewQueue"
NEW_RECORDING = None
RELEASE_QUEUE = "ReleaseQueue"
GATE_MARKERS = 0
POLLS = True
FINISH_IS_POLL = True  # there is no other finish
DONE = 0  # the detail of a query of an event that is done
FAILURE = 5, operations.ERRORS[5]
EVENT_FAILURE = FAILURE[1]
OUT_OF_MEMORY = 4

cdef Driver real  # the table without the observer
cdef Calls real_calls  # likewise
cdef cbool drops_waits = False
cdef cbool opens_gates = False


cdef Driver* table() noexcept:
    cdef uintptr_t address = operations.table_address()
    return <Driver*> address


cdef vector[int64_t] serials_of(Waits waits) noexcept nogil:
    cdef vector[int64_t] found
    cdef size_t i
    for i in range(waits.count):
        found.push_back(serial_of(waits.events[i]))
    return found


cdef Status refused(int function, void* object) noexcept nogil:
    """The Status of a call that was told to fail, which is recorded here; 0 for any other."""
    cdef int64_t code = 0
    cdef vector[int64_t] nothing
    if not fails(function, code):
        return 0
    note(function, object, NULL, nothing, 0, 0, code, True)
    return <Status> function << 32 | code


cdef Status seen(
    int function, void* object, void* kernel, const vector[int64_t]& waits, Status status, void** event, int64_t detail
) noexcept nogil:
    cdef int64_t serial = made(event[0]) if status == 0 and event != NULL else 0
    note(function, object, kernel, waits, serial, detail, <uint32_t> status, False)
    return status


cdef Status see_launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil:
    cdef Waits left = no_waits() if drops_waits else waits
    cdef vector[int64_t] serials = serials_of(left)
    cdef Status status = refused(LAUNCHES, queue)
    if status != 0:
        return status
    return seen(LAUNCHES, queue, kernel, serials, real.launch(queue, kernel, geometry, left), NULL, 0)


cdef Status see_copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(waits)
    cdef Status status = refused(COPIES, queue)
    if status != 0:
        return status
    return seen(COPIES, queue, NULL, serials, real.copy(queue, to, source, nbytes, waits, event), event, 0)


cdef Status see_fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(waits)
    cdef Status status = refused(FILLS, queue)
    if status != 0:
        return status
    status = real.fill(queue, to, pattern, pattern_size, nbytes, waits, event)
    return seen(FILLS, queue, NULL, serials, status, event, 0)


cdef Status see_marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(waits)
    cdef Status status = refused(MARKS, queue)
    if status != 0:
        return status
    return seen(MARKS, queue, NULL, serials, real.marker(queue, waits, use, event), event, 1)


cdef Status see_barrier(void* queue, Waits waits) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(waits)
    cdef Status status = refused(BARS, queue)
    if status != 0:
        return status
    return seen(BARS, queue, NULL, serials, real.barrier(queue, waits), NULL, 0)


cdef Status see_hold(void* queue, void* context, Waits waits, Wake wake, void* data, void** gate) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(waits)
    cdef vector[int64_t] nothing
    cdef Status status = refused(HOLDS, queue)
    if status != 0:
        return status
    holding.lock()  # the thread that is woken may open and release the gate before it is noted
    status = real.hold(queue, context, waits, wake, data, gate)
    if status == 0:
        serials.push_back(made(gate[0]))
        note(MAKES_GATE, NULL, NULL, nothing, serials.back(), 0, 0, False)
    seen(HOLDS, queue, NULL, serials, status, NULL, 0)
    if opens_gates and status == 0:
        real.open_gate(gate[0], False)
    holding.unlock()
    return status


cdef Status see_open_gate(void* gate, bint failed) noexcept nogil:
    cdef vector[int64_t] nothing
    holding.lock()
    note(OPENS, gate, NULL, nothing, serial_of(gate), failed, 0, False)
    holding.unlock()
    return real.open_gate(gate, failed)


cdef Status see_set_pointer(void* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef Status status = refused(SETS_POINTER, kernel)
    if status != 0:
        return status
    return seen(SETS_POINTER, kernel, NULL, nothing, real.set_pointer(kernel, index, memory), NULL, index)


cdef Status see_set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef Status status = refused(SETS_VALUE, kernel)
    if status != 0:
        return status
    return seen(SETS_VALUE, kernel, NULL, nothing, real.set_value(kernel, index, size, value), NULL, index)


cdef Status see_poll(void* queue, bint* done) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef Status status = refused(POLLS_QUEUE, queue)
    if status != 0:
        return status
    status = real.poll(queue, done)
    note(POLLS_QUEUE, queue, NULL, nothing, 0, 0, 0 if done[0] else 1, False)
    return status


cdef Status see_wait_events(void* context, Waits events, Interrupted interrupted) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(events)
    cdef Status status = refused(WAITS, context)
    if status != 0:
        return status
    status = real.wait_events(context, events, interrupted)
    note(WAITS, context, NULL, serials, serials[0] if serials.size() == 1 else 0, 0, <uint32_t> status, False)
    return status


cdef Answer see_event_status(void* event) noexcept nogil:
    cdef int64_t serial = serial_of(event)
    cdef vector[int64_t] nothing
    cdef Answer answer = refused(ASKS, event)
    if answer != 0:
        return answer
    answer = real.event_status(event)
    note(ASKS, event, NULL, nothing, serial, answer != IS_DONE, 0, False)
    return answer


cdef Status see_elapsed(void* first, void* second, double* nanoseconds) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef Status status = refused(TIMES, first)
    if status != 0:
        return status
    return seen(TIMES, first, NULL, nothing, real.elapsed(first, second, nanoseconds), NULL, 0)


cdef Status see_bridge(void* context, void* event, void** bridged) noexcept nogil:
    cdef vector[int64_t] serials
    serials.push_back(serial_of(event))
    return seen(BRIDGES, event, NULL, serials, real.bridge(context, event, bridged), bridged, 0)


cdef void see_release_event(void* event) noexcept nogil:
    holding.lock()
    forget(event)
    holding.unlock()
    real.release_event(event)


cdef void see_release_kernel(void* kernel) noexcept nogil:
    cdef vector[int64_t] nothing
    note(RELEASES_KERNEL, kernel, NULL, nothing, 0, 0, 0, False)
    real.release_kernel(kernel)


cdef void see_release_queue(void* queue) noexcept nogil:
    cdef vector[int64_t] nothing
    note(RELEASES_QUEUE, queue, NULL, nothing, 0, 0, 0, False)
    real.release_queue(queue)


cdef Status see_allocate(size_t nbytes, void** memory) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef Status status = refused(ALLOCATES, NULL)
    if status != 0:
        return status
    return seen(ALLOCATES, NULL, NULL, nothing, real_calls.allocate(nbytes, memory), NULL, <int64_t> nbytes)


cdef void see_free(void* memory) noexcept nogil:
    cdef vector[int64_t] nothing
    note(FREES, memory, NULL, nothing, 0, 0, 0, False)
    real_calls.free(memory)


cdef Status see_new_queue(void** queue) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef Status status = refused(MAKES_QUEUE, NULL)
    if status != 0:
        return status
    status = real_calls.new_queue(queue)
    return seen(MAKES_QUEUE, queue[0], NULL, nothing, status, NULL, 0)


cdef Status see_new_kernel(uint32_t parameters, void** kernel) noexcept nogil:
    cdef vector[int64_t] nothing
    cdef Status status = refused(MAKES_KERNEL, NULL)
    if status != 0:
        return status
    status = real_calls.new_kernel(parameters, kernel)
    return seen(MAKES_KERNEL, kernel[0], NULL, nothing, status, NULL, 0)


cdef Calls* calls_table() noexcept:
    cdef uintptr_t address = operations.calls_address()
    return <Calls*> address


cdef void begin():
    global real, real_calls
    cdef Driver* current = table()
    forget_all()
    real_calls = calls_table()[0]
    calls_table().allocate = see_allocate
    calls_table().free = see_free
    calls_table().new_queue = see_new_queue
    calls_table().new_kernel = see_new_kernel
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
    current.poll = see_poll
    current.wait_events = see_wait_events
    current.event_status = see_event_status
    current.elapsed = see_elapsed
    current.bridge = see_bridge
    current.release_event = see_release_event
    current.release_kernel = see_release_kernel
    current.release_queue = see_release_queue


cdef void end():
    table()[0] = real
    calls_table()[0] = real_calls


def lie(waits=False, gates=False):
    """From here on, while the observer is on, the driver is no good: it launches without waits, or no gate holds.

    So tests see that the checker notices. Without arguments it is honest again.
    """
    global drops_waits, opens_gates
    drops_waits, opens_gates = waits, gates


def watch(emulate=False):
    """Does nothing. The driver answers by its model what is done, although it executes nothing."""


def unwatch():
    """End what `watch` began."""


def events_alive(device):
    """The serials of events made while observed to which forebay still holds references."""
    return sorted(alive())


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return <uintptr_t> queue.state.handle
