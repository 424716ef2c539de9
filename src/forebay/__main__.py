"""The command line: ``forebay devices``, ``hip``, ``trace``, ``stats``, ``bench`` …; also as ``python -m forebay``."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from types import FrameType

import click
from rich.console import Console
from rich.markup import escape

from forebay.compiler import prelude
from forebay.compiler.cache import BinaryCache
from forebay.compiler.clang import describe
from forebay.core.errors import Error, how_to_install
from forebay.queues.selection import VARIABLE, DeviceInfo, devices, inventory, select
from forebay.races import reports as races


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Completion by the shell: eval "$(_FOREBAY_COMPLETE=bash_source forebay)", or zsh_source, or fish_source.',
)
@click.version_option(package_name="forebay", message="%(prog)s %(version)s")
def commands() -> None:
    """Streams on in-order queues of OpenCL, Level Zero and SYCL devices."""


def plain_console() -> Console:
    """Return a console that breaks no line and cuts no name off, however narrow the terminal is."""
    return Console(highlight=False, soft_wrap=True)


@commands.command("devices", short_help="List the devices, and the compiler of HIP C++.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_devices(as_json: bool) -> None:
    """List the devices, and why some cannot be used; and the compiler of HIP C++.

    The default is the device that a program gets which names none. FOREBAY_DEVICE chooses it.
    """
    there = devices()
    default, problem = None, ""
    try:
        default = select().name
    except Error as error:
        problem = str(error).replace(f"; {inventory(there)}", "") if there else str(error)
    if as_json:
        listed = [
            {field.name: getattr(device, field.name) for field in dataclasses.fields(device) if field.name != "native"}
            for device in there
        ]
        facts = {"devices": listed, "default": default, "problem": problem, "clang": describe()}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    console = plain_console()
    for device in there:
        console.print(described(device, device.name == default), end="\n\n")
    if problem:
        console.print(f"[red]no default:[/] {escape(problem)}" if there else escape(problem))
    console.print(f"HIP C++: {escape(describe())}")


def described(device: DeviceInfo, is_default: bool) -> str:
    """Return what is known of a device in a few lines, in the markup of rich."""
    chosen = f" that {VARIABLE}={os.environ[VARIABLE]} names" if os.environ.get(VARIABLE) else ""
    facts = [
        device.platform,
        re.sub(r"(\d) .*", r"\1", device.version),  # what follows the number is the driver's, and long
        f"{device.compute_units} units" if device.compute_units else "",
        f"{device.memory / 2**30:.1f} GiB" if device.memory else "",
    ]
    lines = [
        f"[bold]{device.name}[/]" + (f"  [green]the default{escape(chosen)}[/]" if is_default else ""),
        f"  {escape(device.description)}",
        f"  {escape(' · '.join(filter(None, facts)))}",
    ]
    if not device.usable:
        lines += [f"  [red]not usable:[/] {escape(device.reason)}", f"  [yellow]what to do:[/] {escape(device.advice)}"]
    return "\n".join(lines)


@commands.command("default")
def show_default() -> None:
    """Say which device is the default, in one line.

    The exit status is 2 if there is none.
    """
    try:
        device = select()
    except Error as error:
        print(f"forebay: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"device: {device.name}  {device.platform} · {device.description}")


@commands.command("hip")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--all", "all_functions", is_flag=True, help="List the functions that no driver has, too, and why.")
def show_hip(as_json: bool, all_functions: bool) -> None:
    """List the functions of HIP, and what is there on which driver."""
    from forebay.hip.table import DRIVERS, REASONS, table

    rows = table()
    if as_json:
        listed = [
            {"chapter": row.chapter, "name": row.name} | dict(zip(DRIVERS, row.drivers, strict=True)) for row in rows
        ]
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    console = plain_console()
    chapter = ""
    for row in rows:
        if row.there or all_functions:
            if row.chapter != chapter:
                chapter = row.chapter
                console.print(f"[bold]{chapter}[/]{': ' * (chapter in REASONS)}{REASONS.get(chapter, '')}")
            console.print(f"  {row.name:<40} {on_drivers(dict(zip(DRIVERS, row.drivers, strict=True)))}")
    there = sum(row.there for row in rows)
    print(f"{there} of the {len(rows)} functions of these chapters; --all lists the others too. hiprtc: forebay.hiprtc")


def on_drivers(states: dict[str, str]) -> str:
    """Return what a function does on each driver, said once if that is the same; in the markup of rich."""

    def coloured(state: str) -> str:
        colour = "green" if state == "yes" else "red" if state in ("no", "–") else "yellow"
        return f"[{colour}]{escape(state)}[/]"

    drivers: dict[str, list[str]] = {}
    for driver, state in states.items():
        drivers.setdefault(state, []).append(driver)
    if len(drivers) == 1:
        return coloured(next(iter(drivers)))
    return " · ".join(f"{', '.join(named)}: {coloured(state)}" for state, named in drivers.items())


@commands.group()
def cache() -> None:
    """Show or clear the cache of compiled programs."""


@cache.command("info")
def show_cache() -> None:
    """Say where it is, and how large."""
    found = BinaryCache().info()
    if found.folder is None:
        print("turned off by FOREBAY_NO_CACHE")
    else:
        print(f"{found.folder}\n{found.entries} entries, {found.nbytes / 2**20:.1f} of {found.limit / 2**20:.0f} MiB")
        headers = prelude.kept()
        nbytes = sum(header.stat().st_size for header in headers)
        print(f"HIP's headers, precompiled: {len(headers)}, {nbytes / 2**20:.1f} MiB")


@cache.command("clear")
def clear_cache() -> None:
    """Remove all of it."""
    before = BinaryCache().info()
    BinaryCache().clear()
    for header in prelude.kept():
        prelude.forget(header)
    print(f"{before.entries - BinaryCache().info().entries} entries removed")


NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as shells have it


def run_program(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a command to its end, and return its exit status, for this process to end with. Exits if it cannot be run.

    That is 128 plus the number of the signal if one ended it. Ctrl-C and the signals that ask this process to end are
    the command's to handle.
    """
    try:
        process = subprocess.Popen(command, env=os.environ | variables)
    except OSError as error:
        program = " ".join(command)
        instead = f"; a program in Python is: python {program}" if command[0].endswith(".py") else ""
        print(f"forebay: {command[0]}: {error.strerror}{instead}", file=sys.stderr)
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    status = process.wait()
    return status if status >= 0 else 128 - status


