"""Records forebay's driver calls, makes chosen ones fail, and finds mistakes that null hardware hides.

While it is on, the pointers in the table of calls lead to wrappers. While it is off nothing of it is on any path.

It follows each call: which objects there are and with which scopes, what each list was ordered after, and what the host
was told is done. Out of that come its `violations`. Hardware that executes nothing says at once that all is done; with
`emulate` it is answered for: what is behind a gate that the host has not opened is not done, and host functions are
called.

In the record a list is known by a number that is not used again, and a serial is that of one signal of an event. A call
that is made to fail and ends an object ends it all the same.
"""

import ctypes

from forebay.queues.levelzero.calls cimport Calls, ze
from forebay.queues.levelzero.handles cimport EVENT_KINDS, ZeDevice as DeviceState, ZeQueue as QueueState
from forebay.queues.queue cimport Queue

from forebay.queues.levelzero import calls, loader

include "recorder.pxi"

cdef extern from "tests/observers/levelzero_calls.hpp" namespace "forebay_observer" nogil:
    ctypedef void* GetAllocProperties
    void install(Calls& table, cbool emulating, GetAllocProperties properties_of)
    void uninstall(Calls& table)
    void set_recording(cbool on)
    void slow_down(int function, uint64_t microseconds)
    vector[int64_t] event_serials(const vector[void*]& idle)
    vector[size_t] objects_alive()
    unsigned int number_of(void* list)

NAMES = calls.CALL_NAMES

# What a call is to those who compare the order it makes with the rules: the words are the same for every driver.
KINDS = {
    "zeCommandListAppendSignalEvent": "marker",
    "zeCommandListImmediateAppendCommandListsExp": "command",
    "zeCommandListAppendWaitOnEvents": "barrier",
    "zeCommandListHostSynchronize": "finish",
    "zeEventHostSynchronize": "wait",
    "zeEventQueryStatus": "query",
    "zeEventCreate": "gate",  # of those that a command signals nobody waits for this serial
    "zeEventHostReset": "gate",
    "zeEventHostSignal": "open",
    "zeKernelSetArgumentValue": "argument",
    "zeMemAllocDevice": "allocate",
    "zeMemAllocHost": "allocate",
    "zeMemAllocShared": "allocate",
}
COMMANDS = ("zeCommandListAppend",)
NEVER_FAIL = ()
# And which call does it, where only one does.
LAUNCH = "zeCommandListAppendLaunchKernel"
UPLOAD = DOWNLOAD = "zeCommandListAppendMemoryCopy"
FILL = "zeCommandListAppendMemoryFill"
MARKER = "zeCommandListAppendSignalEvent"
BARRIER = "zeCommandListAppendWaitOnEvents"
HOLD = "zeCommandListAppendWaitOnEvents"  # what a gate holds the queue with
HOST_FUNCTION = "zeCommandListAppendHostFunction"
ARGUMENT = "zeKernelSetArgumentValue"
REPLAY = "zeCommandListImmediateAppendCommandListsExp"  # of a graph
FINISH = "zeCommandListHostSynchronize"
WAIT = "zeEventHostSynchronize"
QUERY = "zeEventQueryStatus"
GATE = ("zeEventHostReset", "zeEventPoolCreate")  # an old one, or a new one
FLUSH = None  # there is none
OPEN = "zeEventHostSignal"
NEW_QUEUE = "zeCommandListCreateImmediate"
RELEASE_QUEUE = "zeCommandListDestroy"
GATE_MARKERS = 1  # that a gate makes for itself, to know when it may be used again
POLLS = True  # whether the driver says of a queue that it is done, without a marker
DONE = 0  # the status of an event that is done
FAILURE = 0x7FFFFFFE, "ZE_RESULT_ERROR_UNKNOWN"  # one that any call may have
EVENT_FAILURE = FAILURE[1]  # what it is called when asking for an event fails
OUT_OF_MEMORY = 0x70000003
OBJECTS = ("contexts", "lists", "events", "pools", "modules", "kernels", "memory", "logs")

cdef cbool watching = False
cdef cbool watched_to_record = False


def watch(emulate=False):
    """Follow objects and find violations from here on, without recording calls; once, before what is to be known.

    Parameters
    ----------
    emulate : bool
        Answer for hardware that executes nothing.
    """
    global watching
    cdef cbool emulating = emulate
    if watching:
        raise RuntimeError("the driver's calls are being watched already")
    library = loader.load().library
    calls.load(library)
    cdef uintptr_t properties_of = ctypes.cast(library.zeMemGetAllocProperties, ctypes.c_void_p).value
    install(ze, emulating, <GetAllocProperties> properties_of)
    watching = True


def unwatch():
    """Restore the driver's own functions."""
    global watching
    if watching:
        uninstall(ze)
        watching = False


def is_watching():
    """Whether violations are looked for."""
    return watching


cdef void begin():
    """Watches, too."""
    global watched_to_record
    if not watching:
        watch()
        watched_to_record = True
    set_recording(True)


cdef void end():
    global watched_to_record
    set_recording(False)
    if watched_to_record:
        unwatch()
        watched_to_record = False


def slow(name, uint64_t microseconds):
    """Let each call of this name take that much longer, so that others meet it."""
    slow_down(NAMES.index(name), microseconds)


def events_alive(device):
    """The serials of events in use: of signals since `start`, and of events not waiting to be used again."""
    cdef vector[void*] idle
    cdef DeviceState* known = <DeviceState*> <uintptr_t> device.driver.context_handle
    cdef size_t i
    cdef int kind
    known.lock.lock()
    for kind in range(EVENT_KINDS):
        for i in range(known.idle[kind].size()):
            idle.push_back(known.idle[kind][i].handle)
    known.lock.unlock()
    return sorted(event_serials(idle))


def alive():
    """How many objects of each kind were made while watched and not destroyed."""
    return dict(zip(OBJECTS, objects_alive()))


def handle_of(Queue queue not None):
    """What `read` knows the list of a queue by."""
    return number_of((<QueueState*> queue.state.handle).list)


def pointer(name):
    """The address in the table of calls, now: for tests that call a function wrongly on purpose."""
    cdef void** entries = <void**> &ze
    return <uintptr_t> entries[NAMES.index(name)]
