"""What a program does without need: found in the records of its calls (`forebay.tracing.call_records`), and told."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from forebay.core.stats import Stats

OFTEN = 8  # times at one line: it is a loop then
FEW = 32  # commands between two waits of the host: who submits more waits so that there are not too many
MOST_PLACES = 4096  # memory whose last copy is remembered, and arrays likewise

NEEDLESS = "waited for what was known to be done"
ONE_BY_ONE = "finished one queue after another: one Device.finish() waits for all"
IN_A_LOOP = (
    "the host waited in each turn of a loop, and read nothing then: a queue runs in order by itself, and queue.wait() "
    "orders queues; wait once, before the host reads"
)
UNCHANGED = "uploaded the bytes that were there already"
DOWNLOADED = "downloaded bytes that the host had got before, and that nothing has changed since: keep the array"
ARRAYS = (
    "copied NumPy arrays to the device that had not changed since the last launch: make a Buffer of each "
    "(Device.array), and get() it where the host reads"
)
ALLOCATED = (
    "allocated from the driver what had been given back: make it once, before the loop, or take it from the pool "
    "(Queue.alloc, Queue.free)"
)
COMPILED_AGAIN = "built a program that the process has built before: keep the Program"
UNLIKE = "steps that were not as the time before: what differs is submitted launch by launch"
SETS_KERNELS = (
    "changed at least half of a graph's kernels before each launch: launch them in a step (Queue.step), which takes "
    "arguments as they come"
)
SERIALIZED = (
    "the null queue and a blocking queue waited for each other: use one queue for what belongs together, or "
    "blocking=False and waits of your own"
)
APART = "two queues waited for each other that use no memory in common: leave these waits out"
HELD = (
    "up to {held} queues were held, or waited behind such, at once: with more than {most}, others of the device stand "
    "still; hold fewer, or put what follows each other on one queue"
)


# -- records


class Record(NamedTuple):
    """A call that has returned, or something else that happened at a line.

    Attributes
    ----------
    name, line : str
        As those of a `Call`.
    thread : int
        Numbered by the recorder.
    ticks : int
        How long it took.
    facts : dict
        How things were before and after: see the function of this name in `forebay.tracing.call_records`.
    """

    name: str
    line: str
    thread: int = 0
    ticks: int = 0
    facts: Mapping[str, Any] = {}


# -- findings


@dataclass
class Finding:
    """Something that one line of the program does without need.

    Attributes
    ----------
    what, line : str
    times : int
    ticks : int
        How long the calls took together; 0 when the cost is not in the call.
    nbytes, waits : int
        What they copied or allocated, and how often a queue had to wait for another.
    least : int
        It is told if it came so often.
    """

    what: str
    line: str
    times: int = 0
    ticks: int = 0
    nbytes: int = 0
    waits: int = 0
    least: int = 1


Moment = tuple["Stats", int, int, int]
"""Of a device: its counters, the copies and the graphs that were seen and tell the host nothing, and how often the host
wanted to know something.
"""


@dataclass
class Thread:
    """What a thread waited for last."""

    name: str = ""  # of the call
    queue: int | None = None
    submitted: tuple[int, int] | None = None  # the device, and its commands by then
    moments: dict[int, Moment] = field(default_factory=dict)  # by device: how things were when it had waited


@dataclass
class Waiter:
    """A queue that waits for others, or for which others wait."""

    before: tuple[int, int, int]
    unclear: bool = False
    # By queue and line: how many waits, and how many of them had to be made.
    waits_for: defaultdict[int, dict[str, list[int]]] = field(default_factory=lambda: defaultdict(dict))


@dataclass
class Graph:
    """What becomes of an executable graph."""

    kernels: int
    keeps_to_device: bool
    used: dict[int, tuple[int, Any]] = field(default_factory=dict)  # the kernel and block of each node; by its id
    changed: set[int] = field(default_factory=set)  # nodes, since the last launch
    changes: list[Record] = field(default_factory=list)  # since then
    launches: int = 0
    after_changes: int = 0  # launches before which many were changed
    lines: dict[str, list[int]] = field(default_factory=dict)  # of these changes: times and ticks
    fits_step: bool = True


class Findings:
    """Looks at records, in the order in which the calls returned."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Finding] = {}
        self._threads: defaultdict[int, Thread] = defaultdict(Thread)
        self._epochs: dict[int | None, int] = {}  # of queues, when the host had waited for them
        self._finished: defaultdict[int, int] = defaultdict(int)  # how often the host waited for a queue alone
        self._asked: defaultdict[int, int] = defaultdict(int)  # by context
        self._copies: defaultdict[int, int] = defaultdict(int)  # by device, as the next
        self._graph_launches: defaultdict[int, int] = defaultdict(int)
        self._known: defaultdict[str, OrderedDict[Any, Any]] = defaultdict(OrderedDict)  # by what is found in them
        self._built: set[tuple[Any, ...]] = set()
        self._graphs: dict[int | None, Graph] = {}
        self._waiters: dict[int, Waiter] = {}
        self._most_held: dict[str, tuple[int, int]] = {}  # by line: how many, and how many are too many

    def take(self, record: Record) -> None:
        """Look at one record more."""
        if record.name in JUDGES:
            JUDGES[record.name](self, record, **record.facts)

    def all(self, uses: Mapping[int, set[int]]) -> list[Finding]:
        """Those that came often enough, the costliest first: by the time that the calls took, then by how often.

        Parameters
        ----------
        uses
            The memory that queues used, by their ids.
        """
        self._judge_graphs()
        self._judge_order(uses)
        for line, (held, most) in self._most_held.items():
            self._add(HELD.format(held=held, most=most), line)
        often = [finding for finding in self._found.values() if finding.times >= finding.least]
        return sorted(often, key=lambda finding: (finding.ticks, finding.times), reverse=True)

    def _add(
        self, what: str, line: str, times: int = 1, ticks: int = 0, nbytes: int = 0, waits: int = 0, least: int = 1
    ) -> None:
        """Add what a line did so many times more."""
        finding = self._found.setdefault((what, line), Finding(what, line, least=least))
        finding.times += times
        finding.ticks += ticks
        finding.nbytes += nbytes
        finding.waits += waits

    # -- waits of the host

    def _asks(self, record: Record, context: int) -> None:
        """Note that the host wants to know something."""
        self._asked[context] += 1

    def _finish(
        self, record: Record, device: int, context: int, syncs: int | None, stats: Stats, queue: int | None,
        epoch: int, in_place: bool,
    ) -> None:  # fmt: skip
        """Look at what a thread waited for. That it was done sooner than expected is chance, and no habit."""
        here, alone = self._threads[record.thread], record.name == "Queue.finish"
        moment = stats, self._copies[device], self._graph_launches[device], self._asked[context]
        unchanged = here.submitted == (device, _commands(stats))  # since it waited last
        if syncs is not None:
            if alone and not (unchanged and here.name == "Device.finish"):
                needless = self._epochs.get(queue, 0) == epoch
            else:
                needless = unchanged
            if needless and stats.host_syncs == syncs:
                self._add(NEEDLESS, record.line, ticks=record.ticks)
            elif alone and unchanged and here.name == "Queue.finish" and here.queue != queue:
                self._add(ONE_BY_ONE, record.line, ticks=record.ticks)
            elif not in_place and _read_nothing(moment, here.moments.get(device)):
                self._add(IN_A_LOOP, record.line, ticks=record.ticks, least=OFTEN)
        here.name, here.queue, here.submitted = record.name, queue, (device, _commands(stats))
        here.moments[device] = moment
        if queue is not None:
            self._finished[queue] += record.name != "Device.finish"
            if alone:
                self._epochs[queue] = epoch

    # -- copies, arrays, memory and programs

    def _remember(self, what: str, key: object, value: object) -> Any:
        """Put in what is known of a key. Returns what was known before."""
        known = self._known[what]
        before = known.pop(key, None)
        known[key] = value
        if len(known) > MOST_PLACES:
            known.popitem(last=False)
        return before

    def _copy(
        self, record: Record, context: int, device: int, asks: bool, is_seen: bool, place: Any, before: Any, after: Any
    ) -> None:
        if asks:
            self._asked[context] += 1
        elif is_seen:
            self._copies[device] += 1
        if place is not None:
            (version, digest), nbytes = before, place[2]
            what = DOWNLOADED if digest is None else UNCHANGED
            if self._remember(what, place, after) == before and version is not None and nbytes:
                self._add(what, record.line, ticks=record.ticks, nbytes=nbytes)

    def _arrays(self, record: Record, context: int, arrays: list[tuple[Any, bytes | None, bytes | None]]) -> None:
        self._asked[context] += 1
        same = {
            at
            for at, before, _ in arrays
            if before is not None and self._known[ARRAYS].get((record.line, at)) == before
        }
        for at, _, after in arrays:
            self._remember(ARRAYS, (record.line, at), after)
        unchanged = sum(nbytes for _, nbytes in same)
        if unchanged:
            self._add(ARRAYS, record.line, ticks=record.ticks, nbytes=unchanged, least=OFTEN)

    def _allocation(self, record: Record, again: int) -> None:
        if again:
            self._add(ALLOCATED, record.line, ticks=record.ticks, nbytes=again, least=OFTEN)

    def _program(self, record: Record, program: tuple[Any, ...] | None) -> None:
        if program in self._built:
            self._add(COMPILED_AGAIN, record.line, ticks=record.ticks)
        elif program is not None:
            self._built.add(program)

    # -- steps and graphs

    def _steps(self, record: Record, every: int, recorded: int, given_up: int) -> None:
        if given_up or (every >= 4 and 2 * recorded > every):
            self._add(UNLIKE, record.line, recorded)

    def _instantiate(self, record: Record, graph: int, kernels: int, keeps_to_device: bool) -> None:
        self._graphs[graph] = Graph(kernels, keeps_to_device)

    def _launch_graph(
        self, record: Record, device: int, nested: bool, graph: int | None, keeps_to_device: bool
    ) -> None:
        made = self._graphs.get(graph)
        if not nested and (keeps_to_device if made is None else made.keeps_to_device):
            self._graph_launches[device] += 1
        if made is not None:
            made.launches += 1
            if 2 * len(made.changed) >= made.kernels > 0:
                made.after_changes += 1
                for change in made.changes:
                    total = made.lines.setdefault(change.line, [0, 0])
                    total[0] += 1
                    total[1] += change.ticks
            made.changed.clear()
            made.changes.clear()

    def _set_kernel(self, record: Record, graph: int | None, node: int, chosen: tuple[int, Any] | None) -> None:
        """Note a change of a kernel node. A step takes other arguments, but no other kernels and blocks."""
        made = self._graphs.get(graph)
        if made is not None:
            made.fits_step = made.fits_step and chosen is not None and made.used.setdefault(node, chosen) == chosen
            if chosen is not None:
                made.changed.add(node)
                made.changes.append(record)

    def _judge_graphs(self) -> None:
        for graph in self._graphs.values():
            if graph.fits_step and graph.after_changes >= OFTEN and 2 * graph.after_changes >= graph.launches:
                for line, (times, ticks) in graph.lines.items():
                    self._add(SETS_KERNELS, line, times, ticks)

    # -- queues that wait for each other

    def _null_queue(self, record: Record, waits: int) -> None:
        self._add(SERIALIZED, record.line, waits=waits, least=OFTEN)

    def _hold(self, record: Record, held: tuple[int, int] | None = None) -> None:
        if held is not None:
            self._most_held[record.line] = max(held, self._most_held.get(record.line, held))

    def _wait(
        self, record: Record, held: Any = None, waiter: Any = None, producer: Any = None, waits: int = 0
    ) -> None:  # fmt: skip
        """Count a wait for another queue, with those that had to be made."""
        self._hold(record, held)
        if waiter is not None:
            counts = self._waiter(*waiter).waits_for[producer[0]].setdefault(record.line, [0, 0])
            counts[0] += 1
            counts[1] += waits
            self._waiter(*producer)

    def _waiter(self, queue: int, unclear: bool, unseen: int, null: int) -> Waiter:
        """Return what is known of a queue, whose order is `unclear` if it may be for something else than memory that
        its commands are seen to use. The numbers rise when it is given a command that uses what nobody sees, and when
        the null queue may be given one: whoever is ordered after them has a reason to be.
        """
        reasons = unseen, self._finished[queue], null
        waiter = self._waiters.setdefault(queue, Waiter(reasons))
        waiter.unclear = waiter.unclear or unclear or waiter.before != reasons
        return waiter

    def _judge_order(self, uses: Mapping[int, set[int]]) -> None:
        for one, waiter in self._waiters.items():
            for other, lines in waiter.waits_for.items():
                back = self._waiters[other].waits_for.get(one, {})
                if min(_times(lines), _times(back)) >= OFTEN and not self._is_needed(one, other, uses):
                    for line, (times, waits) in lines.items():
                        self._add(APART, line, times, waits=waits)

    def _is_needed(self, one: int, other: int, uses: Mapping[int, set[int]]) -> bool:
        """Return whether a queue may have to wait for the other one: whether who comes after it, and who comes before
        that one, have memory in common; both include the queues themselves.
        """
        later = _reached(one, other, lambda at: [i for i, each in self._waiters.items() if at in each.waits_for])
        earlier = _reached(other, one, lambda at: list(self._waiters[at].waits_for))
        if any(self._waiters[each].unclear for each in later | earlier):
            return True
        if not uses.get(one) or not uses.get(other):
            return True  # it is there to order others
        return any(
            first != second and not uses.get(first, set()).isdisjoint(uses.get(second, ()))
            for first in later
            for second in earlier
        )


