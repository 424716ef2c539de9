"""Fails every test in which the loader's validation layer refuses a call, or that leaves driver objects behind.

It is active in a run with the layer on (``python -m tools.null_levelzero --validate python -m pytest …``), and costs
nothing in others. The observer watches the driver in the whole run: it notes each call that is refused or breaks one of
its own rules, and counts the objects of each kind that were made and not destroyed.

The layer's own tools for that are of no use. Its count at exit has no column for `zeEventCounterBasedCreate`. Its
events checker knows only events from a pool, and crashes when two threads submit.

So that nothing at all may be left, devices are opened for each test in such a run (`device_scope`).
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable

import pytest


def active() -> bool:
    """Whether the layer is on in this process."""
    return os.environ.get("ZE_ENABLE_VALIDATION_LAYER") == "1"


def scope(otherwise: str) -> Callable[..., str]:
    """The scope of fixtures that open devices, or make what is kept with one."""
    return lambda fixture_name, config: "function" if active() else otherwise


device_scope = scope("session")


class Validation:
    """The plugin."""

    def __init__(self) -> None:
        from tests.helpers.observer import observer_of

        self.observer = observer_of("level_zero")
        self.observer.watch(refused=True)
        self.before: Counter[str] = Counter()

    def alive(self) -> Counter[str]:
        gc.collect()
        return Counter(self.observer.alive())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.before = self.alive()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo):
        report = yield
        if report.when == "teardown":
            getattr(item, "funcargs", {}).clear()  # pytest keeps the values of fixtures for a little longer
            sys.last_type = sys.last_value = sys.last_traceback = None
            wrong = self.wrong(self.before)
            if wrong:
                report.outcome = "failed"
                report.longrepr = "\n".join([*([str(report.longrepr)] if report.longrepr else []), *wrong])
        return report

    def wrong(self, before: Counter[str]) -> list[str]:
        """What was done wrong since the last call, and how many objects there are more than before."""
        left = self.alive() - before
        return [*self.observer.violations(), *(f"left behind: {count} {kind}" for kind, count in left.items())]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Check for leaks again: objects that several tests share must be gone now too."""
        wrong = self.wrong(Counter())
        if wrong:
            print("\nvalidation layer, after the last test:", *wrong, sep="\n  ")
            session.exitstatus = session.exitstatus or 1


def begin() -> None:
    """Turn the layer's events checker off, before Level Zero's loader is loaded."""
    if active():
        os.environ["ZEL_ENABLE_EVENTS_CHECKER"] = "0"


def register(config: pytest.Config) -> None:
    """Add the plugin to a run with the layer on."""
    if active():
        config.pluginmanager.register(Validation(), "forebay-validation")
