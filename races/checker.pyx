"""Checks that the program orders the commands that use the same memory, when they are submitted.

The order is that of the program alone: its waits, records, finishes, and queries that said yes. So a verdict does not
depend on how far the device was. What any thread has waited for precedes whatever any thread submits later, because
locks of Python cannot be seen. Nothing here asks a driver or the runtime's own clocks, which forget what happens to be
done.

Everything here runs with the GIL. Where an allocation may collect garbage, and so run code that submits commands, all
that was changed before is whole.
"""

import sys
from itertools import combinations
from typing import TYPE_CHECKING

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.atomic cimport memory_order_relaxed

from forebay.core.process cimport on_host_thread
from forebay.core.ownership cimport Refs
from forebay.core.state cimport DeviceState, QueueState, set_slow_path, registered_queues
from forebay.core.usage cimport Usage, release_usage, retain_usage

from forebay.core.errors import RaceError
from forebay.races import reports
from forebay.races.reports import Names

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
    from forebay.queues.graphs.graph import Node

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()

cdef enum:
    MOST_USES = 128  # of one piece of memory; what is older is forgotten
    MOST_USES_IN_GRAPH = 1000  # of one piece of memory, which are compared with each other
    FIRST_SWEEP = 1024

cdef enum Overlap:
    APART
    MAYBE
    SHARED


@cython.no_gc
@cython.freelist(64)
cdef class Use:
    """What a command does with a piece of memory."""


@cython.no_gc
@cython.freelist(8)
cdef class Announcement:
    """The uses of a command, noted before it is submitted, and the order of its queue before."""

    def __dealloc__(self):
        if self.open:
            withdraw(self)


@cython.no_gc
cdef class Conflict:
    """Two uses of memory that nothing orders, of which one writes."""

    cdef readonly Use first, second
    cdef readonly uint64_t begin, end  # the bytes that both use
    cdef readonly bint certain
    cdef readonly bint chosen  # a kernel may have chosen a part by its arguments that the other use does not touch
    cdef readonly tuple made  # the line that made the memory
    cdef readonly uint64_t nbytes  # the size of the memory
    cdef readonly uintptr_t context
    cdef readonly bint host_between  # a host function comes between, which may have told the program
    cdef readonly bint foreign  # the first one's queue is another package's, which may have waited for it
    cdef readonly tuple early  # the line of the newest point of the first one's queue that the second comes after
    cdef readonly object first_queue, second_queue  # None: it is gone; the host, or a graph
    cdef readonly tuple missing  # for two nodes of a graph: the line that orders them, and where it belongs


@cython.no_gc
cdef class QueuePast:
    """What precedes the next command of a queue."""

    cdef object reference  # a weak reference to the Queue
    cdef uint64_t id, epoch
    cdef uintptr_t context
    cdef bint null, blocking, adopted
    cdef bint observed  # somebody comes after its last epoch, and not after what follows
    cdef bint listed
    cdef bint vague  # what it comes after cannot all be seen
    cdef uint64_t null_seen, commands
    # Up to which epoch of each queue, by id, something comes after it. Never changed, so that many share it.
    cdef dict past
    cdef dict points  # the newest of each queue that it waited for, by id: (epoch, line)


@cython.no_gc
cdef class CheckedContext:
    """Which queues of a context the null queue's next command comes after, and what its Devices want."""

    cdef QueuePast null
    cdef list listed  # blocking queues with commands since the last of the null queue
    cdef size_t checking, raising  # Devices that asked for it, and those of them that want an error

    def __cinit__(self) -> None:
        self.listed = []


@cython.no_gc
cdef class UsedMemory:
    """What is known of a piece of memory, and its uses that no thread has waited for."""

    cdef uintptr_t address  # of its `Usage`, retained
    cdef uint64_t nbytes
    cdef tuple made
    cdef list uses  # the oldest first
    cdef dict forgotten  # the past of uses that were forgotten because there are too many
    cdef dict creation  # what each use of it comes after; None for nothing

    def __dealloc__(self):
        release_usage(<Usage*> self.address)