JUDGES: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("Queue.finish", "Device.finish", "Event.wait"), Findings._finish),
    **dict.fromkeys(("Buffer.get", "Event.elapsed"), Findings._asks),
    **{f"Device.{name}": Findings._allocation for name in ("empty", "zeros", "array")},
    **dict.fromkeys(("Graph.launch", "ExecutableGraph.launch"), Findings._launch_graph),
    **dict.fromkeys(("Queue.gate", "Queue.host"), Findings._hold),
    "Device.program": Findings._program,
    "ExecutableGraph.set_kernel": Findings._set_kernel,
    "Graph.instantiate": Findings._instantiate,
    "Queue.copy": Findings._copy,
    "Queue.wait": Findings._wait,
    "launch_with_arrays": Findings._arrays,
    "null queue": Findings._null_queue,
    "steps": Findings._steps,
}


def _read_nothing(now: Moment, last: Moment | None) -> bool:
    """Return whether a few commands were submitted since the last wait, more than copies, and none of them tells the
    host anything.
    """
    if last is None or now[-1] != last[-1]:
        return False
    (stats, copies, graphs, _), (stats_then, copies_then, graphs_then, _) = now, last
    done = stats - stats_then
    return (
        done.copies < _commands(done) <= FEW
        and done.host_functions == 0
        and done.copies == copies - copies_then
        and done.graph_launches == graphs - graphs_then
    )


