"""Habits of doing again what is done already: copies, memory, programs, changes of graphs."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from forebay.events.event import Event
from forebay.queues.device import Device
from forebay.queues.graphs.executable import ExecutableGraph
from forebay.queues.kernels.program import read_source
from forebay.queues.launch import launch
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.shapes import StridedView
from forebay.queues.queue import Queue
from forebay.tracing.findings import OFTEN, Findings
from forebay.tracing.methods import Memory, memory_of, place_of, version_of
from forebay.tracing.watching import modules_of_callers

if TYPE_CHECKING:
    from forebay.tracing.watching import Call, Names

# What habits are looked for in, beside what everybody watches
MORE_CALLS: Names = {
    Queue: ("wait", "gate"),
    Event: ("elapsed",),
    Device: ("empty", "zeros", "array", "_over_host_memory"),
    ExecutableGraph: ("set_kernel",),
    launch: ("launch_with_arrays",),
}

MOST_PLACES = 4096  # memory whose last copy is remembered, and arrays likewise
MOST_PIECES = 16  # of memory, likewise, that one line has allocated

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


@dataclass
class _Graph:
    """What becomes of an executable graph."""

    kernels: int
    used: dict[int, tuple[int, Any]] = field(default_factory=dict)  # the kernel and block of each node; by its id
    changed: set[int] = field(default_factory=set)  # nodes, since the last launch
    calls: list[tuple[str, int]] = field(default_factory=list)  # that changed them: line and ticks
    launches: int = 0
    after_changes: int = 0  # launches before which many were changed
    lines: dict[str, list[int]] = field(default_factory=dict)  # of these changes: times and ticks
    fits_step: bool = True

    def launched(self) -> None:
        """Note a launch."""
        self.launches += 1
        if 2 * len(self.changed) >= self.kernels > 0:
            self.after_changes += 1
            for line, spent in self.calls:
                total = self.lines.setdefault(line, [0, 0])
                total[0] += 1
                total[1] += spent
        self.changed.clear()
        self.calls.clear()


class Repetitions:
    """Looks at what is done again and again."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._lock = threading.RLock()  # the collector, or the handler of a signal, may run any code
        self._uploads: OrderedDict[Any, Any] = OrderedDict()  # by place: version and bytes' hash
        self._downloads: OrderedDict[Any, Any] = OrderedDict()  # by place: version
        self._arrays: OrderedDict[Any, Any] = OrderedDict()  # by line and place: bytes' hash
        self._allocated: OrderedDict[Any, deque[Memory]] = OrderedDict()  # by line and number of bytes
        self._built: set[tuple[str, Any, Any]] = set()
        self._stepping: dict[int, tuple[Queue, str]] = {}
        self._executables: WeakKeyDictionary[Any, _Graph] = WeakKeyDictionary()
        self._graphs: list[_Graph] = []  # of these, also when they are gone

    def queue_made(self, queue: Queue) -> None:
        """Nothing to note."""

    def began(self, call: Call, around: list[Call]) -> None:
        """Note how things are before the call."""
        if call.name == "Queue.copy" and len(call.arguments) == 3:
            self._note_copy(call, *call.arguments)
        elif call.name == "launch_with_arrays" and not call.arguments[0].capturing:
            call.notes["unchanged"] = self._note_arrays(call)

    def ended(self, call: Call, around: list[Call]) -> None:
        """Judge what it did."""
        if call.name == "Queue.copy":
            if "upload" in call.notes:
                self._judge_upload(call, *call.notes["upload"])
            elif "download" in call.notes:
                self._judge_download(call, *call.notes["download"])
        elif call.name == "launch_with_arrays" and "unchanged" in call.notes:
            self._judge_arrays(call, call.notes["unchanged"])
        elif call.name in ("Device.empty", "Device.zeros", "Device.array"):
            if not around:
                self._judge_allocation(call)
        elif call.name == "Device.program":
            self._judge_program(call, *call.arguments, **call.keywords)
        elif call.name == "Queue.step":
            self._stepping.setdefault(call.arguments[0].id, (call.arguments[0], call.line))
        elif call.name == "Graph.instantiate":
            kernels = sum(node.kind == "kernel" for node in call.arguments[0].nodes)
            self._executables[call.result] = _Graph(kernels)
            self._graphs.append(self._executables[call.result])
        elif call.name == "ExecutableGraph.set_kernel":
            self._note_change(call)
        elif call.name == "ExecutableGraph.launch":
            graph = self._executables.get(call.arguments[0])
            if graph is not None:
                graph.launched()

    def end(self) -> None:
        """Judge what shows at the end only."""
        for queue, line in self._stepping.values():
            stats = queue.stats
            if stats.steps_given_up or (stats.steps >= 4 and 2 * stats.steps_recorded > stats.steps):
                self._findings.add(UNLIKE, line, stats.steps_recorded)
        for graph in self._graphs:
            if graph.fits_step and graph.after_changes >= OFTEN and 2 * graph.after_changes >= graph.launches:
                for line, (times, spent) in graph.lines.items():
                    self._findings.add(SETS_KERNELS, line, times, spent)

    def _remember(self, known: OrderedDict[Any, Any], key: object, value: object) -> Any:
        """Put in what is known of a key. Returns what was known before."""
        with self._lock:
            before = known.pop(key, None)
            known[key] = value
            if len(known) > MOST_PLACES:
                known.popitem(last=False)
        return before

    # -- copies

    def _note_copy(self, call: Call, queue: Queue, to: object, source: object) -> None:
        if queue.capturing:
            return
        if isinstance(to, Buffer):
            if not isinstance(source, (Buffer, StridedView)) and not to.closed:
                digest = _digest(source)
                if digest is not None:
                    call.notes["upload"] = to, version_of(to), digest
        elif isinstance(source, Buffer) and not source.closed:
            call.notes["download"] = source, version_of(source)

    def _judge_upload(self, call: Call, to: Buffer, version: Any, digest: bytes) -> None:
        known = self._remember(self._uploads, place_of(to), (version_of(to), digest))
        if version is not None and known == (version, digest):
            self._findings.add(UNCHANGED, call.line, spent=call.end - call.begin, nbytes=to.nbytes)

    def _judge_download(self, call: Call, source: Buffer, version: Any) -> None:
        known = self._remember(self._downloads, place_of(source), version)
        if version is not None and known == version and source.nbytes:
            self._findings.add(DOWNLOADED, call.line, spent=call.end - call.begin, nbytes=source.nbytes)

    # -- arrays as arguments

    def _note_arrays(self, call: Call) -> int:
        """Return how many bytes of arrays are as they were after the launch before by this line."""
        unchanged = {}
        for array in call.arguments[4]:
            if isinstance(array, np.ndarray):
                key = call.line, array.ctypes.data, array.nbytes
                digest = _digest(array)
                if digest is not None and self._arrays.get(key) == digest:
                    unchanged[key] = array.nbytes
        return sum(unchanged.values())

    def _judge_arrays(self, call: Call, unchanged: int) -> None:
        for array in call.arguments[4]:
            if isinstance(array, np.ndarray):
                self._remember(self._arrays, (call.line, array.ctypes.data, array.nbytes), _digest(array))
        if unchanged:
            self._findings.add(ARRAYS, call.line, spent=call.end - call.begin, nbytes=unchanged, least=OFTEN)

    # -- memory, programs and graphs

    def _judge_allocation(self, call: Call) -> None:
        memory, nbytes = memory_of(call.result), call.result.nbytes
        with self._lock:
            pieces = self._allocated.get((call.line, nbytes)) or deque(maxlen=MOST_PIECES)
            self._remember(self._allocated, (call.line, nbytes), pieces)
            gone = next((piece for piece in pieces if piece.gone), None)
            if gone is not None:
                pieces.remove(gone)
            pieces.append(memory)
        if gone is not None and nbytes:
            self._findings.add(ALLOCATED, call.line, spent=call.end - call.begin, nbytes=nbytes, least=OFTEN)

    def _judge_program(self, call: Call, device: Device, source: Any, options: Any = ()) -> None:
        if any(name.startswith("forebay.hiprtc.") for name in modules_of_callers()):
            return  # looks whether the device takes the code that the program will load
        key = (device.name, *read_source(source, options))
        with self._lock:
            again = key in self._built
            self._built.add(key)
        if again:
            self._findings.add(COMPILED_AGAIN, call.line, spent=call.end - call.begin)

    def _note_change(self, call: Call) -> None:
        """Note a change of a kernel node. A step takes other arguments, but no other kernels and blocks."""
        graph = self._executables.get(call.arguments[0])
        if graph is None:
            return
        if len(call.arguments) < 5:  # given by name
            graph.fits_step = False
            return
        _, node, kernel, _, block, *_ = call.arguments
        chosen = id(kernel), block  # the objects themselves would keep memory from being given back
        if graph.used.setdefault(id(node), chosen) != chosen:
            graph.fits_step = False
        graph.changed.add(id(node))
        graph.calls.append((call.line, call.end - call.begin))


def _digest(source: Any) -> bytes | None:
    """Return a hash of the bytes; None for what has no contiguous ones, of which the call will say what is wrong."""
    try:
        return hashlib.blake2b(memoryview(source), digest_size=16).digest()
    except (TypeError, ValueError, BufferError):
        return None
