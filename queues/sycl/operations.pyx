"""The SYCL side of the table of operations (`forebay.core.driver`), and what is behind its handles.

The functions are those of dpctl's C interface to SYCL, found at run time in the library that dpctl loads. None of them
reports why it failed. A function that makes something returns NULL; the others return as if nothing had happened. With
DPCTL_VERBOSITY=error in the environment dpctl prints the reason on stderr.

The operations come first; then kernels, submissions, queues that are held at gates, and contexts, programs and memory
as Python objects.
"""

import ctypes
import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

cimport cython
from cython.operator cimport dereference
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.atomic cimport atomic, memory_order_acquire, memory_order_relaxed, memory_order_release
from libcpp.deque cimport deque
from libcpp.memory cimport make_shared, shared_ptr, unique_ptr
from libcpp.utility cimport move
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    DONE, NOT_YET, Answer, Driver, Geometry, Interrupted, Memory, Status, Waits, HostCallback, no_waits
)
from forebay.core.ownership cimport Guard, Lock, Ref, Refs
from forebay.core.process cimport is_forked
from forebay.queues.memory.allocation cimport ForeignMemory, NativeMemory

from forebay.core.driver import Adopted, fill_table
from forebay.core.errors import (
    ArgumentTypeError, BuildError, Error, InvalidArgumentError, NotSupportedError, OutOfMemoryError
)
from forebay.queues.memory.shapes import are_contiguous

if TYPE_CHECKING:
    from collections.abc import Iterable

cdef enum:
    FAILED = -1  # the only error code there is

ctypedef Status (*Function)(...) noexcept nogil  # gives what it makes through its first argument
ctypedef void* (*Maker)(...) noexcept nogil
ctypedef void (*Doer)(...) noexcept nogil


# `calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
cdef extern from "queues/sycl/calls.hpp" namespace "forebay_sycl":
    cdef enum Call:
        CALL_Event_Wait, CALL_Event_GetCommandExecutionStatus, CALL_Event_GetProfilingInfoEnd, N_CALLS

    cdef enum Reason:
        OUT_OF_MEMORY, HOLDS_ADOPTED, WAITS_FOR_HELD, GATE_FAILED

    cdef struct Calls:
        Function Queue_SubmitNDRange, Queue_Memcpy, Queue_MemcpyWithEvents, Queue_Memset
        Function Queue_Fill16, Queue_Fill32, Queue_Fill64, Queue_Fill128
        Function Queue_SubmitBarrier, Queue_SubmitBarrierForEvents, RawKernelArg_Create, WorkGroupMemory_Create
        Maker Queue_Copy, Event_Copy, Context_Copy, Kernel_Copy, malloc_device, malloc_shared, malloc_host
        Maker KernelBundle_CreateFromOCLSource, KernelBundle_CreateFromSpirv, KernelBundle_GetKernel
        Doer Queue_Delete, Event_Delete, Context_Delete, KernelBundle_Delete, Kernel_Delete, Event_Wait
        Doer RawKernelArg_Delete, WorkGroupMemory_Delete, free_with_context
        int (*Event_GetCommandExecutionStatus)(...) noexcept nogil
        int (*USM_GetPointerType)(...) noexcept nogil
        uint64_t (*Event_GetProfilingInfoEnd)(...) noexcept nogil
        cbool (*RawKernelArg_Available)() noexcept nogil
        cbool (*WorkGroupMemory_Available)() noexcept nogil
        size_t (*Kernel_GetWorkGroupSize)(...) noexcept nogil

    const char* const* call_names


cdef enum:
    COMPLETE = 3  # DPCTLSyclEventStatusType

cdef extern from *:
    """
    namespace forebay_sycl { Calls sycl; }
    """

# The header says what each is. They are deleted by their owners, events with the last reference.
cdef extern from "queues/sycl/calls.hpp" namespace "forebay_sycl" nogil:
    Calls sycl

    cdef enum:
        WORK_GROUP_MEMORY, RAW_ARGUMENT
        PENDING, SUBMITTED, ENDED_BADLY

    cdef struct Argument:
        char* value
        size_t size
        void* object

    ctypedef shared_ptr[atomic[bint]] Untold

    cdef cppclass SyclKernel:
        SyclKernel(void* kernel, vector[int] types) noexcept
        void* kernel
        vector[int] types
        vector[void*] values
        vector[Argument] arguments
        void set_object(size_t index, void* object) noexcept

    cdef cppclass SyclEvent:
        SyclEvent(int state, void* event) noexcept
        atomic[int] state
        void* event
        Untold failure
        vector[void*] waiters