def _reached(start: int, but: int, next_to: Callable[[int], list[int]]) -> set[int]:
    """Return the queues that are reached from this one, but not by way of that one."""
    found, left = {start}, [start]
    while left:
        new = set(next_to(left.pop())) - found - {but}
        found |= new
        left += new
    return found


def _commands(stats: Stats) -> int:
    return stats.launches + stats.copies + stats.fills + stats.host_functions + stats.graph_launches


def _times(lines: dict[str, list[int]]) -> int:
    return sum(times for times, _ in lines.values())


# -- the report


def report(stats: list[tuple[str, Stats]], findings: list[Finding], nanoseconds_a_tick: float) -> str:
    """Return what was done and spared, and the findings, as text."""
    lines: list[str] = []
    for name, each in stats:
        asked = each.waits_made + each.waits_elided
        argument_bytes = each.arg_bytes_set + each.arg_bytes_skipped
        markers = each.markers_made + each.markers_shared
        lines += [
            f"{name}",
            f"  {each.launches:,} launches, {each.copies:,} copies, {each.fills:,} fills, "
            f"{each.host_functions:,} host functions, {each.graph_launches:,} graph launches, {each.steps:,} steps, "
            f"{each.allocations:,} allocations",
            f"  {each.host_syncs:,} times the host waited",
            f"  spared: {_of(each.waits_elided, asked)} waits, {_of(each.markers_shared, markers)} markers, "
            f"{_of(each.arg_bytes_skipped, argument_bytes)} bytes of arguments",
        ]
    if findings:
        lines.append("costly habits, by the time that the calls took")
    for finding in findings[:20]:
        facts = [f"{finding.times:,} ×"]
        if finding.ticks:
            facts.append(f"{finding.ticks * nanoseconds_a_tick / 1e6:.3f} ms")
        if finding.nbytes:
            facts.append(f"{finding.nbytes:,} bytes")
        if finding.waits:
            facts.append(f"{finding.waits:,} waits")
        lines += [f"  {finding.line or 'unknown line'}: {', '.join(facts)}", f"    {finding.what}"]
    return "\n".join(lines)


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}"
