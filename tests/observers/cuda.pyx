"""Records forebay's calls of CUDA's driver, and makes chosen ones fail.

What is recorded is what the driver was asked for. Only what belongs together is put together, as other drivers have it
in one call: what a stream waits for is recorded with the command that follows, or as a call of its own name where none
does; a copy and the event behind it are one command; and a wait of the host is one call, however it asks. Making
a gate, opening it, setting an argument and releasing a kernel object are no calls of the driver, and cannot fail.

It looks for gates whose word is used again before their stream has passed it. Other mistakes the driver refuses, or the
results show them.
"""

from forebay.core.driver cimport Driver
from forebay.queues.queue cimport Queue
from forebay.queues.cuda.operations cimport Calls, CuEvent, CuQueue, cuda

import functools

from forebay.queues.cuda import discovery, operations
from forebay.queues.cuda.operations import ContextHandle
from forebay.queues.cuda.ptx import OWN_KERNELS

cdef extern from "tests/observers/cuda.hpp" namespace "forebay_observer" nogil:
    void wrap_calls(Calls& table)
    void unwrap_calls(Calls& table)

include "recorder.pxi"
include "operations.pxi"

NAMES = (*operations.CALL_NAMES, "gate", "open", "argument", "EventQuery", "ReleaseKernel")

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
LAUNCH = "cuLaunchKernel"
UPLOAD = DOWNLOAD = "cuMemcpyAsync"
FILL = "cuMemsetD32Async"
MARKER = "cuEventRecord"
BARRIER = "cuStreamWaitEvent"
HOLD = "cuStreamWaitValue32_v2"
HOST_FUNCTION = "cuLaunchHostFunc"
ARGUMENT = "argument"
REPLAY = "cuGraphLaunch"
FINISH = "cuStreamQuery"  # with the status 600 when it says "not done"
WAIT = "EventQuery"  # cuEventQuery, until it says that the event is done
QUERY = "cuEventQuery"
GATE = ("cuStreamWaitValue32_v2",)  # a gate is an event that was made before
OPEN = "open"
NEW_QUEUE = "cuStreamCreateWithPriority"
RELEASE_QUEUE = "cuStreamDestroy_v2"
GATE_MARKERS = 1  # the event of what is behind the wait for a word
POLLS = True
FINISH_IS_POLL = True
FAILURE = 1, "CUDA_ERROR_INVALID_VALUE"
OUT_OF_MEMORY = 2

started = functools.cache(discovery.start)  # in a child that was forked the driver does not start


cdef uintptr_t stream_of(void* queue) noexcept nogil:
    return <uintptr_t> (<CuQueue*> queue).stream


cdef uintptr_t handle_of_event(void* event) noexcept nogil:
    return <uintptr_t> (<CuEvent*> event).handle


cdef void begin():
    global queue_handle, event_handle
    queue_handle, event_handle = stream_of, handle_of_event
    operations.load(started()[0])
    wrap_calls(cuda)
    begin_operations()


cdef void end():
    end_operations()
    unwrap_calls(cuda)


def watch(emulate=False):
    """Open the contexts, which stay. Where nothing executes the driver answers by its model what is done."""
    driver, count = started()
    operations.load(driver)
    for ordinal in range(count):
        ContextHandle(ordinal, OWN_KERNELS.encode() + b"\0")


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return stream_of(queue.state.handle)
