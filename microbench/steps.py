"""Measures steps: launches in ``with queue.step():``, next to the same launches without, and to the C loop.

A call is the whole step, its Python loop included. `python -m microbench.steps` prints the rows.
"""

from __future__ import annotations

import itertools

import forebay as ps
from microbench.interleaved import Measured, Sample, measure, ratio_interval
from microbench.launch import AGAIN, FLOOR, Subject, state_of, timed

BODIES = {
    "nothing": "for i in turns: launch(kernel, 1, 1, buffer, 100)",
    "1 scalar": "launch(kernel, 1, 1, buffer, next(numbers))\n{0}for i in all_but_1: launch(kernel, 1, 1, buffer, 100)",
    "10 scalars": (
        "n = next(numbers)\n{0}for i in ten: launch(kernel, 1, 1, buffer, n)\n"
        "{0}for i in all_but_10: launch(kernel, 1, 1, buffer, 100)"
    ),
    "all scalars": "n = next(numbers)\n{0}for i in turns: launch(kernel, 1, 1, buffer, n)",
    "all pointers": "for each in buffers[next(numbers) & 1]: launch(kernel, 1, 1, each, 100)",
    "all group counts": "n = groups[next(numbers) & 1]\n{0}for i in turns: launch(kernel, n, 1, buffer, 100)",
}
"""What changes from one time to the next; ``{0}`` is the indentation."""
CHANGED = {3: ("nothing", "1 scalar"), 10: ("nothing", "1 scalar"), 100: tuple(BODIES), 1000: ("nothing", "1 scalar")}
"""By the number of launches."""


def bodies(subject: Subject, queue: ps.Queue, length: int) -> dict[str, Sample]:
    """The launches with and without a step."""
    samples: dict[str, Sample] = {}
    for what in CHANGED[length]:
        names = {
            "launch": queue.launch,
            "kernel": subject.kernel,
            "buffer": subject.buffer,
            "turns": range(length),
            "ten": range(10),
            "all_but_1": range(length - 1),
            "all_but_10": range(length - 10),
            "numbers": itertools.count(1000),
            "groups": (1, 2),
            "buffers": [[subject.device.zeros(1024) for _ in range(length)] for _ in range(2)]
            if what == "all pointers"
            else None,
        }
        samples[f"step, {what} changed"] = timed("with step:\n " + BODIES[what].format(" "), step=queue.step(), **names)
        samples[f"no step, {what} changed"] = timed(BODIES[what].format(""), **names)
    return samples


def rows(device: ps.Device, calls: int = 50, rounds: int = 40) -> list[tuple[str, Measured, Measured]]:
    """(what, its measurement, the C loop's of the same rounds) for steps of each length, held back from running."""
    subject = Subject(device)
    found: list[tuple[str, Measured, Measured]] = []
    for length in CHANGED:
        queue = device.queue()
        raw = subject.raw.loop(queue)

        def launches(n: int, raw: Sample = raw, length: int = length) -> float:
            return raw(n * length)

        samples: dict[str, Sample] = {FLOOR: launches, AGAIN: launches, **bodies(subject, queue, length)}
        measured = measure(
            samples, max(10 * calls // length, 3), rounds, lambda queue=queue: state_of(subject, queue, True)
        )
        found.extend((f"{length} launches, {name}", measured[name], measured[FLOOR]) for name in samples)
        queue.close()
    return found


def main() -> None:
    """Print the rows."""
    with ps.Device() as device:
        print(f"{device.name}: µs min, median; ÷ {FLOOR}: min, median, 95 %")
        for name, measured, floor in rows(device):
            low, high = ratio_interval(measured, floor)
            print(
                f"{name:<45} {measured.minimum:>9.2f} {measured.median:>9.2f} "
                f"{measured.minimum / floor.minimum:>7.3f} {measured.median / floor.median:>7.3f} {low:.3f}-{high:.3f}"
            )


if __name__ == "__main__":
    main()