cdef inline Status failure(int what) noexcept nogil:
    """The status of a failure: the dpctl call that failed, or one of forebay's own reasons."""
    return (<int64_t> what << 32) | <unsigned int> FAILED


CALLS: int = <uintptr_t> &sycl
CALL_NAMES: tuple[str, ...] = tuple([(b"DPCTL" + call_names[i]).decode() for i in range(N_CALLS)])

# What is raised for forebay's own reasons, but for a gate that failed
REFUSALS: dict[int, partial[Error]] = {
    OUT_OF_MEMORY: partial(
        OutOfMemoryError, "the host has no memory to hold a queue at a gate, or a command behind it"),
    HOLDS_ADOPTED: partial(
        NotSupportedError, "a queue of dpctl cannot be held: SYCL has no event that the host sets, and dpctl could "
        "submit behind the gate"),
    WAITS_FOR_HELD: partial(
        NotSupportedError, "a queue of dpctl cannot wait for what is behind a gate or a host function that has not "
        "returned: SYCL knows of it only afterwards; finish the other queue first"),
}

LIBRARY = "libDPCTLSyclInterface.so"


def load() -> None:
    """Fill the table from the library that dpctl is linked to. One call is enough. Raises `ImportError` if dpctl is
    missing, cannot be loaded, or is too old to have one of the functions.
    """
    import dpctl

    path = Path(dpctl.__file__).with_name(LIBRARY)
    if not path.exists():
        raise ImportError(f"{path.parent} has no {LIBRARY}")
    fill_table(CALLS, CALL_NAMES, ctypes.CDLL(str(path)), (), f"dpctl {dpctl.__version__}",
               "forebay needs dpctl 0.21 or newer")


# SYCL has no event that the host sets, and dpctl's C interface has no host task. So forebay holds queues itself:
# commands behind a gate stay in a list, and opening the gate gives them to SYCL in order. A queue that waits for a
# command in such a list is held until SYCL has that command. While no queue is held, a launch only reads one flag for
# this.

cdef enum CommandKind:
    LAUNCH
    COPY
    FILL
    BARRIER
    ARRIVAL
    GATE


cdef struct SyclCommand:
    CommandKind kind
    SyclKernel* kernel
    Geometry geometry
    void* to
    const void* source
    size_t nbytes
    unsigned char pattern[128]
    size_t pattern_size
    HostCallback wake
    void* data


cdef cppclass Deferred:
    SyclCommand command
    unique_ptr[SyclKernel] kernel  # the command's, a copy with the arguments of then
    Refs[SyclEvent] waits
    Ref[SyclEvent] event  # the event that the caller asked for. For a GATE, the gate itself


cdef cppclass SyclQueue:
    void* queue  # owned
    bint adopted
    atomic[bint] held  # set only under the lock of forebay's queue
    deque[unique_ptr[Deferred]] deferred  # the lock of all held queues guards this and all below
    bint failing  # the queue is behind a gate that failed
    Untold failed  # set when a command was not submitted after all, until the host was told


cdef cppclass SyclContext:
    void* context  # owned
    void* device  # borrowed from a dpctl.SyclDevice
    void* queue  # owned; used to allocate memory, gets no commands
    void* joining  # owned; runs out of order


# -- the operations


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
    (<SyclKernel*> kernel).values[index] = <void*> <uintptr_t> memory.address
    return 0


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
    return marker(queue, waits, 0, NULL)


