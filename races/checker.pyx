"""Checks, when commands are submitted, that the program orders those that use the same memory.

Only the program's own order counts: its waits, records, finishes, and queries that returned true. So a verdict does not
depend on the device's progress. Neither a driver nor forebay's own vector clocks, which forget what is done, are asked.
"""

from types import SimpleNamespace
from typing import TYPE_CHECKING

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport uint32_t, uint64_t, uint8_t, uintptr_t
from libcpp.vector cimport vector

from forebay.core.ownership cimport Ref, Refs
from forebay.core.process cimport on_host_thread
from forebay.core.state cimport AnyQueue, DeviceState, QueueState, registered_queues, set_slow_path
from forebay.core.usage cimport Usage
from forebay.core.vector_clock cimport Clock

from forebay.core.errors import RaceError
from forebay.races import reports

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

races = new State()
cdef tuple NOWHERE = ("", 0, "")
cdef dict numbers = {NOWHERE: 0}
cdef list known = [NOWHERE]  # lines of the program and descriptions of uses, by number
cdef object numbering = object()  # whose critical section guards these two
cdef object uses_watcher = None


def watch_uses(watcher: Callable[[Any, set[int]], None] | None) -> None:
    """Before each command of a watched queue (`queues.queue.watch`), call `watcher` with the Queue and the addresses of
    the `Usage` records of the memory that the command uses; None ends that.
    """
    global uses_watcher
    uses_watcher = watcher


cdef uint32_t number_of(tuple thing) except? 0:
    with cython.critical_section(numbering):
        number = numbers.setdefault(thing, len(known))
        if number == len(known):
            known.append(thing)
    return number


cdef uint32_t line_of_program() except? 0:
    """Return the number of the innermost line of this thread, (file, line, function), that is not forebay's."""
    frame = next(reports.frames_of_program(), None)
    return 0 if frame is None else number_of((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))


def place_in_program(number: int | None = None) -> str:
    """Return ``file:line`` for a number that `made` gave, or the innermost line that is not forebay's own."""
    return reports.place_of(known[line_of_program() if number is None else number])


cdef Order* order_of(AnyQueue queue) except NULL:
    cdef QueueState* state = queue.state
    cdef Order* order = races.find(state.epochs.queue_id)
    cdef Order* null = NULL
    if order == NULL:
        if not state.is_null:
            null = order_of(queue.device.null_queue)
        order = races.add_queue(state.epochs.queue_id, null, state.blocking, state.adopted, <PyObject*> queue.reference)
    return order


# -- commands


cdef class Announcement:

    def __dealloc__(self):
        races.settle(self.command, False)

    cdef Use* add(self, Usage* usage, uint64_t start, uint64_t nbytes, uint8_t flags, tuple what) except NULL:
        cdef Use* use
        cdef uint32_t number = number_of(what if self.place is None else (*what, self.place))
        self.command.uses.emplace_back()
        use = &self.command.uses.back()
        use.memory = usage
        use.begin, use.end = start, start + nbytes
        use.flags, use.what = flags, number
        return use

    cdef int add_end(self, Usage* usage, uint64_t start, uint64_t nbytes, bint writes, str kind) except -1:
        argument = "" if kind in ("alloc", "free") else "to" if writes else "from"
        if nbytes:
            self.add(usage, start, nbytes, WRITES if writes else 0, (kind, "", argument))
        return 0


cdef Announcement announce(AnyQueue queue, Announcement announced):
    cdef vector[Conflict] found
    cdef Order* order
    if uses_watcher is not None and queue.state.slow_path & BY_WATCH:
        uses_watcher(queue, {<uintptr_t> use.memory for use in announced.command.uses})
    if is_checked(queue.state):
        line, order = line_of_program(), order_of(queue)
        found = races.announce(announced.command, order, on_host_thread(), line)
        if not found.empty():
            report(queue.state.device, found, queue)
    return announced


cdef Announcement announce_use(AnyQueue queue, Usage* usage, uint64_t start, uint64_t nbytes, bint writes, str kind):
    cdef Announcement announced = Announcement.__new__(Announcement)
    announced.add_end(usage, start, nbytes, writes, kind)
    return announce(queue, announced)


cdef Announcement begin_command(AnyQueue queue):
    cdef Announcement announced = Announcement.__new__(Announcement)
    races.begin(announced.command, order_of(queue), on_host_thread())
    return announced


