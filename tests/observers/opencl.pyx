"""Records the driver calls forebay makes, and makes chosen ones fail.

It does not see calls inside the driver, nor calls that pyopencl makes itself. It looks for launches that follow
pointers to memory that was freed. Other mistakes the driver refuses, or the results show them.
"""

from forebay.queues.opencl.operations cimport Calls, cl
from forebay.queues.queue cimport Queue

from forebay.queues.opencl import operations

cdef extern from "tests/observers/opencl.hpp" namespace "forebay_observer" nogil:
    void wrap_calls(Calls& table)
    void unwrap_calls(Calls& table)

include "recorder.pxi"

NAMES = operations.CALL_NAMES
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
LAUNCH = "clEnqueueNDRangeKernel"
UPLOAD = "clEnqueueWriteBuffer"
DOWNLOAD = "clEnqueueReadBuffer"
FILL = "clEnqueueFillBuffer"
MARKER = "clEnqueueMarkerWithWaitList"
BARRIER = "clEnqueueBarrierWithWaitList"
HOLD = "clEnqueueBarrierWithWaitList"
HOST_FUNCTION = "clSetEventCallback"
ARGUMENT = "clSetKernelArg"
FINISH = WAIT = "clWaitForEvents"  # for a marker
QUERY = "clGetEventInfo"
GATE = ("clCreateUserEvent",)
FLUSH = "clFlush"
OPEN = "clSetUserEventStatus"
NEW_QUEUE = "clRetainCommandQueue"
RELEASE_QUEUE = "clReleaseCommandQueue"
FAILURE = -36, "CL_INVALID_COMMAND_QUEUE"
OUT_OF_MEMORY = -6


cdef void begin():
    operations.load()
    wrap_calls(cl)


cdef void end():
    unwrap_calls(cl)


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return <uintptr_t> queue.state.handle
