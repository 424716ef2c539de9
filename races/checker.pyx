"""Checks that the program orders the commands that use the same memory, when they are submitted.

The order is that of the program alone: its waits, records, finishes, and queries that said yes. So a verdict does not
depend on how far the device was. What any thread has waited for precedes whatever any thread submits later, because
locks of Python cannot be seen.

Everything here runs with the GIL. The engine is never seen half changed, because no Python code runs while it changes.
"""

from itertools import combinations
from typing import TYPE_CHECKING

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
from forebay.races.reports import Names, Side, Told, frames_of_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
    from forebay.queues.graphs.graph import Node

cdef extern from "races/engine.hpp" namespace "races" nogil:
    cdef enum Overlap:
        APART

    Overlap overlap(const Use& one, const Use& other)
    cbool may_miss(const Use& first, const Use& second)

    cdef cppclass Moment:
        pass

    cdef cppclass Conflict:
        Use first
        Use second
        cbool certain
        uint32_t made
        uint64_t nbytes
        cbool told
        cbool foreign
        uint32_t early
        void* context

    cdef cppclass Memory:
        vector[Use] uses

    cdef cppclass Queue:
        pass

    cdef cppclass Context:
        size_t raising

    cdef cppclass Engine:
        unordered_map[uint64_t, Queue] queues
        unordered_map[void*, Context] contexts
        unordered_map[void*, Memory] memories
        const Moment* running
        cbool (*is_gone)(void* memory) noexcept
        void (*retain)(void* memory) noexcept
        void (*release)(void* memory) noexcept
        size_t sweep_queues
        Moment moment_of(Queue& queue, uint32_t line)
        void come_after(Queue& queue, const Past& past)
        void come_after_all(Queue& queue)
        void save(const Queue& queue, Announcement& before)
        void begin(Queue& queue, const Moment* running, Announcement* before, cbool function)
        void wait(Queue& queue, const Moment& moment)
        void wait_on_host(const Moment& moment)
        void wait_on_host(const Past& past)
        void finish(Queue& queue)
        void finish_context(void* context)
        void enter(Queue& null, cbool raises)
        cbool leave(void* context, cbool raises)
        Conflict conflict_of(const Use& first, const Use& second)
        void find_conflicts(Queue* queue, vector[Use]& uses, vector[Conflict]& found)
        void note(Queue& queue, Announcement& uses, uint32_t line)
        void withdraw(const Announcement& uses)
        void made(void* key, uint32_t line, uint64_t nbytes)
        Past past_of(void* key, cbool writers_only)
        Queue& add(uint64_t id, void* context, cbool null, cbool blocking, cbool adopted)
        void forget_queues(const unordered_set[uint64_t]& alive)

cdef dict lines = {}  # by file, line and function: a number
cdef list known_lines = [("", 0, "")]  # (file, line, function) by number


cdef uint32_t line_of_program() except? 0:
    """Return the number of the innermost line of this thread that is not forebay's own; 0 when there is none."""
    for frame in frames_of_program():
        # Not by the code object: those of two files are equal when the functions are, wherever they lie.
        return number_of((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name), lines, known_lines)
    return 0


cdef uint32_t number_of(tuple key, dict numbers, list known) except? 0:
    """Return the place of a key in a list of known ones, to which it is added if it is new."""
    number = numbers.get(key)
    if number is None:
        number = numbers[key] = len(known)
        known.append(key)
    return number


def place_in_program(line: int | None = None) -> str:
    """Return ``file:line`` for a number that `made` gave, or the innermost line that is not forebay's own."""
    return reports.place_of(known_lines[line_of_program() if line is None else line])


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
    return &engine.add(number, state.device, state.is_null, state.blocking, state.adopted)


# -- what commands are


cdef dict whats_of_kernels = {}  # by kernel's id and argument
cdef dict whats = {}
cdef list known_whats = [None]  # (kind, kernel, argument) or (kind, kernel, argument, place) by number


cdef uint32_t what_of(uint64_t kernel_id, uint32_t index, object kernel) except 0:
    cdef uint64_t key = kernel_id << 12 | index
    what = whats_of_kernels.get(key)
    if what is None:
        parameter = kernel.parameters[index]
        what = whats_of_kernels[key] = named("launch", f"{parameter.type_name} {parameter.name}", kernel.name)
    return what


cdef uint32_t named(str kind, str argument, str kernel="") except 0:
    return number_of((kind, kernel, argument), whats, known_whats)


cdef uint32_t what_of_node(uint32_t what, str place) except 0:
    """Return the number for a command that is a node of a graph, which was made at `place`."""
    return number_of((*known_whats[what], place), whats, known_whats)


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
    engine.save(dereference(queue_of(queue, state)), uses)
    uses.withdraw = withdraw
    return 0


cdef void withdraw(const Announcement& uses) noexcept nogil:
    engine.withdraw(uses)


