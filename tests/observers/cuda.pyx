"""Records forebay's calls of CUDA's driver, makes chosen ones fail, and lets the folder lie.

While the observer is on, the pointers in the table of calls and in the table of operations lead to its wrappers. While
it is off it costs nothing. It does not see calls that other packages make.

What is recorded is what the driver was asked for. Only what belongs together is put together, as other drivers have it
in one call: what a stream waits for is recorded with the command that follows, or as a call of its own name where none
does; a copy and the event behind it are one command; and a wait of the host is one call, however it asks. Making
a gate, opening it, setting an argument and releasing a kernel object are no calls of the driver, and cannot fail.
"""

from libc.stdint cimport uint32_t

from forebay.core.driver cimport Driver, Geometry, Interrupted, Memory, Status, Waits, Wake, no_waits
from forebay.queues.queue cimport Queue
from forebay.queues.drivers.cuda.calls cimport CALL_EventQuery, Calls, cuda
from forebay.queues.drivers.cuda.handles cimport CuEvent, CuQueue

import functools

from forebay.queues.drivers.cuda import calls, library, operations
from forebay.queues.drivers.cuda.own_kernels import PTX
from forebay.queues.drivers.cuda.objects import ContextHandle

include "recorder.pxi"

cdef extern from "tests/observers/cuda_calls.hpp" namespace "forebay_observer" nogil:
    cdef cppclass CallRecord "forebay_observer::State":
        vector[int64_t] alive()

    CallRecord& state()

    cdef enum:
        MAKE_GATE, OPEN_GATE, SET_ARGUMENT, WAIT_EVENTS, RELEASE_KERNEL

    cdef enum Kind "forebay_observer::Task::Kind":
        COMMAND_TASK "forebay_observer::Task::COMMAND"
        EVENT_TASK "forebay_observer::Task::WITH_EVENT"
        WAIT_TASK "forebay_observer::Task::WAIT"

    void begin_calls(Calls& table)
    void end_calls(Calls& table)
    void enter(Kind kind)
    void enter_hold(void** gate, uintptr_t (*handle_of)(void* gate) noexcept nogil)
    void leave(int64_t status)
    int64_t serial_of(uintptr_t event)
    void count_event "forebay_observer::count" (uintptr_t event, int more)
    void note(
        int function, uintptr_t object, const vector[int64_t]& waits, int64_t event, int64_t detail, int64_t status)
    void note_barrier(uintptr_t stream)
    int64_t refused(int function, uintptr_t object)

NAMES = (*calls.CALL_NAMES, "gate", "open", "argument", "EventQuery", "ReleaseKernel")

# The kind of each call, for tests that compare the order with the rules. The words are the same for every driver.
KINDS = {
    "cuEventRecord": "marker",
    "cuStreamWaitEvent": "barrier",
    "cuStreamWaitValue32_v2": "barrier",
    "cuStreamQuery": "finish",
    "cuEventQuery": "query",
    "EventQuery": "wait",
    "cuMemAllocFromPoolAsync": "allocate",
    "gate": "gate",
    "open": "open",
    "argument": "argument",
    "cuGraphAddKernelNode_v2": "node",  # its event is the node, and its waits are nodes
    "cuGraphAddMemcpyNode": "node",
    "cuGraphAddMemsetNode": "node",
}
COMMANDS = ("cuLaunch", "cuMemcpy", "cuMemset", "cuMemPrefetch", "cuGraphLaunch")
NEVER_FAIL = ("cuModuleUnload", "cuMemPoolTrimTo", "cuCtxPopCurrent_v2", "cuGetErrorName", "gate", "argument")
# The call for each operation, where there is only one.
LAUNCH = "cuLaunchKernel"
UPLOAD = DOWNLOAD = "cuMemcpyAsync"
FILL = "cuMemsetD32Async"  # with elements of four bytes
MARKER = "cuEventRecord"
BARRIER = "cuStreamWaitEvent"
HOLD = "cuStreamWaitValue32_v2"  # the call by which a gate holds the queue
HOST_FUNCTION = "cuLaunchHostFunc"
ARGUMENT = "argument"
REPLAY = "cuGraphLaunch"
FINISH = "cuStreamQuery"  # with the status 600 when it says "not done"
WAIT = "EventQuery"  # cuEventQuery, until it says that the event is done
QUERY = "cuEventQuery"
GATE = ("cuStreamWaitValue32_v2",)  # a gate is an event that was made before
FLUSH = None  # this driver has none
OPEN = "open"
NEW_QUEUE = "cuStreamCreateWithPriority"
NEW_RECORDING = None  # what is put into a graph is no command of a queue
RELEASE_QUEUE = "cuStreamDestroy_v2"
GATE_MARKERS = 1  # markers that a gate makes for itself: it is the event of what is behind the wait for a word
POLLS = True  # whether the driver reports that a queue is done, without a marker
FINISH_IS_POLL = True  # there is no other finish
DONE = 0  # the detail of a query of an event that is done
FAILURE = 1, "CUDA_ERROR_INVALID_VALUE"  # an error that any call may return
EVENT_FAILURE = FAILURE[1]  # its name when the query of an event fails
OUT_OF_MEMORY = 2

cdef Driver real  # the table without the observer
cdef cbool drops_waits = False
cdef cbool opens_gates = False


cdef uintptr_t handle_of_event(void* event) noexcept nogil:
    return <uintptr_t> (<CuEvent*> event).handle


