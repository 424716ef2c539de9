"""Runs the tests in a process of their own. If that hangs or ends, it counts as a failure, and another goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import re
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from forebay.queues.kernels.build import GRACE, ChildProcess
from forebay.selftest import work
from forebay.selftest.work import Begun, Controlled, Ended, Message, Ran, Request

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

MOST_ENDS = 3  # processes that may end by themselves
LAST_WORDS = 4000  # characters that are kept of what a process said
TIMED_OUT = "Timeout ("  # with which faulthandler begins


def supervise(request: Request) -> Iterator[Message]:
    """As `work.work`, for a driver that may hang or end the process. Blocks between messages."""
    began, ends = time.monotonic(), 0
    while True:
        seconds = max(request.seconds - (time.monotonic() - began), 0)
        try:
            process = _Process(dataclasses.replace(request, seconds=seconds))
        except OSError as error:
            yield Ended(0, f"no process could be started: {error}")
            return
        begun, opened = Begun(work.OPENING), False
        try:
            for message in process.messages():
                yield message
                if isinstance(message, Ended):
                    return
                opened = opened or not isinstance(message, Begun)
                if isinstance(message, Begun):
                    begun = message
                request = _after(request, message)
            problem = process.last_words()
        finally:
            process.end()
        ends += 1
        yield Ran(begun.what, begun.number, problem)
        if not opened or ends == MOST_ENDS:
            why = "the device could not be opened" if not opened else f"{ends} processes have ended or hung"
            yield Ended(request.first_round, why)
            return
        request = dataclasses.replace(request, left_out=request.left_out | {begun.what})


def _after(request: Request, message: Message) -> Request:
    """What another process would have to run after this message."""
    if isinstance(message, Ran):
        run = request.run if message.number == request.first_round else frozenset()
        return dataclasses.replace(request, first_round=message.number, run=run | {message.what})
    if isinstance(message, Controlled):
        return dataclasses.replace(request, left_out=request.left_out | {work.CONTROLLING})
    return request


class _Process(ChildProcess):
    def __init__(self, request: Request) -> None:
        super().__init__(__name__)
        self.patience = 2 * request.patience + GRACE
        self.hangs = False
        self.told: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        with contextlib.suppress(OSError):  # it has ended already, which is seen below
            self.connection.send(request)
        threading.Thread(
            target=self._read, daemon=True
        ).start()  # a wait for a connection cannot be interrupted everywhere

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError, TypeError, ValueError):  # TypeError: it was closed meanwhile
            while True:
                self.told.put(self.connection.recv())
        self.told.put(None)

    def messages(self) -> Iterator[Message]:
        """What the process tells, until it ends or tells nothing for too long."""
        while True:
            try:
                message = self.told.get(timeout=self.patience)
            except queue.Empty:
                self.hangs = True
                return
            if message is None:
                return
            yield message

    def last_words(self) -> str:
        """How it ended, and the last that it said, without paths of this machine."""
        if self.hangs:
            return f"hung: the process did not even end itself in {self.patience:.0f} s"
        how, said = self.how_it_ended()
        said = re.sub(r'File "[^"]*?/(forebay/[^"]*|[^"/]*)"', r'File "\1"', said)
        if TIMED_OUT in said:
            how, said = "hung", said[said.index(TIMED_OUT) :]
        else:
            how = f"ended the process: {how}"
        return f"{how}\n{said[-LAST_WORDS:]}".strip()


def serve(connection: Connection) -> None:
    """Do what the other process asks for; what this process is."""
    for message in work.work(connection.recv()):
        connection.send(message)
    os._exit(0)  # everything was told: how a driver takes the end of the interpreter is not what is tested
