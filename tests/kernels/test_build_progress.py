"""What a terminal shows while a program is built, and that nothing else is shown anything."""

import codecs
import errno
import io
import os
import pty
import re
import sys
import threading

import pytest

from forebay.queues.kernels import build_progress
from forebay.queues.kernels.build_progress import shown_while_building
from tests.helpers import kernels as sources

pytestmark = pytest.mark.needs("no validation layer")


class Terminal:
    """A terminal, as what the process writes its errors to."""

    def __init__(self):
        self.end, other = pty.openpty()
        self.file = open(other, "w", encoding="utf-8")  # noqa: SIM115 - closed with this
        self.text, self.decoder = "", codecs.getincrementaldecoder("utf-8")()  # a read may end inside a character

    def read_until(self, pattern):
        """Block until it shows that; the test's own limit ends a wait for ever."""
        while not re.search(pattern, self.text):
            self.text += self.decoder.decode(os.read(self.end, 4096))

    def close(self):
        self.file.close()
        os.close(self.end)


@pytest.fixture
def terminal(monkeypatch):
    """Not the standard error yet: pytest puts its own there when a test begins."""
    opened = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("FOREBAY_PROGRESS", raising=False)
    yield opened
    opened.close()


def everything_of(terminal):
    """What a terminal has shown so far."""
    print("the end", file=terminal.file, flush=True)
    terminal.read_until("the end")
    return terminal.text.partition("the end")[0]


def test_a_build_that_takes_long_is_shown_and_gone_after_it(device, terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal.file)
    monkeypatch.setattr(build_progress, "AFTER", 0)
    monkeypatch.setattr(build_progress, "EVERY", 0.01)
    build, threads = device.driver.build, threading.active_count()

    def slowly(*arguments):
        terminal.read_until(rf"building a program for {re.escape(device.name)}.*0:00:0")
        print("of the program itself", file=terminal.file, flush=True)
        terminal.read_until("of the program itself")
        terminal.read_until("(?s:building a program.*){9}")  # it is drawn again and again
        monkeypatch.setattr(build_progress, "EVERY", 60)  # nobody reads while it builds, and a terminal takes 4 KiB
        return build(*arguments)

    monkeypatch.setattr(device.driver, "build", slowly)
    assert "fill" in device.program(sources.SOURCE).kernel_names
    assert everything_of(terminal).endswith("\x1b[2K"), "the line is erased"
    assert threading.active_count() == threads


def test_a_build_that_fails_leaves_nothing_either(device, terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal.file)
    monkeypatch.setattr(build_progress, "AFTER", 0)

    def fails(*arguments):
        terminal.read_until("building")
        raise KeyboardInterrupt

    monkeypatch.setattr(device.driver, "build", fails)
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        device.program(sources.SOURCE)
    assert everything_of(terminal).endswith("\x1b[2K")
    assert threading.active_count() == threads
    assert not build_progress._shown.locked()


def test_a_short_build_shows_nothing(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal.file)
    with shown_while_building("a program"):
        pass
    assert everything_of(terminal) == ""


@pytest.mark.parametrize("why", ["no terminal", "none at all", "closed", "turned off", "another shows", "dumb"])
def test_nothing_is_shown(terminal, monkeypatch, why):
    monkeypatch.setattr(sys, "stderr", terminal.file)
    monkeypatch.setattr(build_progress, "AFTER", 0)
    other = io.StringIO()
    threads = threading.active_count()
    if why in ("no terminal", "none at all"):
        monkeypatch.setattr(sys, "stderr", other if why == "no terminal" else None)
    elif why == "closed":
        other.close()
        monkeypatch.setattr(sys, "stderr", other)
    elif why == "turned off":
        monkeypatch.setenv("FOREBAY_PROGRESS", "0")
    elif why == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    elif why == "another shows":
        build_progress._shown.acquire()
    try:
        with shown_while_building("a program"):
            assert threading.active_count() == threads + (why == "dumb")
    finally:
        if why == "another shows":
            build_progress._shown.release()
    assert everything_of(terminal) == ""
    assert other.closed or other.getvalue() == ""


class HungUp(io.StringIO):
    """A terminal that nobody has any more."""

    def isatty(self):
        return True

    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_goes_away_ends_no_build(monkeypatch):
    monkeypatch.setattr(build_progress, "AFTER", 0)
    monkeypatch.setattr(sys, "stderr", HungUp())
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    with shown_while_building("a program"):
        for thread in threading.enumerate():
            if thread.name == "forebay progress":
                thread.join()
    assert raised == []
