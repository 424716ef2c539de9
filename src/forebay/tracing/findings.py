"""What a program does without need: `Findings` looks at its calls, and `report` tells.

Of each call only that is noted which cannot be known later: counters, epochs, hashes, versions of memory. What it means
is judged some hundreds of calls at a time, and at the end.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np

from forebay.core.errors import ClosedError
from forebay.events.event import Event
from forebay.queues.device import Device
from forebay.queues.graphs.executable import ExecutableGraph
from forebay.queues.kernels.program import read_source
from forebay.queues.launch import launch
from forebay.queues.launch.launch import watch_waits
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.shapes import StridedView
from forebay.queues.queue import Queue, clock_of, watch
from forebay.races.checker import watch_uses
from forebay.tracing import watching
from forebay.tracing.methods import Memory, memory_of, place_of, producer_of, times_exposed, version_of
from forebay.tracing.recording import Counters

if TYPE_CHECKING:
    from forebay.core.stats import Stats
    from forebay.queues.kernels.kernel import Kernel
    from forebay.tracing.watching import Call, Names

# What is looked at beside what every listener watches
MORE_CALLS: Names = {
    Queue: ("wait", "gate"),
    Event: ("elapsed",),
    Device: ("empty", "zeros", "array", "_over_host_memory"),
    ExecutableGraph: ("set_kernel",),
    launch: ("launch_with_arrays",),
}

MOST_RECORDS = 256  # that are kept until they are judged: some hundreds stay in the cache, and take less time
MOST_LINES = 4096  # whose allocations are remembered
MOST_PIECES = 16  # of memory, of each of them
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


class Record(NamedTuple):
    """A call that has returned, or something else that happened at a line, and what is to be made of it.

    `judge` refers to no queue, memory or graph, so that no record keeps one.
    """

    judge: Callable[[Record], None]
    line: str
    thread: int = 0  # as numbered by `Here`
    ticks: int = 0


Look = Generator[None, None, "Callable[[Record], None] | None"]


@dataclass
class Finding:
    """Something that one line of the program does without need."""

    what: str
    line: str
    times: int = 0
    ticks: int = 0  # how long the calls took together; 0 when the cost is not in the call
    nbytes: int = 0  # what they copied or allocated
    waits: int = 0  # how often a queue had to wait for another
    least: int = 1  # it is reported from that count on


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


class Hold(NamedTuple):
    """A gate or host function that holds a queue, from its epoch on."""

    queue: int
    epoch: int
    is_open: Callable[[], bool]


class Here(threading.local):
    """A thread of the program: its number, and how many calls that are looked at it is inside of."""

    numbers: itertools.count[int] = itertools.count()

    def __init__(self) -> None:
        self.number: int = next(self.numbers)
        self.depth = 0


class Findings:
    """Looks at the calls from `begin` to `end`, in the order in which they returned."""

    def __init__(self) -> None:
        self._records: deque[Record] = deque()
        self._lock = threading.RLock()  # the collector, or the handler of a signal, may run any code
        self._here = Here()
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # of Devices and executable graphs
        self._counted = itertools.count()
        # Of memory, by id of the queue: addresses of the `Uses`, which may be other memory's later. Queues are watched
        # from the first wait of one for another on, so that launches of programs without waits stay as they are.
        self._uses: defaultdict[int, set[int]] = defaultdict(set)
        self._watched: set[int] | None = None
        self._queues: defaultdict[int, WeakSet[Queue]] = defaultdict(WeakSet)  # by id of the context, as the next
        self._holds: defaultdict[int, list[Hold]] = defaultdict(list)
        self._read_in_place: set[int] = set()  # contexts; kept ones would not close
        self._exposed = times_exposed()
        self._pieces: OrderedDict[tuple[str, int], deque[Memory]] = OrderedDict()  # by line and number of bytes
        self._stepping: dict[int, tuple[Queue, str]] = {}
        # What judging remembers
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

    def begin(self) -> None:
        """Begin to look."""
        self._counters = Counters()
        watch_waits(self._null_waited)
        watch_uses(self._used)
        watching.add(self, MORE_CALLS)

    def end(self) -> tuple[list[tuple[str, Stats]], list[Finding]]:
        """Look no more. Returns the name of each Device with what it did meanwhile, and the findings.

        These came often enough. The costliest is first: by the time that the calls took, then by how often.
        """
        watching.remove(self)
        watch_waits(None)
        watch_uses(None)
        for queue in [each for queues in self._queues.values() for each in queues]:
            watch(queue, False)
        self._judge()
        for queue, line in self._stepping.values():
            stats = queue.stats
            if stats.steps_given_up or (stats.steps >= 4 and 2 * stats.steps_recorded > stats.steps):
                self._add(UNLIKE, line, stats.steps_recorded)
        for graph in self._graphs.values():
            if graph.fits_step and graph.after_changes >= OFTEN and 2 * graph.after_changes >= graph.launches:
                for line, (times, ticks) in graph.lines.items():
                    self._add(SETS_KERNELS, line, times, ticks)
        self._judge_order()
        for line, (held, most) in self._most_held.items():
            self._add(HELD.format(held=held, most=most), line)
        often = [finding for finding in self._found.values() if finding.times >= finding.least]
        return self._counters.all(), sorted(often, key=lambda each: (each.ticks, each.times), reverse=True)

    def _note(self, record: Record) -> None:
        self._records.append(record)
        if len(self._records) >= MOST_RECORDS:
            self._judge()

    def _judge(self) -> None:
        with self._lock:
            while self._records:
                record = self._records.popleft()
                record.judge(record)

    def _number(self, thing: Device | ExecutableGraph) -> int:
        return self._numbers.setdefault(thing, next(self._counted))

    def _add(
        self, what: str, line: str, times: int = 1, ticks: int = 0, nbytes: int = 0, waits: int = 0, least: int = 1
    ) -> None:
        """Add `times` more of what a line did."""
        finding = self._found.setdefault((what, line), Finding(what, line, least=least))
        finding.times += times
        finding.ticks += ticks
        finding.nbytes += nbytes
        finding.waits += waits

    # -- a listener

    def queue_made(self, queue: Queue) -> None:
        """Note a queue. Others submit to one that was adopted, who may want to read what forebay does not see."""
        with self._lock:
            self._queues[id(queue.device._context)].add(queue)
            if queue.adopted:
                self._read_in_place.add(id(queue.device._context))
            if self._watched is not None:
                watch(queue, True)

    def began(self, call: Call) -> None:
        """Look at how things are before the call."""
        self._counters.began(call)
        if call.name in LOOKED_AT:
            with suppress(TypeError):  # the call will say what is wrong with its arguments
                call.look = LOOKED_AT[call.name](self, call, *call.arguments, **call.keywords)
                with suppress(ClosedError):  # another thread has closed what the call is about
                    next(call.look)
        self._here.depth += 1

    def ended(self, call: Call) -> None:
        """Look at how things are now, and note what is to be judged."""
        self._here.depth -= 1
        if call.look is not None and not call.raised:
            try:
                next(call.look)
            except StopIteration as looked:
                if looked.value is not None:
                    self._note(Record(looked.value, call.line, self._here.number, call.end - call.begin))
            except ClosedError:
                pass

    # What is looked at: before `yield` when a call begins, and behind it when it has returned. What is returned judges.

    # -- waits of the host

    def _ask(self, call: Call, on: Any, *others: Any, **options: Any) -> Look:
        """Note that the host wants to know something."""
        yield
        context = id(on.device._context)

        def judge(record: Record) -> None:
            self._asked[context] += 1

        return judge

    def _finish(self, call: Call, on: Any, timeout: Any = None) -> Look:
        """Look at what a thread waited for. That it was done sooner than expected is chance."""
        device = on if isinstance(on, Device) else on.device
        # With a timeout it asks again and again, which does not count.
        syncs = device.stats.host_syncs if timeout is None and self._here.depth == 0 else None
        yield
        number, context, stats, name = self._number(device), id(device._context), device.stats, call.name
        waited_for = on if isinstance(on, Queue) else producer_of(on) if isinstance(on, Event) else None
        queue = None if waited_for is None else waited_for.id
        epoch = on.epoch if isinstance(on, Queue) else 0
        in_place = context in self._read_in_place or times_exposed() != self._exposed

        def judge(record: Record) -> None:
            here, alone = self._threads[record.thread], name == "Queue.finish"
            moment = stats, self._copies[number], self._graph_launches[number], self._asked[context]
            unchanged = here.submitted == (number, _commands(stats))  # since it waited last
            if syncs is not None:
                if alone and not (unchanged and here.name == "Device.finish"):
                    needless = self._epochs.get(queue, 0) == epoch
                else:
                    needless = unchanged
                if needless and stats.host_syncs == syncs:
                    self._add(NEEDLESS, record.line, ticks=record.ticks)
                elif alone and unchanged and here.name == "Queue.finish" and here.queue != queue:
                    self._add(ONE_BY_ONE, record.line, ticks=record.ticks)
                elif not in_place and _read_nothing(moment, here.moments.get(number)):
                    self._add(IN_A_LOOP, record.line, ticks=record.ticks, least=OFTEN)
            here.name, here.queue, here.submitted = name, queue, (number, _commands(stats))
            here.moments[number] = moment
            if queue is not None:
                self._finished[queue] += name != "Device.finish"
                if alone:
                    self._epochs[queue] = epoch

        return judge

    # -- copies, arrays, memory and programs

    def _remember(self, what: str, key: object, value: object) -> Any:
        """Put in what is known of a key. Returns what was known before."""
        known = self._known[what]
        before = known.pop(key, None)
        known[key] = value
        if len(known) > MOST_PLACES:
            known.popitem(last=False)
        return before

    def _copy(self, call: Call, queue: Queue, dst: Any, src: Any) -> Look:
        compared, digest, version = None, None, None
        if isinstance(dst, Buffer):
            if not isinstance(src, (Buffer, StridedView)) and not (queue.capturing or dst.closed):
                digest = _digest(src)
                compared = None if digest is None else dst
        elif isinstance(src, Buffer) and not (queue.capturing or src.closed):
            compared = src
        if compared is not None:
            version = version_of(compared)
        yield
        device, context = self._number(queue.device), id(queue.device._context)
        # A program that copies from pinned memory has to wait before it writes there again.
        pinned = isinstance(src, np.ndarray) and queue.device._is_pinned(src.ctypes.data, src.nbytes)
        asks = pinned or not isinstance(dst, (Buffer, StridedView))
        is_seen = isinstance(dst, Buffer) and not isinstance(src, StridedView)
        place = None if compared is None else place_of(compared)
        after = version if digest is None or compared is None else version_of(compared)

        def judge(record: Record) -> None:
            if asks:
                self._asked[context] += 1
            elif is_seen:
                self._copies[device] += 1
            if place is not None:
                what = DOWNLOADED if digest is None else UNCHANGED
                same = self._remember(what, place, (after, digest)) == (version, digest)
                if same and version is not None and place[2]:
                    self._add(what, record.line, ticks=record.ticks, nbytes=place[2])

        return judge

    def _arrays(self, call: Call, queue: Queue, *others: Any) -> Look:
        arrays = [each for each in call.arguments[4] if isinstance(each, np.ndarray)]
        arrays = [] if queue.capturing else arrays
        places = [(each.ctypes.data, each.nbytes) for each in arrays]
        before = [_digest(each) for each in arrays]
        yield
        context, after = id(queue.device._context), [_digest(each) for each in arrays]

        def judge(record: Record) -> None:
            self._asked[context] += 1
            known = self._known[ARRAYS]
            each = zip(places, before, strict=True)
            same = {at for at, digest in each if digest is not None and known.get((record.line, at)) == digest}
            for at, digest in zip(places, after, strict=True):
                self._remember(ARRAYS, (record.line, at), digest)
            unchanged = sum(nbytes for _, nbytes in same)
            if unchanged:
                self._add(ARRAYS, record.line, ticks=record.ticks, nbytes=unchanged, least=OFTEN)

        return judge

    def _allocate(self, call: Call, device: Device, *others: Any, **options: Any) -> Look:
        judged = self._here.depth == 0 and call.name != "Device._over_host_memory"
        yield
        made, nbytes = call.result, call.result.nbytes
        if call.name == "Device._over_host_memory" or made.usm_type != "device":
            self._read_in_place.add(id(device._context))
        if not judged:
            return None
        with self._lock:
            pieces = self._pieces.pop((call.line, nbytes), None) or deque(maxlen=MOST_PIECES)
            self._pieces[call.line, nbytes] = pieces
            if len(self._pieces) > MOST_LINES:
                self._pieces.popitem(last=False)
            gone = next((piece for piece in pieces if piece.gone), None)
            if gone is not None:
                pieces.remove(gone)
            pieces.append(memory_of(made))
        if gone is None or not nbytes:
            return None
        return lambda record: self._add(ALLOCATED, record.line, ticks=record.ticks, nbytes=nbytes, least=OFTEN)

    def _program(self, call: Call, device: Device, source: Any, options: Any = ()) -> Look:
        yield
        # hiprtc looks whether the device takes the code that the program will load.
        callers = (frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe()))
        if "forebay.hiprtc" in callers:
            return None
        program = device.name, *read_source(source, options)

        def judge(record: Record) -> None:
            if program in self._built:
                self._add(COMPILED_AGAIN, record.line, ticks=record.ticks)
            self._built.add(program)

        return judge

    # -- steps and graphs

    def _step(self, call: Call, queue: Queue, *others: Any, **options: Any) -> Look:
        yield
        self._stepping.setdefault(queue.id, (queue, call.line))
        return None

    def _instantiate(self, call: Call, graph: Any, *others: Any, **options: Any) -> Look:
        yield
        number, kernels = self._number(call.result), sum(node.kind == "kernel" for node in graph.nodes)
        made = Graph(kernels, _keeps_to_device(graph))

        def judge(record: Record) -> None:
            self._graphs[number] = made

        return judge

    def _launch_graph(self, call: Call, graph: Any, queue: Queue) -> Look:
        nested = self._here.depth > 0
        yield
        device, number = self._number(queue.device), self._numbers.get(graph)
        keeps = call.name == "Graph.launch" and _keeps_to_device(graph)

        def judge(record: Record) -> None:
            made = self._graphs.get(number)
            if not nested and (keeps if made is None else made.keeps_to_device):
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

        return judge

    def _set_kernel(self, call: Call, graph: Any, *given: Any, **by_name: Any) -> Look:
        """Note a change of a kernel node. A step takes other arguments, but no other kernels and blocks."""
        yield
        number, node = self._numbers.get(graph), id(given[0] if given else None)
        chosen = None if len(given) < 4 else (id(given[1]), given[3])  # themselves they would keep memory

        def judge(record: Record) -> None:
            made = self._graphs.get(number)
            if made is not None:
                made.fits_step = made.fits_step and chosen is not None and made.used.setdefault(node, chosen) == chosen
                if chosen is not None:
                    made.changed.add(node)
                    made.changes.append(record)

        return judge

    # -- queues that wait for each other

    def _null_waited(self, queue: Queue, kernel: Kernel, waits: int) -> None:
        def judge(record: Record) -> None:
            self._add(SERIALIZED, record.line, waits=waits, least=OFTEN)

        self._note(Record(judge, watching.line_of_program()))

    def _used(self, queue: Queue, memory: set[int]) -> None:
        self._uses[queue.id] |= memory

    def _watch(self, *waiting: Queue) -> None:
        """Look from now on at what queues use: these, which may be older than the listener, and all others."""
        with self._lock:
            if self._watched is None:
                self._watched = set()
                waiting = (*waiting, *(queue for queues in self._queues.values() for queue in queues))
            for queue in waiting:
                if queue.id not in self._watched:
                    self._watched.add(queue.id)
                    self._queues[id(queue.device._context)].add(queue)
                    watch(queue, True)

    def _wait(self, call: Call, queue: Queue, event_or_queue: Any) -> Look:
        """Count a wait for another queue, with those that had to be made."""
        nested, before = self._here.depth > 0, queue.stats.waits_made
        yield
        if nested:
            return None
        on: Any = event_or_queue
        held = self._held(queue)
        other = on if isinstance(on, Queue) else producer_of(on) if isinstance(on, Event) else None
        if other is None or other == queue or queue.capturing or other.closed:
            return self._judge_held(held)
        self._watch(queue, other)
        unclear = queue.adopted or queue.device._context is not other.device._context
        waiter, waits = _ordered(queue, unclear), queue.stats.waits_made - before
        producer, judge_held = _ordered(other, other.adopted), self._judge_held(held)

        def judge(record: Record) -> None:
            judge_held(record)
            counts = self._waiter(*waiter).waits_for[producer[0]].setdefault(record.line, [0, 0])
            counts[0] += 1
            counts[1] += waits
            self._waiter(*producer)

        return judge

    def _waiter(self, queue: int, unclear: bool, unseen: int, null: int) -> Waiter:
        """Return what is known of a queue, whose order is `unclear` if it may be for something else than memory that
        its commands are seen to use. The numbers rise when it gets a command whose uses are not seen, and when
        the null queue may be given one: what is ordered after them has a reason to be.
        """
        reasons = unseen, self._finished[queue], null
        waiter = self._waiters.setdefault(queue, Waiter(reasons))
        waiter.unclear = waiter.unclear or unclear or waiter.before != reasons
        return waiter

    def _judge_order(self) -> None:
        for one, waiter in self._waiters.items():
            for other, lines in waiter.waits_for.items():
                back = self._waiters[other].waits_for.get(one, {})
                if min(_times(lines), _times(back)) >= OFTEN and not self._is_needed(one, other):
                    for line, (times, waits) in lines.items():
                        self._add(APART, line, times, waits=waits)

    def _is_needed(self, one: int, other: int) -> bool:
        """Return whether a queue may have to wait for the other one: whether who comes after it, and who comes before
        that one, have memory in common; both include the queues themselves.
        """
        later = _reached(one, other, lambda at: [i for i, each in self._waiters.items() if at in each.waits_for])
        earlier = _reached(other, one, lambda at: list(self._waiters[at].waits_for))
        if any(self._waiters[each].unclear for each in later | earlier):
            return True
        if not self._uses.get(one) or not self._uses.get(other):
            return True  # it is there to order others
        return any(
            first != second and not self._uses.get(first, set()).isdisjoint(self._uses.get(second, ()))
            for first in later
            for second in earlier
        )

    # -- queues that are held

    def _host(self, call: Call, queue: Queue, function: Any) -> Look:
        returned = threading.Event()
        counts = queue.device.driver.most_held is not None and callable(function)
        if counts:
            call.arguments, call.keywords = (queue, watching.with_end(function, lambda *_: returned.set())), {}
        yield
        return self._judge_held(self._hold(queue, returned.is_set)) if counts else None

    def _gate(self, call: Call, queue: Queue) -> Look:
        yield
        gate = ref(call.result)  # dropping the gate opens it
        return self._judge_held(self._hold(queue, lambda: (held := gate()) is None or held.opened))

    def _hold(self, queue: Queue, is_open: Callable[[], bool]) -> tuple[int, int] | None:
        if queue.device.driver.most_held is not None:
            with self._lock:
                self._holds[id(queue.device._context)].append(Hold(queue.id, queue.epoch, is_open))
        return self._held(queue)

    def _held(self, queue: Queue) -> tuple[int, int] | None:
        """Return how many queues are held, or come after one that is, and the most that the device can bear, if it is
        more than that.
        """
        most, context = queue.device.driver.most_held, id(queue.device._context)
        if most is None or not self._holds.get(context):
            return None
        with self._lock:
            holds = self._holds[context] = [hold for hold in self._holds[context] if not hold.is_open()]
            queues = list(self._queues[context])
        if not holds or len(queues) <= most:
            return None
        ids = {hold.queue for hold in holds}
        clocks = [clock_of(each) for each in queues if each.id not in ids]
        held = len(ids) + sum(any(after.get(hold.queue, 0) >= hold.epoch for hold in holds) for after in clocks)
        return (held, most) if held > most else None

    def _judge_held(self, held: tuple[int, int] | None) -> Callable[[Record], None]:
        def judge(record: Record) -> None:
            if held is not None:
                self._most_held[record.line] = max(held, self._most_held.get(record.line, held))

        return judge


LOOKED_AT: dict[str, Callable[..., Look]] = {
    **dict.fromkeys(("Queue.finish", "Device.finish", "Event.wait"), Findings._finish),
    **dict.fromkeys(("Buffer.get", "Event.elapsed"), Findings._ask),
    **dict.fromkeys(("Graph.launch", "ExecutableGraph.launch"), Findings._launch_graph),
    **{f"Device.{name}": Findings._allocate for name in MORE_CALLS[Device]},
    "Device.program": Findings._program,
    "ExecutableGraph.set_kernel": Findings._set_kernel,
    "Graph.instantiate": Findings._instantiate,
    "Queue.copy": Findings._copy,
    "Queue.gate": Findings._gate,
    "Queue.host": Findings._host,
    "Queue.step": Findings._step,
    "Queue.wait": Findings._wait,
    "launch_with_arrays": Findings._arrays,
}
"""By the name of the method."""


def _ordered(queue: Queue, unclear: bool) -> tuple[int, bool, int, int]:
    stats = queue.stats
    null = queue.device.null_queue.epoch if queue.blocking else 0
    return queue.id, unclear, stats.host_functions + stats.graph_launches, null


def _keeps_to_device(graph: Any) -> bool:
    """Return whether a graph copies nothing to or from the host, and calls no function of it."""
    return all(
        node.kind in ("kernel", "fill", "empty", "alloc", "free")
        or (node.kind == "copy" and isinstance(node.work.dst, Buffer) and isinstance(node.work.src, Buffer))
        for node in graph.nodes
    )


def _digest(source: Any) -> bytes | None:
    """Return a hash of the bytes; None for what has no contiguous ones, of which the call will say what is wrong."""
    try:
        return hashlib.blake2b(memoryview(source), digest_size=16).digest()
    except (TypeError, ValueError, BufferError):
        return None


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
        lines.append("inefficiencies, by the time that the calls took")
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
