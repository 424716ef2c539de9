"""Repeats the planted races of `test_planted.py` and `test_graphs.py`, and counts what is found of each kind.

``python -m tests.races.repeated --turns 100``: on the device that FOREBAY_DEVICE names. A turn plants each kind once,
and once more with the line that the report gave. In every other turn a second thread keeps the interpreter and a queue
of the same device busy, and threads change places far more often. Exits with 1 when a race was not found, was told with
its line in place, or was told with another line than before.
"""

import contextlib
import logging
import sys
import threading
import time

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

import forebay as fb
from forebay.queues.drivers.selection import select
from tests.helpers import observer
from tests.inside import forget_races
from tests.races.conftest import SOURCE
from tests.races.test_graphs import ADD, READS
from tests.races.test_planted import MARKS, PAIRS, WAYS, play

SIZE = 64
NODES = [(first, second) for first in ADD for second in ADD if not READS.issuperset({first, second})]


class Count:
    """What became of the races that were planted in one way."""

    def __init__(self):
        self.planted = self.found = self.silent = 0
        self.said = {}  # by kind: the different answers

    def judge(self, kind, found, after):
        """Note the certain races of a kind that were found, and those that were left with the line in its place."""
        self.planted += 1
        self.found += bool(found)
        self.silent += bool(found) and not after
        self.said.setdefault(kind, set()).add((tuple(race.missing for race in found), len(after)))

    def wrong(self):
        """The kinds for which any answer, or the number of different ones, is not as it should be."""
        for kind, answers in self.said.items():
            if len(answers) > 1 or any(not found or after for found, after in answers):
                yield kind, answers


@contextlib.contextmanager
def busy(device, kernels):
    """A second thread that computes, launches, records and waits on a queue and memory of its own."""
    ending, interval = threading.Event(), sys.getswitchinterval()

    def work():
        queue, x = device.queue(blocking=False), device.empty(SIZE)
        while not ending.is_set():
            for _ in range(20):
                queue.launch(kernels["scale"], SIZE // 16, 16, x, 2.0)
                sum(range(200))
            queue.record().wait()

    thread = threading.Thread(target=work)
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        sys.setswitchinterval(interval)


def newly_told(device):
    races = device.races
    forget_races(device)
    return races


def plant_between_queues(device, kernels, way, count):
    for pair in PAIRS:
        play(device, kernels, way, pair, lambda names: None)
        found, after = newly_told(device), ()
        if found:
            line = found[0].missing
            play(device, kernels, way, pair, lambda names, line=line: exec(line, {}, dict(names)))
            after = newly_told(device)
        count.judge(pair, found, after)


def plant_in_graphs(device, kernels, count):
    for pair in NODES:
        graph, x = device.graph(), device.empty(SIZE)
        one, other = (ADD[name](graph, kernels, x) for name in pair)
        graph.add_empty()
        graph.instantiate()
        found, after = newly_told(device), ()
        if found:
            exec(found[0].missing, {}, {"graph": graph, "one": one, "other": other})
            graph.instantiate()
            after = newly_told(device)
        count.judge(pair, found, after)


def turn(counts, is_busy):
    for name, way in [*((way.__name__, way) for way in ways()), ("nodes of a graph", None)]:
        with fb.Device(private=True, check="races") as device:
            kernels = device.program(SOURCE)
            with busy(device, kernels) if is_busy else contextlib.nullcontext():
                count = counts.setdefault(name, Count())
                if way:
                    plant_between_queues(device, kernels, way, count)
                else:
                    plant_in_graphs(device, kernels, count)


def ways():
    """Null hardware never calls a host function."""
    needing = [way for way, marks in MARKS.items() if any(mark.name == "executes" for mark in marks)]
    return [way for way in WAYS if observer.EXECUTES or way not in needing]


@click.command(context_settings={"show_default": True})
@click.option("--turns", type=click.IntRange(1), default=100, help="How often each kind is planted.")
def main(turns):
    """Plant each kind of race again and again, and count what the checker says."""
    logging.getLogger("forebay.races").setLevel(logging.CRITICAL)
    counts, console, began = {}, Console(highlight=False, width=100), time.monotonic()
    shown = Console(stderr=True)
    answering = contextlib.nullcontext() if observer.EXECUTES else observer.watch(select().backend)
    with answering:
        for number in track(range(turns), "turns", console=shown, disable=not shown.is_terminal):
            turn(counts, number % 2 == 1)
    table = Table("way", "kinds", "planted", "found", "silent with its line", box=None)
    for name, count in counts.items():
        table.add_row(
            name, *(f"{each:,}" for each in (count.planted // turns, count.planted, count.found, count.silent))
        )
    device = select()
    console.print(f"device   {device.name}  {device.platform} · {device.description}")
    console.print(f"turns    {turns}, {turns // 2} of them beside a busy thread, {time.monotonic() - began:.0f} s")
    console.print(table)
    wrong = [(name, *each) for name, count in counts.items() for each in count.wrong()]
    for name, kind, answers in wrong:
        console.print(f"wrong    {name}: {kind}: {answers}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
