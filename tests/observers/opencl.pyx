"""Records the driver calls forebay makes, and makes chosen ones fail.

While it is on, the pointers in the table of calls lead to wrappers. While it is off nothing of it is on any path. What
happens inside the driver, and what pyopencl calls itself, is not seen.
"""

from forebay.queues.opencl.calls cimport Calls, cl
from forebay.queues.queue cimport Queue

from forebay.queues.opencl import calls

include "recorder.pxi"

cdef extern from "tests/observers/opencl_calls.hpp" namespace "forebay_observer" nogil:
    cdef cppclass EventRecord:
        vector[int64_t] alive()

    EventRecord& state()
    void begin_calls(Calls& table)
    void end_calls(Calls& table)

NAMES = calls.CALL_NAMES

# What a call is to those who compare the order it makes with the rules: the words are the same for every driver.
KINDS = {
    "clEnqueueMarkerWithWaitList": "marker",
    "clEnqueueBarrierWithWaitList": "barrier",
    "clFinish": "finish",
    "clWaitForEvents": "wait",
    "clGetEventInfo": "query",
    "clCreateUserEvent": "gate",
    "clSetUserEventStatus": "open",
    "clSetKernelArg": "argument",
    "clSetKernelArgSVMPointer": "argument",
    "clSVMAlloc": "allocate",
    "clCreateBuffer": "allocate",
}
COMMANDS = ("clEnqueue",)
NEVER_FAIL = ("clSVMFree",)
# And which call does it, where only one does.
LAUNCH = "clEnqueueNDRangeKernel"
UPLOAD = "clEnqueueWriteBuffer"
DOWNLOAD = "clEnqueueReadBuffer"
FILL = "clEnqueueFillBuffer"
MARKER = "clEnqueueMarkerWithWaitList"
BARRIER = "clEnqueueBarrierWithWaitList"
HOLD = "clEnqueueBarrierWithWaitList"  # what a gate holds the queue with
HOST_FUNCTION = "clSetEventCallback"
ARGUMENT = "clSetKernelArg"
REPLAY = None  # of a graph: a loop over its commands
FINISH = "clFinish"
WAIT = "clWaitForEvents"
QUERY = "clGetEventInfo"
GATE = ("clCreateUserEvent",)
FLUSH = "clFlush"
OPEN = "clSetUserEventStatus"
NEW_QUEUE = "clRetainCommandQueue"
RELEASE_QUEUE = "clReleaseCommandQueue"
GATE_MARKERS = 0  # that a gate makes for itself
POLLS = False  # whether the driver says of a queue that it is done, without a marker
DONE = 0  # the status of an event that is done
FAILURE = -36, "CL_INVALID_COMMAND_QUEUE"  # one that any call may have
EVENT_FAILURE = FAILURE[1]  # what it is called when asking for an event fails
OUT_OF_MEMORY = -6


cdef void begin():
    calls.load()
    begin_calls(cl)


cdef void end():
    end_calls(cl)


def watch(emulate=False):
    """Nothing has to be known from before `start`, and there is nothing to answer for: this driver executes.

    No violations are looked for: what is wrong here the driver refuses, or the results show it.
    """


def unwatch():
    """End what `watch` began."""


def events_alive(device):
    """The serials of events made while observed to which forebay still holds references."""
    return sorted(state().alive())


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return <uintptr_t> queue.state.handle
