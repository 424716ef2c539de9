"""Checks that the program orders the commands that use the same memory, when they are submitted.

The order is that of the program alone: its waits, records, finishes, and queries that said yes. So a verdict does not
depend on how far the device was. What any thread has waited for precedes whatever any thread submits later, because
locks of Python cannot be seen.

Everything here runs with the GIL. The engine is never seen half changed, because no Python code runs while it changes.
"""

import logging
from typing import TYPE_CHECKING

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from cpython.weakref cimport PyWeakref_NewRef
from cython.operator cimport dereference
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.atomic cimport memory_order_relaxed
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from forebay.core.process cimport on_host_thread
from forebay.core.state cimport DeviceState, QueueState, bar, registered_queues, release_queue_state
from forebay.core.uses cimport Uses, release_uses, retain_uses

from forebay.core.errors import RaceError
from forebay.races import reports
from forebay.races.reports import Names, Side, Told

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
    from forebay.queues.graphs.graph import Node

cdef extern from "races/engine.hpp" namespace "races" nogil:
    cdef enum Overlap:
        APART

    Overlap overlap(const Use& one, const Use& other)
    cbool may_miss(const Use& first, const Use& second)
    cbool is_certain(const Use& first, const Use& second)

    cdef cppclass Moment:
        uint64_t queue
        uint32_t line

    cdef cppclass Conflict:
        Use first
        Use second
        cbool certain
        cbool told
        cbool foreign
        Moment early
        uint32_t made
        uint64_t kept

    cdef cppclass Memory:
        uint64_t nbytes
        uint32_t made
        vector[Use] uses

    cdef cppclass Queue:
        uint64_t id
        cbool null
        cbool blocking
        cbool adopted
        void* context
        Past past

    cdef cppclass Context:
        Queue* null
        size_t checking
        size_t raising

    cdef cppclass Engine:
        unordered_map[uint64_t, Queue] queues
        unordered_map[void*, Context] contexts
        unordered_map[void*, Memory] memories
        Past told
        const Moment* running
        cbool (*is_gone)(void* memory) noexcept
        void (*retain)(void* memory) noexcept
        void (*release)(void* memory) noexcept
        size_t sweep_queues
        uint64_t forgotten
        Past joined(const Past& past, const Past& other)
        Past joined(const Past& past, const Moment& moment)
        Moment moment_of(Queue& queue, uint32_t line)
        void come_after(Queue& queue, Past past)
        void come_after_all(Queue& queue)
        void save(const Queue& queue, Before& before)
        void saved(const Queue& queue, Before& before)
        void begin(Queue& queue, Before* before)
        void wait(Queue& queue, const Moment& moment)
        void wait_on_host(const Moment& moment)
        void wait_on_host(const Past& past)
        void finish(Queue& queue)
        void finish_context(void* context)
        void leave(void* context)
        void find_conflicts(Queue* queue, vector[Use]& uses, vector[Conflict]& found)
        void note(Queue& queue, vector[Use]& uses, uint32_t line)
        void withdraw(const Announcement& uses)
        Memory& memory_of(void* key)
        Past past_of(void* key, cbool writers_only)
        void forget_queues(const unordered_set[uint64_t]& alive)

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
cdef list known_lines = [("", 0, "")]  # (file, line, function) by number


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
    return number_of(key, lines, known_lines)


cdef uint32_t number_of(tuple key, dict numbers, list known) except? 0:
    """Return the place of a key in a list of known ones, to which it is added if it is new."""
    number = numbers.get(key)
    if number is None:
        number = numbers[key] = len(known)
        known.append(key)
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


engine.is_gone = is_gone
engine.retain = retain
engine.release = release

cdef dict queues_by_id = {}  # weak references to the Queues that the engine knows


