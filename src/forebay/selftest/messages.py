"""What the process that runs the tests tells the one that shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from forebay.selftest.latencies import Latency

__all__ = ["Begun", "Controlled", "Ended", "Latency", "Message", "Opened", "Ran", "Request"]


@dataclass(frozen=True)
class Request:
    """What to run.

    Attributes
    ----------
    device : str, optional
        Filter words.
    rounds : int
        How often each test runs, in another order each time.
    seconds : float
        After which no other round begins.
    patience : float
        Seconds that one test may take.
    calls_only : bool
        Whether memory is not to be compared.
    first_round : int
        Where to go on, and which tests were `run` in that round already.
    left_out : frozenset of str
        Tests not to run any more, because they ended the process or hung.
    """

    device: str | None
    rounds: int
    seconds: float
    patience: float
    calls_only: bool = False
    first_round: int = 0
    run: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Opened:
    """The device is open, and its kernels are built.

    Attributes
    ----------
    facts : dict
        Of the device and its driver, for the file.
    executes : bool
        Whether memory is compared.
    slow : float
        Seconds that a slow kernel takes.
    """

    facts: dict[str, Any]
    executes: bool
    slow: float


@dataclass(frozen=True)
class Begun:
    """A test, or something else that may hang, begins."""

    what: str
    number: int = 0  # of the round


@dataclass(frozen=True)
class Ran:
    """A test has run.

    Attributes
    ----------
    problem : str
        What went wrong; empty if nothing did.
    absent : str
        Why the device cannot run it; empty if it can.
    """

    what: str
    number: int
    problem: str = ""
    absent: str = ""


@dataclass(frozen=True)
class Controlled:
    """How many programs that lack a wait went wrong, as they should, of how many.

    Attributes
    ----------
    slower : int
        How many times as slow as before a slow kernel is now, so that they are seen.
    """

    seen: int
    of: int
    slower: int = 1


@dataclass(frozen=True)
class Ended:
    """Everything was run, or time was over, or it cannot go on.

    Attributes
    ----------
    rounds : int
        Rounds that were completed.
    problem : str
        Why it cannot go on; empty otherwise.
    found : bool
        Whether there is such a device.
    stats : dict
        The counters of the device that are not 0.
    """

    rounds: int
    problem: str = ""
    found: bool = True
    stats: dict[str, int] = field(default_factory=dict)


Message = Opened | Begun | Ran | Controlled | Latency | Ended
