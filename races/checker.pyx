"""Checks that the program orders the commands that use the same memory, when they are submitted.

The order is that of the program alone: its waits, records, finishes, and queries that said yes. So a verdict does not
depend on how far the device was. What any thread has waited for precedes whatever any thread submits later, because
locks of Python cannot be seen.

Everything here runs with the GIL. The engine is never seen half changed, because no Python code runs while it changes.
"""

import logging
from typing import TYPE_CHECKING

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.weakref cimport PyWeakref_NewRef
from cython.operator cimport dereference
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.atomic cimport memory_order_relaxed
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.process cimport on_host_thread
from forebay.core.state cimport DeviceState, QueueState, check_queues
from forebay.core.uses cimport Uses, release_uses, retain_uses
from forebay.races.engine cimport (
    Announcement, Before, Conflict, Context, Engine, Memory, Moment, Past, Queue, Use, is_certain, may_miss
)

from forebay.core.errors import RaceError
from forebay.races import reports
from forebay.races.reports import Told

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

cdef extern from "Python.h":
    ctypedef struct PyFrameObject:
        pass
    ctypedef struct PyCodeObject:
        pass
    PyFrameObject* PyEval_GetFrame()
    PyFrameObject* PyFrame_GetBack(PyFrameObject* frame)  # a new reference, or NULL
    PyCodeObject* PyFrame_GetCode(PyFrameObject* frame)  # a new reference
    int PyFrame_GetLineNumber(PyFrameObject* frame)

cdef dict lines = {}  # by file, line and function: a number
known_lines = [("", 0, "")]


cdef inline bint is_own(object frame) except -1:
    """Return whether a frame is forebay's."""
    name = str(frame.f_globals.get("__name__", ""))
    return name == "forebay" or name.startswith("forebay.")


cdef uint32_t line_of_program() except? 0:
    """Return the number of the innermost line of this thread that is not forebay's own; 0 when there is none."""
    cdef PyFrameObject* current = PyEval_GetFrame()
    if current == NULL:
        return 0
    frame = <object> <PyObject*> current
    while is_own(frame):
        current = PyFrame_GetBack(<PyFrameObject*> <PyObject*> frame)
        if current == NULL:
            return 0
        frame = <object> <PyObject*> current
        Py_DECREF(frame)
    code = <object> <PyObject*> PyFrame_GetCode(<PyFrameObject*> <PyObject*> frame)
    Py_DECREF(code)
    # Not by the code object: those of two files are equal when the functions are, wherever they lie.
    key = (code.co_filename, PyFrame_GetLineNumber(<PyFrameObject*> <PyObject*> frame), code.co_name)
    number = lines.get(key)
    if number is None:
        number = lines[key] = len(known_lines)
        known_lines.append(key)
    return number


def place() -> str:
    """Return the innermost line of this thread that is not forebay's own, as ``file:line``."""
    return place_at(line_of_program())


cdef str place_at(uint32_t line):
    """Return ``file:line`` for a number that `line_of_program` gave."""
    return reports.place_of(known_lines[line])


log = logging.getLogger("forebay.races")

cdef Engine* engine = new Engine()  # never deleted: queues are asked about it to the end of the process


# -- what the engine knows memory and queues by


cdef cbool is_gone(void* memory) noexcept nogil:
    return (<Uses*> memory).references.load(memory_order_relaxed) == 1


cdef void retain(void* memory) noexcept nogil:
    retain_uses(<Uses*> memory)


cdef void release(void* memory) noexcept nogil:
    release_uses(<Uses*> memory)


cdef cbool is_queue_gone(void* thing) noexcept with gil:
    return (<object> thing)() is None


cdef void drop_thing(void* thing) noexcept with gil:
    Py_DECREF(<object> thing)


engine.is_gone = is_gone
engine.retain = retain
engine.release = release
engine.is_queue_gone = is_queue_gone
engine.drop_thing = drop_thing