cdef Queue* queue_of(object queue, QueueState* state) except NULL:
    """Return what the engine knows of a queue."""
    cdef uint64_t number = state.epochs.queue_id
    cdef unordered_map[uint64_t, Queue].iterator found = engine.queues.find(number)
    cdef Queue* made
    cdef unordered_set[uint64_t] alive
    if found != engine.queues.end():
        return &dereference(found).second
    if engine.queues.size() > engine.sweep_queues:
        for known in list(queues_by_id):  # of numbers: what it allocates runs no garbage collector on the way
            reference = queues_by_id.get(known)
            if reference is None or reference() is None:
                queues_by_id.pop(known, None)
            else:
                alive.insert(known)
        engine.forget_queues(alive)
    queues_by_id[number] = PyWeakref_NewRef(queue, None)
    made = &engine.queues[number]
    made.id = number
    made.null = state.is_null
    made.blocking = state.blocking
    made.adopted = state.adopted
    made.context = state.device
    return made


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
    argument = f"{parameter.type_name} {parameter.name}"
    whats[key] = number_of(("launch", kernel.name, index, argument), other_whats, known_whats)
    return whats[key]


cdef uint32_t named(str kind, str argument) except 0:
    return number_of((kind, "", -1, argument), other_whats, known_whats)


cdef uint32_t what_of_node(uint32_t what, str place) except 0:
    """Return the number for a command that is a node of a graph, which was made at `place`."""
    return number_of((*known_whats[what], place), other_whats, known_whats)


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
    cdef Queue* own = begin_order(queue, state, &uses.before)
    cdef bint raises = engine.contexts[own.context].raising != 0
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


cdef Queue* begin_order(object queue, QueueState* state, Before* before=NULL) except NULL:
    """Order a queue for its next command, and return what the engine knows of it."""
    cdef Queue* own = queue_of(queue, state)
    cdef const Moment* running = engine.running
    if running != NULL and not on_host_thread():
        engine.running = NULL  # a host function runs meanwhile
    engine.begin(dereference(own), before)
    engine.running = running
    return own


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
        first = queues_by_id.get(each.first.queue)
        told.append(Told(
            side_of(each.first, each.first.line, first if first is None else first(), each.first.queue),
            side_of(each.second, line, queue, 0), each.certain, may_miss(each.first, each.second),
            known_lines[each.made], each.kept, <uintptr_t> engine.queues[each.first.queue].context, each.told,
            each.foreign, known_lines[each.early.line] if each.early.queue else None))
    races = [reports.tell(each_told) for each_told in told]  # Python code runs, which may use any queue
    return next((race for race in races if race.certain), None)


cdef object side_of(const Use& use, uint32_t line, object queue, uint64_t queue_id):
    return Side(known_whats[use.what], use.flags, use.lo, use.hi, known_lines[line], queue, queue_id)


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
    cdef Queue* own = begin_order(queue, state)
    cdef Moment* moment = new Moment()
    moment[0] = engine.moment_of(dereference(own), line)
    drop_point(kept)
    kept[0] = moment
    return 0


cdef void drop_point(void** kept) noexcept:
    cdef Moment* moment = <Moment*> kept[0]
    kept[0] = NULL
    if moment != NULL:
        del moment


cdef int come_after_point(object queue, QueueState* state, const void* kept) except -1:
    cdef Moment moment
    if kept != NULL:
        moment = (<const Moment*> kept)[0]  # another thread's record may replace it
        engine.wait(dereference(queue_of(queue, state)), moment)
    return 0


cdef int come_after_queue(object queue, QueueState* state, object producer, QueueState* producer_state) except -1:
    cdef uint32_t line = line_of_program()
    cdef Moment moment = engine.moment_of(dereference(begin_order(producer, producer_state)), line)
    engine.wait(dereference(queue_of(queue, state)), moment)
    return 0


cdef void reached(const void* kept) noexcept:
    if kept != NULL:
        engine.wait_on_host((<const Moment*> kept)[0])


cdef int come_after_unseen(object queue, QueueState* state) except -1:
    """A queue waits for a value in memory, which any other queue may write. What it does then is possible only."""
    engine.come_after_all(dereference(begin_order(queue, state)))
    return 0


