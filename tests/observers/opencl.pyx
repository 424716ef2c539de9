"""Records the driver calls forebay makes, and makes chosen ones fail.

While the observer is on, the pointers in the table of calls lead to its wrappers. While it is off it costs nothing. It
does not see calls inside the driver, nor calls that pyopencl makes itself.
"""

from forebay.queues.drivers.opencl.calls cimport Calls, cl
from forebay.queues.queue cimport Queue

from forebay.queues.drivers.opencl import calls

include "recorder.pxi"

cdef extern from "tests/observers/opencl_calls.hpp" namespace "forebay_observer" nogil:
    cdef cppclass MemoryRecord:
        vector[int64_t] alive()

    MemoryRecord& state()
    void begin_calls(Calls& table)
    void end_calls(Calls& table)
    cdef enum:
        FAILED_COMMAND

NAMES = calls.CALL_NAMES

# The kind of each call, for tests that compare the order with the rules. The words are the same for every driver.
KINDS = {
    "clEnqueueMarkerWithWaitList": "marker",
    "clEnqueueBarrierWithWaitList": "barrier",
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
# The call for each operation, where there is only one.
LAUNCH = "clEnqueueNDRangeKernel"
UPLOAD = "clEnqueueWriteBuffer"
DOWNLOAD = "clEnqueueReadBuffer"
FILL = "clEnqueueFillBuffer"
MARKER = "clEnqueueMarkerWithWaitList"
BARRIER = "clEnqueueBarrierWithWaitList"
HOLD = "clEnqueueBarrierWithWaitList"  # the call by which a gate holds the queue
HOST_FUNCTION = "clSetEventCallback"
ARGUMENT = "clSetKernelArg"
REPLAY = None  # a graph is replayed by a loop over its commands
FINISH = WAIT = "clWaitForEvents"  # for a marker
QUERY = "clGetEventInfo"
GATE = ("clCreateUserEvent",)
FLUSH = "clFlush"
OPEN = "clSetUserEventStatus"
NEW_QUEUE = "clRetainCommandQueue"
NEW_RECORDING = None  # there is none
RELEASE_QUEUE = "clReleaseCommandQueue"
GATE_MARKERS = 0  # markers that a gate makes for itself
POLLS = False  # whether the driver reports that a queue is done, without a marker
FINISH_IS_POLL = False
DONE = 0  # the status of an event that is done
FAILURE = -36, "CL_INVALID_COMMAND_QUEUE"  # an error that any call may return
EVENT_FAILURE = FAILURE[1]  # its name when the query of an event fails
OUT_OF_MEMORY = -6


cdef void begin():
    calls.load()
    begin_calls(cl)


cdef void end():
    end_calls(cl)


def watch(emulate=False):
    """Does nothing. The observer needs no facts from before `start`, and this driver executes, so it needs no answers.

    It looks for launches that follow pointers to memory that was freed. Other mistakes the driver refuses, or the
    results show them.
    """


def unwatch():
    """End what `watch` began."""


def fail_command(int64_t code):
    """Let the next event that is asked say that its command has failed with this negative code."""
    record().fail(FAILED_COMMAND, code, 0)


def events_alive(device):
    """The serials of events made while observed to which forebay still holds references."""
    return sorted(state().alive())


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return <uintptr_t> queue.state.handle