cdef Queue* queue_of(object queue, QueueState* state) except NULL:
    """Return what the engine knows of a queue."""
    cdef uint64_t number = state.epochs.queue_id
    cdef unordered_map[uint64_t, Queue].iterator found = engine.queues.find(number)
    cdef Queue* made
    if found != engine.queues.end():
        return &dereference(found).second
    if engine.queues.size() > engine.sweep_queues:
        engine.forget_waited()
    thing = PyWeakref_NewRef(queue, None)
    Py_INCREF(thing)
    made = &engine.queues[number]
    made.id = number
    made.null = state.is_null
    made.blocking = state.blocking
    made.adopted = state.adopted
    made.context = state.device
    made.thing = <void*> thing
    return made


def queue_by_id(number: int) -> Any:
    """Return the Queue; None when it is gone."""
    cdef unordered_map[uint64_t, Queue].iterator found = engine.queues.find(number)
    return None if found == engine.queues.end() else (<object> dereference(found).second.thing)()


# -- what commands are


cdef unordered_map[uint64_t, uint32_t] whats  # by kernel's id and argument
cdef dict other_whats = {}
cdef list known_whats = [None]  # (kind, kernel, index, argument) by number


cdef uint32_t what_of(uint64_t kernel_id, uint32_t index, object kernel) except 0:
    cdef uint64_t key = kernel_id << 12 | index
    cdef unordered_map[uint64_t, uint32_t].iterator found = whats.find(key)
    if found != whats.end():
        return dereference(found).second
    parameter = kernel.parameters[index]
    known_whats.append(("launch", kernel.name, index, f"{parameter.type_name} {parameter.name}"))
    whats[key] = <uint32_t> len(known_whats) - 1
    return whats[key]


cdef uint32_t named(str kind, str argument) except 0:
    number = other_whats.get((kind, argument))
    if number is None:
        number = other_whats[kind, argument] = len(known_whats)
        known_whats.append((kind, "", -1, argument))
    return number


cdef uint32_t what_of_node(uint32_t what, str place) except 0:
    """Return the number for a command that is a node of a graph, which was made at `place`."""
    key = (*known_whats[what], place)
    number = other_whats.get(key)
    if number is None:
        number = other_whats[key] = len(known_whats)
        known_whats.append(key)
    return number


# -- uses


cdef Use use_of(Uses* uses, uint64_t start, uint64_t nbytes, uint8_t flags, uint32_t what) noexcept:
    cdef Use use
    use.memory = uses
    use.lo = start
    use.hi = start + nbytes
    use.flags = flags
    use.what = what
    return use


# -- commands


cdef object uses_watcher = None


def watch_uses(watcher: Callable[[Any, set[int]], None] | None) -> None:
    """Call `watcher` before each command of the queues that are watched (`queues.queue.watch`), or none any more.

    It is given the Queue, and the addresses of the `Uses` of the memory that the command uses.
    """
    global uses_watcher
    uses_watcher = watcher


cdef int command(object queue, QueueState* state, Announcement& uses) except -1:
    cdef size_t i
    if uses_watcher is not None and state.barred & BY_WATCH:
        uses_watcher(queue, {<uintptr_t> uses[i].memory for i in range(uses.size())})
    if is_checked(state):
        check_command(queue, state, uses)
    return 0


cdef int begin_announcement(object queue, QueueState* state, Announcement& uses) except -1:
    engine.save(dereference(queue_of(queue, state)), uses.before)
    return 0


cdef int check_command(object queue, QueueState* state, Announcement& uses) except -1:
    cdef uint32_t line = line_of_program()
    cdef vector[Conflict] found
    cdef Queue* own = queue_of(queue, state)
    cdef bint raises = engine.contexts[own.context].raising != 0
    begin_order(queue, state, &own, &uses.before)
    engine.find_conflicts(own, uses, found)
    if found.empty():
        engine.note(dereference(own), uses, line)
        return 0
    if not raises:
        engine.note(dereference(own), uses, line)
        tell(found, queue, line)
        return 0
    error = tell(found, queue, line)
    if error is not None:
        engine.withdraw(uses)
        raise RaceError(str(error), error)
    engine.note(dereference(queue_of(queue, state)), uses, line)
    return 0


