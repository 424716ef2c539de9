"""What is noted while a trace runs."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from forebay.core.errors import Error
from forebay.queues import device as devices
from forebay.queues import queue as queues
from forebay.queues.kernels import kernel as kernels
from forebay.queues.memory.allocation import open_devices
from forebay.queues.memory.buffer import Buffer
from forebay.tracing import calls, watching
from forebay.tracing.device_times import DeviceTimes, RanTime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from forebay.core.stats import Stats
    from forebay.queues.device import Device
    from forebay.queues.queue import Queue

MOST_HOST_CALLS = 1 << 20  # the newest are kept


@dataclass(frozen=True)
class HostCall:
    """A call of a method, or a host function that ran. Times are in ticks."""

    name: str
    line: str
    thread: int
    begin: int
    end: int
    about: str  # the queue, buffer or file that it is about; may be empty


@dataclass(frozen=True)
class QueueMade:
    """A queue. The driver's handle is its own from this time on."""

    time: int
    handle: int
    name: str
    id: int
    device: str


class Counters:
    """What each Device did since this was made. Its owner passes on the calls that it hears of."""

    def __init__(self) -> None:
        self._earlier = {id(device): device.stats for device in open_devices()}
        self._gone: list[tuple[str, Stats]] = []

    def began(self, call: watching.Call) -> None:
        """Keep the counters of a device that is about to go."""
        if call.name == "Device._disband":
            self._gone.append(self._of(call.arguments[0]))
            self._earlier.pop(id(call.arguments[0]), None)

    def all(self) -> list[tuple[str, Stats]]:
        """The name of each Device, and what it did."""
        return self._gone + [self._of(device) for device in open_devices()]

    def _of(self, device: Device) -> tuple[str, Stats]:
        stats = device.stats
        earlier = self._earlier.get(id(device))
        return device.name, stats if earlier is None else stats - earlier


class Recorder:
    """Notes from `begin` to `end`, with `device_times` also when commands ran. There is one at a time in a process."""

    first: tuple[int, int]  # when it began: ticks, and nanoseconds of `time.monotonic_ns`
    last: tuple[int, int]  # when it ended
    began_at: float  # seconds since 1970
    entries: NDArray[Any]  # as `calls.entries` returns it; known at the end, as the next
    lost: int  # how many older ones are not in it
    stats: list[tuple[str, Stats]]  # what each device did meanwhile

    def __init__(self, device_times: bool = False) -> None:
        self._times = DeviceTimes() if device_times else None
        self.queues: list[QueueMade] = []
        self.kernels: list[tuple[int, int, str]] = []  # when a driver's kernel was made, its handle and name
        self.host_calls: deque[HostCall] = deque(maxlen=MOST_HOST_CALLS)
        self.threads: dict[int, str] = {}  # the names by the system's numbers
        self.ran: dict[int, RanTime] | None = None  # by the number of the call; None without the device's times
        self._process = os.getpid()

    def begin(self) -> None:
        """Begin to note. Queues and kernels that there are already are known too.

        Raises Error when another trace is running.
        """
        global _running
        with _lock:
            if _running is not None and not _running.is_forked:
                raise Error("a trace is running already, and a process can have one at a time")
            _running = self
        try:
            self._number = calls.begin()
            self.began_at = time.time()
            self.first = calls.now()
            self.kernels += [(0, handle, name) for handle, name in kernels.names().items()]
            self._counters = Counters()
            watching.add(self)
            if self._times is not None:
                self._times.begin()
            for device in open_devices():
                self._add_device(device)
        except BaseException:
            self._stop()
            raise

    def end(self) -> None:
        """Note no more."""
        self._stop()
        self.last = calls.now()
        if self._times is not None:
            self.ran = self._times.end(1 / self.nanoseconds_a_tick)
        self.threads.update({each.native_id: each.name for each in threading.enumerate() if each.native_id})
        self.entries, self.lost = calls.entries(self._number)
        self.stats = self._counters.all()

    @property
    def nanoseconds_a_tick(self) -> float:
        """How long a tick is."""
        return calls.nanoseconds_a_tick(self.first, self.last)

    @property
    def is_forked(self) -> bool:
        """Whether this process is a child of the one that the trace is of."""
        return self._process != os.getpid()

    def _stop(self) -> None:
        global _running
        watching.remove(self)
        calls.unwatch()
        _running = None

    def _add_device(self, device: Device) -> None:
        calls.watch(device.driver.table)
        for handle, name, number in calls.queues_of(device):
            self.queues.append(QueueMade(0, handle, name, number, device.name))
        if self._times is not None:
            self._times.add_device(device)

    # -- a listener

    def began(self, call: watching.Call) -> None:
        """Wrap a host function, so that its run is noted."""
        self._counters.began(call)
        if call.name == "Queue.host" and len(call.arguments) == 2 and callable(call.arguments[1]):
            queue, function = call.arguments
            call.arguments = (queue, watching.with_end(function, partial(self._host_function_ended, call.line)))
        if call.name == "Device.queue" and self._times is not None:
            call.arguments, call.keywords = call.arguments[:3], call.keywords | {"timing": True}

    def ended(self, call: watching.Call) -> None:
        """Note a call."""
        if call.name == "Kernel._create":
            if not call.raised:
                self.kernels.append((call.end, call.result, call.arguments[0].name))
        elif call.name not in ("Device._disband", "Device.queue"):
            self._note(call.name, call.line, call.begin, call.end, _subject(call.arguments[0]))

    def queue_made(self, queue: Queue) -> None:
        """Note whose the driver's handle is from now on."""
        calls.watch(queue.device.driver.table)
        handle, name, number = calls.queue_of(queue)
        self.queues.append(QueueMade(calls.ticks(), handle, name, number, queue.device.name))
        if self._times is not None:
            self._times.add_queue(queue)

    def _note(self, name: str, line: str, begin: int, end: int, about: str) -> None:
        thread = threading.get_native_id()
        if thread not in self.threads:
            self.threads[thread] = threading.current_thread().name
        self.host_calls.append(HostCall(name, line, thread, begin, end, about))

    def _host_function_ended(self, line: str, name: str, begin: int) -> None:
        self._note(f"host function {name}", line, begin, calls.ticks(), "")


_running: Recorder | None = None
_lock = threading.Lock()


def _subject(thing: object) -> str:
    """Return what a call is about, without asking a driver."""
    if isinstance(thing, devices.Device):
        return str(thing.name)
    return repr(thing) if isinstance(thing, (queues.Queue, Buffer)) else ""
