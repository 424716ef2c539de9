"""Records forebay's calls of the driver that executes nothing, and makes chosen ones fail.

A hold is recorded as two calls: "Gate", which makes the gate, and "Hold", which waits for it. A poll is recorded as
"Finish", as of a driver that has one call for both, with the status 1 when it says "not done".
"""

from forebay.core.driver cimport Driver
from forebay.queues.queue cimport Queue

from tests.drivers.nothing.operations cimport Calls

from tests.drivers.nothing import operations

cdef extern from "tests/observers/nothing.hpp" namespace "forebay_observer" nogil:
    void wrap_calls(Calls& table)

include "recorder.pxi"
include "operations.pxi"

NAMES = (*operations.CALL_NAMES, "Gate")
KINDS = {
    "Marker": "marker", "Barrier": "barrier", "Hold": "barrier", "Gate": "gate", "OpenGate": "open", "Poll": "finish",
    "WaitEvents": "wait", "EventStatus": "query", "SetPointer": "argument", "SetValue": "argument",
    "Allocate": "allocate",
}  # fmt: skip
COMMANDS = ("Launch", "Copy", "Fill")
NEVER_FAIL = ("None", "Gate", "ReleaseEvent", "ReleaseKernel", "ReleaseQueue", "Free")
LAUNCH = "Launch"
UPLOAD = DOWNLOAD = "Copy"
FILL = "Fill"
MARKER = "Marker"
BARRIER = "Barrier"
HOLD = HOST_FUNCTION = "Hold"
ARGUMENT = "SetValue"
FINISH = "Poll"
WAIT = "WaitEvents"
QUERY = "EventStatus"
GATE = ("Hold",)  # makes it, too
OPEN = "OpenGate"
NEW_QUEUE = "NewQueue"
RELEASE_QUEUE = "ReleaseQueue"
POLLS = True
FINISH_IS_POLL = True
FAILURE = 5, operations.ERRORS[5]
OUT_OF_MEMORY = 4

cdef Calls real_calls  # the table without the observer


cdef Calls* calls_table() noexcept:
    cdef uintptr_t address = operations.calls_address()
    return <Calls*> address


cdef void begin():
    global real_calls
    real_calls = calls_table()[0]
    wrap_calls(calls_table()[0])
    begin_operations()


cdef void end():
    calls_table()[0] = real_calls
    end_operations()


def handle_of(Queue queue not None):
    """The driver's handle of a queue."""
    return <uintptr_t> queue.state.handle