cdef dict queues = {}  # by id
cdef dict contexts = {}  # by address of the DeviceState
cdef dict memories = {}  # by address of the Usage
cdef dict waited = {}  # by queue's id: the epoch that some thread has waited for
cdef dict told = None  # everything that host functions come after
cdef dict running = None  # what the host function that runs now comes after
cdef Py_ssize_t sweep_memories = FIRST_SWEEP
cdef Py_ssize_t sweep_queues = FIRST_SWEEP


# -- lines of the program


cdef tuple NOWHERE = ("", 0, "")
cdef dict numbers = {NOWHERE: 0}
cdef list known_lines = [NOWHERE]  # by number, which Allocation keeps


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
    return reports.place_of(line_of_program() if number is None else known_lines[number])


# -- uses


cdef Use use_of(Usage* uses, uint64_t start, uint64_t nbytes, uint8_t flags, tuple what):
    cdef Use use = Use.__new__(Use)
    use.memory = <uintptr_t> uses
    use.lo = start
    use.hi = start + nbytes
    use.flags = flags
    use.what = what
    return use


cdef Use end_use(Usage* uses, uint64_t start, uint64_t nbytes, bint writes, str kind):
    return use_of(uses, start, nbytes, WRITES if writes else 0, (kind, "", "to" if writes else "from"))


