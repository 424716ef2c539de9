"""The SYCL side of the table of operations (`forebay.core.driver`)."""

from cython.operator cimport dereference
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp.atomic cimport memory_order_acquire
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    DONE, NOT_YET, Answer, Driver, Geometry, Interrupted, Memory, Status, Waits, Wake
)
from forebay.queues.sycl.calls cimport (
    COMPLETE, FAILED, GATE_FAILED, CALL_Event_GetCommandExecutionStatus, CALL_Event_GetProfilingInfoEnd,
    CALL_Event_Wait, failure, sycl
)
from forebay.queues.sycl.gates cimport (
    BARRIER, COPY, FILL, LAUNCH, PENDING, SyclCommand, SyclEvent, SyclQueue, await_submitted, delete_queue,
    drop_event, forget_failure, give, has_failed, hold_queue, open_event, read_waits, retain_event, tell_failure_of
)
from forebay.queues.sycl.kernels cimport SyclKernel, delete_kernel, set_address, set_bytes
from forebay.queues.sycl.objects cimport SyclContext
from forebay.queues.sycl.submission cimport submit_barrier, submit_kernel


cdef Status launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil:
    cdef SyclCommand command
    cdef void* event = NULL
    cdef Status status
    if not (<SyclQueue*> queue).held.load(memory_order_acquire) and (waits.count == 0 or read_waits(&waits)):
        status = submit_kernel((<SyclQueue*> queue).queue, <SyclKernel*> kernel, geometry, waits, &event)
        if status == 0:
            sycl.Event_Delete(event)  # dpctl makes an event for every launch
        return status
    command.kind = LAUNCH
    command.kernel = <SyclKernel*> kernel
    command.geometry = geometry[0]
    return give(<SyclQueue*> queue, &command, waits, NULL)


cdef Status set_pointer(void* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    set_address(<SyclKernel*> kernel, index, memory)
    return 0


cdef Status set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    return set_bytes(<SyclKernel*> kernel, index, size, value)


cdef Status copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef SyclCommand command
    command.kind = COPY
    command.to = <void*> <uintptr_t> to.address
    command.source = <const void*> <uintptr_t> source.address
    command.nbytes = nbytes
    return give(<SyclQueue*> queue, &command, waits, event)


cdef Status fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef SyclCommand command
    command.kind = FILL
    command.to = <void*> <uintptr_t> to.address
    command.nbytes = nbytes
    command.pattern_size = pattern_size
    memcpy(command.pattern, pattern, pattern_size)
    return give(<SyclQueue*> queue, &command, waits, event)


cdef Status marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    cdef SyclCommand command
    command.kind = BARRIER
    return give(<SyclQueue*> queue, &command, waits, event)


cdef Status barrier(void* queue, Waits waits) noexcept nogil:
    cdef SyclCommand command
    command.kind = BARRIER
    return give(<SyclQueue*> queue, &command, waits, NULL)


cdef Status hold(void* queue, void* context, Waits waits, Wake wake, void* data, void** gate) noexcept nogil:
    return hold_queue(<SyclQueue*> queue, waits, wake, data, <SyclEvent**> gate)


cdef Status open_gate(void* gate, bint failed) noexcept nogil:
    open_event(<SyclEvent*> gate, failed)
    return 0


cdef Status await_event(void* event) noexcept nogil:
    """Wait, and ask whether it is over: dpctl returns from a wait that has thrown as from any other."""
    sycl.Event_Wait(event)
    return 0 if status_of(event) == DONE else failure(CALL_Event_Wait)


cdef Status wait_events(void* context, Waits events, Interrupted interrupted) noexcept nogil:
    """Join several events by a barrier on the context's out-of-order queue, and wait only for the barrier.

    What failed before they went to SYCL is told when the rest is done.
    """
    cdef vector[void*] given
    cdef Waits waits
    cdef void* joined = NULL
    cdef Status status = 0
    cdef size_t i
    for i in range(events.count):
        await_submitted(<SyclEvent*> events.events[i])
        given.push_back(events.events[i])
    waits.count = events.count
    waits.events = given.data()
    read_waits(&waits)
    if waits.count == 1:
        status = await_event(waits.events[0])
    elif waits.count > 1:
        status = submit_barrier((<SyclContext*> context).joining, waits, &joined)
        if status == 0:
            status = await_event(joined)
            sycl.Event_Delete(joined)
    for i in range(events.count):
        if tell_failure_of(<SyclEvent*> events.events[i]) and status == 0:
            status = failure(GATE_FAILED)
    return status


cdef Status tell_failure(void* queue) noexcept nogil:
    return failure(GATE_FAILED) if dereference((<SyclQueue*> queue).failed).exchange(False) else 0


cdef void renew_queue(void* queue) noexcept nogil:
    forget_failure(<SyclQueue*> queue)


cdef Answer event_status(void* event) noexcept nogil:
    cdef Answer answer = DONE
    if (<SyclEvent*> event).state.load(memory_order_acquire) == PENDING:
        return NOT_YET
    if (<SyclEvent*> event).event != NULL:
        answer = status_of((<SyclEvent*> event).event)
    return FAILED if answer == DONE and has_failed(<SyclEvent*> event) else answer


cdef Answer status_of(void* event) noexcept nogil:
    """Ask SYCL. A command that failed on the device is not told from a query that did."""
    cdef int state = sycl.Event_GetCommandExecutionStatus(event)
    if state == 0:  # dpctl returns this after an exception
        return failure(CALL_Event_GetCommandExecutionStatus)
    return DONE if state == COMPLETE else NOT_YET


cdef Status elapsed(void* first, void* second, double* nanoseconds) noexcept nogil:
    cdef uint64_t begin = sycl.Event_GetProfilingInfoEnd((<SyclEvent*> first).event)
    cdef uint64_t end = sycl.Event_GetProfilingInfoEnd((<SyclEvent*> second).event) if begin else 0
    nanoseconds[0] = <double> <int64_t> (end - begin)
    return 0 if end else failure(CALL_Event_GetProfilingInfoEnd)


cdef Status bridge(void* context, void* event, void** bridged) noexcept nogil:
    """SYCL can wait for events of other contexts, so the event is its own bridge."""
    retain_event(<SyclEvent*> event)
    bridged[0] = event
    return 0


cdef void release_event(void* event) noexcept nogil:
    drop_event(<SyclEvent*> event)


cdef void release_kernel(void* kernel) noexcept nogil:
    delete_kernel(<SyclKernel*> kernel)


cdef void release_queue(void* queue) noexcept nogil:
    delete_queue(<SyclQueue*> queue)


cdef Driver table  # entries that are not set are NULL
table.scopes_matter = False
table.launch = launch
table.set_pointer = set_pointer
table.set_value = set_value
table.copy = copy
table.fill = fill
table.marker = marker
table.barrier = barrier
table.hold = hold
table.open_gate = open_gate
table.wait_events = wait_events
table.tell_failure = tell_failure
table.renew_queue = renew_queue
table.event_status = event_status
table.elapsed = elapsed
table.bridge = bridge
table.release_event = release_event
table.release_kernel = release_kernel
table.release_queue = release_queue


def table_address() -> int:
    """The address of the table of operations. The Device hands it to its queues."""
    return <uintptr_t> &table
