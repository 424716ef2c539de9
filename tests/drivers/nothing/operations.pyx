"""The operations of `forebay.core.driver` over a model that executes nothing: see ../model.hpp.

Memory that runs out for the model itself ends the process; nothing else fails but what forebay should never ask for.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uint32_t, uintptr_t
from libc.stdlib cimport calloc, free
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    DONE, INTERRUPTED, NOT_YET, Answer, Driver, Geometry, Interrupted, Memory as View, Status, Waits, Wake
)

from forebay.core.errors import DriverError, OutOfMemoryError

cdef extern from "tests/drivers/model.hpp" namespace "forebay_model" nogil:
    cdef cppclass Kernel:
        vector[cbool] set

    cdef cppclass Queue:
        pass

    void submit_command(void* queue, uint32_t count, void** waits, void** event)
    void submit_hold(void* queue, uint32_t count, void** waits, Wake wake, void* data, void** gate)
    void reach_gate(void* gate)
    cbool is_done(void* event)
    cbool is_idle(void* queue)
    cbool wait_for_events(uint32_t count, void** events, Interrupted interrupted)
    double time_between(void* first, void* second)
    void* same_event(void* event)
    void forget_event(void* event)
    void forget_queue(void* queue)
    cbool set_argument(void* kernel, uint32_t index)
    cbool all_set(void* kernel)

CALL_NAMES = (
    "None", "Launch", "SetPointer", "SetValue", "Copy", "Fill", "Marker", "Barrier", "Hold", "OpenGate", "Poll",
    "WaitEvents", "EventStatus", "Elapsed", "Bridge", "ReleaseEvent", "ReleaseKernel", "ReleaseQueue", "Allocate",
    "Free", "NewQueue", "NewKernel",
)  # fmt: skip
"""What can fail, by the numbers that a Status has for it: the entries of the table, and those of `Calls`."""

ERRORS = {1: "ARGUMENT_UNKNOWN", 2: "ARGUMENT_MISSING", 3: "NOT_DONE", 4: "OUT_OF_MEMORY", 5: "REFUSED"}
"""The names of the codes. The last two come only from tests that let a call fail."""

cdef enum:
    OUT_OF_MEMORY = 4
    ALIGNMENT = 512  # of memory: that of the parts which forebay makes of it


cdef Status failure(int call, int code) noexcept nogil:
    return <Status> call << 32 | code


cdef Status launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil:
    if not all_set(kernel):
        return failure(1, 2)
    submit_command(queue, waits.count, waits.events, NULL)
    return 0


cdef Status set_pointer(void* kernel, uint32_t index, const View* memory) noexcept nogil:
    return 0 if set_argument(kernel, index) else failure(2, 1)


cdef Status set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    return 0 if set_argument(kernel, index) else failure(3, 1)


cdef Status copy(
    void* queue, const View* to, const View* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    submit_command(queue, waits.count, waits.events, event)
    return 0


cdef Status fill(
    void* queue, const View* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    submit_command(queue, waits.count, waits.events, event)
    return 0


cdef Status marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    submit_command(queue, waits.count, waits.events, event)
    return 0


cdef Status barrier(void* queue, Waits waits) noexcept nogil:
    submit_command(queue, waits.count, waits.events, NULL)
    return 0


cdef Status hold(void* queue, void* context, Waits waits, Wake wake, void* data, void** gate) noexcept nogil:
    submit_hold(queue, waits.count, waits.events, wake, data, gate)
    return 0


cdef Status open_gate(void* gate, bint failed) noexcept nogil:
    reach_gate(gate)  # also with `failed`: the contract allows it, and there is nothing that could be spoilt
    return 0


cdef Status poll(void* queue, bint* done) noexcept nogil:
    done[0] = is_idle(queue)
    return 0


cdef Status wait_events(void* context, Waits events, Interrupted interrupted) noexcept nogil:
    return 0 if wait_for_events(events.count, events.events, interrupted) else <Status> INTERRUPTED


cdef Answer event_status(void* event) noexcept nogil:
    return DONE if is_done(event) else NOT_YET


cdef Status elapsed(void* first, void* second, double* nanoseconds) noexcept nogil:
    if not is_done(first) or not is_done(second):
        return failure(13, 3)
    nanoseconds[0] = time_between(first, second)
    return 0


cdef Status bridge(void* context, void* event, void** bridged) noexcept nogil:
    bridged[0] = same_event(event)  # all contexts are in one model
    return 0


cdef void release_event(void* event) noexcept nogil:
    forget_event(event)


cdef void release_kernel(void* handle) noexcept nogil:
    cdef Kernel* kernel = <Kernel*> handle
    del kernel


cdef void release_queue(void* queue) noexcept nogil:
    forget_queue(queue)


cdef Driver table  # what it lacks stays NULL, and what does not hold of it False

table.launch = launch
table.set_pointer = set_pointer
table.set_value = set_value
table.copy = copy
table.fill = fill
table.marker = marker
table.barrier = barrier
table.hold = hold
table.open_gate = open_gate
table.poll = poll
table.wait_events = wait_events
table.event_status = event_status
table.elapsed = elapsed
table.bridge = bridge
table.release_event = release_event
table.release_kernel = release_kernel
table.release_queue = release_queue


def table_address() -> int:
    """Address of the table. It lives as long as the process."""
    return <uintptr_t> &table


# -- what a device makes

cdef Status allocate(size_t nbytes, void** memory) noexcept nogil:
    memory[0] = calloc(nbytes, 1)  # zeros: sizes that a program reads from memory must be small ones
    return 0 if memory[0] != NULL else failure(18, OUT_OF_MEMORY)


cdef void free_memory(void* memory) noexcept nogil:
    free(memory)


cdef Status make_queue(void** queue) noexcept nogil:
    queue[0] = new Queue()
    return 0


cdef Status make_kernel(uint32_t parameters, void** made) noexcept nogil:
    cdef Kernel* kernel = new Kernel()
    kernel.set.resize(parameters)
    made[0] = kernel
    return 0


cdef Calls calls

calls.allocate = allocate
calls.free = free_memory
calls.new_queue = make_queue
calls.new_kernel = make_kernel


def calls_address() -> int:
    """Address of `Calls` of operations.pxd."""
    return <uintptr_t> &calls


cdef int raise_failure(Status status) except -1:
    if status == 0:
        return 0
    call, code = CALL_NAMES[status >> 32], status & 0xFFFFFFFF
    name = ERRORS[code]
    if code == OUT_OF_MEMORY:
        raise OutOfMemoryError(f"{call} failed: {name}")
    raise DriverError(f"{call} failed: {name}", call=call, code=code, name=name)


def new_queue() -> int:
    """The handle of a new queue, which goes to `release_queue`."""
    cdef void* queue = NULL
    raise_failure(calls.new_queue(&queue))
    return <uintptr_t> queue


def new_kernel(parameters: int) -> int:
    """The handle of a new kernel object with so many parameters, none of them set, which goes to `release_kernel`."""
    cdef void* kernel = NULL
    raise_failure(calls.new_kernel(parameters, &kernel))
    return <uintptr_t> kernel


cdef class Memory:
    """One allocation, in the host's memory and full of zeros. It has an address, and no handle.

    Raises
    ------
    OutOfMemoryError
        When the host has no room for it.
    """

    cdef void* block  # of the host; the memory begins at an address that any type may have
    cdef void* start
    cdef readonly size_t nbytes
    cdef readonly str usm_type

    def __cinit__(self, size_t nbytes, str usm_type):
        self.nbytes = nbytes
        self.usm_type = usm_type
        raise_failure(calls.allocate(nbytes + ALIGNMENT, &self.block))
        self.start = <void*> ((<uintptr_t> self.block + ALIGNMENT) // ALIGNMENT * ALIGNMENT)

    def __dealloc__(self):
        if self.block != NULL:
            calls.free(self.block)

    @property
    def handle(self) -> int:
        return 0

    @property
    def address(self) -> int:
        return <uintptr_t> self.start


cdef class HostMemory(Memory):
    """Memory that the host reads in place: it has the buffer protocol."""

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.start, <Py_ssize_t> self.nbytes, 0, flags)
