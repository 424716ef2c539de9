# What all observers offer to the tests. An observer defines `begin` and `end`, which install and remove its wrappers;
# the NAMES of the driver's functions; which of these are COMMANDS, are of other KINDS, or NEVER_FAIL; and the names
# below, by which tests know the call for each operation where there is only one.

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

cdef extern from "tests/observers/record.hpp" namespace "forebay_observer" nogil:
    cdef cppclass Seen "forebay_observer::Call":
        int function
        uintptr_t object
        uintptr_t kernel
        vector[int64_t] waits
        int64_t event
        int64_t detail
        int64_t status
        cbool injected
        uint64_t thread

    cdef cppclass Record:
        size_t size()
        vector[Seen] tail(size_t first)
        void fail(int function, int64_t code, uint64_t after)
        void fail_at_random(
            const vector[cbool]& functions, const vector[int64_t]& codes, uint64_t seed, uint64_t one_in)
        vector[Seen] take()
        void drop_waits(const vector[cbool]& functions, uint64_t one_in)
        uint64_t waits_dropped()
        void forgive()
        vector[string] take_violations()
        void pause(int function)
        void wait_until_paused()
        void go_on()
        void begin()
        vector[int64_t] alive()

    Record& record()

cdef cbool recording = False

REPLAY = None  # the replay of a graph; None: by a loop over its commands
NEW_RECORDING = None  # its detail is what `handle_of` is for a queue
FLUSH = None
GATE_MARKERS = 0  # markers that a gate makes for itself
POLLS = False  # whether the driver reports that a queue is done, without a marker
FINISH_IS_POLL = False  # there is no other finish
# LAUNCH, UPLOAD, DOWNLOAD, FILL (with elements of four bytes), MARKER, BARRIER, ARGUMENT, WAIT, QUERY, NEW_QUEUE,
# RELEASE_QUEUE, OPEN, and HOLD, by which a gate holds the queue; HOST_FUNCTION, and FINISH (perhaps for a marker);
# GATE, of which any one makes a gate; FAILURE, an error that any call may return; and the code OUT_OF_MEMORY.

RELEASING = ("Release", "Free", "Destroy", "Delete", "free")  # parts of the names of functions that do


def kind_of(name):
    """The kind of a call, in the words of KINDS; "command" for other commands and "other" for the rest."""
    return KINDS.get(name, "command" if name.startswith(COMMANDS) else "other")


def watch(emulate=False):
    """Follow all objects that the driver makes from here on, before `start`. Most observers need not."""


def unwatch():
    """End what `watch` began."""


def events_alive(device):
    """The serials of events made while observed to which forebay still holds references."""
    return sorted(record().alive())


def start():
    """Begin to record, with an empty log and no failures planned."""
    global recording
    if recording:
        raise RuntimeError("the driver's calls are being observed already")
    record().begin()
    begin()
    recording = True


def stop():
    """Stop recording. The log stays until the next start."""
    global recording
    if recording:
        end()
        recording = False


def count():
    """How many calls were recorded."""
    return record().size()


cdef list described(const vector[Seen]& found):
    cdef size_t i
    return [
        (NAMES[found[i].function], found[i].object, found[i].kernel, tuple(found[i].waits), found[i].event,
         found[i].detail, found[i].status, found[i].injected, found[i].thread)
        for i in range(found.size())
    ]


def read(size_t first):
    """The calls from the one with this index on, as tuples.

    (name, object, kernel, serials of the events waited for, serial of the event made or meant, detail, status,
    injected, thread)
    """
    cdef vector[Seen] found
    with nogil:
        found = record().tail(first)
    return described(found)


def fail(name, int64_t code, uint64_t after):
    """Make a later call of this name, after `after` others, return the code without reaching the driver."""
    if name not in NAMES or name in NEVER_FAIL:
        raise ValueError(f"no call is named {name!r}, or it has no way of failing")
    record().fail(NAMES.index(name), code, after)


def fail_at_random(uint64_t seed, uint64_t one_in):
    """Make calls fail at random places until `forgive`: one in so many of each function but those that release
    something or open a gate.
    """
    cdef vector[cbool] functions = [
        name not in NEVER_FAIL and name != OPEN and not any(word in name for word in RELEASING) for name in NAMES]
    cdef vector[int64_t] codes = [FAILURE[0], OUT_OF_MEMORY]
    record().fail_at_random(functions, codes, seed, one_in)


def take():
    """The calls that `read` would return from the first one on. They leave the record, and none is missed."""
    cdef vector[Seen] found
    with nogil:
        found = record().take()
    return described(found)


def drop_waits(uint64_t one_in, names=None):
    """Let one call in so many, of those of these functions (all) that have waits, reach the driver without them, until
    `forgive`: an order that the program asked for is lost. The record shows the waits that were asked for.

    In CUDA a wait is a call of its own (cuStreamWaitEvent), which does not reach the driver then, and nodes of a graph
    lose what they depend on.
    """
    cdef vector[cbool] functions = [names is None or name in names for name in NAMES]
    record().drop_waits(functions, one_in)


def waits_dropped():
    """How many calls have lost their waits."""
    return record().waits_dropped()


def forgive():
    """Cancel all failures planned by `fail` and `fail_at_random`, and give the driver all waits."""
    record().forgive()


def violations():
    """The violations since the last call of this function, as texts."""
    return [text.decode() for text in record().take_violations()]


def pause(name):
    """Let the next call of this name not return to its caller before `go_on`. SYCL's do not."""
    record().pause(NAMES.index(name))


def wait_until_paused():
    """Block until a call does not return."""
    with nogil:
        record().wait_until_paused()


def go_on():
    """Let the paused call return."""
    record().go_on()
