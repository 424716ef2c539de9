"""Records what the calls of a program do, for `forebay.tracing.findings`: what cannot be found out afterwards."""

from __future__ import annotations

import functools
import hashlib
import itertools
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Generator
from contextlib import suppress
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
from forebay.tracing.findings import Findings, Record
from forebay.tracing.methods import Memory, memory_of, place_of, producer_of, times_exposed, version_of
from forebay.tracing.recording import Counters

if TYPE_CHECKING:
    from forebay.core.stats import Stats
    from forebay.queues.kernels.kernel import Kernel
    from forebay.tracing.findings import Finding
    from forebay.tracing.watching import Call, Names

# What is recorded beside what every listener is told of
MORE_CALLS: Names = {
    Queue: ("wait", "gate"),
    Event: ("elapsed",),
    Device: ("empty", "zeros", "array", "_over_host_memory"),
    ExecutableGraph: ("set_kernel",),
    launch: ("launch_with_arrays",),
}

Look = Generator[None, None, dict[str, Any]]
MOST_RECORDS = 256  # that are kept until they are judged: some hundreds stay in the cache, and take less time
MOST_LINES = 4096  # whose allocations are remembered
MOST_PIECES = 16  # of memory, of each of them


class Hold(NamedTuple):
    """A gate or host function that holds a queue, from its epoch on."""

    queue: int
    epoch: int
    is_open: Callable[[], bool]


class Thread(threading.local):
    """A thread of the program: its number, and how many recorded calls it is inside of."""

    numbers: itertools.count[int] = itertools.count()

    def __init__(self) -> None:
        self.number: int = next(self.numbers)
        self.depth = 0


