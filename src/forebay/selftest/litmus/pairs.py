"""Each kind of queue, and each after it: ordered by the null queue's rule, by an event, or by a wait for the queue."""

from __future__ import annotations

from collections.abc import Iterator

import forebay as fb
from forebay.selftest.litmus.chapter import Litmus
from forebay.selftest.scene import KINDS, Scene

ACCESSES = ("write, then read", "read, then write", "write, then write")
OTHERS = (*KINDS, "per-thread, of another thread")


def _orders_by_itself(first: str, second: str) -> bool:
    """HIP's rule: the null queue and each blocking queue are ordered. One queue is ordered anyway."""
    return (first == second and first in ("null", "per-thread")) or (
        "null" in (first, second) and "non-blocking" not in (first, second)
    )


def _access(scene: Scene, access: str, first: fb.Queue, second: fb.Queue, way: str) -> None:
    """A slow command on one queue and a quick one on another, which need the same memory."""
    x, y = scene.cells(2)
    if access == "read, then write":
        scene.slow(first, y, x)
    else:
        scene.slow(first, x)
    if way == "event":
        second.wait(first.record())
    elif way == "queue":
        second.wait(first)
    elif way == "no wait":
        first.record()  # or the first command would perhaps not be submitted before the second
    if access == "write, then read":
        scene.quick(second, y, x)
    else:
        scene.quick(second, x)


def _pairs() -> Iterator[Litmus]:
    for first in KINDS:
        for second in OTHERS:
            implicit = _orders_by_itself(first, second)
            for way in ("rule", "event") if implicit else ("event", "queue"):
                for access in ACCESSES:

                    def run(
                        scene: Scene, first: str = first, second: str = second, access: str = access, way: str = way
                    ) -> None:
                        _access(scene, access, scene.queue(first), scene.queue(second), way)

                    after = "" if way == "rule" else f" after a wait for the {way}"
                    yield Litmus("pairs of queues", f"{first}, then {second}{after}: {access}", run)


def _races() -> Iterator[Litmus]:
    for access in ACCESSES:

        def run(scene: Scene, access: str = access) -> None:
            _access(scene, access, scene.queue(), scene.queue(), "no wait")

        yield Litmus("without a wait", access, run)


TESTS = list(_pairs())
RACES = list(_races())
