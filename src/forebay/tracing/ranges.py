"""Ranges for profilers: NVTX (Nsight) and ITT (VTune) show forebay's calls beside what they see of the drivers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from forebay.tracing import watching

if TYPE_CHECKING:
    from forebay.queues.queue import Queue

DOMAIN = "forebay"
Begin = Callable[[str], object]
End = Callable[[], object]


def nvtx_range() -> tuple[Begin, End]:
    """The functions that begin and end a range of NVTX on this thread."""
    nvtx = import_module("nvtx")
    return lambda name: nvtx.push_range(name, domain=DOMAIN), lambda: nvtx.pop_range(domain=DOMAIN)


def itt_range() -> tuple[Begin, End]:
    """The same of ITT."""
    itt = import_module("ittapi")
    domain = itt.domain(DOMAIN)
    return lambda name: itt.task_begin(domain, itt.string_handle(name)), lambda: itt.task_end(domain)


LIBRARIES: dict[str, Callable[[], tuple[Begin, End]]] = {"nvtx": nvtx_range, "ittapi": itt_range}


class Ranges:
    """Makes a range of each public call that `forebay.tracing.watching` watches.

    Parameters
    ----------
    library : str
        "nvtx" or "ittapi", which is also the package to install.

    Raises
    ------
    ImportError
        When it is not installed.
    """

    def __init__(self, library: str) -> None:
        self._begin_range, self._end_range = LIBRARIES[library]()

    def begin(self) -> None:
        """Begin to watch."""
        watching.add(self)

    def end(self) -> None:
        """Watch no more."""
        watching.remove(self)

    # -- a listener

    def queue_made(self, queue: Queue) -> None:
        """Nothing to mark."""

    def began(self, call: watching.Call) -> None:
        """Begin a range on this thread."""
        if "._" not in call.name:
            self._begin_range(call.name)

    def ended(self, call: watching.Call) -> None:
        """End it."""
        if "._" not in call.name:
            self._end_range()
