"""Shows on a terminal that something is being built, once that takes a while.

No compiler tells how far it is, so there is a bar without an end, and the time that went by.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["shown_while_building"]

AFTER = 1.0
"""Seconds after which it is shown."""
EVERY = 0.5  # seconds; drawing takes the GIL from threads that launch meanwhile
VARIABLE = "FOREBAY_PROGRESS"

_shown = threading.Lock()  # by one of the threads that build at once


@contextmanager
def shown_while_building(what: str) -> Iterator[None]:
    """Show a bar on the standard error as long as the block takes, from the second second on.

    It is gone after the block. Nothing is shown where the standard error is no terminal, while another thread shows
    what it builds, and with ``FOREBAY_PROGRESS=0``.

    Parameters
    ----------
    what
        What is built, and for which device.
    """
    if not _is_wanted() or not _shown.acquire(blocking=False):
        yield
        return
    try:
        over = threading.Event()
        thread = threading.Thread(target=_show, args=(what, over), name="forebay progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
    finally:
        _shown.release()


def _is_wanted() -> bool:
    try:
        return os.environ.get(VARIABLE) != "0" and sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _show(what: str, over: threading.Event) -> None:
    if over.wait(AFTER):
        return
    with suppress(OSError, ValueError):  # the terminal has gone, or the program has closed it
        _draw(what, over)


def _draw(what: str, over: threading.Event) -> None:
    from rich.console import Console  # most programs never build for so long
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("forebay: building {task.description}", markup=False), BarColumn(16), TimeElapsedColumn())
    # Drawn here and not by rich's own thread. What the program prints is none of its business.
    with Progress(
        *columns,
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=not console.is_interactive,
    ) as progress:
        progress.add_task(what, total=None)
        progress.refresh()
        while not over.wait(EVERY):
            progress.refresh()
