"""The thread that runs host functions. Waits are refused on it."""

import threading

from forebay.core.errors import Error

_thread: threading.Thread | None = None


def set_host_thread(thread: threading.Thread) -> None:
    """Remember the thread that `forebay.queues.host_functions` has started."""
    global _thread
    _thread = thread


def refuse_on_host_thread(what: str) -> None:
    """Raise `Error` inside a host function: it holds a queue, and could wait for that queue (HIP forbids it too)."""
    if _thread is not None and threading.get_ident() == _thread.ident:
        raise Error(f"{what} inside a host function: it holds a queue, and the wait could be for that one")
