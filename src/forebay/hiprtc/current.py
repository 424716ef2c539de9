"""The device that `forebay.hiprtc` builds for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from forebay.queues.device import Device

_choose: Callable[[], Device] | None = None
_default: list[Device] = []
_lock = threading.Lock()


def compile_for(choose: Callable[[], Device]) -> None:
    """Compile for the device that `choose` returns in the thread that compiles. `forebay.hip` calls this."""
    global _choose
    _choose = choose


def current_device() -> Device:
    """Return the device that `forebay.hip` uses in this thread, or the default one if it is not imported."""
    if _choose is not None:
        return _choose()
    with _lock:
        if not _default or _default[0].closed:
            _default[:] = [Device()]
        return _default[0]