cdef int begin_order(object queue, QueueState* state, Queue** own, Before* before=NULL) except -1:
    cdef const Moment* running = engine.running
    own[0] = queue_of(queue, state)
    if running != NULL and not on_host_thread():
        engine.running = NULL  # a host function runs meanwhile
    engine.begin(dereference(own[0]), before)
    engine.running = running
    return 0


cdef void withdraw(Announcement& uses) noexcept:
    engine.withdraw(uses)


cdef int on_host(DeviceState* device, vector[Use]& uses) except -1:
    """Judge what the host itself does with memory at once: it must have waited for what came before."""
    cdef vector[Conflict] found
    if not device.checked:
        return 0
    engine.find_conflicts(NULL, uses, found)
    if not found.empty():
        error = tell(found, None, line_of_program())
        if error is not None and engine.contexts[device].raising:
            raise RaceError(str(error), error)
    return 0


cdef object tell(vector[Conflict]& found, object queue, uint32_t line):
    """Tell each race once. Returns the first that is certain, told before or not; None when there is none."""
    cdef Conflict* each
    cdef size_t i
    told = []
    for i in range(found.size()):
        each = &found[i]
        told.append(
            Told(
                each.certain, each.told, each.foreign, known_lines[each.made], each.kept,
                (each.first.lo, each.first.hi), (each.second.lo, each.second.hi),
                known_whats[each.first.what], known_whats[each.second.what],
                each.first.flags, each.second.flags,
                known_lines[each.first.line], known_lines[line],
                queue_by_id(each.first.queue), each.first.queue, queue,
                known_lines[each.early.line] if each.early.queue else None,
                may_miss(each.first, each.second), <uintptr_t> engine.queues[each.first.queue].context))
    races = [reports.tell(each_told) for each_told in told]  # Python code runs, which may use any queue
    return next((race for race in races if race.certain), None)


cdef int tell_of_nodes(object queue, QueueState* state, const Use& first, const Use& second, tuple missing) except -1:
    """Tell the race of two nodes of a graph. `missing` is the line that orders them, and where it belongs."""
    cdef unordered_map[void*, Memory].iterator place = engine.memories.find(first.memory)
    cdef uint32_t line = line_of_program()
    cdef uint32_t by = 0
    cdef uint64_t nbytes = 0
    cdef bint certain = is_certain(first, second)
    if place != engine.memories.end():
        by, nbytes = dereference(place).second.made, dereference(place).second.nbytes
    race = reports.tell(
        Told(
            certain, False, False, known_lines[by], nbytes, (first.lo, first.hi), (second.lo, second.hi),
            known_whats[first.what], known_whats[second.what], first.flags, second.flags,
            known_lines[line], known_lines[line], None, 0, None, None, may_miss(first, second),
            <uintptr_t> state.device, missing))
    if certain and engine.contexts[state.device].raising:
        raise RaceError(str(race), race)
    return 0


cdef int made(Uses* uses, uint64_t nbytes) except -1:
    """Note the line that makes memory."""
    cdef uint32_t line = line_of_program()
    cdef Memory* memory = &engine.memory_of(uses)
    memory.made = line
    memory.nbytes = nbytes
    return 0


# -- order


cdef int note_point(object queue, QueueState* state, void** kept) except -1:
    cdef uint32_t line = line_of_program()
    cdef Queue* own = NULL
    cdef Moment* moment
    begin_order(queue, state, &own)
    moment = new Moment()
    moment[0] = engine.moment_of(dereference(own), line)
    drop_point(kept)
    kept[0] = moment
    return 0


cdef void drop_point(void** kept) noexcept:
    cdef Moment* moment = <Moment*> kept[0]
    kept[0] = NULL
    if moment != NULL:
        del moment


