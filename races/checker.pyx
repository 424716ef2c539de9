"""Checks that the program orders the commands that use the same memory, when they are submitted.

The order is that of the program alone: its waits, records, finishes, and queries that said yes. So a verdict does not
depend on how far the device was. Nothing here asks a driver or forebay's own clocks, which forget what is done.
"""

import sys
from itertools import combinations
from types import SimpleNamespace
from typing import TYPE_CHECKING

from libc.stdint cimport uint32_t, uint64_t, uint8_t, uintptr_t
from libcpp cimport bool as cpp_bool
from libcpp.vector cimport vector

from forebay.core.ownership cimport Ref, Refs
from forebay.core.process cimport on_host_thread
from forebay.core.state cimport AnyQueue, DeviceState, QueueState, registered_queues, set_slow_path
from forebay.core.usage cimport Usage, release_usage
from forebay.core.vector_clock cimport Clock

from forebay.core.errors import RaceError
from forebay.races import reports

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
    from forebay.queues.graphs.graph import Node

cdef extern from "races/state.hpp" namespace "forebay::races" nogil:
    cdef enum Overlap:
        APART

    cdef struct Side:
        uint64_t queue
        uint32_t what, line
        uint8_t flags

    cdef struct Conflict:
        Side first, second
        uint64_t context, begin, end, nbytes
        uint32_t made, early
        cpp_bool chosen, host_between, foreign, certain

    Overlap overlap(const Use& one, const Use& other)

    cdef cppclass Memory:
        uint64_t nbytes
        uint32_t made
        Ref[Clock] creation

    cdef cppclass State:
        Order* find(uint64_t id)
        Order* add_queue(uint64_t id, Order* null, bint blocking, bint adopted)
        Memory& memory_of(Counted* usage)
        void begin(Command& command, Order* queue, bint on_host_thread)
        vector[Conflict] judge(Command& command, uint32_t line)
        vector[Conflict] announce(Command& command, uint32_t line)
        Conflict between(const Use& first, const Use& second)
        Ref[Clock] tell(Command& command)
        void begin_function(const Ref[Clock]& past)
        void end_function()
        void settle(Command& command, bint submitted)
        Ref[RecordedPoint] record(Order* queue, bint on_host_thread, uint32_t line)
        Ref[Clock] past_of_uses(Counted* usage, bint writers_only)
        void wait_for_unseen(Order* queue)
        void reach_all(Order* null, bint blocking_only)
        void forget_order(Order* null)
        bint is_crowded()
        vector[Counted*] sweep(const vector[uint64_t]& gone)
        size_t memory_count()
        size_t queue_count()
        size_t use_count()

cdef enum:
    MOST_USES_IN_GRAPH = 1000  # of one piece of memory, which are compared with each other

cdef State state
cdef dict queues = {}  # weak references, by id
cdef tuple NOWHERE = ("", 0, "")
cdef dict numbers = {NOWHERE: 0}
cdef list known = [NOWHERE]  # by number: lines of the program, and what uses are called


cdef class Announcement:
    """A command, and what it uses. Dropped before it is settled, it was refused, and leaves nothing."""

    def __dealloc__(self):
        state.settle(self.command, False)

    cdef Use* add(self, Usage* usage, uint64_t start, uint64_t nbytes, uint8_t flags, tuple what) except NULL:
        cdef Use* use
        self.command.uses.emplace_back()
        use = &self.command.uses.back()
        use.memory = <Counted*> usage
        use.begin, use.end = start, start + nbytes
        use.flags = flags
        use.what = number_of(what if self.place is None else (*what, self.place))
        return use

    cdef int add_end(self, Usage* usage, uint64_t start, uint64_t nbytes, bint writes, str kind) except -1:
        argument = "" if kind in ("alloc", "free") else "to" if writes else "from"
        if nbytes:
            self.add(usage, start, nbytes, WRITES if writes else 0, (kind, "", argument))
        return 0


cdef uint32_t number_of(tuple thing) except? 0:
    number = numbers.setdefault(thing, len(known))
    if number == len(known):
        known.append(thing)
    return number


