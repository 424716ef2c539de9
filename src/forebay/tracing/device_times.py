"""When commands ran on the device, in ticks of the host's clock.

A driver tells only how much time lies between two events of its own. So events are taken at known times of the host,
the first with each device and then every ten seconds, on a queue that nothing else is submitted to; what lies between
two of them is interpolated, because the two clocks do not run alike.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING
from weakref import WeakSet

from forebay.core.errors import ClosedError, Error
from forebay.core.process import finished_before_exit
from forebay.tracing import calls

if TYPE_CHECKING:
    from forebay.core.driver import DriverDevice
    from forebay.queues.device import Device
    from forebay.queues.queue import Queue

EVERY = 10.0  # seconds: the clock of some devices wraps after minutes, and CUDA says milliseconds in 24 bits
APART = 1.0  # seconds between references that say how fast the clocks run: each is known to some microseconds only
TRIES = 5  # of which the one that is known best counts
PATIENCE = 200_000  # times that the driver is asked whether an event is signalled
LAST_PATIENCE = 50 * PATIENCE  # a second or two: without any reference all times would be lost


@dataclass(frozen=True)
class Reference:
    """An event at a known time of the host."""

    ticks: float  # the time of the host
    within: float  # how far it may be from that
    position: float  # nanoseconds of the device since its first reference


@dataclass(frozen=True)
class RanTime:
    """When a command ran, in ticks of the host: from `begin` to `end`; known to `within` that number of ticks."""

    begin: int
    end: int
    within: int


class DeviceTimes:
    """Has the times of commands taken from `begin` to `end`."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._drivers: dict[int, tuple[DriverDevice, object, int]] = {}  # by context: with a queue of our own
        self._devices: WeakSet[Device] = WeakSet()  # a device that is dropped counts as closed
        self._events: dict[int, list[tuple[int, int, float, float]]] = {}  # number, event, ticks, within
        self._numbers = 0
        self._lock = threading.Lock()  # of all these
        self._over = threading.Event()

    def begin(self) -> None:
        """Take times from now on, of the queues of devices that were added."""
        calls.want_times(True)
        threading.Thread(target=self._keep_taking, name="forebay device times", daemon=True).start()

    def add_device(self, device: Device) -> None:
        """Take the times of the queues that a device has. Its driver's calls are watched already."""
        if self._knows(device):
            calls.queues_of(device, take_times=True)

    def add_queue(self, queue: Queue) -> None:
        """Take the times of a queue, if it has timed events."""
        if self._knows(queue.device):
            calls.time_queue(queue)

    def _knows(self, device: Device) -> bool:
        """Whether times can be taken on a device, of which there is a first reference then."""
        driver = device.driver
        if not driver.executes:
            return False
        with self._lock:
            self._devices.add(device)
            if driver.context_handle not in self._drivers:
                try:
                    native, handle = driver.create_queue(0, True)
                except Error:
                    return False  # its commands have no times, which the trace says
                self._drivers[driver.context_handle] = driver, native, handle
                self._events[driver.context_handle] = []
                self._take(driver.context_handle)
        return True

    def _take(self, context: int, patience: int = PATIENCE) -> None:
        """Take a reference: the one of several that is known best."""
        driver, _, handle = self._drivers[context]
        marks = (calls.mark_time(driver.table, handle, patience) for _ in range(TRIES))
        marked = takewhile(lambda mark: mark is not None, marks)  # a device that is busy is not asked again and again
        found = sorted((each for each in marked if each is not None), key=lambda each: each[2] - each[1])
        for event, _, _ in found[1:]:
            calls.release(driver.table, event)
        for event, before, after in found[:1]:
            self._numbers += 1
            self._events[context].append((self._numbers, event, (before + after) / 2, (after - before) / 2))
            calls.set_reference(context, event, self._numbers)

    def _keep_taking(self) -> None:
        while not self._over.wait(EVERY):
            try:
                with finished_before_exit("taking the time"), self._lock:
                    for context in self._drivers if not self._over.is_set() else ():
                        self._take(context)
            except ClosedError:
                return

    def end(self, speed: float) -> dict[int, RanTime]:
        """Take no more times, and give everything back, but in a forked child; `speed` is ticks in a nanosecond.

        Returns the times by the number of the call. Of what is not done there is none.
        """
        self._over.set()
        calls.want_times(False)
        if self._process != os.getpid():
            return {}
        with self._lock:
            for context in self._drivers:
                self._take(context, PATIENCE if self._events[context] else LAST_PATIENCE)
            read = calls.read_all_times()
            clocks = {context: self._clock(context, speed) for context in self._drivers}
            by_reference = {
                number: (clocks[context], position)
                for context, events in self._events.items()
                for (number, *_), position in zip(events, clocks[context].positions, strict=True)
            }
            ran = {}
            for number, reference, *span in read:
                clock, position = by_reference[reference]
                begin, end = (round(clock.ticks(position + each)) for each in span)
                ran[number] = RanTime(begin, end, round(clock.within))
            self._give_back()
        return ran

    def _clock(self, context: int, speed: float) -> Clock:
        table = self._drivers[context][0].table
        positions: list[float] = []
        events = self._events[context]
        if events:  # a device that was busy all the time has none
            positions.append(0.0)
        for (_, earlier, *_), (_, event, *_) in pairwise(events):
            positions.append(positions[-1] + (calls.elapsed(table, earlier, event) or 0.0))
        return Clock(
            [Reference(*event[2:], position) for event, position in zip(events, positions, strict=True)], speed
        )

    def _give_back(self) -> None:
        for context, (driver, _, handle) in self._drivers.items():
            for _, event, *_ in self._events[context]:
                calls.release(driver.table, event)
            calls.destroy_queue(driver.table, handle)
        for device in self._devices:
            calls.keep_gil_as_before(device)
        self._drivers.clear()
        self._devices.clear()


class Clock:
    """Relates a device's clock to the host's."""

    def __init__(self, references: list[Reference], speed: float) -> None:
        self._speed = speed  # ticks of the host in a nanosecond, as far as the references do not say
        self.positions: list[float] = [reference.position for reference in references]
        self._known: list[Reference] = []
        for reference in references:
            if self._known and reference.position - self._known[-1].position < APART * 1e9:
                self._known[-1] = min(self._known[-1], reference, key=lambda each: each.within)
            else:
                self._known.append(reference)
        # How far a time may be from the right one, in ticks
        self.within: float = max((reference.within for reference in self._known), default=0.0)

    def ticks(self, position: float) -> float:
        """The host's time at a time of the device, given in nanoseconds since its first reference."""
        at = bisect_right(self._known, position, key=lambda reference: reference.position)
        before, after = self._known[max(at - 1, 0)], self._known[min(at, len(self._known) - 1)]
        if after.position > before.position:
            speed = (after.ticks - before.ticks) / (after.position - before.position)
        else:
            speed = self._speed
        return before.ticks + (position - before.position) * speed
