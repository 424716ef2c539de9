"""The order of random programs with everything in the mix, by the driver calls that they make.

A program knows by HIP's rules which of its operations must come after which. The record of the driver's calls tells
what each operation submitted, and what that comes after. `Watch` compares the two for every pair: graphs with their
branches, steps that submit later what they collected, memory that was another operation's before, uploads of bytes by
value, scratch that is measured, results, host functions, gates, and several threads at once.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from .happens_before import OrderError, Relation, operations_in


@dataclass(eq=False)
class Operation:
    """One operation of a program."""

    what: str
    handle: int  # of its queue
    after: list  # the operations that it must come after
    calls: int = 0  # what it submitted, as bits: calls of the Relation
    collected: bool = False  # by a step, which has not submitted it yet
    barrier: int | None = None  # the last call by which its queue waited: all of a gate, a host function or a free


@dataclass
class Range:
    """Memory of the device."""

    start: int
    end: int
    before: list  # what used it when it was another allocation's
    users: list = field(default_factory=list)


@dataclass
class Watch:
    """Follows the calls of one program, which may have several threads, on a device that was finished before."""

    calls: object
    pairs: int = 0  # of operations that were judged so far
    ranges: dict = field(default_factory=dict)  # by memory
    gone: list = field(default_factory=list)  # ranges

    def __post_init__(self):
        self.lock = threading.Lock()
        self.relation = Relation([], self.calls.kind)
        self.read = len(self.calls)
        self.current = {}  # by thread: its operation
        self.collected = {}  # by handle: launches in open steps that were not submitted yet, in order
        self.turns = {}  # by handle: the lock of launches that may be collected, of which threads make one at a time
        self.recordings = set()  # handles of what is recorded and not submitted

    def handle_of(self, queue):
        return self.calls.handle_of(queue)

    # -- memory: another allocation may get the same

    def made(self, memory):
        """The memory has the places of others that are gone: what uses it comes after what used those."""
        try:
            start = memory.buffer.address
        except (AttributeError, NotImplementedError):  # the host's, or of a device without addresses
            return
        end = start + memory.buffer.nbytes
        with self.lock:
            before = [each for each in self.gone if each.start < end and start < each.end]
            self.ranges[memory] = Range(start, end, [user for each in before for user in (*each.before, *each.users)])

    def lost(self, memory):
        with self.lock:
            if memory in self.ranges:
                self.gone.append(self.ranges.pop(memory))

    # -- operations

    @contextmanager
    def operation(self, queue, after, memories, what, may_be_collected=False):
        """The calls of this thread in the block are those of one operation."""
        operation = Operation(what, self.handle_of(queue), list(after))
        with self.turns.setdefault(operation.handle, threading.Lock()) if may_be_collected else nullcontext():
            with self.lock:
                self.follow()
                for memory in memories:
                    if memory in self.ranges:
                        operation.after += self.ranges[memory].before
                self.current[threading.get_ident()] = operation
                if may_be_collected:  # or launched at once; and another thread may submit it before this one knows
                    self.collected.setdefault(operation.handle, []).append(operation)
            yield operation
            with self.lock:
                self.follow()
                del self.current[threading.get_ident()]
                if may_be_collected:
                    operation.collected = not operation.calls
                elif not operation.calls and operation.barrier is not None:
                    self.submitted(operation, operation.barrier)
                for memory in memories:
                    if memory in self.ranges:
                        self.ranges[memory].users.append(operation)

    def end(self):
        """All threads have ended."""
        with self.lock:
            self.follow()
            left = [each.what for own in self.collected.values() for each in own]
            if left:
                raise OrderError(f"a step collected these, and they were never submitted: {left}")

    def follow(self):
        """Follow all new calls, each for the operation of the thread that made it."""
        new, self.read = self.calls.take(self.read)
        driver = self.calls.driver
        for call in new:
            number = len(self.relation.after)
            self.relation.follow(call)
            kind = self.calls.kind(call)
            if call.status != 0:
                continue
            if call.name == driver.NEW_RECORDING:
                self.recordings.add(call.detail)
            operation = self.current.get(call.thread)
            if kind == "command" and call.object not in self.recordings:
                waiting = self.collected.get(call.object)
                if waiting and call.name in (driver.LAUNCH, driver.REPLAY):
                    count = 1 if call.name == driver.LAUNCH else len(waiting)
                    for each in waiting[:count]:
                        each.collected = False
                        self.submitted(each, number, waiting[:count])
                    del waiting[:count]
                elif operation is not None:
                    self.submitted(operation, number)
            elif kind == "barrier" and operation is not None and call.object == operation.handle:
                operation.barrier = number

    def submitted(self, operation, number, together=()):
        """A call submitted the operation, or these together: it must come after all that the operation must."""
        ordered = self.relation.after[number]
        for each in operation.after:
            if each in together:
                continue  # in one list, in their order
            if each.collected:
                raise OrderError(f"{operation.what} was submitted before {each.what}, which a step had collected")
            missing = each.calls & ~ordered
            if missing:
                raise OrderError(
                    f"{operation.what} by {self.relation.log[number]} is not ordered after {each.what} by "
                    f"{[self.relation.log[i] for i in operations_in(missing)]}"
                )
            self.pairs += each.calls != 0 and not operation.calls
        operation.calls |= 1 << number
