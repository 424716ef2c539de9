"""What a terminal shows while a program is built, and that nothing else is shown anything."""

import codecs
import contextlib
import errno
import io
import os
import pty
import re
import sys
import threading
from unittest import mock

import pytest

from forebay.queues.kernels import build as building
from forebay.queues.kernels.build import shown_while_building
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

    def everything(self):
        """Return what it has shown so far."""
        print("the end", file=self.file, flush=True)
        self.read_until("the end")
        return self.text.partition("the end")[0]

    def close(self):
        self.file.close()
        os.close(self.end)


@pytest.fixture
def terminal():
    with contextlib.closing(Terminal()) as opened:
        yield opened


@contextlib.contextmanager
def errors_to(file, after=0, term="xterm", **environment):
    """Within the block the standard error is that file, and builds are shown after this number of seconds."""
    with (
        mock.patch.object(sys, "stderr", file),
        mock.patch.multiple(building, AFTER=after, EVERY=0.01),
        mock.patch.dict(os.environ, environment, TERM=term),
    ):
        yield


def test_a_build_that_takes_long_is_shown_and_gone_after_it(device, terminal):
    build, threads = device.driver.build, threading.active_count()

    def slowly(*arguments):
        terminal.read_until(rf"building a program for {re.escape(device.name)}.*0:00:0")
        print("of the program itself", file=terminal.file, flush=True)
        terminal.read_until("of the program itself")
        terminal.read_until("(?s:building a program.*){9}")  # it is drawn again and again
        building.EVERY = 60  # no test reads while it builds, and a terminal takes 4 KiB
        return build(*arguments)

    with errors_to(terminal.file), mock.patch.object(device.driver, "build", slowly):
        assert "fill" in device.program(sources.SOURCE).kernel_names
    assert terminal.everything().endswith("\x1b[2K"), "the line is erased"
    assert threading.active_count() == threads


def test_a_build_that_fails_leaves_nothing_either(device, terminal):
    threads = threading.active_count()

    def fails(*arguments):
        terminal.read_until("building")
        terminal.text = ""
        raise KeyboardInterrupt

    with errors_to(terminal.file), mock.patch.object(device.driver, "build", fails):
        for _ in range(2):  # the second is shown, too
            with pytest.raises(KeyboardInterrupt):
                device.program(sources.SOURCE)
    assert terminal.everything().endswith("\x1b[2K")
    assert threading.active_count() == threads


def closed_file():
    file = io.StringIO()
    file.close()
    return file


@pytest.mark.parametrize(
    ("options", "threads"),
    [
        ({"after": 60}, 1), ({"file": io.StringIO()}, 0), ({"file": None}, 0), ({"file": closed_file()}, 0),
        ({"FOREBAY_PROGRESS": "0"}, 0), ({"term": "dumb"}, 1),
    ],
    ids=["a short build", "no terminal", "none at all", "closed", "turned off", "dumb"],
)  # fmt: skip
def test_nothing_is_shown(terminal, options, threads):
    before = set(threading.enumerate())
    with errors_to(**{"file": terminal.file} | options), shown_while_building("a program"):
        assert len(set(threading.enumerate()) - before) == threads
        with shown_while_building("another at once"):
            assert len(set(threading.enumerate()) - before) == threads
    assert terminal.everything() == ""
    other = options.get("file")
    assert other is None or other.closed or other.getvalue() == ""


class HungUp(io.StringIO):
    """A terminal that nobody has any more."""

    def isatty(self):
        return True

    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_goes_away_ends_no_build():
    with errors_to(HungUp()), mock.patch.object(threading, "excepthook") as raised, shown_while_building("a program"):
        for thread in threading.enumerate():
            if thread.name == "forebay progress":
                thread.join()
    assert raised.call_count == 0
