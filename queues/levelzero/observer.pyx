"""Records forebay's driver calls, makes chosen ones fail, and finds mistakes that null hardware hides; for tests.

While it is on, the pointers in the table of calls lead to wrappers. While it is off nothing of it is on any path.

It follows each call: which objects there are and with which scopes, what each list was ordered after, and what the host
was told is done. Out of that come its `violations`. Hardware that executes nothing says at once that all is done; with
`emulate` it is answered for: what is behind a gate that the host has not opened is not done, and host functions are
called.
"""

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from forebay.queues.levelzero.calls cimport Calls, ze
from forebay.queues.levelzero.handles cimport (
    EVENT_KINDS, ZeDevice as DeviceState, ZeQueue as QueueState
)
from forebay.queues.queue cimport Queue

from forebay.queues.levelzero import calls, loader

cdef extern from *:
    """
    #include "queues/levelzero/observed_calls.hpp"
    """
    cdef cppclass Seen "forebay_ze_observer::Call":
        int function
        uintptr_t object
        uintptr_t kernel
        vector[int64_t] waits
        int64_t event
        int64_t detail
        int64_t status
        cbool injected

    void install "forebay_ze_observer::install"(Calls& table, cbool emulating) nogil
    void uninstall "forebay_ze_observer::uninstall"(Calls& table) nogil
    void record "forebay_ze_observer::record"(cbool on) nogil
    size_t log_size "forebay_ze_observer::size"() nogil
    vector[Seen] log_tail "forebay_ze_observer::tail"(size_t start) nogil
    void add_failure "forebay_ze_observer::fail"(int function, unsigned int code, uint64_t after) nogil
    void drop_failures "forebay_ze_observer::forgive"() nogil
    void slow_down "forebay_ze_observer::slow_down"(int function, uint64_t microseconds) nogil
    vector[string] take_violations "forebay_ze_observer::take_violations"() nogil
    vector[int64_t] event_serials "forebay_ze_observer::serials"(const vector[void*]& idle) nogil
    vector[size_t] objects_alive "forebay_ze_observer::alive"() nogil
    unsigned int number_of_list "forebay_ze_observer::number_of"(void* list) nogil


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
cdef cbool recording = False


def kind_of(name):
    """What a call does, in the words of KINDS; "command" for other commands and "other" for the rest."""
    return KINDS.get(name, "command" if name.startswith("zeCommandListAppend") else "other")


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
    calls.load(loader.load().library)
    install(ze, emulating)
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


cdef cbool watched_to_record = False


def start():
    """Begin to record, with an empty log and no failures planned; watches too."""
    global recording, watched_to_record
    if recording:
        raise RuntimeError("the driver's calls are being observed already")
    if not watching:
        watch()
        watched_to_record = True
    record(True)
    recording = True


def stop():
    """End what `start` began; the log stays until the next start."""
    global recording, watched_to_record
    if not recording:
        return
    record(False)
    recording = False
    if watched_to_record:
        unwatch()
        watched_to_record = False


def count():
    """How many calls were recorded."""
    return log_size()


def read(size_t first):
    """The calls from the one with this index on, as tuples.

    (name, object, kernel, serials of the events waited for, serial of the event made or meant, detail, status,
    injected). A list is known by a number that is not used again, and a serial is that of one signal of an event.
    """
    cdef vector[Seen] found
    cdef size_t i
    with nogil:
        found = log_tail(first)
    return [
        (NAMES[found[i].function], found[i].object, found[i].kernel, tuple(found[i].waits), found[i].event,
         found[i].detail, found[i].status, found[i].injected)
        for i in range(found.size())
    ]


def fail(name, unsigned int code, uint64_t after):
    """Let a later call of this name, after so many others of it, return the code without reaching the driver.

    What ends an object ends it all the same.
    """
    if name not in NAMES:
        raise ValueError(f"no call is named {name!r}")
    add_failure(NAMES.index(name), code, after)


def forgive():
    """No call fails any more that `fail` said it should."""
    drop_failures()


def slow(name, uint64_t microseconds):
    """Let each call of this name take that much longer, so that others meet it."""
    slow_down(NAMES.index(name), microseconds)


def violations():
    """What was done wrong since this was last asked, as texts."""
    return [text.decode() for text in take_violations()]


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
    return number_of_list((<QueueState*> queue.state.handle).list)


def pointer(name):
    """The address in the table of calls, now: for tests that call a function wrongly on purpose."""
    cdef void** entries = <void**> &ze
    return <uintptr_t> entries[NAMES.index(name)]