cdef int check_command(object queue, QueueState* state, Announcement& uses) except -1:
    cdef uint32_t line = line_of_program()
    cdef vector[Conflict] found
    cdef Queue* own = begin_order(queue, state, &uses)
    engine.find_conflicts(own, uses, found)
    engine.note(dereference(own), uses, line)
    return report(state.device, found, queue, line)


cdef Queue* begin_order(object queue, QueueState* state, Announcement* uses=NULL, bint function=False) except NULL:
    """Order a queue for its next command, and return what the engine knows of it."""
    cdef Queue* own = queue_of(queue, state)
    cdef const Moment* running = engine.running
    if running != NULL and not on_host_thread():
        running = NULL  # a host function runs meanwhile
    engine.begin(dereference(own), running, uses, function)
    if uses != NULL:
        uses.withdraw = withdraw
    return own


cdef int on_host(DeviceState* device, vector[Use]& uses) except -1:
    """Judge what the host itself does with memory at once: it must have waited for what came before."""
    cdef vector[Conflict] found
    if not device.checked:
        return 0
    engine.find_conflicts(NULL, uses, found)
    return report(device, found, None, 0 if found.empty() else line_of_program())


cdef int report(DeviceState* device, vector[Conflict]& found, object queue, uint32_t line, list missing=None) except -1:
    """Tell each race once. Raises RaceError for the first that is certain, told before or not, if a Device wants that.

    `missing` has, for each pair of nodes of a graph, the line that orders them, and where it belongs.
    """
    cdef Conflict* each
    cdef size_t i
    cdef bint raises = engine.contexts[device].raising != 0
    told = []
    for i in range(found.size()):
        each = &found[i]
        first = queues_by_id.get(each.first.queue)
        told.append(Told(
            side_of(each.first, each.first.line, first if first is None else first()),
            side_of(each.second, line, queue), each.certain, may_miss(each.first, each.second), known_lines[each.made],
            each.nbytes, <uintptr_t> each.context, each.told, each.foreign,
            known_lines[each.early] if each.early else None, None if missing is None else missing[i]))
    races = [reports.tell(each_told) for each_told in told]  # Python code runs, which may use any queue
    for race in races:
        if race.certain and raises:
            raise RaceError(str(race), race)
    return 0


cdef object side_of(const Use& use, uint32_t line, object queue):
    return Side(known_whats[use.what], use.flags, use.lo, use.hi, known_lines[line], queue, use.queue)


cdef uint32_t made(DeviceState* device, Uses* uses, uint64_t nbytes) except? 0:
    """Note the line that makes memory, if the device is checked, and return it."""
    cdef uint32_t line = line_of_program()
    if device.checked:
        engine.made(uses, line, nbytes)
    return line


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
    engine.come_after(dereference(queue_of(queue, state)), past)
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
    made.moment = engine.moment_of(dereference(begin_order(queue, state, &announced, True)), 0)
    made.function = function
    return made


# -- graphs


cdef enum:
    MOST_USES = 1000  # of one piece of memory in one graph, which are compared with each other


cdef int check_nodes(
    DeviceState* device, vector[Use]& uses, vector[size_t]& owners, tuple nodes, list dependencies
) except -1:
    cdef vector[Conflict] found
    cdef uint32_t line = line_of_program()
    cdef size_t i, j
    before = []  # the nodes that each comes after, as bits
    for earlier in dependencies:
        mask = 0
        for other in earlier:
            mask |= before[other] | 1 << other
        before.append(mask)
    if all([mask == (1 << at) - 1 for at, mask in enumerate(before)]):  # they are one chain
        return 0
    by_memory: dict[int, list[int]] = {}
    for i in range(uses.size()):
        uses[i].line = line
        by_memory.setdefault(<uint64_t> uses[i].memory, []).append(i)
    missing = []
    for together in by_memory.values():
        for first, second in combinations(together[:MOST_USES], 2):  # in the order of the nodes
            i, j = first, second
            if (
                owners[i] != owners[j] and (uses[i].flags | uses[j].flags) & WRITES
                and not before[owners[j]] >> owners[i] & 1 and overlap(uses[i], uses[j]) != APART
            ):
                found.push_back(engine.conflict_of(uses[i], uses[j]))
                found.back().context = device
                missing.append(missing_edge(nodes[owners[i]], nodes[owners[j]]))
    return report(device, found, None, line, missing)


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
    cdef Queue* null = queue_of(device.null_queue, state.null_queue)
    if not state.checked:
        reports.forget(<uintptr_t> state)  # what another told, which had its address, or this one earlier
        check_queues(state, True)
    engine.enter(dereference(null), raises)
    return 0


cdef void end_check(DeviceState* state, bint raises) noexcept:
    """One Device less wants that. With the last one, checking ends."""
    if engine.leave(state, raises):
        check_queues(state, False)


def statistics() -> dict[str, int]:
    """Return how much is remembered: pieces of memory, their uses, and queues; for tests."""
    uses = sum([each.second.uses.size() for each in engine.memories])
    return {"memories": engine.memories.size(), "uses": uses, "queues": engine.queues.size()}