cdef uintptr_t stream_of(void* queue) noexcept nogil:
    return <uintptr_t> (<CuQueue*> queue).stream


cdef vector[int64_t] serials_of(Waits waits) noexcept nogil:
    cdef vector[int64_t] found
    cdef size_t i
    for i in range(waits.count):
        found.push_back(serial_of(handle_of_event(waits.events[i])))
    return found


cdef Status see_launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil:
    cdef Status status
    enter(COMMAND_TASK)
    status = real.launch(queue, kernel, geometry, no_waits() if drops_waits else waits)
    leave(status)
    return status


cdef Status see_copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Status status
    enter(EVENT_TASK if event != NULL else COMMAND_TASK)
    status = real.copy(queue, to, source, nbytes, waits, event)
    leave(status)
    return status


cdef Status see_fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Status status
    enter(EVENT_TASK if event != NULL else COMMAND_TASK)
    status = real.fill(queue, to, pattern, pattern_size, nbytes, waits, event)
    leave(status)
    return status


cdef Status see_prefetch(void* queue, const Memory* memory, size_t nbytes, bint to_host, Waits waits) noexcept nogil:
    cdef Status status
    enter(COMMAND_TASK)
    status = real.prefetch(queue, memory, nbytes, to_host, waits)
    leave(status)
    return status


cdef Status see_barrier(void* queue, Waits waits) noexcept nogil:
    cdef Status status = real.barrier(queue, waits)
    if status == 0:
        note_barrier(stream_of(queue))
    return status


cdef Status see_hold(void* queue, void* context, Waits waits, Wake wake, void* data, void** gate) noexcept nogil:
    cdef Status status
    enter_hold(gate, handle_of_event)
    status = real.hold(queue, context, waits, wake, data, gate)
    leave(status)
    if opens_gates and status == 0:
        (<CuEvent*> gate[0]).word[0] = 1
    return status


cdef Status see_open_gate(void* gate, bint failed) noexcept nogil:
    cdef vector[int64_t] nothing
    note(OPEN_GATE, <uintptr_t> gate, nothing, serial_of(handle_of_event(gate)), failed, 0)
    return real.open_gate(gate, failed)


cdef Status see_set_pointer(void* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    cdef vector[int64_t] nothing
    note(SET_ARGUMENT, <uintptr_t> kernel, nothing, 0, index, 0)
    return real.set_pointer(kernel, index, memory)


cdef Status see_set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    cdef vector[int64_t] nothing
    note(SET_ARGUMENT, <uintptr_t> kernel, nothing, 0, index, 0)
    return real.set_value(kernel, index, size, value)


cdef Status see_wait_events(void* context, Waits events, Interrupted interrupted) noexcept nogil:
    cdef vector[int64_t] serials = serials_of(events)
    cdef int64_t code = refused(WAIT_EVENTS, <uintptr_t> context)
    cdef Status status
    if code != 0:
        return <Status> CALL_EventQuery << 32 | code
    enter(WAIT_TASK)
    status = real.wait_events(context, events, interrupted)
    leave(0)
    note(WAIT_EVENTS, <uintptr_t> context, serials, serials[0] if serials.size() == 1 else 0, 0, <uint32_t> status)
    return status


cdef Status see_bridge(void* context, void* event, void** bridged) noexcept nogil:
    count_event(handle_of_event(event), 1)
    return real.bridge(context, event, bridged)


cdef void see_release_event(void* event) noexcept nogil:
    count_event(handle_of_event(event), -1)  # before another thread may take it
    real.release_event(event)


cdef void see_release_kernel(void* kernel) noexcept nogil:
    cdef vector[int64_t] nothing
    note(RELEASE_KERNEL, <uintptr_t> kernel, nothing, 0, 0, 0)
    real.release_kernel(kernel)


started = functools.cache(library.start)  # in a child that was forked the driver does not start


cdef Driver* table() noexcept:
    cdef uintptr_t address = operations.table_address()
    return <Driver*> address


cdef void begin():
    global real
    cdef Driver* current = table()
    calls.load(started()[0])
    begin_calls(cuda)
    real = current[0]
    current.launch = see_launch
    current.copy = see_copy
    current.fill = see_fill
    current.prefetch = see_prefetch
    current.barrier = see_barrier
    current.hold = see_hold
    current.open_gate = see_open_gate
    current.set_pointer = see_set_pointer
    current.set_value = see_set_value
    current.wait_events = see_wait_events
    current.bridge = see_bridge
    current.release_event = see_release_event
    current.release_kernel = see_release_kernel


cdef void end():
    table()[0] = real
    end_calls(cuda)


def lie(waits=False, gates=False):
    """From here on, while the observer is on, the folder is no good: it launches without waits, or no gate holds.

    So tests see that the checker notices. Without arguments it is honest again.
    """
    global drops_waits, opens_gates
    drops_waits, opens_gates = waits, gates


def watch(emulate=False):
    """Open the contexts, which stay. The observer needs no other facts from before `start`.

    It looks for gates whose word is used again before their stream has passed it. Other mistakes the driver refuses, or
    the results show them. Where nothing executes the driver answers by its model what is done.
    """
    driver, count = started()
    calls.load(driver)
    for ordinal in range(count):
        ContextHandle(ordinal, PTX.encode() + b"\0")


def unwatch():
    """End what `watch` began."""


def events_alive(device):
    """The serials of events made while observed to which forebay still holds references."""
    return sorted(state().alive())


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return stream_of(queue.state.handle)
