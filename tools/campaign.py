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
patience = threading.Lock()  # of `faulthandler`'s one timer: two threads that set it without a GIL free its parts twice
COUNTS = ("compared", "processor", "failed", "errors", "pairs")


def report(**what):
    """Print what the parent process has to know, a line each."""
    print(json.dumps(what) + "\n", end="", flush=True)


def begin(seed):
    """Report that a program begins, and limit its time."""
    report(begun=seed)
    with patience:
        faulthandler.dump_traceback_later(PATIENCE, exit=True)


def run_all(bench, seeds):
    """Run the programs on a bench."""
    for seed in seeds:
        begin(seed)
        try:
            report(seed=seed, compared=bench.run(seed))
        except Exception as error:
            report(seed=seed, wrong="".join(traceback.format_exception(error)[-5:]))


def work(seeds, threads, watch, check, of_hip):
    """Run the programs, each thread on devices of its own."""
    from tests.hip.random_program import HipBench  # the parent needs no device
    from tests.ordering.mixed import Bench, recording

    # Hardware that executes nothing says at once that everything is done: the observer answers for it.
    answering = contextlib.nullcontext() if observer.EXECUTES else observer.watch(select().backend)
    with answering, contextlib.ExitStack() as stack:
        alone = threads == 1
        benches = [
            stack.enter_context(HipBench() if of_hip else Bench(None, watch, check, alone)) for _ in range(threads)
        ]
        device = benches[0].devices[0]
        report(device=str(device))
        stack.enter_context(recording(device, not alone, seeds[0] % 2 == 1))
        started = [
            threading.Thread(target=run_all, args=(bench, seeds[at::threads])) for at, bench in enumerate(benches)
        ]
        [thread.start() for thread in started]
        [thread.join() for thread in started]
        report(pairs=sum(bench.pairs for bench in benches))


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
                    outcome = {"seed": seed, "compared": bench.run(seed)}
        except Exception as error:  # also of the end: the last program is reported when the devices are closed
            where = "".join(traceback.format_tb(error.__traceback__)[-4:])
            what = f"{type(error).__name__}: {error} (on the devices since seed {together[0]})"
            outcome = {"seed": seed, "wrong": f"{what}\n{where}"}
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
        """Return the command and the environment of a process that runs programs, from the first to the last."""
        first, last = next(iter(seeds)), next(reversed(seeds))
        arguments = ["--seed", first, "--programs", last - first + 1, "--worker", *self.options]
        return python("-m", "tools.campaign", *arguments, **{VARIABLE: os.environ.get(VARIABLE)})

    def run(self, seeds):
        """Run programs in a process. When it ends in the middle of one, that was wrong; another process goes on."""
        left, begun = dict.fromkeys(seeds), set()
        while left:
            command, environment = self.command(left)
            last = next(reversed(left))
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
            process = subprocess.Popen(command, env=environment, **pipes)
            errors = deque(maxlen=30)
            reader = threading.Thread(target=errors.extend, args=(process.stderr,))
            reader.start()
            begun.clear()
            for line in process.stdout:
                reported = json.loads(line)
                self.device = reported.get("device", self.device)
                if "begun" in reported:
                    begun.add(reported["begun"])
                self.note(left, reported)
            process.wait()
            reader.join()
            if not begun:  # nor would the next one
                self.note(left, {"seed": next(iter(left)), "wrong": "".join(errors)})
                return
            if process.returncode:
                wrong = f"exit status {process.returncode}: {''.join(errors)}"
                ended_by = begun & left.keys()
                for seed in ended_by:
                    self.note(left, {"seed": seed, "wrong": wrong})
                if not ended_by and not left:
                    self.blame(last, f"at the end, after this program: {wrong}")

    def note(self, left, reported):
        """Add a report. A program that has ended is none of those left."""
        with self.lock:
            for name in COUNTS:
                self.counts[name] += reported.get(name, 0)
            if reported.get("seed") in left:  # else it had run when another thread's ended the process
                del left[reported["seed"]]
                self.done += 1
                self.progress.update(self.task, completed=self.done)
                if "wrong" in reported:
                    self.blame(reported["seed"], reported["wrong"])

    def blame(self, seed, wrong):
        self.wrong[seed] = wrong
        self.progress.console.print(f"seed {seed}: {wrong}", markup=False)


@click.command(context_settings={"show_default": True})
@click.option("--programs", type=click.IntRange(1), default=1000, help="How many.")
@click.option("--seed", type=click.IntRange(0), default=0, help="That of the first; the others count up.")
@click.option("--processes", type=click.IntRange(1), default=1, help="Run side by side.")
@click.option("--threads", type=click.IntRange(1), default=1, help="Of each process, on one context.")
@click.option("--watch", is_flag=True, help="Check the order of the driver's calls, too.")
@click.option("--failures", is_flag=True, help="Calls of the driver fail at random places.")
@click.option("--check", is_flag=True, help="Check for races, too: there are none.")
@click.option("--hip", is_flag=True, help="Programs of HIP's functions.")
@click.option("--worker", is_flag=True, hidden=True)
def main(programs, seed, processes, threads, watch, failures, check, hip, worker):
    """Run random programs with everything in the mix, and compare all memory with a sequential model's."""
    if threads > 1 and (watch or failures or hip):
        raise click.UsageError("--threads: an observer, failing calls and HIP's only device are of the whole process")
    seeds = range(seed, seed + programs)
    if worker:
        checked = "races,error" if check else None
        work_with_failures(seeds, checked) if failures else work(seeds, threads, watch, checked, hip)
        faulthandler.cancel_dump_traceback_later()
        report(processor=time.process_time())
        return
    console, began = Console(highlight=False), time.monotonic()
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("programs"), TimeElapsedColumn(), TextColumn("left:"))
    shown = Console(stderr=True, highlight=False)
    with Progress(*columns, TimeRemainingColumn(), console=shown, disable=not shown.is_terminal) as progress:
        chosen = {"--watch": watch, "--failures": failures, "--check": check, "--hip": hip}
        options = [option for option, is_chosen in chosen.items() if is_chosen]
        campaign = Campaign(progress, programs, "--threads", threads, *options)
        ends = [programs * number // processes for number in range(processes + 1)]
        started = [
            threading.Thread(target=campaign.run, args=(seeds[first:end],)) for first, end in itertools.pairwise(ends)
        ]
        [thread.start() for thread in started]
        [thread.join() for thread in started]
    counts, seconds = campaign.counts, time.monotonic() - began
    console.print(f"device              {campaign.device}")
    console.print(f"programs            {campaign.done:,}, from seed {seed}")
    console.print(f"bytes compared      {counts['compared']:,}")
    if watch:
        console.print(f"pairs judged        {counts['pairs']:,}")
    if failures:
        console.print(f"calls that failed   {counts['failed']:,}; operations with an error {counts['errors']:,}")
    console.print(f"wrong               {len(campaign.wrong)}  {' '.join(map(str, sorted(campaign.wrong)))}")
    done, processor = campaign.done, counts["processor"] or float("inf")
    console.print(f"programs a second   {done / seconds:.0f}, of processor time {done / processor:.0f}")
    sys.exit(bool(campaign.wrong))


if __name__ == "__main__":
    main()