cdef Status hold(void* queue, void* context, Waits waits, HostCallback wake, void* data, void** gate) noexcept nogil:
    """Keep later commands in the list until the gate is opened. Calls `wake` when the queue reaches the gate.

    Do not read through `gate` once `wake` may have been called: the woken thread may open the gate and be gone.
    """
    cdef SyclQueue* held = <SyclQueue*> queue
    cdef SyclCommand command
    cdef Ref[SyclEvent] made, given
    cdef Status status = 0
    if held.adopted:
        return failure(HOLDS_ADOPTED)
    made = Ref[SyclEvent].adopt(new SyclEvent(PENDING, NULL))
    given = made
    gate[0] = given.get()
    if not held.held.load(memory_order_acquire) and read_waits(&waits):
        status = arrive(held, waits, wake, data)
    elif wake != NULL or waits.count != 0:
        command.kind = ARRIVAL if wake != NULL else BARRIER
        command.wake = wake
        command.data = data
        status = defer(held, &command, waits, Ref[SyclEvent]())
    if status != 0:
        gate[0] = NULL
        return status
    given.take()
    command.kind = GATE
    return defer(held, &command, no_waits(), made)


cdef Status open_gate(void* gate, bint failed) noexcept nogil:
    cdef vector[SyclQueue*] free_again
    cdef Guard guard
    guard.take(lock)
    if (<SyclEvent*> gate).state.load(memory_order_relaxed) == PENDING:
        settle(<SyclEvent*> gate, ENDED_BADLY if failed else SUBMITTED, NULL, free_again)
        hand_on_all(free_again)
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
    cdef SyclEvent* event
    cdef void* joined = NULL
    cdef Status status = 0
    cdef size_t i
    cdef Guard guard
    for i in range(events.count):
        event = <SyclEvent*> events.events[i]
        given.push_back(event)
        if event.state.load(memory_order_acquire) == PENDING:
            guard.take(lock)
            while event.state.load(memory_order_acquire) == PENDING:
                handed_on.wait(lock)
            guard.leave()
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
    cdef Guard guard
    guard.take(lock)  # another thread may still be emptying the list
    (<SyclQueue*> queue).failed = make_shared[atomic[bint]](<bint> False)  # the old one is the markers'


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
    bridged[0] = Ref[SyclEvent].share(<SyclEvent*> event).take()
    return 0


cdef void destroy_event(void* event) noexcept nogil:
    Ref[SyclEvent].adopt(<SyclEvent*> event)


cdef void destroy_kernel(void* kernel) noexcept nogil:
    cdef SyclKernel* released = <SyclKernel*> kernel
    del released


cdef void destroy_queue(void* queue) noexcept nogil:
    cdef SyclQueue* released = <SyclQueue*> queue
    cdef Guard guard
    guard.take(lock)  # another thread may still be emptying the list
    released.deferred.clear()
    guard.leave()
    sycl.Queue_Delete(released.queue)
    del released


cdef Driver table = Driver(
    gates_forbid_releases=False, copies_have_events=False, scopes_matter=False, waits_read_queues=False,
    changes_spare_running=False, recordings_branch=False, room_of_host_function=0, room_of_recorded_copy=0,
    asks_of_finish=0, launch=launch, set_pointer=set_pointer, set_value=set_value, follow=NULL, copy=copy, fill=fill,
    prefetch=NULL, marker=marker, barrier=barrier, record_shared=NULL, hold=hold, open_gate=open_gate,
    new_recording=NULL, add_command=NULL, end_recording=NULL, change=NULL, replay=NULL, poll=NULL,
    wait_events=wait_events, tell_failure=tell_failure, renew_queue=renew_queue, write_printed=NULL,
    event_status=event_status, elapsed=elapsed, bridge=bridge, destroy_event=destroy_event,
    destroy_kernel=destroy_kernel, destroy_recording=NULL, destroy_queue=destroy_queue)

TABLE: int = <uintptr_t> &table


# -- kernels with their arguments


cdef unique_ptr[SyclKernel] copy_kernel(SyclKernel* kernel) noexcept nogil:
    """A copy with its own arguments; changing the original's does not affect it. NULL if memory runs out."""
    cdef unique_ptr[SyclKernel] copied
    cdef Argument* argument
    cdef size_t i
    copied.reset(new SyclKernel(sycl.Kernel_Copy(kernel.kernel), kernel.types))
    if copied.get().kernel == NULL:
        copied.reset()
        return move(copied)
    for i in range(kernel.types.size()):
        argument = &kernel.arguments[i]
        if argument.size == 0:
            copied.get().values[i] = kernel.values[i]
        elif set_value(copied.get(), <uint32_t> i, argument.size, argument.value) != 0:
            copied.reset()
            break
    return move(copied)


