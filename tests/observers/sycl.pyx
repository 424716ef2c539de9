"""Records what forebay asks of SYCL by dpctl's C interface, and makes chosen calls fail.

Forebay keeps back commands behind a gate. They are recorded at once, so the record shows SYCL's order, and its readers
need not know. A marker, a barrier, a copy and a fill have one name each, whichever call of dpctl it is. Arguments,
which SYCL takes with the launch, are recorded when they are set.

A call that fails returns nothing: dpctl has no error codes, and those given to `fail` are only recorded.
"""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport atomic

from forebay.core.driver cimport Driver
from forebay.queues.queue cimport Queue
from forebay.queues.sycl.calls cimport FAILED, Calls, sycl
from forebay.queues.sycl.operations cimport SyclQueue

from forebay.queues.sycl import calls, operations
from forebay.queues.sycl.device import NO_REASON

cdef extern from "tests/observers/sycl.hpp" namespace "forebay_observer" nogil:
    cdef enum:
        THROWN_WAIT

    atomic[uint64_t] kept_back
    void wrap_calls(Calls& table)
    void unwrap_calls(Calls& table)

include "recorder.pxi"
include "operations.pxi"

NAMES = (*calls.CALL_NAMES, "gate", "hold", "open")
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
NEVER_FAIL = ("gate", *(name for name in NAMES if name.endswith("_Delete") or "free" in name))
LAUNCH = "DPCTLQueue_SubmitNDRange"
UPLOAD = DOWNLOAD = "DPCTLQueue_Memcpy"
FILL = "DPCTLQueue_Fill32"
MARKER = "DPCTLQueue_SubmitBarrier"
BARRIER = "DPCTLQueue_SubmitBarrierForEvents"
HOLD = HOST_FUNCTION = "hold"  # by forebay's own list
ARGUMENT = "DPCTLRawKernelArg_Create"
FINISH = WAIT = "DPCTLEvent_Wait"  # for a marker
QUERY = "DPCTLEvent_GetCommandExecutionStatus"
GATE = ("hold",)  # makes it, too
OPEN = "open"
NEW_QUEUE = "DPCTLQueue_Copy"
RELEASE_QUEUE = "DPCTLQueue_Delete"
FAILURE = FAILED, NO_REASON
OUT_OF_MEMORY = FAILED


cdef uintptr_t native_queue(void* queue) noexcept nogil:
    return <uintptr_t> (<SyclQueue*> queue).queue


cdef void begin():
    global queue_handle
    queue_handle = native_queue
    calls.load()
    wrap_calls(sycl)
    begin_operations()


cdef void end():
    end_operations()
    unwrap_calls(sycl)


def copies_in_launches():
    """How many kernels were copied for launches behind gates since the process began: the record leaves these out."""
    return kept_back.load()


def throw_in_wait():
    """Let the next wait end at once, as dpctl lets a wait end that has thrown, and its event say nothing."""
    record().fail(THROWN_WAIT, FAILED, 0)


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return native_queue(queue.state.handle)