cdef int other_command(object queue, QueueState* state) except -1:
    begin_order(queue, state)
    return 0


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
    cdef CheckedFunction made = CheckedFunction.__new__(CheckedFunction)
    cdef Queue* own = begin_order(queue, state, &announced.before)
    made.function = function
    made.moment = engine.moment_of(dereference(own), 0)
    engine.told = engine.joined(engine.told, made.moment)
    engine.saved(dereference(own), announced.before)
    return made


# -- graphs


cdef enum:
    MOST_USES = 1000  # of one piece of memory in one graph, which are compared with each other


cdef list ancestors_of(list dependencies):
    """Return the nodes that each comes after, as bits. None when they are one chain."""
    before = []
    chain = True
    for i, earlier in enumerate(dependencies):
        mask = 0
        for other in earlier:
            mask |= before[other] | 1 << other
        before.append(mask)
        chain = chain and mask == (1 << i) - 1
    return None if chain else before


cdef int check_nodes(
    object queue, QueueState* state, vector[Use]& uses, vector[size_t]& owners, tuple nodes, list dependencies
) except -1:
    cdef size_t i, j
    before = ancestors_of(dependencies)
    if before is None:
        return 0
    by_memory: dict[int, list[int]] = {}
    for i in range(uses.size()):
        by_memory.setdefault(<uint64_t> uses[i].memory, []).append(i)
    for together in by_memory.values():
        for at, first in enumerate(together[:MOST_USES]):
            i = first
            for second in together[at + 1:MOST_USES]:
                j = second
                if (
                    owners[i] != owners[j] and (uses[i].flags | uses[j].flags) & WRITES
                    and not before[owners[j]] >> owners[i] & 1 and not before[owners[i]] >> owners[j] & 1
                    and overlap(uses[i], uses[j]) != APART
                ):
                    tell_of_nodes(
                        queue, state, uses[i], uses[j], missing_edge(nodes[owners[i]], nodes[owners[j]]))
    return 0


def missing_edge(first: Node, second: Node) -> tuple[str, str]:
    """Return the line of Python that orders two nodes, and where it belongs."""
    earlier, later = first._captured_on(), second._captured_on()
    if earlier is not None and later is not None:
        names = Names(earlier, later)
        line = names.wait(names.of(later, f"queue_{later.id}"), names.of(earlier, f"queue_{earlier.id}"))
        return line, f"in the capture, before {second._place}"
    names = Names(first.graph, first, second)
    return (
        f"{names.of(first.graph, 'graph')}.add_dependency({names.of(first, 'first')}, {names.of(second, 'second')})",
        "before the graph is launched")


cdef int tell_of_nodes(object queue, QueueState* state, const Use& first, const Use& second, tuple missing) except -1:
    """Tell the race of two nodes of a graph. `missing` is the line that orders them, and where it belongs."""
    cdef unordered_map[void*, Memory].iterator place = engine.memories.find(first.memory)
    cdef uint32_t line = line_of_program()
    cdef uint32_t by = 0
    cdef uint64_t nbytes = 0
    cdef bint certain = is_certain(first, second)
    if place != engine.memories.end():
        by, nbytes = dereference(place).second.made, dereference(place).second.nbytes
    race = reports.tell(Told(
        side_of(first, line, None, 0), side_of(second, line, None, 0), certain, may_miss(first, second),
        known_lines[by], nbytes, <uintptr_t> state.device, missing=missing))
    if certain and engine.contexts[state.device].raising:
        raise RaceError(str(race), race)
    return 0


# -- what is checked


cdef void check_queues(DeviceState* device, bint checked) noexcept nogil:
    """Check the queues of a device that there are, and all that are made later."""
    cdef vector[QueueState*] queues
    device.checked = checked
    registered_queues(device, queues)
    for queue in queues:
        bar(queue, BY_CHECK, checked)
        release_queue_state(queue)


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
