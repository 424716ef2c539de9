"""The command line: ``forebay devices``, ``default``, ``hip`` and ``cache``, also as ``python -m forebay``."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from forebay.core.errors import Error
from forebay.queues.kernels.cache import BinaryCache
from forebay.queues.selection import DeviceInfo, devices, inventory, select

__all__ = ["main"]

app = typer.Typer(
    help="Streams on in-order queues of OpenCL, Level Zero and SYCL devices.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command("devices")
def list_devices(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List what can be used, and what was found but cannot be, with the reason and what to do."""
    there = devices()
    default = next((device.name for device in there if device.usable), None)
    if as_json:
        listed = [
            {field.name: getattr(device, field.name) for field in dataclasses.fields(device) if field.name != "native"}
            for device in there
        ]
        absence = "" if there else inventory(there)
        print(json.dumps({"devices": listed, "default": default, "absence": absence}, indent=2, ensure_ascii=False))
        return
    if not there:
        print(inventory(there))
        return
    # Into a file or a pipe a table is as wide as it has to be, for whoever reads it later.
    console = Console() if sys.stdout.isatty() else Console(width=200)
    table = Table("name", "device", "platform", "version")
    table.add_column("units", justify="right")
    table.add_column("memory", justify="right")
    table.add_column("usable")
    for device in there:
        table.add_row(
            f"[bold]{device.name}[/]",
            escape(device.description),
            escape(device.platform),
            escape(re.sub(r"(\d) .*", r"\1", device.version)),  # what follows the number is the driver's, and long
            str(device.compute_units or ""),
            f"{device.memory / 2**30:.1f} GiB" if device.memory else "",
            state(device, device.name == default),
        )
    console.print(table)


def state(device: DeviceInfo, is_default: bool) -> str:
    """Say whether a device can be used, and if not why and what to do, in the markup of rich."""
    if device.usable:
        return "[green]yes[/], the default" if is_default else "[green]yes[/]"
    return f"[red]no:[/] {escape(device.reason)}\n[yellow]do:[/] {escape(device.advice)}"


@app.command("default")
def show_default() -> None:
    """Say in one line which device is used when a program names none; exit with 2 if there is none."""
    try:
        device = select()
    except Error as error:
        print(f"forebay: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    print(f"device: {device.name}  {device.platform} · {device.description}")


@app.command("hip")
def show_hip(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    all_functions: Annotated[bool, typer.Option("--all", help="List what is not there, too.")] = False,
) -> None:
    """Say what there is of HIP's runtime interface on each driver."""
    from forebay import hip
    from forebay.hip.table import DRIVERS, table

    rows = table(hip.__all__)
    if as_json:
        listed = [
            {"chapter": row.chapter, "name": row.name} | dict(zip(DRIVERS, row.drivers, strict=True)) for row in rows
        ]
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    console = Console() if sys.stdout.isatty() else Console(width=200)
    shown = Table("chapter")
    shown.add_column("function", no_wrap=True)
    for driver in DRIVERS:
        shown.add_column(driver)
    chapter = ""
    for row in rows:
        if row.there or all_functions:
            if row.chapter != chapter:
                shown.add_section()
            colours = [
                "green" if state == "yes" else "red" if state in ("no", "–") else "yellow" for state in row.drivers
            ]
            shown.add_row(
                row.chapter if row.chapter != chapter else "",
                f"[bold]{row.name}[/]",
                *(f"[{colour}]{escape(state)}[/]" for colour, state in zip(colours, row.drivers, strict=True)),
            )
            chapter = row.chapter
    console.print(shown)
    there = sum(row.there for row in rows)
    print(f"{there} of the {len(rows)} functions of these chapters; with --all, the others too. hiprtc: forebay.hiprtc")


cache = typer.Typer(help="What compilers made, kept on disk for the next process.", no_args_is_help=True)
app.add_typer(cache, name="cache")


@cache.command("info")
def show_cache() -> None:
    """Say where it is and how large."""
    found = BinaryCache().info()
    if found.folder is None:
        print("turned off by FOREBAY_NO_CACHE")
    else:
        print(f"{found.folder}\n{found.entries} entries, {found.nbytes / 2**20:.1f} of {found.limit / 2**20:.0f} MiB")


@cache.command("clear")
def clear_cache() -> None:
    """Remove all of it."""
    before = BinaryCache().info()
    BinaryCache().clear()
    print(f"{before.entries - BinaryCache().info().entries} entries removed")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a device's name must not end the program on an ASCII terminal
    app(prog_name="forebay")


if __name__ == "__main__":
    main()
