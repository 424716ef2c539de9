"""Makes tracks of what was noted: what each queue was given, the waits between queues, and the calls of the host.

The driver's handles are used again, so each is looked up together with a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from forebay.tracing.calls import Kind
from forebay.tracing.device_times import RanTime
from forebay.tracing.recording import QueueMade, Recorder

T = TypeVar("T")

LAUNCH_COMMAND = 0  # CommandKind in core/driver.hpp
DIRECTIONS = {0: "copy", 1: "copy to host", 2: "copy from host", 3: "copy"}
WORK = (Kind.LAUNCH, Kind.COPY, Kind.FILL, Kind.HOLD, Kind.REPLAY)
COMMANDS = (*WORK, Kind.MARKER, Kind.BARRIER)


@dataclass(slots=True)
class Slice:
    """Something that took time on a track. Times are in ticks.

    It is a "launch", "copy", "fill", "marker", "wait", "host function" (which holds the queue), "gate" or "recording";
    on the track of a thread a "call", or "driver" for a wait inside the driver.
    """

    name: str
    kind: str
    begin: int
    end: int
    about: dict[str, Any]
    commands: int = 1  # that it stands for: more than one for a step or graph that is submitted by one call
    position: int = 0  # in its queue's track, from 1
    submitted: int = 0  # commands on its queue so far, without markers and waits


@dataclass(slots=True)
class Arrow:
    """A wait: from the slice that made the marker to the one that carried the wait."""

    producer: QueueTrack
    source: Slice
    waiter: QueueTrack | int  # a thread, when the host waits
    target: Slice


@dataclass
class QueueTrack:
    """What a queue was given, in this order. The times are those of the host's calls, not of the device."""

    queue: QueueMade
    slices: list[Slice] = field(default_factory=list)
    # A slice of these, and the time in which the device ran it, of kind "ran"
    ran: list[tuple[Slice, Slice]] = field(default_factory=list)
    # From when on how many commands were submitted and not known to be done; markers and waits do not count
    in_flight: list[tuple[int, int]] = field(default_factory=list)

    def note_in_flight(self, time: int, done: int, given: int) -> None:
        """Note how many commands lie between two positions, if that number is new."""
        count = self.slices[given - 1].submitted - (self.slices[done - 1].submitted if done else 0)
        if count != (self.in_flight[-1][1] if self.in_flight else 0):
            self.in_flight.append((time, count))


class ByTime(Generic[T]):
    """What a handle meant from some time on."""

    def __init__(self) -> None:
        self._known: defaultdict[int, tuple[list[int], list[T]]] = defaultdict(lambda: ([], []))

    def add(self, time: int, handle: int, meaning: T) -> None:
        """Add a meaning; of one handle in the order of time."""
        times, meanings = self._known[handle]
        times.append(time)
        meanings.append(meaning)

    def find(self, time: int, handle: int) -> T | None:
        """Return what the handle meant at that time."""
        if handle not in self._known:
            return None
        times, meanings = self._known[handle]
        place = bisect_right(times, time)
        return meanings[place - 1] if place else None


@dataclass(slots=True)
class _Entry:
    """One of `calls.entries`, with the handles that it waits for."""

    number: int
    begin: int
    end: int
    object: int
    detail: int
    event: int
    thread: int
    kind: int
    failed: int
    waits: int
    extra: int
    waited: list[int] = field(default_factory=list)


