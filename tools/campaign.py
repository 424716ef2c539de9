"""Run many random programs of `tests.ordering.mixed`, and name those that left something wrong.

``make campaign ARGS='--programs 100000 --seed 1'``: the programs of seeds 1 to 100,000, on the device that
FOREBAY_DEVICE names. ``--programs 1 --seed 364`` runs one of them again. Exits with 1 when any was wrong.

With ``--failures`` calls of the driver fail at random places of the programs. Devices are closed after some of them,
and what is left is reported with the seeds of these programs.
"""

import contextlib
import faulthandler
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections import deque

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from forebay.queues.selection import VARIABLE, select
from tests.helpers import observer
from tests.helpers.processes import command as python

TOGETHER = 25  # programs with failures on the same devices
PATIENCE = 120  # seconds that a program may take
COUNTS = ("compared", "processor", "failed", "errors", "pairs")


def report(**what):
    """Print what the parent process has to know, a line each."""
    print(json.dumps(what), flush=True)


def begin(seed):
    """Report that a program begins, and limit its time."""
    report(begun=seed)
    faulthandler.dump_traceback_later(PATIENCE, exit=True)


def work(seeds, watch, check, of_hip):
    """Run the programs."""
    from tests.hip.random_program import HipBench  # the parent needs no device
    from tests.ordering.mixed import Bench

    # Hardware that executes nothing says at once that everything is done: the observer answers for it.
    answering = contextlib.nullcontext() if observer.EXECUTES else observer.watch(select().backend)
    with answering, HipBench() if of_hip else Bench(None, watch, check) as bench:
        report(device=str(bench.devices[0]))
        for seed in seeds:
            begin(seed)
            try:
                report(compared=bench.run(seed))
            except Exception as error:
                report(wrong=f"{type(error).__name__}: {error}")
        report(pairs=bench.pairs)


def work_with_failures(seeds, check):
    """Run the programs, with calls that fail."""
    from tests.ordering.failures import FailingBench

    for first in range(0, len(seeds), TOGETHER):
        together, outcome = seeds[first : first + TOGETHER], {}
        try:
            with FailingBench(check=check) as bench:
                report(device=str(bench.bench.devices[0]))
                for seed in together:
                    if outcome:
                        report(**outcome)
                    begin(seed)
                    outcome = {"compared": bench.run(seed)}
        except Exception as error:  # also of the end: the last program is reported when the devices are closed
            where = "".join(traceback.format_tb(error.__traceback__)[-4:])
            outcome = {"wrong": f"{type(error).__name__}: {error} (on the devices since seed {together[0]})\n{where}"}
        report(failed=bench.failed, errors=bench.errors, **outcome)
        if "wrong" in outcome:
            break  # another process goes on


class Campaign:
    """What the processes have reported."""

    def __init__(self, progress, programs, *options):
        self.progress, self.task = progress, progress.add_task("programs", total=programs)
        self.options = options
        self.lock = threading.Lock()
        self.done, self.counts = 0, dict.fromkeys(COUNTS, 0)
        self.wrong = {}  # by seed
        self.device = None

    def command(self, seeds):
        """Return the command and the environment of a process that runs programs."""
        arguments = ["--seed", seeds[0], "--programs", len(seeds), "--worker", *self.options]
        return python("-m", "tools.campaign", *arguments, **{VARIABLE: os.environ.get(VARIABLE)})

    def run(self, seeds):
        """Run programs in a process. When it ends in the middle of one, that was wrong; another process goes on."""
        left = deque(seeds)
        while left:
            command, environment = self.command(left)
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
            process = subprocess.Popen(command, env=environment, **pipes)
            errors = deque(maxlen=30)
            reader = threading.Thread(target=errors.extend, args=(process.stderr,))
            reader.start()
            began = False
            for line in process.stdout:
                reported = json.loads(line)
                began = began or "begun" in reported
                self.device = reported.get("device", self.device)
                self.note(left, reported)
            process.wait()
            reader.join()
            if not began:  # nor would the next one
                self.note(left, {"wrong": "".join(errors)})
                return
            if process.returncode and left:
                self.note(left, {"wrong": f"exit status {process.returncode}: {''.join(errors)}"})

    def note(self, left, reported):
        """Add a report. A program that has ended is none of those left."""
        with self.lock:
            for name in COUNTS:
                self.counts[name] += reported.get(name, 0)
            if "compared" in reported or "wrong" in reported:
                seed = left.popleft()
                self.done += 1
                if "wrong" in reported:
                    self.wrong[seed] = reported["wrong"]
                    self.progress.console.print(f"seed {seed}: {reported['wrong']}", markup=False)
                self.progress.update(self.task, completed=self.done)


@click.command(context_settings={"show_default": True})
@click.option("--programs", type=click.IntRange(1), default=1000, help="How many.")
@click.option("--seed", type=click.IntRange(0), default=0, help="That of the first; the others count up.")
@click.option("--processes", type=click.IntRange(1), default=1, help="Run side by side.")
@click.option("--watch", is_flag=True, help="Check the order of the driver's calls, too.")
@click.option("--failures", is_flag=True, help="Calls of the driver fail at random places.")
@click.option("--check", is_flag=True, help="Check for races, too: there are none.")
@click.option("--hip", is_flag=True, help="Programs of HIP's functions.")
@click.option("--worker", is_flag=True, hidden=True)
def main(programs, seed, processes, watch, failures, check, hip, worker):
    """Run random programs with everything in the mix, and compare all memory with a sequential model's."""
    seeds = range(seed, seed + programs)
    if worker:
        checked = "races,error" if check else None
        work_with_failures(seeds, checked) if failures else work(seeds, watch, checked, hip)
        faulthandler.cancel_dump_traceback_later()
        report(processor=time.process_time())
        return
    console, began = Console(highlight=False), time.monotonic()
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("programs"), TimeElapsedColumn(), TextColumn("left:"))
    shown = Console(stderr=True, highlight=False)
    with Progress(*columns, TimeRemainingColumn(), console=shown, disable=not shown.is_terminal) as progress:
        chosen = {"--watch": watch, "--failures": failures, "--check": check, "--hip": hip}
        options = [option for option, is_chosen in chosen.items() if is_chosen]
        campaign = Campaign(progress, programs, *options)
        ends = [programs * number // processes for number in range(processes + 1)]
        threads = [
            threading.Thread(target=campaign.run, args=(seeds[first:end],)) for first, end in itertools.pairwise(ends)
        ]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    counts, seconds = campaign.counts, time.monotonic() - began
    console.print(f"device              {campaign.device}")
    console.print(f"programs            {campaign.done:,}, from seed {seed}")
    console.print(f"bytes compared      {counts['compared']:,}")
    if watch:
        console.print(f"pairs judged        {counts['pairs']:,}")
    if failures:
        console.print(f"calls that failed   {counts['failed']:,}; operations with an error {counts['errors']:,}")
    console.print(f"wrong               {len(campaign.wrong)}  {' '.join(map(str, sorted(campaign.wrong)))}")
    processor = counts["processor"] or float("inf")
    console.print(
        f"programs a second   {campaign.done / seconds:.0f}, of processor time {campaign.done / processor:.0f}"
    )
    sys.exit(bool(campaign.wrong))


if __name__ == "__main__":
    main()
