"""Watches the calls of forebay's methods, other than launches: when, on which thread, and by which line of the program.

The methods are replaced while somebody watches. Otherwise nothing is added to them.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, Protocol

from forebay.events.event import Event
from forebay.queues import queue as queues
from forebay.queues.device import Device
from forebay.queues.graphs.executable import ExecutableGraph
from forebay.queues.graphs.graph import Graph
from forebay.queues.kernels.kernel import Kernel
from forebay.queues.launch.results import Result
from forebay.queues.memory.buffer import Buffer
from forebay.queues.queue import Queue
from forebay.tracing.calls import ticks
from forebay.tracing.methods import replace

Names = Mapping["type | ModuleType", tuple[str, ...]]

WATCHED: Names = {
    Queue: ("finish", "copy", "host", "step"),
    Event: ("wait",),
    Device: ("finish", "program", "queue", "_disband"),
    Buffer: ("get", "set"),
    Result: ("get",),
    Graph: ("instantiate", "launch"),
    ExecutableGraph: ("launch",),
    Kernel: ("_create",),
}


@dataclass(slots=True)
class Call:
    """A call of a method. Times are in ticks."""

    name: str  # class and method, or a function
    arguments: tuple[Any, ...]  # the object itself is the first of a method's
    keywords: dict[str, Any]
    line: str  # of the program: ``file:line``; empty when no Python code outside forebay is below
    begin: int = 0
    end: int = 0
    result: Any = None  # as long as it has not returned
    raised: bool = False
    look: Any = None  # what the findings remember between beginning and end


class Listener(Protocol):
    """Gets calls, on the thread that makes them, and queues."""

    def began(self, call: Call) -> None:
        """Note that a call begins."""

    def ended(self, call: Call) -> None:
        """Note that it returned or raised."""

    def queue_made(self, queue: Queue) -> None:
        """Note a new Queue; there may be several of one queue."""


listeners: tuple[Listener, ...] = ()
_told: dict[tuple[Any, str], tuple[Listener, ...]] = {}  # of each method or function
_originals: dict[tuple[Any, str], Any] = {}
_lock = threading.Lock()


def line_of_program() -> str:
    """Return the innermost line of this thread that is not forebay's own, as ``file:line``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "forebay":
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def with_end(function: Callable[[], object], ended: Callable[[str, int], object]) -> Callable[[], object]:
    """Return a host function that does the same, and passes its name and when it began to `ended` at its end."""
    name = str(getattr(function, "__qualname__", type(function).__qualname__))

    @functools.wraps(function)
    def host_function() -> object:
        begin = ticks()
        try:
            return function()
        finally:
            ended(name, begin)

    host_function.__qualname__ = name  # errors say it
    return host_function


def add(listener: Listener, more: Names | None = None) -> None:
    """Tell a listener of all calls that begin from now on: of WATCHED, and of `more`, which others are not told of."""
    global listeners
    with _lock:
        listeners = (*listeners, listener)
        if len(listeners) == 1:
            queues.watchers.append(_queue_made)
        for watched in (WATCHED, more or {}):
            for owner, names in watched.items():
                for name in names:
                    _told[owner, name] = (*_told.get((owner, name), ()), listener)
                    if (owner, name) not in _originals:
                        _originals[owner, name] = _replace(owner, name, _watched(owner, name))


def remove(listener: Listener) -> None:
    """Tell it no more, except that calls end which it was told of."""
    global listeners
    with _lock:
        listeners = tuple(each for each in listeners if each is not listener)
        if not listeners and _originals:
            queues.watchers.remove(_queue_made)
        for (owner, name), told in list(_told.items()):
            _told[owner, name] = tuple(each for each in told if each is not listener)
            if not _told[owner, name]:
                del _told[owner, name]
                _replace(owner, name, _originals.pop((owner, name)))


def _queue_made(queue: Queue) -> None:
    for listener in listeners:
        listener.queue_made(queue)


def _replace(owner: type | ModuleType, name: str, method: Any) -> Any:
    old = vars(owner)[name]
    try:
        setattr(owner, name, method)
    except TypeError:  # a compiled class
        assert isinstance(owner, type)
        replace(owner, name, method)
    return old


def _watched(owner: type | ModuleType, name: str) -> Callable[..., Any]:
    """Make what stands in for a method or function."""
    original = vars(owner)[name]
    full_name = f"{owner.__name__}.{name}" if isinstance(owner, type) else name

    @functools.wraps(original)
    def method(*arguments: Any, **keywords: Any) -> Any:
        told = _told.get((owner, name), ())
        call = Call(full_name, arguments, keywords, line_of_program())
        for listener in told:
            listener.began(call)
        call.begin = ticks()
        try:
            call.result = original(*call.arguments, **call.keywords)
            return call.result
        except BaseException:
            call.raised = True
            raise
        finally:
            call.end = ticks()
            for listener in told:
                listener.ended(call)

    return method
