"""How long the main calls take here, in microseconds of the host's clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

import forebay as fb

ROUNDS = 40
CALLS = 50  # of a round; a queue of any driver takes as many without waiting
NODES = 20


@dataclass(frozen=True)
class Latency:
    """What a call takes.

    Attributes
    ----------
    minimum, median : float
        Microseconds of one, over rounds of `CALLS`.
    """

    name: str
    minimum: float
    median: float


def measure(device: fb.Device, program: fb.Program) -> Iterator[Latency]:
    """Measure the rows one after the other: kernels that do nothing, copies of 4 bytes. Blocks for about a second.

    A wait elsewhere is one of another queue for the event that was recorded, and a launch there. What a round leaves
    the device to do is waited for after its time was taken.
    """
    kernel = program["nothing"]
    with ExitStack() as closing:
        a = closing.enter_context(device.queue(blocking=False))
        b = closing.enter_context(device.queue(blocking=False))
        buffer = closing.enter_context(device.zeros(1, "u4"))
        pinned: Any = fb.host_empty(1, "u4", device)
        pinned[:] = np.uint32(1)

        def launch() -> None:
            a.launch(kernel, 1, 1)

        with a.capture() as graph:
            for _ in range(NODES):
                a.launch(kernel, 1, 1)
        closing.enter_context(graph)
        step = a.step()

        def in_step() -> None:
            with step:
                for _ in range(NODES):
                    a.launch(kernel, 1, 1)

        rows: dict[str, tuple[Callable[[], object], ...]] = {
            "launch": (launch,),
            "launch + record": (launch, a.record),
            "launch + record + wait elsewhere": (launch, lambda: b.wait(a.record()), lambda: b.launch(kernel, 1, 1)),
            "copy to the device": (lambda: a.copy(buffer, pinned),),
            "copy to the host + finish": (lambda: a.copy(pinned, buffer), a.finish),
            f"graph of {NODES} launches": (lambda: graph.launch(a),),
            f"step of {NODES} launches": (in_step,),
            "launch + finish": (launch, a.finish),
        }
        for name, calls in rows.items():
            yield _measured(device, name, calls)
        step.close()


def _measured(device: fb.Device, name: str, calls: tuple[Callable[[], object], ...]) -> Latency:
    times = max(1, CALLS // NODES) if str(NODES) in name else CALLS
    taken = []
    for number in range(-2, ROUNDS):  # the first ones warm up
        began = time.perf_counter()
        for call in calls * times:
            call()
        ended = time.perf_counter()
        device.finish()
        if number >= 0:
            taken.append((ended - began) / times * 1e6)
    return Latency(name, min(taken), float(np.median(taken)))
