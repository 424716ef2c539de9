"""Watches the driver calls of a device, by the recorder of its driver: see `tests.observers.recorder`."""

from __future__ import annotations

import gc
import os
from collections import Counter
from contextlib import contextmanager
from typing import NamedTuple

from forebay.queues.selection import VARIABLE
from tests.drivers.cuda import standing_in
from tools.null_levelzero import MARK


class Call(NamedTuple):
    """One driver call that has returned. Events are serial numbers, which are never used again."""

    name: str
    object: int  # its first argument: the handle of a queue, kernel, event or context
    kernel: int
    waits: tuple[int, ...]
    event: int  # the event that the call made or uses; 0 for none
    detail: int
    status: int
    injected: bool
    thread: int = 0  # by its identifier


TRANSFERS = {
    "UPLOAD": lambda queue, buffer: queue.copy(buffer, bytes(buffer.nbytes)),
    "DOWNLOAD": lambda queue, buffer: queue.copy(bytearray(buffer.nbytes), buffer),
    "FILL": lambda queue, buffer: queue.fill(buffer, 3),
}
"""Operations whose call depends on the device's kind of memory. The buffer has four-byte elements."""


class Calls:
    """The calls since `observe` began."""

    def __init__(self, driver, device):
        self.driver = driver
        self.device = device

    @property
    def log(self):
        return self.since(0)

    def __len__(self):
        return self.driver.count()

    def since(self, first):
        """Those from the given one on."""
        return self.take(first)[0]

    def take(self, first):
        """(those of `since`, the index from which to read on)."""
        made = [Call(*fields) for fields in self.driver.read(first)]
        return made, first + len(made)

    def names(self, first=0):
        """The names of all calls from the given one on, in order."""
        return [call.name for call in self.since(first)]

    def counts(self, first=0):
        return Counter(self.names(first))

    def count(self, name, first=0):
        return self.counts(first)[name]

    def kinds(self, first=0):
        """The number of calls of each kind. Calls that only manage objects or set arguments are "other"."""
        return Counter(map(self.driver.kind_of, self.names(first)))

    def kind(self, call):
        return self.driver.kind_of(call.name)

    def fail(self, name, code, after=0):
        """Make a later call of this name return `code` without reaching the driver. Let `after` calls succeed first.

        With several names, one call of each fails.
        """
        for each in (name,) if isinstance(name, str) else name:
            self.driver.fail(each, code, after)

    def forgive(self):
        """Drop the planned failures that have not happened yet."""
        self.driver.forgive()

    def name_of(self, what):
        """The call that this device uses for "LAUNCH", "UPLOAD", …. Tries it out where that depends on the device."""
        if what not in TRANSFERS:
            return getattr(self.driver, what)
        queue, buffer = self.device.queue(blocking=False), self.device.empty(64, "u4")
        first = len(self)
        TRANSFERS[what](queue, buffer)
        (name,) = (call.name for call in self.since(first) if self.kind(call) == "command")
        queue.finish()
        return name

    def events_alive(self):
        return self.driver.events_alive(self.device)

    def markers_of(self, queues, first=0):
        """The calls that made a marker on one of these queues."""
        handles = {self.handle_of(queue) for queue in queues}
        return [call for call in self.since(first) if call.object in handles and self.kind(call) == "marker"]

    def handle_of(self, queue):
        return self.driver.handle_of(queue)


LOST = {
    "opencl": (-2, "CL_DEVICE_NOT_AVAILABLE"),
    "level_zero": (0x70000001, "ZE_RESULT_ERROR_DEVICE_LOST"),
    "cuda": (719, "CUDA_ERROR_LAUNCH_FAILED"),
}
"""What a driver says when the device is lost. SYCL's errors have no codes."""

EXECUTES = MARK not in os.environ and not (os.environ.get(VARIABLE, "").startswith("cuda") and standing_in.inside())
"""Whether devices really execute, so that tests can compare results. The stand-in for CUDA's driver does not."""


def observer_of(backend):
    """The recorder of a driver's calls."""
    from tests.observers.recorder import RECORDERS

    return RECORDERS[backend]


@contextmanager
def watch(backend):
    """Follow all objects that a driver makes from here on, to find mistakes made with them.

    If the device executes nothing, the observer answers for it: commands behind a closed gate are not done. (The
    stand-in for CUDA's driver answers so itself.)
    """
    driver = observer_of(backend)
    driver.watch(emulate=not EXECUTES)
    try:
        yield driver
    finally:
        driver.unwatch()


@contextmanager
def observe(device):
    """Observe the driver of `device` until the block ends. Not nested; the log can be read afterwards.

    At the end it asserts that no call violated the driver's specification, whether or not the driver allowed it.
    """
    driver = observer_of(device.info.backend)
    driver.start()
    collects = gc.isenabled()
    gc.disable()  # or calls that destroy objects of an earlier test appear in the log
    try:
        yield Calls(driver, device)
        found = driver.violations()
        assert not found, "\n".join(found)
    finally:
        driver.stop()
        if collects:
            gc.enable()