cdef tuple line_of_program():
    """Return file, line and function of this thread's innermost code that is not forebay's own."""
    try:
        frame = sys._getframe()
    except ValueError:  # no Python code runs
        return NOWHERE
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "forebay":
        frame = frame.f_back
    return NOWHERE if frame is None else (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def place_in_program(number: int | None = None) -> str:
    """Return ``file:line`` for a number that `made` gave, or the innermost line that is not forebay's own."""
    return reports.place_of(line_of_program() if number is None else known[number])


cdef Order* order_of(AnyQueue queue) except NULL:
    """Return what is known of a queue."""
    cdef QueueState* own = queue.state
    cdef Order* order = state.find(own.epochs.queue_id)
    cdef Order* null = NULL
    if order == NULL:
        if state.is_crowded():
            sweep()
        if not own.is_null:
            null = order_of(queue.device.null_queue)
        queues[own.epochs.queue_id] = queue.reference
        order = state.add_queue(own.epochs.queue_id, null, own.blocking, own.adopted)
    return order


cdef inline Order* null_order(DeviceState* device) noexcept:
    return state.find(device.null_queue.epochs.queue_id)


cdef int sweep() except -1:
    gone = [number for number, reference in queues.items() if reference() is None]
    cdef vector[Counted*] unused = state.sweep(gone)
    for usage in unused:
        release_usage(<Usage*> usage)
    for number in gone:
        if state.find(number) == NULL:
            queues.pop(number, None)
    return 0


# -- commands


cdef object uses_watcher = None


def watch_uses(watcher: Callable[[Any, set[int]], None] | None) -> None:
    """Call `watcher` before each command of the queues that are watched (`queues.queue.watch`), or none any more.

    It is given the Queue, and the addresses of the `Usage` of the memory that the command uses.
    """
    global uses_watcher
    uses_watcher = watcher


cdef Announcement begin_command(AnyQueue queue):
    cdef Announcement announced = Announcement.__new__(Announcement)
    state.begin(announced.command, order_of(queue), on_host_thread())
    return announced


cdef Announcement announce(AnyQueue queue, Announcement announced):
    cdef vector[Conflict] found
    cdef Order* order
    if uses_watcher is not None and queue.state.slow_path & BY_WATCH:
        uses_watcher(queue, {<uintptr_t> use.memory for use in announced.command.uses})
    if is_checked(queue.state):
        line = number_of(line_of_program())  # a hook for audits may run
        if state.is_crowded():
            sweep()
        order = order_of(queue)
        if announced.command.queue == NULL:
            state.begin(announced.command, order, on_host_thread())
        found = state.announce(announced.command, line)
        if not found.empty():
            report(queue.state.device, found, queue)
    return announced


cdef Announcement announce_use(
    AnyQueue queue, Usage* usage, uint64_t start, uint64_t nbytes, bint writes, str kind
):
    cdef Announcement announced = Announcement.__new__(Announcement)
    announced.add_end(usage, start, nbytes, writes, kind)
    return announce(queue, announced)


cdef int settle(Announcement announced) except -1:
    if announced is not None:
        state.settle(announced.command, True)
    return 0


cdef int on_host(DeviceState* device, Announcement announced) except -1:
    """Judge what the host itself does with memory at once: it must have waited for what came before."""
    if device.checked:
        report(device, state.judge(announced.command, number_of(line_of_program())))
    return 0


cdef int report(DeviceState* device, const vector[Conflict]& found, object queue=None, list missing=None) except -1:
    """Report each race once. Raises RaceError for the first certain one, reported before or not, if a Device wants that."""
    cdef Order* null = null_order(device)
    cdef bint raises = null != NULL and null.raising != 0
    conflicts = []
    for i in range(found.size()):
        conflict = SimpleNamespace(**found[i], second_queue=queue, missing=None if missing is None else missing[i])
        first = queues.get(conflict.first["queue"])
        conflict.first_queue = None if first is None else first()
        conflict.made, conflict.early = known[conflict.made], known[conflict.early]
        for side in (conflict.first, conflict.second):
            side["line"], side["what"] = known[side["line"]], known[side["what"]]
        conflicts.append(conflict)
    races = [reports.tell(conflict) for conflict in conflicts]  # Python code runs, which may use any queue
    for race in races:
        if race.certain and raises:
            raise RaceError(str(race), race)
    return 0


cdef uint32_t made(DeviceState* device, Usage* usage, uint64_t nbytes) except? 0:
    """Note the line that makes memory, if the device is checked, and return its number."""
    cdef uint32_t line = number_of(line_of_program())
    cdef Memory* memory
    if device.checked:
        memory = &state.memory_of(<Counted*> usage)
        memory.made, memory.nbytes = line, nbytes
    return line


cdef int note_created(AnyQueue queue, Usage* usage) except -1:
    """Note that the queue has created memory: each command that uses it comes after all that the queue had by then."""
    state.memory_of(<Counted*> usage).creation = order_of(queue).moment()
    return 0


# -- order of the program


cdef Ref[RecordedPoint] record_point(AnyQueue queue) except *:
    if not is_checked(queue.state):
        return Ref[RecordedPoint]()
    line = number_of(line_of_program())
    return state.record(order_of(queue), on_host_thread(), line)


cdef int wait_for_unseen(AnyQueue queue) except -1:
    state.wait_for_unseen(order_of(queue))
    return 0


cdef Ref[Clock] past_of_uses(Usage* usage, bint writers_only) noexcept:
    return state.past_of_uses(<Counted*> usage, writers_only)


cdef int finished(QueueState* queue, bint alone=False) except -1:
    """The host has waited for a queue. The null queue speaks for the blocking queues too, unless it is asked alone."""
    cdef Order* order = state.find(queue.epochs.queue_id)
    if order != NULL:
        if queue.is_null and not alone:
            state.reach_all(order, True)
        reach(order.moment().get())
    return 0


cdef int finished_device(DeviceState* device) except -1:
    if null_order(device) != NULL:
        state.reach_all(null_order(device), False)
    return sweep()


# -- host functions


cdef class CheckedFunction:
    """A host function, which comes after what its queue was given before it."""

    cdef object function
    cdef Ref[Clock] past

    def __call__(self) -> object:
        state.begin_function(self.past)
        try:
            return self.function()
        finally:
            state.end_function()

    @property
    def __qualname__(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)


cdef object host_function(object function, Announcement announced):
    """Return what calls the function: what it submits comes after what its queue was given before.

    What it tells other threads cannot be seen. So what precedes it is never raced with for certain.
    """
    cdef CheckedFunction checked = CheckedFunction.__new__(CheckedFunction)
    checked.past = state.tell(announced.command)
    checked.function = function
    return checked


# -- graphs


cdef int check_nodes(DeviceState* device, list announced, tuple nodes, list dependencies) except -1:
    cdef vector[Conflict] found
    cdef Announcement each
    cdef Use* first
    cdef Use* second
    cdef size_t at
    line = number_of(line_of_program())
    before = []  # the nodes that each comes after, as bits
    for earlier in dependencies:
        mask = 0
        for other in earlier:
            mask |= before[other] | 1 << other
        before.append(mask)
    if all([mask == (1 << place) - 1 for place, mask in enumerate(before)]):  # they are one chain
        return 0
    by_memory: dict[int, list[tuple[int, int]]] = {}
    for place, each in enumerate(announced):
        for at in range(each.command.uses.size()):
            each.command.uses[at].line = line
            by_memory.setdefault(<uintptr_t> each.command.uses[at].memory, []).append((place, at))
    missing = []
    for together in by_memory.values():
        for (i, at_first), (j, at_second) in combinations(together[:MOST_USES_IN_GRAPH], 2):  # in the order of the nodes
            first = &(<Announcement> announced[i]).command.uses[<size_t> at_first]
            second = &(<Announcement> announced[j]).command.uses[<size_t> at_second]
            if (
                i != j and (first.flags | second.flags) & WRITES and not before[j] >> i & 1
                and overlap(first[0], second[0]) != APART
            ):
                found.push_back(state.between(first[0], second[0]))
                found.back().context = device.null_queue.epochs.queue_id
                missing.append(reports.missing_edge(nodes[i], nodes[j]))
    return report(device, found, None, missing)


# -- what is checked


cdef void check_queues(DeviceState* device, bint checked) noexcept nogil:
    """Check all queues of a device, those made later included."""
    cdef Refs[QueueState] registered
    device.checked = checked
    registered_queues(device, registered)
    for queue in registered:
        set_slow_path(queue, BY_CHECK, checked)


cdef int begin_check(AnyQueue null_queue, bint raises) except -1:
    """Check all queues of the context from now on, for one Device more."""
    cdef Order* null = order_of(null_queue)
    if null.checking == 0:
        reports.forget(null_queue.state.epochs.queue_id)
        check_queues(null_queue.state.device, True)
    null.checking += 1
    null.raising += raises
    return 0


cdef int end_check(DeviceState* device, bint raises) except -1:
    """One Device less wants that. With the last one, checking ends, and all counts as ordered: others are not seen."""
    cdef Order* null = null_order(device)
    null.raising -= raises
    null.checking -= 1
    if null.checking == 0:
        check_queues(device, False)
        state.forget_order(null)
        sweep()
    return 0


def statistics() -> dict[str, int]:
    """Return how much is remembered: pieces of memory, their uses, and queues; for tests."""
    return {"memories": state.memory_count(), "uses": state.use_count(), "queues": state.queue_count()}
