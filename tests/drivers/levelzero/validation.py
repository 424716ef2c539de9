"""Fails every test that the loader's validation layer complains about, or that leaves driver objects behind.

It is active in a run with the layer on (``python -m tools.null_levelzero --validate python -m pytest …``), and costs
nothing in others. It reads two outputs of the layer:

- its trace, a file with every call, its result and its handles. The trace shows exactly which objects of any kind were
  made and never destroyed, at the end of each test and not only of the process. Any result but success and "not ready"
  is an error.
- its standard error, where its events checker reports. The checker knows less than the driver, see `PRINTED`.

The layer's own count at exit cannot be used: it has no column for `zeEventCounterBasedCreate`, so each such event
destroyed reads as ``LEAK = -1``. The trace has those calls.

So that nothing at all may be left, devices are opened for each test in such a run (`device_scope`).
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

FILE = "calls.log"
LOGGING = {
    "ZEL_ENABLE_LOADER_LOGGING": "1",
    "ZEL_LOADER_LOGGING_LEVEL": "trace",
    "ZEL_LOADER_LOGGING_ENABLE_SUCCESS_PRINT": "1",
    "ZEL_LOADER_LOG_CONSOLE": "0",
    "ZEL_LOADER_LOG_FILE": FILE,
}
BUFFERED = 1 << 13  # bytes that the logger keeps before it writes them

THREAD = re.compile(r"\[thread-id: (\d+)\]")
RETURNED = re.compile(r"(?:SUCCESS|ERROR|WARNING) \((?P<result>\w+)\) in (?P<call>\w+)\((?P<arguments>.*)\)\s*$")
FINE = {"ZE_RESULT_SUCCESS", "ZE_RESULT_NOT_READY"}
MADE = re.compile(r"\bp(h\w+|ptr)=(0x[0-9a-f]+)")
ENDED = re.compile(r"\bh\w+=(0x[0-9a-f]+)")
FREED = re.compile(r"\bptr=(0x[0-9a-f]+)")
MADE_FROM = re.compile(r"\bh(Context|Module|EventPool)=(0x[0-9a-f]+)")
WAITS = re.compile(r"\bnum(?:Wait)?Events=(\d+)")

# The calls that its events checker tracks without a lock: it sometimes crashes when two threads make them at once.
BOOKED = re.compile(r"zeCommandList\w*Append|zeEvent(?:Create|Destroy|HostSignal|HostReset)$")

# The lines that the layer prints, and the wrong ones among them.
PRINTED = re.compile(r"^(?:Warning: .*|.*dependency would create a cycle.*|.*There is already a path.*)$", re.MULTILINE)
# Wrong: the checker knows only events from a pool, and none from zeEventCounterBasedCreate. Ignored if the trace shows
# that the handle is one of those.
SIGNALS = re.compile(r"Warning: hSignalEvent \{(0x[0-9a-f]+)\} might be an invalid event in call to (\w+)")
# The same for wait lists: it prints the position in the list, and the trace has only the list's address. Ignored as
# often as this test's calls of that name had an event in that position. A handle that was never made does not get that
# far: the layer itself refuses null, and the driver crashes over any other.
WAITED = re.compile(r"Warning: phWaitEvents \{(\d+)\} might be an invalid event in call to (\w+)")


def active() -> bool:
    """Whether the layer is on in this process."""
    return os.environ.get("ZE_ENABLE_VALIDATION_LAYER") == "1"


def scope(otherwise: str) -> Callable[..., str]:
    """The scope of fixtures that open devices, or make what is kept with one."""
    return lambda fixture_name, config: "function" if active() else otherwise


device_scope = scope("session")


class Trace:
    """The file that the layer writes, as it grows."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.offset = 0
        self.marks = 0
        self.rest = ""
        self.driver: ctypes.c_void_p | None = None

    def read(self) -> list[str]:
        """The lines of all calls that have returned since the last time."""
        self._push()
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read()
        self.offset += len(data)
        *lines, self.rest = (self.rest + data.decode(errors="replace")).split("\n")
        return [line for line in lines if "forebay mark" not in line]

    def _push(self) -> None:
        """Make calls until a mark is in the file: the logger buffers some kilobytes and cannot be flushed."""
        library = ctypes.CDLL("libze_loader.so.1")
        if self.driver is None:
            self.driver = any_driver(library)
        self.marks += 1
        name = b"forebay mark %d." % self.marks
        library.zeDriverGetExtensionFunctionAddress(self.driver, name, ctypes.byref(ctypes.c_void_p()))
        before = self.path.stat().st_size if self.path.exists() else 0
        version = ctypes.c_uint32()
        for _ in range(100):
            for _ in range(BUFFERED // 100):
                library.zeDriverGetApiVersion(self.driver, ctypes.byref(version))
            if self.path.exists() and self.path.stat().st_size > before:
                with self.path.open("rb") as file:
                    file.seek(self.offset)
                    if name in file.read():
                        return
        raise RuntimeError(f"the validation layer writes no trace to {self.path}")


def any_driver(library: ctypes.CDLL) -> ctypes.c_void_p:
    """The handle of a driver; Level Zero is initialised if it was not."""
    count, driver = ctypes.c_uint32(1), ctypes.c_void_p()
    result = library.zeInit(0) or library.zeDriverGet(ctypes.byref(count), ctypes.byref(driver))
    if result or not driver:
        raise RuntimeError(f"the validation layer is on, but there is no Level Zero driver: {result & 0xFFFFFFFF:#x}")
    return driver


class Ledger:
    """The objects that were made and not destroyed, and the errors, from the lines of a trace.

    The lines of two threads may come in another order than their calls, and a handle may be used again at once. So each
    handle has a balance, and an object is alive if its balance is not zero.
    """

    def __init__(self) -> None:
        self.balance: Counter[tuple[str, str]] = Counter()
        self.made_by: dict[tuple[str, str], str] = {}
        self.made_from: dict[tuple[str, str], tuple[str, str]] = {}
        self.counter_based: set[str] = set()  # handles of events that were ever made by zeEventCounterBasedCreate
        self.waits: Counter[tuple[str, int]] = Counter()  # (call, position in its list of waits)
        self.turns: list[str] = []  # threads, each as often as another one had made the `BOOKED` call before
        self.errors: list[str] = []

    def note(self, lines: Iterable[str]) -> None:
        for line in lines:
            returned = RETURNED.search(line)
            if returned:
                thread = THREAD.findall(line)
                if BOOKED.match(returned["call"]) and thread != self.turns[-1:]:
                    self.turns += thread
                self._note(returned["result"], returned["call"], returned["arguments"])
            elif "[error]" in line or "[warning]" in line or "[critical]" in line:
                self.errors.append(line)

    def _note(self, result: str, call: str, arguments: str) -> None:
        if result not in FINE:
            self.errors.append(f"{result} in {call}({arguments})")
        for waits in WAITS.findall(arguments):
            self.waits.update((call, position) for position in range(int(waits)))
        if call in ("zeMemFree", "zeMemFreeExt"):
            if result == "ZE_RESULT_SUCCESS":
                self.balance["memory", FREED.findall(arguments)[-1]] -= 1
        elif call.endswith(("Destroy", "DestroyExp", "DestroyExt")):
            if result == "ZE_RESULT_SUCCESS":
                self._ended(kind_of(call), ENDED.findall(arguments)[-1])
        elif "Create" in call or call.startswith("zeMemAlloc"):
            for name, handle in MADE.findall(arguments):
                # A module that cannot be built has a log all the same.
                if (result == "ZE_RESULT_SUCCESS" and name != "hDevices") or name == "hBuildLog":
                    thing = ("ModuleBuildLog" if name == "hBuildLog" else kind_of(call)), handle
                    self.balance[thing] += 1
                    self.made_by[thing] = f"{call}({arguments})"
                    origin = MADE_FROM.search(arguments)
                    if origin:
                        self.made_from[thing] = (origin[1], origin[2])
                    if call == "zeEventCounterBasedCreate":
                        self.counter_based.add(handle)

    def _ended(self, kind: str, handle: str) -> None:
        """Note the end of an object. The driver does not refuse to end a module, pool or context that is still used."""
        self.balance[kind, handle] -= 1
        if self.balance[kind, handle] <= 0 and kind in ("Context", "Module", "EventPool"):
            for thing in self.alive():
                if self.made_from.get(thing) == (kind, handle):
                    self.errors.append(f"{kind} {handle} destroyed before its {thing[0]}: {self.made_by[thing]}")

    def alive(self) -> Counter[tuple[str, str]]:
        return +self.balance

    def judge_printed(self, text: str) -> list[str]:
        """The lines of standard error that the layer printed and that are not known to be wrong."""
        waits = self.waits.copy()
        wrong = []
        for line in PRINTED.findall(text):
            signals, waited = SIGNALS.fullmatch(line), WAITED.fullmatch(line)
            if signals and signals[1] in self.counter_based:
                continue
            if waited and waits[waited[2], int(waited[1])] > 0:
                waits[waited[2], int(waited[1])] -= 1
                continue
            wrong.append(line)
        return wrong


def kind_of(call: str) -> str:
    """The kind of object that a call makes or destroys; the same word for both."""
    if call.startswith("zeMem"):
        return "memory"
    if call.startswith(("zeCommandListCreate", "zeCommandListDestroy")):
        return "CommandList"
    if call in ("zeEventCounterBasedCreate", "zexCounterBasedEventCreate2"):
        return "Event"
    return re.sub(r"^zex?|Create\w*$|Destroy\w*$", "", call)


class Validation:
    """The plugin."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.ledger = Ledger()
        self.before: Counter[tuple[str, str]] = Counter()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect tests with several threads if the layer's events checker is on, because it crashes then."""
        if os.environ.get("ZEL_ENABLE_EVENTS_CHECKER") == "1":
            config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("threads")])
            items[:] = [item for item in items if not item.get_closest_marker("threads")]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.ledger.note(self.trace.read())
        self.before = self.ledger.alive()
        self.ledger.waits.clear()
        self.ledger.turns.clear()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo):
        report = yield
        if report.when == "teardown":
            wrong = self.verdict(item, report)
            if wrong:
                report.outcome = "failed"
                report.longrepr = "\n".join([*([str(report.longrepr)] if report.longrepr else []), *wrong])
        return report

    def verdict(self, item: pytest.Item, report: pytest.TestReport) -> list[str]:
        funcargs = getattr(item, "funcargs", None)
        if funcargs:
            funcargs.clear()  # fixtures are torn down; pytest keeps their values for a little longer
        sys.last_type = sys.last_value = sys.last_traceback = None
        gc.collect()
        self.ledger.note(self.trace.read())
        wrong = [f"the driver or its validation layer refused a call: {error}" for error in self.ledger.errors]
        self.ledger.errors.clear()
        printed = "".join(content for name, content in report.sections if "stderr" in name)
        wrong += [f"the validation layer printed: {line}" for line in self.ledger.judge_printed(printed)]
        # One turn of another thread is most often one that this one waited for.
        if len(self.ledger.turns) > 3 and not item.get_closest_marker("threads"):
            wrong.append("the layer's events checker may crash: threads take turns here, mark it pytest.mark.threads")
        left = self.ledger.alive() - self.before
        for thing in left:
            wrong.append(f"left behind: {thing[0]} {thing[1]} of {self.ledger.made_by[thing]}")
            del self.ledger.balance[thing]  # so that the next test is not blamed
        return wrong

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Check for leaks again: objects that several tests share must be gone now too."""
        gc.collect()
        self.ledger.note(self.trace.read())
        wrong = [*self.ledger.errors, *(f"left behind: {self.ledger.made_by[thing]}" for thing in self.ledger.alive())]
        if wrong:
            print("\nvalidation layer, after the last test:", *wrong, sep="\n  ")
            if session.exitstatus == 0:
                session.exitstatus = 1


_trace: Trace | None = None


def begin() -> None:
    """Have the layer write its trace; before Level Zero's loader is loaded."""
    global _trace
    if active() and _trace is None:
        folder = Path(tempfile.mkdtemp(prefix="forebay-validation-"))
        os.environ.update(LOGGING, ZEL_LOADER_LOG_DIR=str(folder))
        _trace = Trace(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


def register(config: pytest.Config) -> None:
    """Add the plugin to a run with the layer on."""
    if _trace is not None:
        config.pluginmanager.register(Validation(_trace), "forebay-validation")