class CallRecorder:
    """Records calls from `begin` to `end`. No record keeps a queue, memory or a graph.

    The records are judged when there are many of them, and at the end.
    """

    def __init__(self) -> None:
        self._findings = Findings()
        self._records: deque[Record] = deque()
        self._lock = threading.RLock()  # the collector, or the handler of a signal, may run any code
        self._here = Thread()
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

    def begin(self) -> None:
        """Begin to record."""
        self._counters = Counters()
        watch_waits(self._null_waited)
        watch_uses(self._used)
        watching.add(self, MORE_CALLS)

    def end(self) -> tuple[list[tuple[str, Stats]], list[Finding]]:
        """Record no more.

        Returns
        -------
        stats : list of (str, Stats)
            The name of each Device, and what it did meanwhile.
        findings : list of Finding
            The costliest first: by the time that the calls took, then by how often they came.
        """
        watching.remove(self)
        watch_waits(None)
        watch_uses(None)
        for queue in [each for queues in self._queues.values() for each in queues]:
            watch(queue, False)
        for queue, line in self._stepping.values():
            stats = queue.stats
            facts = {"every": stats.steps, "recorded": stats.steps_recorded, "given_up": stats.steps_given_up}
            self._add(Record("steps", line, facts=facts))
        self._judge()
        return self._counters.all(), self._findings.all(self._uses)

    def _add(self, record: Record) -> None:
        self._records.append(record)
        if len(self._records) >= MOST_RECORDS:
            self._judge()

    def _judge(self) -> None:
        with self._lock:
            while self._records:
                self._findings.take(self._records.popleft())

    def _number(self, thing: Device | ExecutableGraph) -> int:
        return self._numbers.setdefault(thing, next(self._counted))

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
        if call.name in RECORDED:
            with suppress(TypeError):  # the call will say what is wrong with its arguments
                call.notes["look"] = RECORDED[call.name](self, call, *call.arguments, **call.keywords)
                with suppress(ClosedError):  # another thread has closed what the call is about
                    next(call.notes["look"])
        self._here.depth += 1

    def ended(self, call: Call) -> None:
        """Record it, with how things are now."""
        self._here.depth -= 1
        if "look" in call.notes and not call.raised:
            try:
                next(call.notes["look"])
            except StopIteration as looked:
                self._add(Record(call.name, call.line, self._here.number, call.end - call.begin, looked.value))
            except ClosedError:
                pass

    # -- what is looked at: before `yield` when a call begins, and behind it when it has returned

    def _finish(self, call: Call, on: Any, timeout: Any = None) -> Look:
        device = on if isinstance(on, Device) else on.device
        # With a timeout it asks again and again, which does not count.
        syncs = device.stats.host_syncs if timeout is None and self._here.depth == 0 else None
        yield
        context = id(device._context)
        queue = on if isinstance(on, Queue) else producer_of(on) if isinstance(on, Event) else None
        return {
            "device": self._number(device),
            "context": context,
            "syncs": syncs,
            "stats": device.stats,
            "queue": None if queue is None else queue.id,
            "epoch": on.epoch if isinstance(on, Queue) else 0,
            "in_place": context in self._read_in_place or times_exposed() != self._exposed,
        }

    def _ask(self, call: Call, on: Any, *others: Any, **options: Any) -> Look:
        yield
        return {"context": id(on.device._context)}

    def _copy(self, call: Call, queue: Queue, dst: Any, src: Any) -> Look:
        device, compared, digest, version = queue.device, None, None, None
        if isinstance(dst, Buffer):
            if not isinstance(src, (Buffer, StridedView)) and not (queue.capturing or dst.closed):
                digest = _digest(src)
                compared = None if digest is None else dst
        elif isinstance(src, Buffer) and not (queue.capturing or src.closed):
            compared = src
        if compared is not None:
            version = version_of(compared)
        yield
        # Whoever copies from pinned memory has to wait before he writes there again.
        pinned = isinstance(src, np.ndarray) and device._is_pinned(src.ctypes.data, src.nbytes)
        return {
            "device": self._number(device),
            "context": id(device._context),
            "asks": pinned or not isinstance(dst, (Buffer, StridedView)),
            "is_seen": isinstance(dst, Buffer) and not isinstance(src, StridedView),
            "place": None if compared is None else place_of(compared),
            "before": (version, digest),
            "after": (version if digest is None or compared is None else version_of(compared), digest),
        }

    def _arrays(self, call: Call, queue: Queue, *others: Any) -> Look:
        arrays = [each for each in call.arguments[4] if isinstance(each, np.ndarray)]
        arrays = [] if queue.capturing else arrays
        places = [(each.ctypes.data, each.nbytes) for each in arrays]
        before = [_digest(each) for each in arrays]
        yield
        return {
            "context": id(queue.device._context),
            "arrays": list(zip(places, before, [_digest(each) for each in arrays], strict=True)),
        }

    def _allocate(self, call: Call, device: Device, *others: Any, **options: Any) -> Look:
        judged = self._here.depth == 0 and call.name != "Device._over_host_memory"
        yield
        made, gone = call.result, None
        if call.name == "Device._over_host_memory" or made.usm_type != "device":
            self._read_in_place.add(id(device._context))
        if judged:
            with self._lock:
                pieces = self._pieces.pop((call.line, made.nbytes), None) or deque(maxlen=MOST_PIECES)
                self._pieces[call.line, made.nbytes] = pieces
                if len(self._pieces) > MOST_LINES:
                    self._pieces.popitem(last=False)
                gone = next((piece for piece in pieces if piece.gone), None)
                if gone is not None:
                    pieces.remove(gone)
                pieces.append(memory_of(made))
        return {"again": 0 if gone is None else made.nbytes}

    def _program(self, call: Call, device: Device, source: Any, options: Any = ()) -> Look:
        yield
        # hiprtc looks whether the device takes the code that the program will load.
        looks = any(name.startswith("forebay.hiprtc.") for name in watching.modules_of_callers())
        return {"program": None if looks else (device.name, *read_source(source, options))}

    def _step(self, call: Call, queue: Queue, *others: Any, **options: Any) -> Look:
        yield
        self._stepping.setdefault(queue.id, (queue, call.line))
        return {}

    def _instantiate(self, call: Call, graph: Any, *others: Any, **options: Any) -> Look:
        yield
        kernels = sum(node.kind == "kernel" for node in graph.nodes)
        return {"graph": self._number(call.result), "kernels": kernels, "keeps_to_device": _keeps_to_device(graph)}

    def _launch_graph(self, call: Call, graph: Any, queue: Queue) -> Look:
        nested = self._here.depth > 0
        yield
        keeps = call.name == "Graph.launch" and _keeps_to_device(graph)
        device, known = self._number(queue.device), self._numbers.get(graph)
        return {"device": device, "nested": nested, "graph": known, "keeps_to_device": keeps}

    def _set_kernel(self, call: Call, graph: Any, *given: Any, **by_name: Any) -> Look:
        yield
        node, kernel, _, block = (*given, None, None, None, None)[:4]
        chosen = None if len(given) < 4 else (id(kernel), block)  # themselves they would keep memory
        return {"graph": self._numbers.get(graph), "node": id(node), "chosen": chosen}

    def _null_waited(self, queue: Queue, kernel: Kernel, waits: int) -> None:
        self._add(Record("null queue", watching.line_of_program(), facts={"waits": waits}))

    # -- queues that wait for each other

    def _used(self, queue: Queue, memory: set[int]) -> None:
        self._uses[queue.id] |= memory

    def _watch(self, *waiting: Queue) -> None:
        """Look from now on at what queues use: these, which may be older than the recorder, and all others."""
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
        nested, before = self._here.depth > 0, queue.stats.waits_made
        yield
        on: Any = event_or_queue
        producer = on if isinstance(on, Queue) else producer_of(on) if isinstance(on, Event) else None
        facts = {} if nested else {"held": self._held(queue)}
        if nested or producer is None or producer == queue or queue.capturing or producer.closed:
            return facts
        self._watch(queue, producer)
        unclear = queue.adopted or queue.device._context is not producer.device._context
        waiter, waits = _ordered(queue, unclear), queue.stats.waits_made - before
        return facts | {"waiter": waiter, "producer": _ordered(producer, producer.adopted), "waits": waits}

    # -- queues that are held

    def _host(self, call: Call, queue: Queue, function: Any) -> Look:
        returned = threading.Event()
        counts = queue.device.driver.most_held is not None and callable(function)
        if counts:
            call.arguments, call.keywords = (queue, _telling(function, returned)), {}
        yield
        return {"held": self._hold(queue, returned.is_set) if counts else None}

    def _gate(self, call: Call, queue: Queue) -> Look:
        yield
        gate = ref(call.result)  # dropping the gate opens it
        return {"held": self._hold(queue, lambda: (held := gate()) is None or held.opened)}

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