class Timeline:
    """All tracks."""

    def __init__(self, recorder: Recorder) -> None:
        self.tracks: dict[tuple[str, int], QueueTrack] = {}  # by the name of the device, and the queue's id
        self.queues: ByTime[QueueTrack] = ByTime()
        self.kernels: ByTime[str] = ByTime()
        self.points: ByTime[tuple[QueueTrack, Slice]] = ByTime()
        self.recordings: ByTime[list[str]] = ByTime()
        self.threads: defaultdict[int, list[Slice]] = defaultdict(list)  # of the host: an outer one before those in it
        self.arrows: list[Arrow] = []
        self.unknown_waits: int = 0  # for markers that were made before the trace began, or of which nothing was kept
        self.unknown_queues: int = 0  # commands of queues that the trace does not know; they are left out
        for made in sorted(recorder.queues, key=lambda made: made.time):
            track = self.tracks.setdefault((made.device, made.id), QueueTrack(made))
            self.queues.add(made.time, made.handle, track)
        for time, handle, name in sorted(recorder.kernels, key=lambda made: made[0]):
            self.kernels.add(time, handle, name)
        for call in recorder.host_calls:
            about = {name: value for name, value in (("about", call.about), ("line", call.line)) if value}
            self.threads[call.thread].append(Slice(call.name, "call", call.begin, call.end, about))
        self.entries: list[_Entry] = _read(recorder)
        self.ran: dict[int, RanTime] = recorder.ran or {}
        self._build()

    def _build(self) -> None:
        shown: list[tuple[_Entry, QueueTrack | int, Slice]] = []
        self._read_recordings()
        for entry in self.entries:  # in the order of their beginnings
            if entry.failed:
                continue
            if entry.kind in COMMANDS:
                track = self.queues.find(entry.begin, entry.object)
                if track is None:
                    self.unknown_queues += 1
                else:
                    piece = self._command(entry)
                    if track.slices:  # clocks of two cores may differ by some ticks
                        piece.begin = max(piece.begin, track.slices[-1].end)
                        piece.end = max(piece.end, piece.begin)
                    piece.submitted = track.slices[-1].submitted if track.slices else 0
                    piece.submitted += piece.commands if entry.kind in WORK else 0
                    track.slices.append(piece)
                    piece.position = len(track.slices)
                    if entry.number in self.ran:
                        track.ran.append((piece, self._ran(track, piece, self.ran[entry.number])))
                    if entry.event and entry.kind != Kind.LAUNCH:
                        self.points.add(entry.end, entry.event, (track, piece))
                    shown.append((entry, track, piece))
            elif entry.kind == Kind.BRIDGE:
                point = self.points.find(entry.begin, entry.detail)
                if point is not None:
                    self.points.add(entry.end, entry.event, point)
            elif entry.kind in (Kind.WAIT_EVENTS, Kind.POLL):
                name = "ask" if entry.kind == Kind.POLL else "wait in the driver"
                piece = Slice(name, "driver", entry.begin, entry.end, {})
                self.threads[entry.thread].append(piece)
                shown.append((entry, entry.thread, piece))
        for entry, where, piece in shown:
            for event in entry.waited:
                point = self.points.find(entry.begin, event)
                if point is None:
                    self.unknown_waits += 1
                else:
                    self.arrows.append(Arrow(*point, where, piece))
        self._count_in_flight()
        for slices in self.threads.values():
            slices.sort(key=lambda piece: (piece.begin, -piece.end))

    @staticmethod
    def _ran(track: QueueTrack, piece: Slice, time: RanTime) -> Slice:
        """Return when the device ran it: not before it was submitted, nor before the one before it had ended, whatever
        two clocks say that are known to some microseconds only.
        """
        begin = max(time.begin, piece.begin, track.ran[-1][1].end if track.ran else 0)
        return Slice(piece.name, "ran", begin, max(time.end, begin), piece.about)

    def _read_recordings(self) -> None:
        for entry in self.entries:
            if entry.kind == Kind.NEW_RECORDING and not entry.failed:
                self.recordings.add(entry.end, entry.event, [])
            elif entry.kind == Kind.ADD_COMMAND and not entry.failed:
                names = self.recordings.find(entry.begin, entry.object)
                if names is not None:
                    names.append(self._kernel(entry) if entry.extra == LAUNCH_COMMAND else "copy or fill")

    def _kernel(self, entry: _Entry) -> str:
        return self.kernels.find(entry.begin, entry.detail) or f"kernel {entry.detail:#x}"

    def _command(self, entry: _Entry) -> Slice:
        """Return what a queue was given."""
        name, kind, commands = "", "", 1
        about: dict[str, Any] = {"thread": entry.thread}
        if entry.kind == Kind.LAUNCH:
            name, kind = self._kernel(entry), "launch"
            about["grid"] = [entry.event & 0xFFFFFFFF, entry.event >> 32, entry.extra]
        elif entry.kind in (Kind.COPY, Kind.FILL):
            kind = "copy" if entry.kind == Kind.COPY else "fill"
            name = DIRECTIONS[entry.extra] if kind == "copy" else kind
            about["bytes"] = entry.detail
        elif entry.kind == Kind.MARKER:
            name = kind = "marker"
        elif entry.kind == Kind.BARRIER:
            name = kind = "wait"
        elif entry.kind == Kind.HOLD:
            name = kind = "host function" if entry.extra else "gate"
        else:
            kind = "recording"
            names = self.recordings.find(entry.begin, entry.detail)
            commands = len(names) if names else 1
            name = f"{commands} commands" if names else "recorded commands"
            about["commands"] = names or "recorded before the trace began"
        if entry.waited:
            about["waits"] = len(entry.waited)
        return Slice(name, kind, entry.begin, entry.end, about, commands)

    # -- commands in flight

    def _count_in_flight(self) -> None:
        """Count up where a queue is given commands, and down where the host learns that they are done."""
        given: defaultdict[int, int] = defaultdict(int)
        done: defaultdict[int, int] = defaultdict(int)
        carried = self._carried_waits()
        submitted = [
            (piece.end, track, piece.position, True) for track in self.tracks.values() for piece in track.slices
        ]
        for time, track, position, is_given in sorted([*submitted, *self._known_done()], key=lambda each: each[0]):
            if is_given:
                given[id(track)] = position
                track.note_in_flight(time, done[id(track)], position)
                continue
            left = [(track, position)]
            while left:  # what was waited for is done too
                reached, position = left.pop()
                if position > done[id(reached)]:
                    done[id(reached)] = position
                    reached.note_in_flight(time, position, max(given[id(reached)], position))
                    waits = carried[id(reached)]
                    while waits and waits[0][0] <= position:
                        left.append(waits.popleft()[1:])

    def _carried_waits(self) -> defaultdict[int, deque[tuple[int, QueueTrack, int]]]:
        """For each track the waits that it carried, in this order: where, and for which position of which other."""
        carried: defaultdict[int, deque[tuple[int, QueueTrack, int]]] = defaultdict(deque)
        for arrow in self.arrows:
            if isinstance(arrow.waiter, QueueTrack):
                carried[id(arrow.waiter)].append((arrow.target.position, arrow.producer, arrow.source.position))
        return carried

    def _known_done(self) -> Iterator[tuple[int, QueueTrack, int, bool]]:
        """Yield when the host learnt that a queue had reached a position."""
        for entry in self.entries:
            if entry.failed:
                continue
            seen: dict[int, list[int]] = {Kind.WAIT_EVENTS: entry.waited, Kind.SEEN_DONE: [entry.object]}
            for event in seen.get(entry.kind, ()):
                point = self.points.find(entry.begin, event)
                if point is not None:
                    yield entry.end, point[0], point[1].position, False
            if entry.kind == Kind.POLL and entry.extra:
                track = self.queues.find(entry.begin, entry.object)
                if track is not None:
                    place = bisect_right(track.slices, entry.begin, key=lambda piece: piece.end)
                    yield entry.end, track, place, False


def _read(recorder: Recorder) -> list[_Entry]:
    """Return the entries by their beginnings, each with its waits."""
    every = [_Entry(*row) for row in recorder.entries.tolist()]
    handles = {entry.number: entry.object for entry in every if entry.kind == Kind.WAITED}
    found = [entry for entry in every if entry.kind != Kind.WAITED]
    for entry in found:
        entry.waited = [handles[entry.number + 1 + i] for i in range(entry.waits) if entry.number + 1 + i in handles]
    found.sort(key=lambda entry: entry.begin)
    return found