cdef int wait_for_point(object queue, QueueState* state, const void* kept) except -1:
    if kept != NULL:
        engine.wait(dereference(queue_of(queue, state)), (<const Moment*> kept)[0])
    return 0


cdef int come_after_queue(object queue, QueueState* state, object producer, QueueState* producer_state) except -1:
    cdef void* kept = NULL
    note_point(producer, producer_state, &kept)
    try:
        return wait_for_point(queue, state, kept)
    finally:
        drop_point(&kept)


cdef void reached(const void* kept) noexcept:
    if kept != NULL:
        engine.wait_on_host((<const Moment*> kept)[0])


cdef int come_after_unseen(object queue, QueueState* state) except -1:
    """A queue waits for a value in memory, which any other queue may write. What it does then is possible only."""
    cdef Queue* own = NULL
    begin_order(queue, state, &own)
    engine.come_after_all(dereference(own))
    return 0


cdef int other_command(object queue, QueueState* state) except -1:
    cdef Queue* own = NULL
    return begin_order(queue, state, &own)


cdef int finished(object queue, QueueState* state) except -1:
    engine.finish(dereference(queue_of(queue, state)))
    return 0


cdef int known_done(object queue, QueueState* state) except -1:
    engine.wait_on_host(engine.moment_of(dereference(queue_of(queue, state)), 0))
    return 0


cdef int finished_device(DeviceState* device) except -1:
    engine.finish_context(device)
    return 0


cdef Past past_of_uses(Uses* uses, bint writers_only) noexcept:
    return engine.past_of(uses, writers_only)


cdef void waited_for_past(const Past& past) noexcept:
    engine.wait_on_host(past)


cdef int come_after_past(object queue, QueueState* state, const Past& past) except -1:
    cdef Queue* own = queue_of(queue, state)
    engine.come_after(dereference(own), engine.joined(own.past, past))
    return 0


# -- host functions


cdef class CheckedFunction:
    """A host function, which comes after what its queue was given before it."""

    cdef object function
    cdef Moment moment

    def __call__(self) -> object:
        cdef const Moment* before = engine.running
        engine.running = &self.moment
        try:
            return self.function()
        finally:
            engine.running = before

    @property
    def __qualname__(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)


cdef object host_function(object queue, QueueState* state, object function, Announcement& announced):
    """Return what calls the function: what it submits comes after what its queue was given before.

    What it tells other threads nobody sees. So what precedes it is never raced with for certain.
    """
    cdef CheckedFunction made
    cdef Queue* own = NULL
    made = CheckedFunction.__new__(CheckedFunction)
    made.function = function
    begin_order(queue, state, &own, &announced.before)
    made.moment = engine.moment_of(dereference(own), 0)
    engine.told = engine.joined(engine.told, made.moment)
    engine.saved(dereference(own), announced.before)
    return made


# -- what is checked


cdef int begin_check(object device, DeviceState* state, bint raises) except -1:
    """Check all queues of the context from now on, for one Device more."""
    cdef Context* context
    cdef Queue* null = queue_of(device.null_queue, state.null_queue)
    if not state.checked:
        reports.forget(<uintptr_t> state)  # what another told, which had its address, or this one earlier
        engine.contexts.erase(state)
        check_queues(state, True)
    context = &engine.contexts[state]
    context.null = null
    context.checking += 1
    context.raising += raises
    return 0


cdef void end_check(DeviceState* state, bint raises) noexcept:
    """One Device less wants that. With the last one, checking ends."""
    cdef Context* context = &engine.contexts[state]
    context.raising -= raises
    context.checking -= 1
    if context.checking == 0:
        check_queues(state, False)
        engine.leave(state)


def statistics() -> dict[str, int]:
    """Return how much is remembered: pieces of memory, their uses, queues, and lines of the program; for tests."""
    cdef size_t uses = 0
    for each in engine.memories:
        uses += each.second.uses.size()
    return {
        "memories": engine.memories.size(), "uses": uses, "queues": engine.queues.size(), "lines": len(known_lines),
        "forgotten": engine.forgotten}