RECORDED: dict[str, Callable[..., Look]] = {
    **dict.fromkeys(("Queue.finish", "Device.finish", "Event.wait"), CallRecorder._finish),
    **dict.fromkeys(("Buffer.get", "Event.elapsed"), CallRecorder._ask),
    **dict.fromkeys(("Graph.launch", "ExecutableGraph.launch"), CallRecorder._launch_graph),
    **{f"Device.{name}": CallRecorder._allocate for name in MORE_CALLS[Device]},
    "Device.program": CallRecorder._program,
    "ExecutableGraph.set_kernel": CallRecorder._set_kernel,
    "Graph.instantiate": CallRecorder._instantiate,
    "Queue.copy": CallRecorder._copy,
    "Queue.gate": CallRecorder._gate,
    "Queue.host": CallRecorder._host,
    "Queue.step": CallRecorder._step,
    "Queue.wait": CallRecorder._wait,
    "launch_with_arrays": CallRecorder._arrays,
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


def _telling(function: Callable[[], object], returned: threading.Event) -> Callable[[], object]:
    """Return a host function that does the same, and tells that it has returned."""

    @functools.wraps(function)
    def telling() -> object:
        try:
            return function()
        finally:
            returned.set()

    telling.__qualname__ = str(getattr(function, "__qualname__", type(function).__qualname__))  # errors say it
    return telling