RUNS_A_PROGRAM = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@commands.command("trace", short_help="Run a program, and trace what its queues do.", context_settings=RUNS_A_PROGRAM)
@click.option("-o", "--output", default="trace.json", show_default=True, help="The file to write; it is replaced.")
@click.option("--device-times", is_flag=True, help="Show also when commands ran on the device; costs more.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def trace(output: str, device_times: bool, command: tuple[str, ...]) -> None:
    """Run a program, and write a trace of what its queues do.

    For example: forebay trace -o trace.json -- python app.py. Open the file at https://ui.perfetto.dev. Each process of
    the program that opens a device writes a trace of its own, the later ones with their number in the name. The exit
    status is the program's.
    """
    path = os.path.abspath(output)
    try:
        with open(path, "a"):
            pass
        os.remove(path)  # the first process of the program to make it has it
    except OSError as error:
        print(f"forebay: {output}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    times = {"FOREBAY_TRACE_DEVICE_TIMES": "1"} if device_times else {}
    status = run_program(command, {"FOREBAY_TRACE": path} | times)
    if os.path.exists(path):
        print(f"forebay: the trace is in {output}", file=sys.stderr)
    else:
        print("forebay: no trace: the program opened no device, or was ended by force", file=sys.stderr)
    sys.exit(status)


@commands.command("stats", short_help="Run a program, and count what its queues did.", context_settings=RUNS_A_PROGRAM)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def stats(command: tuple[str, ...]) -> None:
    """Run a program, and say what its queues did, and what it did without need.

    For example: forebay stats -- python app.py. When the program ends, each of its processes that uses forebay prints
    this on stderr: the counters of its devices, what was spared, and the costliest inefficiencies with the lines of the
    program. These are waits for what was known to be done, queues that wait for each other because of the null queue,
    bytes uploaded that were there already, programs built twice, and steps that do not repeat. The exit status is the
    program's.
    """
    sys.exit(run_program(command, {"FOREBAY_STATS": "1"}))


@commands.command("selftest", short_help="Test on your device whether commands run in order.")
@click.argument("device", required=False)
@click.option(
    "-o", "--output", default="forebay-selftest.json", show_default=True, help="The file to write; it is replaced."
)
@click.option("--rounds", type=click.IntRange(1), default=100, show_default=True, help="How often each test runs.")
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    help="After so long no further test begins, but each has run once.",
)
@click.option("--patience", type=click.FloatRange(1), default=30, show_default=True, help="Seconds a test may take.")
@click.option("--calls-only", is_flag=True, help="Compare no results: the device executes nothing.")
@click.option("--in-process", is_flag=True, help="Run the tests in this process, for debuggers; it may hang or end.")
def selftest(
    device: str | None, output: str, rounds: int, seconds: float, patience: float, calls_only: bool, in_process: bool
) -> None:
    """Test on your device whether commands run in the order in which they have to, and measure the main calls.

    DEVICE is any part of backend:kind:index, as for forebay.Device; the default is the device that a program gets.
    Small programs with several queues, events, graphs, steps, copies and threads are run again and again, and what they
    leave in memory is compared with what it must be. It takes less than two minutes. The file has what failed, the
    driver and all versions: please attach it to an issue. The exit status is 1 when something failed, and 2 when there
    is no such device.
    """
    from forebay.selftest.command import selftest as run_selftest
    from forebay.selftest.work import Request

    sys.exit(run_selftest(Request(device, rounds, seconds, patience, calls_only), output, in_process))


@commands.command("check", short_help="Run a program, and look for races.", context_settings=RUNS_A_PROGRAM)
@click.option("--error", is_flag=True, help="Raise RaceError at the second command instead of submitting it.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def check(error: bool, command: tuple[str, ...]) -> None:
    """Run a program, and report commands that use the same memory and that nothing in the program orders.

    For example: forebay check -- python app.py. Each race is reported on stderr when its second command is
    submitted, with both lines and the wait that is missing; and each process that uses forebay prints a summary at
    its end, with what may be races. The exit status is the program's, but 1 if it was 0 and there was a race for
    certain."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "races")
        status = run_program(command, {races.VARIABLE: "races,error" if error else "races", races.SUMMARY: path})
        certain = 0
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                certain = sum(int(line.split()[0]) for line in file)
        else:
            print("forebay: nothing was checked: the program made no Device, or was ended by force", file=sys.stderr)
    sys.exit(1 if status == 0 and certain else status)


@commands.command(
    "bench",
    short_help="Measure what forebay's calls cost here.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure what forebay's calls cost here, beside the driver's own and other packages.

    `forebay bench --help` lists the commands, and `forebay bench run --help` the cases and options.
    """
    try:
        importlib.import_module("scipy.stats")  # for the tables, which come when all is measured
        from forebay.bench.__main__ import main as run_bench
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "forebay":
            raise
        print(f"forebay: bench needs {error.name}: {how_to_install('bench')}", file=sys.stderr)
        sys.exit(2)
    run_bench(list(arguments), prog_name="forebay bench")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a device's name must not end the program on an ASCII terminal
    commands(prog_name="forebay")


if __name__ == "__main__":
    main()
