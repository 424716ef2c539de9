"""Habits of the host: what it waits for."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from forebay.queues.device import Device
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.shapes import StridedView
from forebay.queues.queue import Queue
from forebay.tracing.findings import OFTEN, Findings
from forebay.tracing.methods import times_exposed

if TYPE_CHECKING:
    from forebay.core.stats import Stats
    from forebay.events.event import Event
    from forebay.tracing.watching import Call

SYNCHRONIZES = ("Queue.finish", "Device.finish", "Event.wait")
FEW = 32  # commands between two waits of the host: who submits more waits so that there are not too many
ASKS = ("Buffer.get", "Event.elapsed", "launch_with_arrays")  # the host wants to know something

NEEDLESS = "waited for what was known to be done"
ONE_BY_ONE = "finished one queue after another: one Device.finish() waits for all"
IN_A_LOOP = (
    "the host waited in each turn of a loop, and read nothing then: a queue runs in order by itself, and queue.wait() "
    "orders queues; wait once, before the host reads"
)


@dataclass(frozen=True)
class Moment:
    """How things were on a device."""

    stats: Stats
    copies: int  # that were seen, and tell the host nothing
    graphs: int  # launches that were seen, likewise
    asked: int  # how often the host wanted to know something, or may read without a call


@dataclass
class _Thread:
    """What a thread waited for last."""

    synchronized: Device | Queue | Event | None = None
    commands: int = -1  # submitted to that one's device by then
    moments: WeakKeyDictionary[Device, Moment] = field(default_factory=WeakKeyDictionary)  # when it had waited


class HostWaits:
    """Looks at each wait of the host."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._threads = threading.local()
        self._finished: WeakKeyDictionary[Queue, int] = WeakKeyDictionary()  # their epochs then
        self._asked: dict[int, int] = {}  # by the context's id, as the next; kept contexts would not close
        self._read_in_place: set[int] = set()
        self._copies: WeakKeyDictionary[Device, int] = WeakKeyDictionary()
        self._graphs: WeakKeyDictionary[Device, int] = WeakKeyDictionary()
        self._keeps_to_device: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # executable graphs
        self._exposed = times_exposed()

    @property
    def _here(self) -> _Thread:
        try:
            return self._threads.here  # type: ignore[no-any-return]
        except AttributeError:
            self._threads.here = _Thread()
            return self._threads.here  # type: ignore[no-any-return]

    def queue_made(self, queue: Queue) -> None:
        """Note that others submit to a queue, who may want to read what forebay does not see."""
        if queue.adopted:
            self._read_in_place.add(id(queue.device._context))

    def began(self, call: Call, around: list[Call]) -> None:
        """Note how things are before a wait."""
        if call.name in SYNCHRONIZES:
            timed = len(call.arguments) > 1 or call.keywords  # asks again and again instead, which does not count
            if not timed and not around:
                call.notes["before"] = _device_of(call).stats

    def ended(self, call: Call, around: list[Call]) -> None:
        """Judge what a wait was for, and note what is a reason for one."""
        if call.name in SYNCHRONIZES:
            self._judge(call, call.notes.get("before"))
        elif call.name in ASKS:
            self._ask(call.arguments[0].device)
        elif call.name == "Queue.copy" and len(call.arguments) == 3:
            self._note_copy(*call.arguments)
        elif call.name == "Graph.instantiate":
            self._keeps_to_device[call.result] = _keeps_to_device(call.arguments[0])
        elif call.name == "Graph.launch" and not around:
            self._note_graph(_keeps_to_device(call.arguments[0]), *call.arguments[1:], **call.keywords)
        elif call.name == "ExecutableGraph.launch" and not around:
            known = self._keeps_to_device.get(call.arguments[0], False)
            self._note_graph(known, *call.arguments[1:], **call.keywords)
        elif (
            call.name == "Device.empty" and call.result.usm_type != "device"
        ) or call.name == "Device._over_host_memory":
            self._read_in_place.add(id(call.arguments[0]._context))

    def end(self) -> None:
        """Everything was judged at once."""

    # -- what the host wants to know

    def _ask(self, device: Device) -> None:
        context = id(device._context)
        self._asked[context] = self._asked.get(context, 0) + 1

    def _note_copy(self, queue: Queue, to: object, source: object) -> None:
        """Note a copy. Whoever copies from pinned memory has to wait before he writes there again."""
        device = queue.device
        pinned = isinstance(source, np.ndarray) and device._is_pinned(source.ctypes.data, source.nbytes)
        if pinned or not isinstance(to, (Buffer, StridedView)):
            self._ask(device)
        elif isinstance(to, Buffer) and not isinstance(source, StridedView):
            self._copies[device] = self._copies.get(device, 0) + 1

    def _note_graph(self, keeps_to_device: bool, queue: Queue) -> None:
        if keeps_to_device:
            self._graphs[queue.device] = self._graphs.get(queue.device, 0) + 1

    def _moment(self, device: Device, stats: Stats) -> Moment:
        asked = self._asked.get(id(device._context), 0)
        return Moment(stats, self._copies.get(device, 0), self._graphs.get(device, 0), asked)

    def _read_nothing(self, device: Device, now: Moment, last: Moment | None) -> bool:
        """Return whether a few commands were submitted since the last wait, more than copies, and none of them tells
        the host anything.
        """
        if last is None or id(device._context) in self._read_in_place or times_exposed() != self._exposed:
            return False
        done = now.stats - last.stats
        return (
            done.copies < _commands(done) <= FEW
            and done.host_functions == 0
            and done.copies == now.copies - last.copies
            and done.graph_launches == now.graphs - last.graphs
            and now.asked == last.asked
        )

    # -- the waits

    def _judge(self, call: Call, before: Stats | None) -> None:
        """Look at what a thread waited for. That it was done sooner than expected is chance, and no habit."""
        here = self._here
        on, device = call.arguments[0], _device_of(call)
        stats = device.stats
        spent = call.end - call.begin
        unchanged = here.commands == _commands(stats)  # since it waited last
        now = self._moment(device, stats)
        if before is not None:
            if isinstance(on, Queue) and not (unchanged and isinstance(here.synchronized, Device)):
                needless = self._finished.get(on, 0) == on.epoch
            else:
                needless = unchanged
            after_another = isinstance(here.synchronized, Queue) and here.synchronized != on
            if needless and stats.host_syncs == before.host_syncs:
                self._findings.add(NEEDLESS, call.line, spent=spent)
            elif isinstance(on, Queue) and unchanged and after_another:
                self._findings.add(ONE_BY_ONE, call.line, spent=spent)
            elif self._read_nothing(device, now, here.moments.get(device)):
                self._findings.add(IN_A_LOOP, call.line, spent=spent, least=OFTEN)
        if isinstance(on, Queue):
            self._finished[on] = on.epoch
        here.synchronized, here.commands = on, _commands(stats)
        here.moments[device] = now


def _keeps_to_device(graph: Any) -> bool:
    """Return whether a graph copies nothing to or from the host, and calls no function of it."""
    return all(
        node.kind in ("kernel", "fill", "empty", "alloc", "free")
        or (node.kind == "copy" and isinstance(node.work.dst, Buffer) and isinstance(node.work.src, Buffer))
        for node in graph.nodes
    )


def _is_of_host(call: Call) -> bool:
    if call.name != "Device.empty":
        return False
    return (call.keywords.get("usm_type") or (*call.arguments[3:], "device")[0]) != "device"  # type: ignore[no-any-return]


def _device_of(call: Call) -> Device:
    on = call.arguments[0]
    return on if call.name == "Device.finish" else on.device  # type: ignore[no-any-return]


def _commands(stats: Stats) -> int:
    return stats.launches + stats.copies + stats.fills + stats.host_functions + stats.graph_launches
