"""Counts what one operation takes: driver calls, events, markers and host syncs. Numbers that do not vary.

The tests' observers see the driver's calls, so this works in a checkout. Null hardware makes the same calls as a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import forebay as fb
from forebay.queues.selection import select

from .layers import Ground, Subject

TABLE = Path(__file__).with_name("counts.json")
TURNS = 12
STATS = {"events": "events_made", "markers": "markers_made", "host syncs": "host_syncs"}

Count = dict[str, float]


class Operation(NamedTuple):
    """An operation of a layer, its arguments, and whether its instructions are counted, too."""

    layer: str
    name: str
    arguments: tuple[object, ...] = ()
    instructions: bool = False


OPERATIONS = {
    "launch": Operation("forebay", "launch", ("", 2), True),
    "launch, one scalar changed": Operation("forebay", "launch", ("scalar", 2), True),
    "launch, one pointer changed": Operation("forebay", "launch", ("pointer", 2)),
    "launch, 32 arguments": Operation("forebay", "launch", ("", 32), True),
    "launch, 64 arguments": Operation("forebay", "launch", ("", 64), True),
    "launch, 64 arguments in a tuple": Operation("forebay", "launch_tuple", (64,), True),
    "launch, a number of NumPy's": Operation("forebay", "launch_numpy", (2,), True),
    "launch on the null queue": Operation("forebay", "launch_on", ("null",), True),
    "launch on a blocking and on the null queue": Operation("forebay", "alternate"),
    "launch + finish": Operation("forebay", "launch_finish"),
    "launch on 16 queues + finish of the device": Operation("forebay", "finish_all", (16,)),
    "queue made, used and dropped + finish of the device": Operation("forebay", "turnover", (0,)),
    "the same after 300 queues at once": Operation("forebay", "turnover", (300,)),
    "launch + record": Operation("forebay", "record", (True,), True),
    "record, nothing new": Operation("forebay", "record", (False,)),
    "launch + wait + launch": Operation("forebay", "wait", instructions=True),
    "launch, 8 queues wait and launch": Operation("forebay", "ordered", ("1 before {}", 8)),
    "8 queues launch, one waits and launches": Operation("forebay", "ordered", ("{} before 1", 8)),
    "launch, the same bytes by value": Operation("forebay", "by_value", (4096, ""), True),
    "launch, new bytes by value": Operation("forebay", "by_value", (4096, "new")),
    "launch, scratch of 600 reductions": Operation("forebay", "scratch", (600,)),
    "graph of 100 launches": Operation("forebay", "replay", (100, 0)),
    "graph of 100 launches, one changed": Operation("forebay", "replay", (100, 1)),
    "step of 100 launches": Operation("forebay step", "step", (100, "nothing"), True),
    "step of 100 launches, one scalar changed": Operation("forebay step", "step", (100, "1 scalar")),
    "step of 100 launches, all scalars changed": Operation("forebay step", "step", (100, "all scalars"), True),
    "upload of 4 KiB + finish": Operation("forebay", "copy", ("up", 4096), True),
    "download of 4 KiB + finish": Operation("forebay", "copy", ("down", 4096), True),
    "alloc + free": Operation("forebay", "alloc", (4096,), True),
    "bound launch": Operation("forebay bound", "launch", ("", 2), True),
    "bound launch, 64 arguments": Operation("forebay bound", "launch", ("", 64), True),
    "hipModuleLaunchKernel": Operation("forebay.hip", "launch", ("", 2), True),
    "hipModuleLaunchKernel, as examples call it": Operation("forebay.hip", "launch_by_name", instructions=True),
    "hipModuleLaunchKernel on hipStreamPerThread": Operation("forebay.hip", "launch_on", ("per-thread",), True),
    "hipModuleLaunchKernel + hipEventRecord": Operation("forebay.hip", "record", (True,), True),
    "the same + hipStreamWaitEvent + hipModuleLaunchKernel": Operation("forebay.hip", "wait", instructions=True),
    "hipEventQuery, done": Operation("forebay.hip", "query", ("event",), True),
    "hipStreamQuery, done": Operation("forebay.hip", "query", ("stream",), True),
    "hipMallocAsync + hipFreeAsync": Operation("forebay.hip", "alloc", (4096,), True),
    "hipMemcpyAsync up + synchronize": Operation("forebay.hip", "copy", ("up", 4096), True),
    "hipMemcpyAsync down + synchronize": Operation("forebay.hip", "copy", ("down", 4096)),
    "hipMemcpyAsync up, a part + synchronize": Operation("forebay.hip", "copy_part", (4096,), True),
    "hipMemcpy up": Operation("forebay.hip", "copy_at_once", (4096,), True),
    "hipMemsetAsync + synchronize": Operation("forebay.hip", "memset", (4096,), True),
}
"""By name."""


def subject_of(ground: Ground, name: str) -> Subject:
    """An operation by name."""
    operation = OPERATIONS[name]
    subject: Subject = getattr(ground.layer(operation.layer), operation.name)(*operation.arguments)
    return subject


@contextmanager
def watched_device() -> Iterator[fb.Device]:
    """A device all of whose objects the observer has seen made."""
    from tests.helpers.observer import watch

    # Private, or what HIP's Device counts would be counted twice.
    with watch(select().backend), fb.Device(private=True) as device:
        yield device


def count(device: fb.Device) -> dict[str, Count]:
    """For each operation, what one takes: by the driver's function and as the devices' stats have it.

    The device was opened by `watched_device`.
    """
    from forebay.hip.streams import queue_of
    from tests.helpers.observer import observe

    ground, counted = Ground(device), {}
    ground.layer("forebay.hip")  # which opens its device
    devices = [device, queue_of(None).device]
    for name in OPERATIONS:
        subject = subject_of(ground, name)
        with subject.around():
            subject.run(TURNS)
        with subject.around(), observe(device) as calls:
            before = [each.stats for each in devices]
            subject.run(TURNS)
            found: Count = dict(calls.counts())
            for each, old in zip(devices, before, strict=True):
                done = each.stats - old
                found |= {what: found.get(what, 0) + getattr(done, field) for what, field in STATS.items()}
        counted[name] = {what: _exact(number / TURNS) for what, number in sorted(found.items()) if number}
    return counted


def _exact(number: float) -> float:
    return int(number) if number == int(number) else round(number, 3)


def read() -> dict[str, Any]:
    """The table of the repository, by part: counts of a driver, and instructions."""
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    return table


def write(part: str, numbers: dict[str, Any]) -> None:
    """Put new numbers into a part of the table: a driver, or what `instructions.part` names."""
    table = read() | {part: numbers}
    parts = []
    for name, rows in sorted(table.items()):
        body = ",\n".join(f"  {json.dumps(row)}: {json.dumps(value)}" for row, value in rows.items())
        parts.append(f" {json.dumps(name)}: {{\n{body}\n }}")
    TABLE.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def differences(expected: dict[str, Count], found: dict[str, Count]) -> list[str]:
    """What is not as the table has it, a line each: more of anything, and less, which is to be written down."""
    lines = []
    for name in dict.fromkeys([*expected, *found]):
        before, now = expected.get(name, {}), found.get(name, {})
        for what in dict.fromkeys([*before, *now]):
            old, new = before.get(what, 0), now.get(what, 0)
            if old != new:
                lines.append(f"{name}: {what} {old:g} -> {new:g}")
    return lines
