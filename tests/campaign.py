"""Runs many random programs of `tests.ordering.mixed` and says which left something wrong.

``python -m tests.campaign --programs 100000 --seed 1``: the programs of seeds 1 to 100,000, on the device that
FOREBAY_DEVICE names. ``--programs 1 --seed 364`` runs one of them again. Exits with 1 when any was wrong.

With ``--failures`` calls of the driver fail at random places of the programs, and devices are closed after some of them
to see what is left; which programs these were is said with what is left.
"""

import contextlib
import faulthandler
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from forebay.queues.drivers.selection import VARIABLE, select

from .helpers import observer
from .helpers.processes import command as python

WARM = 200  # programs, before the memory of a process counts
TOGETHER = 25  # programs with failures on the same devices
PATIENCE = 120  # seconds that a program may take


def resident():
    """Bytes of physical memory of this process; 0 where the system does not say."""
    try:
        return 4096 * int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0


def tell(**what):
    """Print what the parent process wants to know, a line each."""
    print(json.dumps(what), flush=True)


def tell_device(device):
    tell(device=f"{device.name}  {device.info.platform} · {device.info.description}")


def work(seeds, watch):
    """Run the programs."""
    from tests.ordering.mixed import Bench  # the parent needs no device

    # Hardware that executes nothing says at once that everything is done: the observer answers for it.
    answering = contextlib.nullcontext() if observer.EXECUTES else observer.watch(select().backend)
    with answering, Bench(watched=watch) as bench:
        tell_device(bench.devices[0])
        for number, seed in enumerate(seeds):
            if number == WARM:
                tell(first=resident())
            tell(begun=seed)
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            try:
                tell(compared=bench.run(seed))
            except Exception as error:
                tell(wrong=f"{type(error).__name__}: {error}")
        faulthandler.cancel_dump_traceback_later()
        tell(last=resident(), processor=time.process_time(), pairs=bench.pairs)


def work_with_failures(seeds):
    """Run the programs, with calls that fail."""
    from tests.ordering.failures import FailingBench

    for first in range(0, len(seeds), TOGETHER):
        together, outcome = seeds[first : first + TOGETHER], {}
        try:
            with FailingBench() as bench:
                tell_device(bench.bench.devices[0])
                for seed in together:
                    if outcome:
                        tell(**outcome)
                    tell(begun=seed)
                    faulthandler.dump_traceback_later(PATIENCE, exit=True)
                    outcome = {"compared": bench.run(seed)}
        except Exception as error:  # also of the end: the last program is reported when the devices are closed
            where = "".join(traceback.format_tb(error.__traceback__)[-4:])
            outcome = {"wrong": f"{type(error).__name__}: {error} (on the devices since seed {together[0]})\n{where}"}
        tell(failed=bench.failed, errors=bench.errors, **outcome)
        if "wrong" in outcome:
            break  # another process goes on
    faulthandler.cancel_dump_traceback_later()
    tell(processor=time.process_time())


