"""Records forebay's driver calls, makes chosen ones fail, and finds mistakes that null hardware hides.

It follows each call: the objects and their scopes, the order of each list, and what the host knows to be done. From
these it finds `violations`. Hardware that executes nothing reports at once that everything is done. With `emulate` the
observer answers instead: commands behind a gate that the host has not opened are not done, and host functions are
called.

The record identifies a list by a number that is never used again. A serial identifies one signal of an event. If a call
that ends an object is made to fail, the object still ends.
"""

import ctypes

from forebay.queues.levelzero.calls cimport Calls, ze
from forebay.queues.levelzero.operations cimport EVENT_KINDS, ZeDevice as DeviceState, ZeQueue as QueueState
from forebay.queues.queue cimport Queue

from forebay.queues.levelzero import calls

include "recorder.pxi"

cdef extern from "tests/observers/levelzero.hpp" namespace "forebay_observer" nogil:
    ctypedef void* GetAllocProperties

    cdef cppclass State:
        cbool recording, emulating
        uint64_t room
        int blocked

    State& state()
    void set[T](T& member, T value)
    uint64_t UNLIMITED "UINT64_MAX"
    void install(Calls& table, GetAllocProperties properties_of, cbool reports_refused)
    void uninstall(Calls& table)
    vector[int64_t] event_serials(const vector[void*]& idle)
    vector[size_t] objects_alive()
    unsigned int number_of(void* list)

NAMES = calls.CALL_NAMES

KINDS = {
    "zeCommandListAppendSignalEvent": "marker",
    "zeCommandListImmediateAppendCommandListsExp": "command",
    "zeCommandListAppendWaitOnEvents": "barrier",
    "zeCommandListHostSynchronize": "finish",
    "zeEventHostSynchronize": "wait",
    "zeEventQueryStatus": "query",
    "zeEventCreate": "gate",  # for events that a command signals, no command waits for this serial
    "zeEventHostReset": "gate",
    "zeEventHostSignal": "open",
    "zeKernelSetArgumentValue": "argument",
    "zeMemAllocDevice": "allocate",
    "zeMemAllocHost": "allocate",
    "zeMemAllocShared": "allocate",
}
COMMANDS = ("zeCommandListAppend",)
NEVER_FAIL = ()
LAUNCH = "zeCommandListAppendLaunchKernel"
UPLOAD = DOWNLOAD = "zeCommandListAppendMemoryCopy"
FILL = "zeCommandListAppendMemoryFill"
MARKER = "zeCommandListAppendSignalEvent"
BARRIER = "zeCommandListAppendWaitOnEvents"
HOLD = "zeCommandListAppendWaitOnEvents"
HOST_FUNCTION = "zeCommandListAppendHostFunction"
ARGUMENT = "zeKernelSetArgumentValue"
REPLAY = "zeCommandListImmediateAppendCommandListsExp"
FINISH = "zeCommandListHostSynchronize"
WAIT = "zeEventHostSynchronize"
QUERY = "zeEventQueryStatus"
GATE = ("zeEventHostReset", "zeEventPoolCreate")  # for a used gate, or for a new one
OPEN = "zeEventHostSignal"
NEW_QUEUE = "zeCommandListCreateImmediate"
NEW_RECORDING = "zeCommandListCreate"
RELEASE_QUEUE = "zeCommandListDestroy"
GATE_MARKERS = 1  # to know when a gate may be used again
POLLS = True
FAILURE = 0x7FFFFFFE, "ZE_RESULT_ERROR_UNKNOWN"
OUT_OF_MEMORY = 0x70000003
OBJECTS = ("contexts", "lists", "events", "pools", "modules", "kernels", "memory", "logs")

cdef int watches = 0
cdef cbool watched_to_record = False


def watch(emulate=False, refused=False):
    """Follow objects and find violations from here on, without recording calls. Call it before they are made.

    Parameters
    ----------
    emulate : bool
        Answer for hardware that executes nothing.
    refused : bool
        Report each call that the driver, or a layer before it, refuses.
    """
    global watches
    cdef uintptr_t properties_of
    if watches == 0:
        calls.load()
        properties_of = ctypes.cast(ctypes.CDLL(calls.LIBRARY).zeMemGetAllocProperties, ctypes.c_void_p).value
        install(ze, <GetAllocProperties> properties_of, <cbool> refused)
    watches += 1
    set(state().emulating, <cbool> emulate)


def unwatch():
    """End what `watch` began. The last one restores the driver's own functions."""
    global watches
    if watches == 0:
        return
    watches -= 1
    set(state().emulating, <cbool> False)
    set(state().room, UNLIMITED)
    if watches == 0:
        uninstall(ze)


cdef void begin():
    """Watches, too."""
    global watched_to_record
    if watches == 0:
        watch()
        watched_to_record = True
    set(state().recording, <cbool> True)


cdef void end():
    global watched_to_record
    set(state().recording, <cbool> False)
    forgive()
    if watched_to_record:
        unwatch()
        watched_to_record = False


def limit(uint64_t commands):
    """Let this number of commands behind a closed gate fill a list, as on NVIDIA's driver: the next one blocks."""
    set(state().room, commands)


def blocked():
    """The number of threads that wait for room on a list."""
    return state().blocked


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
    """The number of objects of each kind that were made while watched and not destroyed."""
    return dict(zip(OBJECTS, objects_alive()))


def handle_of(Queue queue not None):
    """The number by which `read` identifies the list of a queue."""
    return number_of((<QueueState*> queue.state.handle).list)


def pointer(name):
    """The current address in the table of calls, for tests that call a function wrongly on purpose."""
    cdef void** entries = <void**> &ze
    return <uintptr_t> entries[NAMES.index(name)]


def replace(name, uintptr_t function):
    """Put the address of a function, or 0 as if the loader did not have it, into the table of calls."""
    cdef void** entries = <void**> &ze
    entries[<size_t> NAMES.index(name)] = <void*> function