cdef Overlap overlap(Use one, Use other) noexcept:
    cdef uint64_t row, apart
    if one.hi <= other.lo or other.hi <= one.lo:
        return APART
    if not one.pitch and not other.pitch:
        return SHARED
    if not other.pitch:
        return overlap(other, one)
    if not one.pitch:
        row = other.lo
        if one.lo >= other.lo + other.width:
            row += ((one.lo - other.lo - other.width) // other.pitch + 1) * other.pitch
        return SHARED if row < one.hi and row < other.hi else APART
    if one.pitch != other.pitch:
        return MAYBE
    if one.lo > other.lo:
        one, other = other, one
    apart = (other.lo - one.lo) % one.pitch
    return SHARED if apart < one.width or apart + other.width > one.pitch else APART


cdef bint may_miss(Use first, Use second) noexcept:
    """Return whether a kernel may have chosen a part by its arguments that the other use does not touch."""
    if first.choice and second.choice:
        return first.choice != second.choice
    if not first.choice and not second.choice:
        return False
    if second.choice:
        first, second = second, first
    return second.pitch != 0 or first.lo < second.lo or second.hi < first.hi


cdef int strength(Use use) noexcept:
    if use.flags & DOUBTFUL:
        return use.flags & WRITES
    if not use.flags & WRITES:
        return 2
    return 3 if use.flags & NOT_CONST else 4


cdef bint stands_for(Use later, Use earlier) noexcept:
    """Return whether what races with an earlier use of a queue races with this later one, too."""
    return (
        later.queue == earlier.queue and later.lo <= earlier.lo and earlier.hi <= later.hi
        and (not later.pitch
             or (later.pitch == earlier.pitch and later.width == earlier.width and later.lo == earlier.lo))
        and (not later.choice or later.choice == earlier.choice)
        and (later.flags & WRITES) >= (earlier.flags & WRITES)
        and not later.flags & ~earlier.flags & (ATOMIC | GIVEN) and strength(later) >= strength(earlier))


cdef bint continues(Use later, Use earlier):
    """Return whether uses of one epoch lie side by side: nothing comes after the one and not after the other."""
    return (
        later.queue == earlier.queue and later.epoch == earlier.epoch and later.flags == earlier.flags
        and later.choice == earlier.choice and not later.pitch and not earlier.pitch
        and later.lo <= earlier.hi and earlier.lo <= later.hi
        and later.line == earlier.line and later.what == earlier.what)


# -- order


cdef inline uint64_t epoch_in(dict past, uint64_t queue):
    return 0 if past is None else past.get(queue, 0)


cdef inline uint64_t waited_for(uint64_t queue):
    return waited.get(queue, 0)


cdef dict joined(dict past, dict other):
    """Return what precedes something that comes after both. Everything comes after what was waited for."""
    if other is None or other is past:
        return past
    for queue, epoch in other.items():
        if epoch > epoch_in(past, queue) and epoch > waited_for(queue):
            break
    else:
        return past
    made = {} if past is None else {queue: epoch for queue, epoch in past.items() if epoch > waited_for(queue)}
    for queue, epoch in other.items():
        if epoch > made.get(queue, 0) and epoch > waited_for(queue):
            made[queue] = epoch
    return made


cdef dict moment_of(QueuePast queue):
    """Return what precedes something that comes after all of a queue's commands."""
    cdef int collects = PyGC_Disable()  # the past and the epoch are of one moment
    try:
        queue.observed = True
        return joined(queue.past, {queue.id: queue.epoch})
    finally:
        if collects:
            PyGC_Enable()


cdef int come_after(QueuePast queue, dict other) except -1:
    # What comes after an epoch comes after all of its past, so a queue with more of a past has a new epoch.
    cdef int collects = PyGC_Disable()
    try:
        past = joined(queue.past, other)
        if past is not queue.past:
            queue.past = past
            begin_epoch(queue)
    finally:
        if collects:
            PyGC_Enable()
    return 0


cdef void begin_epoch(QueuePast queue) noexcept:
    queue.epoch += queue.observed
    queue.observed = False


cdef QueuePast order_of(object queue, QueueState* state):
    """Return what is known of a queue."""
    global sweep_queues
    cdef QueuePast order = queues.get(state.epochs.queue_id)
    cdef QueuePast other
    if order is not None:
        return order
    if len(queues) > sweep_queues:  # forget those that are gone and that some thread has waited for
        forget_waited()
        for other in list(queues.values()):
            if other.reference() is None and not (other.null or other.listed or other.epoch > waited_for(other.id)):
                queues.pop(other.id, None)
                waited.pop(other.id, None)
        sweep_queues = max(<Py_ssize_t> FIRST_SWEEP, 2 * len(queues))
    order = QueuePast.__new__(QueuePast)
    order.reference = PyWeakref_NewRef(queue, None)
    order.id = state.epochs.queue_id
    order.epoch = 1
    order.context = <uintptr_t> state.device
    order.null, order.blocking, order.adopted = state.is_null, state.blocking, state.adopted
    order.points = {}
    return queues.setdefault(order.id, order)


cdef CheckedContext context_of(uintptr_t address):
    context = contexts.get(address)
    return contexts.setdefault(address, CheckedContext()) if context is None else context


cdef int enlist(QueuePast queue) except -1:
    if queue.blocking and not queue.null and not queue.listed:
        queue.listed = True
        context_of(queue.context).listed.append(queue)
    return 0


cdef QueuePast begin(object queue, QueueState* state, Announcement announced=None, bint function=False):
    """Order a queue for its next command, a record too, by the rules of the null queue, and return what is known of it.

    What a host `function` comes after may be told by it.
    """
    global told
    cdef QueuePast own = order_of(queue, state)
    cdef CheckedContext context = context_of(own.context)
    cdef QueuePast null = context.null
    cdef uint64_t commands
    if announced is not None:
        save(own, announced)
    if running is not None and on_host_thread():
        come_after(own, running)
    if own.null:
        come_after_listed(own, context, announced)
        own.commands += 1
    elif own.blocking:
        if null is not None and null.commands != own.null_seen:
            commands = null.commands
            come_after(own, moment_of(null))
            own.null_seen = commands
        enlist(own)
    if function:
        told = joined(told, moment_of(own))
    if announced is not None:
        announced.past_after, announced.told_after, announced.commands_after = own.past, told, own.commands
    return own


cdef int come_after_listed(QueuePast null, CheckedContext context, Announcement announced) except -1:
    """Order the null queue after the blocking queues with new commands; no other command comes in between."""
    cdef QueuePast other
    cdef int collects = PyGC_Disable()
    try:
        listed, context.listed = context.listed, []
        for other in listed:
            other.listed = False
            come_after(null, moment_of(other))
        if announced is not None:
            announced.unlisted.extend(listed)
    finally:
        if collects:
            PyGC_Enable()
    return 0


cdef int save(QueuePast queue, Announcement announced) except -1:
    if not announced.queue:
        announced.open = True
        announced.unlisted = []
        announced.past, announced.told, announced.null_seen = queue.past, told, queue.null_seen
        announced.queue = queue.id
    return 0


cdef int withdraw(Announcement announced) except -1:
    """Take back what was announced. The order is left as it is if the queue has received another command since."""
    global told
    cdef QueuePast own = queues.get(announced.queue)
    cdef UsedMemory memory
    cdef Use use, each
    announced.open = False
    if own is not None and own.past is announced.past_after and own.commands == announced.commands_after:
        own.past, own.null_seen = announced.past, announced.null_seen
        if told is announced.told_after:
            told = announced.told
        for other in announced.unlisted:
            enlist(other)
    if announced.command:
        for use in announced.uses:
            memory = memories.get(use.memory)
            if memory is not None:
                memory.uses = [each for each in memory.uses if each.command != announced.command]
        for use in announced.replaced:
            memory = memories.get(use.memory)
            if memory is not None:
                memory.uses.append(use)
    return 0


cdef int wait(QueuePast queue, tuple moment) except -1:
    """Let a queue come after a moment: (what precedes it, its queue's id, epoch, line).

    A wait orders what it names, and no more. Where that is done already it is no command (HIP's and forebay's are
    dropped then), so the rules of the null queue hold for the queue's next command. What comes after the null queue's
    work comes after its waits as well.
    """
    past, producer, epoch, line = moment
    if producer != queue.id:
        come_after(queue, past)
        if len(queue.points) >= MOST_USES:
            queue.points.clear()
        if epoch > queue.points.get(producer, (0, None))[0]:
            queue.points[producer] = epoch, line
    queue.commands += queue.null
    return enlist(queue)


# -- memory


cdef UsedMemory memory_of(uintptr_t address):
    cdef UsedMemory memory = memories.get(address)
    if memory is None:
        memory = UsedMemory.__new__(UsedMemory)
        memory.address = <uintptr_t> retain_usage(<Usage*> address)
        memory.made = NOWHERE
        memory.uses = []
        memory = memories.setdefault(address, memory)
    return memory


cdef Conflict conflict_of(Use first, Use second):
    cdef UsedMemory memory = memories.get(first.memory)
    cdef Conflict conflict = Conflict.__new__(Conflict)
    conflict.first, conflict.second = first, second
    conflict.begin, conflict.end = max(first.lo, second.lo), min(first.hi, second.hi)
    conflict.chosen = may_miss(first, second)
    conflict.certain = not (
        conflict.chosen or first.flags & second.flags & ATOMIC or (first.flags | second.flags) & DOUBTFUL
        or overlap(first, second) != SHARED)
    conflict.made, conflict.nbytes = (NOWHERE, 0) if memory is None else (memory.made, memory.nbytes)
    return conflict


cdef list find_conflicts(QueuePast own, list uses, tuple line):
    """Return the conflicts with earlier commands; `own` is None for what the host itself does, at once."""
    cdef UsedMemory memory
    cdef Use first, use
    cdef Conflict conflict
    cdef QueuePast earlier
    cdef list found = []
    for use in uses:
        use.line = line
        if own is not None:
            use.queue = own.id
            use.flags |= DOUBTFUL if own.vague else 0
        memory = memories.get(use.memory)
        if memory is None:
            continue
        for first in memory.uses:
            if (
                (own is not None and first.queue == own.id)
                or not (first.flags | use.flags) & WRITES
                or first.flags & use.flags & GIVEN  # what they were given is judged by itself
                or first.epoch <= waited_for(first.queue) or overlap(first, use) == APART
                or (own is not None and first.epoch <= epoch_in(own.past, first.queue))
            ):
                continue
            earlier = queues.get(first.queue)
            if earlier is None:  # forgotten, as all that it did was waited for
                continue
            conflict = conflict_of(first, use)
            conflict.context = earlier.context
            conflict.foreign = earlier.adopted
            conflict.host_between = first.epoch <= epoch_in(told, first.queue)
            conflict.certain = conflict.certain and not conflict.foreign and not conflict.host_between
            if own is not None and first.queue in own.points:
                conflict.early = own.points[first.queue][1]
            found.append(conflict)
    return found


cdef uint64_t last_command = 0


cdef int note(QueuePast queue, Announcement announced) except -1:
    global last_command
    cdef UsedMemory memory
    cdef Use use
    begin_epoch(queue)
    last_command += 1
    announced.replaced = []
    announced.command = last_command
    for use in announced.uses:
        use.epoch = queue.epoch
        use.command = announced.command
        use.past = queue.past
        memory = memory_of(use.memory)
        replace(memory.uses, use, announced.replaced)
        memory.nbytes = max(memory.nbytes, use.hi)
        if len(memory.uses) >= MOST_USES:
            forget_oldest(memory)
        memory.uses.append(use)
    return forget_waited() if len(memories) > sweep_memories else 0


cdef int replace(list there, Use by, list replaced) except -1:
    """Take those out that a use stands for. It grows where it continues one."""
    cdef Py_ssize_t kept = 0
    cdef Use use
    for use in there:
        if use.epoch <= waited_for(use.queue):
            continue
        if continues(by, use):
            by.lo, by.hi = min(by.lo, use.lo), max(by.hi, use.hi)
        elif not stands_for(by, use):
            there[kept] = use
            kept += 1
            continue
        if use.command != by.command:
            replaced.append(use)
    del there[kept:]
    return 0


cdef int forget_oldest(UsedMemory memory) except -1:
    oldest = memory.uses[:MOST_USES // 4]
    del memory.uses[:MOST_USES // 4]
    for use in oldest:
        memory.forgotten = joined(memory.forgotten, past_with(use))
    return 0


cdef dict past_with(Use use):
    return joined(use.past, {use.queue: use.epoch})


cdef int forget_waited() except -1:
    """Forget uses that some thread has waited for, and memory that nothing else has."""
    global sweep_memories
    cdef UsedMemory memory
    cdef Use use
    for memory in list(memories.values()):
        if memory.uses:
            memory.uses = [use for use in memory.uses if use.epoch > waited_for(use.queue)]
        if (<Usage*> memory.address).references.load(memory_order_relaxed) == 1:
            memories.pop(memory.address, None)
    sweep_memories = max(<Py_ssize_t> FIRST_SWEEP, 2 * len(memories))
    return 0


cdef uint32_t made(DeviceState* device, Usage* uses, uint64_t nbytes) except? 0:
    """Note the line that makes memory, if the device is checked, and return its number."""
    line = line_of_program()
    cdef UsedMemory memory
    if device.checked:
        memory = memory_of(<uintptr_t> uses)
        memory.made = line
        memory.nbytes = nbytes
    number = numbers.setdefault(line, len(known_lines))
    if number == len(known_lines):
        known_lines.append(line)
    return number


cdef int note_created(object queue, QueueState* state, Usage* uses) except -1:
    """Note that the queue has created memory: each command that uses it comes after all that the queue had by then."""
    memory_of(<uintptr_t> uses).creation = moment_of(order_of(queue, state))
    return 0


# -- commands


cdef object uses_watcher = None


def watch_uses(watcher: Callable[[Any, set[int]], None] | None) -> None:
    """Call `watcher` before each command of the queues that are watched (`queues.queue.watch`), or none any more.

    It is given the Queue, and the addresses of the `Usage` of the memory that the command uses.
    """
    global uses_watcher
    uses_watcher = watcher


cdef Announcement announce(object queue, QueueState* state, list uses, Announcement announced=None):
    cdef Use use
    cdef QueuePast own
    cdef UsedMemory memory
    cdef int collects
    if announced is None:
        announced = Announcement.__new__(Announcement)
    announced.uses = uses
    if uses_watcher is not None and state.slow_path & BY_WATCH:
        uses_watcher(queue, {use.memory for use in uses})
    if is_checked(state):
        line = line_of_program()  # a hook for audits may run
        collects = PyGC_Disable()  # no other command comes between what is found and what is noted
        try:
            own = begin(queue, state, announced)
            for use in uses:
                memory = memories.get(use.memory)
                if memory is not None and memory.creation is not None:
                    come_after(own, memory.creation)
            found = find_conflicts(own, uses, line)
            if not refuses(state.device, found):
                note(own, announced)
        finally:
            if collects:
                PyGC_Enable()
        report(state.device, found, queue)
    return announced


cdef Announcement begin_announcement(object queue, QueueState* state):
    cdef Announcement announced = Announcement.__new__(Announcement)
    save(order_of(queue, state), announced)
    return announced


cdef int on_host(DeviceState* device, list uses) except -1:
    """Judge what the host itself does with memory at once: it must have waited for what came before."""
    if device.checked:
        report(device, find_conflicts(None, uses, line_of_program()), None)
    return 0


cdef bint refuses(DeviceState* device, list found) except -1:
    """Return whether `report` raises: then the command is not submitted."""
    cdef Conflict each
    if not found or not context_of(<uintptr_t> device).raising:
        return False
    for each in found:
        if each.certain:
            return True
    return False


cdef int report(DeviceState* device, list found, object queue) except -1:
    """Tell each race once. Raises RaceError for the first certain one, told before or not, if a Device wants that."""
    cdef Conflict each
    cdef QueuePast first
    cdef bint raises = refuses(device, found)
    for each in found:
        first = queues.get(each.first.queue)
        each.first_queue, each.second_queue = None if first is None else first.reference(), queue
    races = [reports.tell(each) for each in found]  # Python code runs, which may use any queue
    for race in races:
        if race.certain and raises:
            raise RaceError(str(race), race)
    return 0


# -- order of the program


cdef int note_point(object queue, QueueState* state, void** kept) except -1:
    cdef QueuePast own = begin(queue, state)
    moment = moment_of(own), own.id, own.epoch, line_of_program()
    drop_point(kept)
    Py_INCREF(moment)
    kept[0] = <void*> moment
    return 0


cdef void drop_point(void** kept) noexcept:
    cdef void* moment = kept[0]
    kept[0] = NULL
    if moment != NULL:
        Py_DECREF(<object> moment)


cdef int come_after_point(object queue, QueueState* state, const void* kept) except -1:
    if kept != NULL:
        moment = <object> kept  # another thread's record may replace it
        wait(order_of(queue, state), moment)
    return 0


cdef int come_after_queue(object queue, QueueState* state, object producer, QueueState* producer_state) except -1:
    cdef QueuePast before = begin(producer, producer_state)
    return wait(order_of(queue, state), (moment_of(before), before.id, before.epoch, line_of_program()))


cdef int reached(const void* kept) except -1:
    return 0 if kept == NULL else waited_for_past((<tuple> <object> kept)[0])


cdef int come_after_unseen(object queue, QueueState* state) except -1:
    """A queue waits for a value in memory, which any other queue may write. What it does then is possible only."""
    cdef QueuePast own = begin(queue, state), other
    for other in list(queues.values()):
        if other.context == own.context and other is not own:
            come_after(own, moment_of(other))
    own.vague = True
    return 0


cdef int other_command(object queue, QueueState* state) except -1:
    begin(queue, state)
    return 0


cdef int finished(object queue, QueueState* state) except -1:
    if state.is_null:  # which speaks for the blocking queues too
        finished_device(state.device, True)
    return known_done(queue, state)


cdef int known_done(object queue, QueueState* state) except -1:
    return waited_for_past(moment_of(order_of(queue, state)))


cdef int finished_device(DeviceState* device, bint blocking_only=False) except -1:
    cdef QueuePast queue
    for queue in list(queues.values()):
        if queue.context == <uintptr_t> device and (queue.blocking or not blocking_only):
            waited_for_past(moment_of(queue))
    return 0 if blocking_only else forget_waited()


cdef dict past_of_uses(Usage* uses, bint writers_only):
    cdef UsedMemory memory = memories.get(<uintptr_t> uses)
    cdef QueuePast order
    cdef Use use
    if memory is None:
        return None
    past = memory.forgotten
    for use in list(memory.uses):
        if not writers_only or use.flags & WRITES:
            past = joined(past, past_with(use))
    for queue, epoch in (past or {}).items():
        order = queues.get(queue)
        if order is not None and order.epoch == epoch:
            order.observed = True
    return past


cdef int waited_for_past(dict past) except -1:
    for queue, epoch in (past or {}).items():
        if epoch > waited_for(queue):
            waited[queue] = epoch
    return 0


cdef int come_after_past(object queue, QueueState* state, dict past) except -1:
    return come_after(order_of(queue, state), past)


# -- host functions


cdef class CheckedFunction:
    """A host function, which comes after what its queue was given before it."""

    cdef object function
    cdef dict past

    def __call__(self) -> object:
        global running
        before = running
        running = self.past
        try:
            return self.function()
        finally:
            running = before

    @property
    def __qualname__(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)


cdef object host_function(object queue, QueueState* state, object function, Announcement announced):
    """Return what calls the function: what it submits comes after what its queue was given before.

    What it tells other threads nobody sees. So what precedes it is never raced with for certain.
    """
    cdef CheckedFunction made = CheckedFunction.__new__(CheckedFunction)
    made.past = moment_of(begin(queue, state, announced, True))
    made.function = function
    return made


# -- graphs


cdef int check_nodes(DeviceState* device, list uses_of_nodes, tuple nodes, list dependencies) except -1:
    cdef Conflict conflict
    cdef Use first, second
    line = line_of_program()
    before = []  # the nodes that each comes after, as bits
    for earlier in dependencies:
        mask = 0
        for other in earlier:
            mask |= before[other] | 1 << other
        before.append(mask)
    if all([mask == (1 << at) - 1 for at, mask in enumerate(before)]):  # they are one chain
        return 0
    by_memory: dict[int, list[tuple[int, Use]]] = {}
    for at, uses in enumerate(uses_of_nodes):
        for first in uses:
            first.line = line
            by_memory.setdefault(first.memory, []).append((at, first))
    found = []
    for together in by_memory.values():
        for (i, first), (j, second) in combinations(together[:MOST_USES_IN_GRAPH], 2):  # in the order of the nodes
            if (
                i != j and (first.flags | second.flags) & WRITES and not before[j] >> i & 1
                and overlap(first, second) != APART
            ):
                conflict = conflict_of(first, second)
                conflict.context = <uintptr_t> device
                conflict.missing = missing_edge(nodes[i], nodes[j])
                found.append(conflict)
    return report(device, found, None)


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
    """Check all queues of a device, those made later included."""
    cdef Refs[QueueState] queues
    device.checked = checked
    registered_queues(device, queues)
    for queue in queues:
        set_slow_path(queue, BY_CHECK, checked)


cdef int begin_check(object device, DeviceState* state, bint raises) except -1:
    """Check all queues of the context from now on, for one Device more."""
    cdef QueuePast null = order_of(device.null_queue, state.null_queue)
    cdef CheckedContext context
    if not state.checked:
        reports.forget(<uintptr_t> state)  # what another told, which had its address, or this one earlier
        contexts.pop(<uintptr_t> state, None)
        check_queues(state, True)
    context = context_of(<uintptr_t> state)
    context.null = null
    context.checking += 1
    context.raising += raises
    return 0


cdef int end_check(DeviceState* state, bint raises) except -1:
    """One Device less wants that. With the last one, checking ends, and all counts as ordered: others are not seen."""
    cdef CheckedContext context = context_of(<uintptr_t> state)
    cdef QueuePast queue
    context.raising -= raises
    context.checking -= 1
    if context.checking:
        return 0
    check_queues(state, False)
    for queue in list(queues.values()):
        if queue.context == <uintptr_t> state:
            queue.listed = queue.vague = False
    contexts.pop(<uintptr_t> state, None)
    return finished_device(state)


def statistics() -> dict[str, int]:
    """Return how much is remembered: pieces of memory, their uses, and queues; for tests."""
    cdef UsedMemory memory
    uses = sum([len(memory.uses) for memory in memories.values()])
    return {"memories": len(memories), "uses": uses, "queues": len(queues)}