cdef int on_host(DeviceState* device, Announcement announced) except -1:
    """Judge at once what the host itself does with memory: it must have waited for earlier uses."""
    if device.checked and not announced.command.uses.empty():
        report(device, races.judge(announced.command, line_of_program()))
    return 0


cdef int report(DeviceState* device, const vector[Conflict]& found, object queue=None, list missing=None) except -1:
    """Report each race once. Raises RaceError for the first certain one, new or not, if a Device wants that."""
    cdef PyObject* reference
    cdef bint raises = races.raises(device.null_queue.epochs.queue_id)
    conflicts = []
    for i in range(found.size()):
        conflict = SimpleNamespace(**found[i], second_queue=queue, missing=None if missing is None else missing[i])
        reference = races.reference_of(found[i].first.queue)
        conflict.first_queue = None if missing is not None or reference == NULL else (<object> reference)()
        Py_XDECREF(reference)
        conflict.made, conflict.early = known[conflict.made], known[conflict.early]
        for side in (conflict.first, conflict.second):
            side["line"], side["what"] = known[side["line"]], known[side["what"]]
        conflicts.append(conflict)
    races_told = [reports.tell(conflict) for conflict in conflicts]  # runs Python code, which may use any queue
    for race in races_told:
        if race.certain and raises:
            raise RaceError(str(race), race)
    return 0


cdef uint32_t made(DeviceState* device, Usage* usage, uint64_t nbytes) except? 0:
    """Note the line that makes memory, if the device is checked. Return its number."""
    cdef uint32_t line = line_of_program()
    if device.checked:
        races.note_made(usage, line, nbytes)
    return line


cdef Ref[Clock] record_point(AnyQueue queue) except *:
    if not is_checked(queue.state):
        return Ref[Clock]()
    line = line_of_program()
    return races.record(order_of(queue), on_host_thread(), line)


cdef class CheckedFunction:
    """A host function that comes after the earlier work of its queue."""

    cdef object function
    cdef Ref[Clock] past

    def __call__(self) -> object:
        races.run_function(self.past)
        try:
            return self.function()
        finally:
            races.run_function(Ref[Clock]())

    @property
    def __qualname__(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)


cdef object host_function(object function, Announcement announced):
    """Wrap a host function: what it submits comes after the earlier work of its queue. What it reports to other threads
    cannot be seen, so no race with what precedes it is certain.
    """
    cdef CheckedFunction checked = CheckedFunction.__new__(CheckedFunction)
    checked.past = races.tell(announced.command)
    checked.function = function
    return checked


cdef int check_nodes(DeviceState* device, list announced, tuple nodes, list dependencies) except -1:
    """Report races of nodes with each other, judging each as a queue with one command."""
    cdef State graph
    cdef vector[Conflict] found, own
    cdef Announcement each
    cdef Order* order
    line, missing = line_of_program(), []
    for place, each in enumerate(announced):
        order = graph.add_queue(place + 1, NULL, False, False, NULL)
        for other in dependencies[place]:
            order.come_after(graph.find(other + 1).moment().get())
        for use in each.command.uses:
            graph.copy_made(races[0], <Usage*> use.memory)
        own = graph.announce(each.command, order, False, line)
        graph.settle(each.command, True)
        for conflict in own:
            conflict.context = device.null_queue.epochs.queue_id
            found.push_back(conflict)
            missing.append(reports.missing_edge(nodes[conflict.first.queue - 1], nodes[place]))
    return report(device, found, None, missing)


# -- what is checked


cdef int change_checking(AnyQueue null_queue, int by, bint raises) except -1:
    """Check all queues of a context, later ones included, for one Device more or less. After the last one all counts
    as ordered, because later commands are not seen.
    """
    cdef Order* null = order_of(null_queue)
    cdef DeviceState* device = null_queue.state.device
    cdef Refs[QueueState] registered
    if not device.checked:
        reports.forget(null_queue.state.epochs.queue_id)
    device.checked = races.change_checking(null, by, raises)
    if not device.checked:
        races.reach_all(null_queue.state.epochs.queue_id, races.past_of(null_queue.state.epochs.queue_id, ALL).get())
    with nogil:
        registered_queues(device, registered)
        for queue in registered:
            set_slow_path(queue, BY_CHECK, device.checked)
    return 0


def statistics() -> dict[str, int]:
    """Return how many pieces of memory, uses and queues are remembered; for tests."""
    return dict(zip(("memories", "uses", "queues"), races.counts(), strict=True))