cdef Status set_local(SyclKernel* kernel, uint32_t index, size_t size) noexcept nogil:
    cdef Argument* argument = &kernel.arguments[index]
    cdef void* made = NULL
    cdef Status status
    if argument.size == size:
        return 0
    status = sycl.WorkGroupMemory_Create(&made, size)
    argument.size = size if status == 0 else 0
    kernel.set_object(index, made)
    return status


cdef Status set_value(void* handle, uint32_t index, size_t size, const void* value) noexcept nogil:
    """Set a by-value argument, or the size of local memory for a parameter of that type."""
    cdef SyclKernel* kernel = <SyclKernel*> handle
    cdef Argument* argument = &kernel.arguments[index]
    cdef void* made = NULL
    cdef Status status
    if kernel.types[index] == WORK_GROUP_MEMORY:
        return set_local(kernel, index, size)
    if argument.value == NULL:  # allocated once: the size of a parameter never changes
        argument.value = <char*> malloc(size)
        if argument.value == NULL:
            return failure(OUT_OF_MEMORY)
        argument.size = size
    memcpy(argument.value, value, size)
    if kernel.types[index] != RAW_ARGUMENT:
        kernel.values[index] = argument.value
        return 0
    status = sycl.RawKernelArg_Create(&made, argument.value, size)  # it copies the bytes: a new object per value
    if status == 0:
        kernel.set_object(index, made)
    return status


# -- submissions: each makes an event, which the caller owns. The waits are SYCL's events


cdef Status submit_kernel(
    void* queue, SyclKernel* kernel, const Geometry* geometry, Waits waits, void** event
) noexcept nogil:
    # The last dimension of a SYCL range varies fastest, like the first of OpenCL and HIP.
    cdef size_t global_size[3]
    cdef size_t local_size[3]
    cdef int i, last = geometry.dimensions - 1
    for i in range(geometry.dimensions):
        global_size[last - i] = geometry.global_size[i]
        local_size[last - i] = geometry.local_size[i]
    return sycl.Queue_SubmitNDRange(
        event, kernel.kernel, queue, kernel.values.data(), kernel.types.data(), kernel.values.size(), global_size,
        local_size, geometry.dimensions, waits.events, waits.count)


