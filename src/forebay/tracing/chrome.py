"""Writes a timeline in Chrome's trace event format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from typing import IO, Any

from forebay.tracing.recording import Recorder
from forebay.tracing.timeline import QueueTrack, Slice, Timeline

ABOVE_ALL_THREADS = 5_000_000  # Linux numbers threads and processes up to 2**22; no queue may look like one
MOST_QUEUES = 5_000_000  # of a trace: what lies between the two tracks of a queue
MOST_ARROWS = 1 << 32  # of a queue
TIMED = ("launch", "copy", "fill", "recording")


def write(recorder: Recorder, file: IO[str]) -> None:
    """Write one JSON object to an open file, an event to a line. Times are microseconds since the trace began."""
    timeline = Timeline(recorder)
    stats = [{"device": name} | dataclasses.asdict(counts) for name, counts in recorder.stats]
    about: dict[str, Any] = {
        "began": recorder.began_at,
        "lost calls": recorder.lost,
        "waits for markers of before": timeline.unknown_waits,
        "commands of unknown queues": timeline.unknown_queues,
        "stats": stats,
    }
    if recorder.ran is not None:
        timed = [piece for track in timeline.tracks.values() for piece in track.slices if piece.kind in TIMED]
        count = sum(len(track.ran) for track in timeline.tracks.values())
        within = max((each.within for each in recorder.ran.values()), default=0) * recorder.nanoseconds_a_tick / 1000
        about["device times"] = {
            "commands": count,
            "commands without": len(timed) - count,
            "known within, µs": round(within, 3),
        }
    file.write(f'{{"displayTimeUnit": "ns",\n"otherData": {json.dumps(about)},\n"traceEvents": [')
    for number, event in enumerate(_events(recorder, timeline)):
        file.write(",\n" if number else "\n")
        file.write(json.dumps(event, separators=(",", ":")))
    file.write("\n]}\n")


def _events(recorder: Recorder, timeline: Timeline) -> Iterator[dict[str, Any]]:
    first, unit = recorder.first[0], recorder.nanoseconds_a_tick

    def at(ticks: int) -> float:
        """Return microseconds since the trace began, in whole nanoseconds."""
        return max(round((ticks - first) * unit), 0) / 1000

    process = os.getpid()
    devices = sorted({track.queue.device for track in timeline.tracks.values()})
    places: dict[int, tuple[int, int]] = {}
    yield _named("process_name", process, 0, f"host: process {process}")
    for thread in timeline.threads:
        yield _named("thread_name", process, thread, recorder.threads.get(thread, f"thread {thread}"))
    for number, device in enumerate(devices):
        yield _named("process_name", ABOVE_ALL_THREADS + number, 0, device)
    for number, track in enumerate(timeline.tracks.values()):
        places[id(track)] = ABOVE_ALL_THREADS + devices.index(track.queue.device), ABOVE_ALL_THREADS + number
        yield _named("thread_name", *places[id(track)], track.queue.name)
        for piece in track.slices:
            yield _slice(piece, *places[id(track)], at)
        if track.ran:
            yield from _ran(track, places[id(track)], number, at)
        for time, count in track.in_flight:
            yield {
                "ph": "C",
                "name": f"in flight, {track.queue.name}",
                "ts": at(time),
                "pid": places[id(track)][0],
                "args": {"commands": count},
            }
    for thread, slices in timeline.threads.items():
        for piece in slices:
            yield _slice(piece, process, thread, at)
    for number, arrow in enumerate(timeline.arrows):
        waiter = arrow.waiter
        target = places[id(waiter)] if isinstance(waiter, QueueTrack) else (process, waiter)
        kind = "wait" if isinstance(waiter, QueueTrack) else "host wait"
        for phase, piece, (pid, tid) in (("s", arrow.source, places[id(arrow.producer)]), ("f", arrow.target, target)):
            event = {"ph": phase, "name": kind, "cat": kind, "id": number, "ts": at(piece.begin)}
            yield event | {"pid": pid, "tid": tid} | ({"bp": "e"} if phase == "f" else {})


def _ran(
    track: QueueTrack, place: tuple[int, int], number: int, at: Callable[[int], float]
) -> Iterator[dict[str, Any]]:
    """Yield the track with the device's times, and an arrow to each from where it was submitted."""
    beside = place[0], place[1] + MOST_QUEUES
    yield _named("thread_name", *beside, f"{track.queue.name}, on the device")
    for order, (submitted, ran) in enumerate(track.ran):
        yield _slice(ran, *beside, at)
        arrow = {"name": "ran", "cat": "ran", "id": number * MOST_ARROWS + order}
        yield arrow | {"ph": "s", "ts": at(submitted.begin), "pid": place[0], "tid": place[1]}
        yield arrow | {"ph": "f", "ts": at(ran.begin), "pid": beside[0], "tid": beside[1], "bp": "e"}


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _slice(piece: Slice, process: int, thread: int, at: Callable[[int], float]) -> dict[str, Any]:
    begin = at(piece.begin)
    return {
        "ph": "X",
        "name": piece.name,
        "cat": piece.kind,
        "ts": begin,
        "dur": round(at(piece.end) - begin, 3),
        "pid": process,
        "tid": thread,
        "args": piece.about,
    }