class Campaign:
    """What the processes have reported."""

    def __init__(self, progress, programs, watch=False, failures=False):
        self.watch, self.pairs = watch, 0  # of operations, whose order was judged
        self.failures, self.failed, self.errors = failures, 0, 0
        self.progress, self.task = progress, progress.add_task("programs", total=programs)
        self.lock = threading.Lock()
        self.done = self.nbytes = self.processor = 0
        self.wrong = {}  # by seed
        self.device, self.resident = None, []

    def run(self, seeds):
        """Run programs in a process. When it ends in the middle of one, that was wrong; another process goes on."""
        left, chosen = deque(seeds), {VARIABLE: os.environ.get(VARIABLE)}
        while left:
            step = left[1] - left[0] if len(left) > 1 else 1
            arguments = ["--seed", left[0], "--programs", len(left), "--step", step, "--worker"]
            arguments += ["--failures"] if self.failures else []
            arguments += ["--watch"] if self.watch else []
            command, environment = python("-m", "tests.campaign", *arguments, **chosen)
            process = subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
            errors = deque(maxlen=30)
            reader = threading.Thread(target=errors.extend, args=(process.stderr,))
            reader.start()
            first, last, began = 0, 0, False
            for line in process.stdout:
                told = json.loads(line)
                began = began or "begun" in told
                self.device = told.get("device", self.device)
                first, last = told.get("first", first), told.get("last", last)
                self.processor += told.get("processor", 0)
                self.failed += told.get("failed", 0)
                self.errors += told.get("errors", 0)
                self.pairs += told.get("pairs", 0)
                if "compared" in told or "wrong" in told:
                    self.note(left.popleft(), told)
            process.wait()
            reader.join()
            self.resident.append((first, last))
            if not began:  # nor would the next one
                self.wrong[left[0]] = "".join(errors)
                self.progress.console.print(*errors, sep="", markup=False)
                return
            if process.returncode and left:
                self.note(left.popleft(), {"wrong": f"exit status {process.returncode}: {''.join(errors)}"})

    def note(self, seed, told):
        with self.lock:
            self.done += 1
            self.nbytes += told.get("compared", 0)
            if "wrong" in told:
                self.wrong[seed] = told["wrong"]
                self.progress.console.print(f"seed {seed}: {told['wrong']}", markup=False)
            self.progress.update(self.task, completed=self.done)


@click.command(context_settings={"show_default": True})
@click.option("--programs", type=click.IntRange(1), default=1000, help="How many.")
@click.option("--seed", type=click.IntRange(0), default=0, help="That of the first; the others count up.")
@click.option("--processes", type=click.IntRange(1), default=1, help="Run side by side.")
@click.option("--watch", is_flag=True, help="Check the order of the driver's calls, too.")
@click.option("--failures", is_flag=True, help="Calls of the driver fail at random places.")
@click.option("--step", type=click.IntRange(1), default=1, hidden=True)
@click.option("--worker", is_flag=True, hidden=True)
def main(programs, seed, processes, watch, failures, step, worker):
    """Run random programs with everything in the mix, and compare all memory with a sequential model's."""
    seeds = range(seed, seed + programs * step, step)
    if worker:
        work_with_failures(seeds) if failures else work(seeds, watch)
        return
    console, began = Console(highlight=False), time.monotonic()
    columns = (
        BarColumn(), MofNCompleteColumn(), TextColumn("programs"), TimeElapsedColumn(), TextColumn("left:"),
        TimeRemainingColumn(),
    )  # fmt: skip
    shown = Console(stderr=True, highlight=False)
    with Progress(*columns, console=shown, disable=not shown.is_terminal) as progress:
        campaign = Campaign(progress, programs, watch, failures)
        threads = [threading.Thread(target=campaign.run, args=(seeds[i::processes],)) for i in range(processes)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    seconds = time.monotonic() - began
    console.print(f"device              {campaign.device}")
    console.print(f"programs            {campaign.done:,}, from seed {seed}")
    console.print(f"bytes compared      {campaign.nbytes:,}")
    if watch:
        console.print(f"pairs judged        {campaign.pairs:,}")
    if failures:
        console.print(f"calls that failed   {campaign.failed:,}; operations with an error {campaign.errors:,}")
    console.print(f"wrong               {len(campaign.wrong)}  {' '.join(map(str, sorted(campaign.wrong)))}")
    console.print(f"programs a second   {campaign.done / seconds:.0f}, of processor time {rate(campaign):.0f}")
    for first, last in campaign.resident:
        if first:
            console.print(f"resident memory     {first / 1e6:.1f} MB after {WARM} programs, {last / 1e6:.1f} at end")
    sys.exit(bool(campaign.wrong))


def rate(campaign):
    return campaign.done / campaign.processor if campaign.processor else 0


if __name__ == "__main__":
    main()