cdef Status submit_copy(
    void* queue, void* to, const void* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    if waits.count == 0:
        return sycl.Queue_Memcpy(event, queue, to, source, nbytes)
    return sycl.Queue_MemcpyWithEvents(event, queue, to, source, nbytes, waits.events, waits.count)


cdef Status submit_fill(
    void* queue, void* to, const unsigned char* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef uint64_t words[2]
    cdef size_t count = nbytes // pattern_size
    cdef Status status
    if waits.count != 0:  # dpctl's fills take no wait list
        status = submit_barrier(queue, waits, event)
        if status != 0:
            return status
        sycl.Event_Delete(event[0])
    memcpy(words, pattern, min(pattern_size, <size_t> 16))
    if pattern_size == 1:
        return sycl.Queue_Memset(event, queue, to, <uint8_t> words[0], count)
    if pattern_size == 2:
        return sycl.Queue_Fill16(event, queue, to, <uint16_t> words[0], count)
    if pattern_size == 4:
        return sycl.Queue_Fill32(event, queue, to, <uint32_t> words[0], count)
    if pattern_size == 8:
        return sycl.Queue_Fill64(event, queue, to, words[0], count)
    if pattern_size == 16:
        return sycl.Queue_Fill128(event, queue, to, words, count)
    return fill_by_doubling(queue, <char*> to, pattern, pattern_size, nbytes, event)


cdef Status fill_by_doubling(
    void* queue, char* to, const unsigned char* pattern, size_t pattern_size, size_t nbytes, void** event
) noexcept nogil:
    """Fill with patterns longer than the 16 bytes that dpctl takes: write one element, then copy it by doubling."""
    cdef uint64_t part[2]
    cdef size_t more, done = 0
    cdef void* before = NULL
    cdef Status status = 0
    while status == 0 and done < nbytes:
        if done < pattern_size:
            more = 16
            memcpy(part, pattern + done, more)
            status = sycl.Queue_Fill128(event, queue, to + done, part, 1)
        else:
            more = min(done, nbytes - done)
            status = sycl.Queue_Memcpy(event, queue, to + done, to, more)
        if before != NULL:
            if status != 0:  # nothing reports the parts before, and the memory may be freed
                sycl.Event_Wait(before)
            sycl.Event_Delete(before)
        before = event[0]
        done += more
    return status


cdef Status submit_barrier(void* queue, Waits waits, void** event) noexcept nogil:
    if waits.count == 0:
        return sycl.Queue_SubmitBarrier(event, queue)
    return sycl.Queue_SubmitBarrierForEvents(event, queue, waits.events, waits.count)


# -- keeps back commands that are submitted behind a gate, and gives them to SYCL when the gate opens
#
# One lock guards the lists of all held queues, because opening one gate may free several queues. Take it while holding
# the lock of a forebay queue, never the other way round. It stays locked while commands go to SYCL, to keep their
# order.


cdef extern from "<condition_variable>" namespace "std" nogil:
    cdef cppclass condition_variable_any:
        void wait(Lock& lock)
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


cdef Lock lock
# On the heap, and never deleted: threads may wait for it when the process ends, or have been when it was forked.
cdef condition_variable_any* handed_on = new condition_variable_any()


# -- events


cdef void settle(SyclEvent* event, int state, void* made, vector[SyclQueue*]& free_again) noexcept nogil:
    """End the event's pending state. The caller holds the lock."""
    cdef size_t i
    event.event = made
    event.state.store(state, memory_order_release)
    for i in range(event.waiters.size()):
        free_again.push_back(<SyclQueue*> event.waiters[i])
    event.waiters.clear()


# Whether what the event is for was refused, or is behind a gate that failed, and no wait has told so.
cdef bint has_failed(SyclEvent* event) noexcept nogil:
    if event.state.load(memory_order_acquire) != ENDED_BADLY:
        return False  # what came later is done when it is: memory that waits for a marker of its own goes back
    return event.failure.get() == NULL or dereference(event.failure).load(memory_order_acquire)


# Whether a wait for the event is to tell a failure, its own or an earlier one of its queue. It is told once.
cdef bint tell_failure_of(SyclEvent* event) noexcept nogil:
    cdef bint refused = event.state.load(memory_order_acquire) == ENDED_BADLY
    return refused if event.failure.get() == NULL else dereference(event.failure).exchange(False)


# Does SYCL have everything in the wait list? If so, replaces the entries by SYCL's events; the list may get shorter.
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
    queue.failed = make_shared[atomic[bint]](<bint> False)
    return queue


cdef Status submit(SyclQueue* queue, const SyclCommand* command, Waits waits, void** made) noexcept nogil:
    if command.kind == LAUNCH:
        return submit_kernel(queue.queue, command.kernel, &command.geometry, waits, made)
    if command.kind == COPY:
        return submit_copy(queue.queue, command.to, command.source, command.nbytes, waits, made)
    if command.kind == FILL:
        return submit_fill(
            queue.queue, command.to, command.pattern, command.pattern_size, command.nbytes, waits, made)
    return submit_barrier(queue.queue, waits, made)


cdef Status give(SyclQueue* queue, const SyclCommand* command, Waits waits, void** event) noexcept nogil:
    """Submit a command, at once if nothing holds it. The caller keeps the command and the list; `event` may be NULL.

    If a command is held back, its error comes later, like an error of the device.
    """
    cdef Ref[SyclEvent] made
    cdef void* submitted = NULL
    cdef Status status
    if queue.held.load(memory_order_acquire) or not read_waits(&waits):
        if event != NULL:
            made = Ref[SyclEvent].adopt(new SyclEvent(PENDING, NULL))
        status = defer(queue, command, waits, made)
    else:
        status = submit(queue, command, waits, &submitted)
        if status == 0:
            made = Ref[SyclEvent].adopt(new SyclEvent(SUBMITTED, submitted))
            note_failure(queue, command, made.get())
    if status == 0 and event != NULL:
        event[0] = made.take()
    return status


cdef void note_failure(SyclQueue* queue, const SyclCommand* command, SyclEvent* event) noexcept nogil:
    if command.kind == BARRIER and dereference(queue.failed).load(memory_order_acquire):
        event.failure = queue.failed


cdef Status defer(
    SyclQueue* queue, const SyclCommand* command, Waits waits, Ref[SyclEvent] event
) noexcept nogil:
    """Add a copy of the command to the list, and hand on at once what nothing holds."""
    cdef unique_ptr[Deferred] kept
    cdef vector[SyclQueue*] free_again
    cdef size_t i
    cdef Guard guard
    if queue.adopted:
        return failure(WAITS_FOR_HELD)
    kept.reset(new Deferred())
    kept.get().command = command[0]
    kept.get().event = event
    for i in range(waits.count):
        kept.get().waits.share(<SyclEvent*> waits.events[i])
    if command.kind == LAUNCH:
        kept.get().kernel = copy_kernel(command.kernel)
        if kept.get().kernel.get() == NULL:
            return failure(OUT_OF_MEMORY)
        kept.get().command.kernel = kept.get().kernel.get()
    guard.take(lock)
    queue.held.store(True, memory_order_release)
    queue.deferred.push_back(move(kept))
    if queue.deferred.size() == 1:  # otherwise the front of the list already waits for something
        free_again.push_back(queue)
        hand_on_all(free_again)
    return 0


cdef SyclEvent* what_holds(Deferred* kept) noexcept nogil:
    cdef size_t i
    if kept.command.kind == GATE:
        return kept.event.get() if kept.event.get().state.load(memory_order_relaxed) == PENDING else NULL
    for i in range(kept.waits.size()):
        if kept.waits[i].state.load(memory_order_relaxed) == PENDING:
            return kept.waits[i]
    return NULL


cdef bint waits_for_failed(Deferred* kept) noexcept nogil:
    cdef size_t i
    for i in range(kept.waits.size()):
        if kept.waits[i].state.load(memory_order_relaxed) == ENDED_BADLY:
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
    cdef SyclEvent* holder
    while not queue.deferred.empty():
        holder = what_holds(queue.deferred.front().get())
        if holder != NULL:
            holder.waiters.push_back(queue)
            return
        hand_on_one(queue, queue.deferred.front().get(), free_again)
        queue.deferred.pop_front()
    queue.failing = False
    queue.held.store(False, memory_order_release)


cdef void hand_on_one(SyclQueue* queue, Deferred* kept, vector[SyclQueue*]& free_again) noexcept nogil:
    cdef SyclCommand* command = &kept.command
    cdef SyclEvent* event = kept.event.get()
    cdef vector[void*] events
    cdef Waits waits
    cdef void* made = NULL
    cdef bint fails
    cdef size_t i
    if command.kind == GATE:
        if event.state.load(memory_order_relaxed) == ENDED_BADLY:
            queue.failing = True
            dereference(queue.failed).store(True)
        return
    for i in range(kept.waits.size()):
        events.push_back(kept.waits[i])
    waits.count = <unsigned int> events.size()
    waits.events = events.data()
    if command.kind == ARRIVAL:
        read_waits(&waits)
        if arrive(queue, waits, command.wake, command.data) != 0:
            command.wake(command.data)  # waking too early is better than never
        return
    fails = queue.failing or waits_for_failed(kept)
    if not fails or command.kind == BARRIER:  # who waits for a marker waits for what runs, too
        read_waits(&waits)
        fails = submit(queue, command, waits, &made) != 0 or fails
    if fails:
        dereference(queue.failed).store(True)
    if event != NULL:
        if made != NULL:
            note_failure(queue, command, event)
        settle(event, ENDED_BADLY if fails else SUBMITTED, made, free_again)
    elif made != NULL:
        sycl.Event_Delete(made)


# -- gates


cdef cppclass Watched:
    void* event
    HostCallback wake
    void* data


cdef void wait_and_wake(void* data) noexcept nogil:
    """Runs on its own thread, because SYCL has no callbacks. It never needs the GIL."""
    cdef Watched* watched = <Watched*> data
    while status_of(watched.event) == NOT_YET:
        sycl.Event_Wait(watched.event)  # returns too early when it has thrown
    sycl.Event_Delete(watched.event)
    watched.wake(watched.data)
    del watched


cdef Status arrive(SyclQueue* queue, Waits waits, HostCallback wake, void* data) noexcept nogil:
    """Order the queue after the waits, and call `wake` when it gets there. SYCL must have all the waits already."""
    cdef Watched* watched
    cdef void* made = NULL
    cdef Status status
    if wake == NULL and waits.count == 0:
        return 0
    status = submit_barrier(queue.queue, waits, &made)
    if status != 0:
        return status
    if wake != NULL:
        watched = new Watched()
        watched.event = made
        watched.wake = wake
        watched.data = data
        if start_thread(wait_and_wake, watched):
            return 0
        del watched
        status = failure(OUT_OF_MEMORY)
    sycl.Event_Delete(made)
    return status


# -- contexts and programs as Python objects, and the handles of queues and kernels


USM_TYPES = ("", "device", "shared", "host")  # DPCTLSyclUSMType; empty for memory of another context
ARGUMENT_TYPES: dict[str, int] = {code: number for number, code in enumerate([*"bBhHiIqQfd", ""])}  # pointers have none
ARGUMENT_TYPES |= {"L": WORK_GROUP_MEMORY, "V": RAW_ARGUMENT}


@cython.no_gc_clear
cdef class ContextHandle:
    """Holds its own references to a context and two of its queues. It takes their addresses in dpctl's objects."""

    cdef SyclContext native

    def __init__(self, uintptr_t context, uintptr_t device, uintptr_t queue, uintptr_t joining) -> None:
        self.native.context = sycl.Context_Copy(<void*> context)
        self.native.device = <void*> device
        self.native.queue = sycl.Queue_Copy(<void*> queue)
        self.native.joining = sycl.Queue_Copy(<void*> joining)
        if self.native.context == NULL or self.native.queue == NULL or self.native.joining == NULL:
            raise Error("SYCL did not copy a context or a queue")

    def __dealloc__(self):
        if is_forked():
            return
        if self.native.joining != NULL:
            sycl.Queue_Delete(self.native.joining)
        if self.native.queue != NULL:
            sycl.Queue_Delete(self.native.queue)
        if self.native.context != NULL:
            sycl.Context_Delete(self.native.context)

    @property
    def address(self) -> int:
        """The context handle for the table of operations."""
        return <uintptr_t> &self.native


@cython.no_gc_clear
cdef class Bundle:
    """A built program."""

    cdef void* native
    cdef ContextHandle context

    def __init__(self, ContextHandle context not None, source: str | bytes, options: str) -> None:
        cdef const char* text
        cdef size_t nbytes = len(source)
        cdef bint is_module = isinstance(source, bytes)
        cdef bytes code = source if is_module else source.encode()
        cdef bytes words = options.encode()
        cdef const char* flags = words
        text = code
        self.context = context
        with nogil:
            if is_module:
                self.native = sycl.KernelBundle_CreateFromSpirv(
                    self.context.native.context, self.context.native.device, text, nbytes, flags)
            else:
                self.native = sycl.KernelBundle_CreateFromOCLSource(
                    self.context.native.context, self.context.native.device, text, flags)
        if self.native == NULL:
            raise BuildError("SYCL does not build the program; with DPCTL_VERBOSITY=error dpctl says why on stderr")

    def __dealloc__(self):
        if self.native != NULL and not is_forked():
            sycl.KernelBundle_Delete(self.native)


@cython.no_gc_clear
cdef class BundledKernel:
    """A kernel without arguments."""

    cdef void* native
    cdef readonly Bundle bundle

    def __init__(self, Bundle bundle not None, name: str) -> None:
        cdef bytes text = name.encode()
        self.bundle = bundle
        self.native = sycl.KernelBundle_GetKernel(bundle.native, <const char*> text)
        if self.native == NULL:
            raise NotSupportedError(f"SYCL does not give out the kernel {name!r} of this program")

    def __dealloc__(self):
        if self.native != NULL and not is_forked():
            sycl.Kernel_Delete(self.native)

    @property
    def max_block(self) -> int:
        return sycl.Kernel_GetWorkGroupSize(self.native)

    def create(self, codes: Iterable[str]) -> int:
        """The handle of a new kernel with its own arguments. `codes` gives their types, as in `Parameter`."""
        cdef vector[int] types
        cdef void* copied
        for code in codes:
            types.push_back(ARGUMENT_TYPES[code])
        copied = sycl.Kernel_Copy(self.native)
        if copied == NULL:
            raise Error("SYCL did not copy a kernel")
        return <uintptr_t> new SyclKernel(copied, types)


def can_pass(code: str) -> bool:
    """Whether this dpctl can pass an argument of this type (a code as in `Parameter`)."""
    if code == "V":
        return bool(sycl.RawKernelArg_Available())
    if code == "L":
        return bool(sycl.WorkGroupMemory_Available())
    return code in ARGUMENT_TYPES


def adopt_event(uintptr_t address) -> int:
    """A driver event, from the address in a dpctl.SyclEvent. It holds its own reference."""
    cdef void* copied = sycl.Event_Copy(<void*> address)
    if copied == NULL:
        raise Error("SYCL did not copy an event")
    return <uintptr_t> new SyclEvent(SUBMITTED, copied)


def create_queue(uintptr_t address, adopted: bool) -> int:
    """The handle of a queue, from its address in a dpctl.SyclQueue. The handle holds its own reference."""
    cdef void* copied = sycl.Queue_Copy(<void*> address)
    if copied == NULL:
        raise Error("SYCL did not copy a queue")
    return <uintptr_t> new_queue(copied, adopted)


# -- memory of its own, and memory of dpctl and dpnp that a device takes over


INTERFACE = "__sycl_usm_array_interface__"


@cython.no_gc_clear  # freeing needs the context
cdef class OwnMemory(NativeMemory):
    """One allocation, freed with this object. Drop the last reference only when the device is done with the memory."""

    cdef ContextHandle context

    def __init__(self, ContextHandle context not None, size_t nbytes, str usm_type) -> None:
        cdef void* queue = context.native.queue
        cdef bint of_device = usm_type == "device", of_both = usm_type == "shared"
        self.context = context
        self.nbytes = nbytes
        self.usm_type = usm_type
        with nogil:
            if of_device:
                self.address = <uintptr_t> sycl.malloc_device(nbytes, queue)
            elif of_both:
                self.address = <uintptr_t> sycl.malloc_shared(nbytes, queue)
            else:
                self.address = <uintptr_t> sycl.malloc_host(nbytes, queue)
        if self.address == 0:
            raise OutOfMemoryError(f"DPCTLmalloc_{usm_type} returned no memory for {nbytes} bytes")

    def __dealloc__(self):
        if self.address and not is_forked():
            with nogil:
                sycl.free_with_context(<void*> self.address, self.context.native.context)


def adopt_memory(thing: object, ContextHandle context, name: str) -> Adopted | None:
    """As `DriverDevice.adopt_memory`, for the device of this name."""
    cdef uintptr_t place
    interface = getattr(thing, INTERFACE, None)
    if not isinstance(interface, dict):
        return None
    try:
        address, read_only = interface["data"]
        shape = tuple([int(extent) for extent in interface["shape"]])
        dtype = np.dtype(interface["typestr"])
        strides = interface.get("strides")
        address = int(address or 0) + int(interface.get("offset", 0)) * dtype.itemsize
    except (KeyError, TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"as_buffer: the {INTERFACE} of this {type(thing).__name__} is not one ({error})"
        ) from None
    # dpctl's own memory objects claim to be read-only although they can be written (0.21, 0.22).
    if read_only and not isinstance(thing, _memory_classes()):
        raise InvalidArgumentError(f"as_buffer: this {type(thing).__name__} is read-only")
    if strides is not None and not are_contiguous(shape, tuple(strides), 1):
        raise InvalidArgumentError(
            f"as_buffer: this {type(thing).__name__} is not C-contiguous (shape {shape}, strides {tuple(strides)})"
        )
    nbytes = math.prod(shape) * dtype.itemsize
    place = <uintptr_t> address
    usm_type = USM_TYPES[sycl.USM_GetPointerType(<void*> place, context.native.context)] if nbytes else "device"
    if not usm_type:
        raise InvalidArgumentError(
            f"as_buffer: the memory of this {type(thing).__name__} belongs to another SYCL context than {name}'s"
        )
    return Adopted(ForeignMemory(thing, address, nbytes, usm_type), shape, dtype)


def _memory_classes() -> tuple[type, ...]:
    from dpctl import memory

    return memory.MemoryUSMDevice, memory.MemoryUSMHost, memory.MemoryUSMShared
